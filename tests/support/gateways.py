"""Chains behind the official SDKs: a transport over scripted servers, and what no request to them
may hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import httpx

from rungwise import Client, Policy, Transport
from rungwise.adapters.gateway.languages.anthropic import ERRORS
from rungwise.testing import ReceivedRequest
from support import protocols, sdks
from support.clocked import clocked
from support.modes import waits_into
from support.runs import NAMES, Scripted, Stage
from support.tables import of_known_rungs

TOOL_PARAMETERS: Final = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
    "additionalProperties": False,
}
TOOLS: Final[dict[str, list[Any]]] = {
    "openai": [
        {
            "type": "function",
            "function": {
                "name": "look",
                "description": "Look.",
                "parameters": TOOL_PARAMETERS,
            },
        }
    ],
    "responses": [
        {
            "type": "function",
            "name": "look",
            "description": "Look.",
            "parameters": TOOL_PARAMETERS,
            "strict": True,
        }
    ],
    "anthropic": [
        {
            "name": "look",
            "description": "Look.",
            "input_schema": TOOL_PARAMETERS,
        }
    ],
    "gemini": [
        {
            "function_declarations": [
                {
                    "name": "look",
                    "description": "Look.",
                    "parameters_json_schema": TOOL_PARAMETERS,
                }
            ]
        }
    ],
    "interactions": [
        {
            "type": "function",
            "name": "look",
            "description": "Look.",
            "parameters": TOOL_PARAMETERS,
        }
    ],
}
"""The same tool in the form of each SDK."""
OWN: Final[Mapping[str, dict[str, Any]]] = {
    "openai": {
        "temperature": 0.5,
        "top_p": 0.6,
        "seed": 7,
        "stop": ["END"],
        "max_tokens": 77,
        "reasoning_effort": "low",
        "tools": TOOLS["openai"],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.25,
        "logit_bias": {"5": 1},
        "verbosity": "low",
        "prediction": {"type": "content", "content": "In"},
        "top_k": 5,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "thinking": {"type": "enabled"},
        "chat_template_kwargs": {"a": 1},
        "enable_thinking": True,
        "provider": {"order": ["a"]},
        "models": ["b"],
        "transforms": [],
        "user": "u",
        "metadata": {"a": "b"},
        "store": True,
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "safety_identifier": "s",
    },
    "responses": {
        "temperature": 0.5,
        "top_p": 0.6,
        "max_output_tokens": 77,
        "parallel_tool_calls": False,
        "tools": TOOLS["responses"],
        "tool_choice": "required",
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "text": {"verbosity": "low"},
        "truncation": "auto",
        "metadata": {"a": "b"},
        "user": "u",
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "safety_identifier": "s",
    },
    "anthropic": {
        "system": "Be short.",
        "stop_sequences": ["END"],
        "max_tokens": 9_000,
        "tools": TOOLS["anthropic"],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "metadata": {"user_id": "u"},
        "service_tier": "auto",
        "cache_control": {"type": "ephemeral"},
        "inference_geo": "eu",
        "speed": "fast",
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be short."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "look", "parameters": {"type": "OBJECT", "properties": {}}}
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "labels": {"a": "b"},
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.6,
            "seed": 7,
            "stopSequences": ["END"],
            "maxOutputTokens": 77,
            "topK": 5,
            "presencePenalty": 0.25,
            "frequencyPenalty": 0.5,
            "thinkingConfig": {"thinkingBudget": 128, "includeThoughts": True},
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
        },
    },
    "interactions": {
        "system_instruction": "Be short.",
        "tools": TOOLS["interactions"],
        "safety_settings": [{"type": "harassment", "threshold": "off"}],
        "labels": {"a": "b"},
        "service_tier": "flex",
        "generation_config": {
            "temperature": 0.5,
            "top_p": 0.6,
            "seed": 7,
            "stop_sequences": ["END"],
            "max_output_tokens": 77,
            "tool_choice": "any",
            "thinking_level": "low",
            "thinking_summaries": "auto",
        },
    },
}
"""Every field that a chain can express, in each protocol."""


def asking_for(schema: Any) -> dict[str, dict[str, Any]]:
    """Return the fields of each protocol that ask for JSON of a schema."""
    form = {"type": "json_schema", "schema": schema}
    named = {"name": "bird", "schema": schema}
    return {
        "openai": {"response_format": {"type": "json_schema", "json_schema": named}},
        "responses": {"text": {"format": {**form, "name": "bird"}}},
        "anthropic": {"output_config": {"format": form}},
        "gemini": {"response_mime_type": "application/json", "response_json_schema": schema},
        "interactions": {
            "response_format": {"type": "text", "mime_type": "application/json", "schema": schema}
        },
    }


def backends(apis: Sequence[str], stages: Sequence[Stage], **options: Any) -> list[Any]:
    """Return a chain over scripted servers."""
    return [
        protocols.backend(
            api, stage.provider.base_url, model=f"model-{number}", name=NAMES[number], **options
        )
        for number, (api, stage) in enumerate(zip(apis, stages, strict=False))
    ]


def client_over(apis: Sequence[str], stages: Sequence[Stage], **options: Any) -> Client:
    """Return a client that waits for nothing, without rungs that tests do not know."""
    options["policy"] = of_known_rungs(options.get("policy"))
    return Client(backends(apis, stages), **clocked({**waits_into([]), **options}))


@contextmanager
def chained(
    stages: Sequence[Stage],
    *links: tuple[str, Sequence[Scripted]],
    hold: bool = False,
    **options: Any,
) -> Iterator[Transport]:
    """Play a script at each backend of a chain, and yield a transport to it; check what the servers
    were sent.

    Arguments:
        links: the protocol of each backend, and its script.
        hold: of the transport.
        options: for the client.
    """
    used = list(stages[: len(links)])
    for stage, (_, script) in zip(used, links, strict=True):
        stage.play(script)
    with client_over([api for api, _ in links], used, **options) as client:
        yield Transport(client, hold=hold)
    for request in (each for stage in used for each in stage.requests):
        no_secret_in(request)


def asked(
    stages: Sequence[Stage],
    api: str,
    way: str,
    *links: tuple[str, Sequence[Scripted]],
    hold: bool = False,
    policy: Policy | None = None,
    **fields: Any,
) -> sdks.Seen:
    """Ask once with an SDK over such a chain.

    Arguments:
        fields: of the request.
    """
    with chained(stages, *links, hold=hold, policy=policy) as transport:
        return sdks.ask(api, way, transport=transport, **fields)


def posted(
    stages: Sequence[Stage],
    link: tuple[str, Sequence[Scripted]],
    api: str,
    body: Any,
    **options: Any,
) -> httpx.Response:
    """Send a body as no SDK would write it over a chain of one backend."""
    with chained(stages, link) as transport:
        return post(transport, api, body, **options)


def no_secret_in(request: ReceivedRequest) -> None:
    """Check that the program's key is nowhere in a request to a backend, and the backend's own
    is.
    """
    shown = json.dumps([request.path, dict(request.headers), request.body])
    assert sdks.KEY not in shown
    is_signed = "/converse" in request.path
    assert is_signed or protocols.KEY in json.dumps(dict(request.headers))


PATHS: Final = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/asked-for:generateContent",
    "interactions": "/v1beta/interactions",
}
"""Where a request of each protocol goes."""


def written(api: str, text: str = sdks.QUESTION, /, **fields: Any) -> dict[str, Any]:
    """Return the body of a request as it is on the wire."""
    if api == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}], **fields}
    body = sdks.asking(api, text, **fields)
    return (
        {**body, "input": text} if api == "responses" and isinstance(body["input"], str) else body
    )


def path_of(api: str, *, streams: bool = False) -> str:
    """Return the path and query of a request."""
    path = PATHS[api]
    return (
        f"{path.replace(':generate', ':streamGenerate')}?alt=sse"
        if streams and api == "gemini"
        else path
    )


def post(
    transport: Any,
    api: str,
    body: Any,
    *,
    streams: bool = False,
    headers: Any = (),
) -> httpx.Response:
    """Send a body through a transport as no SDK would write it, and read the whole response.

    Arguments:
        body: bytes, or a value that is sent as JSON.
        streams: whether the answer is to be streamed.
        headers: of the request; its key is in each place where a protocol may have it.
    """
    if streams and api != "gemini" and isinstance(body, dict):
        body = {**body, "stream": True}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    keys = {
        "authorization": f"Bearer {sdks.KEY}",
        "x-api-key": sdks.KEY,
        "x-goog-api-key": sdks.KEY,
    }
    given = {"content-type": "application/json", **keys, **dict(headers)}
    # not closed: that would close the transport
    client = httpx.Client(transport=transport, timeout=None)
    return client.post(sdks.HOST + path_of(api, streams=streams), content=content, headers=given)


def fault_of(api: str, response: httpx.Response) -> str:
    """Return the message of an error, and check that it has its protocol's shape."""
    body = response.json()
    match api:
        case "anthropic":
            assert body["type"] == "error"
            assert body["error"]["type"] in {kind for kind, _ in ERRORS.values()}
        case "gemini" | "interactions":
            assert body["error"]["code"] == response.status_code
            assert body["error"]["status"].isupper()
        case _:
            assert {"message", "type", "param", "code"} <= body["error"].keys()
    assert response.headers["x-should-retry"] == "false"
    message = body["error"]["message"]
    assert isinstance(message, str)
    return message
