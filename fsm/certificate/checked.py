"""Prove a table and walk over it, and write every property with its verdict into the certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import prod

from attrs import evolve

from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.checker.branches import dead_rows, overlaps
from rungwise.fsm.checker.counterexample import Property
from rungwise.fsm.checker.firing import ORDERED
from rungwise.fsm.checker.proof import prove
from rungwise.fsm.checker.structure import problems
from rungwise.fsm.checker.walk import Walk, walk
from rungwise.fsm.checker.walked import ALIVE
from rungwise.fsm.machine.table import Table

WELL_FORMED = "well-formed table"
HONEST = "honest endings"
TERMINATES = "terminates for all limits"

SMALL = 1_000
"""Vectors of counters that are walked over without a thought, in about a second."""


def clipped(limits: Mapping[str, int]) -> dict[str, int]:
    """Return limits for a walk that takes no time: these where they are small, else each clipped to 1."""
    return dict(limits) if _is_small(limits) else {name: min(limit, 1) for name, limit in limits.items()}


def _is_small(limits: Mapping[str, int]) -> bool:
    return max(limits.values()) <= 1 or prod(limit + 1 for limit in limits.values()) <= SMALL


def checked(
    blank: Certificate,
    table: Table,
    faults_of: Callable[[Table], Iterable[str]],
    honest: str,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Fill in the properties, the proof and the walk.

    Arguments:
        blank: the certificate, with the limits that are to be walked over.
        table: the machine.
        faults_of: yields what is not honest about a table, in words.
        honest: what is said where nothing is.
        progress: is given the number of configurations looked at, every thousand of them.
    """
    found = problems(table)
    if found:
        return evolve(blank, properties=(Property(WELL_FORMED, False, "; ".join(found)),))
    rows = prove(table)
    refused = [proof for proof in rows if proof.verdict == "refused"]
    if progress is None and _is_small(blank.walked):  # a larger one takes memory, and is seldom asked for twice
        seen = _walk(table, tuple(blank.walked.items()))
    else:
        seen = walk(table, blank.walked, progress=progress)
    properties = {each.name: each for each in seen.properties}
    together = () if refused else overlaps(table)
    if not refused:
        if properties[ORDERED].holds:
            detail = "pairs of guards can hold at once; the machine takes the first row, as the table does"
            properties[ORDERED] = Property(ORDERED, True, f"{len(together)} {detail}")
        if dead := dead_rows(table):
            properties[ALIVE] = Property(ALIVE, False, f"the rows before it always win: {'; '.join(map(str, dead))}")
    shape = f"{len(table.rows)} rows, {len(table.events)} events, {len(table.states)} states"
    dishonest = "; ".join(faults_of(table))
    endless = "; ".join(f"{each.row}: {each.why}" for each in refused)
    first = (
        Property(WELL_FORMED, True, shape),
        Property(HONEST, not dishonest, dishonest or honest),
        Property(TERMINATES, not endless, endless or f"proved for each of {len(rows)} rows; the argument is below"),
    )
    return evolve(
        blank,
        configurations=len(seen.configurations),
        properties=(*first, *properties.values()),
        rows=rows,
        overlaps=together,
    )


@lru_cache(maxsize=16)
def _walk(table: Table, limits: tuple[tuple[str, int], ...]) -> Walk:
    return walk(table, dict(limits))
