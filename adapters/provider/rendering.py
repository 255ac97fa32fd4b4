"""Write the body of a scripted reply as the bytes of chat completions, before any accident happens to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from http.client import responses
from io import BytesIO
from itertools import cycle
from typing import Any, Final

import orjson
from attrs import field, frozen

from rungwise.adapters.provider.script import ScriptedReply
from rungwise.fsm.call.parts import ToolCall

CREATED: Final = 1_750_000_000  # fixed, so that `cut_after` cuts at the same place in every run
DEFAULT_MODEL: Final = "embedded"
CHARACTERS_PER_TOKEN: Final = 4

ERRORS: Final[Mapping[int, tuple[str, str | None, str]]] = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    402: ("insufficient_quota", "insufficient_quota", "The account has no credit left."),
    403: ("invalid_request_error", "permission_denied", "You are not allowed to use this resource."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    413: ("invalid_request_error", "payload_too_large", "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", "server_is_overloaded", "The server is overloaded."),
    529: ("overloaded_error", None, "The server is overloaded."),
}


@frozen
class Rendered:
    """Hold the body of one response as the pieces in which it is written."""

    content_type: str
    pieces: tuple[bytes, ...] = field(repr=False)

    @property
    def body(self) -> bytes:
        """Return the whole body; an index into it is what `cut_after` counts."""
        return b"".join(self.pieces)


def render(reply: ScriptedReply, request: Mapping[str, Any], number: int = 1) -> Rendered:
    """Write the body of a reply, before any cut.

    Arguments:
        reply: what the script says.
        request: the body of the request; its `model`, `messages`, `stream` and `stream_options` matter.
        number: the number of the request, counted from 1, which goes into the reply's id.
    """
    envelope: dict[str, Any] = {
        "id": f"chatcmpl-{number:08d}",
        "object": "chat.completion",
        "created": CREATED,
        "model": reply.model or str(request.get("model") or DEFAULT_MODEL),
    }
    pieces: Iterable[bytes]
    if reply.body is not None:
        kind, pieces = _guess_type(reply.body), [reply.body.encode()]
    elif reply.status != 200 or reply.error is not None:
        kind, pieces = "application/json", [_error(reply.error, reply.status)]
    elif request.get("stream") is True:
        kind, pieces = "text/event-stream", _events(reply, request, {**envelope, "object": "chat.completion.chunk"})
    elif reply.error_event is not None:
        kind, pieces = "application/json", [_error(reply.error_event, 500)]
    else:
        kind, pieces = "application/json", [orjson.dumps(_completion(reply, request, envelope))]
    if reply.write_sizes:
        pieces = _resized(b"".join(pieces), reply.write_sizes)
    return Rendered(kind, tuple(pieces))


def _guess_type(body: str) -> str:
    start = body.lstrip()[:6]
    if start.startswith(("{", "[")):
        return "application/json"
    if start.startswith(("data:", "event:", ":")):
        return "text/event-stream"
    return "text/html" if start.startswith("<") else "text/plain"


def _error(given: Mapping[str, Any] | None, status: int) -> bytes:
    phrase = responses.get(status, "Unknown status")
    other = ("server_error" if status >= 500 else "invalid_request_error", None, f"{phrase}.")
    kind, code, message = ERRORS.get(status, other)
    default = {"message": message, "type": kind, "param": None, "code": code}
    if given is not None:
        # The default code belongs to the default message; beside another one it might contradict.
        default = {**default, "code": None, **given}
    return orjson.dumps({"error": default})


def _completion(reply: ScriptedReply, request: Mapping[str, Any], envelope: dict[str, Any]) -> dict[str, Any]:
    silent = reply.tool_calls or reply.refusal
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or (None if silent else "")}
    if reply.reasoning:
        message |= _reasoning(reply, reply.reasoning)
    if reply.refusal:
        message["refusal"] = reply.refusal
    if reply.tool_calls:
        message["tool_calls"] = [_tool_call(call, call.arguments) for call in reply.tool_calls]
    usage = _usage(reply, request)
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return {**envelope, "choices": [choice], **({"usage": usage} if usage else {})}


def _events(reply: ScriptedReply, request: Mapping[str, Any], envelope: dict[str, Any]) -> Iterator[bytes]:
    options = request.get("stream_options")
    usage = _usage(reply, request) if isinstance(options, Mapping) and options.get("include_usage") is True else None
    if usage:
        envelope = {**envelope, "usage": None}
    for delta in _deltas(reply):
        yield _event(orjson.dumps({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
    if reply.error_event is not None:
        yield _event(_error(reply.error_event, 500))
    else:
        choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
        whole = reply.final_message not in (None, False)
        if whole:
            content = reply.text if reply.final_message is True else reply.final_message
            choice["message"] = {"role": "assistant", "content": content}
        if whole or reply.finish_reason is not None:
            yield _event(orjson.dumps({**envelope, "choices": [choice]}))
        if usage:
            yield _event(orjson.dumps({**envelope, "choices": [], "usage": usage}))
    if reply.done:
        yield _event(b"[DONE]")


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _deltas(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    size = reply.chunk_size
    yield {"role": "assistant", "content": ""}
    for piece in _split(reply.reasoning, size):
        yield _reasoning(reply, piece)
    for piece in _split(reply.text, size):
        yield {"content": piece}
    for piece in _split(reply.refusal, size):
        yield {"refusal": piece}
    for index, call in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index, **_tool_call(call, "")}]}
        for piece in _split(call.arguments, size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _tool_call(call: ToolCall, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _split(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _reasoning(reply: ScriptedReply, text: str) -> dict[str, Any]:
    if reply.reasoning_field == "reasoning_details":
        return {"reasoning_details": [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]}
    return {reply.reasoning_field: text}


def _usage(reply: ScriptedReply, request: Mapping[str, Any]) -> dict[str, Any]:
    if reply.usage is not None:
        return dict(reply.usage)
    messages = request.get("messages")
    messages = messages if isinstance(messages, list) else []
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    calls = sum(len(call.name) + len(call.arguments) for call in reply.tool_calls)
    prompt = _tokens(sum(map(_characters, contents)))
    completion = _tokens(len(reply.text) + len(reply.reasoning) + len(reply.refusal) + calls)
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    if reply.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": _tokens(len(reply.reasoning))}
    return {**usage, "total_tokens": prompt + completion}


def _characters(content: object) -> int:
    if isinstance(content, list):
        return sum(_characters(part.get("text")) for part in content if isinstance(part, Mapping))
    return len(content) if isinstance(content, str) else 0


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _resized(body: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    rest, turns = BytesIO(body), cycle(sizes)
    return iter(lambda: rest.read(next(turns)), b"")
