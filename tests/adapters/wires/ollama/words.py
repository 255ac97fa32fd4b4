"""What Ollama says at the end of a reply and of what went wrong."""

import json
from typing import Any

from rungwise import Ollama

BACKEND: Any = Ollama("m")
REFUSALS: list[Any] = []
ENDS = [
    ("stop", None, "stop", "answered"),
    ("length", None, "length", "truncated"),
    ("", None, None, "answered"),  # `omitempty`, and servers before 0.1.38
    # in chat's word, from what the cloud passes on
    ("content_filter", None, "content_filter", "refused"),
    ("gremlins", None, "unknown", "ended_unclearly"),
    ("load", None, "stop", "answered"),
    ("connection_closed", None, "unknown", "ended_unclearly"),
    (5, None, "unknown", "ended_unclearly"),
]


def read(*lines: Any) -> Any:
    decoder = BACKEND.decoder({})
    for line in lines:
        decoder.feed(json.dumps(line).encode() + b"\n")
    return decoder.close()


def ended(word: Any, aside: None) -> list[Any]:
    said = {
        "model": "m",
        "message": {"content": "In the reeds."},
        "done": True,
        "done_reason": word,
    }
    return [BACKEND.decode(200, {}, json.dumps(said).encode()), read(said)]


# The wordings of ollama/ollama, server/routes.go, server/sched.go and llm/llama_server.go, but for
# those of ollama.com.
ERRORS = {
    "format": [
        (400, "missing request body"),
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (400, '"all-minilm" does not support chat'),
    ],
    "parameter_unsupported": [
        (400, '"gemma3:4b" does not support thinking'),
        (400, 'think value "low" is not supported for this model'),
    ],
    "context_overflow": [
        (400, "the input length exceeds the context length"),
        (
            400,
            "the prompt is longer than the context length currently available to the model; "
            "shorten the prompt, adjust"
            " the context length in settings, or use a model with a longer context length",
        ),
        (None, "the input length exceeds the context length"),
    ],
    # [NousResearch/hermes-agent #68832, continuedev/continue #9233]: hours or days, so that another
    # backend is asked.
    "billing": [
        (402, "payment required"),
        (
            429,
            "you (heron) have reached your weekly usage limit, upgrade for higher limits: "
            "https://ollama.com/upgrade",
        ),
        (429, "you've reached your hourly usage limit, please wait or upgrade to continue"),
        (403, "this model requires a subscription, upgrade for access: https://ollama.com/upgrade"),
    ],
    "auth": [
        (401, "unauthorized"),
        (403, "ollama cloud is disabled: remote inference is unavailable"),
    ],
    "model_not_found": [
        (404, "model 'llama9' not found"),
        (404, 'model "llama9" not found, try pulling it first'),
    ],
    "rate_limit": [(429, "too many concurrent requests")],
    "unknown": [
        (499, "request canceled"),
        (None, "an error was encountered while running the model: unexpected EOF"),
    ],
    "server_error": [
        (500, "model requires more system memory (8.0 GiB) than is available (3.1 GiB)"),
        (500, "llama-server process has terminated: exit status 2"),
        (502, "upstream error"),
    ],
    "failed_generation": [
        (500, "error parsing tool call: raw='{\"bird\": ', err=unexpected end of JSON input"),
        (
            500,
            'llama-server returned invalid tool call arguments for "look": unexpected end of JSON '
            "input",
        ),
        (None, "error parsing tool call: raw='{', err=unexpected end of JSON input"),
    ],
    "overloaded": [
        (503, "server busy, please try again.  maximum pending requests exceeded"),
        (None, "server busy, please try again.  maximum pending requests exceeded"),
    ],
}
"""Those without a status come within a stream."""


def failed(status: int | None, message: str) -> list[Any]:
    error = {"error": message}
    if status is None:
        body = json.dumps(error).encode()
        said = {"message": {"content": "In the"}}
        return [
            (BACKEND.decode(200, {}, body), {}),
            (read(error), {}),
            (read(said, error, said), {"text": "In the"}),
        ]
    return [(BACKEND.decode(status, {}, json.dumps(error).encode()), {"status": status})]
