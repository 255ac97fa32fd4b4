"""What is shown of the events of a stream, and the body of a response that shows them.

A browser belongs to anybody. So `data_of` names, event by event, each field that is shown; of
errors it shows our own words, and never the cause of a wrong answer, which quotes it.
"""

from __future__ import annotations

import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from contextlib import suppress
from traceback import extract_tb
from typing import Any, Final

import anyio
import anyio.to_thread
import orjson
from attrs import asdict, define, field

from rungwise.adapters.tools.beats import Beat, abeating, beating, must_be_ping
from rungwise.fsm.call.conversation.observation import RAISED, WRONG
from rungwise.fsm.call.run.recording import logger
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.errors import ConfigurationError, RungwiseError, ToolError
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Commentary, Discard, PartialValue, Reasoning, Text
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
COMMENT: Final = b":\n\n"
"""What a reader of server-sent events skips."""
ENDS: Final = (Result, TurnResult, bytes)
UNFINISHED: Final = "the stream ended before its result"
LONGEST_OUTPUT: Final = 65_536
"""Characters of what a tool returned; of a longer output only the size is shown."""


def data_of(event: object) -> tuple[str, Data]:
    """Return the name of an event, and what is shown of it.

    Arguments:
        event: of a stream; None is its beginning, and an exception an end.
    """
    match event:
        case None:
            return "begin", {}
        case Commentary(text):
            return "reasoning", {"text": text, "phase": "commentary"}
        case Text(text) | Reasoning(text) | Discard(text):
            return type(event).__name__.lower(), {"text": text}
        case PartialValue(value):
            return "value", {"value": value}
        case Step():
            return "step", _step(event)
        case ToolStarted(call):
            return "tool", _call(call)
        case ToolEnded():
            return "tool", _tool_end(event)
        case Result():
            return "result", _end(event, event, event.tool_calls)
        case TurnResult():
            return "result", _end(event, event.last, (*event.handed_off, *event.awaiting))
    message = str(event) if isinstance(event, RungwiseError) else "the stream broke off"
    ended = getattr(event, "result", event)
    return "error", {"outcome": getattr(ended, "outcome", "failed"), "message": message}


def _step(step: Step) -> Data:
    data: Data = {"of": "turn" if isinstance(step, TurnStep) else "call", "event": step.event}
    data["rung"] = step.target
    data["backend"] = step.backend
    data["wait"] = step.wait
    return data


def _tool_end(event: ToolEnded) -> Data:
    outcome = event.outcome
    try:
        text = result_text(outcome.value) if outcome.fault is None else outcome.fault
    except ToolError as fault:
        text = str(fault)
    output: Any = f"({len(text)} characters)"
    if len(text) <= LONGEST_OUTPUT:
        output = _parsed(text)
    return {
        "id": event.call.id,
        "output": output,
        "failed": outcome.fault is not None,
    }


def _end(result: Result | TurnResult, last: Result | None, calls: Iterable[ToolCall]) -> Data:
    """Return what is shown of a result.

    Arguments:
        result: of a call or turn.
        last: of the last call; its cause quotes an answer that was wrong.
        calls: of tools, which the caller is to run or approve.
    """
    names = ("outcome", "attempts", "seconds", "cost", "cost_reported", "unpriced")
    data: Data = {name: getattr(result, name) for name in names}
    quotes = last is not None and last.journal.last.event in (RAISED, *WRONG.values())
    data["cause"] = result.cause
    if quotes and result.cause:
        data["cause"] = result.cause.partition(": ")[0]
    data["usage"] = asdict(result.usage)
    data["calls"] = [_call(call) for call in calls]
    return data


def _call(call: ToolCall) -> Data:
    return {
        "id": call.id,
        "name": call.name,
        "input": _parsed(call.arguments or "{}"),
    }


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def json_of(value: object) -> bytes:
    """Write JSON in UTF-8; half of a surrogate pair becomes a question mark."""
    text = json.dumps(
        value,
        ensure_ascii=False,
        separators=(",", ":"),
        default=str,
    )
    return text.encode(errors="replace")


@define(eq=False)
class Frames:
    """Iterate over the body of a response, by `async for`, or by `for` if the stream is not async.

    Closing it, or cancelling the task that reads it, ends the call or turn.

    Arguments:
        headers: of the response.
        encode: writes an event; None is the beginning, and an exception an end.
        events: the stream.
        ping: the seconds without an event after which a comment is written; None for never.

    Raises:
        ConfigurationError: the events are no stream, or `ping` is no number above 0.
    """

    headers: dict[str, str]
    encode: Callable[[object], bytes]
    _events: Events
    ping: float | None = field(default=None, validator=must_be_ping)

    def __attrs_post_init__(self) -> None:
        is_stream = isinstance(self._events, (Iterable, AsyncIterable))
        if not is_stream or isinstance(self._events, (str, bytes)):
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
        beats = events if self.ping is None else beating(events, self.ping)
        try:
            yield self.encode(event)
            for each in beats:
                if isinstance(each, Beat):
                    yield COMMENT
                    continue
                event = each
                yield self.encode(event)
            if not isinstance(event, ENDS):
                raise RungwiseError(UNFINISHED)
        except Exception as error:
            yield self._end(event, error)
        finally:
            if isinstance(beats, Generator) and beats is not events:
                beats.close()
            self.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        event: object = None
        events = _asynchronous(self._events)
        beats = events if self.ping is None else abeating(events, self.ping)
        try:
            yield self.encode(event)
            async for each in beats:
                if isinstance(each, Beat):
                    yield COMMENT
                    continue
                event = each
                chunk = self.encode(event)
                if chunk:
                    yield chunk
            if not isinstance(event, ENDS):
                raise RungwiseError(UNFINISHED)
        except Exception as error:
            yield self._end(event, error)
        finally:
            if isinstance(beats, AsyncGenerator) and beats is not events:
                await beats.aclose()
            await self.aclose()

    def _end(self, last: object, error: Exception) -> bytes:
        """Return the frames of an error; none after the result.

        The log names the place of an error that is not ours, and not its message.
        """
        places = extract_tb(error.__traceback__)
        if places and not isinstance(error, RungwiseError):
            at = places[-1]
            logger.warning(
                "the source of a shown stream raised %s at %s:%s",
                type(error).__name__,
                at.filename,
                at.lineno,
            )
        if isinstance(last, (Result, TurnResult)):
            return b""
        return self.encode(error)

    def close(self) -> None:
        """End the call or turn."""
        close = getattr(self._events, "close", None)
        if close:
            # a generator that another thread is in ends when that leaves it
            with suppress(ValueError):
                close()

    async def aclose(self) -> None:
        """End the call or turn, from an event loop."""
        self.close()
        aclose = getattr(self._events, "aclose", None)
        if aclose:
            with anyio.CancelScope(shield=True):
                await aclose()


def _asynchronous(events: Events) -> AsyncIterable[object]:
    """Return the stream itself, or one that waits for each event in a thread."""
    if isinstance(events, AsyncIterable):
        return events
    each = iter(events)
    end = object()

    async def in_threads() -> AsyncIterator[object]:
        while True:
            event = await anyio.to_thread.run_sync(next, each, end, abandon_on_cancel=True)
            if event is end:
                return
            yield event

    return in_threads()
