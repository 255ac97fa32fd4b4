"""Write the body of a request: what all protocols share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rungwise.adapters.wires.form import Body
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, PlainMessage, Send
from rungwise.fsm.errors import ConfigurationError

RESERVED: Final[Mapping[str, str]] = {
    "model": "give it to the backend",
    "messages": "give them to the call",
    "stream": "choose the method that streams, or the one that does not",
}
"""Parameters that callers of no protocol can set, and what to do instead."""


def refuse_above_one(
    parameters: Mapping[str, Any], where: str, names: Iterable[str] = ("n", "best_of")
) -> None:
    """Refuse parameters of these names that ask for more than one answer.

    Raises:
        ConfigurationError: one does; the message says where.
    """
    for name in names:
        if parameters.get(name) not in (None, 1):
            why = "a call has one answer, and a cap would count for each"
            raise ConfigurationError(f"{where} cannot set {name!r} above 1: {why}")


def first_cap(send: Send, *layers: Mapping[str, Any]) -> Any:
    """Return the output cap of the attempt, or else the first one among these parameters.

    None if there is none.
    """
    if send.max_tokens is not None:
        return send.max_tokens
    for layer in layers:
        for name in CAP_PARAMETERS:
            cap = layer.get(name)
            if cap is not None:
                return cap
    return None


def leave_out(body: Body, path: str) -> None:
    """Remove a parameter from a body, or a member of one, named behind a dot, alone.

    An object that says its `type` goes as a whole: it is one value, and its members belong
    together.
    """
    name, _, member = path.partition(".")
    value = body.get(name)
    if not member or not isinstance(value, Mapping) or "type" in value:
        body.pop(name, None)
        return
    rest = dict(value)
    leave_out(rest, member)
    if rest:
        body[name] = rest
    else:
        del body[name]


def without_end(turn: PlainMessage, member: str = "content") -> PlainMessage:
    """Return the turn to be continued without trailing white space.

    Servers refuse that, or tokenise it differently.

    Arguments:
        turn: the turn of the assistant.
        member: where its content is: a text, or a list of blocks.
    """
    content = turn.get(member)
    if isinstance(content, str):
        return {**turn, member: content.rstrip()}
    if not isinstance(content, list | tuple) or not content:
        return turn
    *before, last = content
    if not isinstance(last, Mapping) or not isinstance(last.get("text"), str):
        return turn
    stripped = {**last, "text": last["text"].rstrip()}
    return {**turn, member: [*before, stripped]}
