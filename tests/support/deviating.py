"""Replies as the embedded provider says them, event by event, for a test to say otherwise."""

import json
from collections.abc import Iterable
from typing import Any, Final

from botocore.eventstream import EventStreamBuffer

from rungwise import ToolCall
from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.testing import ScriptedReply
from support import protocols
from support.streams import rendered

TEXT: Final = "The heron stands still. " * 3
CALLS: Final = (
    ToolCall("call_1", "look", '{"bird":"owl"}'),
    ToolCall("call_2", "look", '{"bird":"heron"}'),
)
REPLIES: Final = {
    "text": ScriptedReply(TEXT, chunk_size=9),
    "calls": ScriptedReply("", tool_calls=CALLS, chunk_size=9),
    "both": ScriptedReply(TEXT, reasoning="Hm.", tool_calls=CALLS, chunk_size=9),
}
MEDIA: Final = {
    "ollama": "application/x-ndjson",
    "bedrock": "application/vnd.amazon.eventstream",
}
"""The media types of streams that are no server-sent events."""


def _backend(api: str) -> Any:
    return protocols.backend(api, "http://host/v1")


def events_of(api: str, reply: ScriptedReply) -> list[dict[str, Any]]:
    """Return the objects of the events of a reply; one of Converse has its name as its member."""
    data = rendered(_backend(api), reply, streams=True)
    if api == "bedrock":
        buffer = EventStreamBuffer()
        buffer.add_data(data)
        return [{each.headers[":event-type"]: json.loads(each.payload)} for each in buffer]
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n")]
    return [json.loads(line) for line in lines if line.startswith(b"{")]


def body_of(api: str, reply: ScriptedReply) -> dict[str, Any]:
    """Return the object of a reply in one piece."""
    body: dict[str, Any] = json.loads(rendered(_backend(api), reply, streams=False))
    return body


def encoded(api: str, events: Iterable[Any]) -> bytes:
    """Return the bytes of a stream of such objects."""
    if api == "bedrock":
        return b"".join([frame(*each) for event in events for each in event.items()])
    lines = [json.dumps(event).encode() for event in events]
    if api == "ollama":
        return b"".join([line + b"\n" for line in lines])
    done = [b"[DONE]"] if api == "openai" else []
    return b"".join([b"data: " + line + b"\n\n" for line in [*lines, *done]])


def streamed(api: str, events: Iterable[Any], size: int = 100_000) -> Any:
    """Return what a decoder makes of a stream of such objects, in pieces of some bytes."""
    decoder = _backend(api).decoder({})
    data = encoded(api, events)
    for start in range(0, len(data), size):
        decoder.feed(data[start : start + size])
    return decoder.close()


def whole(api: str, value: Any) -> Any:
    """Return what a decoder makes of a whole body."""
    return _backend(api).decode(200, {}, json.dumps(value).encode())


def response(api: str, body: bytes, *, streams: bool) -> bytes:
    """Return a whole HTTP response with a body."""
    media = "application/json"
    if streams:
        media = MEDIA.get(api, "text/event-stream")
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def read_of(reply: Any) -> tuple[str, list[tuple[str, Any]]]:
    """Return the text of a reply or a result, and the names and arguments of its calls."""
    return reply.text, [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]


def said_by(reply: ScriptedReply) -> tuple[str, list[tuple[str, Any]]]:
    """Return the same of what was scripted."""
    return read_of(reply)


def lifted(api: str, event: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what is around its message."""
    member, inner = {
        "openai": ("choices", "delta"),
        "gemini": ("candidates", "content"),
        "ollama": ("message", ""),
    }[api]
    outer = event.pop(member, None) or {}
    outer = outer[0] if isinstance(outer, list) else outer
    inside = outer.pop(inner, None) or outer.pop("message", None) or {}
    return {**event, **outer, **inside}
