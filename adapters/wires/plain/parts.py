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
    """Return a media part, or None if there is neither data nor a URL; a `data:` URL is data."""
    texts = (
        value if isinstance(value, str) else "" for value in (data, url, media_type, name, detail)
    )
    data, url, media_type, name, detail = texts
    if match := _DATA_URL.match(data or url):
        data = (data or url)[match.end() :]
        url = ""
        media_type = media_type or match[1]
    if bool(data) is bool(url):
        return None
    shown = next((each for begins, each in _BEGINNINGS.items() if data.startswith(begins)), "")
    return MediaPart(kind_of(media_type, kind), data, media_type or shown, url, name, detail, cache)


def kind_of(media_type: str, otherwise: MediaKind) -> MediaKind:
    """Return what kind of thing a media type is."""
    for kind in ("image", "audio", "video"):
        if media_type.startswith(f"{kind}/"):
            return kind
    return "file" if media_type else otherwise


def result_of(
    id: str, name: str, parts: Iterable[Part], *, is_fault: bool = False, cache: Any = None
) -> ToolResult:
    """Return the result of a tool call from its parts."""
    parts = tuple(parts)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    media = tuple([part for part in parts if isinstance(part, MediaPart)])
    # A neutral result has no texts of its own to mark: a mark on its last text is the result's.
    marks = [part.cache for part in parts if isinstance(part, TextPart | MediaPart) and part.cache]
    return ToolResult(
        id, name, "\n".join(texts), is_fault, media, cache or (marks[-1] if marks else None)
    )


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


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return a mapping unchanged, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty one for anything else."""
    return list(value) if isinstance(value, list | tuple) else []
