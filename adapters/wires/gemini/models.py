"""What the generations of Gemini do each in their own way, as a table of patterns; a new generation is a new row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from attrs import Factory, field, frozen


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("~", "[-.]"))


@frozen(kw_only=True)
class Traits:
    """Hold what one generation of models does in its own way.

    Arguments:
        model: a regular expression that is found in the model's id in lower case; `~` stands for a dash or a dot.
        thinking: what `thinkingConfig` holds for each effort of reasoning; empty where the model takes none.
        lower: what it holds for less reasoning, by its own word for what it holds now; "" where it holds nothing yet.
        wants_signatures: whether the first function call of each step must be signed.
        nests_media: whether the result of a function holds pictures itself.
        fetches: whether a public URL is fetched.
    """

    model: re.Pattern[str] = field(default="", converter=_pattern)
    thinking: Mapping[str, Mapping[str, Any]] = Factory(dict)
    lower: Mapping[str, Mapping[str, Any]] = Factory(dict)
    wants_signatures: bool = True
    nests_media: bool = True
    fetches: bool = True


def _levels(**efforts: str) -> dict[str, dict[str, Any]]:
    return {effort: {"thinkingLevel": level} for effort, level in efforts.items()}


def _budgets(**efforts: int) -> dict[str, dict[str, Any]]:
    return {effort: {"thinkingBudget": budget} for effort, budget in efforts.items()}


_LOW: Final = {"thinkingLevel": "LOW"}
_MINIMAL: Final = {"thinkingLevel": "MINIMAL"}
_TO_LOW: Final = dict.fromkeys(("", "MEDIUM", "HIGH", "XHIGH"), _LOW)

# No model of the third generation can be told not to think at all.
_WITH_MINIMAL: Final = _levels(none="MINIMAL", minimal="MINIMAL", low="LOW", medium="MEDIUM", high="HIGH", xhigh="HIGH")
_FROM_LOW: Final = _levels(none="LOW", minimal="LOW", low="LOW", medium="MEDIUM", high="HIGH", xhigh="HIGH")
_LOW_OR_HIGH: Final = {**_FROM_LOW, **_levels(medium="HIGH")}

# The tokens of each effort are those of Google's endpoint for chat completions [ai.google.dev/gemini-api/docs/openai].
_TOKENS: Final = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576, "xhigh": 24_576}
_LEAST: Final = 128  # tokens that 2.5 Pro thinks at least
_TO_BUDGET: Final = {"": {"thinkingBudget": 1024}, "-1": {"thinkingBudget": 1024}}

# As surveyed in November 2026 [ai.google.dev/gemini-api/docs/thinking, /thought-signatures, /file-input-methods]; the
# first row that fits counts.
_GENERATIONS: Final = (
    Traits(model=r"gemini~[01]\b|gemini~2~0|gemma|learnlm", wants_signatures=False, nests_media=False, fetches=False),
    Traits(
        model=r"gemini~2~5~pro",
        thinking=_budgets(none=_LEAST, **_TOKENS),
        lower={**_TO_BUDGET, "1024": {"thinkingBudget": _LEAST}},
        wants_signatures=False,
        nests_media=False,
    ),
    Traits(
        model=r"gemini~2~5~flash(?!.*(image|tts|live))",
        thinking=_budgets(none=0, **_TOKENS),
        lower={**_TO_BUDGET, "1024": {"thinkingBudget": 0}},
        wants_signatures=False,
        nests_media=False,
    ),
    Traits(model=r"gemini~2", wants_signatures=False, nests_media=False),
    Traits(model=r"gemini~3~pro", thinking=_LOW_OR_HIGH, lower=_TO_LOW),
    Traits(
        model=r"gemini~3(~1|~5|~6)?~flash(?!.*image)",
        thinking=_WITH_MINIMAL,
        lower={**_TO_LOW, "LOW": _MINIMAL},
    ),
    Traits(model=r"gemini~[3-9](?!.*(image|tts|live))|gemini~(pro|flash)~", thinking=_FROM_LOW, lower=_TO_LOW),
)

NEWEST: Final = Traits()
"""What nobody knows better of a model: as the newest are, but for the thinking, which it may not do."""


@lru_cache(maxsize=256)
def traits_of(model: str) -> Traits:
    """Return what is known of a model, by its id."""
    return next((row for row in _GENERATIONS if row.model.search(model.lower())), NEWEST)
