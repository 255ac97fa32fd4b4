"""The rows that a change of policy turns off or on again, those with one cause together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from rungwise.fsm.machine.declare import Fact
from rungwise.fsm.machine.table import Row, Table

BEHIND = "nothing leads to "
"""What the reason of a row begins with that stands in a state which is never entered."""

FALLS: Mapping[str, tuple[str, str]] = {
    "after_refusal is 'end'": ("a refusal no longer falls back", "a refusal falls back again"),
    "nudge_window is 0": ("nothing is nudged any more", "a reply to tool results may be nudged again"),
    "the reserve is 0": ("nothing is kept for the next backend", "something is kept for the next backend again"),
    "switch_after.empty is not set": (
        "no number of empty replies leaves a backend any more",
        "a backend is left after so many empty replies",
    ),
}
"""What it means that the rows of a reason can no longer be taken, and that they can again."""


SAME_CAUSE: Mapping[str, str] = {"no summary is asked for": "the limit of summaries is 0"}
"""Reasons that are but another side of one."""


@frozen
class RowGroup:
    """Hold the rows that fall, or come back, for one reason.

    Arguments:
        reason: of it.
        rows: those that it is true of.
        behind: those in the states that nothing leads to without them.
    """

    reason: str
    rows: tuple[Row, ...]
    behind: tuple[Row, ...] = ()

    @property
    def count(self) -> int:
        """Count all of them."""
        return len(self.rows) + len(self.behind)

    def means(self, *, falls: bool) -> str | None:
        """Say what the reason means for a call; None where the reason alone is all that is to be said."""
        told = FALLS.get(self.reason)
        return None if told is None else told[0 if falls else 1]


def grouped(off: Mapping[Row, str], all_off: Mapping[Row, str]) -> tuple[RowGroup, ...]:
    """Put the rows of one cause together.

    Arguments:
        off: the rows, each with its reason.
        all_off: those that are off for another time, too: what leads to a state may have been off already.
    """
    direct: dict[str, list[Row]] = {}
    behind: dict[str, list[Row]] = {}
    for row, reason in off.items():
        cause = _cause(row, reason, all_off)
        (behind if reason.startswith(BEHIND) and cause != reason else direct).setdefault(cause, []).append(row)
    return tuple(
        RowGroup(reason, tuple(direct.get(reason, ())), tuple(behind.get(reason, ())))
        for reason in dict.fromkeys((*direct, *behind))
    )


def _cause(row: Row, reason: str, off: Mapping[Row, str]) -> str:
    """Follow a state that nothing leads to back to why the rows that led there are off."""
    found = next(_causes(row, reason, off, set()), reason)
    return SAME_CAUSE.get(found, found)


def _causes(row: Row, reason: str, off: Mapping[Row, str], seen: set[str]) -> Iterator[str]:
    if not reason.startswith(BEHIND):
        yield reason
        return
    seen.add(row.source)
    for other, why in off.items():
        if other.target == row.source and other.source not in seen:
            yield from _causes(other, why, off, seen)


def redeclared(old: Table, new: Table) -> Iterator[str]:
    """Say which names of both tables stand for something else now: facts, guards, effects, and what rungs do."""
    for fact in new.facts:
        was_fact = next((each for each in old.facts if each.name == fact.name), None)
        if was_fact is not None:
            yield from _found_otherwise(was_fact, fact)
    for name in dict.fromkeys(row.guard for row in new.rows if row.guard):
        if any(row.guard == name for row in old.rows):
            was, now = _needs(old, name), _needs(new, name)
            if was != now:
                yield f"the guard {name} needs {now or 'nothing'}; before, {was or 'nothing'}"
    for name in dict.fromkeys(row.effect for row in new.rows if row.effect):
        if any(row.effect == name for row in old.rows) and _counts(old, name) != _counts(new, name):
            yield f"the effect {name} {_counts(new, name)}; before, it {_counts(old, name)}"
    for name in new.rungs:
        was_rung, rung = old.rung(name), new.rung(name)
        if was_rung is None or rung is None:
            continue
        for what in ("wait", "at_once_on", "change"):
            if getattr(was_rung, what) != getattr(rung, what):
                yield f"the rung {name} is declared with another {what}"


def _found_otherwise(was: Fact, now: Fact) -> Iterator[str]:
    if was.of != now.of:
        yield f"the fact {now.name} is found by another function"
    if (was.any_holds, was.any_lacks) != (now.any_holds, now.any_lacks):
        yield f"the fact {now.name} follows from {_follows(now)}; before, {_follows(was)}"
    if was.lasts != now.lasts:
        yield f"the fact {now.name} lasts {_lasts(now)}; before, {_lasts(was)}"


def _follows(fact: Fact) -> str:
    return ", ".join([*fact.any_holds, *(f"not {each}" for each in fact.any_lacks)]) or "nothing"


def _lasts(fact: Fact) -> str:
    return f"as long as a unit of {fact.lasts} is left" if fact.lasts else "as it is found"


def _needs(table: Table, guard: str) -> str:
    found = table.guard(guard)
    return ", ".join(
        [
            *([f"a unit of {found.counter}"] if found.counter else []),
            *found.holds,
            *(f"not {each}" for each in found.lacks),
        ]
    )


def _counts(table: Table, effect: str) -> str:
    found = table.effect(effect)
    refills = f" and refills {', '.join(found.refills)}" if found.refills else ""
    when = f" on {found.refills_on}" if found.refills and found.refills_on else ""
    return f"takes a unit of {found.spends}{refills}{when}" if found.spends else "counts nothing"
