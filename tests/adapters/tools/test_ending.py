"""Tools that are ended: what can be cancelled is, what cannot is waited for, and each call has its
outcome.
"""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio

from rungwise import Cancellation, ToolEnded, ToolStarted
from rungwise.adapters.http.cancellation import either
from rungwise.adapters.http.waiting import CallEnded
from rungwise.adapters.tools import scheduling
from rungwise.adapters.tools.scheduling import CANCELLED, LEFT, NOT_BEGUN, WAIT, ToolsEnded
from support.tools import ENOUGH, LOOPS, WAYS, Watched, alone, arun_tools, planned, ran, values
from support.waiting import auntil, let_ctrl_c_interrupt, patience

ROOT = Path(__file__).parents[3]
everywhere = pytest.mark.parametrize("way", WAYS)
in_loops = pytest.mark.parametrize("loop", LOOPS)


@pytest.fixture(autouse=True)
def _sync_tools_may_take_long_to_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine wake what returns at once; a test of the wait sets its own."""
    monkeypatch.setattr(scheduling, "WAIT", ENOUGH)


class Tools:
    """Tools that tell when they have begun, and end when they are let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.cleaned = threading.Event()

    def sync(self) -> str:
        self.begun.set()
        return "kept" if self.may_end.wait(ENOUGH) else "late"

    async def later(self) -> None:
        try:
            self.begun.set()
            await anyio.sleep(ENOUGH)
        finally:
            self.cleaned.set()

    def wait(self) -> None:
        self.begun.wait(ENOUGH)

    def behind(self) -> Awaitable[None]:
        return self.later()

    async def stubborn(self) -> None:
        self.begun.set()
        with anyio.CancelScope(shield=True):  # which an event loop's own cancellation still passes
            while not self.may_end.is_set():
                with suppress(asyncio.CancelledError):
                    await anyio.sleep(0.001)


def ended(
    way: str,
    tools: list[Any],
    when: Callable[[], object],
    times: int = 1,
    **options: Any,
) -> ToolsEnded:
    """Run tools, cancel them from another thread when something has come, and return how they
    ended.
    """
    cancellation = Cancellation()

    def cancel() -> None:
        when()
        for _ in range(times):
            cancellation.cancel()

    thread = threading.Thread(target=cancel, daemon=True)
    thread.start()
    with pytest.raises(ToolsEnded) as caught:
        ran(way, tools, cancellation=cancellation, **options)
    thread.join(ENOUGH)
    return caught.value


@everywhere
def test_what_was_cancelled_before_begins_nothing(way: str) -> None:
    cancellation = Cancellation()
    watched = Watched()
    cancellation.cancel()
    with pytest.raises(ToolsEnded) as caught:
        ran(way, [lambda: 1, lambda: 2], cancellation=cancellation, tell=watched)
    assert isinstance(caught.value.reason, CallEnded)
    assert values(caught.value.outcomes) == [NOT_BEGUN, NOT_BEGUN]
    assert watched.told == []


@everywhere
@pytest.mark.parametrize("kind", ["later", "behind"])
def test_async_tools_are_cancelled_and_awaited(way: str, kind: str) -> None:
    tools = Tools()
    end = ended(
        way,
        [lambda: 1, getattr(tools, kind), lambda: 2],
        tools.wait,
        at_once=1,
    )
    assert isinstance(end.reason, CallEnded)
    assert values(end.outcomes) == [1, CANCELLED, NOT_BEGUN]
    assert tools.cleaned.is_set()


@everywhere
def test_sync_tools_are_waited_for_and_what_they_bring_is_kept(way: str) -> None:
    tools = Tools()

    def let_end(event: ToolStarted | ToolEnded) -> None:
        if isinstance(event, ToolEnded) and event.call.name == "t1":
            tools.may_end.set()  # after the other was cancelled, so the first was waited for

    watched = Watched(let_end)
    end = ended(
        way,
        [tools.sync, tools.later, lambda: 2],
        tools.wait,
        at_once=2,
        tell=watched,
    )
    assert values(end.outcomes) == ["kept", CANCELLED, NOT_BEGUN]
    assert watched.order[-1] == "-t0"


@pytest.mark.full
@everywhere
def test_sync_tools_are_waited_for_no_longer_than_they_may_take(way: str) -> None:
    tools = Tools()
    seconds = round(patience(0.2), 1)
    try:
        end = ended(way, [tools.sync], tools.wait, seconds=seconds)
    finally:
        tools.may_end.set()
    assert values(end.outcomes) == [f"{CANCELLED}; {LEFT}"]


@everywhere
@pytest.mark.parametrize("how", ["a cancellation", "Ctrl-C"])
def test_one_cancellation_leaves_a_sync_tool_that_hangs_and_reports_it(
    way: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert WAIT < 1
    monkeypatch.setattr(scheduling, "WAIT", WAIT)
    tools = Tools()

    def tell(event: ToolStarted | ToolEnded) -> None:
        if how == "Ctrl-C" and isinstance(event, ToolStarted):
            raise KeyboardInterrupt

    watched = Watched(tell)
    try:
        end = ended(way, [tools.sync, lambda: 1], tools.wait, at_once=1, tell=watched)
    finally:
        tools.may_end.set()
    assert values(end.outcomes) == [f"{CANCELLED}; {LEFT}", NOT_BEGUN]
    assert watched.order == ["+t0", "-t0"]


@everywhere
def test_the_second_time_nothing_is_waited_for(way: str) -> None:
    tools = Tools()
    start = time.monotonic()
    try:
        end = ended(way, [tools.sync, tools.later], tools.wait, times=2)
    finally:
        tools.may_end.set()
    first, second = values(end.outcomes)
    assert first == f"{CANCELLED}; {LEFT}"
    assert second in (f"{CANCELLED}; {LEFT}", CANCELLED)  # it may be quicker
    assert time.monotonic() - start < ENOUGH / 2


@pytest.mark.full
@pytest.mark.parametrize("way", ["threads", "asyncio"])
def test_an_async_tool_that_does_not_end_is_left(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "GRACE", patience(0.05))
    tools = Tools()

    def tell(event: ToolStarted | ToolEnded) -> None:
        if isinstance(event, ToolEnded):
            tools.may_end.set()  # or the event loop could not end

    end = ended(way, [tools.stubborn], tools.wait, tell=tell)
    assert values(end.outcomes) == [f"{CANCELLED}; {LEFT}"]
    tools.may_end.clear()
    seconds = round(patience(0.1), 1)
    assert values(ran(way, [tools.stubborn], seconds=seconds, tell=tell)) == [
        f"timed out after {seconds:g} s; {LEFT}"
    ]


async def turn(
    action: Any,
    found: list[ToolsEnded],
    tell: Callable[[ToolStarted | ToolEnded], None] | None = None,
) -> None:
    """Run tools as a turn does: keep how they ended, and raise why."""
    try:
        await arun_tools(action, None, Cancellation(), tell or Watched())
    except ToolsEnded as end:
        found.append(end)
        raise end.reason from None


def test_a_cancelled_task_hands_out_what_came_and_goes_on_being_cancelled() -> None:
    tools = Tools()
    kept = Tools()
    found: list[ToolsEnded] = []
    action = planned([lambda: 1, tools.later, kept.sync, alone(lambda: 2)])

    async def main() -> bool:
        task = asyncio.ensure_future(turn(action, found))
        await auntil(lambda: tools.begun.is_set() and kept.begun.is_set())
        task.cancel()
        await auntil(tools.cleaned.is_set)
        kept.may_end.set()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())
    assert values(found[0].outcomes) == [1, CANCELLED, "kept", NOT_BEGUN]


def test_a_task_that_is_cancelled_twice_waits_for_nothing() -> None:
    tools = Tools()

    async def main() -> Any:
        task = asyncio.ensure_future(
            arun_tools(planned([tools.sync, lambda: 2], at_once=1), None, Cancellation(), Watched())
        )
        await auntil(tools.begun.is_set)
        for _ in range(2):
            task.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
        await asyncio.wait([task])
        return task.exception()

    end = asyncio.run(main())
    tools.may_end.set()
    assert isinstance(end, ToolsEnded)
    assert isinstance(end.reason, asyncio.CancelledError)
    assert values(end.outcomes) == [f"{CANCELLED}; {LEFT}", NOT_BEGUN]


@in_loops
def test_a_scope_that_is_cancelled_ends_the_tools(loop: str) -> None:
    tools = Tools()
    kept = Tools()
    found: list[ToolsEnded] = []
    action = planned([kept.sync, tools.later, lambda: 1], at_once=2)

    def tell(event: ToolStarted | ToolEnded) -> None:
        if isinstance(event, ToolEnded) and event.call.name == "t1":
            kept.may_end.set()

    async def main() -> bool:
        async with anyio.create_task_group() as group:
            group.start_soon(turn, action, found, tell)
            while not (tools.begun.is_set() and kept.begun.is_set()):
                await anyio.sleep(0.001)
            group.cancel_scope.cancel()
        await anyio.sleep(0)  # which a cancellation that is left over would end
        return True

    assert anyio.run(main, backend=loop)
    assert isinstance(
        found[0].reason, asyncio.CancelledError if loop == "asyncio" else trio.Cancelled
    )
    assert values(found[0].outcomes) == ["kept", CANCELLED, NOT_BEGUN]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_a_scope_that_was_cancelled_before_begins_nothing(anyio_backend: str) -> None:
    watched = Watched()
    with anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(ToolsEnded) as caught:
            await arun_tools(planned([lambda: 1]), None, Cancellation(), watched)
    assert values(caught.value.outcomes) == [NOT_BEGUN]
    assert watched.told == []


def test_a_timeout_of_asyncio_sees_its_own_cancellation() -> None:
    tools = Tools()

    async def main() -> None:
        await asyncio.wait_for(turn(planned([tools.later]), []), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert tools.cleaned.is_set()


CTRL_C = """
import asyncio, os, signal, sys, threading
sys.path.insert(0, "tests")
from support.tools import Cancellation, Watched, arun_tools, planned, run_tools, values
from rungwise.adapters.tools import scheduling
from rungwise.adapters.tools.scheduling import ToolsEnded
import anyio

scheduling.WAIT = 60.0

begun, may_end = threading.Event(), threading.Event()

def press():
    os.kill(os.getpid(), signal.SIGINT)

def sync():
    begun.wait()
    press()
    may_end.wait()
    return "kept"

async def later():
    try:
        begun.set()
        await anyio.sleep_forever()
    finally:
        {when_cancelled}

action = planned([later, sync, lambda: 1], at_once=2)

def look_around():  # a signal that comes in the instant before the loop falls asleep does not wake it
    asyncio.get_running_loop().call_later(0.05, look_around)

async def main():
    look_around()
    try:
        await arun_tools(action, None, Cancellation(), Watched())
    except ToolsEnded as end:
        print(values(end.outcomes), type(end.reason).__name__)
        raise end.reason from None

if {way!r} == "asyncio":
    anyio.run(main)
try:
    run_tools(action, None, Cancellation(), Watched())
except ToolsEnded as end:
    print(values(end.outcomes), type(end.reason).__name__)
    raise end.reason from None
"""  # noqa: E501


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["threads", "asyncio"])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_the_tools_and_a_second_one_the_waiting(way: str, times: int) -> None:
    script = CTRL_C.format(
        way=way,
        when_cancelled="may_end.set()" if times == 1 else "threading.Timer(0.1, press).start()",
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience(),
        preexec_fn=let_ctrl_c_interrupt,
        check=False,
    )
    first = "'cancelled while it ran'"
    last = f"'{CANCELLED}; {LEFT}'" if times == 2 else "'kept'"
    reason = "KeyboardInterrupt" if way == "threads" else "CancelledError"
    assert f"[{first}, {last}, '{NOT_BEGUN}'] {reason}" in done.stdout
    assert done.stderr.endswith("KeyboardInterrupt\n")


def test_a_second_cancel_is_passed_on_and_two_first_ones_are_one() -> None:
    mine = Cancellation()
    other = Cancellation()
    with either(mine, other) as both:
        mine.cancel()
        assert both.is_cancelled is True
        assert both.is_urgent is False
        other.cancel()
        assert not both.is_urgent
        mine.cancel()
        assert both.is_urgent
