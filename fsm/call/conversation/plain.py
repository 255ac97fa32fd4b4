"""Write a message as chat completions: the form of all plain messages that callers and compactors get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rungwise.fsm.call.conversation.parts import MediaPart, Message, OpaquePart, Part, TextPart, ToolCall, ToolResult
from rungwise.fsm.values.frozen_map import thawed

Body = dict[str, Any]


def plain_messages(messages: Iterable[Mapping[str, Any] | Message]) -> list[Body]:
    """Return copies of messages as plain ones; those that are plain already keep their form."""
    plain: list[Body] = []
    for message in messages:
        plain += chat_messages(message) if isinstance(message, Message) else [thawed(message)]
    return plain


def with_originals(
    shorter: Sequence[Mapping[str, Any] | Message], before: Iterable[Mapping[str, Any] | Message]
) -> tuple[Mapping[str, Any] | Message, ...]:
    """Return a shortened conversation with the messages that were left as they were, which hold more than plain ones.

    Arguments:
        shorter: what a compactor made of `plain_messages(before)`.
    """
    ahead = [(message, plain_messages([message])) for message in before]
    restored: list[Mapping[str, Any] | Message] = []
    place = 0
    while place < len(shorter):
        alike = (at for at, (_, plain) in enumerate(ahead) if list(shorter[place : place + len(plain)]) == plain)
        if (at := next(alike, None)) is None:
            restored.append(shorter[place])
            place += 1
        else:
            restored.append(ahead[at][0])
            place += len(ahead[at][1])
            del ahead[: at + 1]
    return tuple(restored)


def in_words(part: MediaPart) -> str:
    """Name a media part that cannot be sent, so that the model can say that it did not get it."""
    return f"({part.kind}: {part.url or part.name or part.media_type or 'not shown'})"


def chat_messages(message: Message, provider: str = "") -> list[Body]:
    """Return a message in the form of chat completions, each tool result as a message of its own."""
    if message.role == "tool":
        return [*_results(message.tool_results)]
    content = [part for part in message.parts if isinstance(part, TextPart | MediaPart)]
    # The blocks of an answer are pieces of one text; the parts of a caller's message are not.
    is_one = len(content) == 1 or message.role == "assistant"
    plain: Body = {"role": message.role, "content": _content(content, is_one=is_one) if content else None}
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
        image: Body = {"url": _url(part), **({"detail": part.detail} if part.detail else {})}
        return {"type": "image_url", "image_url": image}
    if part.kind == "audio" and part.data:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": _audio_format(part)}}
    if part.kind == "file" and part.data:
        return {"type": "file", "file": {"filename": part.name or "file", "file_data": _url(part)}}
    return {"type": "text", "text": in_words(part)}


def _url(part: MediaPart) -> str:
    return part.url or f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"


def _audio_format(part: MediaPart) -> str:
    name = part.media_type.partition("/")[2].removeprefix("x-")
    return {"mpeg": "mp3", "wave": "wav"}.get(name, name) or "wav"


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
