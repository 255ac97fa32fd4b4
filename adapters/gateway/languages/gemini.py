"""Gemini's generateContent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from http.client import responses
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.language import (
    DEFAULT_MODEL,
    SIGNATURE,
    AnswerRequest,
    AnswerStream,
    Completion,
    SpokenLanguage,
    characters,
    estimated,
    event,
    input_of,
    tokens,
)
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.usage import Usage

STATUSES: Final[Mapping[int, tuple[str, str]]] = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission."),
    404: (
        "NOT_FOUND",
        "models/embedded is not found for API version v1beta, or is not supported for "
        "generateContent.",
    ),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted."),
    500: ("INTERNAL", "An internal error has occurred."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request timed out."),
    529: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
}
FINISHES: Final = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
METHODS: Final = re.compile(r"/(?P<model>[^/]+):(?P<method>generateContent|streamGenerateContent)$")


class _GeminiLanguage(SpokenLanguage):
    api = "gemini"
    conversation = "contents"
    caps = ("generationConfig.maxOutputTokens",)

    def speaks(self, path: str) -> bool:
        return METHODS.search(path) is not None

    def read_request(self, path: str, body: Mapping[str, Any], number: int) -> AnswerRequest:
        """Return what matters of a request: the path holds the model and the method."""
        match = METHODS.search(path)
        model, method = (match["model"], match["method"]) if match else (DEFAULT_MODEL, "")
        return AnswerRequest(model, method == "streamGenerateContent", body, number)

    def listing(self, path: str, models: Iterable[str]) -> Any:
        if not path.endswith("/v1beta/models"):
            return None
        shared = {"supportedGenerationMethods": ["generateContent", "streamGenerateContent"]}
        return {
            "models": [
                {"name": f"models/{model}", "displayName": model, **shared} for model in models
            ]
        }

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        name, message = STATUSES.get(
            status, ("UNKNOWN", f"{responses.get(status, 'Unknown status')}.")
        )
        error: dict[str, Any] = {"code": status, "message": message, "status": name}
        fields = fields or {}
        error |= {
            own: fields[word]
            for word, own in (("message", "message"), ("type", "status"))
            if word in fields
        }
        details: list[dict[str, Any]] = []
        if isinstance(fields.get("code"), int):
            error["code"] = fields["code"]
        elif "code" in fields:
            more = {
                name: fields[name]
                for name in fields
                if name not in ("message", "type", "code", "param", "error")
            }
            texts = {
                name: "; ".join(each) if isinstance(each, list) else str(each)
                for name, each in more.items()
            }
            about = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": fields["code"]}
            details.append({**about, **({"metadata": texts} if texts else {})})
        if "param" in fields:
            violation = {"field": fields["param"], "description": error["message"]}
            details.append(
                {
                    "@type": "type.googleapis.com/google.rpc.BadRequest",
                    "fieldViolations": [violation],
                }
            )
        return orjson.dumps({"error": {**error, **({"details": details} if details else {})}})

    def counts(self, usage: Usage) -> dict[str, Any]:
        """Return token counts in this protocol's form, where thoughts are counted beside the
        answer.
        """
        thoughts = min(usage.output_tokens, usage.reasoning_tokens)
        return {
            "promptTokenCount": usage.input_tokens,
            "candidatesTokenCount": usage.output_tokens - thoughts,
            "totalTokenCount": usage.total_tokens,
            "thoughtsTokenCount": thoughts,
            "cachedContentTokenCount": usage.cache_read_tokens,
        }

    def whole(self, answer: Completion, request: AnswerRequest) -> bytes:
        if answer.error_event is not None:
            return self.error(answer.error_event, 500)
        thoughts = [_thought(answer.reasoning)] if answer.reasoning else []
        text = [{"text": answer.text}] if answer.text else []
        calls = [
            _call(call, {} if index else _signature(answer))
            for index, call in enumerate(answer.tool_calls)
        ]
        last = _last(answer, _signed(answer, _candidate([*thoughts, *text, *calls])))
        return orjson.dumps(
            {**last, **_metadata(_usage(answer, request)), **_envelope(answer, request)}
        )

    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        return _ContentStream(request, answer)


class _ContentStream(AnswerStream):
    """Write an answer in pieces: each has the form of a whole one, and the last one says how it
    ended.
    """

    _length = 0
    _calls = 0

    def begin(self) -> Iterator[bytes]:
        return iter(())

    def reasoning(self, piece: str) -> Iterator[bytes]:
        yield self._part(_thought(piece))

    def text(self, piece: str) -> Iterator[bytes]:
        yield self._part({"text": piece})

    def call(self, call: ToolCall, pieces: Iterable[str]) -> Iterator[bytes]:
        index = self._calls
        self._calls = self._calls + 1
        yield self._part(_call(call, {} if index else _signature(self.answer)))

    def end(self) -> Iterator[bytes]:
        answer = self.answer
        if answer.error_event is not None:
            yield event(LANGUAGE.error(answer.error_event, 500))
        elif answer.done:
            candidate = _signed(answer, _candidate([{"text": ""}]), is_last=True)
            counted = _metadata(_usage(answer, self.request))
            yield event({**_last(answer, candidate), **counted, **_envelope(answer, self.request)})

    def _part(self, part: dict[str, Any]) -> bytes:
        self._length += characters(part)
        so_far = _usage(self.answer, self.request) if self.answer.usage is None else {}
        if so_far:
            so_far = {**so_far, "candidatesTokenCount": tokens(self._length)}
            so_far.pop("thoughtsTokenCount", None)
            so_far["totalTokenCount"] = so_far["promptTokenCount"] + so_far["candidatesTokenCount"]
        envelope = _envelope(self.answer, self.request)
        return event({"candidates": [_candidate([part])], **_metadata(so_far), **envelope})


def _envelope(answer: Completion, request: AnswerRequest) -> dict[str, Any]:
    return {
        "modelVersion": answer.model or request.model,
        "responseId": f"response-{request.number:08d}",
    }


def _metadata(usage: Mapping[str, Any]) -> dict[str, Any]:
    return {"usageMetadata": usage} if usage else {}


def _candidate(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "content": {"parts": parts, "role": "model"} if parts else {"role": "model"},
        "index": 0,
    }


def _last(answer: Completion, candidate: dict[str, Any]) -> dict[str, Any]:
    """Return the last candidate of an answer; a refusal stands next to its finish reason."""
    finish = "content_filter" if answer.refusal and answer.finish is None else answer.finish_reason
    ended = {"finishReason": FINISHES.get(finish, finish)} if finish and answer.done else {}
    refused = {"finishMessage": answer.refusal} if answer.refusal else {}
    return {"candidates": [{**candidate, **ended, **refused}]}


def _thought(piece: str) -> dict[str, Any]:
    return {"text": piece, "thought": True}


def _signature(answer: Completion) -> dict[str, str]:
    if answer.signature is None or not (answer.reasoning or answer.signature):
        return {}
    return {"thoughtSignature": answer.signature or SIGNATURE}


def _call(call: ToolCall, signature: Mapping[str, str]) -> dict[str, Any]:
    """Return a call; without an object as arguments it is one that began and did not end."""
    begun = {"id": call.id, "name": call.name}
    args = input_of(call.arguments) if call.arguments else ""
    rest = {"args": args} if isinstance(args, dict) else {"willContinue": True}
    return {"functionCall": {**begun, **rest}, **signature}


def _signed(
    answer: Completion, candidate: dict[str, Any], *, is_last: bool = False
) -> dict[str, Any]:
    """Sign the last part of an answer without calls; in a stream that part is otherwise empty."""
    parts = candidate["content"].get("parts", [])
    if answer.tool_calls or not (parts or is_last) or not _signature(answer):
        return candidate
    if parts[-1].get("thought"):
        parts.append({"text": ""})
    parts[-1] = {**parts[-1], **_signature(answer)}
    return candidate


def _usage(answer: Completion, request: AnswerRequest) -> dict[str, Any]:
    if answer.usage is not None:
        return dict(answer.usage)
    counts = LANGUAGE.counts(estimated(answer, request.body.get("contents")))
    optional = ("thoughtsTokenCount", "cachedContentTokenCount")
    return {name: count for name, count in counts.items() if count or name not in optional}


LANGUAGE: Final = _GeminiLanguage()
