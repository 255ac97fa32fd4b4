"""What is shown of the events of a stream, and the body of a response that shows them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from traceback import extract_tb
from typing import Any, Final

import anyio
import anyio.to_thread
import orjson
from attrs import asdict, define

from rungwise.fsm.call.conversation.observation import RAISED, WRONG
from rungwise.fsm.call.run.recording import logger
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.errors import ConfigurationError, RungwiseError, ToolError
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Discard, PartialValue, Reasoning, Text
from rungwise.fsm.turn.actions import ToolEnded, ToolStarted
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.tool_round import result_text
from rungwise.fsm.turn.turn_journal import TurnStep

Events = Iterable[object] | AsyncIterable[object]
Data = dict[str, Any]

HEADERS: Final = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
ENDS: Final = (Result, TurnResult, bytes)
UNFINISHED: Final = "the stream ended before its result"
LONGEST_OUTPUT: Final = 65_536
"""Characters of what a tool returned; of a longer output only the size is shown."""


def data_of(event: object) -> tuple[str, Data]:
    """Return the name of an event and what is shown of it: of errors only ours, no cause that
    quotes a wrong answer.
    """
    match event:
        case None:
            return "begin", {}
        case Text(text) | Reasoning(text) | Discard(text):
            return type(event).__name__.lower(), {"text": text}
        case PartialValue(value):
            return "value", {"value": value}
        case Step():
            shown = {"of": "turn" if isinstance(event, TurnStep) else "call", "event": event.event}
            return "step", {
                **shown,
                "rung": event.target,
                "backend": event.backend,
                "wait": event.wait,
            }
        case ToolStarted(call):
            return "tool", _call(call)
        case ToolEnded(call, outcome):
            try:
                text = result_text(outcome.value) if outcome.fault is None else outcome.fault
            except ToolError as fault:
                text = str(fault)
            output = _parsed(text) if len(text) <= LONGEST_OUTPUT else f"({len(text)} characters)"
            return "tool", {"id": call.id, "output": output, "failed": outcome.fault is not None}
        case Result() | TurnResult():
            last, calls = (
                (event, event.tool_calls)
                if isinstance(event, Result)
                else (event.last, event.handed_off)
            )
            awaiting = event.awaiting if isinstance(event, TurnResult) else ()
            quotes = last is not None and last.journal.last.event in (RAISED, *WRONG.values())
            own = {
                name: getattr(event, name) for name in ("outcome", "attempts", "seconds", "cost")
            }
            own |= {"cause": None if quotes else event.cause, "usage": asdict(event.usage)}
            return "result", {**own, "calls": [*map(_call, (*calls, *awaiting))]}
    words = str(event) if isinstance(event, RungwiseError) else "the stream broke off"
    return "error", {
        "outcome": getattr(getattr(event, "result", event), "outcome", "failed"),
        "message": words,
    }


def _call(call: ToolCall) -> Data:
    return {"id": call.id, "name": call.name, "input": _parsed(call.arguments or "{}")}


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def json_of(value: object) -> bytes:
    """Write JSON in UTF-8, which holds no half of a surrogate pair."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode(
        errors="replace"
    )


@define(eq=False)
class Frames:
    """Iterate over the body of a response, with its `headers`: by `async for`, or by `for` if the
    stream is not async.

    Closing it, or cancelling the task that reads it, ends the call or turn.
    """

    headers: dict[str, str]
    encode: Callable[[object], bytes]  # of an event; None is the beginning, an exception an end
    _events: Events

    def __attrs_post_init__(self) -> None:
        if not isinstance(self._events, (Iterable, AsyncIterable)) or isinstance(
            self._events, (str, bytes)
        ):
            kind = type(self._events).__name__
            raise ConfigurationError(
                f"events must be a stream, as client.astream(...) returns it, not {kind}"
            )

    def __iter__(self) -> Iterator[bytes]:
        # at once: Django asks whether it can be iterated
        if isinstance(self._events, AsyncIterable):
            raise TypeError("this stream is asynchronous; use `async for`")
        return filter(None, self._chunks(self._events))

    def _chunks(self, events: Iterable[object]) -> Iterator[bytes]:
        event: object = None
        try:
            yield self.encode(event)
            for event in events:
                yield self.encode(event)
            if not isinstance(event, ENDS):
                raise RungwiseError(UNFINISHED)
        except Exception as error:
            yield self._end(event, error)
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        event: object = None
        try:
            yield self.encode(event)
            async for event in _asynchronous(self._events):
                if chunk := self.encode(event):
                    yield chunk
            if not isinstance(event, ENDS):
                raise RungwiseError(UNFINISHED)
        except Exception as error:
            yield self._end(event, error)
        finally:
            await self.aclose()

    def _end(self, last: object, error: Exception) -> bytes:
        """Return the frames of an error, of which the log has the place; after the result there are
        none.
        """
        if not isinstance(error, RungwiseError) and (where := extract_tb(error.__traceback__)):
            kind = type(error).__name__
            at = where[-1]
            logger.warning(
                "the source of a shown stream raised %s at %s:%s", kind, at.filename, at.lineno
            )
        return b"" if isinstance(last, (Result, TurnResult)) else self.encode(error)

    def close(self) -> None:
        """End the call or turn."""
        if close := getattr(self._events, "close", None):
            # a generator that another thread is in ends when that leaves it
            with suppress(ValueError):
                close()

    async def aclose(self) -> None:
        """End the call or turn, from an event loop."""
        self.close()
        if aclose := getattr(self._events, "aclose", None):
            with anyio.CancelScope(shield=True):
                await aclose()


def _asynchronous(events: Events) -> AsyncIterable[object]:
    if isinstance(events, AsyncIterable):
        return events
    each = iter(events)
    end = object()

    async def in_threads() -> AsyncIterator[object]:
        while (
            event := await anyio.to_thread.run_sync(next, each, end, abandon_on_cancel=True)
        ) is not end:
            yield event

    return in_threads()
