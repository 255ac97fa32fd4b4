"""Compactors of calls and turns, helpful and broken, and strategies for them.

A compactor is a user's function, so the kit plays what users write: some shorten, some lengthen,
raise, return nonsense, or change the messages that they got.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.conversation.shapes import NEUTRAL
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.turn.compaction import OldestFirst
from rungwise.fsm.values.checks import must

SUMMARY: Final = "What was said before, in short: there are kingfishers on the river in winter. "
LONGER: Final = 40  # how often a compactor that lengthens repeats its summary
SLOW: Final = 20.0  # seconds of a virtual clock that a slow compactor takes


class CompactorFailed(Exception):
    """A compactor of the kit failed, as intended."""


def _drop_system(messages: Sequence[PlainMessage]) -> Any:
    others = []
    for message in messages:
        if NEUTRAL.role_of(message) not in ("system", "developer"):
            others.append(message)
    return others or list(messages)


def _raise(messages: Sequence[PlainMessage]) -> Any:
    raise CompactorFailed("the compactor could make nothing of it")


def _mutate(messages: Sequence[PlainMessage]) -> Any:
    """Change the messages in place, as careless functions do; the caller's list must not change."""
    for message in messages:
        if isinstance(message, dict) and isinstance(message.get("content"), str):
            message["content"] = message["content"][:10]
    return messages


_WAYS: Final[Mapping[str, Callable[[Sequence[PlainMessage]], Any]]] = {
    "keeps the last message": lambda messages: messages[-1:],
    "shortens": lambda messages: [{"role": "system", "content": SUMMARY}, *messages[-1:]],
    "does nothing": lambda messages: messages,
    "lengthens": lambda messages: [{"role": "user", "content": SUMMARY * LONGER}, *messages],
    "drops the system message": _drop_system,
    "returns a list": lambda messages: list(messages[-1:]),
    "returns a generator": lambda messages: (message for message in messages[-1:]),
    "returns a prompt": lambda messages: SUMMARY,
    "ends on an assistant turn": lambda messages: [
        *messages[-1:],
        {"role": "assistant", "content": "In short, they "},
    ],
    "mutates": _mutate,
    "raises": _raise,
    "returns None": lambda messages: None,
    "returns nothing at all": lambda messages: [],
    "returns a number": lambda messages: 5,
    "returns one message": lambda messages: messages[-1],
    "returns strings": lambda messages: ["They nest in the bank."],
    "returns an unknown role": lambda messages: [{"role": "nobody", "content": "hm"}],
}

COMPACTORS: Final = tuple(_WAYS)
"""The ways of compacting: those that work come first."""
_IS_WAY: Final = must("one of COMPACTORS", lambda value: value in COMPACTORS, names_class=True)


@frozen
class Compactor:
    """Compact messages in one way.

    Pass it as `compactor=` to a `Client` or to `rungwise.testing.run`.

    Arguments:
        way: one of `COMPACTORS`.
        seconds: how long it takes; whoever plays it moves the virtual clock.
    """

    way: str = field(default=COMPACTORS[0], validator=_IS_WAY)
    seconds: float = 0.0

    def __call__(self, messages: Sequence[PlainMessage]) -> Any:
        """Compact messages."""
        return _WAYS[self.way](messages)

    def __str__(self) -> str:
        if not self.seconds:
            return self.way
        return f"{self.way}, in {self.seconds:g} s"


KEEPS_LAST: Final = Compactor()


def compactors(*, ways: Sequence[str] = COMPACTORS) -> SearchStrategy[Compactor]:
    """Generate compactors, helpful and broken, some of them slow.

    Arguments:
        ways: some of `COMPACTORS`.
    """
    seconds = st.sampled_from((0.0, 0.0, 0.0, SLOW))
    return st.builds(Compactor, st.sampled_from(tuple(ways)), seconds)


Messages = Sequence[PlainMessage | Message]

_TURN_WAYS: Final[Mapping[str, Callable[[Messages, int], Any]]] = {
    "leaves out the oldest": OldestFirst(keep=2),
    "leaves out all but the last": OldestFirst(keep=1),
    "keeps the second half": lambda messages, room: messages[len(messages) // 2 :],
    "leaves out one in three": lambda messages, room: [
        each for at, each in enumerate(messages) if at % 3 != 1
    ],
    "says everything again": lambda messages, room: [*messages, *messages],
}

TURN_COMPACTORS: Final = (*_TURN_WAYS, *COMPACTORS)
"""The ways of compacting the conversation of a turn: those that work come first."""
_IS_TURN_WAY: Final = must(
    "one of TURN_COMPACTORS", lambda value: value in TURN_COMPACTORS, names_class=True
)


@frozen
class TurnCompactor(Compactor):
    """Compact the conversation of a turn in one way.

    Arguments:
        way: one of `TURN_COMPACTORS`.
        seconds: how long it takes; whoever plays it moves the virtual clock.
    """

    way: str = field(default=TURN_COMPACTORS[0], validator=_IS_TURN_WAY)
    seconds: float = 0.0

    def __call__(self, messages: Messages, room: int = 0) -> Any:
        """Compact a conversation."""
        if self.way in _TURN_WAYS:
            return _TURN_WAYS[self.way](messages, room)
        return _WAYS[self.way](messages)  # type: ignore[arg-type]


def turn_compactors() -> SearchStrategy[TurnCompactor]:
    """Generate compactors of turns."""
    way = st.sampled_from(tuple(_TURN_WAYS)) | st.sampled_from(TURN_COMPACTORS)
    return st.builds(TurnCompactor, way, st.sampled_from((0.0, 0.0, 0.0, SLOW)))
