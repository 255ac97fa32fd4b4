"""The certificate: the result of a check and its worst cases, with the forms that they can be
written in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from attrs import evolve, field, frozen

from rungwise.fsm.analysis.certificate.enactment import Enacted
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.diagram.markdown import markdown_table
from rungwise.fsm.diagram.page.templates import render_text
from rungwise.fsm.engine.checker.best_values import Number
from rungwise.fsm.engine.checker.counterexample import Property, path_text
from rungwise.fsm.engine.checker.proof import RowProof
from rungwise.fsm.engine.machine.table import Row

NEVER_ALL = "waits come as close to the budget of seconds as you like, and never reach it"
"""A note on waits that a budget of seconds ends: a wait that ends together with the budget is not
made.
"""


@frozen
class WorstCase:
    """Hold the most that a call or a turn can spend of one thing."""

    name: str
    value: Number | None  # the most that can be spent; None if it is unbounded or unknown
    # that without any budget; None if it is unbounded, unknown or too hard to find
    ladder: Number | None
    ended_by: str  # what ends the worst path: `ladder`, or the field of the budget
    enacted: Enacted  # the costliest path that was found, as a real call took it
    note: str  # what is counted and what is not
    # in 1 attempt, in 2, ...; empty if unknown; in units
    within: tuple[Number, ...] = field(default=(), repr=False)
    # whether nothing that the value rests on is estimated; otherwise it is never exact
    is_certain: bool = True

    @property
    def attained(self) -> Number | None:
        """Return what a call spent on the path; None if there is no path."""
        return self.enacted.spent.get(self.name)

    @property
    def is_exact(self) -> bool:
        """Tell whether the path attains the value, up to rounding; otherwise the value is an upper
        bound.
        """
        value = self.value
        attained = self.attained
        return (
            self.is_certain
            and value is not None
            and attained is not None
            and math.isclose(value, attained)
        )

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
            **{
                name: getattr(self, name)
                for name in ("name", "value", "ladder", "ended_by", "path")
            },
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
    """Return a worst case that at most one field of the budget bounds, which may be exceeded by
    `beyond`.
    """
    most = getattr(budget, BUDGETS[name])
    value, ended_by = (most + beyond, f"budget.{BUDGETS[name]}") if most else (most, "nothing")
    return WorstCase(name, value, None, ended_by, Enacted(), why, is_certain=name != "money")


def number_text(value: int | float) -> str:
    """Write a figure with thousands separators and at most six places."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0").rstrip(".")


def backends_text(count: int) -> str:
    """Write a number of backends."""
    return {1: "one backend", 2: "two backends", 3: "three backends"}.get(
        count, f"{count} backends"
    )


def counted(number: float, what: str) -> str:
    """Write a number of things, in the plural unless it is 1."""
    return f"{number_text(number)} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Write seconds, longer ones in minutes or hours as well: `900 s (15 min)`."""
    plain = f"{number_text(seconds)} s"
    if seconds < 120:
        return plain
    return (
        f"{plain} ({seconds / 3600:.3g} h)"
        if seconds >= 7200
        else f"{plain} ({seconds / 60:.3g} min)"
    )


def stated(worst: WorstCase, what: str = "it") -> str:
    """Write a worst case, and what ends the path to it."""
    if worst.value is None:
        return "not known"
    figure = ("" if worst.is_exact else "no more than ") + number_text(worst.value)
    if worst.ended_by == "ladder":
        return f"{figure}; the ladder ends {what}"
    alone = f" (the ladder alone: {number_text(worst.ladder)})" if worst.ladder is not None else ""
    return f"{figure}; {worst.ended_by} ends {what}{alone}"


def played(worst: WorstCase) -> str:
    """Write the path of a worst case, and what it spends if that is less than the bound."""
    short = worst.value is not None and worst.attained is not None and not worst.is_exact
    return f"{worst.path} (spends {number_text(worst.attained or 0)})" if short else worst.path


def amount(worst: WorstCase) -> str:
    """Write a worst case with its unit."""
    if worst.value is None:
        return "not known"
    if worst.name == "money":
        return f"{worst.value:,.4g}" if abs(worst.value) < 1000 else f"{worst.value:,.2f}"
    return duration(worst.value) if "seconds" in worst.name else number_text(worst.value)


def figure(worst: WorstCase) -> str:
    """Write a worst case with its unit, and mark an upper bound."""
    return (
        amount(worst)
        if worst.value is None or is_attained(worst)
        else f"no more than {amount(worst)}"
    )


def is_attained(worst: WorstCase) -> bool:
    """Tell whether some path reaches the figure, as far as is known."""
    ends = worst.ended_by.startswith("budget.") and worst.ended_by != "budget.attempts"
    return worst.is_exact or (worst.is_certain and ends)


def path_end(worst: WorstCase) -> str:
    """Say what ends a worst path, and how far the longest path that was played gets if the figure
    is an upper bound.
    """
    ends = f"{'the ladder' if worst.ended_by == 'ladder' else worst.ended_by} ends it"
    if is_attained(worst):
        return ends
    if worst.attained is None:
        return f"{ends}; an upper bound"
    return (
        f"{ends}; an upper bound, the longest path played: "
        f"{amount(evolve(worst, value=worst.attained))}"
    )


def compressed(names: Sequence[str]) -> str:
    """Write names with each run of equal names, or of equal pairs, as one entry and its count."""
    runs: list[str] = []
    place = 0
    while place < len(names):
        single = _times(names, place, 1)
        pairs = _times(names, place, 2)
        size, times = (2, pairs) if single == 1 and pairs >= LEAST_PAIRS else (1, single)
        block = ", ".join(names[place : place + size])
        runs.append(block if times == 1 else f"{block if size == 1 else f'({block})'} x{times}")
        place += size * times
    return ", ".join(runs)


LEAST_PAIRS = 3
"""How many equal pairs in a row are written as one."""


def _times(names: Sequence[str], start: int, size: int) -> int:
    block = names[start : start + size]
    times = 1
    while len(block) == size and names[start + size * times : start + size * (times + 1)] == block:
        times += 1
    return times


@frozen(repr=False)
class Certificate:
    """Hold the result of `verify`.

    Arguments:
        table: the name of the table.
        limits: the limit of each counter; the chain bounds the fallbacks and rotations of a call.
        budget: the budget of the whole call or turn.
        chain: the names of the backends, in order.
        max_tokens: the caller's output cap, in tokens, that the worst cases assume.
        input_tokens: the tokens of the prompt that they assume.
        assistant_turns: the assistant turns of the prompt that they assume; None for any number.
        walked: the limits that the walk used.
        configurations: how many configurations the walk saw.
        properties: what must hold, with the verdicts.
        rows: the argument for each row.
        overlaps: the pairs of rows of one event whose guards can hold at once; their order decides.
        worst: the worst cases; empty if a required property fails.
        kept: what is reserved for the last of several backends, whatever the others do: attempts,
            and seconds if the budget has seconds; None if nothing is reserved, or if a failure may
            end the call before that backend.
        call: for a turn, the certificate of each of its calls, on which its worst cases rest.
        tools: for a turn, the bounds of its tools: calls of one reply, seconds of a tool, tokens of
            the results.
    """

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
    call: Certificate | None = None
    tools: Mapping[str, float] | None = field(default=None, hash=False)

    def __repr__(self) -> str:
        most = (
            f"{each.name} {'?' if each.value is None else number_text(each.value)}"
            for each in self.worst
        )
        found = (
            f"at most {', '.join(most)}"
            if self.ok
            else f"{', '.join(each.name for each in self.failed)}: no"
        )
        return (
            f"<Certificate of a {self.table} over {counted(len(self.chain), 'backend')}: {found}>"
        )

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
        of_turn = (
            {}
            if self.call is None
            else {"tools": dict(self.tools or {}), "call": self.call.to_json()}
        )
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

    def to_text(self) -> str:
        """Write the certificate as Markdown, as `rungwise verify` prints it."""
        return self.to_markdown()

    def to_markdown(self, *, calls: bool = True) -> str:
        """Write the certificate as Markdown.

        Arguments:
            calls: whether the certificate of a turn's calls follows.
        """
        failed = [each.name for each in self.failed]
        if self.call is not None and not self.call.ok:
            failed.append("its calls are not proved")
        others = [proof.why for proof in self.rows if not proof.is_argued]
        # the guards that lose against a guard of an event
        winners: dict[tuple[str, str], dict[str, None]] = {}
        for first, second in self.overlaps:
            winners.setdefault((first.event, str(first.guard)), {})[str(second.guard)] = None
        text = render_text(
            "certificate.md",
            **attrs.asdict(self, recurse=False, filter=attrs.filters.exclude("budget")),
            budget=attrs.asdict(self.budget),
            verdict=f"fails: {'; '.join(failed)}" if failed else "everything holds",
            arguments=_arguments(self.rows),
            ends=sum("ends" in why for why in others),
            others=len(others),
            winners=winners,
            CLOSING=CLOSING,
            counted=counted,
            number_text=number_text,
            path_text=path_text,
            played=played,
            stated=stated,
        )
        return text if self.call is None or not calls else f"{text}\n{self.call.to_markdown()}"


def _arguments(rows: Sequence[RowProof]) -> list[tuple[str, RowProof, dict[str, None]]]:
    """Group the rows to rungs by their argument, each group with its events; refused rows come
    first.
    """
    arguments: dict[tuple[str, str], tuple[str, RowProof, dict[str, None]]] = {}
    for proof in rows:
        if proof.is_argued:
            title = (
                f"[{proof.row.guard}] -> {proof.row.target}"
                if proof.row.guard
                else f"-> {proof.row.target}"
            )
            _, _, events = arguments.setdefault((title, proof.argument), (title, proof, {}))
            events[proof.row.event] = None
    return sorted(arguments.values(), key=lambda each: each[1].verdict == "proved")


def by_fallbacks(worst: Mapping[int, Sequence[WorstCase]]) -> str:
    """Write the worst cases of chains with 0, 1, 2, ... fallbacks as a table in Markdown."""
    lines = [
        [
            cases[0].name,
            *("not known" if each.value is None else f"{each.value:,.10g}" for each in cases),
        ]
        for cases in zip(*worst.values(), strict=True)
    ]
    table = markdown_table(["fallbacks", *map(str, worst)], lines)
    return f"\n## Worst cases by the number of fallbacks\n\n{table}"
