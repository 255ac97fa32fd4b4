"""The summary of a turn, from its journal: how it ended and why, what it used, and a line for each
action.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import asdict, frozen

from rungwise.fsm.call.run.call_digest import digest_of_call, first_words
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.journal.attempts import attempts_of, end_of
from rungwise.fsm.engine.journal.digest import AttemptLine, Digest, Spent, digest_of
from rungwise.fsm.engine.journal.path import Path, path_of
from rungwise.fsm.engine.journal.record import Record
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.observe import cause_of
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS, TURN
from rungwise.fsm.values.money import as_money, units_of
from rungwise.fsm.values.usage import NO_USAGE


@frozen
class TurnPath:
    """Hold the path of a turn and the paths of its calls."""

    path: Path
    calls: tuple[Path | None, ...]  # None for one that was killed before its first step
    # the call, from 1, that a step made or brought back, by the number of the step
    call_of: Mapping[int, int]

    @property
    def policy(self) -> TurnPolicy:
        """Return the policy that the turn ran with."""
        policy: TurnPolicy = self.path.record.setting.policy
        return policy


def turn_path_of(path: Path, calls: Sequence[Record], table: Table) -> TurnPath:
    """Find the paths of the calls of a turn."""
    return TurnPath(path, tuple(_paths(calls, table)), dict(_numbers(path)))


def _numbers(path: Path) -> Iterator[tuple[int, int]]:
    call = 0
    in_flight = False
    for step in path.steps:
        if step.event == "sent":
            in_flight = step.source in CALLS
            call += in_flight
        if in_flight:
            yield step.number, call
        in_flight = in_flight and step.event == "sent"


def _paths(calls: Sequence[Record], table: Table) -> Iterator[Path | None]:
    for number, call in enumerate(calls, start=1):
        if call.table != table.name:
            raise ConfigurationError(
                f"journal: call {number}: it is not of the table {table.name!r}"
            )
        if not call.size:
            yield None
            continue
        try:
            yield path_of(call, table)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"journal: call {number}: {str(error).removeprefix('journal: ')}"
            ) from None


KINDS: Final = {"use_tools": "tools", "compact": "compaction"}
"""The kind of bar for each rung that makes no call."""


def digest_of_turn(turn: TurnPath, says: str = "") -> Digest:
    """Sum up a turn."""
    calls = tuple([None if call is None else digest_of_call(call) for call in turn.calls])
    return digest_of(
        turn.path,
        spent=_spent(turn, calls),
        cause=_cause(turn, calls),
        most=asdict(turn.policy.budget),
        lines=tuple(_lines(turn, calls)),
        says=says,
    )


def digest_of_turn_journal(
    journal: Record, calls: Sequence[Record], text: str = ""
) -> Digest | None:
    """Sum up a turn from its journal; None if it holds no steps, or none of the tables of its
    policy.
    """
    table = calls[0].setting.policy.table if calls else CALL
    try:
        turn = turn_path_of(path_of(journal, TURN), calls, table)
        return digest_of_turn(turn, first_words(text))
    except ConfigurationError:
        return None


def _lines(turn: TurnPath, calls: tuple[Digest | None, ...]) -> Iterator[AttemptLine]:
    for attempt in attempts_of(turn.path.steps):
        number = turn.call_of.get(attempt.sent.number)
        name = ""
        within = cost = None
        if number is not None:
            name = f"call {number}"
            within = calls[number - 1]
        if within is not None:
            cost = within.spent.cost
        yield AttemptLine(
            attempt=attempt,
            name=name,
            cost=cost,
            end=end_of(attempt, turn.path.table),
            within=within,
            kind=KINDS.get(attempt.rung, "attempt"),
        )


def _spent(turn: TurnPath, calls: tuple[Digest | None, ...]) -> Spent:
    attempts = 0
    usage = NO_USAGE
    costs = []
    is_least = False
    for call in calls:
        if call is None:
            continue
        spent = call.spent
        attempts += spent.attempts
        usage += spent.usage
        is_least = is_least or spent.is_least or spent.cost is None
        if spent.cost is not None:
            costs.append(units_of(spent.cost))
    seconds = turn.path.steps[-1].at
    return Spent(
        calls=len(calls),
        attempts=attempts,
        seconds=seconds,
        usage=usage,
        cost=as_money(sum(costs)) if costs else None,
        is_least=is_least,
    )


def _cause(turn: TurnPath, calls: tuple[Digest | None, ...]) -> str:
    """Say why a turn ended as it did; after a failed call, how that ended and why."""
    last = turn.path.steps[-1]
    row = turn.path.rows[-1]
    number = turn.call_of.get(last.number)
    call = None
    if number is not None:
        call = calls[number - 1]
    if turn.path.record.outcome is None or row is None:
        return ""
    if call is not None and call.kind == "error" and row.target not in TURN.answers:
        return f"its last call {call.headline}"
    return cause_of(row, last.facts, turn.policy, None, last.note) or ""
