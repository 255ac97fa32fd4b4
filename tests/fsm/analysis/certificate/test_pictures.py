"""The directory of pictures: it is in step with the machine, and explains every name in it."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rungwise import CALL, Budget, Policy, Reserve, Timeouts, TurnPolicy, Waits
from rungwise.core import TURN, PlainLink, Table
from rungwise.fsm.analysis.certificate.shown import pictures
from rungwise.fsm.analysis.certificate.shown.pictures import drift, fill, numbers, write_all

DIAGRAMS = Path(__file__).parents[4] / "diagrams"
README = (DIAGRAMS / "README.md").read_text(encoding="utf-8")


@pytest.mark.full  # `.ci/run` compares them itself
def test_the_diagrams_have_not_drifted() -> None:
    assert drift(DIAGRAMS) == [], "run: rungwise diagram --write diagrams/"


@pytest.fixture
def headings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a certificate be the names of its chain alone: the real one takes seconds, and the first
    test has seen it.
    """

    def verify(policy: Policy | TurnPolicy, chain: list[PlainLink]) -> SimpleNamespace:
        heading = f"# {type(policy).__name__}: {', '.join(link.name for link in chain)}\n"
        return SimpleNamespace(to_markdown=lambda calls: "" if calls else heading)

    monkeypatch.setattr(pictures, "verify", verify)


@pytest.mark.usefixtures("headings")
def test_writing_makes_a_directory_that_has_not_drifted(tmp_path: Path) -> None:
    made = tmp_path / "new"
    pictures = ["mmd", "svg", "dot"]
    names = [f"call.{each}" for each in pictures] + ["ladder.mmd", "ladder.svg", "rows.md"]
    names += [f"turn.{each}" for each in pictures] + [
        "turn-ladder.mmd",
        "turn-ladder.svg",
        "turn-rows.md",
    ]
    names += [
        f"health{each}"
        for each in (".mmd", ".svg", ".dot", "-ladder.mmd", "-ladder.svg", "-rows.md")
    ]
    names += ["call.v", "turn.v", "health.v", "certificate.md", "turn-certificate.md"]
    assert write_all(made) == names
    assert sorted(path.name for path in made.iterdir()) == sorted(names)
    assert drift(made) == []
    assert write_all(made) == []
    for name, kind in (("certificate.md", "Policy"), ("turn-certificate.md", "TurnPolicy")):
        chains = ("backend 1", "backend 1, backend 2", "backend 1, backend 2, backend 3")
        assert (made / name).read_text() == "\n".join(f"# {kind}: {chain}\n" for chain in chains)
    assert "use_tools" in (made / "turn-rows.md").read_text()
    assert "use_tools" not in (made / "rows.md").read_text()


@pytest.mark.full
@pytest.mark.usefixtures("headings")
def test_a_policy_of_a_turn_brings_that_of_its_calls(tmp_path: Path) -> None:
    shorter = Policy(table=CALL.without("prefill"))
    write_all(tmp_path, TurnPolicy(call=shorter))
    assert "prefill" not in (tmp_path / "rows.md").read_text()
    assert drift(tmp_path, shorter) == []
    assert "rows.md" in drift(tmp_path)


@pytest.mark.usefixtures("headings")
def test_a_changed_a_missing_and_an_outdated_file_have_drifted(tmp_path: Path) -> None:
    made = tmp_path / "made"
    shutil.copytree(DIAGRAMS, made)
    (made / "call.svg").unlink()
    (made / "rows.md").write_text((made / "rows.md").read_text() + "\n")
    (made / "turn-ladder.mmd").unlink()
    changed = README.replace("| `nudges` | 1 |", "| `nudges` | 7 |").replace(
        "| `faults` | 3 |", "| `faults` | 7 |"
    )
    (made / "README.md").write_text(changed)
    outdated = [
        "call.svg",
        "rows.md",
        "turn-ladder.mmd",
        "README.md",
        "certificate.md",
        "turn-certificate.md",
    ]
    assert drift(made) == outdated
    assert write_all(made) == outdated
    assert (made / "README.md").read_text() == README


def test_the_readme_beside_the_pictures_is_filled_and_otherwise_left_alone() -> None:
    text = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
    assert (
        fill(text, {"x": r"new \1", "y": "none"})
        == "a\n<!-- begin x -->\n\nnew \\1\n<!-- end x -->\nb\n"
    )


def names_of(table: Table) -> list[str]:
    return [*table.states, *table.events, *sorted({row.guard for row in table.rows if row.guard})]


@pytest.mark.parametrize(
    ("table", "name"), [(table, name) for table in (CALL, TURN) for name in names_of(table)]
)
def test_the_readme_explains_every_name(table: Table, name: str) -> None:
    written = re.sub(r"<!-- begin (\w+) -->.*?<!-- end \1 -->", "", README, flags=re.DOTALL)
    if table is TURN:
        _, _, written = written.partition("# The pictures of a turn\n")
    assert re.search(rf"^\| (?:`\w+`, )*`{name}`.*\|", written, re.M) or name == table.hub


def test_the_numbers_of_a_turn_are_those_of_its_policy() -> None:
    written = numbers(
        TurnPolicy(window=10_000, results_share=0.1, budget=Budget(attempts=7, seconds=90))
    )
    assert "| `budget.seconds` | 90 s | from start to end, waits included |" in written
    assert "| `window` | 10,000 tokens |" in written
    assert "| `results_share` | 10 % of the window |" in written


def test_the_numbers_are_those_of_the_policy() -> None:
    never = {"overloaded": 1000, "timeout": 1000, "silence": 1000}
    written = numbers(Policy(waits=Waits(retry_base=1.5), base_cap=1000, switch_after=never))
    assert "| `waits.retry_base` | 1.5 s |" in written
    assert "| `waits.retry_cap` | 60 s |" in written
    assert (
        "| `base_cap` | 1,000 tokens | raised output caps are 2, 3, ... times as large |" in written
    )
    assert "| `largest_cap` | 32,768 tokens |" in written
    assert all(f"| `switch_after.{reason}` | never |" in written for reason in never)
    for clock, seconds in (
        ("connect", "10 s"),
        ("first_token", "60 s"),
        ("stall", "25 s"),
        ("total", "600 s (10 min)"),
    ):
        assert f"| `timeouts.{clock}` | {seconds} |" in written
    assert "| `reserve.share` | 25 % of the budget |" in written
    patient = numbers(
        Policy(timeouts=Timeouts(first_token=None, stall=None), reserve=Reserve(seconds=20))
    )
    assert "| `timeouts.stall` | no limit |" in patient
    assert "| `reserve.seconds` | 20 s |" in patient
    assert "| `reserve.share` | 0 % of the budget |" in numbers(Policy(reserve=Reserve(share=0)))
