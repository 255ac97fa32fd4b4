"""Amounts in words: seconds, counts, tokens and money, as everything that is shown writes them."""

from __future__ import annotations

from typing import Final

from rungwise.fsm.values.usage import Usage

_UNITS: Final = ((0.1, 1.0, "s"), (1e-4, 1e3, "ms"), (0.0, 1e6, "µs"))
"""The least seconds for which a unit is used, how many of it a second has, and its sign."""

_LAST_ROUNDED: Final = 100
"""From here on, seconds are whole, and so are cents."""

_LEAST_COST: Final = 1e-4
"""Costs below would be written in exponential form."""

_ORDINALS: Final = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
]


def seconds_text(seconds: float) -> str:
    """Write a duration with three digits, in s, ms or µs."""
    if not seconds:
        return "0 s"
    factor, unit = next((factor, unit) for least, factor, unit in _UNITS if seconds >= least)
    number = seconds * factor
    digits = ".0f" if number >= _LAST_ROUNDED else ".3g"
    return f"{number:{digits}} {unit}"


def count_text(number: float) -> str:
    """Write a count with a space between thousands."""
    return f"{number:,}".replace(",", " ")


def counted(number: int, what: str) -> str:
    """Write a count and its noun, in the plural unless it is 1."""
    return f"{count_text(number)} {noun_text(number, what)}"


def noun_text(number: int, noun: str) -> str:
    """Return a noun in the plural unless the number is 1."""
    return noun if number == 1 else f"{noun}s"


def money_text(money: float) -> str:
    """Write a sum in the currency of the prices, never in exponential form."""
    if money and abs(money) < _LEAST_COST:
        return f"{money:.9f}".rstrip("0").rstrip(".")
    if abs(money) < _LAST_ROUNDED:
        return f"{money:.4g}"
    return f"{money:.2f}"


def tokens_text(usage: Usage) -> str:
    """Write tokens in and out, with `about` if they are estimated."""
    about = "about " if usage.estimated else ""
    return f"{about}{count_text(usage.input_tokens)} in, {count_text(usage.output_tokens)} out"


def ordinal(number: int) -> str:
    """Write an ordinal: `fourth`, `11th`, `22nd`."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    is_teen = 10 < number % 100 < 14
    ends = {} if is_teen else {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{ends.get(number % 10, 'th')}"


def plain(word: str) -> str:
    """Return the name of a state or an event with spaces."""
    return word.replace("_", " ")


def money_in(cost: float, usage: Usage, is_least: bool = False) -> str:
    """Write a cost, with `at least` or `about` where it is not exact."""
    text = money_text(cost)
    if is_least:
        return f"at least {text}"
    if usage.estimated:
        return f"about {text}"
    return text
