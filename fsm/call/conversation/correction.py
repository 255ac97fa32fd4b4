"""A wrong reply as it goes back to the model, with what is wrong about it."""

from __future__ import annotations

from attrs import evolve, frozen

from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, message_tokens, tokens_of
from rungwise.fsm.call.budget.metering import bytes_of
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.parts import Message, Part, ReasoningPart, ToolCall, ToolResult
from rungwise.fsm.call.conversation.verdict import LONGEST_REASONS, Finding, cut_reasons
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.text.contents import json_in
from rungwise.fsm.values.label import is_identifier

MOST_CALLS = 8
"""Tool calls that go back; a reply with more, or with an odd id or name, goes back in words."""

LONGEST_ID = 64
"""Bytes of the id of a tool call that goes back."""

NOT_RUN = "(not run, since another call of this reply is wrong)"

MOST_BESIDE = MOST_CALLS * (MESSAGE_TOKENS + 4 * LONGEST_ID + message_tokens(NOT_RUN))
"""The most tokens of the calls that go back, and of their results, besides the arguments and the reasons."""


def most_of_correction(hints: Hints) -> int:
    """Return the most tokens that a correction adds to a prompt besides the reply."""
    wording = hints.correction
    repeats = wording.count("{reasons}") * LONGEST_REASONS
    return MESSAGE_TOKENS + max(
        message_tokens(wording) + repeats + message_tokens(hints.placeholder), MOST_BESIDE + LONGEST_REASONS
    )


@frozen(eq=False)
class Correction:
    """Hold a wrong reply.

    Arguments:
        tokens: how many it counts as.
        calls: its tool calls, if they go back, with the reasoning that led to them.
    """

    text: str
    tokens: int
    calls: tuple[Part, ...]
    finding: Finding

    @classmethod
    def of(cls, observation: Observation, gathered: str, gathered_tokens: int) -> Correction:
        """Take a reply that was found wrong, behind the text that it continued."""
        reply, finding = observation.reply, observation.finding or Finding()
        calls: tuple[ToolCall, ...] = () if observation.answered_by is None else (observation.answered_by,)
        text, thought = observation.spare, tuple[ReasoningPart, ...]()
        if reply is not None and (calls or reply.tool_calls):
            calls = calls or reply.tool_calls
            thought = tuple(part for part in reply.parts if isinstance(part, ReasoningPart) and part.signature)
        new = "" if observation.answered_by is not None else text.removeprefix(gathered)
        written = "".join([new, *[call.arguments for call in calls], observation.reasoning if thought else ""])
        tokens = gathered_tokens + tokens_of(written, observation.cap, observation.evidence.usage)
        goes_back = len(calls) <= MOST_CALLS and all(map(_goes_back, calls))
        return cls(text, tokens, (*thought, *map(_readable, calls)) if calls and goes_back else (), finding)

    def turns(self, hints: Hints) -> list[tuple[Message, int]]:
        """Return the turns that send it back, each with its tokens."""
        calls = [part for part in self.calls if isinstance(part, ToolCall)]
        if not calls:
            answer = self.text or hints.placeholder
            before = self.tokens + MESSAGE_TOKENS + (0 if self.text else bytes_of(answer))
            told = hints.correction.replace("{reasons}", self.finding.in_words)
            return [
                (Message.saying("assistant", answer), before),
                (Message.saying("user", told), message_tokens(told)),
            ]
        faults = self.finding.of_calls or [self.finding.in_words]
        share = LONGEST_REASONS // len(calls)
        results = [
            ToolResult(call.id, call.name, cut_reasons(fault, share) or NOT_RUN, is_fault=True)
            for call, fault in zip(calls, faults, strict=False)
        ]
        beside = sum(2 * bytes_of(call.id) + 2 * bytes_of(call.name) for call in calls)
        return [
            (Message("assistant", self.calls), self.tokens + MESSAGE_TOKENS + beside),
            (Message("tool", tuple(results)), sum(message_tokens(result.text) for result in results)),
        ]


def _goes_back(call: ToolCall) -> bool:
    return 0 < len(call.id) <= LONGEST_ID and call.id.isascii() and is_identifier(call.name)


def _readable(call: ToolCall) -> ToolCall:
    """Return a call as every server takes it: with an object for its arguments."""
    return call if isinstance(json_in(call.arguments)[0], dict) else evolve(call, arguments="{}")
