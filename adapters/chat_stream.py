"""Read a streamed chat completion from bytes cut anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from attrs import Factory, define

from adapters.chat_reply import (
    call_parts,
    calls_in,
    compose,
    contents,
    error_in,
    first_choice,
    free_text,
    load,
    malformed,
    read_reply,
    stop_of,
    usage_in,
)
from fsm.events import Reasoning, Text
from fsm.failures import classify_response
from fsm.reply import Failure, Reply, ToolCall

BOM: Final = b"\xef\xbb\xbf"
FIELDS: Final = (b":", b"id:", b"retry:")


@define
class _Slot:
    """One tool call on its way."""

    place: int
    custom: bool
    id: str = ""
    name: str = ""
    pieces: list[str] = Factory(list)

    @property
    def is_whole(self) -> bool:
        try:
            return isinstance(orjson.loads("".join(self.pieces)), dict)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            return False


class ToolCalls:
    """Put tool calls together from the pieces that the deltas bring.

    Pieces belong together by `index`. Where a server leaves it out, or gives several calls the same one, a new call
    shows by a name with another id, or with arguments that follow arguments which are whole already.
    """

    __slots__ = ("_by_index", "_slots")

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}

    def __bool__(self) -> bool:
        return bool(self._slots)

    def add(self, call: Mapping[str, Any]) -> None:
        """Take one piece."""
        identifier, name, arguments, custom = call_parts(call)
        index = call.get("index")
        slot = self._find(index, identifier)
        if slot and name and slot.name:
            told = slot.id != identifier if identifier and slot.id else bool(arguments) and slot.is_whole
            slot = None if told else slot
        if slot is None:
            place = index if isinstance(index, int) else len(self._slots)
            slot = _Slot(place, custom)
            self._slots.append(slot)
        if isinstance(index, int):
            self._by_index[index] = slot
        slot.id = slot.id or identifier
        slot.name = slot.name or name
        if arguments:
            slot.pieces.append(arguments)

    def _find(self, index: object, identifier: str) -> _Slot | None:
        if isinstance(index, int):
            return self._by_index.get(index)
        last = self._slots[-1] if self._slots else None
        if not identifier or (last and not last.id):
            return last
        return next((slot for slot in self._slots if slot.id == identifier), None)

    def gathered(self) -> tuple[ToolCall, ...]:
        """Return the calls as far as they have come, in the order of their indices."""
        calls = []
        for slot in sorted(self._slots, key=lambda slot: slot.place):
            arguments = "".join(slot.pieces)
            calls.append(ToolCall(slot.id, slot.name, free_text(arguments) if slot.custom else arguments))
        return tuple(calls)


class ChatDecoder:
    """Turn the bytes of one streamed chat completion into deltas, and at its end into a reply or a failure.

    Arguments:
        headers: the response's headers, for the classification of an error inside the stream.
    """

    __slots__ = (
        "_after_cr",
        "_calls",
        "_done",
        "_error",
        "_event",
        "_finish",
        "_headers",
        "_is_stream",
        "_kind",
        "_model",
        "_new",
        "_out",
        "_pending",
        "_plain",
        "_reasoning",
        "_refusal",
        "_rest",
        "_started",
        "_text",
        "_usage",
        "finished",
    )

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.finished = False
        self._headers = headers
        # The bytes: a line that has not ended, an event whose lines are not JSON yet, and lines that are no events.
        self._rest = bytearray()
        self._after_cr = False
        self._event = b""
        self._pending: list[bytes] = []
        self._plain: list[bytes] = []
        self._is_stream = False
        # What is to be handed out: deltas, and pieces of the delta that still grows.
        self._out: list[Text | Reasoning] = []
        self._new: list[str] = []
        self._kind: type[Text] | type[Reasoning] = Text
        # The reply.
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls = ToolCalls()
        self._started = False
        self._model: object = None
        self._usage: object = None
        self._finish: object = None
        self._done = False
        self._error: Failure | None = None

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Take bytes cut anywhere and return what they add; adjacent pieces are one delta."""
        if self.finished:
            return []
        if self._after_cr or b"\r" in data:
            data = self._unify(data)
        if b"\n" not in data:
            self._rest += data
            return []
        if self._rest:
            self._rest += data
            data = bytes(self._rest)
            self._rest.clear()
        lines = data.split(b"\n")
        self._rest += lines.pop()
        for line in lines:
            if line:
                self._take_line(line)
                if self.finished:
                    break
            elif self._pending or self._event:
                self._end_event()
        self._flush()
        out, self._out = self._out, []
        return out

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Return what the stream amounts to.

        Arguments:
            failure: what cut the transport, if anything did; it counts only for a reply that is not complete.
        """
        self._end_stream()
        if not self._started and not self._error:
            if self._plain and not self._is_stream:
                whole = read_reply(self._headers, b"\n".join(self._plain))
                if failure is None or isinstance(whole, Reply) or whole.reason != "malformed":
                    return whole
            elif self._done:
                return malformed("the stream has no choice in it")
        complete = self._done or self._has_finish
        return compose(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            refusal="".join(self._refusal),
            calls=self._calls.gathered(),
            finish=self._finish,
            usage=self._usage,
            model=self._model,
            error=self._error,
            cut=not complete,
            cause=None if complete else failure,
        )

    @property
    def _has_finish(self) -> bool:
        return stop_of(self._finish)[0] is not None

    def _unify(self, data: bytes) -> bytes:
        """Return `data` with each line end as one line feed, also where it is cut between the two bytes of one."""
        if not data:
            return data
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._is_stream = True
            if self._pending:
                self._pending.append(line[5:])
                return
            try:
                chunk = orjson.loads(line[5:])
            except orjson.JSONDecodeError:
                if line[5:].strip() == b"[DONE]":
                    self._done = self.finished = True
                else:
                    self._pending.append(line[5:])
            else:
                self._take(chunk, line[5:])
        elif line.startswith(b"event:"):
            self._event = line[6:].strip()
        elif not line.startswith(FIELDS):
            self._take_stray(line)

    def _take_stray(self, line: bytes) -> None:
        """Take a line that belongs to no event: a line of another kind of body, or an error that a server let slip."""
        if not self._is_stream:
            bare = line if self._plain else line.lstrip(BOM)
            if bare != line and bare:
                self._take_line(bare)
            else:
                self._plain.append(line)
            return
        data = line.removeprefix(b"error:")
        try:
            value = load(data)
        except ValueError:
            return
        if isinstance(value, dict) and (data != line or error_in(value, {}, data)):
            self._fail(data)

    def _end_event(self, *, cut: bool = False) -> None:
        data = b"\n".join(self._pending)
        self._pending.clear()
        try:
            chunk = load(data) if data.strip() else None
        except ValueError:
            if self._event == b"error":
                self._fail(data)
            elif data.lstrip().startswith(b"{") and not cut:
                # A piece of the reply is lost: what follows would be glued to the wrong place.
                self._stop(malformed("an event of the stream is not JSON"))
        else:
            self._take(chunk, data)
        self._event = b""

    def _end_stream(self) -> None:
        if self._rest and not self.finished:
            self._take_line(bytes(self._rest))
        self._rest.clear()
        if self._pending and not self.finished:
            self._end_event(cut=True)

    def _take(self, chunk: Any, data: bytes) -> None:
        if not isinstance(chunk, dict):
            if self._event == b"error" and chunk is not None:
                self._fail(data)
            return
        choice = first_choice(chunk)
        if self._event == b"error":
            self._fail(data)
        elif not choice or "error" in chunk or "error" in choice:
            error = error_in(chunk, choice, data)
            if error is not None:
                self._fail(error)
        if usage := usage_in(chunk):
            self._usage = usage
        if self._model is None:
            self._model = chunk.get("model")
        if choice:
            self._started = True
            finish = choice.get("finish_reason")
            if finish and finish != "null":
                self._finish = finish
            self._take_choice(choice)

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict) or not delta:
            message = choice.get("message")
            if isinstance(message, dict):
                self._replace(message)
            return
        content = delta.get("content")
        if len(delta) == 1 and isinstance(content, str):  # most deltas are no more than this
            if content:
                self._text.append(content)
                self._say(Text, content)
            return
        text, reasoning, refusal = contents(delta)
        if reasoning:
            self._reasoning.append(reasoning)
            self._say(Reasoning, reasoning)
        if text:
            self._text.append(text)
            self._say(Text, text)
        if refusal:
            self._refusal.append(refusal)
        for call in calls_in(delta):
            self._calls.add(call)

    def _replace(self, message: Mapping[str, Any]) -> None:
        """Let a whole message take the place of what its deltas gathered."""
        text, reasoning, refusal = contents(message)
        if "content" in message:
            self._text = [text]
        if reasoning:
            self._reasoning = [reasoning]
        if refusal:
            self._refusal = [refusal]
        if calls := calls_in(message):
            self._calls = ToolCalls()
            for index, call in enumerate(calls):
                self._calls.add({**call, "index": index})

    def _say(self, kind: type[Text] | type[Reasoning], piece: str) -> None:
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        self._new.append(piece)

    def _flush(self) -> None:
        if self._new:
            self._out.append(self._kind("".join(self._new)))
            self._new.clear()

    def _fail(self, data: bytes) -> None:
        self._stop(classify_response(None, self._headers, data))

    def _stop(self, error: Failure) -> None:
        """End at an error; one that comes after the end of the reply no longer matters to it."""
        if stop_of(self._finish)[0] in (None, "error"):
            self._error = error
        self.finished = True
