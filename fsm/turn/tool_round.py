"""A round of tools: which calls of a reply are run, what came of each, and what that says of the turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from attrs import evolve, field

from rungwise.fsm.call.conversation.parts import ToolCall, ToolResult
from rungwise.fsm.errors import ConfigurationError, ToolError
from rungwise.fsm.text.json_text import exact
from rungwise.fsm.turn.actions import ToolOutcome, ToolRun
from rungwise.fsm.turn.conversation import Conversation
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.results import shortened, told
from rungwise.fsm.turn.tools import Toolbox
from rungwise.fsm.values.records import define, frozen


@frozen
class ToolRound:
    """Hold one round of tools.

    Arguments:
        calls: the calls of the reply.
        runs: what is to be run, with the place of each among the calls.
        faults: what is wrong with the others, by place, in words for the model.
        handed: the places of the terminating calls that need no run.
        is_too_long: whether the reply called more than may be run.
    """

    calls: tuple[ToolCall, ...]
    runs: tuple[tuple[int, ToolRun], ...]
    faults: dict[int, str]
    handed: frozenset[int]
    is_too_long: bool

    @classmethod
    def of(cls, calls: tuple[ToolCall, ...], tools: Toolbox, policy: TurnPolicy, left: float | None) -> ToolRound:
        """Plan a round.

        Arguments:
            calls: what the model asked for.
            tools: the caller's.
            policy: how many are run, and for how long.
            left: the seconds that the turn has left; None for no limit.
        """
        runs, handed, most = list[tuple[int, ToolRun]](), set[int](), policy.calls_per_reply
        faults = dict.fromkeys(range(most, len(calls)), policy.hints.too_many)
        for place, call in enumerate(calls[:most]):
            planned = tools.plan(call, policy.tool_seconds)
            if isinstance(planned, str):
                faults[place] = planned
            elif planned.tool.function is None and tools.executor is None:
                handed.add(place)
            else:
                most_seconds = planned.seconds if left is None else min(planned.seconds, left)
                runs.append((place, evolve(planned, seconds=most_seconds)))
        return cls(calls, tuple(runs), faults, frozenset(handed), len(calls) > most)

    def outcomes(
        self, returned: Sequence[ToolOutcome | None], policy: TurnPolicy, *, may_lack: bool = False
    ) -> Iterator[tuple[int, str, bool]]:
        """Yield the place of each call whose outcome is known, its result in words, and whether it is a fault.

        Arguments:
            returned: what came of the runs, in their order; None for what was not run.
            may_lack: whether some may have brought nothing, because they were ended.
            policy: how long the results of one reply may be together.
        """
        if not isinstance(returned, list | tuple) or len(returned) != len(self.runs):
            raise ConfigurationError(
                f"outcomes must be a list with a ToolOutcome for each of the {len(self.runs)} runs"
            )
        for each in returned:
            if not isinstance(each, ToolOutcome) and not (each is None and may_lack):
                raise ConfigurationError(f"outcomes must hold a ToolOutcome for each run, not {type(each).__name__}")
        found = dict.fromkeys(self.handed, (policy.hints.handed_off, False))
        found |= {place: (text, True) for place, text in self.faults.items()}
        for (place, _), outcome in zip(self.runs, returned, strict=True):
            if outcome is not None:
                found[place] = _in_words(outcome)
        places = sorted(found)
        texts = shortened([found[place][0] for place in places], policy.result_tokens)
        return ((place, text, found[place][1]) for place, text in zip(places, texts, strict=True))

    def handed_off(self, tools: Toolbox, conversation: Conversation) -> tuple[ToolCall, ...]:
        """Return the terminating calls that were taken."""
        return tuple(
            call
            for place, call in enumerate(self.calls)
            if tools.is_terminating(call.name) and not conversation.results[place].is_fault
        )


def _in_words(outcome: ToolOutcome) -> tuple[str, bool]:
    if outcome.fault is not None:
        return outcome.fault, True
    try:
        return told(outcome.value), False
    except ToolError as error:
        return str(error), True


@define(eq=False)
class Repeats:
    """Count how often the same call has brought the same result."""

    _seen: Counter[tuple[str, Any, str]] = field(factory=Counter, init=False)

    def count(self, call: ToolCall, result: ToolResult) -> int:
        """Count one call, and return how often it was made with that result."""
        key = call.name, _canonical(call.arguments), result.text
        self._seen[key] += 1
        return self._seen[key]


def _canonical(arguments: str) -> bytes | str:
    try:
        return orjson.dumps(exact(orjson.loads(arguments), arguments.encode()), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return arguments
