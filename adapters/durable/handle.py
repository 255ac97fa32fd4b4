"""The `Handle` of a durable call or turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar

import anyio
import anyio.to_thread
from attrs import frozen

from rungwise.adapters.durable.workflows import Begun, Workflows
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.values.checks import is_whole
from rungwise.fsm.values.label import short

T = TypeVar("T")
End = TypeVar("End", bound="Result[Any] | TurnResult[Any]")


@frozen
class Handle(Generic[End]):
    """A call or a turn that was started."""

    id: str
    _workflows: Workflows
    _begun: Begun
    _returns: Any = None

    def result(self) -> End:
        """Wait for the result; raises what `Durable.call` does, or for a turn what `Client.turn`
        does.
        """
        workflows = self._workflows
        end: End = workflows.engine.run(workflows.end_of, self._begun, self._returns)
        return end

    async def aresult(self) -> End:
        """Wait for the result asynchronously."""
        return await in_thread(self.result)

    def stream(self, offset: int = 0) -> Iterator[StreamEvent | End]:
        """Yield the events of a stream as they are written; the last one is the result, or its
        error is raised.

        They are written once a second, or every 2,000 characters, and survive a crash: who reads
        them again reads the same. A call that was not started as a stream has only its result.

        Arguments:
            offset: how many events to leave out, because you have them.
        """
        offset = checked_offset(offset)
        workflows = self._workflows
        read = 0
        is_over = False
        while not is_over:
            events, read, is_over = workflows.engine.run(workflows.news, self.id, read)
            yield from events[offset:]
            offset = max(offset - len(events), 0)
        yield self.result()

    async def astream(self, offset: int = 0) -> AsyncIterator[StreamEvent | End]:
        """Yield the events asynchronously; see `stream`."""
        offset = checked_offset(offset)
        workflows = self._workflows
        read = 0
        is_over = False
        while not is_over:
            events, read, is_over = await in_thread(
                workflows.engine.run, workflows.news, self.id, read
            )
            for event in events[offset:]:
                yield event
            offset = max(offset - len(events), 0)
        yield await self.aresult()

    def status(self) -> str:
        """Return "waiting", "running", the outcome, or "broken" if the call could not be run."""
        _, status = self._workflows.engine.run(self._workflows.known, self.id)
        return status

    def cancel(self) -> None:
        """End the call: at once if it runs in this process, else before its next attempt."""
        self._workflows.engine.run(self._workflows.cancel, self.id)


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a function in a thread beside those that the program shares, which may be few and needed
    elsewhere.
    """
    return await anyio.to_thread.run_sync(
        function, *args, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
    )


def checked_offset(offset: int) -> int:
    """Return how many events to leave out, or raise a ConfigurationError."""
    if not is_whole(offset, 0):
        raise ConfigurationError(f"offset must be a whole number of 0 or more, not {short(offset)}")
    return offset
