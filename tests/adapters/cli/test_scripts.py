"""`rungwise verify --scripts`: what is written where, and what its files tell their reader to
do.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rungwise.testing import EmbeddedProvider, ReceivedRequest, Script
from support.command_line import invoke, printed

pytestmark = pytest.mark.sampled(4)

POLICY = """
[limits]
retries = 1
reasks = 1
nudges = 0
prefills = 0
enlargements = 1
repairs = 0
compactions = 0
continuations = 1
[waits]
retry_base = 0.0
reask_base = 0.0
longest_asked = 0.0
"""
REQUEST = ("--max-tokens", 100, "--input-tokens", 50, "--prices", "2.5/10")
SERVED = "http://127.0.0.1:8080/v1"


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a policy that waits for nothing, into the current directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a policy.toml"
    path.write_text(POLICY)
    return path


def told(file: Path, url: str) -> list[str]:
    """Return the words of the command that a script tells its reader to run, pointed at a
    server.
    """
    (line,) = re.findall("    (rungwise ask .*)", file.read_text())
    return shlex.split(line.replace(SERVED, url))


def requests_of(file: Path) -> list[ReceivedRequest]:
    """Run the program that stands in a script, and return the requests that it made."""
    lines = [line[4:] for line in file.read_text().splitlines() if line.startswith("# >")]
    with EmbeddedProvider(Script.load(file)) as provider:
        exec("\n".join(lines).replace(SERVED, provider.base_url), {})
    return provider.requests


def test_a_script_is_served_and_asked_as_its_file_says(policy: Path) -> None:
    """In processes and time of their own, with the commands that stand in the file."""
    printed("verify", policy.name, "--backends", 2, "--scripts", "worst cases", *REQUEST)
    file = Path("worst cases/worst-attempts-2-backends.toml")
    (line,) = re.findall("    (rungwise serve .*)", file.read_text())
    program, *serve = shlex.split(line.replace("8080", "0"))
    assert program == "rungwise"
    assert serve == ["serve", str(file), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "rungwise", *serve],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            program, *words = told(file, server.stdout.readline().strip())
            # the script begins anew
            asked = [invoke(*words, "--journal", "journal.json") for _ in range(2)]
        finally:
            server.kill()
    assert program == "rungwise"
    (stated,) = re.findall(r"stated    ([\d,]+); ", file.read_text())
    assert [json.loads(each.stdout)["attempts"] for each in asked] == [int(stated)] * 2
    assert sum(
        step["event"] == "sent" for step in json.loads(Path("journal.json").read_text())["steps"]
    ) == int(stated)


def test_a_program_stands_where_ask_does_not_suffice(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(
        POLICY.replace("nudges = 0", "nudges = 1").replace("compactions = 0", "compactions = 1")
    )
    printed("verify", policy.name, "--backends", 1, "--scripts", "worst", *REQUEST)
    file = Path("worst/worst-attempts.toml")
    requests = requests_of(file)
    (stated,) = re.findall(r"stated    (\d+); ", file.read_text())
    assert capsys.readouterr().out == f"attempts {stated}\n"
    assert len(requests) == int(stated)


@pytest.mark.full
def test_the_program_of_a_turn_runs(
    tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("turn.toml").write_text(
        "auto_continues = 2\ncalls_per_reply = 3\ntool_seconds = 0.01\n[call.budget]\nattempts = "
        "1\n"
    )
    printed("verify", "turn.toml", "--turn", "--backends", 1, "--scripts", ".", *REQUEST)
    for name, figure in (
        ("calls", "4"),
        ("tool-runs", "9"),
        ("tool-seconds", "0.09"),
        ("output-tokens", "432"),
    ):
        file = Path(f"worst-{name}.toml")
        requests_of(file)
        assert f"stated    {figure};" in file.read_text()
        said = capsys.readouterr().out.rpartition(" ")[2]
        assert float(said) == pytest.approx(float(figure))


@pytest.mark.full
def test_what_cannot_be_played_is_said_once(policy: Path) -> None:
    ended = invoke("verify", policy.name, "--scripts", "worst", "--json")
    assert (
        "no script for output tokens: without max_tokens, only budget.output_tokens can cap"
        in ended.stderr
    )
    assert (
        ended.stderr.count("no script for money: no price is known for a backend of the chain") == 1
    )
    assert set(json.loads(ended.stdout)["worst_by_fallbacks"]) == {"0", "1", "2"}
    names = {
        f"worst-{name}{chain}.toml"
        for name in ("attempts", "waiting-seconds", "seconds")
        for chain in CHAINS
    }
    assert {path.name for path in Path("worst").iterdir()} == names


CHAINS = ("", "-2-backends", "-3-backends")


def test_nothing_else_in_the_folder_is_touched(policy: Path) -> None:
    Path("worst").mkdir()
    Path("worst/worst-attempts.toml").write_text("old")
    Path("worst/notes.txt").write_text("mine")
    printed("verify", policy.name, "--backends", 1, "--scripts", "worst")
    assert Path("worst/notes.txt").read_text() == "mine"
    assert Script.load("worst/worst-attempts.toml").after == "loop"


@pytest.mark.parametrize("place", ["a policy.toml", "a policy.toml/below"])
def test_a_place_where_nothing_can_be_written_is_bad_input(policy: Path, place: str) -> None:
    ended = invoke("verify", policy.name, "--backends", 1, "--scripts", place)
    assert ended.exit_code == 2
    assert "--scripts" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_no_name_ends_the_comments_too_early(policy: Path) -> None:
    odd = policy.rename("a\n[[replies]]\udcff.toml")
    printed("verify", odd.name, "--backends", 1, "--scripts", "w\nx")
    script = Script.load("w\nx/worst-attempts.toml")
    assert {reply.model for reply in script.replies} == {"backend-1"}
