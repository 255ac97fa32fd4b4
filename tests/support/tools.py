"""Run tools in threads and in event loops, and read their outcomes."""

import json
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from functools import partial
from typing import Any

import anyio
import attrs

from rungwise import Cancellation, Tool, ToolCall, ToolEnded, ToolStarted
from rungwise.adapters.tools import running as in_threads_and_tasks
from rungwise.adapters.tools.calling import LoopThread
from rungwise.adapters.tools.scheduling import ToolsEnded
from rungwise.core import ToolOutcome
from rungwise.fsm.turn.actions import RunTools
from rungwise.fsm.turn.tools import Toolbox, ToolRun

LOOPS = ("asyncio", "trio")
WAYS = ("threads", *LOOPS)

ENOUGH = 30.0
"""Seconds after which a waiting test has failed."""


def planned(tools: Iterable[Any], arguments: Any = None, **options: Any) -> RunTools:
    """Return the action that runs each of these tools once, named by their places."""
    runs = []
    for place, tool in enumerate(tools):
        box = Toolbox.of({f"t{place}": tool}, executor=options.get("executor"))
        run = box.plan(
            ToolCall(f"c{place}", f"t{place}", json.dumps(arguments or {})),
            options.get("seconds", ENOUGH),
        )
        assert isinstance(run, ToolRun), run
        runs.append(run)
    return RunTools(tuple(runs), options.get("at_once", 8))


@attrs.define
class Watched:
    """Record events and wait for them."""

    on: Callable[[ToolStarted | ToolEnded], object] | None = None
    told: list[ToolStarted | ToolEnded] = attrs.field(factory=list)
    threads: set[int] = attrs.field(factory=set)

    def __call__(self, event: ToolStarted | ToolEnded) -> None:
        self.told.append(event)
        self.threads.add(threading.get_ident())
        if self.on is not None:
            self.on(event)

    @property
    def order(self) -> list[str]:
        """Return what began (+) and ended (-), by name."""
        return [
            f"{'+' if isinstance(each, ToolStarted) else '-'}{each.call.name}" for each in self.told
        ]


def run_tools(
    action: RunTools,
    executor: Any,
    cancellation: Cancellation,
    tell: Any,
) -> tuple[ToolOutcome, ...]:
    """Run tools in threads. An exception raised by `tell` ends them."""
    loop = LoopThread()
    with closing(loop):
        return _run_tools(
            in_threads_and_tasks.ToolThreads(action, executor, cancellation, loop=loop).run(), tell
        )


def _run_tools(
    running: Generator[Any, None, tuple[ToolOutcome, ...]], tell: Any
) -> tuple[ToolOutcome, ...]:
    raised: BaseException | None = None
    while True:
        try:
            event = next(running) if raised is None else running.throw(raised)
            raised = None
            tell(event)
        except StopIteration as end:
            return end.value
        except ToolsEnded:
            raise
        except BaseException as error:
            raised = error


async def arun_tools(
    action: RunTools,
    executor: Any,
    cancellation: Cancellation,
    tell: Any,
) -> tuple[ToolOutcome, ...]:
    """Run tools in this event loop; see `run_tools`."""
    tools = in_threads_and_tasks.ToolTasks(action, executor, cancellation)
    running = tools.run()
    try:
        event = await anext(running)
        while True:
            try:
                tell(event)
            except BaseException as error:
                event = await running.athrow(error)
            else:
                event = await anext(running)
    except StopAsyncIteration:
        return tools.outcomes


def ran(
    way: str, tools: Iterable[Any], arguments: Any = None, **options: Any
) -> tuple[ToolOutcome, ...]:
    """Run tools in one of the ways; options: those of `planned`, and `cancellation`, `tell`,
    `together` (seconds).
    """
    cancellation = options.pop("cancellation", None) or Cancellation()
    tell = options.pop("tell", None) or Watched()
    together = options.pop("together", None)
    action = attrs.evolve(planned(tools, arguments, **options), seconds=together)
    if way == "threads":
        return run_tools(action, options.get("executor"), cancellation, tell)
    return anyio.run(
        partial(arun_tools, action, options.get("executor"), cancellation, tell), backend=way
    )


def values(outcomes: Iterable[ToolOutcome]) -> list[Any]:
    """Return the values of the outcomes, or their faults."""
    return [each.value if each.fault is None else each.fault for each in outcomes]


def alone(function: Callable[..., Any]) -> Tool:
    """Return a tool that must run alone."""
    return Tool(function, alone=True)
