"""What is written of the mutants that no test kills."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs

FILE: Final = Path(__file__).with_name("verdicts.toml")

KINDS: Final = ("equivalent", "cost only", "message only")
"""Why a mutant may live: it does the same; it does the same and takes longer, or other memory; it
changes nothing but the words of a message.
"""


@attrs.frozen
class Written:
    """Why a mutant may live.

    Arguments:
        key: that of the mutant.
        file: named from the root of the checkout.
        was: the statement.
        becomes: the lines that differ, as the mutant has them.
        kind: one of `KINDS`.
        reason: a sentence.
    """

    key: str
    file: str
    was: str
    becomes: str
    kind: str = attrs.field(validator=attrs.validators.in_(KINDS))
    reason: str = attrs.field(validator=attrs.validators.min_len(10))


def verdicts() -> list[Written]:
    """Return what is written of survivors."""
    read = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [Written(**each) for each in read.get("survivor", [])]


def without_comments(lines: Iterable[str]) -> str:
    """Return lines as one, so that neither their wrapping nor a comment matters."""
    return " ".join(" ".join(re.sub(r"(^|\s)#.*", "", line) for line in lines).split())
