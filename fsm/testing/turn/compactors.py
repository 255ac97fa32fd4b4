"""Compactors of turns: those of calls, and some that know of tool calls and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.testing.compactors import COMPACTORS, SLOW, Compactor
from rungwise.fsm.turn.compaction import OldestFirst
from rungwise.fsm.values.checks import must

Messages = Sequence[PlainMessage | Message]

_WAYS: Final[Mapping[str, Callable[[Messages, int], Any]]] = {
    "leaves out the oldest": OldestFirst(keep=2),
    "leaves out all but the last": OldestFirst(keep=1),
    "keeps the second half": lambda messages, room: messages[len(messages) // 2 :],
    "leaves out one in three": lambda messages, room: [each for at, each in enumerate(messages) if at % 3 != 1],
    "says everything again": lambda messages, room: [*messages, *messages],
}

TURN_COMPACTORS: Final = (*_WAYS, *COMPACTORS)
"""The ways of compacting the conversation of a turn: those that work come first."""


@frozen
class TurnCompactor:
    """Compact the conversation of a turn in one way.

    Arguments:
        way: what it does, of `TURN_COMPACTORS`.
        seconds: how long it takes; whoever calls it moves the virtual clock.

    Raises:
        ConfigurationError: the way is unknown.
        CompactorFailed: when it is called, where that is its way.
    """

    way: str = field(
        default=TURN_COMPACTORS[0],
        validator=must("one of TURN_COMPACTORS", lambda value: value in TURN_COMPACTORS, names_class=True),
    )
    seconds: float = 0.0

    def __call__(self, messages: Messages, room: int) -> Any:
        """Make of the conversation what this compactor makes of it."""
        return _WAYS[self.way](messages, room) if self.way in _WAYS else Compactor(self.way)(messages)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.way}, in {self.seconds:g} s" if self.seconds else self.way


def turn_compactors(*, ways: Sequence[str] = TURN_COMPACTORS) -> SearchStrategy[TurnCompactor]:
    """Generate compactors of turns.

    Arguments:
        ways: what they do, of `TURN_COMPACTORS`.
    """
    helpful = tuple(way for way in ways if way in _WAYS) or tuple(ways)
    return st.builds(
        TurnCompactor,
        st.sampled_from(helpful) | st.sampled_from(tuple(ways)),
        st.sampled_from((0.0, 0.0, 0.0, SLOW)),
    )
