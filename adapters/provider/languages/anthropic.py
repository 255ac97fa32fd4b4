"""Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http.client import responses
from typing import Any, Final

import orjson

from rungwise.adapters.provider.languages.language import (
    SIGNATURE,
    Language,
    ScriptRequest,
    answer_tokens,
    characters,
    contents_of,
    event,
    input_of,
    split,
    tokens,
)
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.fsm.call.conversation.parts import ToolCall

ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the Anthropic API."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "model: the requested model was not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
STOPS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


class Messages(Language):
    """Write replies as Anthropic's messages."""

    paths = "/messages"

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error."""
        phrase = responses.get(status, "Unknown status")
        kind, message = ERRORS.get(status, ("api_error" if status >= 500 else "invalid_request_error", f"{phrase}."))
        error: dict[str, Any] = {"type": kind, "message": message}
        if fields is not None:
            error |= {name: fields[name] for name in ("type", "message") if name in fields}
            if fields.get("code") is not None:
                error["details"] = {"error_code": fields["code"]}
        return orjson.dumps({"type": "error", "error": error, "request_id": "req_00000000"})

    def whole(self, reply: ScriptedReply, request: ScriptRequest) -> bytes:
        """Return the body of a reply that is not streamed."""
        if reply.error_event is not None:
            return self.error(reply.error_event, 500)
        stop = _stop(reply)
        message = {**_message(reply, request), "content": [*_blocks(reply)], **stop, "usage": _usage(reply, request)}
        if reply.usage == {}:
            del message["usage"]
        return orjson.dumps(message)

    def events(self, reply: ScriptedReply, request: ScriptRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream; unless `done`, the two events that end it are missing."""
        usage = _usage(reply, request)
        begun = {**_message(reply, request), "content": [], **_NO_STOP}
        if usage:
            begun["usage"] = {**usage, "output_tokens": min(1, usage.get("output_tokens", 0))}
            begun["usage"].pop("output_tokens_details", None)
        yield _event("message_start", message=begun)
        yield _event("ping")
        for index, (start, deltas) in enumerate(_streamed(reply)):
            yield _event("content_block_start", index=index, content_block=start)
            yield from (_event("content_block_delta", index=index, delta=delta) for delta in deltas)
            yield _event("content_block_stop", index=index)
        if reply.error_event is not None:
            yield event(self.error(reply.error_event, 500), "error")
        elif reply.done:
            usage_member = {"usage": {"output_tokens": 0, **usage}} if usage else {}
            yield _event("message_delta", delta=_stop(reply), **usage_member)
            yield _event("message_stop")


_NO_STOP: Final[Mapping[str, Any]] = {"stop_reason": None, "stop_sequence": None, "stop_details": None}


def _event(name: str, **members: Any) -> bytes:
    return event({"type": name, **members}, name)


def _message(reply: ScriptedReply, request: ScriptRequest) -> dict[str, Any]:
    model = reply.model or request.model
    return {"id": f"msg_{request.number:024d}", "type": "message", "role": "assistant", "model": model}


def _stop(reply: ScriptedReply) -> dict[str, Any]:
    word = "content_filter" if reply.refusal and reply.finish is None else reply.finish_reason
    reason = None if word is None else STOPS.get(word, word)
    details = None
    if reason == "refusal":
        details = {"type": "refusal", "category": None, "explanation": reply.refusal or None}
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def _thinking(reply: ScriptedReply) -> dict[str, Any]:
    return {"type": "thinking", "thinking": reply.reasoning, "signature": reply.signature or SIGNATURE}


def _blocks(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    if reply.reasoning:
        yield _thinking(reply)
    if reply.text:
        yield {"type": "text", "text": reply.text, "citations": None}
    yield from ({**_tool_use(call), "input": input_of(call.arguments)} for call in reply.tool_calls)


def _streamed(reply: ScriptedReply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the start of each block, with its deltas."""
    size = reply.chunk_size
    if reply.reasoning:
        whole = _thinking(reply)
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in split(reply.reasoning, size)]
        signed = {"type": "signature_delta", "signature": whole["signature"]}
        yield {**whole, "thinking": "", "signature": ""}, [*deltas, signed]
    if reply.text:
        texts = [{"type": "text_delta", "text": piece} for piece in split(reply.text, size)]
        yield {"type": "text", "text": "", "citations": None}, texts
    for call in reply.tool_calls:
        pieces = ["", *split(call.arguments, size)]
        yield (
            {**_tool_use(call), "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in pieces],
        )


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _usage(reply: ScriptedReply, request: ScriptRequest) -> dict[str, Any]:
    if reply.usage is not None:
        return dict(reply.usage)
    usage: dict[str, Any] = {
        "input_tokens": tokens(characters([request.body.get("system"), contents_of(request.body)])),
        "output_tokens": answer_tokens(reply),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    if reply.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": tokens(len(reply.reasoning))}
    return usage


LANGUAGE: Final = Messages()
