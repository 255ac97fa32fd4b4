"""`rungwise ask --deadline`."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import Result

from rungwise import Journal, TurnJournal
from rungwise.testing import EmbeddedProvider, ScriptedReply
from support.command_line import invoke
from support.turn_modes import calling

TOOLS = """
def look() -> str:
    return "three herons"
"""
ANSWER = ScriptedReply("By the lake.")
Serve = Callable[..., EmbeddedProvider]


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder with a module of tools."""
    (tmp_path / "lakes_by_deadline.py").write_text(TOOLS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.syspath_prepend(str(tmp_path))


def ask(provider: EmbeddedProvider, *arguments: str) -> Result:
    return invoke("ask", "Hi", "--model", "m", "--base-url", provider.base_url, *arguments)


WITH_TOOLS = ("--tools", "lakes_by_deadline:look")


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


@pytest.mark.parametrize("no_stream", [(), ("--no-stream",)])
@pytest.mark.parametrize(("given", "seconds"), [("3600s", 3600), ("1800.5s", 1800.5), (None, 3600)])
def test_a_call_is_given_its_deadline(
    rungwise_provider: Serve,
    tmp_path: Path,
    given: str | None,
    seconds: float,
    no_stream: tuple[str, ...],
) -> None:
    file = tmp_path / "journal.json"
    result = ask(
        rungwise_provider(ANSWER),
        "--deadline",
        given or in_an_hour(),
        "--journal",
        str(file),
        *no_stream,
    )
    assert result.exit_code == 0
    assert result.stdout == "By the lake."
    assert Journal.from_json(file.read_text()).setting.deadline == pytest.approx(seconds, abs=30)


@pytest.mark.parametrize("no_stream", [(), ("--no-stream",)])
def test_so_is_a_turn(rungwise_provider: Serve, tmp_path: Path, no_stream: tuple[str, ...]) -> None:
    file = tmp_path / "journal.json"
    provider = rungwise_provider(calling(("look", "{}")), ANSWER)
    result = ask(provider, *WITH_TOOLS, "--deadline", "3600s", "--journal", str(file), *no_stream)
    assert result.exit_code == 0
    assert result.stdout == "By the lake."
    journal = TurnJournal.from_json(file.read_text())
    assert journal.setting.deadline == pytest.approx(3600, abs=30)
    assert [call.setting.deadline for call in journal.calls] == [pytest.approx(3600, abs=30)] * 2


@pytest.mark.parametrize("tools", [(), WITH_TOOLS])
@pytest.mark.parametrize("given", ["0s", "2026-01-31T18:00:00Z"])
def test_one_that_has_passed_sends_nothing(
    rungwise_provider: Serve, given: str, tools: tuple[str, ...]
) -> None:
    provider = rungwise_provider(ANSWER)
    result = ask(provider, "--deadline", given, *tools)
    assert result.exit_code == 6
    assert result.stdout == ""
    assert provider.requests == []
    assert "after the deadline" in result.stderr


@pytest.mark.parametrize("tools", [(), WITH_TOOLS])
def test_a_server_that_hangs_is_left_in_time(
    rungwise_provider: Serve, tools: tuple[str, ...]
) -> None:
    provider = rungwise_provider(ScriptedReply(hang=True))
    began = time.monotonic()
    result = ask(provider, "--deadline", "0.5s", *tools)
    assert result.exit_code == 6
    assert len(provider.requests) == 1
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "given", ["30", "soon", "", "-5s", "nans", "30 s", "2030-01-31T18:00:00", "2030-01-31", "1e3s"]
)
def test_anything_else_is_bad_input(rungwise_provider: Serve, given: str) -> None:
    provider = rungwise_provider(ANSWER)
    result = ask(provider, "--deadline", given)
    assert result.exit_code == 2
    assert provider.requests == []
    told = " ".join(result.stderr.split())
    assert (
        "a time in RFC 3339 with its offset, as in 2030-01-31T18:00:00Z, nor seconds from now, as "
        "in 30s" in told
    )
