"""Estimates of input tokens, for prompts that nobody has counted."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from attrs import astuple

from rungwise.fsm.call.budget.metering import bytes_of, is_beyond, least_tokens, most_counted
from rungwise.fsm.replies.parts import PARTS, CitationPart, MediaPart, Message
from rungwise.fsm.values.usage import NO_USAGE, Usage

BYTES_A_TOKEN = 3
"""UTF-8 bytes that count as one input token when money is reserved; English prose has about four.
"""

MESSAGE_TOKENS = 8
"""Tokens of a message besides its text: its role and the marks around it (3 to 7 in common chat
templates).
"""

STAND_IN_TOKENS = 24
"""The most tokens that a wire adds to an assistant turn in place of missing reasoning."""

MISSING_RESULT_TOKENS = 48
"""Tokens of the result that a wire adds for an unanswered tool call: its text, the marks around it,
and an id.
"""

ENVELOPE = frozenset({"role", "content", "parts", "type", "text"})
"""The keys of a message that do not reach the model themselves; those of tools and schemas do."""

PICTURES = frozenset({"image_url", "input_image", "image"})
"""The types of parts that hold a picture, embedded or by URL."""

EMBEDDED = frozenset({"inline_data", "inlineData", "file_data", "fileData"})
"""The keys under which Gemini's parts hold one."""

OF_PICTURES = EMBEDDED | PICTURES | {"type", "source", "data"}
"""The members of a part that belong to its picture, and are not counted as text."""

PICTURE_TOKENS = 1_600
"""Input tokens of a picture: what Anthropic documents for the largest that is not scaled down."""


def estimate_tokens(value: Any) -> int:
    """Estimate the input tokens of messages, tools or parameters.

    Each message counts `MESSAGE_TOKENS` beside what it holds, and every picture the same. All else
    counts by its bytes, tools, calls and results by those of their JSON; for sound and files that
    is far too much.
    """
    if isinstance(value, str):
        return tokens_in(bytes_of(value))
    tokens, size = measures_of(value)
    return tokens + tokens_in(size)


def tokens_in(size: int) -> int:
    """Return the tokens that bytes of text count as."""
    return -(-size // BYTES_A_TOKEN)


def measures_of(value: Any) -> tuple[int, int]:
    """Return the two sums that make an estimate: tokens, and bytes of JSON."""
    total = 0
    size = 0
    todo = [value]
    as_json = []
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            total += tokens_in(bytes_of(item))
        elif isinstance(item, (list, tuple)):
            todo += item
        elif hasattr(item, "items"):
            is_message = "role" in item or "content" in item
            if not is_message and not isinstance(item.get("text"), str):
                if item:
                    as_json.append(item)
                continue
            if "role" in item:
                total += MESSAGE_TOKENS
            for name, part in item.items():
                if name in ENVELOPE and not hasattr(part, "items"):
                    todo.append(part)
                else:
                    as_json.append({name: part})
        elif isinstance(item, MediaPart) and item.kind == "image":
            total += PICTURE_TOKENS
        elif isinstance(item, CitationPart):
            todo.append(item.block)  # only this is sent
        elif isinstance(item, (Message, *PARTS)):
            if isinstance(item, Message):
                total += MESSAGE_TOKENS
            todo += astuple(item, recurse=False)
        else:
            total += 1
    if as_json:
        pictures, size = _measures_as_json(as_json)
        total += pictures
    return total, size


def _measures_as_json(todo: list[Any]) -> tuple[int, int]:
    """Return the tokens of pictures in values, and the bytes of all else as JSON; `todo` is
    emptied.
    """
    total = size = 0
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            size += bytes_of(encode_basestring(item)) + 1
        elif isinstance(item, (list, tuple)):
            size += 3
            todo += item
        elif hasattr(item, "items"):
            size += 3
            members = item
            if _is_picture(item):
                total += PICTURE_TOKENS
                members = {name: part for name, part in item.items() if name not in OF_PICTURES}
            for name, part in members.items():
                size += bytes_of(encode_basestring(str(name))) + 1
                todo.append(part)
        else:
            size += _written(item) + 1
    return total, size


def _written(value: Any) -> int:
    """Return the bytes of a number, `true`, `false` or `null` in JSON, and an upper bound for
    anything else.
    """
    if isinstance(value, (bytes, bytearray)):
        return -(-len(value) // 3) * 4
    if isinstance(value, int):
        # at least its digits; Python refuses to write more than 4300
        return 5 + value.bit_length() // 3
    if value is None or isinstance(value, float):
        return len(repr(value))
    return 24


def tokens_compacted(given: int, before: int, after: int) -> int:
    """Return the tokens of a prompt that was compacted, of which the caller had counted as many as
    `given`.

    It counts as densely as then, or by the estimate if that is larger, up to what there was;
    `before` and `after` are the estimates of the whole prompt.
    """
    return max(1, min(after, given), -(-given * after // max(1, before)))


def message_tokens(text: str) -> int:
    """Return the most tokens of a message of ours that holds this text: none holds less than a
    byte.
    """
    return bytes_of(text) + MESSAGE_TOKENS


def _is_picture(item: Mapping[str, Any]) -> bool:
    kind = item.get("type")
    if isinstance(kind, str) and kind in PICTURES:  # in a schema it may be anything
        return True
    return not EMBEDDED.isdisjoint(item) and any(map(_is_image, map(item.get, EMBEDDED)))


def _is_image(value: Any) -> bool:
    if not hasattr(value, "items"):
        return False
    return str(value.get("mime_type") or value.get("mimeType") or "").startswith("image/")


def tokens_of(text: str, cap: int | None, usage: Usage = NO_USAGE) -> int:
    """Return the tokens of a reply's text when it is sent back: an estimate, or what its provider
    reported if more.

    If that reported nothing, each byte counts as a token: digits, and some scripts, take as many.
    No text counts more than its cap, unless its words prove more.
    """
    is_reported = usage.output_tokens > 0 and not usage.estimated
    tokens = estimate_tokens(text) if is_reported else bytes_of(text)
    if cap is not None and tokens > cap:
        least = least_tokens(text)
        within = max(cap, least) if is_reported else most_counted(cap)
        if not is_beyond(least, cap):
            tokens = min(tokens, within)
    if is_reported:
        return max(tokens, usage.output_tokens)
    return tokens
