"""Tools run side by side, each in its own way, and what went wrong is told."""

import asyncio
import contextvars
import functools
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rungwise import Tool, ToolEnded, ToolError, ToolStarted
from rungwise.adapters.tools import calling
from rungwise.adapters.tools.scheduling import LONGEST_FAULT, ToolsEnded
from support.tools import ENOUGH, LOOPS, WAYS, Watched, alone, ran, values

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.parametrize("way", WAYS)


def test_results_come_in_the_order_of_the_calls(way: str) -> None:
    second_has_ended = threading.Event()

    def first() -> int:
        return 1 if second_has_ended.wait(ENOUGH) else 0

    async def second() -> int:
        return 2

    def tell(event: ToolStarted | ToolEnded) -> None:
        if isinstance(event, ToolEnded):
            second_has_ended.set()

    watched = Watched(tell)
    assert values(ran(way, [first, second], tell=watched)) == [1, 2]
    assert watched.order == ["+t0", "+t1", "-t1", "-t0"]
    assert watched.threads == {threading.get_ident()}
    ended = [each.outcome.value for each in watched.told if isinstance(each, ToolEnded)]
    assert ended == [2, 1]
    assert ran(way, []) == ()


@pytest.mark.parametrize("is_async", [False, True])
def test_as_many_run_side_by_side_as_may(way: str, is_async: bool) -> None:
    running = [0]
    most = [0]
    pair = threading.Barrier(2)

    def meet() -> None:
        pair.wait(ENOUGH)  # which nobody passes who runs alone

    async def tool() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await anyio.to_thread.run_sync(meet)
        running[0] -= 1

    watched = Watched()
    assert values(ran(way, [tool if is_async else meet] * 6, tell=watched, at_once=2)) == [None] * 6
    if is_async:
        assert most[0] == 2
    begun = ended = 0
    for event in watched.told:
        begun += isinstance(event, ToolStarted)
        ended += isinstance(event, ToolEnded)
        assert begun - ended <= 2


def test_one_that_must_be_alone_waits_and_is_waited_for(way: str) -> None:
    def tool() -> None: ...

    async def later() -> None: ...

    watched = Watched()
    ran(way, [tool, later, alone(later), alone(tool), later, tool], tell=watched)
    for place in ("t2", "t3"):
        begun = watched.order.index(f"+{place}")
        assert watched.order[begun + 1] == f"-{place}"
        before = {f"{sign}t{number}" for number in range(int(place[1:])) for sign in "+-"}
        assert set(watched.order[:begun]) == before


async def plain(x: int = 1) -> int:
    return x


def decorated(function: Callable[..., Awaitable[int]]) -> Callable[..., Awaitable[int]]:
    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Awaitable[int]:
        return function(*args, **kwargs)

    return around


class Callable1:
    def __call__(self) -> str:
        return "called"

    async def method(self) -> str:
        return "method"


class Callable2:
    async def __call__(self) -> str:
        return "called later"


def generator() -> Iterator[int]:
    yield 1
    yield 2


async def async_generator() -> AsyncIterator[int]:
    yield 1
    yield 2


async def nested() -> Awaitable[int]:
    return plain(5)


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        (plain, 1),
        (decorated(plain), 1),
        (lambda: plain(4), 4),
        (nested, 5),
        (functools.partial(plain, 7), 7),
        (functools.partial(functools.partial(plain), x=8), 8),
        (Callable1(), "called"),
        (Callable2(), "called later"),
        (Callable1().method, "method"),
        (generator, [1, 2]),
        (async_generator, [1, 2]),
        (lambda: async_generator(), [1, 2]),
        (str, ""),
        (lambda: None, None),
    ],
)
def test_every_kind_of_callable_can_be_a_tool(way: str, tool: Any, value: object) -> None:
    assert values(ran(way, [Tool(tool, name="t0", parameters={})])) == [value]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_executor_runs_what_has_no_function(way: str, is_async: bool) -> None:
    async def arun(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return name, arguments

    def run(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return name, arguments

    definition = {"parameters": {"properties": {"a": {"type": "integer"}}}}
    outcomes = ran(way, [definition, lambda a: a], {"a": 3}, executor=arun if is_async else run)
    assert values(outcomes) == [("t0", {"a": 3}), 3]


def test_one_that_is_only_to_be_named_brings_nothing(way: str) -> None:
    assert values(ran(way, [Tool(terminating=True)])) == [None]


CONTEXT: contextvars.ContextVar[str] = contextvars.ContextVar("CONTEXT")


def test_tools_see_the_callers_context_and_change_it_for_nobody(way: str) -> None:
    def look() -> str:
        seen = CONTEXT.get()
        CONTEXT.set("changed")
        return seen

    async def look_later() -> str:
        return look()

    token = CONTEXT.set("mine")
    try:
        assert values(ran(way, [look, look_later, look], at_once=1)) == ["mine"] * 3
        assert CONTEXT.get() == "mine"
    finally:
        CONTEXT.reset(token)


def test_a_tool_in_a_thread_may_run_an_event_loop_of_its_own(way: str) -> None:
    async def inner() -> int:
        await anyio.sleep(0)
        return 3

    assert values(ran(way, [lambda: anyio.run(inner), lambda: asyncio.run(inner())])) == [3, 3]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raising(error: BaseException, *, is_async: bool) -> Callable[[], Any]:
    def tool() -> None:
        raise error

    async def later() -> None:
        raise error

    return later if is_async else tool


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ValueError("it is 3"), "failed: ValueError: it is 3"),
        (KeyError(), "failed: KeyError"),
        (ToolError("Ask for less."), "Ask for less."),
        (ToolError(), "failed: ToolError"),
        (Unspeakable(), "failed: Unspeakable"),
        (
            ExceptionGroup("x", [ValueError("a"), ExceptionGroup("y", [OSError()])]),
            "failed: ValueError: a; OSError",
        ),
        (OSError("a\ud800"), "failed: OSError: a\ufffd"),
        (asyncio.CancelledError(), "failed: CancelledError"),
        (TimeoutError("my own"), "failed: TimeoutError: my own"),
    ],
)
def test_what_a_tool_raises_is_told(
    way: str,
    is_async: bool,
    error: BaseException,
    fault: str,
) -> None:
    assert values(ran(way, [raising(error, is_async=is_async), lambda: 1])) == [fault, 1]


def test_what_is_told_is_bounded(way: str) -> None:
    [fault] = values(ran(way, [raising(ValueError("ü" * 1_000_000), is_async=False)]))
    assert len(fault.encode()) <= LONGEST_FAULT
    assert "characters left out" in fault


LIMITS = (0.05, 0.5, 5.0)
"""Limits of a tool in seconds. On a busy machine the time is up before the tool begins; then the
next one is tried.
"""


def test_a_sync_tool_whose_time_is_up_is_left_behind(way: str) -> None:
    never = threading.Event()

    def outcomes_within(seconds: float) -> list[Any]:
        return values(ran(way, [lambda: never.wait(ENOUGH), lambda: 2], seconds=seconds, at_once=1))

    try:
        tried = ((seconds, outcomes_within(seconds)) for seconds in LIMITS)
        seconds, outcomes = next(each for each in tried if each[1][1] == 2 or each[0] == LIMITS[-1])
    finally:
        never.set()
    assert outcomes == [
        f"timed out after {seconds:g} s; it cannot be stopped and may still be running",
        2,
    ]


def test_an_async_tool_whose_time_is_up_is_cancelled_and_awaited(way: str) -> None:
    begun = threading.Event()
    cleaned = threading.Event()

    async def tool() -> None:
        begun.set()
        try:
            await anyio.sleep(ENOUGH)
        finally:
            cleaned.set()

    def behind() -> Awaitable[None]:
        return tool()

    for kind in (tool, behind):
        begun.clear()
        cleaned.clear()
        tried = ((seconds, values(ran(way, [kind], seconds=seconds))) for seconds in LIMITS)
        seconds, outcomes = next(each for each in tried if begun.is_set() or each[0] == LIMITS[-1])
        assert outcomes == [f"timed out after {seconds:g} s"]
        assert cleaned.is_set()


def test_a_generator_without_end_ends_when_its_time_is_up(way: str) -> None:
    closed = threading.Event()

    def tool() -> Iterator[int]:
        try:
            while True:
                yield closed.wait(0.001)
        finally:
            closed.set()

    [fault] = values(ran(way, [tool], seconds=0.05))
    assert fault.startswith("timed out after 0.05 s")
    assert closed.wait(ENOUGH)


def test_no_thread_to_be_had_is_a_fault(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(calling.Worker, "start", refuse)
    assert values(ran(way, [lambda: 1])) == ["not run: no thread could be started for it"]


class Left(BaseException):
    """What no handler of errors takes."""


def test_a_tool_that_ends_its_program_ends_no_other(way: str) -> None:
    async def aleave() -> None:
        sys.exit("not this way")

    outcomes = ran(way, [lambda: sys.exit(2), aleave, lambda: 3])
    assert values(outcomes) == ["failed: SystemExit: 2", "failed: SystemExit: not this way", 3]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_no_failure_of_a_tool_goes_on_when_the_others_have_ended(
    way: str, is_async: bool
) -> None:
    begun = threading.Event()
    ended = threading.Event()
    left = Left(3)

    async def other() -> None:
        try:
            begun.set()
            await anyio.sleep(ENOUGH)
        finally:
            ended.set()

    def leave() -> None:
        assert begun.wait(ENOUGH)
        raise left

    async def aleave() -> None:
        while not begun.is_set():
            await anyio.sleep(0)
        raise left

    with pytest.raises(ToolsEnded) as caught:
        ran(way, [lambda: 1, other, aleave if is_async else leave, lambda: 2], at_once=3)
    assert caught.value.reason is left
    first, second, third, _ = values(caught.value.outcomes)
    assert second == "cancelled while it ran"
    assert third == "failed: Left: 3"
    assert first in (1, "cancelled while it ran")
    assert ended.is_set()


def test_what_the_teller_raises_loses_no_outcome(way: str) -> None:
    def tell(event: ToolStarted | ToolEnded) -> None:
        if event.call.name == "t1":
            raise ValueError("a teller")

    with pytest.raises(ToolsEnded) as caught:
        ran(way, [lambda: 1, lambda: 2], tell=tell, at_once=1)
    assert str(caught.value.reason) == "a teller"
    assert values(caught.value.outcomes) == [1, 2]  # it had begun


@pytest.mark.sampled(3)
def test_a_tool_that_hangs_keeps_no_interpreter_alive(way: str) -> None:
    script = (
        "import sys, threading; sys.path.insert(0, 'tests')\n"
        "from support.tools import ran, values\n"
        f"print(values(ran({way!r}, [lambda: threading.Event().wait()], seconds=0.05)), "
        f"flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=ENOUGH,
        check=True,
    )
    assert "timed out after 0.05 s" in done.stdout
    assert done.stderr == ""


def test_an_async_tool_runs_in_the_loop_of_its_caller_where_there_is_one(way: str) -> None:
    async def where() -> int:
        return threading.get_ident()

    [ident] = values(ran(way, [where]))
    assert (ident == threading.get_ident()) is (way in LOOPS)


def test_no_tool_begins_after_the_time_of_all_of_them_and_none_outlasts_it(way: str) -> None:
    may_end = threading.Event()

    def hang() -> None:
        may_end.wait(ENOUGH)

    outcomes = ran(way, [alone(hang), alone(lambda: 1)], together=0.1)
    may_end.set()
    first, second = values(outcomes)
    assert "timed out" in first
    assert second == "not run: the time of the turn was up"
