"""Write pictures and documents as Anthropic's blocks."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.media import in_words
from rungwise.fsm.call.conversation.parts import MediaPart

_PICTURES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF: Final = "application/pdf"


def media_block(part: MediaPart) -> Body:
    """Return a block of what is neither text nor a tool's.

    What has no place here is named, so that the model can say that it did not get it.
    """
    source = _source(part)
    if source is None:
        return {"type": "text", "text": in_words(part)}
    if part.kind == "image":
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}


def _source(part: MediaPart) -> Body | None:
    if part.kind not in ("image", "file"):
        return None
    if part.url:
        return {"type": "url", "url": part.url}
    kind = part.media_type.partition(";")[0].strip().lower()
    if part.kind == "image":
        kind = {"image/jpg": "image/jpeg"}.get(kind, kind)
        return _base64(part, kind) if kind in _PICTURES else None
    if kind in (_PDF, ""):
        return _base64(part, _PDF)
    return _text(part) if kind.startswith("text/") or kind == "application/json" else None


def _base64(part: MediaPart, kind: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": kind, "data": part.data}


def _text(part: MediaPart) -> Body | None:
    try:
        said = base64.b64decode(part.data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return {"type": "text", "media_type": "text/plain", "data": said} if said.strip() else None
