"""The log of the package; `logging` is loaded when the first step could be told there."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from logging import Logger

INFO: Final = 20
"""`logging.INFO`."""


@cache
def logger() -> Logger:
    """Return the logger."""
    from logging import getLogger

    return getLogger("rungwise")
