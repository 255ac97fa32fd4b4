"""Numbers in words, for summaries of runs."""

from __future__ import annotations

from typing import Final

from rungwise.fsm.values.usage import Usage

END_SIGNS: Final = {"answer": "✓", "lesser": "◐", "error": "✕"}
"""The sign of each kind of outcome, for readers who cannot rely on colours."""

_UNITS: Final = ((0.1, 1.0, "s"), (1e-4, 1e3, "ms"), (0.0, 1e6, "µs"))
_LAST_ROUNDED: Final = 100
_LEAST_COST: Final = 1e-4
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def seconds_text(seconds: float) -> str:
    """Write a duration with three digits, in s, ms or µs."""
    if not seconds:
        return "0 s"
    factor, unit = next((factor, unit) for least, factor, unit in _UNITS if seconds >= least)
    number = seconds * factor
    return f"{number:.0f} {unit}" if number >= _LAST_ROUNDED else f"{number:.3g} {unit}"


def count_text(number: float) -> str:
    """Write a count with a space between thousands."""
    return f"{number:,}".replace(",", " ")


def counted(number: int, what: str) -> str:
    """Write a count and its noun, in the plural unless it is 1."""
    return f"{count_text(number)} {what}{'' if number == 1 else 's'}"


def money_text(money: float) -> str:
    """Write a sum in the currency of the prices, never in exponential form."""
    if money and abs(money) < _LEAST_COST:
        return f"{money:.9f}".rstrip("0").rstrip(".")
    return f"{money:.4g}" if abs(money) < _LAST_ROUNDED else f"{money:.2f}"


def tokens_text(usage: Usage) -> str:
    """Write tokens in and out, with `about` if they are estimated."""
    about = "about " if usage.estimated else ""
    return f"{about}{count_text(usage.input_tokens)} in, {count_text(usage.output_tokens)} out"


def tokens_named(usage: Usage) -> str:
    """Write tokens in and out with the word `tokens`."""
    return tokens_text(usage).replace(" in,", f" token{'' if usage.input_tokens == 1 else 's'} in,")


def ordinal(number: int) -> str:
    """Write an ordinal: `fourth`, `11th`, `22nd`."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    teens = 10 < number % 100 < 14
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def plain(word: str) -> str:
    """Return the name of a state or an event with spaces."""
    return word.replace("_", " ")
