"""Files from strangers, read up to a size."""

from __future__ import annotations

from os import PathLike
from typing import Final

from rungwise.fsm.errors import ConfigurationError

LARGEST: Final = 32_000_000
"""The most bytes that are read of a journal or another file in JSON; a turn of 1,000 calls has a tenth of that."""


def check_size(text: str | bytes, largest: int = LARGEST) -> None:
    """Raise a ConfigurationError if a text is too large to be read."""
    if len(text) > largest:
        raise ConfigurationError(f"larger than {largest // 1_000_000} MB, which is the most that is read of it")


def bytes_of_file(path: str | PathLike[str], largest: int = LARGEST) -> bytes:
    """Return the content of a file, without reading more than that much of it.

    Raises:
        ConfigurationError: the file is larger.
        OSError: it cannot be read.
    """
    from pathlib import Path  # which most programs do without

    with Path(path).open("rb") as file:  # where a number is no path
        content = file.read(largest + 1)
    check_size(content, largest)
    return content
