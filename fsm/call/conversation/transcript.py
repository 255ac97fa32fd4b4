"""What each rung sends: the caller's messages, and what the rungs have added to them."""

from __future__ import annotations

from typing import Any, Final, Literal

from attrs import field, frozen

from rungwise.fsm.call.budget.estimate import (
    MESSAGE_TOKENS,
    bytes_of,
    estimate_tokens,
    measures_of,
    tokens_in,
    tokens_of,
)
from rungwise.fsm.call.conversation.link import Lessons
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.parts import Message, Part, ReasoningPart, TextPart, ToolCall
from rungwise.fsm.call.conversation.reading import PLAIN, Reading
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.policy import Hints
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.machine.declare import Rung
from rungwise.fsm.text.repetition import LoopWatch
from rungwise.fsm.text.thinking import TextBefore


@frozen
class Composed:
    """Hold the messages of one attempt.

    Arguments:
        messages: what is sent.
        prefill: whether the last message is an assistant turn to be continued.
        added_tokens: the tokens of what stands there besides the caller's messages.
        reading: how the answer is to be read.
    """

    messages: tuple[PlainMessage | Message, ...] = field(repr=False)
    prefill: bool = False
    added_tokens: int = 0
    reading: Reading = PLAIN


_NONE: Final[frozenset[Any]] = frozenset()
"""One for all calls: each that is built takes 200 bytes."""


class Transcript:
    """Gather what a call has said and heard; the caller's own messages are never touched.

    Arguments:
        messages: the caller's messages, or what the compactor made of them.
        hints: the wording of what is added.
        gathered: the text so far, stitched.
        parts: the raw parts of it.
        turn: all that a turn which its provider has paused holds so far, its provider's own blocks among it; empty
            where none was paused.
    """

    __slots__ = (
        *("_gathered_tokens", "_hint_turns", "_loops", "_read", "_roles", "_turn_measures", "_uncounted"),
        "available_tokens",
        *("dropped", "gathered", "hint", "hinted_at", "hints", "is_foreign", "is_paused", "largest_output"),
        *("lower_reasoning", "messages", "nudged_at", "parts", "portable", "repaired", "restore_reasoning", "seed"),
        *("seed_is_inline", "seed_tokens", "spare", "thinks_inline", "turn", "without_prefill"),
    )

    def __init__(
        self, messages: tuple[PlainMessage | Message, ...], hints: Hints, gathered: str = "", seed: str = ""
    ) -> None:
        self.messages, self.hints, self.gathered, self.seed = messages, hints, gathered, seed
        self.parts: list[str] = []
        self.turn: tuple[Part, ...] = ()
        self._gathered_tokens = 0
        # Texts and their caps; few, as each request counts them.
        self._uncounted: tuple[tuple[str, int | None], ...] = ()
        self._turn_measures: tuple[int, int, int] = (0, 0, 0)  # bytes of text; tokens, JSON beside it
        # Messages, their form, how many were read, and what was read of them.
        self._roles: tuple[tuple[PlainMessage | Message, ...], Shapes, int, tuple[str, ...]] | None = None
        self._hint_turns: dict[tuple[str, str], _Added] | None = None  # as they were said before
        self._loops: LoopWatch | None = None  # none before a text is cut
        self._read: TextBefore | None = None  # none before one is gone on from
        self.thinks_inline = False  # a part came with inline reasoning
        self.spare = ""  # the longest cut that is too little to go on from
        self.is_foreign = False  # another backend has brought text
        self.hint: str | None = None  # of a rung of the user's own
        self.hinted_at = 0  # how many characters were gathered when it was given
        self.seed_tokens = 0
        self.seed_is_inline = False
        self.is_paused = False
        self.nudged_at: int | None = None  # how much was gathered when the nudge was given, 0 for nothing
        self.portable = False
        self.restore_reasoning = False
        self.dropped: frozenset[str] = _NONE
        self.available_tokens: int | None = None
        self.lower_reasoning = False
        self.repaired: frozenset[str] = _NONE
        self.without_prefill: frozenset[int] = _NONE
        self.largest_output: int | None = None

    @classmethod
    def going_on_from(cls, text: str, messages: tuple[PlainMessage | Message, ...], hints: Hints) -> Transcript:
        """Return the transcript of a call that goes on from a text; "" begins anew."""
        if not text:
            return cls(messages, hints)
        transcript = cls(messages, hints, text)
        transcript.parts = [text]
        transcript.is_foreign = True  # no reply is to unsay it
        transcript._uncounted = ((text, None),)
        return transcript

    def gather(self, observation: Observation) -> None:
        """Add what came back to the answer, or drop what it has shown to be reasoning."""
        if observation.unsays:
            self._drop_text()
            self.thinks_inline = True
        if observation.event == "paused" or (self.turn and (observation.part or observation.is_answer)):
            before = (TextPart(self.gathered),) if self.gathered and not self.turn else ()
            self._add_to_turn((*before, *_as_it_came(observation)))
        if observation.part:
            self.parts.append(observation.part)
            self.gathered += observation.new  # the one copy that each part costs: it is sent as a whole
            self._uncounted += ((observation.new, observation.cap),)
            self.thinks_inline = self.thinks_inline or observation.thinks_inline
            self.spare = ""
        elif not self.gathered and len(observation.spare) > len(self.spare):
            self.spare = observation.spare

    def discard(self) -> None:
        """Drop the whole answer: a rung of the user's own asks for another one."""
        self._drop_text()
        self.spare, self.seed, self.is_paused, self.thinks_inline, self.is_foreign = "", "", False, False, False

    def _drop_text(self) -> None:
        self.gathered, self.parts, self.hinted_at, self._loops, self._read = "", [], 0, None, None
        self.drop_turn()
        self.nudged_at = None if self.nudged_at is None else 0  # all that follows comes after what was given before
        self._gathered_tokens, self._uncounted = 0, ()

    def drop_turn(self) -> None:
        """Drop what a paused turn holds, but for the text that was gathered."""
        self.turn, self._turn_measures = (), (0, 0, 0)

    def _add_to_turn(self, parts: tuple[Part, ...]) -> None:
        text, tokens, json = self._turn_measures
        for part in parts:  # measured as it comes, and not with all that stands before it each time
            if isinstance(part, TextPart):
                text += bytes_of(part.text)
            else:
                one, other = measures_of(part)
                tokens, json = tokens + one, json + other
        self.turn, self._turn_measures = (*self.turn, *parts), (text, tokens, json)

    @property
    def gathered_tokens(self) -> int:
        """Count the tokens of the text so far; no part has more than the cap that it came under."""
        self._gathered_tokens += sum([tokens_of(text, cap) for text, cap in self._uncounted])
        self._uncounted = ()  # so that no text is counted twice, and none of a call that is simply answered
        return self._gathered_tokens

    @property
    def repeats_itself(self) -> bool:
        """Tell whether the text so far ends in a loop."""
        if self._loops is None:
            self._loops = LoopWatch()
        return self._loops.is_repetitive(self.gathered)

    @property
    def may_be_reasoning(self) -> bool:
        """Tell whether all the text so far may be reasoning of the current backend, cut before its closing tag."""
        return bool(self.gathered) and not self.thinks_inline and not self.is_foreign

    def is_plain(self, shapes: Shapes) -> bool:
        """Tell whether the messages go out as they are, because no rung has added anything and none must."""
        added = self.gathered or self.turn or self.seed or self.nudged_at is not None or self.hint is not None
        return not added and self._last_roles(shapes, 1)[-1] != "assistant"

    def has_recent_tool_result(self, window: int, shapes: Shapes) -> bool:
        """Tell whether a tool result is among the last `window` messages."""
        return window > 0 and "tool" in self._last_roles(shapes, window)[-window:]

    def _last_roles(self, shapes: Shapes, most: int) -> tuple[str, ...]:
        """Return the roles of at least so many messages at the end."""
        known = self._roles
        if known is not None and known[0] is self.messages and known[1] is shapes and known[2] >= most:
            return known[3]
        roles = tuple(map(shapes.role_of, self.messages[-most:]))
        if most > 1:  # the last one alone is all that a call reads which is simply answered
            self._roles = (self.messages, shapes, most, roles)
        return roles

    def compose(self, shapes: Shapes, prefills: bool, echoes: bool) -> Composed:
        """Put the messages of the next attempt together.

        Arguments:
            shapes: the form in which the caller's messages are written for the backend.
            prefills: whether it goes on from a trailing assistant turn.
            echoes: whether it repeats that turn.
        """
        if self.is_plain(shapes):
            return Composed(self.messages)
        added: list[_Added] = []
        early = self.nudged_at == 0
        hinted = [self._said("user", self.hint)] if self.hint is not None else []
        if len(self.gathered) > self.hinted_at:  # this text came after the hint, and is gone on from
            added, hinted = hinted, []
        native = prefills and not self.seed and not (self.nudged_at and not early)
        if early:
            added += self._nudge()
        if self.gathered or self.turn:
            added.append(self._turn_so_far())
            if not native and not self.is_paused:
                added.append(self._said("user", self.hints.continuation))
        if self.nudged_at is not None and not early:
            added += self._nudge()
        if self.seed:
            added.append(self._seed_turn(prefills))
        elif not prefills and not self.is_paused and _is_cut_answer(self.messages, added, shapes):
            # A conversation of the caller's own may end like this; a backend that does not prefill rejects it.
            added.append(self._said("user", self.hints.continuation))
        added += hinted
        prefill = prefills and _is_cut_answer(self.messages, added, shapes)
        continued = self.gathered if prefill and not self.seed else ""
        # A new turn of a model that reasons inline begins with its reasoning, whatever the text before is within.
        before = "" if self.thinks_inline and not continued else self.gathered
        if before and self._read is None:
            self._read = TextBefore()
        reading = Reading(
            seed=self.seed if prefill else "",
            stripped=_spaces_behind(continued),
            before=before,
            read=self._read if before else None,
            after_block=self.thinks_inline,
            is_new_turn=not continued,
            echoes=echoes and prefill,
        )
        added_tokens = sum([tokens for _, tokens in added])
        messages = (*self.messages, *[turn for turn, _ in added])
        return Composed(messages, prefill, added_tokens, reading)

    def _turn_so_far(self) -> _Added:
        if not self.turn:
            return _added("assistant", self.gathered, self.gathered_tokens)
        text, tokens, json = self._turn_measures
        tokens += max(self.gathered_tokens, tokens_in(text)) + tokens_in(json)
        return Message("assistant", self.turn), tokens + MESSAGE_TOKENS

    def _nudge(self) -> list[_Added]:
        return [self._said("assistant", self.hints.placeholder), self._said("user", self.hints.nudge)]

    def _said(self, role: Literal["user", "assistant"], hint: str) -> _Added:
        """Return the turn of a hint, which is built once: every part of a long text is asked for with it."""
        known = self._hint_turns.get((role, hint)) if self._hint_turns is not None else None
        if known is None:
            known = _added(role, hint)
            self._hint_turns = {**(self._hint_turns or {}), (role, hint): known}
        return known

    def _seed_turn(self, prefills: bool) -> _Added:
        said = self.hints.seed.count("{reasoning}")
        tokens = said * self.seed_tokens + estimate_tokens(self.hints.seed)
        if not prefills:
            return _added("user", self.hints.seed.replace("{reasoning}", self.seed), tokens)
        return _added("assistant", f"<think>\n{self.seed}\n</think>" if self.seed_is_inline else self.seed, tokens)

    def heed(self, lessons: Lessons, backend: int) -> None:
        """Begin with a backend as what is remembered of it says; nothing was repaired there yet.

        Arguments:
            lessons: what is remembered.
            backend: its place in the chain.
        """
        self.dropped, self.restore_reasoning = lessons.dropped, lessons.restore_reasoning
        self.largest_output = lessons.largest_output
        if lessons.no_prefill:
            self.without_prefill |= {backend}

    # what each rung changes

    def prepare(self, rung: Rung, observation: Observation) -> None:
        """Change what the next request will hold, as the rung says; a rung of the user's own adds its hint.

        Raises:
            ConfigurationError: what a rung of the user's own does to the request raises.
        """
        if rung.change is not None:
            try:
                rung.change(self, observation)
            except Exception as error:
                told = f"the rung {rung.name!r} raised {type(error).__name__} when it changed the request"
                raise ConfigurationError(told) from error
        if rung.name in self.hints.rungs:
            self.hint, self.hinted_at = self.hints.rungs[rung.name], len(self.gathered)


def _as_it_came(observation: Observation) -> tuple[Part, ...]:
    """Return what a reply adds to a turn that goes on from its provider's own blocks.

    Where nothing of it is the provider's own, that is the text that had not been said, and the calls of tools.
    """
    parts = () if observation.reply is None else observation.reply.parts
    calls = tuple([part for part in parts if isinstance(part, ToolCall)])
    if calls and not observation.is_answer:
        parts, calls = tuple([part for part in parts if not isinstance(part, ToolCall)]), ()
    reasoned = ReasoningPart(observation.reasoning)
    if any(not isinstance(part, (TextPart, ToolCall)) and part != reasoned for part in parts):
        return parts
    text = (TextPart(observation.new),) if observation.new else ()
    # The reasoning that led to calls goes back with them: some providers ask for it.
    return (reasoned, *text, *calls) if calls and reasoned in parts else (*text, *calls)


def _spaces_behind(text: str) -> str:
    """Return the whitespace that a text ends with, without a copy of all that stands before it."""
    at = len(text)
    while at and text[at - 1].isspace():
        at -= 1
    return text[at:]


_Added = tuple[Message, int]
"""A turn that a rung adds, with its tokens."""


def _added(role: Literal["user", "assistant"], text: str, tokens: int | None = None) -> _Added:
    counted = estimate_tokens(text) if tokens is None else tokens
    return Message.saying(role, text), counted + MESSAGE_TOKENS


def _is_cut_answer(messages: tuple[PlainMessage | Message, ...], added: list[_Added], shapes: Shapes) -> bool:
    """Tell whether what stands last is an answer to go on from; on tool calls follow results, which a wire supplies."""
    last = added[-1][0] if added else messages[-1]
    return shapes.role_of(last) == "assistant" and not shapes.calls_tools(last)
