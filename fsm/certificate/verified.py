"""What a check of a policy finds: the properties that hold, and the worst case of each thing that is spent."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from attrs import field, frozen

from rungwise.fsm.call.policy import Budget
from rungwise.fsm.certificate.enactment import Enacted
from rungwise.fsm.checker.best_values import Number
from rungwise.fsm.checker.counterexample import Property
from rungwise.fsm.checker.proof import RowProof
from rungwise.fsm.machine.table import Row

NEVER_ALL = "waits come as close to the budget of seconds as you like, and never reach it"
"""A note on waits that a budget of seconds ends: a wait that ends together with the budget is not made."""


@frozen
class WorstCase:
    """Hold the most that a call or a turn can spend of one thing."""

    name: str
    value: Number | None  # the most that can be spent; None if it is unbounded or unknown
    ladder: Number | None  # that without any budget; None if it is unbounded, unknown or too hard to find
    ended_by: str  # what ends the worst path: `ladder`, or the field of the budget
    enacted: Enacted  # the costliest path that was found, as a real call took it
    note: str  # what is counted and what is not
    within: tuple[Number, ...] = field(default=(), repr=False)  # in 1 attempt, in 2, ...; empty if unknown; in units
    is_certain: bool = True  # whether nothing that the value rests on is estimated; otherwise it is never exact

    @property
    def attained(self) -> Number | None:
        """Return what a call spent on the path; None if there is no path."""
        return self.enacted.spent.get(self.name)

    @property
    def is_exact(self) -> bool:
        """Tell whether the path attains the value, up to rounding; otherwise the value is an upper bound."""
        value, attained = self.value, self.attained
        return self.is_certain and value is not None and attained is not None and math.isclose(value, attained)

    @property
    def rungs(self) -> tuple[str, ...]:
        """List the rungs of the path."""
        return self.enacted.rungs

    @property
    def path(self) -> str:
        """Write the rungs of the path with repeats counted: `ask, retry x3, continuation`."""
        return compressed(self.rungs)

    def to_json(self) -> dict[str, Any]:
        """Return the worst case as plain values."""
        return {
            **{name: getattr(self, name) for name in ("name", "value", "ladder", "ended_by", "path")},
            "events": [step.event for step in self.enacted.steps],
            "guards": [step.guard for step in self.enacted.steps],
            "attained": self.attained,
            "exact": self.is_exact,
            "note": self.note,
        }


BUDGETS = {
    "attempts": "attempts",
    "waiting seconds": "seconds",
    "seconds": "seconds",
    "tool seconds": "seconds",
    "output tokens": "output_tokens",
    "money": "money",
}
"""The field of a budget that bounds each thing that is spent."""


def unknown(budget: Budget, name: str, why: str, beyond: float = 0.0) -> WorstCase:
    """Return a worst case that at most one field of the budget bounds, which may be exceeded by `beyond`."""
    most = getattr(budget, BUDGETS[name])
    value, ended_by = (most + beyond, f"budget.{BUDGETS[name]}") if most else (most, "nothing")
    return WorstCase(name, value, None, ended_by, Enacted(), why, is_certain=name != "money")


@frozen(repr=False)
class Verified:
    """Hold the result of a check; `Certificate` documents the fields."""

    table: str
    limits: Mapping[str, int] = field(hash=False)
    budget: Budget
    chain: tuple[str, ...]
    max_tokens: int | None
    input_tokens: int | None
    assistant_turns: int | None
    walked: Mapping[str, int] = field(hash=False)
    configurations: int = 0
    properties: tuple[Property, ...] = ()
    rows: tuple[RowProof, ...] = field(default=(), repr=False)
    overlaps: tuple[tuple[Row, Row], ...] = field(default=(), repr=False)
    worst: tuple[WorstCase, ...] = ()
    kept: Mapping[str, float] | None = field(default=None, hash=False)
    call: "Verified | None" = None
    tools: Mapping[str, float] | None = field(default=None, hash=False)

    def __repr__(self) -> str:
        most = (f"{each.name} {'?' if each.value is None else number_text(each.value)}" for each in self.worst)
        found = f"at most {', '.join(most)}" if self.ok else f"{', '.join(each.name for each in self.failed)}: no"
        return f"<Certificate of a {self.table} over {counted(len(self.chain), 'backend')}: {found}>"

    @property
    def ok(self) -> bool:
        """Tell whether every required property holds, for a turn also those of its calls."""
        return not self.failed and (self.call is None or self.call.ok)

    @property
    def failed(self) -> tuple[Property, ...]:
        """List the required properties that do not hold, without those of a turn's calls."""
        return tuple(each for each in self.properties if each.is_required and not each.holds)

    def worst_of(self, name: str) -> WorstCase:
        """Return the worst case of one thing that is spent, by its name."""
        return next(each for each in self.worst if each.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as plain values."""
        nested = attrs.filters.exclude("properties", "rows", "overlaps", "worst", "call", "tools")
        of_turn = {} if self.call is None else {"tools": dict(self.tools or {}), "call": self.call.to_json()}
        return {
            "table": self.table,
            "ok": self.ok,
            **attrs.asdict(self, filter=nested),
            "chain": list(self.chain),
            "properties": [each.to_json() for each in self.properties],
            "worst": [each.to_json() for each in self.worst],
            "rows": [each.to_json() for each in self.rows],
            "overlaps": [[str(first), str(second)] for first, second in self.overlaps],
            **of_turn,
        }


def number_text(value: int | float) -> str:
    """Write a figure with thousands separators and at most six places."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def backends_text(count: int) -> str:
    """Write a number of backends."""
    return {1: "one backend", 2: "two backends", 3: "three backends"}.get(count, f"{count} backends")


def counted(number: float, what: str) -> str:
    """Write a number of things, in the plural unless it is 1."""
    return f"{number_text(number)} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Write seconds, longer ones in minutes or hours as well: `900 s (15 min)`."""
    plain = f"{number_text(seconds)} s"
    if seconds < 120:
        return plain
    return f"{plain} ({seconds / 3600:.3g} h)" if seconds >= 7200 else f"{plain} ({seconds / 60:.3g} min)"


def compressed(names: Sequence[str]) -> str:
    """Write names with each run of equal names, or of equal pairs, as one entry and its count."""
    runs: list[str] = []
    place = 0
    while place < len(names):
        single, pairs = _times(names, place, 1), _times(names, place, 2)
        size, times = (2, pairs) if single == 1 and pairs >= LEAST_PAIRS else (1, single)
        block = ", ".join(names[place : place + size])
        runs.append(block if times == 1 else f"{block if size == 1 else f'({block})'} x{times}")
        place += size * times
    return ", ".join(runs)


LEAST_PAIRS = 3
"""How many equal pairs in a row are written as one."""


def _times(names: Sequence[str], start: int, size: int) -> int:
    block, times = names[start : start + size], 1
    while len(block) == size and names[start + size * times : start + size * (times + 1)] == block:
        times += 1
    return times
