"""What each attempt sends: the caller's messages, and the turns that the rungs add behind them."""

from __future__ import annotations

from typing import Literal

from attrs import define, field, frozen

from rungwise.fsm.call.budget.estimate import estimate_tokens, message_tokens
from rungwise.fsm.call.conversation.answer import AnswerSoFar, CountedTurn
from rungwise.fsm.call.conversation.changes import Changes, Correction
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.plain import with_originals
from rungwise.fsm.call.conversation.reading import PLAIN, Reading
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.engine.machine.declare import Rung
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import Message

# The caller's messages are never changed: whatever a rung adds stands behind them. What a request
# holds is composed anew for each attempt and never kept, so a rung never has to undo what another
# one did.
#
# Theory
#
# A model answers the last thing that was said. So each turn must stand where it was said: behind
# the text that had come before it, and before the text that came after it. There are five kinds of
# turns; `_added_turns` puts them in place:
#
#   corrections   wrong replies, each with what was wrong about it. They come first: the text before
#                 such a reply belongs to it, and whatever led to it is answered.
#   hint          a user turn of a rung of your own. Text that has come since answers it; otherwise
#                 it stands last.
#   nudge         a placeholder for the empty reply, and a user turn that asks to carry on. It stays
#                 where it was given: before any text or behind some.
#   answer        the text so far (or the blocks of a paused turn) as an assistant turn. A backend
#                 that prefills continues it by itself, unless something follows; any other is asked
#                 to by a user turn. A paused turn goes back as it is: its provider continues it.
#                 Where the provider gave a token to go on by, the token goes out in its place.
#   seed          the reasoning so far, as the beginning of the reply, or quoted in a user turn
#                 without prefill.
#
# If nothing is seeded and an assistant turn comes last, be it the caller's own, a backend that does
# not prefill would reject the request; it is asked to continue.


@frozen(eq=False, repr=False)
class Composed:
    """Hold the messages of one attempt."""

    messages: tuple[PlainMessage | Message, ...]
    prefill: bool = False  # whether the last one is an assistant turn to be continued
    added_tokens: int = 0
    reading: Reading = PLAIN


@define(eq=False, repr=False, weakref_slot=False)
class Transcript:
    """Hold the conversation of a call, and compose what each attempt sends."""

    messages: tuple[PlainMessage | Message, ...]
    hints: Hints
    answer: AnswerSoFar = field(factory=AnswerSoFar)
    changes: Changes = field(init=False)
    _hint_turns: dict[tuple[str, str], CountedTurn] = field(factory=dict, init=False)
    _before: AnswerSoFar | None = field(default=None, init=False)  # a cut that may go on

    def __attrs_post_init__(self) -> None:
        self.changes = Changes(self.answer)

    def gather(self, observation: Observation) -> None:
        """Add what came back to the answer; first drop the text that it shows to be reasoning."""
        if observation.unsays:
            self.answer.drop_text()
            self.answer.thinks_inline = True
            self.changes.forget_places()
        # A wrong reply is set aside with the text that it continued: a correction may send both
        # back.
        if observation.is_wrong:
            tokens = self.answer.tokens.of_text()
            spare = observation.spare or self.answer.spare
            is_unclear = self.answer.has_unclear_spare and not observation.spare
            self.changes.wrong = Correction.of(observation, self.answer.gathered, tokens)
            self.discard()
            self.answer.spare = spare  # in case nothing better comes
            self.answer.has_unclear_spare = is_unclear
            return
        self._before = None
        failure = observation.failure
        if failure is not None and failure.generation is not None:
            self._before = self.answer.copied()
        self.answer.add(observation)
        reply = observation.reply
        is_cut = observation.evidence.event == "truncated"
        if is_cut and reply is not None and reply.stop_reason == "stop":
            self.changes.doubted_at = len(self.answer.gathered)

    def take_back(self) -> None:
        """Take back what the last reply has added: it comes again, with what follows it."""
        assert self._before is not None
        self.answer.become(self._before)

    def shorten(self, messages: tuple[PlainMessage | Message, ...]) -> bool:
        """Take the messages that a compactor left, if they are of use: others than before, and not
        more. Return whether they are.
        """
        left = with_originals(messages, self.messages)
        if left == self.messages or estimate_tokens(left) > estimate_tokens(self.messages):
            return False
        self.messages = left
        return True

    def discard(self) -> None:
        """Drop the whole answer: a rung of your own asks for another one."""
        self.answer.discard()
        self.changes.forget_places()
        self.changes.seed = ""
        self.changes.end_pause()

    def prepare(self, rung: Rung, observation: Observation) -> None:
        """Change the next request as a rung says; a rung of your own adds its hint."""
        if rung.change is not None:
            try:
                rung.change(self.changes, observation)
            except Exception as error:
                raise ConfigurationError(
                    f"the rung {rung.name!r} raised {type(error).__name__} when it changed the "
                    "request"
                ) from error
        if rung.name in self.hints.rungs:
            self.changes.hint = self.hints.rungs[rung.name]
            self.changes.hinted_at = len(self.answer.gathered)

    def compose(self, shapes: Shapes, prefills: bool, echoes: bool) -> Composed:
        """Put the messages of the next attempt together."""
        changes = self.changes
        answer = self.answer
        is_changed = (
            changes.seed
            or changes.nudged_at is not None
            or changes.hint is not None
            or changes.corrections
        )
        if not (
            is_changed
            or answer.gathered
            or answer.turn
            or shapes.role_of(self.messages[-1]) == "assistant"
        ):
            return Composed(self.messages)
        turns = self._added_turns(shapes, prefills)
        messages = (*self.messages, *[turn for turn, _ in turns])
        added_tokens = sum([tokens for _, tokens in turns])
        prefill = prefills and _is_open_answer(messages[-1], shapes)
        reading = self._reading(prefill=prefill, echoes=echoes)
        return Composed(messages, prefill, added_tokens, reading)

    def _reading(self, *, prefill: bool, echoes: bool) -> Reading:
        """Return how the reply to a request is to be read; see `Composed` for `prefill`, and
        `compose` for `echoes`.
        """
        answer = self.answer
        seed = self.changes.seed
        continued = ""
        joins = self.changes.continuation is not None
        if joins or (prefill and not seed):
            continued = answer.gathered
        before = answer.gathered
        # A model that reasons inline begins a new turn with its reasoning, whatever the text before
        # is within.
        if answer.thinks_inline and not continued:
            before = ""
        stripped = _spaces_behind(continued)
        read = answer.as_text_before() if before else None
        return Reading(
            seed=seed if prefill else "",
            stripped=stripped,
            before=before,
            read=read,
            after_block=answer.thinks_inline,
            is_new_turn=not continued,
            echoes=echoes and prefill,
            joins=joins,
        )

    def _added_turns(self, shapes: Shapes, prefills: bool) -> list[CountedTurn]:
        """List the turns that stand behind the caller's messages, in the order of the theory
        above.
        """
        changes = self.changes
        is_hint_answered = len(self.answer.gathered) > changes.hinted_at
        turns = [turn for each in changes.corrections for turn in each.turns(self.hints)]
        if is_hint_answered:
            turns += self._hint()
        if changes.nudged_at == 0:
            turns += self._nudge()
        turns += self._answer_so_far(prefills)
        if changes.nudged_at:
            turns += self._nudge()
        last = turns[-1][0] if turns else self.messages[-1]
        if changes.seed:
            turns.append(self._seed(prefills))
        elif not prefills and not changes.is_paused and _is_open_answer(last, shapes):
            turns.append(self._turn("user", self.hints.continuation))
        if not is_hint_answered:
            turns += self._hint()
        return turns

    def _answer_so_far(self, prefills: bool) -> list[CountedTurn]:
        is_nothing = not self.answer.gathered and not self.answer.turn
        if is_nothing or self.changes.continuation is not None:
            return []
        turns = [self.answer.as_turn()]
        is_continued = prefills and not self.changes.seed and not self.changes.nudged_at
        if not is_continued and not self.changes.is_paused:
            turns.append(self._turn("user", self.hints.continuation))
        return turns

    def _hint(self) -> list[CountedTurn]:
        if self.changes.hint is None:
            return []
        return [self._turn("user", self.changes.hint)]

    def _nudge(self) -> list[CountedTurn]:
        return [
            self._turn("assistant", self.hints.placeholder),
            self._turn("user", self.hints.nudge),
        ]

    def _seed(self, prefills: bool) -> CountedTurn:
        seed = self.changes.seed
        wording = self.hints.seed
        tokens = wording.count("{reasoning}") * self.changes.seed_tokens + message_tokens(wording)
        if not prefills:
            return Message.saying("user", wording.replace("{reasoning}", seed)), tokens
        if self.changes.seed_is_inline:
            seed = f"<think>\n{seed}\n</think>"
        return Message.saying("assistant", seed), tokens

    def _turn(self, role: Literal["user", "assistant"], text: str) -> CountedTurn:
        """Return a turn of fixed wording, which is built once."""
        turn = self._hint_turns.get((role, text))
        if turn is None:
            turn = Message.saying(role, text), message_tokens(text)
            self._hint_turns[role, text] = turn
        return turn


def _is_open_answer(message: PlainMessage | Message, shapes: Shapes) -> bool:
    """Tell whether a message is an assistant turn to be continued; after tool calls, their results
    follow instead.
    """
    return shapes.role_of(message) == "assistant" and not shapes.calls_tools(message)


def _spaces_behind(text: str) -> str:
    """Return the whitespace that a text ends with, without copying what stands before it."""
    at = len(text)
    while at and text[at - 1].isspace():
        at -= 1
    return text[at:]
