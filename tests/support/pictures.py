"""Pictures of many policies and changes, for tests of every renderer."""

from collections.abc import Callable
from functools import cache
from typing import Any

from attrs import evolve

from rungwise import CALL, Budget, Fact, Limits, Policy, Reserve, Rung, TurnPolicy, Waits
from rungwise.core import Row, Table
from rungwise.fsm.analysis.certificate.shown.settings import settings_of, table_of
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.merge import change_of
from rungwise.fsm.diagram.model import Marks, Picture


def changed(table: Table, *rows: Row, **fields: Any) -> Table:
    """Return a table with other rows."""
    return evolve(table, rows=rows, **fields)


# A machine that begins at its hub, has arcs that pass it by, and states whose names mean something
# in Mermaid.
ODD = changed(
    CALL,
    Row("answered", "think", None, "end"),
    Row("called", "think", "may_reask", "call", "spend_reask"),
    Row("called", "think", None, "stopped"),
    Row("ran", "call", "has_text", "end"),
    Row("ran", "call", "may_nudge", "graph", "spend_nudge"),
    Row("ran", "call", None, "think"),
    Row("drawn", "graph", None, "think"),
    Row("again", "think", "may_retry", "think", "spend_retry"),
    Row("again", "think", None, "stopped"),
    *(Row("stopped", state, None, "stopped") for state in ("think", "call", "graph")),
    *(Row("dropped", state, None, "stopped") for state in ("think", "call")),
    name="odd",
    start="think",
    hub="think",
    outcomes=("end", "stopped"),
)
SHORTER = changed(CALL, *(row for row in CALL.rows if "prefill" not in (row.source, row.target)))
TABLES = {"call": CALL, "shorter": SHORTER, "odd": ODD}
PATHS: dict[str, Callable[[Table], Marks | None]] = {
    "none": lambda table: None,
    "every row": lambda table: Marks.along(table.rows),
    "one row often": lambda table: Marks.along([table.rows[3]] * 30),
}

LONG = "waits_until_the_maintenance_window_of_the_cluster_is_over"
OWN = Rung(
    LONG,
    limit=2,
    holds=Fact(f"is_told_that_{LONG}", of=lambda reply: bool(reply)),
    wait="retry",
    hint="Once more.",
)
SWAPPED = ("may_retry", "may_fall_back", "has_text", None)
POLICIES: dict[str, Callable[[], Policy | TurnPolicy]] = {
    "default": Policy,
    "interactive": Policy.interactive,
    "narrow": lambda: Policy(
        limits=Limits(
            retries=0,
            nudges=0,
            prefills=0,
            continuations=0,
            fallbacks=0,
        ),
        budget=Budget(
            attempts=5,
            seconds=30.5,
            output_tokens=20_000,
            money=0.25,
        ),
        after_refusal="end",
    ),
    "wide": lambda: Policy(
        limits=Limits(retries=1000, reasks=7),
        waits=Waits(
            retry_base=0.125,
            retry_cap=3600.5,
            overload_cap=7200.25,
            reask_base=0.0,
        ),
        reserve=Reserve(share=0.0),
        switch_after={"empty": 2},
    ),
    "own": lambda: Policy(table=CALL.with_rung(OWN, came_empty="may_nudge", tools_truncated=None)),
    "shorter": lambda: Policy(
        table=CALL.without("prefill").reordered(
            "malformed", ["may_retry", "may_fall_back", "has_text", None]
        )
    ),
    "turn": TurnPolicy,
    "turn without summary": lambda: TurnPolicy(summary=False, faults=1, compactions=0),
}
"""Makers of policies, for a table of one's own is walked over when its policy is made."""

CHANGES = [
    ("default", "interactive"),
    ("default", "narrow"),
    ("narrow", "default"),
    ("default", "own"),
    ("own", "shorter"),
    ("wide", "shorter"),
    ("turn", "turn without summary"),
    ("turn without summary", "turn"),
]
PICTURES = (
    *POLICIES,
    *(f"{name}, nothing off" for name in POLICIES),
    *(f"{old} to {new}" for old, new in CHANGES),
)
"""The names of `pictures()`."""


@cache
def policy_of(name: str) -> Policy | TurnPolicy:
    """Return a policy by its name."""
    return POLICIES[name]()


def picture(policy: Policy | TurnPolicy, *, hides_off: bool = False) -> Picture:
    """Return the picture of a policy."""
    return picture_of(table_of(policy), settings=settings_of(policy, hides_off=hides_off))


@cache
def pictures() -> dict[str, Picture]:
    """Return a picture of each policy, with and without rows that are off, and of each change."""
    found = {name: picture(policy_of(name)) for name in POLICIES}
    hidden = {f"{name}, nothing off": picture(policy_of(name), hides_off=True) for name in POLICIES}
    changes = {f"{old} to {new}": change_of(found[old], found[new]) for old, new in CHANGES}
    return {**found, **hidden, **changes}
