"""Write a message as chat completions: the form of all plain messages that callers and compactors
get.

`stored` writes plain mappings that lose nothing: to be stored as JSON, and sent to any provider
later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import NOTHING, fields

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import (
    CitationPart,
    CommentaryPart,
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.fsm.values.frozen_map import thawed

Body = dict[str, Any]


def plain_messages(messages: Iterable[Mapping[str, Any] | Message]) -> list[Body]:
    """Return copies of messages as plain ones; those that are plain already keep their form."""
    plain: list[Body] = []
    for message in messages:
        if isinstance(message, Message):
            plain += chat_messages(message)
        else:
            plain.append(thawed(message))
    return plain


def with_originals(
    shorter: Sequence[Mapping[str, Any] | Message], before: Iterable[Mapping[str, Any] | Message]
) -> tuple[Mapping[str, Any] | Message, ...]:
    """Return what a compactor made of `plain_messages(before)`, with the originals of what it kept:
    they hold more.
    """
    originals = [(message, plain_messages([message])) for message in before]
    restored: list[Mapping[str, Any] | Message] = []
    place = 0
    while place < len(shorter):
        for index, (original, plain) in enumerate(originals):
            if list(shorter[place : place + len(plain)]) == plain:
                restored.append(original)
                place += len(plain)
                del originals[: index + 1]  # a compactor leaves the order as it is
                break
        else:
            restored.append(shorter[place])
            place += 1
    return tuple(restored)


def in_words(part: MediaPart) -> str:
    """Name a media part that cannot be sent, so that the model can say that it did not get it."""
    return f"({part.kind}: {part.url or part.name or part.media_type or 'not shown'})"


def chat_messages(message: Message, provider: str = "") -> list[Body]:
    """Return a message in the form of chat completions, each tool result as a message of its
    own.
    """
    if message.role == "tool":
        return [*_results(message.tool_results)]
    content = [part for part in message.parts if isinstance(part, TextPart | MediaPart)]
    # The blocks of an answer are pieces of one text; the parts of a caller's message are not.
    is_one = len(content) == 1 or message.role == "assistant"
    plain: Body = {"role": message.role, "content": None}
    if content:
        plain["content"] = _content(content, is_one=is_one)
    if calls := message.tool_calls:
        plain["tool_calls"] = [_call(call, provider) for call in calls]
    elif not content:
        plain["content"] = ""  # no server takes a message without either
    for part in message.parts:
        if isinstance(part, OpaquePart) and part.provider == provider and provider:
            plain |= part.block
    return [plain]


def _content(parts: Sequence[Part], *, is_one: bool) -> str | list[Body]:
    """Return a single text as a string, anything else as parts."""
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if is_one and len(texts) == len(parts):
        return "".join(texts)
    return [_part(part) for part in parts]


def _part(part: Part) -> Body:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    assert isinstance(part, MediaPart)
    if part.kind == "image":
        image: Body = {"url": _url(part)}
        if part.detail:
            image["detail"] = part.detail
        return {"type": "image_url", "image_url": image}
    if part.kind == "audio" and part.data:
        name = part.media_type.partition("/")[2].removeprefix("x-")
        form = {"mpeg": "mp3", "wave": "wav"}.get(name, name) or "wav"
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": form}}
    if part.kind == "file" and part.data:
        return {"type": "file", "file": {"filename": part.name or "file", "file_data": _url(part)}}
    return {"type": "text", "text": in_words(part)}


def _url(part: MediaPart) -> str:
    return part.url or f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"


def _results(results: Iterable[ToolResult]) -> Iterator[Body]:
    """Yield tool results; pictures, which cannot stand in one, follow as a user message."""
    media: list[Part] = []
    for each in results:
        yield {"role": "tool", "tool_call_id": each.id, "content": each.text}
        media += each.media
    if media:
        yield {"role": "user", "content": _content(media, is_one=False)}


def _call(call: ToolCall, provider: str) -> Body:
    extras = call.extras if call.provider == provider else {}
    function = {"name": call.name, "arguments": call.arguments, **extras.get("function", {})}
    return {"id": call.id, "type": "function", **extras, "function": function}


MARK: Final = "rungwise"
"""The member that tells such a message from one in a provider's form; its value is the version of
this form.
"""

VERSION: Final = 1

_KINDS: Final[Mapping[str, type[Any]]] = {
    "text": TextPart,
    "media": MediaPart,
    "reasoning": ReasoningPart,
    "commentary": CommentaryPart,
    "citation": CitationPart,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "opaque": OpaquePart,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def stored(message: Mapping[str, Any] | Message) -> dict[str, Any]:
    """Return a message as a plain mapping; one that is plain already keeps its form."""
    if not isinstance(message, Message):
        plain: dict[str, Any] = thawed(message)
        return plain
    return {
        MARK: VERSION,
        "role": message.role,
        "parts": [_stored_part(part) for part in message.parts],
    }


def _stored_part(part: Part) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": _NAMES[type(part)]}
    for each in fields(type(part)):
        value = getattr(part, each.name)
        if each.default is not NOTHING and value == each.default:
            continue
        if each.name == "media":
            plain[each.name] = [_stored_part(medium) for medium in value]
        else:
            plain[each.name] = thawed(value)
    return plain


def read_stored(message: Any, where: str) -> Any:
    """Return the message that a mapping by `stored` holds, or raise a ConfigurationError; anything
    else unchanged.
    """
    if not isinstance(message, Mapping) or MARK not in message:
        return message
    parts = message.get("parts")
    has_form = message[MARK] == VERSION and message.keys() == {MARK, "role", "parts"}
    if not has_form or not isinstance(parts, list | tuple):
        raise ConfigurationError(f"{where} is not a stored message of version {VERSION}")
    read = [_read_part(part, f"{where}['parts'][{index}]") for index, part in enumerate(parts)]
    return Message(message["role"], tuple(read))


def _read_part(part: Any, where: str) -> Any:
    kind = None
    if isinstance(part, Mapping):
        kind = _KINDS.get(str(part.get("type")))
    if kind is None:
        raise ConfigurationError(f"{where} is no part of a stored message")
    values = {name: value for name, value in part.items() if name != "type"}
    if isinstance(values.get("position"), list | tuple):
        values["position"] = tuple(values["position"])
    if isinstance(media := values.get("media"), list | tuple):
        values["media"] = tuple(_read_part(each, where) for each in media)
    try:
        return kind(**values)
    except TypeError:
        raise ConfigurationError(
            f"{where} has members that no part of type {part['type']!r} has"
        ) from None
