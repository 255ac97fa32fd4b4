"""What is proved of the machine of health, besides what is proved of every table."""

from __future__ import annotations

from rungwise.fsm.engine.checker.check import check_table
from rungwise.fsm.engine.checker.counterexample import Property
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.health.health import Health
from rungwise.fsm.health.table import HALF_OPEN, HEALTH, OPEN

DUE = "an open backend comes due"
ONE_PROBE = "one probe at a time"


def verify_health(rules: Health | None = None, table: Table = HEALTH) -> tuple[Property, ...]:
    """Check the table of health, walk over all of its configurations, and return what holds."""
    check_table(table)
    walked = walk(table, (rules or Health()).limits)
    # An open backend is asked again, whatever else happens, if a step leads straight to a probe.
    never_due = ""
    for (state, _), edges in zip(walked.configurations, walked.edges, strict=True):
        following = [walked.configurations[index][0] for index in edges]
        if state == OPEN and HALF_OPEN not in following:
            never_due = f"nothing leads from {OPEN!r} to {HALF_OPEN!r}"
    # The limit of the counter is one, so a second probe can go only if something frees one that is
    # still out.
    twice_probed = ""
    for row in reversed(table.rows):
        if "probes" in table.effect(row.effect).refills and row.event != "came_back":
            twice_probed = f"{row}: frees a probe that has not come back"
    holds = [
        Property(name, not fault, fault or "in every configuration")
        for name, fault in ((DUE, never_due), (ONE_PROBE, twice_probed))
    ]
    return (*walked.properties, *holds)
