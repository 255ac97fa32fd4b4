"""Errors with a status of 200 that stand in no member of their own.

Some servers say `{"code": "rate_limit_daily", "message": "..."}` and nothing else
[XpressAI/xaibo#36, mmeyerlein/meclaw#75]. A code alone is no error, nor are words: a gateway may
say beside its events that a request waits in a queue. So both must be there, a status must be one
of an error, and nothing of a reply may stand beside them.
"""

from __future__ import annotations

from typing import Any, Final

_WORDS: Final = ("message", "msg", "detail", "error_msg", "error_message")
_CODES: Final = ("code", "errcode", "error_code", "status")
_OF_REPLIES: Final = ("choices", "candidates", "output", "content")
_GOOD: Final = frozenset({"", "200", "ok", "success", "none", "null"})
_BAD_STATUS: Final = frozenset({"error", "failed", "failure", "fail"})
_FIRST_BAD: Final = 400


def is_bare_error(value: object) -> bool:
    """Tell whether the JSON of a body or an event is an error that has a code and words."""
    if not isinstance(value, dict) or "type" in value:
        return False
    if any(value.get(name) for name in _OF_REPLIES):
        return False
    if not any(isinstance(value.get(name), str) for name in _WORDS):
        return False
    return any(_is_bad(name, value.get(name)) for name in _CODES)


def _is_bad(name: str, code: Any) -> bool:
    """Tell whether the value of a member is the code of an error."""
    if isinstance(code, bool) or not isinstance(code, int | str):
        return False
    word = str(code).strip().lower()
    if name == "status":
        return word in _BAD_STATUS or (word.isdecimal() and _FIRST_BAD <= int(word[:9]) < 1000)
    return word.strip("0") != "" and word not in _GOOD
