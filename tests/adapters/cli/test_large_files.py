"""Files from strangers: what is too large is refused, with its name, before it is read to the
end.
"""

from __future__ import annotations

import os
import socket
import tracemalloc
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner

from rungwise import ConfigurationError, Journal, Policy, TurnJournal, TurnPolicy
from rungwise.adapters.cli import ask
from rungwise.adapters.cli.command import main
from rungwise.fsm.values.files import LARGEST, LARGEST_TOML, bytes_of_file, opened
from support.command_line import invoke


@pytest.fixture
def zeros(tmp_path: Path) -> Path:
    path = tmp_path / "zeros.json"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "FILE"],
        ["diff", "--journal", "FILE", "DEFAULT", "DEFAULT"],
        ["verify", "FILE"],
        ["diagram", "FILE"],
        ["diff", "FILE", "DEFAULT"],
        ["check", "--request", "FILE", "--model", "m", "--base-url", "http://localhost:1/v1"],
        ["ask", "hi", "--returns", "FILE", "--model", "m", "--base-url", "http://localhost:1/v1"],
    ],
)
def test_a_file_that_is_too_large_is_refused_in_few_bytes(
    zeros: Path, tmp_path: Path, arguments: list[str]
) -> None:
    plain = tmp_path / "policy.toml"
    plain.write_text("")
    words = {"FILE": str(zeros), "DEFAULT": str(plain)}
    tracemalloc.start()
    try:
        result = CliRunner().invoke(main, [words.get(word, word) for word in arguments])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.exit_code == 2, result.output
    assert "larger than" in result.output
    assert "zero" in result.output
    assert peak < 3 * LARGEST


@pytest.mark.parametrize("kind", [Journal, TurnJournal])
@pytest.mark.parametrize("text", ["[" * (LARGEST + 1), b"\0" * (LARGEST + 1)])
def test_a_journal_that_is_too_large_is_not_read(kind: type[Journal], text: str | bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"^journal: larger than 32 MB"):
        kind.from_json(text)


@pytest.mark.parametrize("kind", [Policy, TurnPolicy])
def test_toml_that_is_too_large_is_not_read(kind: type[Policy], tmp_path: Path) -> None:
    large = "# \n" * (LARGEST_TOML // 3 + 1)
    with pytest.raises(ConfigurationError, match="larger than 2 MB"):
        kind.from_toml(large)
    path = tmp_path / "large.toml"
    path.write_text(large, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"large\.toml: larger than 2 MB"):
        kind.load(path)


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1_000)
    assert bytes_of_file(path, 1_000) == b"x" * 1_000
    with pytest.raises(ConfigurationError):
        bytes_of_file(path, 999)


def test_a_file_is_read_once_and_what_has_no_end_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert bytes_of_file(pipe) == b""  # nobody writes to it
    writer = os.open(pipe, os.O_RDWR)  # as a command does that has not written yet
    with opened(pipe) as reader:
        os.write(writer, b"[waits]\n")
        os.close(writer)
        assert reader.read() == b"[waits]\n"
    endless = tmp_path / "endless"
    endless.symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for place in (endless, "/dev/zero", tmp_path / "socket", tmp_path):
            with pytest.raises(OSError, match=r"device|directory|No such device"):
                bytes_of_file(place)


COMMANDS = (
    ("verify", "FILE"),
    ("stats", "FILE"),
    ("explain", "FILE"),
    ("serve", "FILE"),
    ("proxy", "FILE"),
    ("odds", "--rates", "FILE"),
    ("ask", "x", "--model", "m", "--returns", "FILE"),
    ("ask", "x", "--model", "m", "--price-list", "FILE"),
    ("batch", "FILE", "--config", "FILE", "-o", "answers.jsonl"),
)
"""A command for each way in which a file comes in."""


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_command_reads_a_device_or_waits_for_a_writer(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    os.mkfifo("pipe.jsonl")
    endless = invoke(*[each.replace("FILE", "/dev/zero") for each in arguments])
    assert endless.exit_code == 2, endless.output
    assert endless.stderr.startswith("rungwise: ")
    empty = invoke(*[each.replace("FILE", "pipe.jsonl") for each in arguments])
    assert empty.exit_code in (0, 2), empty.output  # nothing in a file may be a policy


def test_a_prompt_of_no_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with open("/dev/zero") as endless:
        monkeypatch.setattr("sys.stdin", endless)
        with pytest.raises(ClickException, match="stdin is larger than 32 MB"):
            ask._messages(None, None)
