"""Read pictures, recordings and documents: by URL, or in base64."""

from __future__ import annotations

import re
from typing import Any, Final

from rungwise.fsm.call.conversation.parts import MediaKind, MediaPart

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_BEGINNINGS: Final = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": "application/pdf",
}
"""How files begin in base64."""


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
    """Return a part of what a message says of it, or None where that is neither data nor a URL.

    A `data:` URL is data.
    """
    data, url, media_type, name, detail = map(_text, (data, url, media_type, name, detail))
    if found := _DATA_URL.match(data or url):
        data, url, media_type = (data or url)[found.end() :], "", media_type or found[1]
    if bool(data) is bool(url):
        return None
    return MediaPart(kind_of(media_type, kind), data, media_type or _type_of(data), url, name, detail, cache)


def picture(data: str) -> MediaPart | None:
    """Return a picture that is given by nothing but its data."""
    return media("image", data=data)


def in_words(part: MediaPart) -> str:
    """Name what has no place in a protocol, so that the model can say that it did not get it."""
    return f"({part.kind}: {part.url or part.name or part.media_type or 'not shown'})"


def kind_of(media_type: str, otherwise: MediaKind) -> MediaKind:
    """Return what kind of thing a media type is."""
    for kind in ("image", "audio", "video"):
        if media_type.startswith(f"{kind}/"):
            return kind
    return "file" if media_type else otherwise


def _type_of(data: str) -> str:
    return next((told for begins, told in _BEGINNINGS.items() if data.startswith(begins)), "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
