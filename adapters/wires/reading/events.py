"""Bring what a server sends into the form of its protocol, before its decoder reads it; and read
a whole body in that form.

Theory
------

Gateways put what they pass on into an envelope of their own, such as `{"data": {...}}`, or
`{"event": "...", "data": {...}}`, or a list of one; they write the names of its events otherwise
(`message-stop`, `Response.Completed`, `openai.response.completed`), or under another member; and
they leave out what is around a message (`choices`, `candidates`, `message`). None of that says
anything else than the protocol does. So it is undone here, once for all protocols, and no decoder
knows of it.

Each protocol says in an `Events` what its events and bodies look like. What looks so is handed over
as it is: that costs a look at its members. Anything else is searched for what does, level by level,
and the first that is found is the event. What holds an error is not searched: it may quote the
request. What is found nowhere stays as it came, for its decoder to pass over.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final

from attrs import define, frozen

from rungwise.adapters.wires.backend import Decoder
from rungwise.adapters.wires.counts import counted, counted_in
from rungwise.adapters.wires.draft import classified, malformed
from rungwise.adapters.wires.json_text import framed, load
from rungwise.adapters.wires.unread import (
    GARBLED,
    LEFT,
    LEFT_IN_TEXT,
    MAY_HOLD_A_CALL,
    doubted,
    holds_a_call,
    is_garbled,
    unclear,
)
from rungwise.fsm.replies.failures.bare import is_bare_error
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply

_WRAPPERS: Final = frozenset({"data", "payload"})
"""Members that hold what belongs beside the name of an event; none of its own is called so."""
_NAMED: Final = ("type", "event", "event_type", "eventType")
"""Members that may hold the name of an event."""
_ABOUT: Final = frozenset(
    {
        "role",
        "model",
        "modelVersion",
        "responseId",
        "object",
        "index",
        "done",
        "finish_reason",
        "finishReason",
    }
)
"""Members that tell a piece of a reply from any other object with a text."""
_ANSWERING: Final = (None, "assistant", "model")
"""The roles of messages that are replies."""
_LETTERS: Final = re.compile("[^a-z0-9]")
_SHORTEST: Final = 8
"""The fewest letters of a name that stand for a longer one."""
_DEPTH: Final = 3
_MOST: Final = 100
"""The most values that are searched."""
_MOST_TEXT: Final = 2**20
"""The most characters of a text that is read as JSON."""


@frozen
class Events:
    """Say what the events, or the whole bodies, of a protocol look like.

    Where it is said neither by marks nor by names, everything looks so.
    """

    marks: frozenset[str] = frozenset()
    """Members of which each of them has one."""
    names: frozenset[str] = frozenset()
    """The names of those that have one, as their `type` says it."""
    own: str = "."
    """How other names begin that the protocol may have: what is called so is its own."""
    shapes: tuple[tuple[str, frozenset[str]], ...] = ()
    """Names, each with members that tell what is called so."""
    around: tuple[tuple[str, frozenset[str]], ...] = ()
    """What is around a message, from the inside out, with the members that stand in it."""

    def is_usual(self, value: Any) -> bool:
        """Tell whether a value is as the protocol has it."""
        if not self.marks and not self.names:
            return True
        try:
            # for most events nothing else is asked
            if value["type"] in self.names:
                return "data" not in value and "payload" not in value
        except (KeyError, TypeError):
            pass
        if not isinstance(value, dict) or self.marks.isdisjoint(value):
            return False
        return "message" not in self.marks or _is_message(value.get("message"))

    def is_own(self, value: Mapping[str, Any]) -> bool:
        """Tell whether a value is as the protocol has it, or might have it."""
        return self.is_usual(value) or str(value.get("type")).startswith(self.own)

    def events_in(self, value: Any) -> list[Mapping[str, Any]]:
        """Return the events in a value that is none as it stands.

        An object in which there is none is one itself, and a list holds those of its objects.
        """
        if found := self._found(value):
            return found
        if isinstance(value, list):
            inner = [each for each in value if not isinstance(each, list)]
            return [event for each in inner for event in self.events_in(each)]
        if not isinstance(value, Mapping):
            return []
        found = []
        if not value.get("error"):
            found = self._wrapped(value) or self._beside_name(value)
        return found or [self._shaped(value)]

    def name_of(self, name: Any) -> str:
        """Return the name of an event that is written in any way, or ""."""
        return _known(name, self.names) if isinstance(name, str) else ""

    def shape_of(self, value: Mapping[str, Any]) -> str:
        """Return the name that the members of an event show, or ""."""
        for name, members in self.shapes:
            if members <= value.keys():
                return name
        return ""

    def _found(self, value: Any) -> list[Mapping[str, Any]]:
        """Return a value as the events that it is, whatever they are called, or as none."""
        value = _opened(value)
        if isinstance(value, list):
            objects = [each for each in map(_opened, value) if isinstance(each, dict)]
            found = [self._found(each) for each in objects]
            if not any(found):
                return []
            # what stands among events may be one of another kind, such as an error
            return [
                event for each, own in zip(objects, found, strict=True) for event in own or [each]
            ]
        if not isinstance(value, dict):
            return []
        if self.is_usual(value):
            return [value]
        name = self._name_in(value)
        return [{**value, "type": name}] if name and _WRAPPERS.isdisjoint(value) else []

    def _wrapped(self, value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the events that an envelope holds."""
        level: list[Any] = [value]
        for _ in range(_DEPTH):
            level = [inner for each in level for inner in _members(each)][:_MOST]
            for each in level:
                if found := self._found(each):
                    return found
        return []

    def _beside_name(self, value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the event whose name stands beside its data."""
        name = self._name_in(value)
        for member in _WRAPPERS:
            inner = _opened(value.get(member))
            if name and isinstance(inner, Mapping):
                return [{**inner, "type": name}]
        return []

    def _name_in(self, value: Mapping[str, Any]) -> str:
        """Return the name of an event under any member, or ""."""
        names = [self.name_of(value.get(member)) for member in _NAMED]
        return next(filter(None, names), "")

    def _shaped(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an object with the name, or with what is around it, that its members show."""
        if name := self.shape_of(value):
            return {**value, "type": name}
        if _ABOUT.isdisjoint(value):
            return value
        for member, inside in self.around:
            held = {name: value[name] for name in inside if _holds(name, value.get(name))}
            if message := _last_message(value.get("messages")):
                value = {**value, member: message, "messages": None}
            elif held and member not in value:
                value = {**value, member: held}
        return value


def _members(value: Any) -> Iterable[Any]:
    """Return what the members of an object hold, or of the only object of a list."""
    value = _opened(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value.values() if isinstance(value, Mapping) else ()


def _opened(value: Any) -> Any:
    """Return the JSON value in a text that holds one; anything else as it is."""
    if not isinstance(value, str) or not value.startswith(("{", "[")) or len(value) > _MOST_TEXT:
        return value
    try:
        return load(value.encode("utf-8", "surrogatepass"))
    except ValueError:
        return value


def _holds(name: str, value: Any) -> bool:
    """Tell whether a member holds some of a message; a bare text may be that of an error."""
    if name in ("message", "delta"):
        return isinstance(value, Mapping | list) and bool(value)
    return isinstance(value, str | Mapping | list) and bool(value)


def _is_message(value: Any) -> bool:
    """Tell whether what is called a message is one, and not what an envelope calls so."""
    return not isinstance(value, str) and not (isinstance(value, Mapping) and "message" in value)


def _last_message(messages: Any) -> Mapping[str, Any] | None:
    """Return the last of some messages, if it is the model's."""
    if isinstance(messages, list) and messages and isinstance(messages[-1], Mapping):
        message: Mapping[str, Any] = messages[-1]
        return message if message.get("role") in _ANSWERING else None
    return None


@lru_cache(maxsize=256)
def _known(name: str, names: frozenset[str]) -> str:
    """Return the only one of some names that a name stands for, or "".

    Case, punctuation, what stands before it, and a word for an event behind it do not count.
    """
    said = _LETTERS.sub("", name[:_MOST].lower()).removesuffix("event")
    letters = {_LETTERS.sub("", each.lower()): each for each in names}
    if said in letters:
        return letters[said]
    ends = [each for each in letters if len(each) >= _SHORTEST and said.endswith(each)]
    if ends:
        return letters[max(ends, key=len)]
    begun = [each for each in letters if len(said) >= _SHORTEST and each.endswith(said)]
    return letters[begun[0]] if len(begun) == 1 else ""


@define(eq=False, repr=False)
class BodyDecoder(Decoder):
    """Turn a whole body into a reply or a failure; a protocol says in `read_object` how."""

    BODIES: ClassVar[Events] = Events()
    """What its whole bodies look like."""

    READS_EVENTS: ClassVar[bool] = True
    """Whether its streams are server-sent events."""

    # the response's headers, for the classification of an error inside the reply
    headers: Mapping[str, str]
    provider: str = ""  # whose reply it is

    def whole(self, body: bytes) -> Reply | Failure:
        """Read a whole body with a status of success, which may also come instead of a stream."""
        try:
            value = load(body)
        except ValueError:
            return self._lines(body)
        if not self.BODIES.is_usual(value):
            bodies = self.BODIES.events_in(value)
            if len(bodies) == 1:
                [value] = bodies
        if not isinstance(value, dict):
            return self.read_other(value, body)
        reply = self.read_object(value, body)
        if isinstance(reply, Reply):
            if not body.isascii() and is_garbled(body):
                reply = unclear(reply, GARBLED)
            if LEFT_IN_TEXT.search(reply.text) and not reply.tool_calls:
                reply = unclear(reply, LEFT)
            if not reply.tool_calls and MAY_HOLD_A_CALL.search(body) and holds_a_call(value):
                reply = doubted(reply)
            if reply.usage.estimated:
                return counted(reply, counted_in(value), is_all=True)
            return reply
        if reply.reason == "malformed" and is_bare_error(value):
            return classified(None, self.headers, body)
        return reply

    def _lines(self, body: bytes) -> Reply | Failure:
        """Read a body that is no JSON as a whole: the events of a stream, with no frame around."""
        events = framed(body) if self.READS_EVENTS else b""
        if not events:
            return malformed("the body is not JSON, or too much of it")
        lines = type(self)(self.headers, self.provider)
        lines.feed(events)
        return lines.close()

    @abstractmethod
    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the JSON object of a whole body."""

    def read_other(self, value: object, body: bytes) -> Reply | Failure:
        """Read a whole body that is JSON and no object."""
        return malformed("the body is not a JSON object")
