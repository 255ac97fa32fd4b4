"""The benchmarks run, and what the READMEs say of the costs is what the kept results say. Nothing
is timed here.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.environments import PEERS, requirements
from benchmarks.figures import Goal, compared
from support.waiting import patience

RUN = Path(__file__).with_name("run.py")


def test_the_readmes_say_what_the_kept_results_say() -> None:
    results = pages.kept()
    assert f"\n{pages.front(results)}\n## " in pages.FRONT.read_text(encoding="utf-8")
    assert f"\n{pages.site(results)}" in pages.SITE.read_text(encoding="utf-8")
    assert pages.PAGE.read_text(encoding="utf-8").endswith(f"\n{pages.page(results)}")


def test_the_front_page_begins_with_what_users_get_by_default() -> None:
    results = pages.kept()
    [section] = [each for each in results["sections"] if each["name"] == "calls.call"]
    [ratio] = [
        each["ratio"]
        for each in section["figures"]
        if each["who"] == "Rungwise, streamed as by default"
    ]
    default, whole = pages.site(results).splitlines()[4:6]
    assert f"| {ratio:.2f} ×, " in default
    assert "stream_calls=False" in whole
    first = pages.front(results).partition("\n* ")[2].partition("\n* ")[0]
    assert first.startswith(f"One call takes {ratio:.2f} × ")
    assert "stream_calls=False" in first


def test_every_peer_is_in_the_extra() -> None:
    assert all(requirements(name) for name in ("rungwise", *PEERS))


@pytest.mark.full
def test_the_command_measures_and_writes_it_down(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    asked = ["--here", "--quick", "--rounds", "1", "--only", "core", "--only", "calls", "--json"]
    done = subprocess.run(
        [sys.executable, str(RUN), *asked, str(file)],
        capture_output=True,
        text=True,
        timeout=patience(120),
    )
    sections = {
        each["name"]: each for each in json.loads(file.read_text(encoding="utf-8"))["sections"]
    }
    assert [*sections] == [
        "core.calls",
        "core.memory",
        "calls.call",
        "calls.acall",
        "calls.chunks.200",
    ], done.stderr
    verdicts = [verdict for section in sections.values() for verdict in section["verdicts"]]
    assert [each["unit"] for each in verdicts] == ["µs", "µs", "bytes", "×", "×"]
    assert all(each["figure"] > 0 for each in verdicts)
    assert done.returncode == int("MISSED" in done.stdout), done.stderr
    who = [figure["who"] for figure in sections["calls.call"]["figures"]]
    assert who[:3] == ["httpx, bare", "Rungwise", "Rungwise, streamed as by default"]


def test_contestants_are_compared_with_the_first_within_each_round() -> None:
    bare, slow = compared([{"bare": 2.0, "slow": 9.0}, {"bare": 1.0, "slow": 5.0}, {"bare": 4.0}])
    assert (bare.median, bare.best, bare.ratio, bare.note) == (2.0, 1.0, 1.0, "")
    assert (slow.median, slow.best, slow.ratio, slow.note) == (7.0, 5.0, 4.75, "2 rounds of 3")


@pytest.mark.parametrize(
    ("sense", "figure", "held"), [("≤", 2.0, True), ("≤", 2.1, False), ("≥", 1.9, False)]
)
def test_a_goal_is_held_or_missed(sense: str, figure: float, held: bool) -> None:
    assert Goal("it", sense, 2.0).of(figure).held is held  # type: ignore[arg-type]


def test_a_goal_in_seconds_grows_on_a_slower_machine() -> None:
    verdict = Goal("it", "≤", 60, "µs").of(80, pace=1.5)
    assert (verdict.goal, verdict.held) == (90, True)
