"""Make neutral parts of what callers wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rungwise.adapters.wires.json_text import as_json
from rungwise.fsm.replies.parts import MediaKind, MediaPart, Part, TextPart, ToolResult

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_BEGINNINGS: Final = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": "application/pdf",
}
"""The first characters of files in base64."""
_THOUGHTS: Final = ("thinking", "reasoning", "thought", "analysis")
"""What servers call reasoning that stands where text does."""


def media(
    kind: MediaKind,
    *,
    data: Any = "",
    url: Any = "",
    media_type: Any = "",
    name: Any = "",
    detail: Any = "",
    cache: Any = None,
) -> MediaPart | None:
    """Return a media part, or None unless it has either data or a URL.

    A caller's message may hold anything here: what is not a string counts as missing.

    Arguments:
        kind: what it is if the media type does not say.
        data: the file in base64, or a `data:` URL.
        url: where the file is, or a `data:` URL.
        media_type: such as "image/png"; without one, the first characters of the data tell.
        name: the name of the file.
        detail: how closely the model should look at a picture, as in OpenAI's `detail`.
        cache: the caller's cache mark.
    """
    data = _text_or_nothing(data)
    url = _text_or_nothing(url)
    media_type = _text_or_nothing(media_type)
    written_out = data or url
    if match := _DATA_URL.match(written_out):
        data = written_out[match.end() :]
        url = ""
        media_type = media_type or match[1]
    if bool(data) is bool(url):
        return None
    return MediaPart(
        kind=kind_of(media_type, kind),
        data=data,
        media_type=media_type or _type_by_beginning(data),
        url=url,
        name=_text_or_nothing(name),
        detail=_text_or_nothing(detail),
        cache=cache,
    )


def _text_or_nothing(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _type_by_beginning(data: str) -> str:
    """Return the media type of base64 by its first characters; "" if they are of no known file."""
    for beginning, media_type in _BEGINNINGS.items():
        if data.startswith(beginning):
            return media_type
    return ""


def kind_of(media_type: str, otherwise: MediaKind) -> MediaKind:
    """Return what kind of thing a media type is."""
    for kind in ("image", "audio", "video"):
        if media_type.startswith(f"{kind}/"):
            return kind
    return "file" if media_type else otherwise


def result_of(
    id: str,
    name: str,
    parts: Iterable[Part],
    *,
    is_fault: bool = False,
    cache: Any = None,
) -> ToolResult:
    """Return the result of a tool call.

    Arguments:
        id: the id of the call.
        name: the tool.
        parts: what the result holds; only texts and media count, and the texts become lines.
        is_fault: whether something went wrong.
        cache: the cache mark of the result as a whole.
    """
    texts: list[str] = []
    media: list[MediaPart] = []
    last_mark = None
    for part in parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, MediaPart):
            media.append(part)
        else:
            continue
        last_mark = part.cache or last_mark
    # A neutral result has no texts of its own to mark: a mark on its last text is the result's.
    return ToolResult(id, name, "\n".join(texts), is_fault, tuple(media), cache or last_mark)


def json_of(arguments: Any) -> str:
    """Return the arguments of a call as JSON text; text stays unchanged."""
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else as_json(arguments)


def text_in(value: Any, *names: str) -> str:
    """Return the first text in a mapping under one of these names, or ""."""
    if isinstance(value, Mapping):
        for name in names:
            if isinstance(value.get(name), str) and value[name]:
                return str(value[name])
    return ""


def inner_of(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the first mapping under one of these names, or the mapping itself if there is none."""
    for name in names:
        inner = value.get(name)
        if isinstance(inner, Mapping):
            return inner
    return value


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return a mapping unchanged, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def blocks_in(content: Any, **members: Any) -> list[Any]:
    """Return the blocks of a content. Some servers write a bare text or a single block in place of
    a list, or bare texts among the blocks.

    Arguments:
        content: what stands there.
        members: of a block of text, beside `text`; one that does not say them has them.
    """
    blocks: list[Any] = []
    if not content:
        return blocks
    if not isinstance(content, list | tuple):
        content = [content]
    for each in content:
        if isinstance(each, str) and each:
            each = {"text": each}
        if isinstance(each, dict | Mapping):  # a plain one is seen at once
            blocks.append({**members, **each} if members and "text" in each else each)
    return blocks


def block_in(content: Any, **members: Any) -> Mapping[str, Any]:
    """Return the first block of a content; an empty one if it has none.

    Arguments:
        content, members: as for `blocks_in`.
    """
    if isinstance(content, Mapping) and members.keys() <= content.keys():
        return content
    return next(iter(blocks_in(content, **members)), {})


def is_marked_as_thought(value: Mapping[str, Any]) -> bool:
    """Tell whether a message or a block says of its text that it is reasoning."""
    return value.get("type") in _THOUGHTS or value.get("channel") in _THOUGHTS


def text_of_blocks(content: Any) -> str:
    """Return the texts in a content as one."""
    return "".join([text_in(block, "text") for block in blocks_in(content)])


def list_of(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty one for anything else."""
    return list(value) if isinstance(value, list | tuple) else []
