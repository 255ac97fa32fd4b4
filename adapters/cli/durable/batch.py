"""`rungwise batch`: the prompts of a file, each a durable call."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click
from attrs import define, field

from rungwise.adapters.cli.output import (
    CANCELLED,
    bad_input,
    complain,
    counted,
    note,
    one_line,
    progress_bar,
    writing,
)
from rungwise.adapters.cli.shared_options import (
    WantedParameter,
    file_option,
    flag_option,
    number_option,
)

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.adapters.durable.batch import LineResult

EVERY: Final = 60.0  # seconds between two lines of progress where stderr is no terminal
SLOWEST: Final = 3  # how many of the slowest calls the summary names
LINE_BY_LINE: Final = 1  # how `open` buffers
LONGEST_HOLDER: Final = 300  # characters that are shown of who holds an output

CONFIG_OPTION: Final = file_option(
    "--config",
    required=True,
    exists=True,
    help="A TOML file with a policy and chains, as `rungwise proxy` takes it.",
)
CHAIN_OPTION: Final = click.option(
    "--chain", metavar="NAME", help="Which chain of the file.  [default: the only one, or default]"
)
CONCURRENCY_OPTION: Final = number_option(
    "--concurrency", 50, (1, 10_000), "How many calls run here at once."
)


def database_option(text: str, *, required: bool = False) -> Callable[[Any], Any]:
    """Return the option `--database` of a command."""
    return click.option("--database", metavar="URL", required=required, help=text)


@click.command(short_help="Run the prompts of a file, and resume where an earlier run ended.")
@click.argument("prompts", type=click.Path(exists=True, dir_okay=False))
@CONFIG_OPTION
@CHAIN_OPTION
@file_option("-o", "--output", help="The file for answers.")
@database_option(
    "The database of the calls: sqlite:///FILE or postgresql://...  [default: OUTPUT.sqlite]"
)
@click.option(
    "--name",
    metavar="NAME",
    help="Names this batch among others in the database.  [default: the name of PROMPTS]",
)
@CONCURRENCY_OPTION
@click.option(
    "--returns",
    type=WantedParameter(),
    metavar="FILE|module:NAME",
    help="What each answer must be: a JSON schema, or a type in Python.",
)
@click.option(
    "--limit-cost",
    type=click.FloatRange(0, min_open=True),
    metavar="MONEY",
    help="The most that all calls of this batch may cost together, in every run and on every "
    "machine.",
)
@flag_option(
    "--as-completed",
    "in_order",
    callback=lambda context, parameter, value: not value,
    help="Write each answer as soon as it is there, in any order.",
)
@flag_option("--retry-failed", help="Run those again that have failed.")
@flag_option(
    "--enqueue",
    help="Leave the calls to `rungwise worker`; the same command without it waits for the answers.",
)
def batch(
    prompts: str,
    config: str,
    chain: str | None,
    output: str | None,
    database: str | None,
    name: str | None,
    concurrency: int,
    limit_cost: float | None,
    **of_batch: Any,  # any other option is a field of `Batch`, and goes there as it is
) -> int:
    """Run each prompt of PROMPTS, a file with a JSON object on each line, and write an object for
    each to OUTPUT.

    A line has a `prompt`, or `messages`; what else it may have: `id`, `system`, `max_tokens`,
    `temperature`, `tools` and the other options of a call. A line that cannot be read is reported
    with its number, and the others run.

    After Ctrl-C, a crash or a lost machine, the same command resumes. Calls that have ended are
    read from the database, and not paid again. It holds prompts and answers, and no keys.

    \b
    Exit codes:
      0    every prompt has an answer
      1    some have none: OUTPUT says why
      2    bad input
      130  Ctrl-C; run it again to resume

    \b
    Examples:
      rungwise batch prompts.jsonl --config chains.toml -o answers.jsonl
      rungwise batch prompts.jsonl --config chains.toml -o answers.jsonl --limit-cost 5
      rungwise batch prompts.jsonl --config chains.toml --database postgresql://host/db --enqueue
    """
    from rungwise.adapters.cli.backends import client_in
    from rungwise.fsm.call.budget.shared import SharedBudget
    from rungwise.fsm.call.policy import MOST_ATTEMPTS, Budget

    url = _database_of(output, database, enqueue=of_batch["enqueue"])
    name = name or Path(prompts).stem
    _check_output([prompts, config], output, url)
    progress = BatchProgress(_count_lines(prompts))
    of_batch |= {"name": name, "most": concurrency}
    if limit_cost is not None:
        budget = Budget(attempts=MOST_ATTEMPTS, seconds=None, money=limit_cost)
        of_batch["within"] = SharedBudget(budget, name=f"the budget of {name}")
    try:
        writing_answers = _beside(output, at_once=not of_batch["in_order"])
        client = client_in(config, chain, max_connections=concurrency)
        with client, _only_writer(output, name), writing_answers as file:
            answers = _answers(client, url, Path(prompts), **of_batch)
            for answer in progress.shown(answers):
                if file is not None:
                    file.write(_line_of(answer))
    except KeyboardInterrupt:
        note("stopped; run the same command again to resume")
        return CANCELLED
    progress.sum_up()
    return int(progress.failed > 0)


def _answers(client: Client, url: str, prompts: Path, **of_batch: Any) -> Iterator[LineResult]:
    """Run a batch, and yield the answers.

    Arguments:
        client: runs the calls.
        url: the database.
        prompts: the file with the lines.
        of_batch: the fields of the `Batch`.
    """
    from rungwise.adapters.durable.batch import Batch, read_lines
    from rungwise.adapters.durable.durable import Durable

    runs_here = 0 if of_batch["enqueue"] else of_batch["most"]
    with Durable(client, url, concurrency=runs_here) as durable:
        yield from Batch(durable, **of_batch).run(read_lines(prompts))


def _count_lines(path: str) -> int | None:
    """Count the lines of a file, blank ones too, without holding one; None for what can be read
    only once.
    """
    if not Path(path).is_file():
        return None
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(2**20), b""))


def _database_of(output: str | None, database: str | None, *, enqueue: bool) -> str:
    """Return the URL of the database, or refuse options that do not go together."""
    if output is None and not enqueue:
        bad_input("name the file for the answers with --output")
    if enqueue and (output is not None or database is None):
        bad_input("--enqueue needs a --database that the workers share, and writes no --output")
    if database is None and "?" in str(output):
        bad_input(
            f"name a --database: {output}.sqlite cannot be one, for what follows a ? is no part "
            f"of its name"
        )
    return database or f"sqlite:///{output}.sqlite"


def _check_output(read: Iterable[str], output: str | None, url: str) -> None:
    """Refuse to write the answers over a file that is read, or over the database."""
    if output is None or not Path(output).exists():
        return
    for name in (*read, url.removeprefix("sqlite:///")):
        if Path(name).exists() and Path(output).samefile(name):
            bad_input(f"{output} holds what this command reads: name another file for the answers")


@contextmanager
def _only_writer(output: str | None, name: str) -> Iterator[None]:
    """Hold the output for this process alone, or refuse and say which batch holds it.

    The lock is a file beside the output. The system frees it, however the process ends; who holds
    it stands in it.

    Arguments:
        output: the file; what is no regular file, and None, is not held.
        name: the name of the batch.
    """
    from rungwise.adapters.durable.databases import need_dbos

    need_dbos()  # the locks come with it
    if output is None or (Path(output).exists() and not Path(output).is_file()):
        yield
        return
    from filelock import FileLock, Timeout

    place = Path(f"{Path(output).resolve()}.lock")
    lock = FileLock(place)
    with writing(output):
        place.touch()  # the library would make the folder, too
        before = _holder_in(place)  # some versions of the library empty the file
        try:
            lock.acquire(blocking=False)
        except Timeout:
            bad_input(
                f"{output} is being written by {before}: wait until it has ended, or name another "
                "file with --output"
            )
        holder = f"the batch {name!r} (process {os.getpid()} on {socket.gethostname()})"
        with suppress(OSError):  # Windows lets nobody write to a locked file
            place.write_text(holder, encoding="utf-8", errors="replace")
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no file that is open
            place.unlink()
        lock.release()


def _holder_in(place: Path) -> str:
    """Return who holds a lock, by what its file says."""
    with suppress(OSError), place.open(encoding="utf-8", errors="replace") as file:
        if holder := file.read(LONGEST_HOLDER).strip():
            return holder
    return "another process"


@contextmanager
def _beside(output: str | None, *, at_once: bool) -> Iterator[IO[str] | None]:
    """Write to a file beside the output, which takes the place of the output at the end.

    Write to the output itself if it is not a regular file.

    Arguments:
        output: the file; None yields None.
        at_once: whether to write to the output itself, line by line.
    """
    if output is None:
        yield None
        return
    is_itself = at_once or (Path(output).exists() and not Path(output).is_file())
    place = Path(output) if is_itself else Path(f"{output}.part")
    try:
        with writing(output):
            buffering = LINE_BY_LINE if at_once else -1
            with place.open("w", buffering, encoding="utf-8", newline="\n") as file:
                yield file
            if not is_itself:
                place.replace(Path(output).resolve())
    finally:
        if not is_itself and place.exists() and not place.stat().st_size:
            place.unlink()


def _line_of(answer: LineResult) -> str:
    """Return the line of an answer in the output."""
    from rungwise.adapters.cli.shown import as_mapping, calls_of
    from rungwise.fsm.engine.journal.record import json_of

    result = answer.result
    own: dict[str, Any] = {"outcome": None, "fault": answer.fault}
    if result is not None:
        own = as_mapping(result, result, {"tool_calls": calls_of(result.tool_calls)})
    return json_of({"id": answer.line.id, "line": answer.line.number, **own}) + "\n"


@define
class BatchProgress:
    """Show how far a batch is, and sum it up."""

    total: int | None  # lines of the file; None if nobody knows
    done: int = 0  # lines with an answer
    failed: int = 0  # of these, without a success
    cost: float | None = 0.0  # None if a backend has no prices
    outcomes: Counter[str] = field(factory=Counter)
    attempts: int = 0
    slowest: list[tuple[float, str]] = field(factory=list)  # seconds and id, the slowest first
    began: float = field(factory=time.monotonic)

    def shown(self, answers: Iterable[LineResult]) -> Iterator[LineResult]:
        """Count answers as they come."""
        last = self.began
        with progress_bar("batch") as bar:
            task = None if bar is None else bar.add_task("", total=self.total)
            for answer in answers:
                self._count(answer)
                if bar is not None and task is not None:
                    bar.update(task, completed=self.done, description=self._so_far)
                elif time.monotonic() - last >= EVERY:
                    last = time.monotonic()
                    of_all = "" if self.total is None else f" of about {self.total}"
                    note(f"{self.done}{of_all}; {self._so_far}")
                yield answer

    def sum_up(self) -> None:
        """Write the summary to stderr."""
        for outcome, count in self.outcomes.most_common():
            note(f"{count:>9}  {outcome}")
        line = f"{counted(self.attempts, 'attempt')}; cost: {self._cost}"
        if self.slowest:
            slowest = ", ".join(f"{name} ({seconds:.1f} s)" for seconds, name in self.slowest)
            line += f"; slowest: {slowest}"
        note(line)

    @property
    def _cost(self) -> str:
        """Write what all calls have cost so far."""
        if self.cost is None:
            return "unknown: a backend has no prices"
        return f"{self.cost:.4g}"

    @property
    def _so_far(self) -> str:
        """Write the cost so far, and how long the rest will take at the same rate."""
        cost = f"cost so far: {self._cost}"
        if self.total is None:
            return cost
        rate = self.done / max(time.monotonic() - self.began, 1e-9)
        seconds_left = max(self.total - self.done, 0) / max(rate, 1e-9)
        return f"{cost}; {seconds_left:.0f} s left"

    def _count(self, answer: LineResult) -> None:
        """Count an answer, and complain about a line that cannot be run."""
        self.done += 1
        result = answer.result
        if result is None and answer.fault:
            self.outcomes["cannot be run"] += 1
            self.failed += 1
            complain(f"line {answer.line.number}: {one_line(answer.fault)}")
            return
        if result is None:
            self.outcomes["left to workers"] += 1
            return
        self.outcomes[result.outcome] += 1
        self.failed += not result.is_success
        self.attempts += result.attempts
        if self.cost is not None:
            self.cost = None if result.cost is None else self.cost + result.cost
        self.slowest.append((result.seconds, answer.line.id))
        self.slowest = sorted(self.slowest, reverse=True)[:SLOWEST]
