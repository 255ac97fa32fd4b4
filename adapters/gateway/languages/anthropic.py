"""Anthropic's Messages.

A stream is a list of named server-sent events. `message_start` has an empty message with the usage
of the prompt. Then each block begins (`content_block_start`), grows (`content_block_delta`) and
ends (`content_block_stop`), one after the other by their `index`. `message_delta` has the stop
reason and the usage of the output, `message_stop` is the end. An `error` may come at any time. A
block of reasoning is signed by a last delta.

Source: docs.anthropic.com/en/api/messages-streaming.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from http.client import responses
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.language import (
    SIGNATURE,
    AnswerRequest,
    AnswerStream,
    Completion,
    SpokenLanguage,
    billed_beside,
    contents_of,
    estimated,
    event,
    input_of,
    tokens,
)
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.usage import Usage

ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the Anthropic API."),
    403: (
        "permission_error",
        "Your API key does not have permission to use the specified resource.",
    ),
    404: ("not_found_error", "model: the requested model was not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: (
        "rate_limit_error",
        "This request would exceed your account's rate limit. Please try again later.",
    ),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
STOPS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_NO_REQUESTS: Final = {"web_search_requests": 0, "web_fetch_requests": 0}
"""The requests of tools that the usage counts, or none of them."""


class _Messages(SpokenLanguage):
    """Write answers as messages."""

    api = "anthropic"
    paths = "/messages"
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error; a code of ours stands in its details."""
        other = "api_error" if status >= 500 else "invalid_request_error"
        phrase = responses.get(status, "Unknown status")
        kind, message = ERRORS.get(status, (other, f"{phrase}."))
        error: dict[str, Any] = {"type": kind, "message": message}
        if fields is not None:
            for name, value in fields.items():
                if name not in ("code", "param"):
                    error[name] = value
            if fields.get("code") is not None:
                error["details"] = {"error_code": fields["code"]}
        return orjson.dumps(
            {
                "type": "error",
                "error": error,
                "request_id": "req_00000000",
            }
        )

    def counts(self, usage: Usage) -> dict[str, Any]:
        """Return token counts in this protocol's form, where cached tokens are counted beside the
        input.
        """
        cached = usage.cache_read_tokens + usage.cache_creation_tokens
        fresh = max(0, usage.input_tokens - cached)
        long = usage.cache_creation_long_tokens
        counts: dict[str, Any] = {
            "input_tokens": fresh,
            "output_tokens": usage.output_tokens,
            "cache_creation_input_tokens": usage.cache_creation_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
        }
        if long:
            counts["cache_creation"] = {
                "ephemeral_5m_input_tokens": usage.cache_creation_tokens - long,
                "ephemeral_1h_input_tokens": long,
            }
        billed = billed_beside(usage)
        if "server_tool_use" in billed:
            billed["server_tool_use"] = {**_NO_REQUESTS, **billed["server_tool_use"]}
        return counts | billed

    def whole(self, answer: Completion, request: AnswerRequest) -> bytes:
        """Return the body of an answer that is not streamed."""
        if answer.error_event is not None:
            return self.error(answer.error_event, 500)
        message = _message(answer, request)
        message["content"] = list(_blocks(answer))
        message |= _stop(answer)
        if answer.usage != {}:
            message["usage"] = _usage(answer, request)
        return orjson.dumps(message)

    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        """Begin to write a message that is streamed."""
        return _MessageStream(request, answer)


class _MessageStream(AnswerStream):
    """Write a message block by block; reasoning whose signature is not known yet stays open until
    the end.
    """

    _index = -1
    _kind = ""  # of the block that is open
    _has_thought = False
    _unsigned: int | None = None  # the block of reasoning that stays open

    def begin(self) -> Iterator[bytes]:
        """Begin the message. The output tokens so far are one: Anthropic counts from there."""
        begun = _message(self.answer, self.request)
        begun["content"] = []
        for name in ("stop_reason", "stop_sequence", "stop_details"):
            begun[name] = None
        usage = _usage(self.answer, self.request)
        if usage:
            usage["output_tokens"] = min(1, usage.get("output_tokens", 0))
            usage.pop("output_tokens_details", None)
            begun["usage"] = usage
        yield _event("message_start", message=begun)
        yield _event("ping")

    def reasoning(self, piece: str) -> Iterator[bytes]:
        """Add reasoning to the block that is open for it; its signature comes at the end."""
        yield from self._open(
            "thinking",
            {
                "type": "thinking",
                "thinking": "",
                "signature": "",
            },
        )
        yield self._delta(type="thinking_delta", thinking=piece)

    def text(self, piece: str) -> Iterator[bytes]:
        """Add text to the block that is open for it."""
        yield from self._open(
            "text",
            {
                "type": "text",
                "text": "",
            },
        )
        yield self._delta(type="text_delta", text=piece)

    def call(self, call: ToolCall, pieces: Iterable[str]) -> Iterator[bytes]:
        """Write a block for a call. Its arguments are a text that grows, from "" on."""
        if self.answer.signature and not self._has_thought:  # the reasoning before it has no words
            yield from self._open(
                "thinking",
                {
                    "type": "thinking",
                    "thinking": "",
                    "signature": "",
                },
            )
        yield from self._open("", {**_tool_use(call), "input": {}})
        for piece in ("", *pieces):
            yield self._delta(type="input_json_delta", partial_json=piece)

    def end(self) -> Iterator[bytes]:
        """End the message: first the reasoning that waited for its signature."""
        answer = self.answer
        yield from self._close()
        if self._unsigned is not None:
            if answer.signature:
                signed = {"type": "signature_delta", "signature": answer.signature}
                yield _event("content_block_delta", index=self._unsigned, delta=signed)
            yield _event("content_block_stop", index=self._unsigned)
        if answer.error_event is not None:
            yield event(LANGUAGE.error(answer.error_event, answer.error_status), "error")
        elif answer.done:
            members: dict[str, Any] = {"delta": _stop(answer)}
            usage = _usage(answer, self.request)
            if usage:
                members["usage"] = {"output_tokens": 0, **usage}
            yield _event("message_delta", **members)
            yield _event("message_stop")

    def _open(self, kind: str, block: Mapping[str, Any]) -> Iterator[bytes]:
        """Begin a block, unless one of its kind is open that goes on."""
        if kind and kind == self._kind:
            return
        yield from self._close()
        self._index += 1
        self._kind = kind or "tool_use"
        self._has_thought = self._has_thought or kind == "thinking"
        yield _event("content_block_start", index=self._index, content_block=block)

    def _close(self) -> Iterator[bytes]:
        """End the block that is open, unless it is the first of reasoning without a signature."""
        kind = self._kind
        self._kind = ""
        if kind == "thinking" and self.answer.signature is None and self._unsigned is None:
            self._unsigned = self._index
            return
        if kind == "thinking" and self.answer.signature is not None:
            yield self._delta(type="signature_delta", signature=self.answer.signature or SIGNATURE)
        if kind:
            yield _event("content_block_stop", index=self._index)

    def _delta(self, **delta: Any) -> bytes:
        """Write a piece of the block that is open."""
        return _event("content_block_delta", index=self._index, delta=delta)


def _event(name: str, /, **members: Any) -> bytes:
    """Write an event, whose name is also a member of its data."""
    return event({"type": name, **members}, name)


def _message(answer: Completion, request: AnswerRequest) -> dict[str, Any]:
    """Return a message without its content."""
    return {
        "id": f"msg_{request.number:024d}",
        "type": "message",
        "role": "assistant",
        "model": answer.model or request.model,
    }


def _stop(answer: Completion) -> dict[str, Any]:
    """Return why an answer ends; a refusal is explained beside its reason."""
    word = answer.finish_or_refusal
    reason = None if word is None else STOPS.get(word, word)
    refused = {
        "type": "refusal",
        "category": None,
        "explanation": answer.refusal or None,
    }
    return {
        "stop_reason": reason,
        "stop_sequence": None,
        "stop_details": refused if reason == "refusal" else None,
    }


def _blocks(answer: Completion) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a whole answer. Reasoning that is only a signature stands before calls,
    which Anthropic refuses without it.
    """
    if answer.reasoning or (answer.signature and answer.tool_calls):
        signature = "" if answer.signature is None else answer.signature or SIGNATURE
        yield {
            "type": "thinking",
            "thinking": answer.reasoning,
            "signature": signature,
        }
    if answer.text:
        yield {"type": "text", "text": answer.text}
    for call in answer.tool_calls:
        yield {**_tool_use(call), "input": input_of(call.arguments)}


def _tool_use(call: ToolCall) -> dict[str, Any]:
    """Return a call without its input, which a stream sends in pieces."""
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _usage(answer: Completion, request: AnswerRequest) -> dict[str, Any]:
    """Return the usage of an answer: as it is known, or estimated."""
    if answer.usage is not None:
        return dict(answer.usage)
    prompt = [request.body.get("system"), contents_of(request.body)]
    usage = LANGUAGE.counts(estimated(answer, prompt))
    if answer.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": tokens(len(answer.reasoning))}
    return usage


LANGUAGE: Final = _Messages()
