"""Try mutants: which of them does a test kill?

A process collects the tests of a room once, and forks for each mutant. The child puts the mutant's
code into the functions that are there, and runs the tests that came into the mutated function, the
quick ones first, until one fails. So a mutant costs what its tests cost, and no file is touched.
What runs while a module is imported cannot be put in later: for such a mutant, the child is forked
before anything of ours is imported, and meets the mutated source when it imports it. A mutant that
survives otherwise is tried in that way as well.

A mutant that loops uses up its processor time, one that waits for ever stands still: both are
killed. Times are those of the processor, so a machine that is busy kills no mutant.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import _lru_cache_wrapper
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, Literal

import attrs
import pytest

from mutants.making import Mutant
from support import sampling
from support.imports import ROOT

Verdict = Literal["killed", "survived", "not here"]

OPTIONS: Final = (
    "-qq",
    "-s",
    "--disable-warnings",
    "--assert=plain",  # or pytest would import the package itself, without the mutant
    "-n=0",
    "-p",
    "no:cacheprovider",
)
MEMORY: Final = 2 << 30
"""The bytes that a mutant may allocate, above what its process has."""

TIMES: Final = 10.0
SECONDS: Final = 3.0
"""A test may take so many times its usual time of the processor, and so many seconds more."""

STILL: Final = 20.0
"""After so many seconds without work a process stands still: no test waits."""


@attrs.frozen
class Cost:
    """What a test takes, without a mutant."""

    seconds: float
    functions: frozenset[tuple[str, str]]  # file and qualified name
    failed: bool = False


@attrs.define(eq=False)
class Loop:
    """A plugin that replaces the loop over the tests, and notes the first failure."""

    work: Callable[[Loop, list[pytest.Item]], None]
    failure: str | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.work(self, session.items)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failure is None:
            self.failure = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and self.failure is None:
            self.failure = f"{report.nodeid} cannot be imported"

    def run(
        self, items: list[pytest.Item], before: Callable[[pytest.Item], None]
    ) -> Iterator[pytest.Item]:
        """Run tests one by one, and yield each when it has ended.

        Arguments:
            items: the tests.
            before: called with each before it begins.
        """
        for place, item in enumerate(items, 1):
            before(item)
            following = items[place] if place < len(items) else None
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item


def collect(tests: Iterable[str], loop: Loop, *, with_full: bool = False) -> None:
    """Collect tests with all their cases, and hand them to a loop.

    Arguments:
        tests: files and folders.
        loop: what takes them.
        with_full: whether those that only `.ci/run full` runs are among them.
    """
    sampling.mark_the_rest_as_full = lambda items: None
    options = [*OPTIONS, "--rootdir", str(ROOT)]
    if with_full:
        options += ["-m", "not soak"]
    status = pytest.main([*options, *[str(ROOT / each) for each in tests]], plugins=[loop])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        loop.failure = loop.failure or f"pytest ended with {status}"


# What tests cost


def costs_of(loop: Loop, items: list[pytest.Item], files: set[str]) -> dict[str, Cost]:
    """Run each test once, in a child, and return its time and which functions of files it enters.

    Arguments:
        loop: that of the session.
        items: the tests.
        files: real paths.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _quietly()
        with os.fdopen(writing, "w") as pipe:
            for line in _measured(loop, items, files):
                pipe.write(json.dumps(line) + "\n")
                pipe.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = [json.loads(line) for line in pipe]
    os.waitpid(child, 0)
    return {
        name: Cost(seconds, frozenset(map(tuple, entered)), failed)
        for name, seconds, entered, failed in lines
    }


def _measured(loop: Loop, items: list[pytest.Item], files: set[str]) -> Iterator[list[Any]]:
    entered: set[tuple[str, str]] = set()
    places: dict[str, str] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        name = frame.f_code.co_filename
        if name not in places:
            real = os.path.realpath(name)
            places[name] = real if real in files else ""
        if places[name]:
            outermost = frame.f_code.co_qualname.partition(".<locals>")[0]
            entered.add((places[name], outermost))

    threading.setprofile(note)
    sys.setprofile(note)
    began = 0.0

    def begin(_: pytest.Item) -> None:
        nonlocal began
        entered.clear()
        loop.failure = None
        began = time.process_time()

    for item in loop.run(items, begin):
        seconds = time.process_time() - began
        yield [item.nodeid, seconds, sorted(entered), loop.failure is not None]


# Mutants


@attrs.define(eq=False)
class Trials:
    """Try mutants, some at once, and report each.

    Arguments:
        report: called with a mutant, the verdict, and what killed it.
        at_once: how many at a time.
    """

    report: Callable[[Mutant, Verdict, str], None]
    at_once: int = 2
    _running: dict[int, tuple[Mutant, int, _Watch]] = attrs.field(factory=dict, init=False)

    def begin(self, mutant: Mutant, run: Callable[[], str | None]) -> None:
        """Try a mutant in a child of its own.

        Arguments:
            mutant: the mutant.
            run: returns what killed it; raises LookupError if it cannot be put in here.
        """
        self.finish(self.at_once - 1)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _quietly()
            _limit_memory()
            try:
                words = run() or ""
            except LookupError:
                words = "\0"
            except BaseException as error:  # of the mutant, wherever it came up
                words = type(error).__name__
            os.write(writing, words.encode()[:4000])
            os._exit(0)
        os.close(writing)
        self._running[child] = (mutant, reading, _Watch(child))

    def finish(self, left: int = 0) -> None:
        """Wait until no more than some are left."""
        while len(self._running) > left:
            for child in list(self._running):
                self._look_at(child)
            time.sleep(0.02)

    def _look_at(self, child: int) -> None:
        mutant, reading, watch = self._running[child]
        ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            if watch.stands_still():
                os.kill(child, signal.SIGKILL)
            return
        del self._running[child]
        with os.fdopen(reading, "rb") as pipe:
            words = pipe.read().decode(errors="replace")
        if status:
            self.report(mutant, "killed", "its time was up, or it died")
        elif words == "\0":
            self.report(mutant, "not here", "")
        else:
            self.report(mutant, "killed" if words else "survived", words)


@attrs.define(eq=False)
class _Watch:
    """Notice that a process does nothing any more."""

    child: int
    _worked: int = -1
    _since: float = 0.0

    def stands_still(self) -> bool:
        """Tell whether the process has slept for long without any work."""
        try:
            fields = Path(f"/proc/{self.child}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        worked = int(fields[11]) + int(fields[12])
        if worked != self._worked or fields[0] != "S":
            self._worked = worked
            self._since = time.monotonic()
        return time.monotonic() - self._since > STILL


def _quietly() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def run_until_one_fails(
    loop: Loop, items: list[pytest.Item], costs: Mapping[str, Cost]
) -> str | None:
    """Run tests until one fails, and return its name. The process dies in one that takes many times
    its usual time.

    Arguments:
        loop: that of the session.
        items: the tests.
        costs: what each costs without a mutant.
    """

    def allow(item: pytest.Item) -> None:
        signal.setitimer(signal.ITIMER_PROF, TIMES * costs[item.nodeid].seconds + SECONDS)

    for _ in loop.run(items, allow):
        if loop.failure:
            return loop.failure
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    return None


# How a mutant gets into a process


class Functions:
    """The functions of files that are in this process, and what remembers their results."""

    def __init__(self, files: set[str]) -> None:
        self.found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        self.caches: list[Any] = []
        gc.unfreeze()  # what is frozen is not listed
        for each in gc.get_objects():
            if isinstance(each, _lru_cache_wrapper):
                self.caches.append(each)
            elif isinstance(each, FunctionType):
                code = each.__code__
                real = os.path.realpath(code.co_filename)
                if real in files:
                    self.found[real, code.co_qualname, code.co_firstlineno].append(each)
        gc.freeze()

    def put(self, mutant: Mutant) -> None:
        """Put the code of a mutant into its function, and into what is defined within.

        Raises:
            LookupError: there is no such function here, or its variables have changed.
        """
        path = str(ROOT / mutant.file)
        unit = mutant.unit
        [first, *_] = self.found.get((path, unit.definition, unit.first), [None])
        if first is None:
            raise LookupError(unit.definition)
        name = first.__code__.co_filename
        for code in _codes(compile(mutant.source, name, "exec", dont_inherit=True)):
            if not unit.first <= code.co_firstlineno <= unit.last:
                continue
            for function in self.found.get((path, code.co_qualname, code.co_firstlineno), ()):
                if code.co_freevars != function.__code__.co_freevars:
                    raise LookupError(code.co_qualname)
                function.__code__ = code
        for each in self.caches:
            each.cache_clear()


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def import_mutated(mutant: Mutant) -> None:
    """Let the import of a file find the mutant instead."""
    path = str(ROOT / mutant.file)
    source = mutant.source
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        place = loader.get_filename(fullname)
        if os.path.realpath(place) == path:
            return compile(source, place, "exec", dont_inherit=True)
        return original(loader, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
