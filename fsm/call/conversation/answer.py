"""The answer of a call so far: the text that its parts brought, and what is known of that text."""

from __future__ import annotations

from attrs import define, evolve, field, fields

from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, measures_of, tokens_in, tokens_of
from rungwise.fsm.call.budget.metering import bytes_of
from rungwise.fsm.call.conversation.observation import UNCLEAR, Observation
from rungwise.fsm.replies.parts import Message, Part, ReasoningPart, TextPart, ToolCall
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.replies.text.repetition import LoopWatch
from rungwise.fsm.replies.text.tags import TextBefore
from rungwise.fsm.values.usage import NO_USAGE, Usage

CountedTurn = tuple[Message, int]
"""A turn that is added to the caller's messages, with its tokens."""


@define(eq=False, repr=False, weakref_slot=False)
class AnswerTokens:
    """Count the tokens of an answer that is sent back. Each piece is measured once, however often
    it goes out.
    """

    # texts, each with the cap and the usage of its reply
    uncounted: tuple[tuple[str, int | None, Usage], ...] = ()
    text: int = 0
    # What a paused turn holds: bytes of text, tokens, and bytes of JSON.
    turn: tuple[int, int, int] = (0, 0, 0)
    reported: int = 0

    def add_parts(self, parts: tuple[Part, ...], usage: Usage) -> None:
        """Measure parts that a paused turn brought, and the usage that they came with."""
        if not usage.estimated:
            self.reported += usage.output_tokens
        text, tokens, json = self.turn
        for part in parts:
            if isinstance(part, TextPart):
                text += bytes_of(part.text)
            else:
                more_tokens, more_json = measures_of(part)
                tokens += more_tokens
                json += more_json
        self.turn = (text, tokens, json)

    def of_text(self) -> int:
        """Count the text; no part has more tokens than the cap that it came under."""
        self.text += sum([tokens_of(*each) for each in self.uncounted])
        self.uncounted = ()
        return self.text

    def of_turn(self) -> int:
        """Count a paused turn, the text in it included."""
        text, tokens, json = self.turn
        of_text = max(self.of_text(), tokens_in(text))
        return max(self.reported, tokens + of_text + tokens_in(json))


@define(eq=False, repr=False, weakref_slot=False)
class AnswerSoFar:
    """Gather the answer of a call, part by part."""

    gathered: str = ""
    parts: tuple[str, ...] = ()  # of the same text, as they came
    # a text that is not continued, kept in case nothing else comes: the longest that was cut too
    # short, or the last wrong one, or the longest with an unclear end
    spare: str = ""
    has_unclear_spare: bool = False  # whether it is of the last kind
    # all of a turn that its provider has paused, the provider's own blocks included
    turn: tuple[Part, ...] = ()
    thinks_inline: bool = False
    # whether another backend or an earlier call brought text, which no reply takes back
    is_foreign: bool = False
    tokens: AnswerTokens = field(factory=AnswerTokens)
    _loops: LoopWatch | None = field(default=None, init=False)
    _read: TextBefore | None = field(default=None, init=False)

    @classmethod
    def continuing(cls, text: str) -> AnswerSoFar:
        """Begin with the text of an earlier call; "" begins with nothing."""
        if not text:
            return cls()
        tokens = AnswerTokens(((text, None, NO_USAGE),))
        return cls(text, (text,), is_foreign=True, tokens=tokens)

    def add(self, observation: Observation) -> None:
        """Add what a reply brought."""
        continues_turn = bool(self.turn) and (observation.part or observation.is_answer)
        if observation.event == "paused" or continues_turn:
            parts = _as_it_came(observation)
            if self.gathered and not self.turn:
                parts = (TextPart(self.gathered), *parts)
            self.turn += parts
            self.tokens.add_parts(parts, observation.evidence.usage)
        if observation.part:
            self.parts += (observation.part,)
            self.gathered += observation.new
            text = (observation.new, observation.cap, observation.evidence.usage)
            self.tokens.uncounted += (text,)
            self.thinks_inline = self.thinks_inline or observation.thinks_inline
            self._compare_spare()
        elif observation.event in (UNCLEAR, "failed_permanently") and observation.spare:
            self._set_aside(observation.spare)
        elif not self.gathered and len(observation.spare) > len(self.spare):
            self.spare = observation.spare
            self.has_unclear_spare = False

    def copied(self) -> AnswerSoFar:
        """Return a copy, without what can be read from its text again."""
        return evolve(self, tokens=evolve(self.tokens))

    def become(self, other: AnswerSoFar) -> None:
        """Be what another one is."""
        for attribute in fields(AnswerSoFar):
            setattr(self, attribute.name, getattr(other, attribute.name))

    def _set_aside(self, unclear: str) -> None:
        """Keep a text with an unclear end in case nothing better comes.

        It may be right, so it takes the place of a wrong one; of several, the longest loses least.
        """
        if self.has_unclear_spare and len(unclear) <= len(self.spare):
            return
        self.spare = unclear
        self.has_unclear_spare = True

    def _compare_spare(self) -> None:
        """Drop the spare text for the text that is gathered, unless that may lose something.

        A text with an unclear end may be whole: one that is longer stays.
        """
        if self.has_unclear_spare and len(self.spare) > len(self.gathered):
            return
        self.drop_spare()

    def drop_spare(self) -> None:
        """Drop the text that was kept in case nothing else comes."""
        self.spare = ""
        self.has_unclear_spare = False

    def drop_text(self) -> None:
        """Drop the text, which was reasoning or is not wanted."""
        self.gathered = ""
        self.parts = ()
        self.turn = ()
        self.tokens = AnswerTokens()
        self._loops = None
        self._read = None

    def discard(self) -> None:
        """Drop everything: another answer is asked for."""
        self.drop_text()
        self.drop_spare()
        self.thinks_inline = False
        self.is_foreign = False

    def drop_turn(self) -> None:
        """Drop the blocks of a paused turn; its text stays."""
        self.turn = ()
        self.tokens.turn = (0, 0, 0)
        self.tokens.reported = 0

    @property
    def has_text(self) -> bool:
        """Tell whether there is any text to keep, the spare one included."""
        return not is_blank(self.gathered or self.spare)

    @property
    def may_be_reasoning(self) -> bool:
        """Tell whether all the text may be reasoning of the current backend, cut before its closing
        tag.
        """
        return bool(self.gathered) and not self.thinks_inline and not self.is_foreign

    @property
    def repeats_itself(self) -> bool:
        """Tell whether the text ends in a loop."""
        self._loops = self._loops or LoopWatch()
        return self._loops.is_repetitive(self.gathered)

    def as_text_before(self) -> TextBefore:
        """Return what was read of the text, as far as it decides what tags behind it are."""
        self._read = self._read or TextBefore()
        return self._read

    def as_turn(self) -> CountedTurn:
        """Return the answer as an assistant turn to be continued."""
        if self.turn:
            return Message("assistant", self.turn), self.tokens.of_turn() + MESSAGE_TOKENS
        return Message.saying("assistant", self.gathered), self.tokens.of_text() + MESSAGE_TOKENS


def _as_it_came(observation: Observation) -> tuple[Part, ...]:
    """Return what a reply adds to a paused turn: its new text and its calls, if nothing is the
    provider's own.
    """
    parts: tuple[Part, ...] = ()
    if observation.reply is not None:
        parts = observation.reply.parts
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if calls and not observation.is_answer:
        parts = tuple([part for part in parts if not isinstance(part, ToolCall)])
        calls = []
    reasoned = ReasoningPart(observation.reasoning)
    for part in parts:
        if not isinstance(part, (TextPart, ToolCall)) and part != reasoned:
            return parts
    added: list[Part] = []
    # Some providers want the reasoning that led to tool calls back with them.
    if calls and reasoned in parts:
        added.append(reasoned)
    if observation.new:
        added.append(TextPart(observation.new))
    return (*added, *calls)
