"""The picture of the page about odds: how it is drawn, and whether it is up to date."""

import re
from pathlib import Path

import pytest

from rungwise import Policy
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.analysis.odds.shown import FORMS

PICTURE = Path(__file__).parents[2] / "docs" / "pages" / "images" / "odds.svg"
NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?|\.\d+")


def drawn() -> str:
    """Draw the default policy against the rates that the page shows."""
    return FORMS[".svg"](odds(Policy(), Rates.example()), None)


def is_the_same(one: str, other: str) -> bool:
    """Tell whether two pictures differ by nothing but what numpy rounds otherwise elsewhere."""
    if NUMBER.sub("", one) != NUMBER.sub("", other):
        return False
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (one, other)]
    return numbers[0] == pytest.approx(numbers[1], abs=0.2)
