"""The machine as plain data, for the script of the page: what its table declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rungwise.fsm.checker.moves import moves_of
from rungwise.fsm.machine.table import Table

Plain = dict[str, Any]


def machine_data(table: Table, limits: Mapping[str, int]) -> Plain:
    """Return everything that a script needs to run a table.

    Arguments:
        limits: the limit of each counter.
    """
    moves = moves_of(table, limits)
    guards = [table.guard(name) for name in dict.fromkeys(row.guard for row in table.rows if row.guard)]
    effects = [table.effect(name) for name in dict.fromkeys(row.effect for row in table.rows if row.effect)]
    return {
        "name": table.name,
        "start": table.start,
        "hub": table.hub,
        "outcomes": list(table.outcomes),
        "states": list(table.states),
        "counters": list(table.counters),
        "limits": dict(limits),
        "rows": [
            {"event": row.event, "source": row.source, "guard": row.guard, "target": row.target, "effect": row.effect}
            for row in table.rows
        ],
        "facts": {
            fact.name: {"any_holds": list(fact.any_holds), "any_lacks": list(fact.any_lacks)}
            for fact in table.facts
            if fact.is_derived
        },
        "guards": {
            guard.name: {"counter": guard.counter, "holds": list(guard.holds), "lacks": list(guard.lacks)}
            for guard in guards
        },
        "effects": {
            effect.name: {"spends": effect.spends, "refills": list(effect.refills), "refills_on": effect.refills_on}
            for effect in effects
        },
        "says": {guard.name: guard.says for guard in guards},
        "events": {event: table.says(event) for event in table.events},
        "moves": [{"takes": move.takes, "refills": sorted(move.refills)} for move in moves],
        "exact": all(move.is_free for move in moves),
    }
