"""Plain server-sent events, Vercel's UI message stream, and AG-UI: events to bytes, without I/O.

Theory. The three differ most where text has to be taken back, since a stream resumes on another
backend or turns out to be reasoning. Plain events say so, as a `discard`. Vercel's protocol knows
no such thing, but `reset-step` removes all parts of the open step, so the encoder remembers them
and sends the rest again. AG-UI sends a snapshot of all messages. So `VercelEncoder` keeps the parts
of the message in the order in which the reader has them, and `AgUiEncoder` reads from the same
parts; each of its events follows from a chunk of Vercel's protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from secrets import token_urlsafe
from typing import Any, Final

from attrs import define, field
from pydantic import TypeAdapter

from rungwise.adapters.tools.beats import PING
from rungwise.adapters.ui.frames import COMMENT, HEADERS, Data, Events, Frames, data_of, json_of
from rungwise.fsm.errors import ConfigurationError, RungwiseError
from rungwise.fsm.values.checks import is_flag, must

TAKEN_BACK: Final = "text that was shown had to be taken back, which this stream cannot do"
LESSER: Final = ("partial", "limit_reached")
"""Outcomes with an answer that is not whole."""
ROLES: Final = {"text": "assistant", "reasoning": "reasoning"}


def sse(events: Events, *, after: int = 0, ping: float | None = PING) -> Frames:
    """Write a stream as plain server-sent events, each with an id, a name, and JSON.

    `text`, `reasoning` and `discard` hold a `text`; a discard takes it back from the end. `step`
    holds the event, the rung, the backend and the wait; `tool` an id, and a name with `input`, or
    `output` and `failed`; `value` a value that grows. The last one is `result`, or `error` with an
    outcome and a message.

    Arguments:
        events: the stream of a call or turn, or of the handle of a durable call.
        after: the `Last-Event-ID` of the reader, if `events` begins behind that one:
            `sse(handle.astream(7), after=7)`.
        ping: the seconds without an event after which a comment is written, so that no load
            balancer cuts the stream; None for never.
    """
    numbers = count(after + 1)

    def encode(event: object) -> bytes:
        name, data = data_of(event)
        if not data:  # the beginning: a comment, so that the response begins
            return COMMENT
        frame = b"id: %d\nevent: %s\ndata: %s\n\n"
        return frame % (next(numbers), name.encode(), json_of(data))

    return Frames(HEADERS, encode, events, ping)


def vercel(
    events: Events,
    *,
    message_id: str = "",
    resets: bool = False,
    hold: bool = False,
    ping: float | None = PING,
) -> Frames:
    """Write a stream as Vercel's UI message stream, which `useChat` of npm's `ai` reads.

    Steps arrive in `onData` as `data-rungwise`, and values that grow as `data-value`. If text must
    be taken back, the stream ends with an error unless `resets` or `hold` is set.

    Arguments:
        events: the stream of a call or turn, or of the handle of a durable call.
        message_id: the id of the message, the same whenever it is sent; "" for a random one.
        resets: whether the reader knows `reset-step`, as `ai` does from 7.0.70 on; older ones abort
            there.
        hold: whether text waits until it is final: until the turn runs tools, or ends.
        ping: see `sse`.
    """
    encoder = VercelEncoder(message_id or token_urlsafe(), resets, hold)
    headers = HEADERS | {"x-vercel-ai-ui-message-stream": "v1"}
    return Frames(headers, encoder.encode, events, ping)


def ag_ui(
    events: Events,
    messages: Iterable[Any],
    *,
    thread_id: str,
    run_id: str,
    ping: float | None = PING,
) -> Frames:
    """Write a stream as AG-UI events; needs the extra `ag-ui`.

    Steps are custom events `rungwise`, and values that grow `value`. AG-UI takes nothing back, so
    for a discard all messages are sent again, the last one shortened.

    Arguments:
        events: the stream of a call or turn, or of the handle of a durable call.
        messages: those of the run's input.
        thread_id: of the run's input, too.
        run_id: likewise.
        ping: see `sse`.

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
        earlier = read({"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}).messages
    except ValueError:
        raise ConfigurationError("messages must be those of the run's input") from None
    encoder = AgUiEncoder(
        id=run_id,
        resets=True,
        hold=False,
        thread_id=thread_id,
        messages=earlier,
        read=read,
    )
    return Frames(HEADERS, encoder.encode, events, ping)


@define(eq=False)
class VercelEncoder:
    """Write UI message chunks, and remember the parts of the message.

    Arguments:
        id: of the message.
        resets: whether a reset may remove all parts of the open step.
        hold: whether text waits until it is final.
    """

    id: str
    resets: bool = field(validator=must("True or False", is_flag))
    hold: bool = field(validator=must("True or False", is_flag))
    _numbers: Iterator[int] = field(factory=lambda: count(1), init=False)
    _text: str = field(default="", init=False)  # the id of the step's text
    # the parts that are not closed, by their kind: `text` or `reasoning`
    _open: dict[str, tuple[Data, list[str]]] = field(factory=dict, init=False)
    # each part: the chunk that began it, and the pieces of its text
    _parts: list[tuple[Data, list[str]]] = field(factory=list, init=False)
    _kept: int = field(default=0, init=False)  # how many parts earlier steps have

    def encode(self, event: object) -> bytes:
        """Return the frames of an event."""
        return b"".join(map(self._frame, self._chunks(*data_of(event))))

    def _frame(self, chunk: Data) -> bytes:
        end = b"data: [DONE]\n\n" if chunk["type"] in ("finish", "error") else b""
        return b"data: %s\n\n%s" % (json_of(chunk), end)

    def _chunks(self, name: str, data: Data) -> Iterator[Data]:
        """Yield the chunks of an event: its name, and what is shown of it."""
        match name:
            case "begin":
                yield {"type": "start", "messageId": self.id}
                yield {"type": "start-step"}
            case "text":
                yield from self._close("reasoning")
                yield from self._add(name, data["text"])
            case "reasoning":
                yield from self._add(name, data["text"])
            case "discard":
                yield from self._shorten(data["text"])
            case "value":
                yield {"type": "data-value", "data": data["value"], "transient": True}
            case "step":
                if data["of"] == "turn" and data["event"] == "tools_ran":
                    yield from self._settle()
                    yield {"type": "finish-step"}
                    yield {"type": "start-step"}
                    self._text = ""
                    self._kept = len(self._parts)
                yield {"type": "data-rungwise", "data": data, "transient": True}
            case "tool" if "name" in data:
                yield from self._settle()
                yield self._call(data)
            case "tool":
                yield self._output(data)
            case "result":
                yield from self._settle()
                for call in data["calls"]:
                    yield self._call(call)
                yield {"type": "finish-step"}
                yield self._finish(data)
            case "error":
                yield from self._settle()
                yield {"type": "error", "errorText": data["message"], **data}

    def _finish(self, data: Data) -> Data:
        reason = "stop"
        if data["calls"]:
            reason = "tool-calls"
        elif data["outcome"] in LESSER:
            reason = "other"
        chunk = {"type": "finish", "finishReason": reason}
        return {**chunk, "messageMetadata": {"rungwise": data}}

    def _settle(self) -> Iterator[Data]:
        """Close what is open: no text is taken back from here on."""
        yield from self._close("reasoning")
        yield from self._close("text")

    def _add(self, kind: str, text: str) -> Iterator[Data]:
        """Add a piece to the open part of a kind, or begin one."""
        if kind not in self._open:
            id = f"{self.id}-{next(self._numbers)}"
            self._open[kind] = ({"type": f"{kind}-start", "id": id}, [])
            self._parts.append(self._open[kind])
            if kind == "text":
                self._text = id
            yield self._open[kind][0]
        start, pieces = self._open[kind]
        pieces.append(text)
        if kind != "text" or not self.hold:
            yield {"type": f"{kind}-delta", "id": start["id"], "delta": text}

    def _close(self, kind: str) -> Iterator[Data]:
        if kind in self._open:
            start, pieces = self._open.pop(kind)
            if kind == "text" and self.hold:
                yield {"type": "text-delta", "id": start["id"], "delta": "".join(pieces)}
            yield {"type": f"{kind}-end", "id": start["id"]}

    def _call(self, call: Data) -> Data:
        chunk = {"type": "tool-input-available", "toolCallId": call["id"]}
        chunk["toolName"] = call["name"]
        chunk["input"] = call["input"]
        chunk["parent"] = self._text
        return self._keep({**chunk, "dynamic": True})

    def _output(self, data: Data) -> Data:
        """Return the chunk of what a tool returned, or of its fault."""
        if data["failed"]:
            chunk = {"type": "tool-output-error", "toolCallId": data["id"]}
            return self._keep({**chunk, "errorText": data["output"]})
        chunk = {"type": "tool-output-available", "toolCallId": data["id"]}
        return self._keep({**chunk, "output": data["output"]})

    def _keep(self, chunk: Data) -> Data:
        self._parts.append((chunk, []))
        return chunk

    def _shorten(self, text: str) -> Iterator[Data]:
        """Take text back from the end of the open text."""
        _, pieces = self._open.get("text", ({}, []))
        whole = "".join(pieces)
        if not whole.endswith(text) or not (self.hold or self.resets):
            raise RungwiseError(TAKEN_BACK)
        pieces[:] = [whole[: len(whole) - len(text)]]
        if not self.hold:
            yield from self._retract()

    def _retract(self) -> Iterator[Data]:
        """Remove the parts of the step, and send again what is kept of them."""
        yield {"type": "reset-step"}
        for part in self._parts[self._kept :]:
            start, pieces = part
            yield start
            if "id" in start:
                kind = start["type"].removesuffix("-start")
                yield {"type": f"{kind}-delta", "id": start["id"], "delta": "".join(pieces)}
                if self._open.get(kind) is not part:
                    yield {"type": f"{kind}-end", "id": start["id"]}


@define(eq=False)
class AgUiEncoder(VercelEncoder):
    """Write AG-UI events: those of each chunk of the other protocol.

    Arguments:
        thread_id: of the run's input; its id is that of the message.
        messages: of the run's input.
        read: builds an event of AG-UI.
    """

    thread_id: str
    messages: list[Any]
    _read: Callable[[Data], Any]

    def _frame(self, chunk: Data) -> bytes:
        frames = b""
        for data in self._events(chunk["type"], chunk):
            event = self._read(data)
            frames += b"data: %s\n\n" % json_of(event.model_dump(by_alias=True))
        return frames

    def _events(self, kind: str, chunk: Data) -> Iterator[Data]:
        own, _, what = kind.rpartition("-")
        run = {"threadId": self.thread_id, "runId": self.id}
        if own in ROLES:
            yield self._text_event(own, what, chunk)
        elif kind == "tool-input-available":
            call = {"toolCallId": chunk["toolCallId"]}
            parent = chunk["parent"] or chunk["toolCallId"]
            start = {"type": "TOOL_CALL_START", **call, "toolCallName": chunk["toolName"]}
            yield {**start, "parentMessageId": parent}
            yield {"type": "TOOL_CALL_ARGS", **call, "delta": _words(chunk["input"])}
            yield {"type": "TOOL_CALL_END", **call}
        elif own.startswith("tool-output"):
            call = {"toolCallId": chunk["toolCallId"]}
            result = {"type": "TOOL_CALL_RESULT", "messageId": f"{chunk['toolCallId']}-result"}
            yield {**result, **call, **_content(chunk)}
        elif own == "data":
            yield {"type": "CUSTOM", "name": what, "value": chunk["data"]}
        elif kind == "reset-step":
            messages = [*self.messages, *self._shown().values()]
            yield {"type": "MESSAGES_SNAPSHOT", "messages": messages}
        elif kind == "start":
            yield {"type": "RUN_STARTED", **run}
        elif kind == "finish":
            yield {"type": "RUN_FINISHED", **run, "result": chunk["messageMetadata"]["rungwise"]}
        elif kind == "error":
            yield {"type": "RUN_ERROR", "message": chunk["errorText"], "code": chunk["outcome"]}

    def _text_event(self, kind: str, what: str, chunk: Data) -> Data:
        """Return the event of a piece of text or reasoning, or of its start or end."""
        name = f"{kind.upper()}_MESSAGE"
        id = {"messageId": chunk["id"]}
        if what == "delta":
            return {"type": f"{name}_CONTENT", **id, "delta": chunk["delta"]}
        if what == "start":
            return {"type": f"{name}_START", **id, "role": ROLES[kind]}
        return {"type": f"{name}_END", **id}

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
                calls = owner.setdefault("toolCalls", [])
                calls.append({"id": call, "type": "function", "function": function})
            else:
                id = f"{call}-result"
                shown[id] = {"id": id, "role": "tool", "toolCallId": call, **_content(chunk)}
        return shown


def _words(value: object) -> str:
    return value if isinstance(value, str) else json_of(value).decode()


def _content(chunk: Data) -> Data:
    return {"content": _words(chunk.get("output", chunk.get("errorText")))}
