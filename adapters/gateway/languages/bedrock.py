"""Amazon Bedrock's Converse.

A stream is a list of binary frames (`application/vnd.amazon.eventstream`): the length of the frame
and of its headers, a checksum of these, the headers, the payload as JSON, and a checksum of it all.
A header says which event it is: `messageStart`, then for each block a start (of calls only), deltas
and a stop, then `messageStop` with the reason and `metadata` with the usage. An error is a frame of
another type.

Source: docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html, and
smithy.io/2.0/aws/amazon-eventstream.html for the frames.
"""

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
_TEXT: Final = b"\x07"
"""The type of a header whose value is a text."""
_AROUND: Final = 16
"""Bytes of a frame beside its headers and payload: two lengths and two checksums."""
_LATENCY: Final = {"latencyMs": 1}


class _Converse(Language):
    """Write answers as Converse does."""

    api = "bedrock"
    stream_type = "application/vnd.amazon.eventstream"
    paths = ("/converse", "/converse-stream")
    caps = ("inferenceConfig.maxTokens",)

    def read_request(
        self,
        path: str,
        body: Mapping[str, Any],
        number: int,
    ) -> AnswerRequest:
        """Return what matters of a request; the path holds the model, and whether it streams."""
        *_, model, method = path.rsplit("/", 2)
        is_streaming = method == "converse-stream"
        return AnswerRequest(unquote(model), is_streaming, body, number)

    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error, as AWS writes it: its kind and a message."""
        kind, message = _error(fields, status)
        return orjson.dumps({"__type": kind, "message": message})

    def whole(self, reply: Completion, request: AnswerRequest) -> bytes:
        """Return the body of an answer that is not streamed; usage and metrics stand behind it."""
        if reply.error_event is not None:
            return self.error(reply.error_event, 500)
        message = {"role": "assistant", "content": list(_blocks(reply))}
        answer: dict[str, Any] = {"output": {"message": message}}
        answer |= _stop(reply)
        usage = _usage(reply, request)
        if usage:
            answer["usage"] = usage
        answer["metrics"] = _LATENCY
        return orjson.dumps(answer)

    def events(self, reply: Completion, request: AnswerRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream; unless `done`, the two events that end it are missing."""
        yield frame("messageStart", {"role": "assistant"})
        for index, (start, deltas) in enumerate(_streamed(reply)):
            if start:
                yield frame("contentBlockStart", {"start": start, "contentBlockIndex": index})
            for delta in deltas:
                yield frame("contentBlockDelta", {"delta": delta, "contentBlockIndex": index})
            yield frame("contentBlockStop", {"contentBlockIndex": index})
        if reply.error_event is not None:
            kind, message = _error(reply.error_event, 500)
            name = kind[0].lower() + kind[1:]
            yield frame(name, {"message": message}, is_exception=True)
        elif reply.done:
            stop = _stop(reply)
            if stop:
                yield frame("messageStop", stop)
            usage = _usage(reply, request)
            if usage:
                yield frame("metadata", {"usage": usage, "metrics": _LATENCY})


def frame(name: str, payload: Mapping[str, Any], *, is_exception: bool = False) -> bytes:
    """Return an event as it is sent: lengths and checksums around its headers and its payload."""
    kind = "exception" if is_exception else "event"
    fields = {
        f":{kind}-type": name,
        ":content-type": "application/json",
        ":message-type": kind,
    }
    headers = b"".join(_header(key, value) for key, value in fields.items())
    body = orjson.dumps(payload)
    size = _AROUND + len(headers) + len(body)
    lengths = _number(size, 4) + _number(len(headers), 4)
    message = lengths + _number(crc32(lengths), 4) + headers + body
    return message + _number(crc32(message), 4)


def _header(name: str, value: str) -> bytes:
    """Return a header whose value is a text."""
    key = name.encode()
    text = value.encode()
    return _number(len(key), 1) + key + _TEXT + _number(len(text), 2) + text


def _number(value: int, size: int) -> bytes:
    """Return a number in so many bytes."""
    return value.to_bytes(size, "big")


def _error(fields: Mapping[str, Any] | None, status: int) -> tuple[str, str]:
    """Return the kind of an error and its message."""
    other = "InternalServerException" if status >= 500 else "ValidationException"
    phrase = responses.get(status, "Unknown status")
    kind, message = ERRORS.get(status, (other, f"{phrase}."))
    if fields is None:
        return kind, message
    return str(fields.get("type") or kind), str(fields.get("message", message))


def _stop(reply: Completion) -> dict[str, Any]:
    """Return the reason why an answer ends; nothing for none."""
    word = reply.finish_or_refusal
    return {} if word is None else {"stopReason": STOPS.get(word, word)}


def _blocks(reply: Completion) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a whole answer. A refusal is text here."""
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


Block = tuple[dict[str, Any], list[dict[str, Any]]]
"""The start of a block, {} if it is not announced, and its deltas."""


def _streamed(reply: Completion) -> Iterator[Block]:
    """Yield the start of each block, which only a call has, with its deltas."""
    size = reply.chunk_size
    if reply.reasoning:
        thoughts: list[dict[str, Any]] = [{"text": piece} for piece in split(reply.reasoning, size)]
        thoughts.append({"signature": reply.signature or SIGNATURE})
        yield {}, [{"reasoningContent": each} for each in thoughts]
    text = reply.text + reply.refusal
    if text:
        yield {}, [{"text": piece} for piece in split(text, size)]
    for call in reply.tool_calls:
        start = {
            "toolUseId": call.id,
            "name": call.name,
            "type": "tool_use",
        }
        pieces = split(call.arguments, size)
        yield {"toolUse": start}, [{"toolUse": {"input": piece}} for piece in pieces]


def _usage(reply: Completion, request: AnswerRequest) -> dict[str, Any]:
    """Return the usage of an answer: as it is known, or estimated."""
    if reply.usage is not None:
        return dict(reply.usage)
    usage = estimated(reply, [request.body.get("system"), contents_of(request.body)])
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
    }


LANGUAGE: Final = _Converse()
