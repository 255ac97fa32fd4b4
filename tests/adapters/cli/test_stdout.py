"""Every command writes all of its output, or says that it could not; with Python's buffers and
without them.
"""

import json
import os
import resource
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rungwise.adapters.cli.command import COMMANDS
from rungwise.testing import EmbeddedProvider, ScriptedReply
from support.command_line import ROOT, command, environment, start
from support.waiting import patience

Serve = Callable[..., EmbeddedProvider]
LONG = "herons " * 40_000
"""More than a pipe holds."""
TRAILS = b"Traceback", b"Exception ignored"
UNBUFFERED = "1"
PYTHONS = pytest.mark.parametrize("buffers", ["", UNBUFFERED], ids=["buffered", "unbuffered"])
WRITES = (
    *[(name, "--help") for name in sorted(COMMANDS)],
    ("--help",),
    ("--version",),
    ("diagram",),
    ("verify",),
    ("check", "--model", "gpt-4o"),
    ("demo", "--list"),
    ("demo", "--scenario", "clean"),
    pytest.param(("diff", "default", "default"), marks=pytest.mark.full),
    ("odds",),
)
"""Commands that write more than ten bytes."""


@pytest.fixture
def serve(rungwise_provider: Serve) -> Serve:
    return rungwise_provider


def run(arguments: tuple[str, ...], stdout: Any, **more: Any) -> tuple[int, bytes]:
    """Run a command to its end, and return its exit code and what it wrote to stderr.

    Arguments:
        arguments: of the command.
        stdout: where it writes.
        more: `buffers`, and options of `subprocess.run`.
    """
    env = environment(
        PYTHONUNBUFFERED=more.pop("buffers"), PYTHONDONTWRITEBYTECODE="1", OPENAI_API_KEY="sk-none"
    )
    done = subprocess.run(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=env,
        cwd=ROOT,
        timeout=patience(),
        **more,
    )
    assert not [trail for trail in TRAILS if trail in done.stderr], done.stderr
    return done.returncode, done.stderr


def files_hold_ten_bytes() -> None:
    """Let a write to a file take a part, as on a disk that fills up, and the next one none."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))


@pytest.mark.dear(3)
@PYTHONS
@pytest.mark.parametrize("arguments", WRITES, ids=" ".join)
def test_a_disk_that_fills_up_is_told(
    arguments: tuple[str, ...], buffers: str, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("wb") as file:
        code, told = run(arguments, file, buffers=buffers, preexec_fn=files_hold_ten_bytes)
    assert code == 141
    assert told.endswith(b"rungwise: stdout cannot be written: File too large\n")


@pytest.mark.dear(3)
@PYTHONS
@pytest.mark.parametrize("arguments", WRITES, ids=" ".join)
def test_a_reader_who_has_left_is_no_error_to_tell(
    arguments: tuple[str, ...], buffers: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code, told = run(arguments, writing, buffers=buffers)
    os.close(writing)
    assert code == 141
    assert b"rungwise: " not in told


ASK = ("ask", "Hi", "--model", "m", "--base-url")
FORMS = pytest.mark.parametrize("form", [(), ("--json",), ("--no-stream",)], ids=str)


@PYTHONS
@FORMS
def test_an_answer_on_a_disk_that_fills_up_is_told(
    form: tuple[str, ...], buffers: str, serve: Serve, tmp_path: Path
) -> None:
    asked = (*ASK, serve(ScriptedReply(text=LONG)).base_url, *form)
    with (tmp_path / "out").open("wb") as file:
        code, told = run(asked, file, buffers=buffers, preexec_fn=files_hold_ten_bytes)
    assert (code, told.count(b"stdout cannot be written: File too large")) == (141, 1)


@PYTHONS
@FORMS
def test_an_answer_of_which_the_reader_takes_the_head_has_the_code_of_a_closed_pipe(
    form: tuple[str, ...], buffers: str, serve: Serve
) -> None:
    asked = (*ASK, serve(ScriptedReply(text=LONG)).base_url, *form)
    with start(*asked, PYTHONUNBUFFERED=buffers) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert len(os.read(process.stdout.fileno(), 1)) == 1
        process.stdout.close()
        told = process.stderr.read()
    assert process.returncode == 141
    assert b"cannot be written" not in told
    assert not [trail for trail in TRAILS if trail in told]


@pytest.mark.full
@PYTHONS
@FORMS
def test_a_pipe_that_takes_a_part_at_a_time_gets_the_whole_answer(
    form: tuple[str, ...], buffers: str, serve: Serve
) -> None:
    """A parent such as Node makes the pipes of its children non-blocking."""
    asked = (*ASK, serve(ScriptedReply(text=LONG)).base_url, *form)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with start(*asked, stdout=writing, PYTHONUNBUFFERED=buffers) as process:
        os.close(writing)
        read = b"".join(iter(partial(os.read, reading, 5_000), b""))
        os.close(reading)
    assert process.returncode == 0
    assert (json.loads(read)["text"] if form == ("--json",) else read.decode()) == LONG


@pytest.mark.full
@PYTHONS
def test_a_batch_whose_reader_has_left_ends_as_quietly(
    buffers: str, serve: Serve, tmp_path: Path
) -> None:
    (tmp_path / "chains.toml").write_text(
        '[[chain.default]]\nmodel = "m"\nkey_env = ""\n'
        f'base_url = "{serve(ScriptedReply(text="Yes.")).base_url}"\n'
    )
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Hi"}\n')
    batch = ("batch", f"{tmp_path}/prompts.jsonl", "--config", f"{tmp_path}/chains.toml")
    reading, writing = os.pipe()
    os.close(reading)
    database = f"sqlite:///{tmp_path}/batch.sqlite"
    code, told = run(
        (*batch, "--output", "/dev/stdout", "--database", database), writing, buffers=buffers
    )
    os.close(writing)
    assert (code, told) == (141, b"")
