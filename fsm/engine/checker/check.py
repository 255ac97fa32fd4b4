"""Refuse a table that cannot be proved."""

from __future__ import annotations

from functools import lru_cache

from attrs import evolve

from rungwise.fsm.engine.checker.branches import dead_rows
from rungwise.fsm.engine.checker.counterexample import PathStep, path_text
from rungwise.fsm.engine.checker.proof import prove
from rungwise.fsm.engine.checker.structure import problems
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.engine.machine.table import Table, is_shipped
from rungwise.fsm.errors import TableError


def check_table(table: Table) -> None:
    """Refuse a table that cannot be proved, with a TableError that shows the shortest path to a
    fault.

    One that passed is not checked again. Shipped tables are walked over by the tests, with all
    limits of 0s and 1s.
    """
    # how they are found makes no difference to what is proved of any combination of them
    if table.own_facts:
        facts = tuple(evolve(fact, of=None) for fact in table.facts)
        rungs = tuple(
            evolve(rung, holds=rung.guard.holds, lacks=rung.guard.lacks)
            for rung in table.declared_rungs
        )
        table = evolve(table, facts=facts, declared_rungs=rungs)
    _check(table)


@lru_cache(maxsize=256)
def _check(table: Table) -> None:
    wrong = list(problems(table))
    path: tuple[PathStep, ...] = ()
    if not wrong:
        wrong = [
            f"{proof.row}: {proof.why}" for proof in prove(table) if proof.verdict == "refused"
        ]
        wrong = wrong or [
            f"{row}: is never taken: the rows before it always win" for row in dead_rows(table)
        ]
        if wrong or not is_shipped(table):
            walked = walk(table, dict.fromkeys(table.counters, 1), repeats=False)
            failed = [each for each in walked.properties if not each.holds]
            wrong += [f"{each.name}: {each.detail}" for each in failed]
            path = next((each.path for each in failed if each.path), ())
    if wrong:
        reasons = "".join(f"\n- {each}" for each in wrong)
        shown = f"\nthe shortest path to it, with every limit 1:\n{path_text(path)}" if path else ""
        raise TableError(f"the table {table.name!r} is refused:{reasons}{shown}", path, table)
