"""Chat completions, as OpenAI and most other servers speak them.

A stream is a list of server-sent events without names. Each is a chunk with the same id and model,
and the `delta` of one choice: first the role, then pieces of text, of reasoning, or of the
arguments of a call, which its `index` names. The last chunk of the choice has the finish reason. If
the request asks for it (`stream_options.include_usage`), every chunk has `usage: null`, and one
without choices has the usage. The end is `[DONE]`, which is no JSON.

Source: platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from http.client import responses
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.language import (
    CREATED,
    AnswerRequest,
    AnswerStream,
    Completion,
    SpokenLanguage,
    billed_beside,
    contents_of,
    estimated,
    event,
)
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.usage import Usage

ERRORS: Final[Mapping[int, tuple[str, str | None, str]]] = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    402: ("insufficient_quota", "insufficient_quota", "The account has no credit left."),
    403: (
        "invalid_request_error",
        "permission_denied",
        "You are not allowed to use this resource.",
    ),
    404: (
        "invalid_request_error",
        "model_not_found",
        "The model does not exist or you do not have access to it.",
    ),
    413: ("invalid_request_error", "payload_too_large", "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", "server_is_overloaded", "The server is overloaded."),
    529: ("overloaded_error", None, "The server is overloaded."),
}


class ChatCompletions(SpokenLanguage):
    """Write answers as chat completions."""

    api = "openai"
    paths = "/chat/completions"
    caps = ("max_tokens", "max_completion_tokens")

    def listing(self, path: str, models: Iterable[str]) -> Any:
        """Return the answer to a GET of this path: the list of models."""
        if not path.endswith("/models"):
            return None
        shared = {
            "object": "model",
            "created": CREATED,
            "owned_by": "rungwise",
        }
        return {"object": "list", "data": [{"id": model, **shared} for model in models]}

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error."""
        phrase = responses.get(status, "Unknown status")
        other = ("server_error" if status >= 500 else "invalid_request_error", None, f"{phrase}.")
        kind, code, message = ERRORS.get(status, other)
        default = {
            "message": message,
            "type": kind,
            "param": None,
            "code": code,
        }
        if fields is not None:
            # The default code belongs to the default message; it might contradict another one.
            default = {**default, "code": None, **fields}
        return orjson.dumps({"error": default})

    def counts(self, usage: Usage) -> dict[str, Any]:
        """Return token counts in this protocol's form."""
        counts: dict[str, Any] = {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
        }
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cache_read_tokens}
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
        return counts | billed_beside(usage)

    def whole(self, answer: Completion, request: AnswerRequest) -> bytes:
        """Return the body of an answer that is not streamed."""
        if answer.error_event is not None:
            error = orjson.loads(self.error(answer.error_event, 500))
            if answer.usage is not None:
                error["usage"] = dict(answer.usage)
            return orjson.dumps(error)
        silent = answer.tool_calls or answer.refusal
        content = answer.text or (None if silent else "")
        message: dict[str, Any] = {"role": "assistant", "content": content}
        message["refusal"] = answer.refusal or None
        if answer.reasoning:
            message |= _reasoning(answer, answer.reasoning)
        if answer.tool_calls:
            message["tool_calls"] = [_tool_call(call, call.arguments) for call in answer.tool_calls]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": answer.finish_reason,
        }
        whole = {**_envelope(answer, request), "choices": [choice]}
        usage = _usage(answer, request.body)
        if usage:
            whole["usage"] = usage
        return orjson.dumps(whole)

    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        """Begin to write an answer that is streamed."""
        return _ChatStream(request, answer)


class _ChatStream(AnswerStream):
    """Write a completion chunk by chunk."""

    _calls = 0  # how many have begun

    def begin(self) -> Iterator[bytes]:
        """Write the first chunk, which names the role and has no text."""
        yield self._delta({"role": "assistant", "content": ""})

    def reasoning(self, piece: str) -> Iterator[bytes]:
        """Write a piece of the reasoning, in the field that the program reads."""
        yield self._delta(_reasoning(self.answer, piece))

    def text(self, piece: str) -> Iterator[bytes]:
        """Write a piece of the text."""
        yield self._delta({"content": piece})

    def refusal(self, pieces: Iterable[str]) -> Iterator[bytes]:
        """Write a refusal, which has a field of its own beside the text."""
        yield from (self._delta({"refusal": piece}) for piece in pieces)

    def call(self, call: ToolCall, pieces: Iterable[str]) -> Iterator[bytes]:
        """Write a call: a chunk with its id and name, then its arguments under the same index."""
        index = self._calls
        self._calls += 1
        begun = {"index": index, **_tool_call(call, "")}
        yield self._delta({"tool_calls": [begun]})
        for piece in pieces:
            more = {"index": index, "function": {"arguments": piece}}
            yield self._delta({"tool_calls": [more]})

    def end(self) -> Iterator[bytes]:
        """Write the finish reason, and behind it the usage if the program asked for that.

        An answer that ends in an error has neither: the error is its last event.
        """
        answer = self.answer
        counted = b""  # the chunk with the usage
        usage = _usage(answer, self.request.body) if self._reports else None
        if usage:
            counted = event(
                {
                    **self._envelope,
                    "choices": [],
                    "usage": usage,
                }
            )
        if answer.error_event is not None:
            if counted and answer.usage is not None:
                yield counted
            yield event(LANGUAGE.error(answer.error_event, answer.error_status))
        else:
            choice: dict[str, Any] = {
                "index": 0,
                "delta": {},
                "finish_reason": answer.finish_reason,
            }
            whole = answer.final_message not in (None, False)
            if whole:
                content = answer.text if answer.final_message is True else answer.final_message
                choice["message"] = {"role": "assistant", "content": content}
            if whole or answer.finish_reason is not None:
                yield event({**self._envelope, "choices": [choice]})
            if counted:
                yield counted
        if answer.done:
            yield event(b"[DONE]")

    @property
    def _reports(self) -> bool:
        """Tell whether the request wants the usage of a stream."""
        options = self.request.body.get("stream_options")
        return (
            isinstance(options, Mapping)
            and options.get("include_usage") is True
            and self.answer.usage != {}
        )

    @property
    def _envelope(self) -> dict[str, Any]:
        """Return the members that every chunk has."""
        envelope = _envelope(self.answer, self.request)
        envelope["object"] = "chat.completion.chunk"
        if self._reports:
            envelope["usage"] = None
        return envelope

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        """Write a chunk with a piece of the answer."""
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        return event({**self._envelope, "choices": [choice]})


def _envelope(answer: Completion, request: AnswerRequest) -> dict[str, Any]:
    """Return the members of an answer beside its choices and usage."""
    return {
        "id": f"chatcmpl-{request.number:08d}",
        "object": "chat.completion",
        "created": request.created,
        "model": answer.model or request.model,
    }


def _tool_call(call: ToolCall, arguments: str) -> dict[str, Any]:
    """Return a call, with all of its arguments or without."""
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _reasoning(answer: Completion, text: str) -> dict[str, Any]:
    """Return reasoning in the member where a server puts it; OpenRouter has a list of parts."""
    if answer.reasoning_field != "reasoning_details":
        return {answer.reasoning_field: text}
    detail = {
        "type": "reasoning.text",
        "text": text,
        "format": "unknown",
        "index": 0,
    }
    return {"reasoning_details": [detail]}


def _usage(answer: Completion, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of an answer: as it is known, or estimated."""
    if answer.usage is not None:
        return dict(answer.usage)
    usage = estimated(answer, contents_of(request))
    counts: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
    }
    if answer.reasoning:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return {**counts, "total_tokens": usage.total_tokens}


LANGUAGE: Final = ChatCompletions()
