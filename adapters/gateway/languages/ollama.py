"""Ollama's chat.

A stream is a list of lines, each a JSON object (`application/x-ndjson`) with a piece of the message
and `done: false`. A call comes whole. The last line has `done: true`, the reason, the tokens of
prompt and answer, and how long each phase took, in nanoseconds. Replies are streamed unless the
request says otherwise.

Source: github.com/ollama/ollama/blob/main/docs/api.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from http.client import responses
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.language import (
    CREATED,
    DEFAULT_MODEL,
    AnswerRequest,
    Completion,
    Language,
    contents_of,
    estimated,
    split,
)
from rungwise.fsm.replies.parts import ToolCall

VERSION: Final = "0.12.6"
ERRORS: Final[Mapping[int, str]] = {
    400: "invalid request",
    401: "unauthorized",
    402: "payment required: the account has no credit left",
    403: "access denied",
    404: "model not found, try pulling it first",
    413: "request body too large",
    429: "too many requests",
    500: "model runner has unexpectedly stopped, this may be due to resource limitations or an "
    "internal error",
    503: "server busy, please try again.  maximum pending requests exceeded",
    529: "the server is overloaded",
}
_CREATED: Final = datetime.fromtimestamp(CREATED, UTC).isoformat().replace("+00:00", "Z")
_TOKEN_NANOSECONDS: Final = 20_000_000  # for a token, so that the durations are realistic


class _OllamaChat(Language):
    """Write answers as Ollama does."""

    api = "ollama"
    stream_type = "application/x-ndjson"
    paths = "/api/chat"
    caps = ("options.num_predict",)

    def read_request(
        self,
        path: str,
        body: Mapping[str, Any],
        number: int,
    ) -> AnswerRequest:
        """Return what matters of a request; replies are streamed by default."""
        model = str(body.get("model") or DEFAULT_MODEL)
        is_streaming = body.get("stream") is not False
        return AnswerRequest(model, is_streaming, body, number)

    def listing(self, path: str, models: Iterable[str]) -> Any:
        """Return the answer to a GET of this path: the server's version, or the list of models."""
        if path.endswith("/api/version"):
            return {"version": VERSION}
        if path.endswith("/api/tags"):
            return {"models": [_listed(model) for model in models]}
        return None

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error: Ollama has a message and nothing else."""
        phrase = responses.get(status, "Unknown status")
        message = (fields or {}).get("message")
        return orjson.dumps({"error": message or ERRORS.get(status, phrase)})

    def whole(self, reply: Completion, request: AnswerRequest) -> bytes:
        """Return the body of an answer that is not streamed. A refusal is text here."""
        if reply.error_event is not None:
            return self.error(reply.error_event, 500)
        message = _message(reply.text or reply.refusal, reply.reasoning, reply.tool_calls)
        end = _end(reply, request) if reply.done else {}
        return _line(reply, request, message, **end)

    def events(self, reply: Completion, request: AnswerRequest) -> Iterator[bytes]:
        """Yield the lines of a stream. A refusal is text here."""
        size = reply.chunk_size
        for piece in split(reply.reasoning, size):
            yield _line(reply, request, _message("", piece)) + b"\n"
        for piece in split(reply.text or reply.refusal, size):
            yield _line(reply, request, _message(piece)) + b"\n"
        for call in reply.tool_calls:
            yield _line(reply, request, _message("", "", (call,))) + b"\n"
        if reply.error_event is not None:
            yield self.error(reply.error_event, 500) + b"\n"
        elif reply.done:
            yield _line(reply, request, _message(""), **_end(reply, request)) + b"\n"


def _line(
    reply: Completion, request: AnswerRequest, message: Mapping[str, Any], **end: Any
) -> bytes:
    """Return one line: a message, with the end of the answer if it is the last."""
    about = {"model": reply.model or request.model, "created_at": _CREATED}
    return orjson.dumps(
        {
            **about,
            "message": message,
            "done": False,
            **end,
        }
    )


def _message(text: str, reasoning: str = "", calls: Iterable[ToolCall] = ()) -> dict[str, Any]:
    """Return a message, or a piece of one."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning:
        message["thinking"] = reasoning
    tool_calls = []
    for call in calls:
        function = {"name": call.name, "arguments": _arguments(call.arguments)}
        tool_calls.append({"function": function})
    if tool_calls:
        message["tool_calls"] = tool_calls
    return message


def _arguments(text: str) -> Any:
    """Return the arguments of a call as an object; half an object is sent as text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _end(reply: Completion, request: AnswerRequest) -> dict[str, Any]:
    """Return the members that end an answer: its reason, its usage, and how long it took."""
    end: dict[str, Any] = {"done": True}
    finish = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
    if finish:
        end["done_reason"] = finish
    if reply.usage is not None:
        return end | dict(reply.usage)
    usage = estimated(reply, contents_of(request.body))
    loading = _TOKEN_NANOSECONDS
    reading = usage.input_tokens * _TOKEN_NANOSECONDS
    writing = usage.output_tokens * _TOKEN_NANOSECONDS
    end["total_duration"] = loading + reading + writing
    end["load_duration"] = loading
    end["prompt_eval_count"] = usage.input_tokens
    end["prompt_eval_duration"] = reading
    end["eval_count"] = usage.output_tokens
    end["eval_duration"] = writing
    return end


def _listed(model: str) -> dict[str, Any]:
    """Return a model as the list of models has it."""
    return {
        "name": model,
        "model": model,
        "modified_at": _CREATED,
        "size": 1_000_000_000,
        "digest": sha256(model.encode()).hexdigest(),
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "embedded",
            "families": ["embedded"],
            "parameter_size": "1B",
            "quantization_level": "Q4_0",
        },
    }


LANGUAGE: Final = _OllamaChat()
