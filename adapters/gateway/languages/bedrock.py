"""Amazon Bedrock's Converse; a stream consists of binary frames, each with checksums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http.client import responses
from typing import Any, Final
from urllib.parse import unquote
from zlib import crc32

import orjson

from rungwise.adapters.gateway.languages.language import (
    SIGNATURE,
    AnswerRequest,
    Completion,
    Language,
    contents_of,
    estimated,
    input_of,
    split,
)

ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("ValidationException", "The request is not valid."),
    401: ("UnrecognizedClientException", "The security token included in the request is invalid."),
    403: (
        "AccessDeniedException",
        "You don't have access to the model with the specified model ID.",
    ),
    404: ("ResourceNotFoundException", "The model was not found: model not found."),
    408: ("ModelTimeoutException", "The model has timed out."),
    413: ("ValidationException", "The request body is too large."),
    424: ("ModelErrorException", "The model returned an error."),
    429: ("ThrottlingException", "Too many requests, please wait before trying again."),
    500: ("InternalServerException", "The server had an internal error."),
    503: ("ServiceUnavailableException", "Bedrock is unable to process your request."),
}
STOPS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
}
_LATENCY: Final = {"latencyMs": 1}


class _Converse(Language):
    stream_type = "application/vnd.amazon.eventstream"
    paths = ("/converse", "/converse-stream")
    caps = ("inferenceConfig.maxTokens",)

    def read_request(self, path: str, body: Mapping[str, Any], number: int) -> AnswerRequest:
        """Return what matters of a request; the path holds the model, and whether it streams."""
        parts = path.rsplit("/", 2)
        return AnswerRequest(unquote(parts[-2]), parts[-1] == "converse-stream", body, number)

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        kind, message = _error(fields, status)
        return orjson.dumps({"__type": kind, "message": message})

    def whole(self, reply: Completion, request: AnswerRequest) -> bytes:
        if reply.error_event is not None:
            return self.error(reply.error_event, 500)
        answer: dict[str, Any] = {
            "output": {"message": {"role": "assistant", "content": [*_blocks(reply)]}}
        }
        answer |= _stop(reply)
        if usage := _usage(reply, request):
            answer["usage"] = usage
        return orjson.dumps({**answer, "metrics": _LATENCY})

    def events(self, reply: Completion, request: AnswerRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream; unless `done`, the two events that end it are missing."""
        yield frame("messageStart", {"role": "assistant"})
        for index, (start, deltas) in enumerate(_streamed(reply)):
            if start:
                yield frame("contentBlockStart", {"start": start, "contentBlockIndex": index})
            yield from (
                frame("contentBlockDelta", {"delta": delta, "contentBlockIndex": index})
                for delta in deltas
            )
            yield frame("contentBlockStop", {"contentBlockIndex": index})
        if reply.error_event is not None:
            kind, message = _error(reply.error_event, 500)
            yield frame(kind[0].lower() + kind[1:], {"message": message}, is_exception=True)
        elif reply.done:
            if stop := _stop(reply):
                yield frame("messageStop", stop)
            if usage := _usage(reply, request):
                yield frame("metadata", {"usage": usage, "metrics": _LATENCY})


def frame(name: str, payload: Mapping[str, Any], *, is_exception: bool = False) -> bytes:
    """Return an event as it is sent: lengths and checksums around its headers and its payload."""
    kind = "exception" if is_exception else "event"
    fields = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(
        bytes([len(key)])
        + key.encode()
        + b"\x07"
        + len(value.encode()).to_bytes(2, "big")
        + value.encode()
        for key, value in fields.items()
    )
    body = orjson.dumps(payload)
    lengths = (len(headers) + len(body) + 16).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    message = lengths + crc32(lengths).to_bytes(4, "big") + headers + body
    return message + crc32(message).to_bytes(4, "big")


def _error(fields: Mapping[str, Any] | None, status: int) -> tuple[str, str]:
    other = "InternalServerException" if status >= 500 else "ValidationException"
    kind, message = ERRORS.get(status, (other, f"{responses.get(status, 'Unknown status')}."))
    if fields is None:
        return kind, message
    return str(fields.get("type") or kind), str(fields.get("message", message))


def _stop(reply: Completion) -> dict[str, Any]:
    word = "content_filter" if reply.refusal and reply.finish is None else reply.finish_reason
    return {} if word is None else {"stopReason": STOPS.get(word, word)}


def _blocks(reply: Completion) -> Iterator[dict[str, Any]]:
    if reply.reasoning:
        signed = {"text": reply.reasoning, "signature": reply.signature or SIGNATURE}
        yield {"reasoningContent": {"reasoningText": signed}}
    if reply.text or reply.refusal:
        yield {"text": reply.text + reply.refusal}
    for call in reply.tool_calls:
        yield {
            "toolUse": {
                "toolUseId": call.id,
                "name": call.name,
                "input": input_of(call.arguments),
                "type": "tool_use",
            }
        }


def _streamed(reply: Completion) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the start of each block, if it is announced, with its deltas."""
    size = reply.chunk_size
    if reply.reasoning:
        deltas = [{"reasoningContent": {"text": piece}} for piece in split(reply.reasoning, size)]
        yield {}, [*deltas, {"reasoningContent": {"signature": reply.signature or SIGNATURE}}]
    if reply.text or reply.refusal:
        yield {}, [{"text": piece} for piece in split(reply.text + reply.refusal, size)]
    for call in reply.tool_calls:
        start = {"toolUse": {"toolUseId": call.id, "name": call.name, "type": "tool_use"}}
        yield start, [{"toolUse": {"input": piece}} for piece in split(call.arguments, size)]


def _usage(reply: Completion, request: AnswerRequest) -> dict[str, Any]:
    if reply.usage is not None:
        return dict(reply.usage)
    usage = estimated(reply, [request.body.get("system"), contents_of(request.body)])
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
    }


LANGUAGE: Final = _Converse()
