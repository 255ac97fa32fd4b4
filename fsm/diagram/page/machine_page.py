"""The page on which a reviewer plays a machine, and the plain data that its script needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, frozen

from rungwise.fsm.diagram import Settings, draw
from rungwise.fsm.diagram.extract import kind_of, picture_of
from rungwise.fsm.diagram.page.templates import embedded, html, ladders_html, render
from rungwise.fsm.engine.checker.moves import moves_of
from rungwise.fsm.engine.machine.declare import Effect, Fact, Guard
from rungwise.fsm.engine.machine.table import Table

Plain = dict[str, Any]

NO_BUDGET: Mapping[str, float | None] = dict.fromkeys(
    ("attempts", "seconds", "output_tokens", "money")
)


@frozen(kw_only=True)
class Setup:
    """Hold what a machine runs with."""

    limits: Mapping[str, int]
    budget: Mapping[str, float | None] = NO_BUDGET  # of a whole run; None for no limit


def play_page(
    table: Table,
    setup: Setup,
    *,
    heading: str,
    at_first: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    unit: str = "attempt",
    settings: Settings | None = None,
) -> str:
    """Write the page on which a reviewer plays a machine that has been proved."""
    picture = picture_of(table, settings=settings)
    data = {
        "machine": machine_data(table, setup.limits),
        "budget": setup.budget,
        "usual": {"at_first": list(at_first), "events": facts or {}, "unit": unit},
    }
    title = f"Play the {table.name}"
    ladders = ladders_html(picture)
    svg = html(draw(picture, "svg"))
    values = {"title": title, "name": table.name, "heading": heading, "data": embedded(data)}
    return render("play", ladders=ladders, svg=svg, **values)


def machine_data(table: Table, limits: Mapping[str, int]) -> Plain:
    """Return everything that a script needs to run a table."""
    moves = moves_of(table, limits)
    guards = [
        table.guard(name) for name in dict.fromkeys(row.guard for row in table.rows if row.guard)
    ]
    effects = [
        table.effect(name) for name in dict.fromkeys(row.effect for row in table.rows if row.effect)
    ]
    return {
        "name": table.name,
        "start": table.start,
        "hub": table.hub,
        "outcomes": list(table.outcomes),
        "kinds": {state: kind_of(table, state) for state in table.states},
        "states": list(table.states),
        "counters": list(table.counters),
        "limits": dict(limits),
        "rows": [asdict(row) for row in table.rows],
        "facts": _plain(
            [fact for fact in table.facts if fact.is_derived], "any_holds", "any_lacks"
        ),
        "lasts": {fact.name: fact.lasts for fact in table.facts if fact.lasts},
        "guards": _plain(guards, "counter", "holds", "lacks"),
        "effects": _plain(effects, "spends", "refills", "refills_on"),
        "says": {guard.name: guard.says for guard in guards},
        "events": {event: table.says(event) for event in table.events},
        "moves": [{"takes": move.takes, "refills": sorted(move.refills)} for move in moves],
        "exact": all(move.is_free for move in moves),
    }


def _plain(declared: Sequence[Fact | Guard | Effect], *names: str) -> dict[str, Plain]:
    def plain(value: object) -> object:
        return list(value) if isinstance(value, tuple) else value

    return {each.name: {name: plain(getattr(each, name)) for name in names} for each in declared}
