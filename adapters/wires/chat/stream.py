"""Read a streamed chat completion: what its events add to the reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.adapters.wires.chat import reply as completion
from rungwise.adapters.wires.chat.dialects import ERRORS, REASONING_FIELDS, STOP_REASONS, USAGE
from rungwise.adapters.wires.chat.own import OwnMembers, own_in
from rungwise.adapters.wires.chat.tools import (
    ChatCall,
    calls_in,
    forget_calls,
    listed,
    piece_of_call,
    take_call,
    take_calls,
    take_list,
)
from rungwise.adapters.wires.counts import more_of
from rungwise.adapters.wires.draft import (
    NAMES,
    Draft,
    at_least,
    classified,
    grown,
    malformed,
    raw_of,
    settled,
    stop_of,
)
from rungwise.adapters.wires.json_text import as_json, mended
from rungwise.adapters.wires.provider_data import Aside, MediaSoFar, citations_of
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.decoding import StreamDecoder
from rungwise.adapters.wires.reading.events import Events
from rungwise.adapters.wires.reading.sse import EventReader
from rungwise.adapters.wires.unread import TWICE
from rungwise.fsm.replies.assembly.assembly import Assembly, Kind
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.usage import Usage

TEXT: Final[Kind] = (Text, Text)
REASONING: Final[Kind] = (Reasoning, Reasoning)
KINDS: Final[Mapping[str, Kind]] = {"content": TEXT, **dict.fromkeys(REASONING_FIELDS, REASONING)}
"""What the members of a delta hold."""
ENVELOPES: Final = frozenset(path[0] for path, what in ERRORS if what is None)
"""Members of a chunk that may hold an error next to a choice."""
ELSEWHERE: Final = frozenset({"error", *NAMES, *(path[0] for path in USAGE if path != ("usage",))})
"""Members of a chunk with more than its choice and its `usage`."""
_ROLE: Final = ("role", "assistant")
_ABOUT: Final = (*completion.ABOUT, *completion.BILLED)
_EVENTS: Final = Events(
    frozenset({"choices"}),
    around=(
        ("delta", frozenset({*KINDS, "role", "tool_calls"})),
        ("choices", frozenset({"delta", "message", "finish_reason"})),
    ),
)


@define(eq=False, repr=False)
class ChatDecoder(StreamDecoder):
    """Turn the bytes of one streamed chat completion into deltas, and then into a reply."""

    ITEM = ChatCall
    EVENTS = BODIES = _EVENTS
    ENDS_IN_DONE = True

    _own: OwnMembers = field(factory=OwnMembers, init=False)
    _media: MediaSoFar = field(factory=MediaSoFar, init=False)
    _beside: completion.Beside = field(factory=completion.Beside, init=False)
    _aside: Aside = field(factory=Aside, init=False)
    _about: dict[str, object] = field(factory=dict, init=False)
    _usage: dict[str, Any] | None = field(default=None, init=False)
    _most: Usage | None = field(default=None, init=False)  # that any report has counted
    _is_counted: bool = field(default=False, init=False)
    _finish: object = field(default=None, init=False)
    _has_strays: bool = field(default=False, init=False)  # whether data came that is no chunk
    # What other choices than the reply's own hold: calls, which may be its own too, and a finish
    # reason.
    _others: Assembly[ChatCall] | None = field(default=None, init=False)
    _other_finish: object = field(default=None, init=False)
    _has_bare: bool = field(default=False, init=False)  # whether a text came without a role
    # the characters of the text that stood before a role behind such a piece
    _begun_again_at: int | None = field(default=None, init=False)

    def _make_reader(self) -> EventReader:
        return EventReader()  # an event with a name is read in full

    @property
    def size(self) -> int:
        """Return roughly how many bytes are held."""
        others = 0 if self._others is None else self._others.size
        return super().size + self._own.size + self._aside.size + self._media.size + others

    @property
    def written_beside(self) -> int:
        """Return the characters besides the deltas; some may repeat what deltas have shown."""
        return self._beside.letters

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        text_of = self.assembly.text_of
        texts = (text_of(TEXT), text_of(REASONING), self.assembly.refusal.text)
        calls = self._calls()
        annotations = self._aside.members.get("message", {}).get("annotations")
        draft = self._draft(texts, calls, self._own.gathered(), annotations)
        reply = draft.reply(
            error=self.error,
            cut=is_cut,
            cause=cause,
            raw={"choices": [self._aside.members]} if self._aside.members else None,
        )
        if self._is_counted or self._usage is None or isinstance(reply, Failure):
            return reply
        return evolve(reply, usage=at_least(reply.usage, reply.parts))

    def _calls(self) -> list[ToolCall]:
        """Return the calls so far, in order.

        GitHub Copilot says the text of a message of Claude's in one choice, and the calls in
        another, which ends for them [zeroclaw-labs/zeroclaw#2136, HKUDS/nanobot#1555].
        """
        items = self.assembly.items
        if self._others is not None and not items.all and self._ends_for_others:
            items = self._others.items
        return [item.call(self.provider) for item in items.in_order()]

    @property
    def _ends_for_others(self) -> bool:
        """Tell whether the calls of other choices are this reply's: one ends for its calls."""
        own = stop_of(self._finish, STOP_REASONS)[0]
        other = stop_of(self._other_finish, STOP_REASONS)[0]
        if own is None and other is None:
            return True  # nothing says why it ended
        return own in ("stop", "tool_calls") and "tool_calls" in (own, other)

    def _take_others(self, choices: Iterable[Mapping[str, Any]]) -> None:
        """Take the calls of choices that are not the reply's own."""
        for choice in choices:
            self._other_finish = choice.get("finish_reason") or self._other_finish
            for call in calls_in(completion.message_in(choice, "delta", "message")):
                self._others = self._others or Assembly(ChatCall)
                take_call(self._others, call)

    def _draft(
        self,
        texts: tuple[str, str, str],
        calls: Sequence[ToolCall],
        own: Mapping[str, Any],
        annotations: object,
    ) -> Draft:
        """Return the draft of a reply.

        Arguments:
            texts: its text, its reasoning and its refusal.
            calls: its tool calls.
            own: members that only the provider can read, and wants back.
            annotations: the sources of the text, as the provider wrote them.
        """
        text, reasoning, refusal = mended([*texts])
        parts: list[Part] = []
        if reasoning:
            parts.append(ReasoningPart(reasoning, provider=self.provider if own else ""))
        if own:
            parts.append(OpaquePart(self.provider, own, is_answer="images" in own))
        parts += self._media.parts
        if text:
            parts.append(TextPart(text))
        parts += citations_of(annotations, self.provider)
        parts += citations_of(self._about.get("citations"), self.provider)
        parts += calls
        usage = None
        if self._usage:
            usage = completion.usage_of(self._usage, self._about)
        if self._most is not None:
            usage = more_of(self._most, usage)
        return Draft(
            parts=tuple(parts),
            stop=stop_of(self._finish, STOP_REASONS),
            usage=usage,
            model=self._about.get("model"),
            refusal=refusal,
            is_ordered=False,
            about=[*map(self._about.get, completion.ABOUT), text, self._usage],
        )

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the completion of a whole body."""
        choice = completion.first_choice(value)
        error = completion.error_in(value, choice, body)
        message = completion.message_in(choice, "message", "delta", "text")
        if not message:
            is_paid = bool(completion.usage_in(value, choice))
            if not error and not choice.get("finish_reason") and not is_paid:
                return malformed("the body has no usable choice")
        self._about = value
        self._finish = completion.finish_in_any(choice, message, value)
        self._usage = completion.usage_in(value, choice)
        text, reasoning, refusal = completion.contents(message)
        texts = (text, reasoning, refusal or completion.refused_beside(choice))
        calls: list[ToolCall] = []
        if calls_in(message):
            take_calls(self.assembly, message)
            calls = self._calls()
        elif others := completion.others_in(value, choice):
            self._take_others(others)
            calls = self._calls()
        self._media.take(message, self.provider)
        draft = self._draft(texts, calls, own_in(message), message.get("annotations"))
        failure = None if error is None else classified(None, self.headers, error)
        return draft.reply(
            error=failure,
            raw=raw_of(value, body),
        )

    def piece_in(self, value: Any) -> Piece | None:
        """Return the piece of a chunk that holds one piece of text, reasoning or a call.

        Most do.
        """
        if not self.started or self._doubts.is_own is False:
            return None
        try:
            (choice,) = value["choices"]
            delta = choice["delta"]
            # what stands at the end of a reply, or is more than a piece
            if choice.get("finish_reason") is not None or value.get("usage") is not None:
                return None
            if choice.get("index") or choice.get("logprobs"):
                return None
            if choice.get("stop_reason") is not None:
                return None
            if "finishReason" in choice or "stopReason" in choice or "done_reason" in choice:
                return None
            if "error" in choice or "usage" in choice or choice.get("provider_specific_fields"):
                return None
            if not value.keys().isdisjoint(ELSEWHERE):
                return None
            if "base_resp" in value and value["base_resp"].get("status_code"):
                return None
            for name in completion.ABOUT:
                is_said = name in value and value[name] is not None
                if is_said and self._about.get(name) is None:
                    return None
            id = value.get("id")
            if id == self._origin.id:
                self._origin.lasts = True
            elif id and type(id) is str and not self._origin.says_nothing:
                return None
            items = delta.items()
            if len(delta) > 1:
                if self._has_bare and "role" in delta:
                    return None
                items = [item for item in items if item[1] and item != _ROLE]
            ((name, text),) = items
            if name == "tool_calls":
                is_more = choice.get("logprobs") is not None or not ENVELOPES.isdisjoint(value)
                return None if is_more else piece_of_call(self.assembly.items, choice, text)
            if not text or type(text) is not str:
                return None
            kind = KINDS[name]
            self._has_bare = self._has_bare or (kind == TEXT and "role" not in delta)
            return kind, text
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def take_piece(self, kind: Kind | int, text: str) -> None:
        """Take a piece of the text, of the reasoning, or of the call with this index."""
        if not isinstance(kind, int):
            self.assembly.piece(kind, text)
            return
        self._lists.last = ()
        item = self.assembly.items.at(kind)
        if item is None or item.is_named_again or text.startswith("{"):
            # These arguments may begin another call.
            take_call(self.assembly, {"index": kind, "function": {"arguments": text}})
        else:
            self.assembly.arguments(item, text)

    def take_event(
        self,
        value: Mapping[str, Any],
        data: bytes,
        *,
        is_error: bool,
    ) -> None:
        """Take any other chunk."""
        self.take_id(value.get("id"))
        choice = completion.first_choice(value)
        self._take_others(completion.others_in(value, choice))
        # what no delta will show, before it replaces anything
        self._beside.take(value.get("choices"), choice)
        if message := completion.message_in(choice, "message"):
            self.assembly.flush()
            texts = [self.assembly.text_at(kind) for kind in (TEXT, REASONING)]
            self._beside.replace(message, [*texts, self.assembly.refusal])
        error = data if is_error else completion.error_in(value, choice, data)
        if error is not None:
            self.take_error(error)
        if value.get("choices") is None and not is_error and not completion.usage_in(value, choice):
            self._has_strays = True
        if usage := completion.usage_in(value, choice):
            self.started = True  # a reply without a choice is paid for, too
            last = completion.usage_of(usage)
            self._is_counted = last is not None and last.output_tokens > 0
            self._most = more_of(self._most, last)
            self._usage = grown(self._usage or {}, usage)
        for name in _ABOUT:
            if name in value and self._about.get(name) is None:
                self._about[name] = value[name]
        if choice:
            self.started = True
            finish = completion.finish_in_any(
                choice, choice.get("delta"), choice.get("message"), value
            )
            if finish and finish != "null":
                self.take_finish()
                self._finish = settled(self._finish, finish, STOP_REASONS)
                self.done = stop_of(self._finish, STOP_REASONS)[0] != "error"
            self._take_choice(choice)
            self._aside.take(completion.aside_of(choice))
            if refusal := completion.refused_beside(choice):
                self.assembly.refuse(self.assembly.refusal, refusal)

    def take_stray(self, line: bytes, value: Mapping[str, Any] | None) -> None:
        """Count data that is not a chunk; end at an error outside of the events."""
        self._beside.stray(line)
        self.look_for_trouble(line)
        self._has_strays = self._has_strays or not line.strip().startswith(b":")
        body = b"" if value is None else as_json(value).encode()
        if value is not None and completion.error_in(value, {}, body):
            self.take_error(body)

    def take_end(self) -> None:
        """End when the stream says so; what nobody can read may have said why, if no word did."""
        super().take_end()
        if self._finish is None and (self._has_strays or self._other_finish):
            self.done = False

    def _look_back(self) -> None:
        """Note also whether the message has begun twice, and a text came each time."""
        super()._look_back()
        before = self._begun_again_at
        if before is not None and self.assembly.text_at(TEXT).size > before:
            self._doubts.why = TWICE

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        """Take a delta, or a message where there is none."""
        if not self._doubts.is_own:
            self._doubts.take_role(completion.role_in(choice))
        is_watched = self._has_bare and self._begun_again_at is None and "message" not in choice
        if is_watched and completion.role_in(choice):
            self.assembly.flush()
            self._begun_again_at = self.assembly.text_at(TEXT).size or None
        delta = completion.message_in(choice, "delta", "text")
        if not delta:
            if message := completion.message_in(choice, "message"):
                self._take_message(message, is_last=self._finish is not None)
            return
        text, reasoning, refusal = completion.contents(delta)
        if reasoning:
            self.take_piece(REASONING, reasoning)
        if text:
            self.take_piece(TEXT, text)
        if refusal:
            self.assembly.refuse(self.assembly.refusal, refusal)
        self._own.take(delta)
        self._media.take(delta, self.provider)
        calls = calls_in(delta)
        if calls and self._lists.is_all(calls, listed):
            forget_calls(self.assembly)
        take_list(self.assembly, calls)

    def _take_message(self, message: Mapping[str, Any], *, is_last: bool) -> None:
        """Take a whole message.

        From a server that sends messages instead of deltas, it may be a piece of one.
        """
        text, reasoning, refusal = completion.contents(message)
        self.assembly.release()
        for kind, whole in ((REASONING, reasoning), (TEXT, text)):
            if more := self.assembly.text_at(kind).follow(whole, is_last=is_last):
                self.take_piece(kind, more)
        if more := self.assembly.refusal.follow(refusal, is_last=is_last):
            self.assembly.refuse(self.assembly.refusal, more)
        own = OwnMembers()
        own.take(message)
        if own.size:
            self._own = own
        self._media.take(message, self.provider)
        if calls_in(message):
            forget_calls(self.assembly)
            take_calls(self.assembly, message)
