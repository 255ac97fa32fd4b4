"""The way to a fault: a short numbered path that shows only what changes at each step."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import asdict, frozen

WIDTH = 80


@frozen
class PathStep:
    """Hold one step of a path through the configurations."""

    event: str
    source: str
    target: str | None  # None if the step is the fault and leads nowhere
    guard: str | None
    facts: tuple[str, ...]  # those that hold
    # the counters that changed, each with its values before and after
    changed: Mapping[str, tuple[Any, Any]]

    def __str__(self) -> str:
        guard = f" [{self.guard}]" if self.guard else ""
        facts = f" with {', '.join(self.facts)}" if self.facts else ""
        changes = "".join(
            f"; {name} {before} -> {after}" for name, (before, after) in self.changed.items()
        )
        return f"{self.source} --{self.event}{guard}--> {self.target or '?'}{facts}{changes}"

    def to_json(self) -> dict[str, Any]:
        """Return the step as plain values."""
        changed = {name: list(values) for name, values in self.changed.items()}
        return {**asdict(self, recurse=False), "facts": list(self.facts), "changed": changed}


def path_text(steps: Iterable[PathStep]) -> str:
    """Write a path as numbered lines of at most 80 columns."""
    wrapper = textwrap.TextWrapper(WIDTH, subsequent_indent="     ", break_on_hyphens=False)
    return "\n".join(wrapper.fill(f"{number:3}. {step}") for number, step in enumerate(steps, 1))


@frozen
class Property:
    """Hold one property with its verdict."""

    name: str  # what must hold, in words
    holds: bool
    detail: str  # what was checked, or what is wrong
    path: tuple[PathStep, ...] = ()  # the shortest way to a configuration in which it fails
    is_required: bool = True  # whether a table without it is refused; otherwise it is only reported

    @property
    def verdict(self) -> str:
        """Say `holds`, `fails`, or `not held` if that is no failure."""
        return "holds" if self.holds else "fails" if self.is_required else "not held"

    def to_json(self) -> dict[str, Any]:
        """Return the property as plain values."""
        path = [step.to_json() for step in self.path]
        plain = {"name": self.name, "verdict": self.verdict, "detail": self.detail}
        return {**plain, "path": path, "required": self.is_required}
