"""What Converse says at the end of a reply and of what went wrong."""

import json
from typing import Any

from rungwise import Bedrock
from rungwise.adapters.gateway.languages.bedrock import frame

BACKEND: Any = Bedrock(
    "anthropic.claude-opus-5-5", region="eu-north-1", base_url="http://localhost/v1", api_key="k9d2"
)
TEXT = {"text": "In the reeds."}
USE = {
    "toolUse": {
        "toolUseId": "tooluse_1",
        "name": "look",
        "input": {"bird": "heron"},
    }
}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}
USAGE = {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}
START = frame("messageStart", {"role": "assistant"})
REFUSALS: list[Any] = []
ENDS = [
    ("end_turn", [TEXT], "stop", "answered"),
    ("end_turn", [], "stop", "came_empty"),
    ("stop_sequence", [TEXT], "stop", "answered"),
    ("max_tokens", [TEXT], "length", "truncated"),
    ("max_tokens", [USE], "length", "tools_truncated"),
    ("max_tokens", [THOUGHT], "length", "reasoning_truncated"),
    ("tool_use", [TEXT, USE], "tool_calls", "called_tools"),
    ("guardrail_intervened", [TEXT], "content_filter", "refused"),
    ("content_filtered", [], "content_filter", "refused"),
    ("model_context_window_exceeded", [TEXT], "overflow", "overflowed"),
    ("malformed_model_output", [], "error", "failed_transiently", "failed_generation"),
    ("malformed_tool_use", [USE], "error", "failed_transiently", "failed_generation"),
    ("malformed_tool_use", [TEXT, USE], "error", "interrupted", "failed_generation"),
    ("gremlins", [TEXT], "unknown", "ended_unclearly"),
    (7, [TEXT], "unknown", "ended_unclearly"),
    (None, [TEXT], None, "answered"),
]


def read(stream: bytes) -> Any:
    decoder = BACKEND.decoder({})
    decoder.feed(stream)
    return decoder.close()


def delta(index: int, block: Any) -> bytes:
    return frame(
        "contentBlockDelta",
        {
            "contentBlockIndex": index,
            "delta": block,
            "p": "abc",
        },
    )


def ended(stop: Any, content: list[Any]) -> list[Any]:
    said = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop,
        "usage": USAGE,
    }
    pieces = [START]
    for index, block in enumerate(content):
        if block is USE:
            start = {"toolUse": {**USE["toolUse"], "input": None}}
            pieces.append(frame("contentBlockStart", {"contentBlockIndex": index, "start": start}))
            pieces.append(delta(index, {"toolUse": {"input": json.dumps(USE["toolUse"]["input"])}}))
        elif block is THOUGHT:
            pieces += [
                delta(index, {"reasoningContent": each})
                for each in ({"text": "Hm."}, {"signature": "s"})
            ]
        else:
            pieces.append(delta(index, block))
        pieces.append(frame("contentBlockStop", {"contentBlockIndex": index}))
    pieces.append(frame("messageStop", {"stopReason": stop}))
    pieces.append(frame("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}}))
    return [BACKEND.decode(200, {}, json.dumps(said).encode()), read(b"".join(pieces))]


INVALID = "ValidationException"
ERRORS = {
    "format": [(400, INVALID, "The model returned the following errors: bad")],
    "context_overflow": [
        (400, INVALID, "Input is too long for requested model."),
        (400, INVALID, "prompt is too long: 210000 tokens > 200000 maximum"),
        (None, "validationException", "Input is too long for requested model."),
    ],
    "model_not_found": [
        (400, INVALID, "The provided model identifier is invalid."),
        (404, "ResourceNotFoundException", "Model not found."),
    ],
    "prefill_unsupported": [
        (
            400,
            INVALID,
            "This model does not support assistant message prefill. The conversation must end "
            "with a user",
        ),
    ],
    "reasoning_signature": [
        (400, INVALID, "messages.1.content.0: Invalid `signature` in `thinking` block")
    ],
    "rate_limit": [
        (400, "ServiceQuotaExceededException", "Your request exceeds the service quota."),
        (429, "ThrottlingException", "Too many requests, please wait before trying again."),
        (429, "ThrottlingException", "Too many tokens, please wait before trying again."),
        (None, "throttlingException", "Too many tokens, please wait before trying again."),
    ],
    "auth": [
        (403, "AccessDeniedException", "You don't have access to the model."),
        (
            403,
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        ),
        (403, "ExpiredTokenException", "The security token included in the request is expired"),
    ],
    "timeout": [
        (408, "ModelTimeoutException", "Model has timed out."),
        (None, "modelTimeoutException", "The model has timed out."),
    ],
    "server_error": [
        (424, "ModelErrorException", "The model had an error."),
        (500, "InternalServerException", "The server had an internal error."),
        (None, "internalServerException", "Sorry."),
        (None, "modelStreamErrorException", "The model broke off."),
    ],
    "overloaded": [
        (429, "ModelNotReadyException", "The model is not ready for inference."),
        (503, "ServiceUnavailableException", "Bedrock is unable to process your request."),
        (None, "serviceUnavailableException", "Try again."),
    ],
}
"""Those without a status are exceptions within a stream."""


def failed(status: int | None, kind: str, message: str) -> list[Any]:
    if status is None:
        raised = frame(kind, {"message": message}, is_exception=True)
        after = (
            read(START + delta(0, {"text": "In the"}) + raised),
            {"code": kind, "text": "In the"},
        )
        return [(read(START + raised), {"code": kind}), after]
    named = [
        ({"x-amzn-errortype": f"{kind}:http://internal.amazon.com/"}, {"message": message}),
        ({}, {"message": message, "__type": f"com.amazon#{kind}"}),
    ]
    known = {"code": kind, "status": status}
    return [
        (BACKEND.decode(status, headers, json.dumps(body).encode()), known)
        for headers, body in named
    ]
