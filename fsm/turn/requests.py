"""What each call of a turn asks."""

from __future__ import annotations

from attrs import evolve

from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.turn.conversation import Conversation
from rungwise.fsm.turn.counting import prompt_tokens
from rungwise.fsm.turn.policy import TurnHints


def request_of(
    state: str, first: Request, conversation: Conversation, *, hints: TurnHints, shapes: Shapes, written: int
) -> Request:
    """Return what the call asks that is made in a state.

    Arguments:
        state: the state.
        first: what the caller asked, with the tools of the turn.
        conversation: what was said and done since.
        hints: asks for the summary, which no tools go with.
        shapes: the form in which the last backend is written to.
        written: the output tokens of all calls so far.
    """
    if state == "ask":
        return first
    request, messages = first, conversation.messages
    if state == "summarize":
        messages = (*messages, Message.saying("user", hints.summary))
        parameters = {name: each for name, each in first.parameters.items() if name not in shapes.tool_parameters}
        request = evolve(first, tools=(), parameters=parameters)
    tokens = prompt_tokens(first, messages, conversation.gathered, written)
    return evolve(request, messages=messages, input_tokens=tokens)
