"""What each call of a turn asks."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.turn.conversation import Conversation
from rungwise.fsm.turn.policy import TurnHints


def prompt_tokens(
    request: Request, messages: Sequence[PlainMessage | Message], gathered: str, written: int
) -> int | None:
    """Return the tokens of a prompt: what the caller has counted, and what came since; None where nobody has counted.

    What the model wrote is no longer than all that was written, whatever its bytes look like.

    Arguments:
        request: the first one.
        messages: the conversation so far.
        gathered: the text that the next call goes on from, which it counts by its bytes beside this.
        written: the output tokens of all calls so far.
    """
    first = len(request.messages)
    if request.input_tokens is None:
        return None
    if tuple(messages[:first]) != request.messages:  # a compactor has taken it from here
        by_bytes, before = estimate_tokens(tuple(messages)), max(1, estimate_tokens(request.messages))
        return max(1, min(by_bytes, -(-request.input_tokens * by_bytes // before)))
    came, apart = messages[first:], estimate_tokens(gathered)
    said = [each for each in came if isinstance(each, Message) and each.role == "assistant"]
    others = [each for each in came if not (isinstance(each, Message) and each.role == "assistant")]
    by_bytes = estimate_tokens(said) + apart
    counted = min(by_bytes, written) if written else by_bytes
    return max(1, request.input_tokens + counted + estimate_tokens(others) - apart)


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
