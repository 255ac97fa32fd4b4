"""Tables of a turn in which a fault is planted, by name: a checker that finds none proves
nothing.
"""

from collections.abc import Mapping
from typing import Final

from attrs import evolve

from rungwise.core import TURN, Effect, Guard, Row, Table
from support.tables import redeclaring, replacing

LITTLE: Final = {
    "faults": 2,
    "compactions": 1,
    "summaries": 1,
    "auto_continues": 2,
}
"""Limits with which a checker is soon done."""

LAST_OF_ROUND: Final = TURN.ladder("tools_ran", "await")[-1]

FAULTY: Final[Mapping[str, Table]] = {
    "takes nothing": redeclaring(TURN, Effect("spend_fault")),
    "checks no counter": redeclaring(TURN, Guard("may_use_tools", lacks="is_summary")),
    "no last resort": replacing(TURN, {LAST_OF_ROUND: None}),
    "leaves an outcome": evolve(
        TURN, rows=(*TURN.rows, Row("answered", "failed", None, "finished"))
    ),
    "receives in the hub for ever": evolve(
        TURN, rows=(Row("pinged", "await", None, "await"), *TURN.rows)
    ),
    "stands still": evolve(TURN, rows=[row for row in TURN.rows if row.source != "compact"]),
    "gives back what ranks above": redeclaring(
        TURN, Effect("spend_fault", spends="faults", refills="auto_continues")
    ),
    "in flight, and not sent": evolve(
        TURN, rows=(Row("pinged", "await", "may_use_tools", "await", "spend_fault"), *TURN.rows)
    ),
}
