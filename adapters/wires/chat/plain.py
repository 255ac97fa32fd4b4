"""Read the parts of messages of chat completions into neutral parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rungwise.adapters.wires.plain.parts import media, text_in
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
    image = block.get("image_url")
    inner: Block = (
        image if isinstance(image, Mapping) else {"url": image, "detail": block.get("detail")}
    )
    return media(
        "image", url=inner.get("url"), detail=inner.get("detail"), cache=block.get("cache_control")
    )


def read_url(block: Block) -> Part | None:
    """Read a film, a recording or a document at the URL in the member that is called as the part's
    type.
    """
    kind = str(block.get("type"))
    inner = block.get(kind)
    url = inner.get("url") if isinstance(inner, Mapping) else inner
    what: MediaKind = {"video_url": "video", "audio_url": "audio"}.get(kind, "file")  # type: ignore[assignment]
    return media(what, url=url, name=block.get("document_name"), cache=block.get("cache_control"))


def read_audio(block: Block) -> Part | None:
    """Read a recording."""
    inner = block.get("input_audio")
    if not isinstance(inner, Mapping):
        return None
    kind = f"audio/{text_in(inner, 'format') or 'wav'}"
    return media("audio", data=inner.get("data"), media_type=kind, cache=block.get("cache_control"))


def read_file(block: Block) -> Part | None:
    """Read a file."""
    inner = block.get("file") if isinstance(block.get("file"), Mapping) else block
    assert inner is not None
    data = text_in(inner, "file_data")
    name = text_in(inner, "filename")
    url = "" if data else inner.get("file_url")
    return media("file", data=data, url=url, name=name, cache=block.get("cache_control"))
