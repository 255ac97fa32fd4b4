"""What a protocol of the embedded provider is: its paths, and how it writes a scripted reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
from attrs import frozen

from rungwise.adapters.provider.script import ScriptedReply

CREATED: Final = 1_750_000_000  # fixed, so that `cut_after` cuts at the same place in every run
DEFAULT_MODEL: Final = "embedded"
CHARACTERS_PER_TOKEN: Final = 4
SIGNATURE: Final = "c2lnbmVkIGJ5IHRoZSBlbWJlZGRlZCBwcm92aWRlcg=="
"""The default signature of reasoning, in protocols that sign it."""


@frozen
class ScriptRequest:
    """Hold what matters of a request."""

    model: str
    streams: bool
    body: Mapping[str, Any]
    number: int  # counted from 1, for the ids in the reply


class Language(ABC):
    """Write replies in one protocol; each protocol is a subclass."""

    stream_type = "text/event-stream"
    """The content type of a stream."""
    paths: str | tuple[str, ...] = ()
    """How the path of a request ends."""
    conversation = "messages"
    """The member of a request's body that holds the conversation."""
    caps: tuple[str, ...] = ("max_tokens",)
    """The members that may hold the output cap; a dot stands between an object and its member."""

    def speaks(self, path: str) -> bool:
        """Tell whether a POST to this path, without its query, is a request in this protocol."""
        return path.endswith(self.paths)

    def cap_in(self, body: Mapping[str, Any]) -> object:
        """Return the output cap in a request's body, or None."""
        for name in self.caps:
            place, _, member = name.rpartition(".")
            fields = body.get(place) if place else body
            if isinstance(fields, Mapping) and fields.get(member) is not None:
                return fields[member]
        return None

    def read_request(self, path: str, body: Mapping[str, Any], number: int) -> ScriptRequest:
        """Return what matters of a request."""
        return ScriptRequest(str(body.get("model") or DEFAULT_MODEL), body.get("stream") is True, body, number)

    def listing(self, path: str, models: Iterable[str]) -> Any:
        """Return the answer to a GET of this path as JSON, or None if this protocol has no such path."""
        return None

    @abstractmethod
    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error."""

    @abstractmethod
    def whole(self, reply: ScriptedReply, request: ScriptRequest) -> bytes:
        """Return the body of a reply that is not streamed."""

    @abstractmethod
    def events(self, reply: ScriptedReply, request: ScriptRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream as they are sent."""


def event(value: object, name: str = "") -> bytes:
    """Return an event of a stream; bytes are written unchanged."""
    data = value if isinstance(value, bytes) else orjson.dumps(value)
    return (b"event: %b\n" % name.encode() if name else b"") + b"data: " + data + b"\n\n"


def split(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces of this many characters."""
    return (text[start : start + size] for start in range(0, len(text), size))


def characters(content: object) -> int:
    """Count the characters of text in some content, at any depth."""
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list):
        return sum(map(characters, content))
    if isinstance(content, Mapping):
        return sum(characters(content.get(name)) for name in ("text", "content", "parts", "output"))
    return 0


def tokens(count: int) -> int:
    """Return the tokens of this many characters."""
    return -(-count // CHARACTERS_PER_TOKEN)


def answer_tokens(reply: ScriptedReply) -> int:
    """Return the tokens of a whole reply, reasoning included."""
    calls = sum(len(call.name) + len(call.arguments) for call in reply.tool_calls)
    return tokens(len(reply.text) + len(reply.reasoning) + len(reply.refusal) + calls)


def input_of(arguments: str) -> Any:
    """Return the arguments as an object; anything else is sent as text."""
    try:
        value = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return arguments
    return value if isinstance(value, dict) else arguments


def contents_of(body: Mapping[str, Any]) -> list[Any]:
    """Return the contents of the messages in a request."""
    messages = body.get("messages")
    return [one.get("content") for one in messages if isinstance(one, Mapping)] if isinstance(messages, list) else []
