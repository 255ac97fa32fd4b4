"""Chat completions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from http.client import responses
from typing import Any, Final

import orjson

from rungwise.adapters.provider.languages.language import (
    CREATED,
    Language,
    ScriptRequest,
    answer_tokens,
    characters,
    contents_of,
    event,
    split,
    tokens,
)
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.fsm.call.conversation.parts import ToolCall

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


class ChatCompletions(Language):
    """Write replies as chat completions."""

    paths = "/chat/completions"
    caps = ("max_tokens", "max_completion_tokens")

    def listing(self, path: str, models: Iterable[str]) -> Any:
        """Return the answer to a GET of this path: the list of models."""
        if not path.endswith("/models"):
            return None
        shared = {"object": "model", "created": CREATED, "owned_by": "rungwise"}
        return {"object": "list", "data": [{"id": model, **shared} for model in models]}

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error."""
        phrase = responses.get(status, "Unknown status")
        other = ("server_error" if status >= 500 else "invalid_request_error", None, f"{phrase}.")
        kind, code, message = ERRORS.get(status, other)
        default = {"message": message, "type": kind, "param": None, "code": code}
        if fields is not None:
            # The default code belongs to the default message; it might contradict another one.
            default = {**default, "code": None, **fields}
        return orjson.dumps({"error": default})

    def whole(self, reply: ScriptedReply, request: ScriptRequest) -> bytes:
        """Return the body of a reply that is not streamed."""
        if reply.error_event is not None:
            usage = {} if reply.usage is None else {"usage": dict(reply.usage)}
            return orjson.dumps({**orjson.loads(self.error(reply.error_event, 500)), **usage})
        return orjson.dumps(_completion(reply, request.body, _envelope(reply, request)))

    def events(self, reply: ScriptedReply, request: ScriptRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream."""
        envelope: dict[str, Any] = {**_envelope(reply, request), "object": "chat.completion.chunk"}
        options = request.body.get("stream_options")
        reports = isinstance(options, Mapping) and options.get("include_usage") is True
        usage = _usage(reply, request.body) if reports else None
        if usage:
            envelope = {**envelope, "usage": None}
        for delta in _deltas(reply):
            yield event({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if reply.error_event is not None:
            if usage and reply.usage is not None:
                yield event({**envelope, "choices": [], "usage": usage})
            yield event(self.error(reply.error_event, 500))
        else:
            choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
            whole = reply.final_message not in (None, False)
            if whole:
                content = reply.text if reply.final_message is True else reply.final_message
                choice["message"] = {"role": "assistant", "content": content}
            if whole or reply.finish_reason is not None:
                yield event({**envelope, "choices": [choice]})
            if usage:
                yield event({**envelope, "choices": [], "usage": usage})
        if reply.done:
            yield event(b"[DONE]")


def _envelope(reply: ScriptedReply, request: ScriptRequest) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{request.number:08d}",
        "object": "chat.completion",
        "created": CREATED,
        "model": reply.model or request.model,
    }


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


def _deltas(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    size = reply.chunk_size
    yield {"role": "assistant", "content": ""}
    yield from (_reasoning(reply, piece) for piece in split(reply.reasoning, size))
    yield from ({"content": piece} for piece in split(reply.text, size))
    yield from ({"refusal": piece} for piece in split(reply.refusal, size))
    for index, call in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index, **_tool_call(call, "")}]}
        for piece in split(call.arguments, size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _tool_call(call: ToolCall, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _reasoning(reply: ScriptedReply, text: str) -> dict[str, Any]:
    if reply.reasoning_field == "reasoning_details":
        return {"reasoning_details": [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]}
    return {reply.reasoning_field: text}


def _usage(reply: ScriptedReply, request: Mapping[str, Any]) -> dict[str, Any]:
    if reply.usage is not None:
        return dict(reply.usage)
    prompt, completion = tokens(characters(contents_of(request))), answer_tokens(reply)
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    if reply.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": tokens(len(reply.reasoning))}
    return {**usage, "total_tokens": prompt + completion}


LANGUAGE: Final = ChatCompletions()
