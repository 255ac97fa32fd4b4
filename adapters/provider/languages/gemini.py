"""Gemini's generateContent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from http.client import responses
from typing import Any, Final

import orjson

from rungwise.adapters.provider.languages.language import (
    DEFAULT_MODEL,
    SIGNATURE,
    Language,
    ScriptRequest,
    answer_tokens,
    characters,
    event,
    input_of,
    split,
    tokens,
)
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.fsm.call.conversation.parts import ToolCall

STATUSES: Final[Mapping[int, tuple[str, str]]] = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission."),
    404: ("NOT_FOUND", "models/embedded is not found for API version v1beta, or is not supported for generateContent."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted."),
    500: ("INTERNAL", "An internal error has occurred."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request timed out."),
    529: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
}
FINISHES: Final = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
METHODS: Final = re.compile(r"/(?P<model>[^/]+):(?P<method>generateContent|streamGenerateContent)$")


class GeminiLanguage(Language):
    """Write replies of generateContent, whole or as events."""

    conversation = "contents"
    caps = ("generationConfig.maxOutputTokens",)

    def speaks(self, path: str) -> bool:
        """Tell whether a POST to this path is a request in this protocol."""
        return METHODS.search(path) is not None

    def read_request(self, path: str, body: Mapping[str, Any], number: int) -> ScriptRequest:
        """Return what matters of a request: the path holds the model and the method."""
        match = METHODS.search(path)
        model, method = (match["model"], match["method"]) if match else (DEFAULT_MODEL, "")
        return ScriptRequest(model, method == "streamGenerateContent", body, number)

    def listing(self, path: str, models: Iterable[str]) -> Any:
        """Return the answer to a GET of this path: the list of models."""
        if not path.endswith("/v1beta/models"):
            return None
        methods = ["generateContent", "streamGenerateContent"]
        return {
            "models": [
                {"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": methods}
                for model in models
            ]
        }

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error."""
        name, message = STATUSES.get(status, ("UNKNOWN", f"{responses.get(status, 'Unknown status')}."))
        error: dict[str, Any] = {"code": status, "message": message, "status": name}
        fields = fields or {}
        error |= {own: fields[word] for word, own in (("message", "message"), ("type", "status")) if word in fields}
        details: list[dict[str, Any]] = []
        if isinstance(fields.get("code"), int):
            error["code"] = fields["code"]
        elif "code" in fields:
            details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": fields["code"]})
        if "param" in fields:
            violation = {"field": fields["param"], "description": error["message"]}
            details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]})
        return orjson.dumps({"error": {**error, **({"details": details} if details else {})}})

    def whole(self, reply: ScriptedReply, request: ScriptRequest) -> bytes:
        """Return the body of a reply that is not streamed."""
        if reply.error_event is not None:
            return self.error(reply.error_event, 500)
        text = [{"text": reply.text}] if reply.text else []
        candidate = _candidate([*_thoughts([reply.reasoning]), *text, *_calls(reply)])
        last = _last(reply, _signed(reply, candidate))
        return orjson.dumps({**last, **_metadata(_usage(reply, request)), **_envelope(reply, request)})

    def events(self, reply: ScriptedReply, request: ScriptRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream: each has the form of a whole reply, and the last one says how it ended."""
        envelope, usage = _envelope(reply, request), _usage(reply, request)
        length = 0
        for part in _parts(reply):
            length += characters(part)
            so_far = usage if reply.usage is None else {}
            if so_far:
                so_far = {**so_far, "candidatesTokenCount": tokens(length)}
                so_far.pop("thoughtsTokenCount", None)
                so_far["totalTokenCount"] = so_far["promptTokenCount"] + so_far["candidatesTokenCount"]
            yield event({"candidates": [_candidate([part])], **_metadata(so_far), **envelope})
        if reply.error_event is not None:
            yield event(self.error(reply.error_event, 500))
        elif reply.done:
            candidate = _signed(reply, _candidate([{"text": ""}]), is_last=True)
            yield event({**_last(reply, candidate), **_metadata(usage), **envelope})


def _envelope(reply: ScriptedReply, request: ScriptRequest) -> dict[str, Any]:
    return {"modelVersion": reply.model or request.model, "responseId": f"response-{request.number:08d}"}


def _metadata(usage: Mapping[str, Any]) -> dict[str, Any]:
    return {"usageMetadata": usage} if usage else {}


def _candidate(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"content": {"parts": parts, "role": "model"} if parts else {"role": "model"}, "index": 0}


def _last(reply: ScriptedReply, candidate: dict[str, Any]) -> dict[str, Any]:
    """Return the last candidate of a reply; a refusal stands next to its finish reason."""
    finish = reply.finish_reason
    if reply.refusal and reply.finish is None:
        finish = "content_filter"
    ended = {"finishReason": FINISHES.get(finish, finish)} if finish and reply.done else {}
    refused = {"finishMessage": reply.refusal} if reply.refusal else {}
    return {"candidates": [{**candidate, **ended, **refused}]}


def _parts(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    size = reply.chunk_size
    yield from _thoughts(split(reply.reasoning, size))
    yield from ({"text": piece} for piece in split(reply.text, size))
    yield from _calls(reply)


def _thoughts(pieces: Iterable[str]) -> list[dict[str, Any]]:
    return [{"text": piece, "thought": True} for piece in pieces if piece]


def _signature(reply: ScriptedReply) -> dict[str, str]:
    return {"thoughtSignature": reply.signature or SIGNATURE} if reply.reasoning or reply.signature else {}


def _calls(reply: ScriptedReply) -> list[dict[str, Any]]:
    """Return the calls, the first of which carries the signature."""
    return [
        {"functionCall": _call(call), **({} if index else _signature(reply))}
        for index, call in enumerate(reply.tool_calls)
    ]


def _call(call: ToolCall) -> dict[str, Any]:
    """Return a call; without an object as arguments it is one that began and did not end."""
    begun = {"id": call.id, "name": call.name}
    args = input_of(call.arguments) if call.arguments else ""
    return {**begun, "args": args} if isinstance(args, dict) else {**begun, "willContinue": True}


def _signed(reply: ScriptedReply, candidate: dict[str, Any], *, is_last: bool = False) -> dict[str, Any]:
    """Sign the last part of a reply without calls; in a stream that part is otherwise empty."""
    parts = candidate["content"].get("parts", [])
    if reply.tool_calls or not (parts or is_last) or not _signature(reply):
        return candidate
    if parts[-1].get("thought"):
        parts.append({"text": ""})
    parts[-1] = {**parts[-1], **_signature(reply)}
    return candidate


def _usage(reply: ScriptedReply, request: ScriptRequest) -> dict[str, Any]:
    if reply.usage is not None:
        return dict(reply.usage)
    prompt, answer, thoughts = tokens(characters(request.body.get("contents"))), answer_tokens(reply), 0
    if reply.reasoning:
        thoughts = min(answer, tokens(len(reply.reasoning)))
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": answer - thoughts, "totalTokenCount": prompt + answer}
    return {**usage, **({"thoughtsTokenCount": thoughts} if thoughts else {})}


LANGUAGE: Final = GeminiLanguage()
