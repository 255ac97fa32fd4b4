"""What a provider answers, in one form for all: a whole `Reply`, or pieces of one as it streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from attrs import field, frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import (
    MediaPart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    as_parts,
    calls_of,
    reasoning_of,
    text_of,
)
from rungwise.fsm.values.label import label
from rungwise.fsm.values.usage import NO_USAGE, Usage

StopReason = Literal[
    "stop", "length", "tool_calls", "content_filter", "paused", "overflow", "error", "unknown"
]
"""Why a reply ended. `unknown` stands for a word that no table lists; a missing one is `None`."""


@frozen
class Reply:
    """Hold one reply of a provider.

    Arguments:
        text: all text blocks joined, inline think tags included.
        final_text: the last text block after the last tool call; None if the protocol has no
            blocks.
        tool_calls: the tool calls, complete or not.
        usage: what the provider reported for this attempt.
        model: the model id that the provider reported, as a `label`.
        interrupted: whether the stream ended before its terminal event.
        halted: whether the caller's own outer budget stopped the stream.
        reasoning: reasoning from structured fields (inline reasoning stays in `text`).
        stop_reason: the normalised stop reason; None if the provider gave none.
        stop_raw: the provider's own word for it, as a `label`; never in `repr`, as it may repeat a
            prompt or a key.
        refusal: the provider's refusal text, if it sent one.
        failure: what cut the stream, if a cause is known.
        continuation: the provider's own token to continue from here with the same request.
        pieces: its tool calls as they came, if one may continue in the next reply.
        raw: the provider's decoded body, for diagnosis only.
        parts: everything in order, the provider's own blocks included; `text`, `reasoning` and
            `tool_calls` are then read from these.

    Raises:
        ConfigurationError: a field has the wrong type, or contradicts the parts.
    """

    text: str = field(default="", repr=False)
    final_text: str | None = field(default=None, repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    model: str | None = field(default=None, converter=label)
    interrupted: bool = False
    halted: bool = False
    reasoning: str = field(default="", repr=False)
    stop_reason: StopReason | None = None
    stop_raw: str | None = field(default=None, repr=False, converter=label)
    refusal: str | None = field(default=None, repr=False)
    failure: Failure | None = None
    continuation: str | None = field(default=None, repr=False, eq=False)
    pieces: tuple[Any, ...] = field(default=(), repr=False, eq=False)
    raw: Any = field(default=None, repr=False, eq=False)
    _parts: Iterable[Part] | None = field(default=None, alias="parts", repr=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self._parts is not None:
            self._read(as_parts(self._parts))
        if (
            type(self.text),
            type(self.reasoning),
            type(self.usage),
            type(self.tool_calls),
        ) != _USUAL:
            self._check()
        for call in self.tool_calls:
            if not isinstance(call, ToolCall):
                raise ConfigurationError(
                    f"Reply.tool_calls must hold ToolCalls, not {type(call).__name__}"
                )

    def _read(self, parts: tuple[Part, ...]) -> None:
        values = {
            "text": text_of(parts),
            "reasoning": reasoning_of(parts),
            "tool_calls": calls_of(parts),
        }
        for name, value in values.items():
            own = getattr(self, name)
            if own and own != value:
                raise ConfigurationError(
                    f"Reply.{name} says otherwise than Reply.parts; give one of them"
                )
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_parts", None)
        object.__setattr__(self, "_parts", None if parts == self.parts else parts)

    def _check(self) -> None:
        if isinstance(self.tool_calls, list):
            object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        for name, kind in zip(("text", "reasoning", "usage", "tool_calls"), _USUAL, strict=True):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ConfigurationError(
                    f"Reply.{name} must be of type {kind.__name__}, not {type(value).__name__}"
                )

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return everything in order, each part once."""
        if self._parts is not None:
            return tuple(self._parts)
        parts: list[Part] = []
        if self.reasoning:
            parts.append(ReasoningPart(self.reasoning))
        if self.text:
            parts.append(TextPart(self.text))
        return (*parts, *self.tool_calls)

    @property
    def has_own_answer(self) -> bool:
        """Tell whether a provider's own part is an answer by itself; see `OpaquePart`."""
        return self._parts is not None and any(
            isinstance(part, OpaquePart) and part.is_answer for part in self._parts
        )

    @property
    def has_media(self) -> bool:
        """Tell whether a picture, a recording or a document is among its parts."""
        return self._parts is not None and any(isinstance(part, MediaPart) for part in self._parts)


_USUAL: Final = (str, str, Usage, tuple)


@frozen
class Text:
    """Add `text` to what the consumer shows."""

    text: str


@frozen
class Reasoning:
    """Show a piece of the model's reasoning; it is never part of the result's text."""

    text: str


class Commentary(Reasoning):
    """Show a piece of what the model says to its reader before it answers."""

    __slots__ = ()


@frozen
class Discard:
    """Take back `text`, which is exactly the end of what was handed out so far."""

    text: str


@frozen
class PartialValue:
    """Show what `returns` asked for, as far as it has come: what is whole in the text so far, as
    plain data.

    Arguments:
        value: of a list, the elements that are finished, as their type reads them. A `Discard`
            takes text back, and the next value may be smaller.
    """

    value: Any
