"""Read the parts of messages of chat completions into neutral parts.

`WIRE.parts` says which function reads which type of part. What has no form is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.plain.parts import inner_of, media, text_in
from rungwise.adapters.wires.provider_data import citations_of
from rungwise.fsm.replies.parts import MediaKind, Part, TextPart

Block = Mapping[str, Any]


def read_text(block: Block) -> Part | tuple[Part, ...] | None:
    """Read a text, with its sources if it names any, or a refusal."""
    text = block.get("text", block.get("refusal"))
    if not isinstance(text, str):
        return None
    return TextPart(text, block.get("cache_control")), *citations_of(block.get("citations"))


def read_image_url(block: Block) -> Part | None:
    """Read a picture."""
    url = block.get("image_url")
    detail = block.get("detail")
    if isinstance(url, Mapping):
        detail = url.get("detail")
        url = url.get("url")
    return media(
        "image",
        url=url,
        detail=detail,
        cache=block.get("cache_control"),
    )


_KINDS: Final[Mapping[str, MediaKind]] = {"video_url": "video", "audio_url": "audio"}
"""What is at a URL, by the type of the part; a file at any other."""


def read_url(block: Block) -> Part | None:
    """Read a film, a recording or a document at a URL.

    The URL is in the member that is called as the part's type.
    """
    kind = str(block.get("type"))
    url = block.get(kind)
    if isinstance(url, Mapping):
        url = url.get("url")
    return media(
        _KINDS.get(kind, "file"),
        url=url,
        name=block.get("document_name"),
        cache=block.get("cache_control"),
    )


def read_audio(block: Block) -> Part | None:
    """Read a recording."""
    inner = block.get("input_audio")
    if not isinstance(inner, Mapping):
        return None
    kind = f"audio/{text_in(inner, 'format') or 'wav'}"
    return media(
        "audio",
        data=inner.get("data"),
        media_type=kind,
        cache=block.get("cache_control"),
    )


def read_file(block: Block) -> Part | None:
    """Read a file."""
    inner = inner_of(block, "file")
    data = text_in(inner, "file_data")
    name = text_in(inner, "filename")
    url = "" if data else inner.get("file_url")
    return media(
        "file",
        data=data,
        url=url,
        name=name,
        cache=block.get("cache_control"),
    )
