"""Write a table for Coq, which proves with a kernel of its own what the checker says of it.

The theory stands in `fsm/engine/checker/coq/Ladder.v`. What is written here is the table as data,
and for each list of rows at fault a lemma that it is empty, named after what it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Final

from rungwise.fsm.analysis.certificate.shown.settings import table_of
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.diagram.page.templates import render_text
from rungwise.fsm.engine.checker.compiled import compiled_rows
from rungwise.fsm.engine.machine.declare import Names
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.turn.policy import TurnPolicy

THEORY: Final = "Ladder.v"

LARGEST: Final = 20_000
"""The largest figure that is written: Coq counts one by one, in seconds to here."""


def theory() -> str:
    """Return the theory, which is the same for every table."""
    folder = files("rungwise.fsm.engine.checker") / "coq"
    return folder.joinpath(THEORY).read_text(encoding="utf-8")


def files_of(policy: Policy | TurnPolicy, limits: Mapping[str, int]) -> dict[str, str]:
    """Return the theory, and the table of a policy with its limits, by the names of their files."""
    name = "turn" if isinstance(policy, TurnPolicy) else "call"
    return {THEORY: theory(), f"{name}.v": coq_of(table_of(policy), name, limits)}


def coq_of(table: Table, name: str, limits: Mapping[str, int] | None = None) -> str:
    """Write a table and what is proved of it.

    Arguments:
        table: the table.
        name: `call`, `turn` or `health`, which says what honest means.
        limits: those of a policy, for its figure; None for none.

    Raises:
        TableError: a row does what no row may do.
    """
    rows = list(compiled_rows(table))
    refilled: dict[Names, str] = {(): "[]"}
    for row in rows:
        refilled.setdefault(row.refills, f"refilled_{len(refilled)}")
    most = None
    if limits is not None:
        most = bound_of(table, limits)
    return render_text(
        "table.v",
        table=table,
        name=name,
        rows=rows,
        refilled=refilled,
        limits=limits,
        most=most,
        quoted=_quoted,
        names=_names,
    )


def bound_of(table: Table, limits: Mapping[str, int]) -> int | None:
    """Return the most attempts by the theorem that bounds them; None if Coq cannot count so far.

    A unit of a counter is worth one attempt, and all that it may refill.
    """
    refilled: dict[str, set[str]] = {}
    for row in compiled_rows(table):
        if row.spends is not None:
            refilled.setdefault(row.spends, set()).update(row.refills)
    worth: dict[str, int] = {}
    for group in reversed(table.ranks):
        for counter in group:
            more = refilled.get(counter, set()) & worth.keys()
            units = [worth[name] * limits[name] for name in more]
            worth[counter] = 1 + sum(units)
    most = 1 + sum(worth[name] * limits[name] for name in worth)
    return most if most <= LARGEST else None


def _quoted(name: str) -> str:
    """Write a name as a string of Coq."""
    return '"' + name.replace('"', '""') + '"'


def _names(names: Iterable[str]) -> str:
    """Write names as a list of Coq."""
    return f"[{'; '.join(map(_quoted, names))}]"
