"""`rungwise batch`, `worker` and `calls`: killed and run again, nothing is paid twice, and the
order is kept.
"""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rungwise.adapters.durable.batch import AHEAD, Batch, LineResult, PromptLine, read_lines
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.durable import until

HEAD = '[[chain.default]]\nmodel = "m"\nkey_env = ""\nprices = [1, 2]\nbase_url = '


def answer(request: ReceivedRequest) -> ScriptedReply:
    text = request.body["messages"][-1]["content"]
    cap = request.body.get("max_completion_tokens") or request.body.get("max_tokens") or 190
    usage = {"prompt_tokens": 10, "completion_tokens": min(cap, 190)} if "dear" in text else None
    return (
        ScriptedReply(status=400)
        if text == "bad"
        else ScriptedReply(text=f"on {text}", delay=0.05, usage=usage)
    )


@pytest.fixture
def server(serve: Any) -> Any:
    return serve(answer)


@pytest.fixture
def folder(tmp_path: Path, server: Any) -> Path:
    """Return a folder with a file of chains and twenty prompts."""
    (tmp_path / "chains.toml").write_text(f'{HEAD}"{server.base_url}"\n')
    (tmp_path / "prompts.jsonl").write_text(
        "".join(f'{{"prompt": "{number}"}}\n' for number in range(20))
    )
    return tmp_path


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "rungwise", *arguments]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(folder: Path, *arguments: str, seconds: float = 120) -> tuple[int | None, str, str]:
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


BATCH = (
    "batch",
    "prompts.jsonl",
    "--config",
    "chains.toml",
    "-o",
    "answers.jsonl",
    "--concurrency",
    "4",
)


def answers(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


@pytest.mark.full
def test_a_killed_batch_goes_on_and_pays_only_for_what_was_in_flight(
    folder: Path, server: Any
) -> None:
    killed = start(folder, *BATCH)
    until(lambda: len(server.requests) >= 10)
    killed.kill()
    killed.wait()
    assert not (folder / "answers.jsonl").exists()
    assert run(folder, *BATCH)[0] == 0
    assert [each["text"] for each in answers(folder)] == [f"on {number}" for number in range(20)]
    assert 20 <= len(server.requests) <= 24
    known = len(server.requests)
    code, _, err = run(folder, *BATCH, "--as-completed")
    assert (code, len(server.requests)) == (0, known)
    assert "20  done" in err


@pytest.fixture
def held(folder: Path, serve: Any) -> Any:
    """Return a server whose answers wait until `held.free` is set, and put it into the chain."""
    free = threading.Event()

    def hold(request: ReceivedRequest) -> ScriptedReply:
        free.wait(60)
        return answer(request)

    served = serve(hold)
    served.free = free
    (folder / "chains.toml").write_text(f'{HEAD}"{served.base_url}"\n')
    yield served
    free.set()


@pytest.mark.full
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((), ()),
        ((), ("--name", "other", "--database", "sqlite:///other.sqlite")),
        pytest.param((), ("--as-completed",), marks=pytest.mark.full),
        pytest.param(("--as-completed",), (), marks=pytest.mark.full),
        pytest.param(("--as-completed",), ("--name", "other"), marks=pytest.mark.full),
        pytest.param((), ("-o", "link"), marks=pytest.mark.full),
    ],
    ids=str,
)
def test_one_batch_at_a_time_writes_an_output_and_the_other_says_whose_it_is(
    folder: Path, held: Any, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    (folder / "link").symlink_to(folder / "answers.jsonl")
    running = start(folder, *BATCH, *first)
    until(lambda: len(held.requests) >= 4)
    for _ in range(2):  # the first refusal leaves the lock as it is
        code, _, err = run(folder, *BATCH, *second)
        assert code == 2
        assert f"is being written by the batch 'prompts' (process {running.pid} on " in err
        assert "wait until it has ended, or name another file with --output" in err
    held.free.set()
    assert running.wait(60) == 0
    running.communicate()
    assert [each["text"] for each in in_order(folder)] == [f"on {n}" for n in range(20)]
    assert len(held.requests) == 20
    assert not list(folder.glob("*.lock"))
    if "other" in second:
        assert run(folder, *BATCH, *second)[0] == 0
        assert len(in_order(folder)) == 20


@pytest.mark.full
def test_a_dead_batch_holds_no_output(folder: Path, held: Any) -> None:
    killed = start(folder, *BATCH)
    until(lambda: len(held.requests) >= 4)
    killed.kill()
    killed.communicate()
    assert (folder / "answers.jsonl.lock").exists()
    held.free.set()
    assert run(folder, *BATCH)[0] == 0
    assert len(answers(folder)) == 20


def in_order(folder: Path) -> list[dict[str, Any]]:
    return sorted(answers(folder), key=lambda each: int(each["line"]))


@pytest.mark.full
def test_lines_that_cannot_be_read_are_named_and_failures_are_left_until_they_are_asked_for(
    folder: Path, server: Any
) -> None:
    (folder / "prompts.jsonl").write_text(
        '{"id": "a", "prompt": "1"}\nnonsense\n{"id": "b", "prompt": "bad"}\n'
    )
    for options, asked in (((), 2), ((), 2), (("--retry-failed",), 3)):
        code, _, err = run(folder, *BATCH, *options)
        assert (code, len(server.requests)) == (1, asked)
        assert "rungwise: line 2: it is not JSON" in err
    first, unread, failed = answers(folder)
    assert (first["id"], first["outcome"], first["line"]) == ("a", "done", 1)
    assert "not JSON" in unread["fault"]
    assert (failed["outcome"], failed["failures"][0]["status"]) == ("failed", 400)
    database = ("--database", "sqlite:///answers.jsonl.sqlite")
    assert "prompts/b" in run(folder, "calls", *database, "--failed")[1]
    assert "prompts/a" not in run(folder, "calls", *database, "--failed")[1]
    assert "call done" in run(folder, "calls", *database, "prompts/a")[1]
    assert (
        json.loads(run(folder, "calls", *database, "prompts/a", "--json")[1])["outcome"] == "done"
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("count", "workers", "killed", "concurrency"),
    [(20, 2, 1, 3), pytest.param(2000, 4, 2, 20, marks=pytest.mark.soak)],
)
def test_workers_share_a_queue_and_go_on_for_those_that_are_killed(
    folder: Path,
    server: Any,
    postgres_server: Any,
    count: int,
    workers: int,
    killed: int,
    concurrency: int,
) -> None:
    """Every prompt is answered once, and within the limit of cost."""
    (folder / "prompts.jsonl").write_text(
        "".join(f'{{"prompt": "{n}", "max_tokens": 50}}\n' for n in range(count))
    )
    url = postgres_server.new_database()
    limit = 1.1 * count * 60 * 3 / 1e6
    shared = ("prompts.jsonl", "--config", "chains.toml", "--database", url)
    limited = ("--limit-cost", f"{limit:.6f}")
    code, _, err = run(folder, "batch", *shared, *limited, "--enqueue", seconds=300)
    assert (code, len(server.requests)) == (0, 0), err
    options = ("--concurrency", f"{concurrency}")
    running = [start(folder, "worker", *shared[1:], *options) for _ in range(workers)]
    for number in range(killed):
        until(lambda number=number: len(server.requests) >= count // 4 * (number + 1))
        running[number].kill()
        running[number].communicate()
    code, _, err = run(folder, "batch", *shared, *limited, "-o", "answers.jsonl", seconds=500)
    assert code == 0, err
    assert [each["text"] for each in answers(folder)] == [f"on {n}" for n in range(count)]
    assert sum(each["cost"] for each in answers(folder)) <= limit
    assert count <= len(server.requests) <= count + killed * concurrency
    for worker in running[killed:]:
        worker.terminate()
        assert worker.communicate(timeout=60)[1].startswith("waiting for calls")
        assert worker.returncode == 0


@pytest.mark.full
def test_a_limit_of_cost_holds_for_every_run(folder: Path, server: Any) -> None:
    # a quarter of what twenty answers as long as their caps would cost
    limit = 20 * 200 * 2 / 1e6 / 4
    (folder / "prompts.jsonl").write_text(
        "".join(f'{{"prompt": "dear {n}", "max_tokens": 200}}\n' for n in range(20))
    )
    for _ in range(2):
        code, _, _ = run(folder, *BATCH, "--limit-cost", f"{limit:.9f}", "--retry-failed")
        outcomes = [each["outcome"] for each in answers(folder)]
        assert (code, set(outcomes)) == (1, {"done", "over_budget"})
        assert sum(each["cost"] for each in answers(folder)) <= limit
    assert outcomes.count("done") == len(server.requests)
    code, _, err = run(folder, *BATCH, "--limit-cost", "1", "--retry-failed")
    assert (code, len(server.requests)) == (0, 20), err


@pytest.mark.full
def test_the_same_id_on_two_lines_is_the_fault_of_one(folder: Path, server: Any) -> None:
    lines = '{"id": "a", "prompt": "1"}\n{"id": "a", "prompt": "2"}\n'
    (folder / "prompts.jsonl").write_text(lines)
    assert run(folder, *BATCH)[0] == 1
    assert sorted(str(each.get("fault")) for each in answers(folder)) == [
        "'prompts/a' is the id of another request; give this one an id of its own",
        "None",
    ]
    assert len(server.requests) == 1


@pytest.mark.full
def test_a_worker_runs_no_more_at_once_than_it_says_from_the_first_call_on(
    folder: Path, serve: Any
) -> None:
    running = 0
    most = 0
    lock = threading.Lock()

    def counting(request: ReceivedRequest) -> ScriptedReply:
        nonlocal running, most
        with lock:
            running, most = running + 1, max(most, running + 1)
        time.sleep(0.3)  # this is the provider's time
        with lock:
            running -= 1
        return ScriptedReply(text="Yes.")

    (folder / "chains.toml").write_text(f'{HEAD}"{serve(counting).base_url}"\n')
    queued = ("--config", "chains.toml", "--database", "sqlite:///queue.sqlite")
    assert run(folder, "batch", "prompts.jsonl", *queued, "--enqueue")[0] == 0
    worker = start(folder, "worker", *queued, "--concurrency", "2")
    done = ("calls", "--database", "sqlite:///queue.sqlite")
    until(lambda: run(folder, *done)[1].count("done") == 20)
    worker.terminate()
    worker.communicate()
    assert most == 2


@pytest.mark.parametrize("output", ["prompts.jsonl", "chains.toml", "answers.jsonl.sqlite", "link"])
def test_answers_are_not_written_over_what_is_read(folder: Path, output: str) -> None:
    (folder / "answers.jsonl.sqlite").touch()
    (folder / "link").symlink_to(folder / "prompts.jsonl")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    database = ("--database", "sqlite:///answers.jsonl.sqlite")
    code, _, err = run(folder, *BATCH[:4], "-o", output, *database)
    assert (code, f"{output} holds what this command reads" in err) == (2, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.full
def test_what_is_no_regular_file_is_written_to_and_odd_names_are_names(folder: Path) -> None:
    code, out, _ = run(
        folder, *BATCH[:4], "-o", "/dev/stdout", "--database", "sqlite:///a#b %20.sqlite"
    )
    assert (code, len(out.splitlines())) == (0, 20)
    assert Path("/dev/stdout").is_symlink()
    assert (folder / "a#b %20.sqlite").is_file()
    assert run(folder, "calls", "--database", "sqlite:///a#b %20.sqlite")[1].count("done") == 20
    code, _, err = run(folder, *BATCH[:4], "-o", "what?.jsonl")
    assert (code, "name a --database" in err) == (2, True)


@pytest.mark.full
def test_answers_are_there_as_they_complete(folder: Path) -> None:
    running = start(folder, *BATCH, "--as-completed")
    written = folder / "answers.jsonl"
    until(lambda: written.exists() and "\n" in written.read_text())
    running.kill()
    running.communicate()
    assert run(folder, *BATCH)[0] == 0
    assert len(answers(folder)) == 20


@pytest.mark.full
def test_the_lines_of_a_long_file_are_not_held(folder: Path) -> None:
    file = folder / "long.jsonl"
    file.write_text('{"prompt": "herons"}\n' * 100_000)
    durable = Mock()
    alive = 0

    def soon(one: Any, line: PromptLine) -> Future[LineResult]:
        nonlocal alive
        alive += 1
        future: Future[LineResult] = Future()
        future.set_result(LineResult(line))
        return future

    durable.workflows.engine.soon = soon
    ended = 0
    for _ in Batch(durable, "long", 50).run(read_lines(file)):
        alive = alive - 1
        ended = ended + 1
        assert alive < AHEAD * 50
    assert ended == 100_000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (BATCH[:4], "--output"),
        (("batch", "prompts.jsonl", "--config", "chains.toml", "--enqueue"), "--database"),
        (
            (
                "batch",
                "prompts.jsonl",
                "--config",
                "chains.toml",
                "--enqueue",
                "--database",
                "sqlite:///a.sqlite",
                "-o",
                "b",
            ),
            "writes no --output",
        ),
        ((*BATCH[:4], "-o", "nowhere/a.jsonl"), "nowhere/a.jsonl cannot be written (No such file"),
        ((*BATCH, "--chain", "nobody"), "has no chain 'nobody'"),
        ((*BATCH, "--database", "mysql://here"), "database must be a URL"),
        (("calls", "--database", "sqlite:///nothing.sqlite"), "there is no file nothing.sqlite"),
        (
            ("worker", "--config", "prompts.jsonl", "--database", "sqlite:///x.sqlite"),
            "prompts.jsonl",
        ),
    ],
)
def test_bad_input_is_named(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    code, _, err = run(folder, *arguments)
    assert code == 2
    assert err.startswith("rungwise: ")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.full
def test_prompts_come_from_a_pipe_too(folder: Path) -> None:
    batch = " ".join(["-m", "rungwise", "batch", "/dev/stdin", *BATCH[2:]])
    done = subprocess.run(
        f"cat prompts.jsonl | {sys.executable} {batch}",
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert [each["text"] for each in answers(folder)] == [f"on {number}" for number in range(20)]


@pytest.mark.full
def test_a_pipe_that_nobody_writes_to_is_empty_and_a_device_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "zeros.jsonl").symlink_to("/dev/zero")
    for name, code, says in (("pipe", 0, ""), ("zeros.jsonl", 2, "it is a device")):
        returned, _, err = run(folder, "batch", name, *BATCH[2:])
        assert (returned, says in err) == (code, True), err
