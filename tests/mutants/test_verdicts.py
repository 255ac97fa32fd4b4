"""What is written of survivors speaks of the code as it is; `.ci/run soak` tries the mutants."""

from pathlib import Path

import pytest
from attrs import evolve

from mutants.verdicts import verdicts, without_comments
from support.imports import ROOT


def test_each_verdict_speaks_of_a_statement_that_is_there() -> None:
    read = verdicts()
    assert len({each.key for each in read}) == len(read)
    sources = {}
    for file in {each.file for each in read}:
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        sources[file] = without_comments(lines)
    assert [each for each in read if each.was not in sources[each.file]] == []


SOURCE = """
LIMIT = 3


def is_small(number: int | None) -> bool:
    if number is None:
        return False
    return number < LIMIT and number < 10
"""


@pytest.mark.soak
def test_a_key_is_that_of_its_statement_wherever_it_stands() -> None:
    from mutants.making import mutants_in

    before = mutants_in("small.py", SOURCE)
    keys = [mutant.key for mutant in before]
    assert len(set(keys)) == len(keys) == 13
    moved = SOURCE.replace("LIMIT = 3", "# The most.\n\nLIMIT = 3\nOTHER = 4")
    moved = moved.replace("< 10", "< 10  # at most")
    assert set(keys) <= {mutant.key for mutant in mutants_in("small.py", moved)}
    changed = SOURCE.replace("< 10", "< 11")
    assert len(set(keys) - {mutant.key for mutant in mutants_in("small.py", changed)}) == 8
    becomes = {mutant.becomes for mutant in before}
    assert "return number <= LIMIT and number < 10" in becomes
    assert "return number < LIMIT or number < 10" in becomes
    assert not any("int & None" in each for each in becomes)


@pytest.mark.soak
def test_no_survivor_without_a_verdict_and_no_verdict_without_a_survivor(tmp_path: Path) -> None:
    from mutants.making import mutants_of
    from mutants.rooms import Results, Room, complaints
    from mutants.verdicts import Written

    room = Room("small", ["fsm/values/money.py"], quick=[], broad=[])
    mutants = mutants_of("fsm/values/money.py")[:4]
    results = Results(room, tmp_path)
    killed, survived, explained, _ = mutants
    results.note(killed, "quick", "killed", "a test")
    results.note(survived, "anew", "survived", "")
    results.note(explained, "anew", "survived", "")
    why = Written(explained.key, explained.file, "", "", "equivalent", "It does the same.")
    every = [mutant.key for mutant in mutants]
    [complaint] = complaints(mutants, results, every, [why])
    assert f"{survived.key} survived" in complaint
    again = Results(room, tmp_path)  # as a run that continues
    wrong = [evolve(why, key=each) for each in (killed.key, "gone")]
    complaints_of_both = sorted(complaints(mutants, again, every, [why, *wrong]))
    assert len(complaints_of_both) == 3
