"""The directory of pictures: it is in step with the machine, and explains every name in it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rungwise import CALL, PlainLink, Policy, Waits
from rungwise.fsm.certificate import pictures
from rungwise.fsm.certificate.pictures import drift, fill, numbers, write_all

DIAGRAMS = Path(__file__).parents[3] / "diagrams"
README = (DIAGRAMS / "README.md").read_text(encoding="utf-8")


def test_the_diagrams_have_not_drifted() -> None:
    assert drift(DIAGRAMS) == [], "run: rungwise diagram --write diagrams/"


@pytest.fixture
def headings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a certificate be the names of its chain alone: the real one takes seconds, and the first test has seen it."""

    def verify(policy: Policy, chain: list[PlainLink]) -> SimpleNamespace:
        return SimpleNamespace(to_markdown=lambda: f"# {', '.join(link.name for link in chain)}\n")

    monkeypatch.setattr(pictures, "verify", verify)


@pytest.mark.usefixtures("headings")
def test_writing_makes_a_directory_that_has_not_drifted(tmp_path: Path) -> None:
    made = tmp_path / "new"
    names = ["call.mmd", "call.svg", "call.dot", "ladder.mmd", "ladder.svg", "rows.md", "certificate.md"]
    assert write_all(made) == names
    assert sorted(path.name for path in made.iterdir()) == sorted(names)
    assert drift(made) == []
    assert write_all(made) == []
    written = (made / "certificate.md").read_text()
    assert written == "# backend 1\n\n# backend 1, backend 2\n\n# backend 1, backend 2, backend 3\n"


@pytest.mark.usefixtures("headings")
def test_a_changed_a_missing_and_an_outdated_file_have_drifted(tmp_path: Path) -> None:
    made = tmp_path / "made"
    shutil.copytree(DIAGRAMS, made)
    (made / "call.svg").unlink()
    (made / "rows.md").write_text((made / "rows.md").read_text() + "\n")
    (made / "README.md").write_text(README.replace("| `nudges` | 1 |", "| `nudges` | 7 |"))
    outdated = ["call.svg", "rows.md", "README.md", "certificate.md"]
    assert drift(made) == outdated
    assert write_all(made) == outdated
    assert (made / "README.md").read_text() == README


def test_the_readme_beside_the_pictures_is_filled_and_otherwise_left_alone() -> None:
    text = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
    assert fill(text, {"x": r"new \1", "y": "none"}) == "a\n<!-- begin x -->\n\nnew \\1\n<!-- end x -->\nb\n"


@pytest.mark.parametrize("name", [*CALL.states, *CALL.events, *sorted({row.guard for row in CALL.rows if row.guard})])
def test_the_readme_explains_every_name(name: str) -> None:
    written = re.sub(r"<!-- begin (\w+) -->.*?<!-- end \1 -->", "", README, flags=re.DOTALL)
    assert re.search(rf"^\| (?:`\w+`, )*`{name}`.*\|", written, re.M) or name == CALL.hub


def test_the_numbers_are_those_of_the_policy() -> None:
    never = {"overloaded": 1000, "timeout": 1000}
    written = numbers(Policy(waits=Waits(retry_base=1.5), base_cap=1000, switch_after=never))
    assert "| wait before a retry | 1.5 s, doubled each time, at most 60 s |" in written
    assert "then 2000, 3000, ... up to 32768 tokens" in written
    assert "| no such kind |" in written
