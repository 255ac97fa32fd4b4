"""Gemini's generateContent.

The path holds the model and the method: `models/NAME:generateContent`, or
`:streamGenerateContent?alt=sse`. A stream is a list of server-sent events without names, each in
the form of a whole answer, with the parts that are new and the usage so far. The last one has the
finish reason. A call comes whole. Reasoning is a text part with `thought`, and its signature stands
on the part behind it: the first call, or the last text.

Source: ai.google.dev/api/generate-content.
"""

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
_RPC: Final = "type.googleapis.com/google.rpc"
"""Where the types of details are; see google/rpc/error_details.proto."""
_OF_ERRORS: Final = ("message", "type", "code", "param", "error", "retry_after")
"""The fields of an error that have a member of their own; others are its metadata."""
METHODS: Final = re.compile(r"/(?P<model>[^/]+):(?P<method>generateContent|streamGenerateContent)$")


class _GeminiLanguage(SpokenLanguage):
    """Write answers as candidates."""

    api = "gemini"
    ping = b"\n\n"  # Google's SDK would take a comment for JSON
    conversation = "contents"
    caps = ("generationConfig.maxOutputTokens",)

    def speaks(self, path: str) -> bool:
        """Tell whether a path asks a model: it ends with the model and one of the two methods."""
        return METHODS.search(path) is not None

    def read_request(
        self,
        path: str,
        body: Mapping[str, Any],
        number: int,
    ) -> AnswerRequest:
        """Return what matters of a request: the path holds the model and the method."""
        match = METHODS.search(path)
        if match is None:
            return AnswerRequest(DEFAULT_MODEL, False, body, number)
        is_streaming = match["method"] == "streamGenerateContent"
        return AnswerRequest(match["model"], is_streaming, body, number)

    def listing(self, path: str, models: Iterable[str]) -> Any:
        if not path.endswith("/v1beta/models"):
            return None
        methods = ["generateContent", "streamGenerateContent"]
        listed = []
        for model in models:
            about = {"name": f"models/{model}", "displayName": model}
            listed.append({**about, "supportedGenerationMethods": methods})
        return {"models": listed}

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error, with the details that Google's SDKs show."""
        phrase = responses.get(status, "Unknown status")
        name, message = STATUSES.get(status, ("UNKNOWN", f"{phrase}."))
        fields = fields or {}
        error: dict[str, Any] = {"code": status}
        error["message"] = fields.get("message", message)
        error["status"] = fields.get("type", name)
        details: list[dict[str, Any]] = []
        if isinstance(fields.get("code"), int):
            error["code"] = fields["code"]
        elif "code" in fields:
            details.append(_error_info(fields))
        if "param" in fields:
            violation = {"field": fields["param"], "description": error["message"]}
            details.append({"@type": f"{_RPC}.BadRequest", "fieldViolations": [violation]})
        if "retry_after" in fields:
            delay = f"{fields['retry_after']}s"
            details.append({"@type": f"{_RPC}.RetryInfo", "retryDelay": delay})
        if details:
            error["details"] = details
        return orjson.dumps({"error": error})

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
        """Return the body of an answer that is not streamed; only the first call is signed."""
        if answer.error_event is not None:
            return self.error(answer.error_event, 500)
        parts: list[dict[str, Any]] = []
        if answer.reasoning:
            parts.append(_thought(answer.reasoning))
        if answer.text:
            parts.append({"text": answer.text})
        for index, call in enumerate(answer.tool_calls):
            parts.append(_call(call, _signature(answer) if index == 0 else {}))
        whole = _last(answer, _signed(answer, _candidate(parts)))
        whole |= _metadata(_usage(answer, request))
        whole |= _envelope(answer, request)
        return orjson.dumps(whole)

    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        """Begin to write an answer that is streamed, as server-sent events (`alt=sse`)."""
        return _ContentStream(request, answer)


class _ContentStream(AnswerStream):
    """Write an answer in pieces: each has the form of a whole one, and the last one says how it
    ended.
    """

    _length = 0  # characters so far
    _calls = 0  # how many have been written

    def begin(self) -> Iterator[bytes]:
        """Write nothing: the protocol has no event for the beginning."""
        return iter(())

    def reasoning(self, piece: str) -> Iterator[bytes]:
        """Write a piece of the reasoning: a text that is marked as a thought."""
        yield self._part(_thought(piece))

    def text(self, piece: str) -> Iterator[bytes]:
        """Write a piece of the text."""
        yield self._part({"text": piece})

    def call(self, call: ToolCall, pieces: Iterable[str]) -> Iterator[bytes]:
        """Write a call as a whole, for arguments in pieces are an option that clients must ask for.

        The first call of an answer carries the signature; later ones of the same step need none.
        """
        index = self._calls
        self._calls += 1
        yield self._part(_call(call, {} if index else _signature(self.answer)))

    def end(self) -> Iterator[bytes]:
        """End the answer: an empty part that may have the signature, the reason, and the usage."""
        answer = self.answer
        if answer.error_event is not None:
            yield event(LANGUAGE.error(answer.error_event, answer.error_status))
        elif answer.done:
            empty = _candidate([{"text": ""}])
            last = _last(answer, _signed(answer, empty, is_last=True))
            last |= _metadata(_usage(answer, self.request))
            last |= _envelope(answer, self.request)
            yield event(last)

    def _part(self, part: dict[str, Any]) -> bytes:
        """Write a part, with the usage so far where it is estimated."""
        self._length += characters(part)
        so_far: dict[str, Any] = {}
        if self.answer.usage is None:
            so_far = _usage(self.answer, self.request)
            written = tokens(self._length)
            so_far["candidatesTokenCount"] = written
            so_far.pop("thoughtsTokenCount", None)
            so_far["totalTokenCount"] = so_far["promptTokenCount"] + written
        piece: dict[str, Any] = {"candidates": [_candidate([part])]}
        piece |= _metadata(so_far)
        piece |= _envelope(self.answer, self.request)
        return event(piece)


def _error_info(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the detail of an error that has a code of ours, with what else is known."""
    info: dict[str, Any] = {"@type": f"{_RPC}.ErrorInfo", "reason": fields["code"]}
    metadata = {}
    for name, value in fields.items():
        if name not in _OF_ERRORS:
            metadata[name] = "; ".join(value) if isinstance(value, list) else str(value)
    if metadata:
        info["metadata"] = metadata
    return info


def _envelope(answer: Completion, request: AnswerRequest) -> dict[str, Any]:
    """Return what every piece says of the answer: the model's version, and an id."""
    return {
        "modelVersion": answer.model or request.model,
        "responseId": f"response-{request.number:08d}",
    }


def _metadata(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the member with the usage; without one, Gemini leaves it out."""
    return {"usageMetadata": usage} if usage else {}


def _candidate(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a candidate; one without parts has no list of them."""
    content = {"parts": parts, "role": "model"} if parts else {"role": "model"}
    return {"content": content, "index": 0}


def _last(answer: Completion, candidate: dict[str, Any]) -> dict[str, Any]:
    """Return the last candidate of an answer; a refusal stands next to its finish reason."""
    finish = answer.finish_or_refusal
    last = dict(candidate)
    if finish and answer.done:
        last["finishReason"] = FINISHES.get(finish, finish)
    if answer.refusal:
        last["finishMessage"] = answer.refusal
    return {"candidates": [last]}


def _thought(piece: str) -> dict[str, Any]:
    return {"text": piece, "thought": True}


def _signature(answer: Completion) -> dict[str, str]:
    """Return the member that signs a part; nothing without a signature."""
    if answer.signature is None or not (answer.reasoning or answer.signature):
        return {}
    return {"thoughtSignature": answer.signature or SIGNATURE}


def _call(call: ToolCall, signature: Mapping[str, str]) -> dict[str, Any]:
    """Return a call; without an object as arguments it is one that began and did not end."""
    function: dict[str, Any] = {"id": call.id, "name": call.name}
    arguments = input_of(call.arguments) if call.arguments else ""
    if isinstance(arguments, dict):
        function["args"] = arguments
    else:
        function["willContinue"] = True
    return {"functionCall": function, **signature}


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
    """Return the usage of an answer: as it is known, or estimated."""
    if answer.usage is not None:
        return dict(answer.usage)
    counts = LANGUAGE.counts(estimated(answer, request.body.get("contents")))
    optional = ("thoughtsTokenCount", "cachedContentTokenCount")
    return {name: count for name, count in counts.items() if count or name not in optional}


LANGUAGE: Final = _GeminiLanguage()
