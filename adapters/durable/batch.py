"""Many prompts from a file: each a durable call, so that a second run goes on where the first one ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Final

import anyio
from attrs import define, field, frozen

from rungwise.adapters.durable.durable import Durable
from rungwise.adapters.durable.lines import PromptLine
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.errors import RungwiseError

AHEAD: Final = 10
"""How many lines are read ahead of the oldest that has no answer, for each that may run at once."""


@frozen
class LineResult:
    """What came of a line: its result, or why there is none."""

    line: PromptLine
    result: Result | None = None
    fault: str = ""


@define(eq=False)
class Batch:
    """Run the lines of a batch.

    Arguments:
        durable: runs the calls.
        name: what the ids of the calls begin with.
        most: how many run here at once.
        enqueue: whether they are left to workers.
        retry_failed: whether those that have failed are run again.
        in_order: whether answers come in the order of the lines.
        returns: what every answer must be.
        within: the budget of all of them together.
    """

    durable: Durable
    name: str
    most: int
    enqueue: bool = False
    retry_failed: bool = False
    in_order: bool = True
    returns: Any = None
    within: SharedBudget | None = None
    _places: anyio.Semaphore = field(init=False)

    def run(self, lines: Iterable[PromptLine]) -> Iterator[LineResult]:
        """Yield the answers; only some lines are held at a time, however many there are."""
        self._places = anyio.Semaphore(self.most)
        window: deque[Future[LineResult]] = deque()
        for line in lines:
            if len(window) >= AHEAD * self.most:
                yield self._next(window)
            window.append(self.durable._engine.soon(self._one, line))
        while window:
            yield self._next(window)

    def _next(self, window: deque[Future[LineResult]]) -> LineResult:
        """Wait for the oldest, or for any."""
        if not self.in_order:
            done, _ = wait(window, return_when=FIRST_COMPLETED)
            found = next(each for each in window if each in done)
            window.remove(found)
            return found.result()
        return window.popleft().result()

    async def _one(self, line: PromptLine) -> LineResult:
        if line.request is None:
            return LineResult(line, fault=line.fault)
        async with self._places:
            try:
                handle = await self.durable._begin(
                    f"{self.name}/{line.id}",
                    line.request,
                    {"within": self.within},
                    self.returns,
                    enqueue=self.enqueue,
                    retry_failed=self.retry_failed,
                )
                return LineResult(line) if self.enqueue else LineResult(line, await handle._result())
            except CallError as error:
                return LineResult(line, error.result)
            except RungwiseError as error:
                return LineResult(line, fault=str(error))
