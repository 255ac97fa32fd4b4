"""The parts of messages and replies, in a form that belongs to no provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from attrs import field, frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import Called, by_name, where
from rungwise.fsm.values.frozen_map import FrozenMap, sendable_copy

_NO_EXTRAS = FrozenMap()


def _unchanging(value: Any) -> Any:
    if type(value) in (str, FrozenMap, type(None)):
        return value
    return sendable_copy(value, "a provider's own part")


def _is_text(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigurationError(
            f"{where(instance, attribute)} must be a text, not {type(value).__name__}"
        )


@frozen
class TextPart:
    """Hold a block of visible text, inline think tags included.

    Arguments:
        text: the text.
        cache: the caller's mark for providers that cache the prompt up to here; parts that differ
            only in it are equal.
    """

    text: str = field(repr=False, validator=_is_text)
    cache: Any = field(default=None, repr=False, eq=False, converter=_unchanging)


MediaKind = Literal["image", "audio", "video", "file"]


@frozen
class MediaPart:
    """Hold a picture, a recording or a document: its data or its URL.

    Arguments:
        kind: "image", "audio", "video", or "file" for documents such as a PDF.
        data: its bytes in base64; "" if there is a URL.
        media_type: such as "image/png"; "" if unknown.
        url: where it is; "" if the data are here.
        name: the name of the file, if it has one.
        detail: how closely to look at a picture, in the caller's word.
        cache: as for a text.

    Raises:
        ConfigurationError: the kind is unknown, or there are neither data nor a URL, or both.
    """

    kind: MediaKind = field()
    data: str = field(default="", repr=False, validator=_is_text)
    media_type: str = field(default="", validator=_is_text)
    url: str = field(default="", repr=False, validator=_is_text)
    name: str = field(default="", repr=False, validator=_is_text)
    detail: str = field(default="", validator=_is_text)
    cache: Any = field(default=None, repr=False, eq=False, converter=_unchanging)

    def __attrs_post_init__(self) -> None:
        if self.kind not in get_args(MediaKind):
            raise ConfigurationError(
                f"MediaPart.kind must be one of {', '.join(get_args(MediaKind))}"
            )
        if bool(self.data) is bool(self.url):
            raise ConfigurationError("a MediaPart has either data, in base64, or a url")


@frozen
class ReasoningPart:
    """Hold reasoning.

    Arguments:
        text: the readable part of it.
        signature: what its provider wants back with it.
        provider: the owner of the signature.
    """

    text: str = field(repr=False, validator=_is_text)
    signature: Any = field(default=None, repr=False, hash=False, converter=_unchanging)
    provider: str = field(default="", validator=_is_text)


class CommentaryPart(ReasoningPart):
    """Hold what a model says to its reader before it answers, such as what it will do next.

    Its signature is the message that its provider sent.
    """

    __slots__ = ()


@frozen
class ToolCall:
    """Hold one tool call; `arguments` is the JSON text exactly as the provider sent it.

    Arguments:
        id: what the result of the call refers to.
        name: the tool.
        arguments: JSON, whole or cut.
        extras: what its provider wants back with it; calls that differ only in these are equal.
        provider: the owner of the extras.
    """

    id: str = field(validator=_is_text)
    name: str = field(validator=_is_text)
    arguments: str = field(repr=False, validator=_is_text)
    extras: Mapping[str, Any] = field(
        default=_NO_EXTRAS, repr=False, eq=False, converter=_unchanging
    )
    provider: str = field(default="", repr=False, eq=False, validator=_is_text)


@frozen
class OpaquePart:
    """Hold a block that only its provider can read, and wants back unchanged.

    Arguments:
        provider: the owner of the block.
        block: JSON data.
        is_answer: whether it is an answer by itself: an action that the caller is to take, or a
            picture.
    """

    provider: str = field(validator=_is_text)
    block: Any = field(repr=False, hash=False, converter=_unchanging)
    is_answer: bool = field(default=False, eq=False)


@frozen
class CitationPart:
    """Hold one of the sources of the text before it.

    Arguments:
        text: the passage that it quotes; "" if none is quoted.
        source: its URL, or else the name or the id of a document.
        title: its title.
        position: what is counted, and where the passage starts and ends: "characters", "pages",
            "blocks" or "chunks" of the source, "answer" or "answer bytes" for what of the answer it
            supports. None if unknown.
        block: what its provider wants back with the text.
        provider: the owner of the block.
    """

    text: str = field(repr=False, validator=_is_text)
    source: str = field(repr=False, validator=_is_text)
    title: str = field(repr=False, validator=_is_text)
    position: tuple[str, int, int] | None = None
    block: Any = field(default=None, repr=False, eq=False)
    provider: str = field(default="", eq=False, validator=_is_text)


@frozen
class ToolResult:
    """Hold the result of a tool call, for the model to read.

    Arguments:
        id: the id of the call.
        name: the tool.
        text: what it returned, or what went wrong.
        is_fault: whether something went wrong.
        media: pictures and files that it returned beside the text.
        cache: as for a text.

    Raises:
        ConfigurationError: `media` is no tuple of media parts.
    """

    id: str = field(validator=_is_text)
    name: str = field(validator=_is_text)
    text: str = field(repr=False, validator=_is_text)
    is_fault: bool = False
    media: tuple[MediaPart, ...] = field(default=(), repr=False)
    cache: Any = field(default=None, repr=False, eq=False, converter=_unchanging)

    @media.validator
    def _check_media(self, attribute: object, value: object) -> None:
        if not isinstance(value, tuple) or not all(isinstance(each, MediaPart) for each in value):
            raise ConfigurationError("ToolResult.media must be a tuple of MediaParts")


Part = TextPart | MediaPart | ReasoningPart | CitationPart | ToolCall | ToolResult | OpaquePart

PARTS = (TextPart, MediaPart, ReasoningPart, CitationPart, ToolCall, ToolResult, OpaquePart)


def as_parts(value: Iterable[Part]) -> tuple[Part, ...]:
    """Return parts as a tuple, or raise a ConfigurationError if one of them is no part."""
    if type(value) is not tuple and (not isinstance(value, Iterable) or isinstance(value, str)):
        raise ConfigurationError(
            f"parts must be a list of parts, as in [rungwise.TextPart('...')], "
            f"not {type(value).__name__}"
        )
    parts = tuple(value)
    for part in parts:
        if not isinstance(part, PARTS):
            raise ConfigurationError(
                f"parts must hold parts of a reply or a message, not {type(part).__name__}"
            )
    return parts


def is_answer_by_itself(part: Part) -> bool:
    """Tell whether a part is an answer, or a part of one: not what leads to it or goes with it."""
    if isinstance(part, OpaquePart):
        return part.is_answer
    return isinstance(part, TextPart | MediaPart | ToolCall)


def text_of(parts: Iterable[Part]) -> str:
    """Return the joined text of all text parts."""
    return "".join([part.text for part in parts if isinstance(part, TextPart)])


def reasoning_of(parts: Iterable[Part]) -> str:
    """Return the joined text of all reasoning, commentary included."""
    return "".join([part.text for part in parts if isinstance(part, ReasoningPart)])


def commentary_of(parts: Iterable[Part]) -> str:
    """Return the joined text of all commentary."""
    return reasoning_of(part for part in parts if isinstance(part, CommentaryPart))


def final_text_of(parts: Sequence[Part]) -> str | None:
    """Return the text after the last tool call, server tools included.

    None if no text stands before it: then it is the whole text.
    """
    start = 0
    for index, part in enumerate(parts):
        if isinstance(part, ToolCall | OpaquePart):
            start = index + 1
    if any(isinstance(part, TextPart) for part in parts[:start]):
        return text_of(parts[start:])
    return None


def calls_of(parts: Iterable[Part]) -> tuple[ToolCall, ...]:
    """Return the tool calls."""
    return tuple([part for part in parts if isinstance(part, ToolCall)])


Role = Literal["system", "user", "assistant", "tool"]
_ROLES = get_args(Role)


@frozen
class Message(Called):
    """Hold one message of a conversation in parts: a reply, or a message that a rung or a turn
    adds.

    A request may hold such messages. Each wire writes them in its own form, and sends a provider's
    own blocks back to that provider alone, unchanged.

    Arguments:
        role: "system", "user", "assistant", or "tool", which holds only results of tool calls.
        parts: the content, in order.

    Raises:
        ConfigurationError: the role is unknown, or one of the parts is no part.
    """

    _INSTEAD = by_name({"it is called parts here, and text without all else": "content"})

    role: Role
    parts: tuple[Part, ...] = field(repr=False, converter=as_parts)

    def __attrs_post_init__(self) -> None:
        if self.role not in _ROLES:
            raise ConfigurationError("Message.role must be 'system', 'user', 'assistant' or 'tool'")
        if self.role != "assistant" and self.tool_calls:
            raise ConfigurationError(f"a message of role {self.role!r} calls no tools")
        for part in self.parts:
            if isinstance(part, ToolResult) is not (self.role == "tool"):
                raise ConfigurationError(
                    "the results of tool calls stand in a message of role 'tool', and nothing "
                    "else there"
                )

    @classmethod
    def saying(cls, role: Role, text: str) -> Message:
        """Return a message of plain text."""
        return cls(role, (TextPart(text),))

    @property
    def text(self) -> str:
        """Return the text."""
        return text_of(self.parts)

    @property
    def reasoning(self) -> str:
        """Return the readable reasoning."""
        return reasoning_of(self.parts)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls."""
        return calls_of(self.parts)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """Return the results of tool calls."""
        return tuple([part for part in self.parts if isinstance(part, ToolResult)])
