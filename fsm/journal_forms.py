"""The forms of what stands in the steps of a journal, which may come from anybody and hold anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from reprlib import Repr
from typing import TYPE_CHECKING, Any

from attrs import asdict

from fsm.errors import ConfigurationError

if TYPE_CHECKING:
    from fsm.journal import Step

LONGEST = 120  # characters of a stranger that are quoted

_QUOTING = Repr()  # goes no deeper than a few levels, so that nothing is too deep for it
_QUOTING.maxstring = _QUOTING.maxother = _QUOTING.maxlong = LONGEST

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_usage(value: Any) -> bool:
    counts = asdict(value)
    return type(counts.pop("estimated")) is bool and all(map(_is_count, counts.values()))


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


_FORMS: Mapping[str, tuple[Check, str]] = {
    **dict.fromkeys(("event", "source", "target", "backend"), (_is_text, "a text")),
    **dict.fromkeys(("guard", "effect", "stop_raw", "reason", "code", "note"), (_or_none(_is_text), "a text")),
    **dict.fromkeys(("at", "wait"), (_is_amount, "a number of 0 or more")),
    **dict.fromkeys(("asked_wait", "draw"), (_or_none(_is_amount), "a number of 0 or more")),
    "attempts": (_is_count, "a whole number of 0 or more"),
    **dict.fromkeys(("cap", "status", "input_tokens"), (_or_none(_is_count), "a whole number of 0 or more")),
    "usage": (_is_usage, "whole numbers of tokens"),
    "facts": (lambda value: all(map(_is_text, value)), "a list of names"),
    "spent": (
        lambda value: isinstance(value, Mapping) and all(map(_is_count, value.values())),
        "a count for each name",
    ),
    "content": (_or_none(lambda value: isinstance(value, Mapping)), "an object"),
}


def check_step(step: Step, counters: tuple[str, ...]) -> None:
    """Refuse a step with a value that is not of its form.

    Raises:
        ConfigurationError: the message names the step and the value.
    """
    for name, (check, form) in _FORMS.items():
        if not check(getattr(step, name)):
            raise fault(step, f"{name!r} must be {form}, not {short(getattr(step, name))}")
    if step.spent and set(step.spent) != set(counters):
        raise fault(step, "what it has spent is not of the counters of the journal")


def fault(step: Step, says: str) -> ConfigurationError:
    """Build the error of a step."""
    return ConfigurationError(f"journal: step {step.number}: {says}")


def short(value: object) -> str:
    """Quote what a stranger wrote, without its line ends and not at length."""
    try:
        text = _QUOTING.repr(value)
    except Exception:  # whatever a stranger's `__repr__` does; and an int of too many digits has none
        return f"this {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
