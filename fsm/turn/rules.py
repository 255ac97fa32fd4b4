"""The rules for a table of turns, beside the proof that every path ends: the outcomes must be
honest.
"""

from __future__ import annotations

from collections.abc import Iterator

from rungwise.fsm.call.rules import OWN
from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.turn.table import TURN

Need = tuple[str, bool, str]
"""A fact, whether it must hold, and why."""

ENDS: dict[str, tuple[str, Need]] = {
    "finished": ("answered", ("is_summary", False, "a summary is no answer")),
    "awaiting_approval": (
        "tools_ran",
        ("awaits_approval", True, "no call may wait for the caller"),
    ),
    "handed_off": (
        "tools_ran",
        ("was_handed_off", True, "no terminating tool may have taken its call"),
    ),
}
"""The only event on which an outcome is honest, and the fact that it needs."""

LAST: Need = ("is_summary", False, "nothing follows the summary")
FEW: Need = ("over_tool_limit", False, "a reply that called too many tools ends the turn")

NEEDS: dict[tuple[str, str], tuple[Need, ...]] = {
    ("truncated", "go_on"): (("is_hopeless", False, "what was cut may lead nowhere"),),
    ("tools_ran", "go_on"): (FEW, ("repeats_calls", False, "the turn may go round in circles")),
    ("tools_ran", "summarize"): (FEW,),
    ("overflowed", "compact"): (
        ("has_compactor", True, "there may be no compactor"),
        ("may_go_on_later", True, "no call may be left to send what was shortened"),
    ),
}
"""The facts that a row from an event to a rung needs, beside `is_summary` being false."""


def faults_of_turn(table: Table) -> Iterator[str]:
    """Yield what is wrong with a table that is to run turns, in words."""
    for name in TURN.events:
        if name not in table.events:
            yield f"no row takes {name!r}, which every turn can meet"
    for event, source in table.ladders:
        for branch in branches(table, event, source):
            yield from _faults_of_branch(table, branch)


def _faults_of_branch(table: Table, branch: Branch) -> Iterator[str]:
    row = branch.row
    facts = branch.facts
    if row is None:
        return
    needs: tuple[Need, ...] = ()
    if row.target in ENDS:
        event, need = ENDS[row.target]
        needs = (need,)
        if row.event != event:
            yield f"{row}: only {event} leads to {row.target}"
    elif row.target in table.rungs:
        needs = (LAST, *NEEDS.get((row.event, row.target), ()))
    for fact, expected, why in needs:
        if facts.get(fact) is not expected:
            what = repr(fact) if expected else f"no {fact!r}"
            yield f"{row}: must find {what}: {why}"
    always = {**OWN, "sent": table.hub}.get(row.event)
    if always is not None and (row.guard is not None or row.target != always):
        yield f"{row}: {row.event} always leads to {always}"
    if always is None and row.target in OWN.values():
        yield f"{row}: nothing that comes back leads to {row.target}"
