"""The way to a fault: a short numbered path that shows only what changes at each step."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import asdict, frozen

WIDTH = 80


@frozen
class PathStep:
    """Hold one step of a path through the configurations.

    Arguments:
        event: what was fired.
        source: the state before.
        target: the state after; None if the step is the fault and leads nowhere.
        guard: the guard of the row that was taken.
        facts: those that hold.
        changed: the counters that changed, each with its values before and after.
    """

    event: str
    source: str
    target: str | None
    guard: str | None
    facts: tuple[str, ...]
    changed: Mapping[str, tuple[Any, Any]]

    def __str__(self) -> str:
        event = self.event
        if self.guard:
            event += f" [{self.guard}]"
        text = f"{self.source} --{event}--> {self.target or '?'}"
        if self.facts:
            text += f" with {', '.join(self.facts)}"
        for name, (before, after) in self.changed.items():
            text += f"; {name} {before} -> {after}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Return the step as plain values."""
        plain = asdict(self, recurse=False)
        plain["facts"] = list(self.facts)
        plain["changed"] = {name: list(values) for name, values in self.changed.items()}
        return plain


def path_text(steps: Iterable[PathStep]) -> str:
    """Write a path as numbered lines of at most 80 columns."""
    wrapper = textwrap.TextWrapper(WIDTH, subsequent_indent="     ", break_on_hyphens=False)
    lines = [wrapper.fill(f"{number:3}. {step}") for number, step in enumerate(steps, 1)]
    return "\n".join(lines)


@frozen
class Property:
    """Hold one property with its verdict.

    Arguments:
        name: what must hold, in words.
        holds: whether it does.
        detail: what was checked, or what is wrong.
        path: the shortest way to a configuration in which it fails.
        is_required: whether a table without it is refused; otherwise it is only reported.
    """

    name: str
    holds: bool
    detail: str
    path: tuple[PathStep, ...] = ()
    is_required: bool = True

    @property
    def verdict(self) -> str:
        """Say `holds`, `fails`, or `not held` if that is no failure."""
        if self.holds:
            return "holds"
        return "fails" if self.is_required else "not held"

    def to_json(self) -> dict[str, Any]:
        """Return the property as plain values."""
        path = [step.to_json() for step in self.path]
        return {
            "name": self.name,
            "verdict": self.verdict,
            "detail": self.detail,
            "path": path,
            "required": self.is_required,
        }
