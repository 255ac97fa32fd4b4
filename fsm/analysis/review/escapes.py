"""Escape text from outside, so that Markdown and GitHub find nothing in it.

A sign that may mean something becomes a numeric entity of HTML. Unlike a backslash, an entity also
works in tables and next to HTML, and there is no list of signs to keep: everything but letters,
digits and plain punctuation is escaped. Text between backticks is code only if it needs no escape
there; otherwise it becomes an element of HTML, in which entities work as well.
"""

from __future__ import annotations

import re

LONGEST = 240  # characters of a text from outside in a comment

# all signs but plain punctuation, `_` at the edge of a word, and what begins a link: www. and ://
_MARKUP = re.compile(r"[^\w\s,.;:?'\"()/=+×→·“”…%-]|(?<!\w)_|_(?!\w)|(?<=[wW]{3})\.|:(?=/)")
_PLAIN = re.compile(r"[\w ,.;:?'()\[\]/=+×→·%-]*")
"""What may stand between backticks, even in a cell of a table."""

MENTION = "&#64;"
UNMENTIONED = "&#64;&#8288;"
"""The sign of a mention, and the same with a word joiner behind it, so that nobody is mentioned."""


def prose(text: str, longest: int = LONGEST) -> str:
    """Escape text so that Markdown finds nothing in it: no markup, no HTML, no link, no mention."""
    most = 4 * longest  # a sentence may be longer than a name
    if len(text) > most:
        text = f"{text[:most]}..."
    one_line = " ".join(text.split())
    escaped = _MARKUP.sub(lambda match: f"&#{ord(match[0])};", one_line)
    return escaped.replace(MENTION, UNMENTIONED)


def code(text: str, longest: int = LONGEST) -> str:
    """Write text from outside as code."""
    if len(text) > longest:
        text = f"{text[:longest]}..."
    if not text.strip():
        return ""
    if _PLAIN.fullmatch(text):
        return f"`{text.strip()}`"
    return f"<code>{prose(text, longest)}</code>"
