"""How many input tokens a prompt is taken to hold, where nobody has counted them."""

from __future__ import annotations

from typing import Any

from attrs import astuple

from rungwise.fsm.call.metering import is_beyond, least_tokens
from rungwise.fsm.call.parts import PARTS, MediaPart, Message

BYTES_A_TOKEN = 3
"""UTF-8 bytes that an input token is taken to hold when money is reserved: below the four usual in English prose."""

MESSAGE_TOKENS = 8
"""Tokens that a message has besides its text: its role and the marks around it (3 to 7 in the usual chat templates)."""

STAND_IN_TOKENS = 24
"""Tokens that a wire adds to an assistant turn at most, where it must stand in for reasoning that is not there."""

ENVELOPE = frozenset({"role", "content", "type", "text"})
"""The keys that carry a message and of which nothing reaches the model; those of tools and schemas are a part of it."""

PICTURES = frozenset({"image_url", "input_image", "image"})
"""The types of the parts that hold a picture, embedded or by its URL."""

EMBEDDED = ("inline_data", "inlineData", "file_data", "fileData")
"""Where Gemini's parts hold one."""

PICTURE_TOKENS = 1_600
"""Input tokens that a picture is taken to be: what Anthropic documents for the largest that is not scaled down."""


def estimate_tokens(value: Any) -> int:
    """Estimate the input tokens of messages or tools from the bytes of their texts; pictures count alike.

    Everything that is no picture counts by its bytes, also sound and files, for which that is far too much.
    """
    total, todo = 0, [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            total += -(-(len(item) if item.isascii() else len(item.encode("utf-8", "surrogatepass"))) // BYTES_A_TOKEN)
        elif isinstance(item, (list, tuple)):
            todo += item
        elif hasattr(item, "items"):
            kind = item.get("type")  # which in a schema may be anything
            if (isinstance(kind, str) and kind in PICTURES) or any(map(_is_picture, map(item.get, EMBEDDED))):
                total += PICTURE_TOKENS
                continue
            for name, part in item.items():
                todo.append(part)
                if name not in ENVELOPE:
                    todo.append(name)
        elif isinstance(item, MediaPart) and item.kind == "image":
            total += PICTURE_TOKENS
        elif isinstance(item, (Message, *PARTS)):
            todo += astuple(item, recurse=False)
        else:
            total += 1
    return total


def said_tokens(text: str) -> int:
    """Return the tokens of a message of its own that says a text."""
    return estimate_tokens(text) + MESSAGE_TOKENS


def _is_picture(value: Any) -> bool:
    if not hasattr(value, "items"):
        return False
    return str(value.get("mime_type") or value.get("mimeType") or "").startswith("image/")


def tokens_of(text: str, cap: int | None) -> int:
    """Return the tokens of text that a provider brought: no more than its cap, unless the words prove it."""
    tokens, least = estimate_tokens(text), least_tokens(text)
    return tokens if cap is None or is_beyond(least, cap) else min(tokens, max(cap, least))
