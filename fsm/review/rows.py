"""The rows that a change of policy turns off or on, grouped by cause, and the names whose meaning changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rungwise.fsm.machine.declare import Fact
from rungwise.fsm.machine.table import Row, Table
from rungwise.fsm.review.findings import RowGroup

BEHIND = "nothing leads to "
"""The reason of a row begins with this if its state is never entered."""

SAME_CAUSE: Mapping[str, str] = {"no summary is asked for": "the limit of summaries is 0"}
"""Reasons that restate another one."""


def grouped(off: Mapping[Row, str], all_off: Mapping[Row, str]) -> tuple[RowGroup, ...]:
    """Group rows by their cause.

    Arguments:
        off: the rows, each with its reason.
        all_off: the same and those that both policies turn off, which may explain why a state is never entered.
    """
    direct: dict[str, list[Row]] = {}
    behind: dict[str, list[Row]] = {}
    for row, reason in off.items():
        cause = next(_causes(row, reason, all_off, set()), reason)
        cause = SAME_CAUSE.get(cause, cause)
        (behind if reason.startswith(BEHIND) and cause != reason else direct).setdefault(cause, []).append(row)
    return tuple(
        RowGroup(reason, tuple(direct.get(reason, ())), tuple(behind.get(reason, ())))
        for reason in dict.fromkeys((*direct, *behind))
    )


def _causes(row: Row, reason: str, off: Mapping[Row, str], seen: set[str]) -> Iterator[str]:
    """Follow a state that is never entered back to the reasons that turn off the rows to it."""
    if not reason.startswith(BEHIND):
        yield reason
        return
    seen.add(row.source)
    for other, why in off.items():
        if other.target == row.source and other.source not in seen:
            yield from _causes(other, why, off, seen)


def redeclared(old: Table, new: Table) -> Iterator[str]:
    """Describe the names of both tables that mean something else now: facts, guards, effects, and rungs."""
    facts = {fact.name: fact for fact in old.facts}
    for fact in new.facts:
        if fact.name in facts:
            yield from _fact_changes(facts[fact.name], fact)
    guards, effects = {row.guard for row in old.rows}, {row.effect for row in old.rows}
    for name in dict.fromkeys(row.guard for row in new.rows if row.guard in guards):
        if name and _needs(old, name) != _needs(new, name):
            yield f"the guard `{name}` needs {_needs(new, name)}; before, {_needs(old, name)}"
    for name in dict.fromkeys(row.effect for row in new.rows if row.effect in effects):
        if name and _counts(old, name) != _counts(new, name):
            yield f"the effect `{name}` {_counts(new, name)}; before, it {_counts(old, name)}"
    for name in new.rungs:
        for what in ("wait", "change"):
            before, after = old.rung(name), new.rung(name)
            if before and after and getattr(before, what) != getattr(after, what):
                yield f"the rung `{name}` has another {what}"


def _fact_changes(old: Fact, new: Fact) -> Iterator[str]:
    if old.of != new.of:
        yield f"another function decides the fact `{new.name}`"
    if (old.any_holds, old.any_lacks) != (new.any_holds, new.any_lacks):
        yield f"the fact `{new.name}` follows from {_follows(new)}; before, {_follows(old)}"
    if old.lasts != new.lasts:
        yield f"the fact `{new.name}` holds {_lasts(new)}; before, {_lasts(old)}"


def _follows(fact: Fact) -> str:
    return ", ".join([*fact.any_holds, *(f"not {each}" for each in fact.any_lacks)]) or "nothing"


def _lasts(fact: Fact) -> str:
    return f"while {fact.lasts} has a unit left" if fact.lasts else "for one reply"


def _needs(table: Table, name: str) -> str:
    guard = table.guard(name)
    counter = [f"a unit of {guard.counter}"] if guard.counter else []
    return ", ".join([*counter, *guard.holds, *(f"not {each}" for each in guard.lacks)]) or "nothing"


def _counts(table: Table, name: str) -> str:
    effect = table.effect(name)
    refills = f" and refills {', '.join(effect.refills)}" if effect.refills else ""
    when = f" on {effect.refills_on}" if effect.refills and effect.refills_on else ""
    return f"takes a unit of {effect.spends}{refills}{when}" if effect.spends else "counts nothing"
