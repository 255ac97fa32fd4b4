"""What the core uses of pydantic-core without a schema: reading the beginning of a JSON value."""

from __future__ import annotations

import json
import re
from typing import Any

_SIGN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_CLOSES = {"[": "]", "{": "}"}


def from_json(data: bytes, *, allow_partial: bool | str = False) -> Any:
    """Read JSON; what is open at the end is closed if `allow_partial` says so."""
    text = data.decode()
    closing = ""
    if allow_partial:
        for sign in _SIGN.findall(text):
            if sign in _CLOSES:
                closing = _CLOSES[sign] + closing
            elif sign in ("]", "}"):
                closing = closing.removeprefix(sign)
            elif sign == '"' or not sign.endswith('"'):
                closing = '"' + closing
    return json.loads(text + closing)
