"""The streams of calls and turns as users get them: real ones that the fuzz kit plays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

import rungwise
from rungwise import testing
from rungwise.fsm.testing.turn_player import CallInTurn, PlayedRound, RunOfTurn


class Ended:
    """A stream that was played: its events, and the result or error behind them."""

    def __init__(self, events: Sequence[object], result: Any) -> None:
        self.events = [*events]
        self.result = result

    def __iter__(self) -> Iterator[object]:
        """Yield the events, and end as the streams of a client do."""
        yield from self.events
        yield self.result.raise_for_outcome()

    def after(self, number: int) -> Iterator[object]:
        """Leave so many events out, as the stream of a durable call does."""
        for place, event in enumerate(self):
            if place >= number:
                yield event


def calls() -> st.SearchStrategy[Ended]:
    """Draw streams of calls."""

    def play(policy: rungwise.Policy, script: Any, sizes: tuple[int, ...]) -> Ended:
        events: list[Any] = []
        call = testing.run(
            policy,
            script,
            chain=2,
            events=events,
            sizes=sizes,
            is_streaming=True,
        )
        return Ended(events, call.result)

    sizes = st.lists(st.integers(1, 9), max_size=3).map(tuple)
    return st.builds(play, testing.policies(), testing.scripts_of_replies(), sizes)


def turns() -> st.SearchStrategy[Ended]:
    """Draw streams of turns."""
    from attrs import evolve

    def play(policy: rungwise.TurnPolicy, script: Any) -> Ended:
        run = testing.run_turn(policy, evolve(script, streams=True, stop=None), chain=2)
        return Ended([*_events_of(run)], run.turn.result)

    return st.builds(play, testing.turn_policies(), testing.scripts_of_turns())


def _events_of(run: RunOfTurn) -> Iterator[object]:
    doings = iter(run.doings)
    for step in run.turn.journal.steps:
        yield step
        doing = next(doings, None) if step.event == "sent" else None
        if isinstance(doing, CallInTurn):
            yield from doing.events
        elif isinstance(doing, PlayedRound):
            yield from (rungwise.ToolStarted(each.call) for each in doing.runs)
            pairs = zip(doing.runs, doing.outcomes, strict=False)
            yield from (rungwise.ToolEnded(each.call, outcome) for each, outcome in pairs)
