"""Plain server-sent events, Vercel's UI message stream, and AG-UI: each turns events into bytes,
without I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from secrets import token_urlsafe
from typing import Any, Final

from attrs import define, field
from pydantic import TypeAdapter

from rungwise.adapters.ui.frames import HEADERS, Data, Events, Frames, data_of, json_of
from rungwise.fsm.errors import ConfigurationError, RungwiseError

TAKEN_BACK: Final = "text that was shown had to be taken back, which this stream cannot do"
LESSER: Final = ("partial", "limit_reached")
ROLES: Final = {"text": "assistant", "reasoning": "reasoning"}


def sse(events: Events, *, after: int = 0) -> Frames:
    """Write a stream as plain server-sent events, each with an id, a name, and JSON.

    `text`, `reasoning` and `discard` hold a `text`; a discard takes it back from the end. `step`
    holds the event, the rung, the backend and the wait; `tool` an id, and a name with `input`, or
    `output` and `failed`; `value` a value that grows. The last one is `result`, or `error` with an
    outcome and a message.

    Arguments:
        events: the stream of a call or turn, or of the handle of a durable call.
        after: the `Last-Event-ID` of the reader, if `events` begins behind that one:
            `sse(handle.astream(7), after=7)`.
    """
    numbers = count(after + 1)

    def encode(event: object) -> bytes:
        name, data = data_of(event)
        frame = b"id: %d\nevent: %s\ndata: %s\n\n"
        return frame % (next(numbers), name.encode(), json_of(data)) if data else b":\n\n"

    return Frames(HEADERS, encode, events)


def vercel(
    events: Events, *, message_id: str = "", resets: bool = False, hold: bool = False
) -> Frames:
    """Write a stream as Vercel's UI message stream, which `useChat` of npm's `ai` reads.

    Steps arrive in `onData` as `data-rungwise`, and values that grow as `data-value`. If text must
    be taken back, the stream ends with an error unless `resets` or `hold` is set.

    Arguments:
        events: the stream of a call or turn, or of the handle of a durable call.
        message_id: the id of the message, the same whenever it is sent; "" for a random one.
        resets: whether the reader knows `reset-step`, as `ai` does from 7.0.70 on; older ones abort
        there. hold: whether text waits until it is final: until the turn runs tools, or ends.
    """
    encoder = VercelEncoder(message_id or token_urlsafe(), resets, hold)
    return Frames(HEADERS | {"x-vercel-ai-ui-message-stream": "v1"}, encoder.encode, events)


def ag_ui(events: Events, messages: Iterable[Any], *, thread_id: str, run_id: str) -> Frames:
    """Write a stream as AG-UI events; needs the extra `ag-ui`.

    Steps are custom events `rungwise`, and values that grow `value`. AG-UI takes nothing back, so
    for a discard all messages are sent again, the last one shortened.

    Arguments:
        events: the stream of a call or turn, or of the handle of a durable call.
        messages, thread_id, run_id: those of the run's input.

    Raises:
        ConfigurationError: the extra is not installed, or a message is not of its form.
    """
    try:
        from ag_ui.core import Event
    except ImportError:
        raise ConfigurationError(
            "rungwise.ui.ag_ui needs the extra: pip install 'rungwise[ag-ui]'"
        ) from None
    read: Callable[[Data], Any] = TypeAdapter(Event).validate_python
    try:
        earlier = read({"type": "MESSAGES_SNAPSHOT", "messages": [*messages]}).messages
    except ValueError:
        raise ConfigurationError("messages must be those of the run's input") from None
    return Frames(
        HEADERS, AgUiEncoder(run_id, True, False, thread_id, earlier, read).encode, events
    )


@define(eq=False)
class VercelEncoder:
    """Write UI message chunks, and remember the parts of the message: a reset removes all those of
    the open step.
    """

    id: str
    resets: bool
    hold: bool
    _numbers: Iterator[int] = field(factory=lambda: count(1), init=False)
    _text: str = field(default="", init=False)  # the id of the step's text
    # "text", "reasoning": with its pieces
    _open: dict[str, tuple[Data, list[str]]] = field(factory=dict, init=False)
    _parts: list[tuple[Data, list[str]]] = field(factory=list, init=False)
    _kept: int = field(default=0, init=False)  # the number of parts of earlier steps

    def encode(self, event: object) -> bytes:
        """Return the frames of an event."""
        return b"".join(map(self._frame, self._chunks(*data_of(event))))

    def _frame(self, chunk: Data) -> bytes:
        end = b"data: [DONE]\n\n" if chunk["type"] in ("finish", "error") else b""
        return b"data: %s\n\n%s" % (json_of(chunk), end)

    def _chunks(self, name: str, data: Data) -> Iterator[Data]:
        match name:
            case "begin":
                yield from ({"type": "start", "messageId": self.id}, {"type": "start-step"})
            case "text" | "reasoning":
                yield from (
                    *(self._close("reasoning") if name == "text" else ()),
                    *self._add(name, data["text"]),
                )
            case "discard":
                yield from self._shorten(data["text"])
            case "value":
                yield {"type": "data-value", "data": data["value"], "transient": True}
            case "step":
                if (data["of"], data["event"]) == ("turn", "tools_ran"):
                    yield from (*self._settle(), {"type": "finish-step"}, {"type": "start-step"})
                    self._text = ""
                    self._kept = len(self._parts)
                yield {"type": "data-rungwise", "data": data, "transient": True}
            case "tool" if "name" in data:
                yield from (*self._settle(), self._call(data))
            case "tool":
                kind, shown = ("error", "errorText") if data["failed"] else ("available", "output")
                yield self._keep(
                    {"type": f"tool-output-{kind}", "toolCallId": data["id"], shown: data["output"]}
                )
            case "result":
                yield from (
                    *self._settle(),
                    *map(self._call, data["calls"]),
                    {"type": "finish-step"},
                )
                reason = (
                    "tool-calls"
                    if data["calls"]
                    else "other"
                    if data["outcome"] in LESSER
                    else "stop"
                )
                yield {
                    "type": "finish",
                    "finishReason": reason,
                    "messageMetadata": {"rungwise": data},
                }
            case "error":
                yield from (
                    *self._settle(),
                    {"type": "error", "errorText": data["message"], **data},
                )

    def _settle(self) -> Iterator[Data]:
        """Close what is open: no text is taken back from here on."""
        yield from (*self._close("reasoning"), *self._close("text"))

    def _add(self, kind: str, text: str) -> Iterator[Data]:
        if kind not in self._open:
            id = f"{self.id}-{next(self._numbers)}"
            self._open[kind] = {"type": f"{kind}-start", "id": id}, []
            self._text = id if kind == "text" else self._text
            self._parts.append(self._open[kind])
            yield self._open[kind][0]
        self._open[kind][1].append(text)
        if kind != "text" or not self.hold:
            yield {"type": f"{kind}-delta", "id": self._open[kind][0]["id"], "delta": text}

    def _close(self, kind: str) -> Iterator[Data]:
        if kind in self._open:
            start, pieces = self._open.pop(kind)
            if kind == "text" and self.hold:
                yield {"type": "text-delta", "id": start["id"], "delta": "".join(pieces)}
            yield {"type": f"{kind}-end", "id": start["id"]}

    def _call(self, call: Data) -> Data:
        named = {
            "toolCallId": call["id"],
            "toolName": call["name"],
            "input": call["input"],
            "parent": self._text,
        }
        return self._keep({"type": "tool-input-available", **named, "dynamic": True})

    def _keep(self, chunk: Data) -> Data:
        self._parts.append((chunk, []))
        return chunk

    def _shorten(self, text: str) -> Iterator[Data]:
        _, pieces = self._open.get("text", ({}, []))
        whole = "".join(pieces)
        if not whole.endswith(text) or not (self.hold or self.resets):
            raise RungwiseError(TAKEN_BACK)
        pieces[:] = [whole[: len(whole) - len(text)]]
        yield from () if self.hold else self._retract()

    def _retract(self) -> Iterator[Data]:
        """Remove the parts of the step, and send again what is kept of them."""
        yield {"type": "reset-step"}
        for part in self._parts[self._kept :]:
            yield part[0]
            if "id" in part[0]:
                kind = part[0]["type"].removesuffix("-start")
                id = part[0]["id"]
                yield {"type": f"{kind}-delta", "id": id, "delta": "".join(part[1])}
                yield from (
                    () if self._open.get(kind) is part else ({"type": f"{kind}-end", "id": id},)
                )


@define(eq=False)
class AgUiEncoder(VercelEncoder):
    """Write AG-UI events: those of each chunk of the other protocol."""

    thread_id: str
    messages: list[Any]
    _read: Callable[[Data], Any]

    def _frame(self, chunk: Data) -> bytes:
        events = map(self._read, self._events(chunk["type"], chunk))
        return b"".join(
            b"data: %s\n\n" % json_of(event.model_dump(by_alias=True)) for event in events
        )

    def _events(self, kind: str, chunk: Data) -> Iterator[Data]:
        own, _, what = kind.rpartition("-")
        run = {"threadId": self.thread_id, "runId": self.id}
        call = {"toolCallId": chunk.get("toolCallId")}
        if what == "delta":
            yield {
                "type": f"{own.upper()}_MESSAGE_CONTENT",
                "messageId": chunk["id"],
                "delta": chunk["delta"],
            }
        elif own in ROLES:
            message = {"type": f"{own.upper()}_MESSAGE_{what.upper()}", "messageId": chunk["id"]}
            yield message | ({"role": ROLES[own]} if what == "start" else {})
        elif kind == "tool-input-available":
            started = {
                "toolCallName": chunk["toolName"],
                "parentMessageId": chunk["parent"] or chunk["toolCallId"],
            }
            yield {"type": "TOOL_CALL_START", **call, **started}
            yield {"type": "TOOL_CALL_ARGS", **call, "delta": _words(chunk["input"])}
            yield {"type": "TOOL_CALL_END", **call}
        elif own.startswith("tool-output"):
            yield {
                "type": "TOOL_CALL_RESULT",
                "messageId": f"{chunk['toolCallId']}-result",
                **call,
                **_content(chunk),
            }
        elif own == "data":
            yield {"type": "CUSTOM", "name": what, "value": chunk["data"]}
        elif kind == "reset-step":
            yield {
                "type": "MESSAGES_SNAPSHOT",
                "messages": [*self.messages, *self._shown().values()],
            }
        elif kind == "start":
            yield {"type": "RUN_STARTED", **run}
        elif kind == "finish":
            yield {"type": "RUN_FINISHED", **run, "result": chunk["messageMetadata"]["rungwise"]}
        elif kind == "error":
            yield {"type": "RUN_ERROR", "message": chunk["errorText"], "code": chunk["outcome"]}

    def _retract(self) -> Iterator[Data]:
        yield {"type": "reset-step"}

    def _shown(self) -> dict[str, Data]:
        """Return the messages of this run as the reader has them, by id."""
        shown: dict[str, Data] = {}
        for chunk, pieces in self._parts:
            call = chunk.get("toolCallId", "")
            if "id" in chunk:
                role = ROLES[chunk["type"].removesuffix("-start")]
                shown[chunk["id"]] = {"id": chunk["id"], "role": role, "content": "".join(pieces)}
            elif "input" in chunk:
                id = chunk["parent"] or call
                function = {"name": chunk["toolName"], "arguments": _words(chunk["input"])}
                owner = shown.setdefault(id, {"id": id, "role": "assistant"})
                owner.setdefault("toolCalls", []).append(
                    {"id": call, "type": "function", "function": function}
                )
            else:
                id = f"{call}-result"
                shown[id] = {"id": id, "role": "tool", "toolCallId": call, **_content(chunk)}
        return shown


def _words(value: object) -> str:
    return value if isinstance(value, str) else json_of(value).decode()


def _content(chunk: Data) -> Data:
    return {"content": _words(chunk.get("output", chunk.get("errorText")))}
