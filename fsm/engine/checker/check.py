"""Refuse a table that cannot be proved."""

from __future__ import annotations

from functools import lru_cache

from attrs import evolve

from rungwise.fsm.engine.checker.branches import dead_rows
from rungwise.fsm.engine.checker.counterexample import PathStep, path_text
from rungwise.fsm.engine.checker.proof import prove
from rungwise.fsm.engine.checker.sound import is_sound
from rungwise.fsm.engine.checker.structure import problems
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.engine.machine.table import Table, is_shipped
from rungwise.fsm.errors import TableError


def check_table(table: Table) -> None:
    """Refuse a table that cannot be proved.

    A table that passed is not checked again. Shipped tables are not walked over here: the tests
    do that, with all limits of 0s and 1s.

    Raises:
        TableError: what is wrong, with the shortest path to a fault if there is one.
    """
    # How facts are found makes no difference: the proof holds for any combination of them. Without
    # the functions of their owner, tables that are alike are checked once.
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
    """Look at the rows, then at the proof, then at the machine; walk over it to find a fault."""
    wrong = list(problems(table))
    path: tuple[PathStep, ...] = ()
    if not wrong:
        wrong = _unproved(table)
        ones = dict.fromkeys(table.counters, 1)
        if wrong or not (is_shipped(table) or is_sound(table, ones)):
            walked = walk(table, ones, repeats=False)
            failed = [each for each in walked.properties if not each.holds]
            wrong += [f"{each.name}: {each.detail}" for each in failed]
            path = next((each.path for each in failed if each.path), ())
    if wrong:
        text = f"the table {table.name!r} is refused:"
        for each in wrong:
            text += f"\n- {each}"
        if path:
            text += f"\nthe shortest path to it, with every limit 1:\n{path_text(path)}"
        raise TableError(text, path, table)


def _unproved(table: Table) -> list[str]:
    """Say which rows cannot be proved; if all can, which rows are never taken."""
    refused = [proof for proof in prove(table) if proof.verdict == "refused"]
    if refused:
        return [f"{proof.row}: {proof.why}" for proof in refused]
    return [f"{row}: is never taken: the rows before it always win" for row in dead_rows(table)]
