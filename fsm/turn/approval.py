"""Tool calls that wait for the caller's approval, and how a turn goes on once it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from rungwise.fsm.call.conversation.parts import Message, ToolCall, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.policy import TurnHints
from rungwise.fsm.turn.tools import Toolbox
from rungwise.fsm.turn.validity import Messages
from rungwise.fsm.values.label import short

Approvals = Mapping[str, "bool | str"]
"""For the id of each call that waits: True, or why it is refused."""

NOT_AWAITING = "approvals are for the messages of a turn that awaits approval: pass its result.messages, unchanged"


@frozen
class Resumed:
    """Hold the reply at which a turn goes on."""

    before: tuple[PlainMessage | Message, ...]  # the conversation before it
    calling: Message
    results: Mapping[int, ToolResult]  # that it has already, by the place of the call
    decided: Mapping[int, bool | str]  # for the place of each call that waited, True or the reason why it is refused

    @classmethod
    def of(cls, messages: Messages, approvals: Any, hints: TurnHints, tools: Toolbox) -> Resumed:
        """Match approvals with the calls that wait at the end of a conversation, whose results are `hints.awaiting`.

        Raise a ConfigurationError if none waits there, the ids are not theirs, or an approved call fits no tool.
        """
        if not isinstance(approvals, Mapping):
            raise ConfigurationError(f"approvals must map the ids of calls to True or a reason, not {short(approvals)}")
        calling, told = messages[-2:] if len(messages) > 1 else (None, None)
        if not isinstance(calling, Message) or not isinstance(told, Message):
            raise ConfigurationError(NOT_AWAITING)
        places = {call.id: place for place, call in enumerate(calling.tool_calls)}
        paused = [each.id for each in told.tool_results if each.is_fault and each.text == hints.awaiting]
        waits = {id: places[id] for id in paused if id in places}
        if not waits:
            raise ConfigurationError(NOT_AWAITING)
        if approvals.keys() != waits.keys():
            odd = min(set(map(str, approvals)) ^ waits.keys())
            raise ConfigurationError(f"approvals must hold each call that waits, {', '.join(waits)}; see {short(odd)}")
        for id, given in approvals.items():
            if given is not True and not (isinstance(given, str) and given.strip()):
                raise ConfigurationError(f"approvals[{short(id)}] must be True, or the reason why it is refused")
        for id, place in waits.items():
            call = calling.tool_calls[place]
            if approvals[id] is True and isinstance(tools.plan(call, 0.0), str):
                fault = f"approvals[{short(id)}]: none of the tools takes this call of {short(call.name)}"
                raise ConfigurationError(f"{fault}; pass the tools of the turn that awaits approval")
        settled = {places[each.id]: each for each in told.tool_results if each.id not in waits and each.id in places}
        return cls(tuple(messages[:-2]), calling, settled, {place: approvals[id] for id, place in waits.items()})

    @property
    def waiting(self) -> tuple[ToolCall, ...]:
        """Return the calls that wait."""
        return tuple(self.calling.tool_calls[place] for place in sorted(self.decided))

    @property
    def already_run(self) -> tuple[ToolCall, ...]:
        """Return the calls that have run."""
        return tuple(self.calling.tool_calls[place] for place in sorted(self.results))
