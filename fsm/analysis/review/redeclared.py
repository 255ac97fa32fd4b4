"""Names that two tables share and that mean something else in the new one.

A row names its guard and its effect, and a guard names its facts. So two tables may have the same
rows and still do something else: a guard needs another fact, an effect takes from another counter.
No row differs in such a case, and a comparison of rows alone would miss it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rungwise.fsm.engine.machine.declare import Fact
from rungwise.fsm.engine.machine.table import Table


def redeclared(old: Table, new: Table) -> Iterator[str]:
    """Describe the facts, guards, effects and rungs of both tables that mean something else now."""
    old_facts = {fact.name: fact for fact in old.facts}
    for fact in new.facts:
        if fact.name in old_facts:
            yield from _fact_changes(old_facts[fact.name], fact)
    old_guards = {row.guard for row in old.rows}
    for name in dict.fromkeys(row.guard for row in new.rows):
        if name and name in old_guards and _needs(old, name) != _needs(new, name):
            yield f"the guard `{name}` needs {_needs(new, name)}; before, {_needs(old, name)}"
    old_effects = {row.effect for row in old.rows}
    for name in dict.fromkeys(row.effect for row in new.rows):
        if name and name in old_effects and _counts(old, name) != _counts(new, name):
            yield f"the effect `{name}` {_counts(new, name)}; before, it {_counts(old, name)}"
    for name in new.rungs:
        before = old.rung(name)
        after = new.rung(name)
        if before is None or after is None:
            continue
        if before.wait != after.wait:
            yield f"the rung `{name}` has another wait"
        if before.change != after.change:
            yield f"the rung `{name}` has another change"


def _fact_changes(old: Fact, new: Fact) -> Iterator[str]:
    if old.of != new.of:
        yield f"another function decides the fact `{new.name}`"
    if old.any_holds != new.any_holds or old.any_lacks != new.any_lacks:
        yield f"the fact `{new.name}` follows from {_follows(new)}; before, {_follows(old)}"
    if old.lasts != new.lasts:
        yield f"the fact `{new.name}` holds {_lasts(new)}; before, {_lasts(old)}"


def _follows(fact: Fact) -> str:
    """Name the facts that a fact follows from."""
    missing = [f"not {name}" for name in fact.any_lacks]
    return ", ".join([*fact.any_holds, *missing]) or "nothing"


def _lasts(fact: Fact) -> str:
    """Say how long a fact holds."""
    if fact.lasts is None:
        return "for one reply"
    return f"while {fact.lasts} has a unit left"


def _needs(table: Table, name: str) -> str:
    """Name what a guard needs."""
    guard = table.guard(name)
    needs = []
    if guard.counter:
        needs.append(f"a unit of {guard.counter}")
    needs.extend(guard.holds)
    needs.extend(f"not {fact}" for fact in guard.lacks)
    return ", ".join(needs) or "nothing"


def _counts(table: Table, name: str) -> str:
    """Say what an effect counts."""
    effect = table.effect(name)
    if not effect.spends:
        return "counts nothing"
    counts = f"takes a unit of {effect.spends}"
    if effect.refills:
        counts += f" and refills {', '.join(effect.refills)}"
        if effect.refills_on:
            counts += f" on {effect.refills_on}"
    return counts
