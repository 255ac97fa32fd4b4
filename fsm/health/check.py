"""What is proved of the machine of health, besides what is proved of every table."""

from __future__ import annotations

from collections.abc import Iterable

from rungwise.fsm.checker.check import check_table
from rungwise.fsm.checker.counterexample import Property
from rungwise.fsm.checker.walk import Walk, walk
from rungwise.fsm.health.health import Health
from rungwise.fsm.health.table import HALF_OPEN, HEALTH, OPEN
from rungwise.fsm.machine.table import Table

DUE = "an open backend comes due"
ONE_PROBE = "one probe at a time"


def verify_health(rules: Health | None = None, table: Table = HEALTH) -> tuple[Property, ...]:
    """Check the table of health, walk over all of its configurations, and return what holds."""
    check_table(table)
    walked = walk(table, (rules or Health()).limits)
    return (*walked.properties, _property(DUE, _never_due(walked)), _property(ONE_PROBE, _twice_probed(table)))


def _property(name: str, faults: Iterable[str]) -> Property:
    fault = next(iter(faults), None)
    return Property(name, fault is None, fault or "in every configuration")


def _never_due(walked: Walk) -> Iterable[str]:
    """Yield where an open backend is not asked again, whatever else happens: no step leads straight to a probe."""
    for (state, _), edges in zip(walked.configurations, walked.edges, strict=True):
        if state == OPEN and not any(walked.configurations[index][0] == HALF_OPEN for index in edges):
            yield f"nothing leads from {OPEN!r} to {HALF_OPEN!r}"


def _twice_probed(table: Table) -> Iterable[str]:
    """Yield what frees a probe that is still out, so that a second one can go: of the counter, the limit is one."""
    for row in table.rows:
        if "probes" in table.effect(row.effect).refills and row.event != "came_back":
            yield f"{row}: frees a probe that has not come back"
