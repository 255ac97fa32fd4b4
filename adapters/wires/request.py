"""Write the body of a request: what all protocols share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.json_text import dump
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, PlainMessage, Send
from rungwise.fsm.errors import ConfigurationError

RESERVED: Final[Mapping[str, str]] = {
    "model": "give it to the backend",
    "messages": "give them to the call",
    "stream": "choose the method that streams, or the one that does not",
}
"""Parameters that callers of no protocol can set, and what to do instead."""


def refuse_above_one(parameters: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    """Refuse parameters of these names that ask for more than one answer, with a ConfigurationError."""
    for name in names:
        if parameters.get(name) not in (None, 1):
            why = "a call has one answer, and a cap would count for each"
            raise ConfigurationError(f"{where} cannot set {name!r} above 1: {why}")


@frozen(kw_only=True)
class BodyWriter(ABC):
    """Write the JSON body of one attempt; each protocol is a subclass."""

    send: Send
    stream: bool = False  # whether to ask for a stream
    model: str
    parameters: Mapping[str, Any]  # the backend's own parameters; the caller's win
    provider: str = ""  # whose parts of earlier replies go back unchanged

    @abstractmethod
    def body(self) -> Body:
        """Return the body."""

    def written(self) -> bytes:
        """Return the body as JSON, or raise ConfigurationError if a value has no JSON form."""
        return dump(self.body())

    @property
    def own(self) -> str:
        """Name the provider whose own parts may go out; "" if none may."""
        return "" if self.send.unsigned else self.provider

    @property
    def all_parameters(self) -> Body:
        """Return the parameters of the backend and the caller's; the latter win."""
        return {**self.parameters, **self.send.parameters}

    def first_cap(self, *layers: Mapping[str, Any]) -> Any:
        """Return the output cap of the attempt, or else the first one among these parameters; None if there is none."""
        caps = [layer.get(name) for layer in layers for name in CAP_PARAMETERS]
        return next((cap for cap in (self.send.max_tokens, *caps) if cap is not None), None)


def without_end(turn: PlainMessage, member: str = "content") -> PlainMessage:
    """Return the turn to be continued without trailing white space, which servers refuse or tokenise differently."""
    content = turn.get(member)
    if isinstance(content, str):
        return {**turn, member: content.rstrip()}
    *before, last = content if isinstance(content, list | tuple) and content else ({},)
    if not isinstance(last, Mapping) or not isinstance(last.get("text"), str):
        return turn
    return {**turn, member: [*before, {**last, "text": last["text"].rstrip()}]}
