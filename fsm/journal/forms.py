"""The forms of what stands in a journal, which may come from anybody and hold anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import LARGEST, Check, is_flag, is_number, is_text, is_whole, or_none
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from rungwise.fsm.journal.record import Step


def _is_count(value: Any) -> bool:
    return is_whole(value, 0, LARGEST)


def _is_amount(value: Any) -> bool:
    return is_number(value, 0, LARGEST)


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(is_text, value))


def _is_calls(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(_is_texts(call) and len(call) == 3 for call in value)


def _is_pairs(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(_is_texts(pair) and len(pair) == 2 for pair in value)


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_counts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_count, value.values()))


def _is_usage(value: Any) -> bool:
    counts = asdict(value)
    return type(counts.pop("estimated")) is bool and all(map(_is_count, counts.values()))


Forms = Mapping[str, tuple[Check, str]]

_FORMS: Forms = {
    **dict.fromkeys(("event", "source", "target", "backend"), (is_text, "a text")),
    **dict.fromkeys(("guard", "effect", "stop_raw", "reason", "code", "note"), (or_none(is_text), "a text")),
    **dict.fromkeys(("at", "wait"), (_is_amount, "a number of 0 or more")),
    **dict.fromkeys(("asked_wait", "draw"), (or_none(_is_amount), "a number of 0 or more")),
    "attempts": (_is_count, "a whole number of 0 or more"),
    **dict.fromkeys(("cap", "status", "input_tokens"), (or_none(_is_count), "a whole number of 0 or more")),
    "usage": (_is_usage, "whole numbers of tokens"),
    "facts": (_is_texts, "a list of names"),
    "spent": (_is_counts, "a count for each name"),
    "content": (or_none(_is_object), "an object"),
}

_CONTENT: Forms = {
    **dict.fromkeys(("part", "new", "delivered", "reasoning"), (is_text, "a text")),
    **dict.fromkeys(("final_text", "prior_answer"), (or_none(is_text), "a text, or null")),
    "tool_calls": (_is_calls, "a list of calls, each of which is a list of id, name and arguments"),
}

JOURNAL: Forms = {
    "contents": (is_flag, "true or false"),
    "table": (is_text, "the name of a table"),
    "policy": (lambda value: True, ""),  # which has a reader of its own
    "chain": (_is_objects, "a list of objects"),
    **dict.fromkeys(("max_tokens", "input_tokens"), (or_none(_is_count), "a whole number of tokens, or null")),
    "has_compactor": (is_flag, "true or false"),
    "counters": (_is_texts, "a list of names"),
    "steps": (_is_objects, "a list of objects"),
    "outcome": (or_none(is_text), "a text, or null"),
}
"""The forms of what stands at the top of a journal."""

LINK: Forms = {
    "name": (is_text, "a text"),
    **dict.fromkeys(("prefills", "echoes"), (is_flag, "true or false")),
    "problem": (or_none(is_text), "a text, or null"),
    "max_tokens": (or_none(_is_count), "a whole number of tokens, or null"),
    "prices": (or_none(_is_object), "an object, or null"),
    "identities": (_is_pairs, "a list of pairs of texts"),
}
"""The forms of what stands in a backend of the chain."""


def check_step(step: Step, counters: tuple[str, ...]) -> None:
    """Refuse a step with a value that is not of its form.

    Raises:
        ConfigurationError: the message names the step and the value.
    """
    for name, (check, form) in _FORMS.items():
        if not check(getattr(step, name)):
            raise fault(step, f"{name!r} must be {form}, not {short(getattr(step, name))}")
    for name, (check, form) in _CONTENT.items():
        if step.content is not None and name in step.content and not check(step.content[name]):
            raise fault(step, f"{name!r} of its content must be {form}")  # which is not shown
    if step.spent and set(step.spent) != set(counters):
        raise fault(step, "what it has spent is not of the counters of the journal")


def check_forms(document: Mapping[str, Any], forms: Forms, where: str = "") -> None:
    """Refuse an object of a journal that lacks something, or holds it in another form.

    Raises:
        ConfigurationError: the message names the place.
    """
    for name, (check, form) in forms.items():
        if name not in document:
            raise ConfigurationError(f"journal: {where}{name!r} is missing")
        if not check(document[name]):
            raise ConfigurationError(f"journal: {where}{name!r} must be {form}, not {short(document[name])}")


def known_only(document: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse an object of a journal that holds what it cannot.

    Raises:
        ConfigurationError: the message names the place.
    """
    unknown = [key for key in document if key not in known]
    if unknown:
        raise ConfigurationError(f"journal: {where} has no {short(unknown[0])}")


def fault(step: Step, says: str) -> ConfigurationError:
    """Build the error of a step."""
    return ConfigurationError(f"journal: step {step.number}: {says}")
