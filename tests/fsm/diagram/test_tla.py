"""The TLA+ specification: what it says in every build; in the full run its syntax, and what TLC
finds of it and of planted faults.
"""

import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from rungwise.core import TURN, Table
from rungwise.fsm.engine.checker.walk import walk
from support.formal.faults import FAULTY, LITTLE
from support.formal.tla import configuration, specification
from support.formal.tlc import Checked, tlc
from support.tables import CALL, KNOTTY, ONES
from support.uncommon import UNCOMMON, UNCOMMON_LIMITS

NONE = dict.fromkeys(("rotations", "reattaches", "rechecks", "nudges", "prefills"), 0)
FEWER = {**ONES, **NONE}
"""TLC takes minutes with every limit 1; SPIN does not, and is asked with these."""

TABLES: Mapping[str, tuple[Table, Mapping[str, int]]] = {
    "call": (CALL, FEWER),
    "turn": (TURN, {name: limit or 0 for name, limit in TURN.limits.items()}),
    "facts of facts": (KNOTTY, FEWER),
    "uncommon names": (UNCOMMON, UNCOMMON_LIMITS),
}


def errors_in(written: str) -> list[str]:
    """Return what a parser does not understand; only the full run installs a parser."""
    tree_sitter = import_module("tree_sitter")
    grammar = import_module("tree_sitter_tlaplus").language()
    # It warns of how the grammar is handed over.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        parser = tree_sitter.Parser(tree_sitter.Language(grammar))
    todo = [parser.parse(written.encode()).root_node]
    found = []
    while todo:
        node = todo.pop()
        todo += node.children
        if node.is_error or node.is_missing:
            found.append(
                f"line {node.start_point[0] + 1}: {written.splitlines()[node.start_point[0]]}"
            )
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", TABLES)
def test_a_specification_can_be_parsed(name: str) -> None:
    table, limits = TABLES[name]
    assert errors_in(specification(table, limits)) == []


@pytest.mark.full
def test_the_parser_would_tell() -> None:
    assert errors_in(specification(TURN).replace("ELSE", "ELS")) != []


def test_every_row_is_in_its_place() -> None:
    written = specification(CALL)
    ladder = written[written.index("\ncame_empty ==") : written.index("\nonly_reasoned ==")]
    rows = [
        line.split(" IF ")[-1].strip()
        for line in ladder.splitlines()
        if "Go(" in line or "End(" in line
    ]
    assert rows == [
        '"has_delivered" \\in facts THEN End("salvaged")',
        '"has_prior_answer" \\in facts THEN End("salvaged")',
        'must_leave(facts) THEN Go("fallback", spend_fallback)',
        'may_nudge(facts) THEN Go("nudge", spend_nudge)',
        'may_reask(facts) THEN Go("reask", spend_reask)',
        'may_fall_back(facts) THEN Go("fallback", spend_fallback)',
        '"has_text" \\in facts THEN End("partial")',
        'ELSE End("exhausted")',
    ]


def test_what_tlc_is_told_holds_the_limits_and_stands_in_the_specification_too() -> None:
    told = configuration(TURN, LITTLE)
    assert "  limit_auto_continues = 2\n" in told
    assert all(f"     {line}\n" in specification(TURN, LITTLE) for line in told.splitlines())


def checked(table: Table, limits: Mapping[str, int], folder: Path) -> Checked:
    written = specification(table, limits)
    return tlc(
        written.split("MODULE ")[1].split()[0], written, configuration(table, limits), folder
    )


@pytest.mark.soak
@pytest.mark.parametrize("table", [CALL, KNOTTY], ids=["call", "facts of facts"])
def test_tlc_finds_nothing_wrong_with_every_limit_1(table: Table, tmp_path: Path) -> None:
    found = checked(table, ONES, tmp_path)
    assert found == Checked(len(walk(table, ONES).configurations), None)


@pytest.mark.full
@pytest.mark.parametrize("name", TABLES)
def test_tlc_finds_nothing_wrong_and_reaches_what_the_walk_reaches(
    name: str, tmp_path: Path
) -> None:
    table, limits = TABLES[name]
    assert checked(table, limits, tmp_path) == Checked(
        len(walk(table, limits).configurations), None
    )


FAULTS = {
    "takes nothing": "Action property Pays is violated.",
    "checks no counter": "Invariant TypeOK is violated.",
    "no last resort": "Invariant Total is violated.",
    "leaves an outcome": "Action property Absorbs is violated.",
    "in flight, and not sent": "Action property OnlySentIsInFlight is violated.",
    "receives in the hub for ever": "Invariant Moves is violated.",
    "stands still": "Deadlock reached.",
}


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS)
def test_finds_each_planted_fault(fault: str, tmp_path: Path) -> None:
    assert checked(FAULTY[fault], LITTLE, tmp_path).error == FAULTS[fault]
