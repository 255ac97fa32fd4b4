"""A turn that goes on where it awaited approval, with what the caller has decided on its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import Message, ToolCall, ToolResult
from rungwise.fsm.turn.policy import TurnHints
from rungwise.fsm.turn.tools import Toolbox
from rungwise.fsm.turn.validity import Messages
from rungwise.fsm.values.label import short

Approvals = Mapping[str, "bool | str"]
"""For the id of each call that waits: True, or why it is refused."""

NOT_AWAITING = (
    "approvals are for the messages of a turn that awaits approval: pass its "
    "result.messages, unchanged"
)


@frozen
class Resumed:
    """Hold the reply at which a turn goes on."""

    before: tuple[PlainMessage | Message, ...]  # the conversation before it
    calling: Message
    results: Mapping[int, ToolResult]  # that it has already, by the place of the call
    # for the place of each call that waited, True or the reason why it is refused
    decided: Mapping[int, bool | str]

    @classmethod
    def of(cls, messages: Messages, approvals: Any, hints: TurnHints, tools: Toolbox) -> Resumed:
        """Match approvals with the calls that wait at the end of a conversation.

        Arguments:
            messages: the conversation.
            approvals: what the caller has decided; see `Approvals`.
            hints: the texts of the turn; the result of a call that waits is `hints.awaiting`.
            tools: the tools of the turn.

        Raises:
            ConfigurationError: none waits there, the ids are not theirs, or an approved call fits
                no tool.
        """
        if not isinstance(approvals, Mapping):
            raise ConfigurationError(
                f"approvals must map the ids of calls to True or a reason, not {short(approvals)}"
            )
        if len(messages) < 2:
            raise ConfigurationError(NOT_AWAITING)
        calling, answering = messages[-2:]
        if not isinstance(calling, Message) or not isinstance(answering, Message):
            raise ConfigurationError(NOT_AWAITING)
        places = {call.id: place for place, call in enumerate(calling.tool_calls)}
        waits: dict[str, int] = {}
        settled: dict[int, ToolResult] = {}
        for result in answering.tool_results:
            if result.id not in places:
                continue
            if result.is_fault and result.text == hints.awaiting:
                waits[result.id] = places[result.id]
            else:
                settled[places[result.id]] = result
        if not waits:
            raise ConfigurationError(NOT_AWAITING)
        if approvals.keys() != waits.keys():
            odd = min(set(map(str, approvals)) ^ waits.keys())
            raise ConfigurationError(
                f"approvals must hold each call that waits, {', '.join(waits)}; see {short(odd)}"
            )
        for id, given in approvals.items():
            if given is not True and not (isinstance(given, str) and given.strip()):
                raise ConfigurationError(
                    f"approvals[{short(id)}] must be True, or the reason why it is refused"
                )
        for id, place in waits.items():
            call = calling.tool_calls[place]
            if approvals[id] is True and isinstance(tools.plan(call, 0.0), str):
                raise ConfigurationError(
                    f"approvals[{short(id)}]: none of the tools takes this call of "
                    f"{short(call.name)}; pass the tools of the turn that awaits approval"
                )
        decided = {place: approvals[id] for id, place in waits.items()}
        return cls(tuple(messages[:-2]), calling, settled, decided)

    @property
    def waiting(self) -> tuple[ToolCall, ...]:
        """Return the calls that wait."""
        return tuple(self.calling.tool_calls[place] for place in sorted(self.decided))

    @property
    def already_run(self) -> tuple[ToolCall, ...]:
        """Return the calls that have run."""
        return tuple(self.calling.tool_calls[place] for place in sorted(self.results))
