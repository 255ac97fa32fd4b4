"""Read a streamed chat completion: what its events add to the reply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.chat.beside import SPARE, Beside
from rungwise.adapters.wires.chat.dialects import REASONING_FIELDS, USAGE
from rungwise.adapters.wires.chat.own import OwnMembers
from rungwise.adapters.wires.chat.reply import (
    ABOUT,
    classified,
    compose,
    contents,
    error_in,
    first_choice,
    is_cut,
    malformed,
    read_reply,
    refused_beside,
    stop_of,
    usage_in,
)
from rungwise.adapters.wires.chat.text import GatheredText
from rungwise.adapters.wires.chat.tools import ToolCalls, calls_in
from rungwise.adapters.wires.json_text import HalfHolder
from rungwise.adapters.wires.sse import EventReader
from rungwise.fsm.call.events import Reasoning, Text
from rungwise.fsm.call.reply import Reply
from rungwise.fsm.failures.failure import Failure

Kind = type[Text] | type[Reasoning]

KINDS: Final[Mapping[str, Kind]] = {"content": Text, **dict.fromkeys(REASONING_FIELDS, Reasoning)}
ELSEWHERE: Final = frozenset({"error", *(path[0] for path in USAGE if path != ("usage",))})
"""Members of a chunk that say more than its choice and its `usage` do."""

NO_END: Final = malformed("the stream has no end")
"""What cut a stream of which all has come that there is."""
TOO_MUCH: Final = malformed("an event of the stream is not JSON, or too much of it")


@define(eq=False, repr=False)
class ChatDecoder:
    """Turn the bytes of one streamed chat completion into deltas, and at its end into a reply or a failure.

    Arguments:
        headers: the response's headers, for the classification of an error inside the stream.
        sends_finish_reason: whether a reply without a finish reason is a cut one.
        provider: whose reply it is.
    """

    _headers: Mapping[str, str]
    _sends_finish_reason: bool = True
    _provider: str = ""
    finished: bool = field(default=False, init=False)
    unshown: int = field(default=0, init=False)
    """The characters of the reply that no delta has shown: those of tool calls and of a refusal."""
    _events: EventReader = field(factory=EventReader, init=False)

    # What is to be handed out: deltas, and pieces of the delta that still grows.
    _out: list[Text | Reasoning] = field(factory=list, init=False)
    _new: list[str] = field(factory=list, init=False)
    _kind: Kind = field(default=Text, init=False)

    # The reply. Pieces of it may end in half a surrogate pair; what is handed out never does.
    _text: GatheredText = field(factory=GatheredText, init=False)
    _reasoning: GatheredText = field(factory=GatheredText, init=False)
    _refusal: GatheredText = field(factory=GatheredText, init=False)
    _halves: defaultdict[Kind, HalfHolder] = field(factory=lambda: defaultdict(HalfHolder), init=False)
    _calls: ToolCalls = field(factory=ToolCalls, init=False)
    _own: OwnMembers = field(factory=OwnMembers, init=False)
    _beside: Beside = field(factory=Beside, init=False)
    _started: bool = field(default=False, init=False)
    _about: dict[str, object] = field(factory=dict, init=False)
    _usage: dict[str, Any] | None = field(default=None, init=False)
    _finish: object = field(default=None, init=False)
    _done: bool = field(default=False, init=False)
    _error: Failure | None = field(default=None, init=False)

    @property
    def is_stream(self) -> bool:
        """Tell whether what has come is a stream of events, whatever the head called it."""
        return self._events.is_stream or (self._events.has_fields and not self._events.plain)

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Take bytes cut anywhere and return what they add; adjacent pieces are one delta."""
        if self.finished:
            return []
        self._events.feed(data, self)
        if self._new:
            self._flush()
        out, self._out = self._out, []
        return out

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Return what the stream amounts to.

        Arguments:
            failure: what cut the transport, if anything did; it counts only for a reply that is not complete.
        """
        self._events.close(self)
        self._flush()
        if not self._started and not self._error:
            lost = None if failure is NO_END else failure
            plain = bytes(self._events.plain)
            if plain and not self._events.is_stream and (lost is None or lost.reason != "malformed"):
                whole = read_reply(
                    self._headers, plain, sends_finish_reason=self._sends_finish_reason, provider=self._provider
                )
                if lost is None or isinstance(whole, Reply) or whole.reason != "malformed":
                    return whole
            elif self._done:
                return malformed("the stream has no choice in it")
        text = self._text.getvalue()
        calls = self._calls.gathered([*map(self._about.get, ABOUT), text, self._usage], self._provider)
        return compose(
            text=text,
            reasoning=self._reasoning.getvalue(),
            refusal=self._refusal.getvalue(),
            calls=calls,
            finish=self._finish,
            usage=self._usage,
            model=self._about.get("model"),
            error=self._error,
            cut=is_cut(self._finish, calls, ended=self._done, sends_finish_reason=self._sends_finish_reason),
            cause=None if self._done else failure,
            own=self._own.gathered(),
            provider=self._provider,
        )

    @property
    def beside(self) -> int:
        """Return the letters that were written beside the deltas, such as those of other choices and whole messages.

        Some of it may say what deltas have shown as well.
        """
        # What a body in JSON says is not known yet; any other is not a reply.
        plain = self._events.plain
        is_stray = plain and not plain[:100].lstrip().startswith((b"{", b"["))
        return self._beside.letters + (max(0, len(plain) - SPARE) if is_stray else 0)

    @property
    def size(self) -> int:
        """Return how many bytes, about, are held of what has come."""
        said = self._text.tell() + self._reasoning.tell() + self._refusal.tell()
        return self._events.size + said + self._calls.size + self._own.size

    def piece_in(self, value: Any) -> tuple[Kind, str] | None:
        """Return what a chunk says that holds one piece of text or reasoning and nothing else, as most do."""
        if not self._started:
            return None
        try:
            (choice,) = value["choices"]
            delta = choice["delta"]
            if (
                choice.get("finish_reason") is None
                and not choice.get("index")
                and value.get("usage") is None
                and value.keys().isdisjoint(ELSEWHERE)
                and "error" not in choice
                and not choice.get("provider_specific_fields")
            ):
                items = delta.items()
                if len(delta) > 1:
                    items = [item for item in items if item[1] and item[0] != "role"]
                ((name, text),) = items
                return (KINDS[name], text) if text and type(text) is str else None
        except (KeyError, TypeError, ValueError, AttributeError):
            pass
        return None

    def take_piece(self, kind: Kind, text: str) -> None:
        """Take a piece of the text or of the reasoning."""
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        self._new.append(text)

    def take_value(self, value: Mapping[str, Any], data: bytes, *, is_error: bool) -> None:
        """Take any other chunk."""
        choice = first_choice(value)
        self._count_beside(value, choice)
        if is_error:
            self.take_error(data)
        elif not choice or "error" in value or "error" in choice:
            error = error_in(value, choice, data)
            if error is not None:
                self.take_error(error)
        if usage := usage_in(value):
            self._usage = usage
        for name in ABOUT:
            if self._about.get(name) is None:
                self._about[name] = value.get(name)
        if choice:
            self._started = True
            finish = choice.get("finish_reason")
            if finish and finish != "null":
                self._finish = finish
            self._take_choice(choice)
            if refusal := refused_beside(choice):
                self._refusal.write(refusal)
            self.unshown = self._calls.letters + self._refusal.tell()

    def take_error(self, data: bytes) -> None:
        """End at an error of the provider's."""
        self._stop(classified(None, self._headers, data))

    def take_broken(self) -> None:
        """End where a piece of the reply is lost."""
        self._stop(TOO_MUCH)

    def take_stray(self, line: bytes, value: Mapping[str, Any] | None) -> None:
        """Count what is not a chunk, and end at an error that a server let slip."""
        self._beside.stray(line)
        if value is not None and error_in(value, {}, line):
            self.take_error(line)

    def take_end(self) -> None:
        """End where the stream says so."""
        self._done = self.finished = True

    def _count_beside(self, chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        """Count what this chunk brings that no delta will show, before it takes the place of anything."""
        self._beside.take(chunk.get("choices"), choice)
        message = choice.get("message")
        if isinstance(message, dict):
            self._flush()
            self._beside.replace(message, self._text, self._reasoning, self._refusal)

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict) or not delta:
            message = choice.get("message")
            if isinstance(message, dict):
                self._take_message(message, is_last=self._finish is not None)
            return
        text, reasoning, refusal = contents(delta)
        if reasoning:
            self.take_piece(Reasoning, reasoning)
        if text:
            self.take_piece(Text, text)
        if refusal:
            self._refusal.write(refusal)
        self._own.take(delta)
        for call in calls_in(delta):
            self._calls.add(call)

    def _take_message(self, message: Mapping[str, Any], *, is_last: bool) -> None:
        """Take a whole message, or a piece of one from a server that sends those in place of deltas."""
        text, reasoning, refusal = contents(message)
        self._flush()
        if more := self._reasoning.follow(reasoning, is_last=is_last):
            self.take_piece(Reasoning, more)
        if more := self._text.follow(text, is_last=is_last):
            self.take_piece(Text, more)
        self._refusal.write(self._refusal.follow(refusal, is_last=is_last))
        own = OwnMembers()
        own.take(message)
        if own.size:
            self._own = own
        if calls := ToolCalls.whole(message):
            self._calls = calls

    def _flush(self) -> None:
        if not self._new:
            return
        text, kind = "".join(self._new), self._kind
        self._new.clear()
        (self._text if kind is Text else self._reasoning).write(text)
        if self._events.has_halves:
            text = self._halves[kind].feed(text)
        if text:
            self._out.append(kind(text))

    def _stop(self, error: Failure) -> None:
        """End at an error; one that comes after the end of the reply no longer matters to it."""
        if stop_of(self._finish)[0] in (None, "error"):
            self._error = error
        self.finished = True
