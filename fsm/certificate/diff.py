"""What a change of policy does, for review: fields, rows, and the worst cases before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from rungwise.fsm.call.link import Link
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.diff_text import as_markdown, as_text
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.certificate.worst_case import WorstCase
from rungwise.fsm.checker.structure import reached_states
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.machine.table import Row, Table
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import TURN


@frozen
class FieldChange:
    """Hold one field of the policy that changes; a reason that is only in one `switch_after` is None in the other."""

    name: str
    old: Any
    new: Any


@frozen
class WorstChange:
    """Hold the worst case of one thing that is spent, before and after."""

    old: WorstCase
    new: WorstCase

    @property
    def name(self) -> str:
        """Name what is spent."""
        return self.new.name

    @property
    def factor(self) -> float | None:
        """Return how many times the old worst case the new one is; None where either is unknown or the old one is 0."""
        old, new = self.old.value, self.new.value
        return None if old is None or new is None or old == 0 else new / old

    @property
    def is_known(self) -> bool:
        """Tell whether either figure is known."""
        return self.old.value is not None or self.new.value is not None

    @property
    def is_change(self) -> bool:
        """Tell whether the figure changes, or what ends the worst path."""
        return (self.old.value, self.old.ended_by) != (self.new.value, self.new.ended_by)


@frozen
class PolicyDiff:
    """Hold what a change of policy does.

    Arguments:
        fields: the fields that differ.
        appear, vanish: the rows that only the new table has, and those that only the old one had.
        reordered: the events whose rows are tried in another order, each with its state.
        die, revive: the rows of both tables that can no longer be taken, and those that can be again, each with the
            reason, which is a limit of 0.
        worst: the worst cases.
        backends: how many backends they are for.
        table: the name of the machine, `call` or `turn`.
        calls: for a turn, what changes for its calls.
    """

    fields: tuple[FieldChange, ...]
    appear: tuple[Row, ...]
    vanish: tuple[Row, ...]
    reordered: tuple[tuple[str, str], ...]
    die: Mapping[Row, str] = attrs.field(hash=False)
    revive: Mapping[Row, str] = attrs.field(hash=False)
    worst: tuple[WorstChange, ...]
    backends: int
    table: str = "call"
    calls: PolicyDiff | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether the two policies are the same."""
        rows = (self.appear, self.vanish, self.reordered, self.die, self.revive)
        is_same = not any((self.fields, *rows)) and not any(each.is_change for each in self.worst)
        return is_same and (self.calls is None or self.calls.is_empty)

    def to_text(self) -> str:
        """Write the difference for a terminal."""
        return as_text(self)

    def to_markdown(self) -> str:
        """Write the difference as Markdown, for a pull request."""
        return as_markdown(self)


def diff_policies(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    backends: int | Sequence[Link] = 1,
    *,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
) -> PolicyDiff:
    """Compare two policies, with their tables and their worst cases; those of turns with those of their calls.

    Arguments:
        old, new: both of calls, or both of turns.
        backends: the chain, or how many backends it has.
        max_tokens: the output cap that the caller will give; without it the output of a call is unbounded.
        input_tokens: the tokens of the prompt, which the worst case in money needs.

    Raises:
        ConfigurationError: no backend is usable, a counter of a table has no limit, or one policy is of a call and the
            other of a turn.
    """
    if isinstance(old, TurnPolicy) != isinstance(new, TurnPolicy):
        kinds = f"the old is a {type(old).__name__}, the new a {type(new).__name__}"
        raise ConfigurationError(f"a call's policy and a turn's cannot be compared: {kinds}")
    before = verify(old, backends, max_tokens=max_tokens, input_tokens=input_tokens)
    after = verify(new, backends, max_tokens=max_tokens, input_tokens=input_tokens)
    if isinstance(old, TurnPolicy) and isinstance(new, TurnPolicy) and before.call and after.call:
        fields = _changes("", attrs.asdict(old, filter=_OWN), attrs.asdict(new, filter=_OWN))
        calls = _compared(
            _fields(old.of_calls, new.of_calls), old.of_calls.table, new.of_calls.table, before.call, after.call
        )
        return attrs.evolve(_compared(fields, TURN, TURN, before, after), calls=calls)
    assert isinstance(old, Policy)
    assert isinstance(new, Policy)
    return _compared(_fields(old, new), old.table, new.table, before, after)


_OWN = attrs.filters.exclude("call")


def _compared(
    fields: Iterable[FieldChange], old: Table, new: Table, before: Certificate, after: Certificate
) -> PolicyDiff:
    dead, now_dead = dead_rows(old, before), dead_rows(new, after)
    shared = [row for row in old.rows if row in new.rows]
    return PolicyDiff(
        fields=tuple(fields),
        appear=tuple(row for row in new.rows if row not in shared),
        vanish=tuple(row for row in old.rows if row not in shared),
        reordered=tuple(_reordered(old, new)),
        die={row: now_dead[row] for row in shared if row in now_dead and row not in dead},
        revive={row: dead[row] for row in shared if row in dead and row not in now_dead},
        worst=tuple(WorstChange(*pair) for pair in zip(before.worst, after.worst, strict=False)),
        backends=len(before.chain),
        table=after.table,
    )


def dead_rows(table: Table, certificate: Certificate) -> dict[Row, str]:
    """Return the rows that a limit of 0 switches off, each with the reason.

    Arguments:
        certificate: holds the limits, and for each row the counter that it takes from.
    """
    taking = [proof for proof in certificate.rows if proof.takes and not certificate.limits[proof.takes]]
    off = {proof.row: f"the limit of {proof.takes} is 0" for proof in taking}
    reached = reached_states(table, off)
    unreached = {row: f"nothing leads to {row.source}" for row in table.rows if row.source not in reached}
    return {row: reason for row in table.rows if (reason := off.get(row) or unreached.get(row))}


def _fields(old: Policy, new: Policy) -> Iterator[FieldChange]:
    return _changes("", _plain(old), _plain(new))


def _plain(policy: Policy) -> dict[str, Any]:
    return attrs.asdict(policy, filter=attrs.filters.exclude("table")) | {"switch_after": dict(policy.switch_after)}


def _changes(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldChange]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _changes(f"{prefix}{name}.", before, after)
        elif before != after:
            yield FieldChange(f"{prefix}{name}", before, after)


def _reordered(old: Table, new: Table) -> Iterator[tuple[str, str]]:
    """List the events whose shared rows stand in another order."""
    for event, source in dict.fromkeys((row.event, row.source) for row in old.rows):
        before, after = old.ladder(event, source), new.ladder(event, source)
        if [row for row in before if row in after] != [row for row in after if row in before]:
            yield event, source
