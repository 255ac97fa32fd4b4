"""What tests know of the shipped tables: how it is written down, compared, and renewed."""

from pathlib import Path

import pytest

from support import facts

OLD = {"fsm/test_walk.py": {"configurations": 12301, "gone": 1}}
NEW = {"fsm/test_walk.py": {"configurations": 26641, "paths": ["ask → done", 2]}}


def test_each_change_is_a_line_with_the_old_and_the_new_value() -> None:
    assert facts.changes(OLD, NEW) == [
        "fsm/test_walk.py: configurations: 12301 -> 26641",
        "fsm/test_walk.py: gone: 1 -> none",
        'fsm/test_walk.py: paths: none -> ["ask → done", 2]',
    ]
    assert facts.changes(NEW, NEW) == []


def test_where_a_test_failed_what_it_did_not_find_stays() -> None:
    assert facts.merged(OLD, NEW) == {
        "fsm/test_walk.py": {
            "configurations": 26641,
            "gone": 1,
            "paths": ["ask → done", 2],
        }
    }


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "FILE", tmp_path / "facts.toml")
    assert facts.read() == {}
    facts.write(NEW)
    assert facts.read() == NEW


def test_what_differs_or_is_not_known_names_the_command() -> None:
    known = OLD["fsm/test_walk.py"]
    facts.compare(known, "fsm/test_walk.py", "configurations", 12301)
    with pytest.raises(AssertionError, match=r"12301 is written down.* `python tests/renew\.py`"):
        facts.compare(known, "fsm/test_walk.py", "configurations", 26641)
    with pytest.raises(AssertionError, match=r"does not know 'rows'.* `python tests/renew\.py`"):
        facts.compare(known, "fsm/test_walk.py", "rows", 173)
