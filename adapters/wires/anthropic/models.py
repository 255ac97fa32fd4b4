"""What the generations of Claude take of a request: how they reason, and which parameters they know."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from attrs import frozen

ThinkingKind = Literal["none", "budget", "adaptive"]
"""How reasoning is asked for: not at all, by a number of tokens, or by an effort."""


@frozen(kw_only=True)
class Generation:
    """Hold what some models take.

    Arguments:
        thinking: how their reasoning is asked for.
        samples: whether they take `temperature` and `top_p`.
        schemas: whether an answer can be held to a JSON schema.
    """

    thinking: ThinkingKind
    samples: bool
    schemas: bool


_OTHER: Final = Generation(thinking="budget", samples=True, schemas=True)
"""Models of other makers behind this protocol."""

# As surveyed in November 2026; `~` stands for a dash or a dot, and the first row that is found in a model's id counts.
# The official client of that month knows neither `temperature` nor `top_p` any more, and later models refuse both.
_GENERATIONS: Final = tuple(
    (re.compile(pattern.replace("~", "[-.]")), generation)
    for pattern, generation in (
        (
            r"claude~(2|instant|3~5|3~(haiku|sonnet|opus)|(haiku|sonnet|opus)~3(?!~7))",
            Generation(thinking="none", samples=True, schemas=False),
        ),
        (
            r"claude~(3~7|(sonnet|opus)~3~7|(sonnet|opus)~4(~0)?(?!~\d{1,2}(?!\d)))",
            Generation(thinking="budget", samples=True, schemas=False),
        ),
        (
            r"claude~(opus~4~1|(haiku|sonnet|opus)~4~5)(?!\d)",
            Generation(thinking="budget", samples=True, schemas=True),
        ),
        (r"claude~(sonnet|opus)~4~6(?!\d)", Generation(thinking="adaptive", samples=True, schemas=True)),
        (r"claude", Generation(thinking="adaptive", samples=False, schemas=True)),
    )
)


@lru_cache(maxsize=256)
def generation_of(model: str) -> Generation:
    """Return what a model takes, by its id."""
    model = model.lower()
    return next((generation for pattern, generation in _GENERATIONS if pattern.search(model)), _OTHER)
