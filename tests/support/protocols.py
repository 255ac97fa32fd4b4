"""The protocols, and readers of a request in any of them."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import evolve

import rungwise
from rungwise.adapters.gateway.languages import language_of
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import render
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.replies.parts import Message
from rungwise.testing import ReceivedRequest

BACKENDS: Final[Mapping[str, str]] = {
    "openai": "OpenAIChat",
    "responses": "OpenAIResponses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "interactions": "GeminiInteractions",
    "ollama": "Ollama",
    "bedrock": "Bedrock",
}
"""The class of each protocol by its name on the command line."""

PROTOCOLS: Final = tuple(api for api, name in BACKENDS.items() if hasattr(rungwise, name))
KEY: Final = "Qk-9d2f6b1c44e07a35"
"""The key of every backend. No text of a test ends with its first letter: the proxy would hold that
back until it knows what follows.
"""

_CONVERSATIONS: Final = ("messages", "input", "contents")
_CAPS: Final = (
    ("max_tokens",),
    ("max_completion_tokens",),
    ("max_output_tokens",),
    ("generationConfig", "maxOutputTokens"),
    ("generation_config", "max_output_tokens"),
    ("options", "num_predict"),
    ("inferenceConfig", "maxTokens"),
)


def chat_call(id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    """Return a tool call in the words of chat completions."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


OPEN: Final[Mapping[str, list[Any]]] = {
    "openai": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [chat_call("c1", "look_up")],
        }
    ],
    "responses": [
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "look_up",
            "arguments": "{}",
        }
    ],
    "anthropic": [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "c1",
                    "name": "look_up",
                    "input": {},
                }
            ],
        }
    ],
    "gemini": [
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {
                        "id": "c1",
                        "name": "look_up",
                        "args": {},
                    }
                }
            ],
        }
    ],
    "interactions": [
        {
            "type": "function_call",
            "id": "c1",
            "name": "look_up",
            "arguments": {},
        }
    ],
    "ollama": [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "look_up", "arguments": {}}}],
        }
    ],
    "bedrock": [
        {
            "role": "assistant",
            "content": [
                {
                    "toolUse": {
                        "toolUseId": "c1",
                        "name": "look_up",
                        "input": {},
                    }
                }
            ],
        }
    ],
}
"""An unanswered tool call in each protocol's own form."""


def backend(api: str, base_url: str, **options: Any) -> Any:
    """Return a backend of a protocol at a base URL of the embedded provider."""
    given = {"model": "m", "name": "primary", "api_key": KEY, **options}
    if api == "bedrock":
        given["region"] = "eu-north-1"
    return getattr(rungwise, BACKENDS[api])(base_url=base_url, **given)


def said(request: ReceivedRequest) -> tuple[Message, ...]:
    """Return the conversation in a request, as neutral parts."""
    given = next(request.body[name] for name in _CONVERSATIONS if name in request.body)
    return read_messages([{"role": "user", "content": given}] if isinstance(given, str) else given)


def cap(request: ReceivedRequest) -> int | None:
    """Return the output cap of a request."""
    for path in _CAPS:
        value: Any = request.body
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, int):
            return value
    return None


def model_of(request: ReceivedRequest) -> str:
    """Return the model of a request, from its body or its path."""
    for mark in ("/models/", "/model/"):
        if mark in request.path:
            return request.path.partition(mark)[2].partition(":")[0].partition("/")[0]
    return str(request.body["model"])


def streams(request: ReceivedRequest) -> bool:
    """Tell whether a request asks for a stream, by its body or its path."""
    language = language_of(request.path)
    assert language is not None
    return language.read_request(request.path.partition("?")[0], request.body, 1).streams


def cut_in_half(
    reply: ScriptedReply, *, hang: bool = False
) -> Callable[[ReceivedRequest], ScriptedReply]:
    """Cut a reply after the event in its middle, in the protocol of the request."""

    def answer(request: ReceivedRequest) -> ScriptedReply:
        pieces = render(reply, request.body, path=request.path).pieces
        half = (
            pieces[: len(pieces) // 2] if len(pieces) > 1 else (pieces[0][: len(pieces[0]) // 2],)
        )
        return evolve(reply, cut_after=sum(map(len, half)), hang=hang)

    return answer


def sending(request: Request, **fields: Any) -> Send:
    """Return what a call sends at first for a request; fields of `Send` win."""
    given = {
        "messages": request.messages,
        "max_tokens": request.max_tokens,
        **fields,
    }
    return Send(rung="ask", backend=0, wait=0.0, request=request, **given)


def encoded(backend: Any, *messages: Any, stream: bool = False, **fields: Any) -> Any:
    """Return the HTTP request of a first attempt; what is no field of `Send` is the request's."""
    asked = {
        name: fields.pop(name) for name in ("tools", "parameters", "headers") if name in fields
    }
    return backend.encode(sending(Request(messages or "hi", **asked), **fields), stream=stream)


def body_of(backend: Any, *messages: Any, **fields: Any) -> Any:
    """Return the body of the same."""
    return json.loads(encoded(backend, *messages, **fields).body)
