"""Write pictures, documents and recordings as Converse's blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.media import in_words
from rungwise.fsm.call.conversation.parts import MediaPart

_FORMATS: Final[Mapping[str, Mapping[str, str]]] = {
    "image": {"png": "png", "jpeg": "jpeg", "jpg": "jpeg", "gif": "gif", "webp": "webp"},
    "document": {
        **{"pdf": "pdf", "csv": "csv", "html": "html", "plain": "txt", "markdown": "md", "msword": "doc"},
        "vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "vnd.ms-excel": "xls",
        "vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    },
    "audio": {
        **{"mp3": "mp3", "wav": "wav", "x-wav": "wav", "wave": "wav", "mpeg": "mp3", "ogg": "ogg", "opus": "opus"},
        **{"aac": "aac", "flac": "flac", "mp4": "mp4", "m4a": "m4a", "webm": "webm"},
    },
    "video": {
        **{"mp4": "mp4", "quicktime": "mov", "webm": "webm", "x-matroska": "mkv", "mpeg": "mpeg", "x-flv": "flv"},
        **{"x-ms-wmv": "wmv", "3gpp": "three_gp"},
    },
}
"""What the format of a media type is called."""
_UNTOLD: Final = {"document": "pdf"}
_OTHER_THAN_NAMES: Final = re.compile(r"[^a-zA-Z0-9\s()\[\]-]+")


def media_block(part: MediaPart) -> Body:
    """Return a block of what is neither text nor a tool's.

    What has no place here is named, so that the model can say that it did not get it.
    """
    kind = "document" if part.kind == "file" else part.kind
    name = part.media_type.partition(";")[0].rpartition("/")[2].strip().lower()
    written = _FORMATS[kind].get(name) or ("" if name else _UNTOLD.get(kind, ""))
    if not written and part.url.startswith("s3://"):
        written = _FORMATS[kind].get(part.url.rpartition(".")[2].lower(), "")
    source: dict[str, Any] | None = {"bytes": part.data} if part.data else None
    if part.url.startswith("s3://"):
        source = {"s3Location": {"uri": part.url}}
    if not written or source is None:
        return {"text": in_words(part)}
    block: Body = {"format": written, "source": source}
    if kind == "document":
        stem = part.name.rpartition(".")[0] or part.name
        block["name"] = " ".join(_OTHER_THAN_NAMES.sub(" ", stem).split())[:200] or "document"
    return {kind: block}
