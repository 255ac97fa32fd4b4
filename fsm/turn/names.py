"""What tools may be called: what every provider takes."""

from __future__ import annotations

import re
from typing import Final

LONGEST_NAME: Final = 64
NAME_FORM: Final = f"1 to {LONGEST_NAME} letters, digits, '_' or '-'"

_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


def is_name(value: object) -> bool:
    """Tell whether every provider takes this as the name of a tool."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def as_name(text: str) -> str:
    """Return the name that is nearest to a text: a model that makes one up may write anything."""
    return _NOT_IN_NAMES.sub("_", text)[:LONGEST_NAME] or "_"
