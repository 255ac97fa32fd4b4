"""The `Handle` of a durable call or turn, and what a database says of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.to_thread
import orjson
from attrs import frozen

from rungwise.adapters.durable.engine import POLL
from rungwise.adapters.durable.forms import Plain, read_event, read_result, read_turn_result
from rungwise.fsm.call.conversation.shapes import NEUTRAL
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import SUCCESSES, Result
from rungwise.fsm.errors import ConfigurationError, JournalMismatch, RungwiseError
from rungwise.fsm.replies.schemas.given import Misfit
from rungwise.fsm.replies.schemas.returns import returns_of
from rungwise.fsm.turn.result import SUCCESSES as SUCCESSES_OF_TURNS
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.values.checks import is_whole
from rungwise.fsm.values.label import short

T = TypeVar("T")
End = TypeVar("End", bound="Result[Any] | TurnResult[Any]")

STATUS: Final = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "CANCELLED": "cancelled",
}

UNFINISHED: Final = ("waiting", "running")

OTHER: Final = "{} is the id of another request; give this one an id of its own"

LOOK: Final = 0.25
"""Seconds between two looks for what is new of a stream."""

FINE: Final = SUCCESSES | SUCCESSES_OF_TURNS

_ERRORS: Final[Mapping[str, type[RungwiseError]]] = {
    each.__name__: each for each in (ConfigurationError, JournalMismatch)
}
"""What the workflow of a call may raise, by name: a database holds no more."""


@frozen
class Handle(Generic[End]):
    """A call or a turn that was started."""

    _durable: Any  # the Durable, whose module imports this one
    id: str
    _returns: Any = None
    _started: Any = None  # by this process
    _digest: str | None = None  # of what it was asked, if this process knows

    def result(self) -> End:
        """Wait for the result; raises what `Durable.call` does, or for a turn what `Client.turn`
        does.
        """
        end: End = self._durable._engine.run(self._result)
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
        read = 0
        is_over = False
        while not is_over:
            events, read, is_over = self._durable._engine.run(self._news, read)
            yield from map(read_event, events[offset:])
            offset = max(offset - len(events), 0)
        yield self.result()

    async def astream(self, offset: int = 0) -> AsyncIterator[StreamEvent | End]:
        """Yield the events asynchronously; see `stream`."""
        offset = checked_offset(offset)
        read = 0
        is_over = False
        run = self._durable._engine.run
        while not is_over:
            events, read, is_over = await in_thread(run, self._news, read)
            for event in events[offset:]:
                yield read_event(event)
            offset = max(offset - len(events), 0)
        yield await self.aresult()

    async def _news(self, read: int) -> tuple[list[Plain], int, bool]:
        """Wait for events behind so many records; return them, how many there are now, and whether
        it has ended.
        """
        from dbos import DBOS

        while True:
            is_over = (await self._durable._known(self.id))[1] not in UNFINISHED
            steps = await DBOS.list_workflow_steps_async(self.id, offset=read)
            events = [
                event
                for step in steps
                for event in orjson.loads(step["output"] or "{}").get("events", ())
            ]
            read += len(steps)
            if events or is_over:
                return events, read, is_over
            await anyio.sleep(LOOK)

    def status(self) -> str:
        """Return "waiting", "running", the outcome, or "broken" if the call could not be run."""
        status: str = self._durable._engine.run(self._durable._known, self.id)[1]
        return status

    def cancel(self) -> None:
        """End the call: at once if it runs in this process, else before its next attempt."""
        self._durable._engine.run(self._durable._cancel, self.id)

    async def _result(self) -> End:
        from dbos import DBOS

        handle = self._started or await DBOS.retrieve_workflow_async(self.id)
        try:
            plain = orjson.loads(await handle.get_result(polling_interval_sec=POLL))
        except Exception as error:
            name = getattr(error, "name", None) or type(error).__name__
            if name == "DBOSAwaitedWorkflowCancelledError":
                raise RungwiseError(
                    f"the call {short(self.id)} was cancelled from outside"
                ) from None
            raise _ERRORS.get(name, RungwiseError)(str(error)) from None
        if self._digest is not None and plain.get("digest", self._digest) != self._digest:
            raise ConfigurationError(OTHER.format(short(self.id)))  # which began at the same moment
        last = plain.get("last", plain)  # the last call of a turn
        shapes = {
            each.name: each.shapes
            for each in self._durable._client.chain
            if hasattr(each, "shapes")
        }
        returns = returns_of(self._returns)
        value = None
        if returns is not None and plain["outcome"] in ("done", "finished"):
            try:
                value = returns.read_text(plain["text"])
            except Misfit as error:
                why = f"is not what returns= says: {error}"
                raise ConfigurationError(f"the answer of {short(self.id)} {why}") from None
        known = shapes.get(last["backend"], NEUTRAL) if last else NEUTRAL, value
        result: Any = (
            read_turn_result(plain, *known) if "last" in plain else read_result(plain, *known)
        )
        end: End = result.raise_for_outcome()
        return end


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
