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
    """Hold what a machine runs with.

    Arguments:
        limits: the limit of each counter.
        budget: what a whole run may use of each thing that `NO_BUDGET` names; None is no limit.
    """

    limits: Mapping[str, int]
    budget: Mapping[str, float | None] = NO_BUDGET


def play_page(
    table: Table,
    setup: Setup,
    *,
    heading: str,
    at_first: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    unit: str = "attempt",
    settings: Settings | None = None,
    around: Mapping[str, Any] | None = None,
) -> str:
    """Write the page on which a reviewer plays a machine that has been proved.

    Arguments:
        table: the machine.
        setup: its limits and its budget.
        heading: the heading of the page.
        at_first: the facts that hold when the page is opened.
        facts: for each event, the facts that usually hold with it and after it.
        unit: what one send is called.
        settings: what the picture shows of a policy, if any.
        around: what a call has around its table, so that the page can read and write its journals.
    """
    picture = picture_of(table, settings=settings)
    data = {
        "machine": machine_data(table, setup.limits),
        "budget": setup.budget,
        "usual": {"at_first": list(at_first), "events": facts or {}, "unit": unit},
        "around": around,
    }
    title = f"Play the {table.name}"
    return render(
        "play",
        title=title,
        name=table.name,
        heading=heading,
        data=embedded(data),
        ladders=ladders_html(picture),
        svg=html(draw(picture, "svg")),
    )


def machine_data(table: Table, limits: Mapping[str, int]) -> Plain:
    """Return everything that a script needs to run a table.

    Beside the table itself, these are the moves of the checker (`checker/moves.py`). From them the
    script computes the most attempts that can follow; if `exact` is false, that is an upper bound.

    Arguments:
        table: the table.
        limits: the limit of each counter.
    """
    moves = moves_of(table, limits)
    guard_names = dict.fromkeys(row.guard for row in table.rows if row.guard)
    effect_names = dict.fromkeys(row.effect for row in table.rows if row.effect)
    guards = [table.guard(name) for name in guard_names]
    effects = [table.effect(name) for name in effect_names]
    derived_facts = [fact for fact in table.facts if fact.is_derived]
    lasting_facts = [fact for fact in table.facts if fact.lasts]
    states = {
        "name": table.name,
        "start": table.start,
        "hub": table.hub,
        "outcomes": list(table.outcomes),
        "kinds": {state: kind_of(table, state) for state in table.states},
        "states": list(table.states),
    }
    counters = {"counters": list(table.counters), "limits": dict(limits)}
    rows = {"rows": [asdict(row) for row in table.rows]}
    declarations = {
        "facts": _plain(derived_facts, "any_holds", "any_lacks"),
        "lasts": {fact.name: fact.lasts for fact in lasting_facts},
        "guards": _plain(guards, "counter", "holds", "lacks"),
        "effects": _plain(effects, "spends", "refills", "refills_on"),
    }
    words = {
        "says": {guard.name: guard.says for guard in guards},
        "events": {event: table.says(event) for event in table.events},
    }
    proof = {
        "moves": [{"takes": move.takes, "refills": sorted(move.refills)} for move in moves],
        "exact": all(move.is_free for move in moves),
    }
    return states | counters | rows | declarations | words | proof


def _plain(declared: Sequence[Fact | Guard | Effect], *names: str) -> dict[str, Plain]:
    """Return some fields of declarations, by their names; tuples become lists, as in JSON."""
    plain: dict[str, Plain] = {}
    for each in declared:
        fields: Plain = {}
        for name in names:
            value = getattr(each, name)
            fields[name] = list(value) if isinstance(value, tuple) else value
        plain[each.name] = fields
    return plain
