"""`rungwise explain` of a turn: the page, the pictures, and the lines on a terminal."""

from pathlib import Path

import orjson
import pytest

from rungwise.core import Turn
from support.command_line import invoke, printed, refused
from support.turns import BUSY, calling, played, said


def turn() -> Turn:
    return played(calling("look", "gone"), BUSY, said("By the lake."), seed=2)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "turn.json"
    path.write_text(turn().journal.to_json())
    return path


def test_explain_writes_the_page_of_a_turn(journal: Path, tmp_path: Path) -> None:
    result = invoke("explain", journal, "-o", tmp_path / "turn.html")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "<h1>One turn, step by step</h1>" in (tmp_path / "turn.html").read_text()
    assert invoke("explain", journal).stdout.startswith("<!doctype html>")


@pytest.mark.parametrize("format", ["mermaid", "svg"])
@pytest.mark.parametrize("view", ["hub", "ladder"])
def test_explain_draws_the_path_of_a_turn(journal: Path, format: str, view: str) -> None:
    assert "use_tools" in printed("explain", journal, "--format", format, "--view", view)


def test_text_tells_the_turn_and_its_calls_in_a_line_for_each_attempt(journal: Path) -> None:
    lines = invoke("explain", journal, "--format", "text").stdout.splitlines()
    assert lines[0] == "turn finished"
    assert lines[1].startswith("2 calls, 3 attempts, ")
    assert "; left: 97 attempts, " in lines[1]
    assert [line.partition("   (")[0] for line in lines[2:]] == [
        "  1 · ask · call 1 → called tools",
        "  2 · use tools · called tools → tools ran",
        "  3 · go on · call 2 · tools ran → answered: finished",
        "       1 · ask → 429 rate limit",
        "       2 · retry · 429 · waited 2 s → answered: done",
    ]


def test_steps_tells_the_turn_and_its_calls(journal: Path) -> None:
    lines = invoke("explain", journal, "--format", "steps").stdout.splitlines()
    told = [line.partition(" s  ")[2] for line in lines[:-1]]
    assert told == [
        "call 1 (ask)",
        "    request 1 (ask) to first",
        "    the model called tools: done",
        "the model called tools: running them",
        "use tools",
        f"the tools have run ({turn().journal.steps[3].note}): going on",
        "call 2 (go on)",
        "    request 1 (ask) to first",
        "    the provider failed (HTTP 429, rate limit, asks to wait 2 s): sending the same again "
        "in 2.0 s",
        "    request 2 (retry) to first",
        "    the answer came: done",
        "the model answered: finished",
    ]
    times = [float(line.partition(" s  ")[0]) for line in lines[:-1]]
    assert times[0] == 0.0
    assert lines[-1].startswith("finished: 2 calls, 3 requests, ")


def test_text_tells_a_call(tmp_path: Path) -> None:
    path = tmp_path / "call.json"
    path.write_text(turn().journal.calls[0].to_json())
    lines = invoke("explain", path, "--format", "steps").stdout.splitlines()
    assert lines[0].endswith("request 1 (ask) to first")
    assert lines[-1].startswith("done: 1 request, ")
    assert invoke("explain", path, "--format", "text").stdout.splitlines()[0] == "call done"


def test_a_terminal_is_told_in_lines_unless_a_file_is_named(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rungwise.adapters.cli.journals.explain.is_terminal", lambda stream: True)
    assert "1 · ask · call 1" in invoke("explain", journal).stdout
    assert invoke("explain", journal, "--format", "html").stdout.startswith("<!doctype html>")
    invoke("explain", journal, "-o", tmp_path / "turn.html")
    assert (tmp_path / "turn.html").read_text().startswith("<!doctype html>")


def test_what_a_stranger_wrote_does_nothing_to_a_terminal(journal: Path) -> None:
    document = orjson.loads(journal.read_text())
    document["steps"][3]["note"] = "\x1b[2J\x07 gone"
    document["calls"][0]["chain"][0]["name"] = document["calls"][0]["steps"][0]["backend"] = (
        "\x1b[31mred\nline"
    )
    journal.write_bytes(orjson.dumps(document))
    for form in ("text", "steps"):
        shown = invoke("explain", journal, "--format", form).stdout
        assert "\x1b" not in shown
        assert "\x07" not in shown


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"calls": []}, "it holds 0 calls, but its steps made 2"),
        ({"steps": []}, "but its steps made 0"),
        ({"policy": 5}, "'policy'"),
    ],
)
def test_what_is_no_journal_of_a_turn_is_said_in_one_line(
    journal: Path, change: dict[str, object], says: str
) -> None:
    journal.write_bytes(orjson.dumps({**orjson.loads(journal.read_text()), **change}))
    stderr = refused("explain", journal)
    assert says in stderr
    assert len(stderr.splitlines()) == 1
