"""What the rungs change in the requests of a call, beside the caller's messages.

A wrong reply goes back to the model with what is wrong about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, evolve, frozen

from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, message_tokens, tokens_of
from rungwise.fsm.call.budget.metering import bytes_of
from rungwise.fsm.call.chain.lessons import Lessons
from rungwise.fsm.call.conversation.answer import AnswerSoFar
from rungwise.fsm.call.conversation.observation import (
    LONGEST_REASONS,
    Finding,
    Observation,
    cut_reasons,
)
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.replies.parts import Message, Part, ReasoningPart, ToolCall, ToolResult
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.contents import is_blank, json_in
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import is_identifier

RESERVE_BELOW_AVAILABLE = 64
"""Output tokens to stay below the number that a provider names as available."""

GOES_ON: Final = "continuation token"
"""What an observation names of a pause after which the very same request goes out, with a token."""
_NONE: Final[frozenset[Any]] = frozenset()


@define(eq=False, repr=False, weakref_slot=False)
class Changes:
    """Hold what the rungs have changed in the next request. A rung's `change` is called with
    this.
    """

    answer: AnswerSoFar
    seed: str = ""  # the reasoning that the reply is to begin with
    seed_tokens: int = 0
    seed_is_inline: bool = False  # whether it came in inline tags
    nudged_at: int | None = None  # how much was gathered when the nudge was given, 0 for nothing
    hint: str | None = None  # of a rung of your own
    hinted_at: int = 0  # how much was gathered when it was given
    # how much was, when a text that its backend called whole was taken for cut, once
    doubted_at: int | None = None
    wrong: Correction | None = None
    corrections: tuple[Correction, ...] = ()  # the wrong replies that the current backend gets back
    is_paused: bool = False  # whether the provider paused the turn, which is sent back as it is
    paused: Reply | None = None  # the reply with which it did
    keeps_cap: bool = False  # whether its token goes out with the very same request
    # whether another provider's signatures and encrypted reasoning are left out
    portable: bool = False
    restore_reasoning: bool = False  # whether each assistant turn must carry its reasoning
    lower_reasoning: bool = False
    dropped: frozenset[str] = _NONE
    settings: Mapping[str, str] = FrozenMap()  # the values that the backend wants instead
    repaired: frozenset[str] = _NONE  # at this backend
    # the backends that reject a trailing assistant turn, by index
    without_prefill: frozenset[int] = _NONE
    available_tokens: int | None = None  # the output cap that the provider named
    largest_output: int | None = None  # the largest one that the backend takes, as learned earlier

    @property
    def gathered(self) -> str:
        """Return the text so far."""
        return self.answer.gathered

    def apply(self, lessons: Lessons, backend: int) -> None:
        """Begin with a backend, given by its index in the chain, and with what earlier calls have
        learned of it.
        """
        self.dropped = lessons.dropped
        self.restore_reasoning = lessons.restore_reasoning
        self.largest_output = lessons.largest_output
        if lessons.no_prefill:
            self.without_prefill |= {backend}

    def end_pause(self) -> None:
        """Forget that the provider paused the turn."""
        self.is_paused = False
        self.paused = None
        self.keeps_cap = False

    @property
    def continuation(self) -> str | None:
        """Return the token by which the turn goes on, in place of what came of it."""
        return None if self.paused is None else self.paused.continuation

    def set_in(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return parameters with the values that the backend wants instead."""
        return FrozenMap({**parameters, **self.settings})

    def forget_places(self) -> None:
        """Move the nudge and the hint to the beginning: the text before them is dropped."""
        self.hinted_at = 0
        if self.nudged_at is not None:
            self.nudged_at = 0
        if self.doubted_at is not None:
            self.doubted_at = 0


def ask_for_key(changes: Changes, observation: Observation) -> None:
    """Let the function of the next key be asked once more, too."""
    changes.repaired -= {"key"}


def forget_seed(changes: Changes, observation: Observation) -> None:
    """Drop the reasoning that was seeded."""
    changes.seed = ""


def add_nudge(changes: Changes, observation: Observation) -> None:
    """Put the placeholder and the nudge behind what was gathered so far."""
    changes.seed = ""
    changes.nudged_at = len(changes.gathered) + len(changes.answer.turn)


def seed(changes: Changes, observation: Observation) -> None:
    """Begin the reply with the reasoning that came."""
    before = changes.seed
    new = observation.reasoning.strip()
    # A model that continues its seed sends only what follows; one that starts again repeats it.
    tokens = tokens_of(new, observation.cap, observation.evidence.usage)
    if before and not new.startswith(before):
        changes.seed = f"{before}\n{new}"
        changes.seed_tokens += tokens
    else:
        changes.seed = new
        changes.seed_tokens = tokens
    changes.seed_is_inline = observation.thinks_inline


def correct(changes: Changes, observation: Observation) -> None:
    """Send the wrong reply back with what is wrong."""
    changes.seed = ""
    changes.nudged_at = None
    changes.end_pause()
    if changes.wrong is not None:
        changes.corrections += (changes.wrong,)


def go_on(changes: Changes, observation: Observation) -> None:
    """Continue the text that was gathered, or send a paused turn back as it is."""
    changes.seed = ""
    paused = changes.paused
    changes.end_pause()
    if observation.event != "paused":
        return
    changes.is_paused = True
    changes.keeps_cap = observation.evidence.repair == GOES_ON
    changes.paused = observation.reply
    if paused is not None and changes.paused is not None:
        pieces = (*paused.pieces, *changes.paused.pieces)
        changes.paused = evolve(changes.paused, pieces=pieces)


def lower_reasoning(changes: Changes, observation: Observation) -> None:
    """Ask for less reasoning from now on, if reasoning used up the cap."""
    changes.lower_reasoning = changes.lower_reasoning or observation.event == "reasoning_truncated"


def repair(changes: Changes, observation: Observation) -> None:
    """Fix the one thing that the provider named."""
    fix = observation.evidence.repair or ""
    kind, _, detail = fix.partition(":")
    changes.repaired |= {fix}
    if kind == "output_cap":
        changes.available_tokens = within(int(detail))
    elif kind == "parameter_unsupported":
        changes.dropped = without(changes, detail)
    elif kind == "wrong_endpoint":
        name, _, value = detail.partition("=")
        changes.settings = FrozenMap({**changes.settings, name: value})
    elif kind == "prefill_unsupported":
        changes.without_prefill |= {observation.backend}
    elif kind == "reasoning_signature":
        changes.portable = True
        changes.restore_reasoning = False
    elif kind == "reasoning_missing":
        changes.restore_reasoning = True


def within(available: int) -> int:
    """Return the output cap to send where a provider names this number of tokens as available."""
    return max(1, available - RESERVE_BELOW_AVAILABLE)


def without(changes: Changes, parameter: str) -> frozenset[str]:
    """Return the parameters to leave out once this one is.

    Of the two names of the output cap, one that was rejected only in an earlier call is tried
    again.
    """
    dropped = changes.dropped | {parameter}
    if dropped >= {*CAP_PARAMETERS}:
        for name in CAP_PARAMETERS:
            was_rejected = f"parameter_unsupported:{name}" in changes.repaired
            if name != parameter and not was_rejected:
                dropped -= {name}
    return dropped


def fall_back(changes: Changes, observation: Observation) -> None:
    """Make everything portable and begin anew with another backend; the gathered text stays."""
    changes.seed = ""
    changes.nudged_at = None
    changes.end_pause()
    changes.hint = None
    changes.corrections = ()
    changes.portable = True
    changes.lower_reasoning = False
    changes.restore_reasoning = False
    changes.answer.is_foreign = bool(changes.gathered)
    if is_blank(changes.gathered):
        changes.answer.drop_turn()  # another backend cannot continue blocks without text
    changes.dropped = _NONE
    changes.settings = FrozenMap()
    changes.repaired = _NONE
    changes.available_tokens = None


MOST_CALLS = 8
"""Tool calls that go back; a reply with more, or with an odd id or name, goes back in words."""

LONGEST_ID = 64
"""Bytes of the id of a tool call that goes back."""

NOT_RUN = "(not run, since another call of this reply is wrong)"

MOST_BESIDE = MOST_CALLS * (MESSAGE_TOKENS + 4 * LONGEST_ID + message_tokens(NOT_RUN))
"""The most tokens of the calls that go back, and of their results, besides the arguments and the
reasons.
"""


def most_of_correction(hints: Hints) -> int:
    """Return the most tokens that a correction adds to a prompt besides the reply."""
    repeats = hints.correction.count("{reasons}") * LONGEST_REASONS
    in_words = message_tokens(hints.correction) + repeats + message_tokens(hints.placeholder)
    return MESSAGE_TOKENS + max(in_words, MOST_BESIDE + LONGEST_REASONS)


@frozen(eq=False)
class Correction:
    """Hold a wrong reply."""

    text: str
    tokens: int
    calls: tuple[Part, ...]  # its tool calls, if they go back, with the reasoning that led to them
    finding: Finding

    @classmethod
    def of(cls, observation: Observation, gathered: str, gathered_tokens: int) -> Correction:
        """Take a reply that was found wrong, behind the text that it continued."""
        text = observation.spare
        calls: tuple[ToolCall, ...] = ()
        written = []  # what of the reply has tokens that are not counted yet
        if observation.answered_by is None:
            written.append(text.removeprefix(gathered))
        else:
            calls = (observation.answered_by,)
        thought: list[ReasoningPart] = []
        reply = observation.reply
        if reply is not None and (calls or reply.tool_calls):
            calls = calls or reply.tool_calls
            for part in reply.parts:
                if isinstance(part, ReasoningPart) and part.signature:
                    thought.append(part)
        written += [call.arguments for call in calls]
        if thought:
            written.append(observation.reasoning)
        usage = observation.evidence.usage
        tokens = gathered_tokens + tokens_of("".join(written), observation.cap, usage)
        sent_back: tuple[Part, ...] = ()
        if 0 < len(calls) <= MOST_CALLS and all(map(_goes_back, calls)):
            sent_back = (*thought, *map(_readable, calls))
        return cls(text, tokens, sent_back, observation.finding or Finding())

    def turns(self, hints: Hints) -> list[tuple[Message, int]]:
        """Return the turns that send it back, each with its tokens."""
        calls = [part for part in self.calls if isinstance(part, ToolCall)]
        if not calls:
            answer = self.text or hints.placeholder
            tokens = self.tokens + MESSAGE_TOKENS
            if not self.text:
                tokens += bytes_of(answer)
            reasons = hints.correction.replace("{reasons}", self.finding.in_words)
            return [
                (Message.saying("assistant", answer), tokens),
                (Message.saying("user", reasons), message_tokens(reasons)),
            ]
        faults = self.finding.of_calls or [self.finding.in_words]
        share = LONGEST_REASONS // len(calls)
        results = []
        for call, fault in zip(calls, faults, strict=False):
            reasons = cut_reasons(fault, share) or NOT_RUN
            results.append(ToolResult(call.id, call.name, reasons, is_fault=True))
        # the call names both, and so does its result
        beside = sum(2 * bytes_of(call.id) + 2 * bytes_of(call.name) for call in calls)
        result_tokens = sum(message_tokens(result.text) for result in results)
        call_tokens = self.tokens + MESSAGE_TOKENS + beside
        return [
            (Message("assistant", self.calls), call_tokens),
            (Message("tool", tuple(results)), result_tokens),
        ]


def _goes_back(call: ToolCall) -> bool:
    """Tell whether every server takes the id and the name of a call."""
    has_id = 0 < len(call.id) <= LONGEST_ID and call.id.isascii()
    return has_id and is_identifier(call.name)


def _readable(call: ToolCall) -> ToolCall:
    """Return a call as every server takes it: with an object for its arguments."""
    arguments, _ = json_in(call.arguments)
    if isinstance(arguments, dict):
        return call
    return evolve(call, arguments="{}")
