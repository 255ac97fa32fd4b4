"""The certificate: the result of a check and its worst cases, in every form they are written in."""

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
    """Hold the most that a call or a turn can spend of one thing.

    Arguments:
        name: of what is spent.
        value: the most that can be spent; None if it is unbounded or unknown.
        ladder: that without any budget; None if it is unbounded, unknown or too hard to find.
        ended_by: what ends the worst path: `ladder`, or the field of the budget.
        enacted: the costliest path that was found, as a real call took it.
        note: what is counted and what is not.
        within: the most in 1 attempt, in 2, ..., money in units; empty if unknown.
        is_certain: whether the value rests on no estimate; otherwise it is never exact.
    """

    name: str
    value: Number | None
    ladder: Number | None
    ended_by: str
    enacted: Enacted
    note: str
    within: tuple[Number, ...] = field(default=(), repr=False)
    is_certain: bool = True

    @property
    def attained(self) -> Number | None:
        """Return what a call spent on the path; None if there is no path."""
        return self.enacted.spent.get(self.name)

    @property
    def is_exact(self) -> bool:
        """Tell whether the path attains the value, up to rounding; else it is an upper bound."""
        value = self.value
        attained = self.attained
        if value is None or attained is None:
            return False
        return self.is_certain and math.isclose(value, attained)

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
        steps = self.enacted.steps
        return {
            "name": self.name,
            "value": self.value,
            "ladder": self.ladder,
            "ended_by": self.ended_by,
            "path": self.path,
            "events": [step.event for step in steps],
            "guards": [step.guard for step in steps],
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
    """Return a worst case that at most one field of the budget bounds.

    Arguments:
        budget: of the call or turn.
        name: of what is spent.
        why: no path can be searched.
        beyond: by how much the budget may be exceeded.
    """
    value = getattr(budget, BUDGETS[name])
    ended_by = "nothing"
    if value:
        value += beyond
        ended_by = f"budget.{BUDGETS[name]}"
    return WorstCase(
        name=name,
        value=value,
        ladder=None,
        ended_by=ended_by,
        enacted=Enacted(),
        note=why,
        is_certain=name != "money",
    )


def number_text(value: int | float) -> str:
    """Write a figure with thousands separators and at most six places."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def backends_text(count: int) -> str:
    """Write a number of backends."""
    words = {1: "one backend", 2: "two backends", 3: "three backends"}
    return words.get(count, f"{count} backends")


def counted(number: float, what: str) -> str:
    """Write a number of things, in the plural unless it is 1."""
    return f"{number_text(number)} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Write seconds, longer ones in minutes or hours as well: `900 s (15 min)`."""
    plain = f"{number_text(seconds)} s"
    if seconds >= 7200:
        return f"{plain} ({seconds / 3600:.3g} h)"
    if seconds >= 120:
        return f"{plain} ({seconds / 60:.3g} min)"
    return plain


def stated(worst: WorstCase, what: str = "it") -> str:
    """Write a worst case, and what ends the path to it."""
    if worst.value is None:
        return "not known"
    text = number_text(worst.value)
    if not worst.is_exact:
        text = f"no more than {text}"
    if worst.ended_by == "ladder":
        return f"{text}; the ladder ends {what}"
    text += f"; {worst.ended_by} ends {what}"
    if worst.ladder is not None:
        text += f" (the ladder alone: {number_text(worst.ladder)})"
    return text


def played(worst: WorstCase) -> str:
    """Write the path of a worst case, and what it spends if that is less than the bound."""
    if worst.value is None or worst.attained is None or worst.is_exact:
        return worst.path
    return f"{worst.path} (spends {number_text(worst.attained)})"


def amount(worst: WorstCase) -> str:
    """Write a worst case with its unit."""
    if worst.value is None:
        return "not known"
    if worst.name == "money":
        return f"{worst.value:,.4g}" if abs(worst.value) < 1000 else f"{worst.value:,.2f}"
    if "seconds" in worst.name:
        return duration(worst.value)
    return number_text(worst.value)


def figure(worst: WorstCase) -> str:
    """Write a worst case with its unit, and mark an upper bound."""
    if worst.value is None or is_attained(worst):
        return amount(worst)
    return f"no more than {amount(worst)}"


def is_attained(worst: WorstCase) -> bool:
    """Tell whether some path reaches the figure, as far as is known."""
    ends = worst.ended_by.startswith("budget.") and worst.ended_by != "budget.attempts"
    return worst.is_exact or (worst.is_certain and ends)


def path_end(worst: WorstCase) -> str:
    """Say what ends a worst path, and what it attains if the figure is an upper bound."""
    end = "the ladder" if worst.ended_by == "ladder" else worst.ended_by
    text = f"{end} ends it"
    if is_attained(worst):
        return text
    text += "; an upper bound"
    if worst.attained is not None:
        longest = evolve(worst, value=worst.attained)
        text += f", the longest path played: {amount(longest)}"
    return text


def compressed(names: Sequence[str]) -> str:
    """Write names with each run of equal names, or of equal pairs, as one entry and its count."""
    runs: list[str] = []
    place = 0
    while place < len(names):
        size = 1
        if _times(names, place, 1) == 1 and _times(names, place, 2) >= LEAST_PAIRS:
            size = 2
        times = _times(names, place, size)
        block = ", ".join(names[place : place + size])
        if size == 2:
            block = f"({block})"
        runs.append(block if times == 1 else f"{block} x{times}")
        place += size * times
    return ", ".join(runs)


LEAST_PAIRS = 3
"""How many equal pairs in a row are written as one."""


def _times(names: Sequence[str], start: int, size: int) -> int:
    """Count how often a block of some size stands in a row."""
    block = names[start : start + size]
    if len(block) < size:
        return 1
    times = 1
    end = start + size
    while names[end : end + size] == block:
        times += 1
        end += size
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
        tools: for a turn, the bounds of its tools: calls of a reply, seconds, tokens of results.
        within: what bounds all calls within each shared budget together, the innermost first.
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
    within: tuple[str, ...] = ()

    def __repr__(self) -> str:
        backends = counted(len(self.chain), "backend")
        finding = f"{', '.join(each.name for each in self.failed)}: no"
        if self.ok:
            most = []
            for each in self.worst:
                value = "?" if each.value is None else number_text(each.value)
                most.append(f"{each.name} {value}")
            finding = f"at most {', '.join(most)}"
        return f"<Certificate of a {self.table} over {backends}: {finding}>"

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
        nested = ("properties", "rows", "overlaps", "worst", "call", "tools")
        plain: dict[str, Any] = {"table": self.table, "ok": self.ok}
        plain |= attrs.asdict(self, filter=attrs.filters.exclude(*nested))
        plain["chain"] = list(self.chain)
        plain["properties"] = [each.to_json() for each in self.properties]
        plain["worst"] = [each.to_json() for each in self.worst]
        plain["rows"] = [each.to_json() for each in self.rows]
        plain["overlaps"] = [[str(first), str(second)] for first, second in self.overlaps]
        if self.call is not None:
            plain["tools"] = dict(self.tools or {})
            plain["call"] = self.call.to_json()
        return plain

    def to_text(self) -> str:
        """Write the certificate as Markdown, as `rungwise verify` prints it."""
        return self.to_markdown()

    def to_markdown(self, *, calls: bool = True) -> str:
        """Write the certificate as Markdown.

        Arguments:
            calls: whether the certificate of a turn's calls follows.
        """
        verdict = "everything holds"
        failed = [each.name for each in self.failed]
        if self.call is not None and not self.call.ok:
            failed.append("its calls are not proved")
        if failed:
            verdict = f"fails: {'; '.join(failed)}"
        others = [proof.why for proof in self.rows if not proof.is_argued]
        # the guards that lose against a guard of an event
        winners: dict[tuple[str, str], dict[str, None]] = {}
        for first, second in self.overlaps:
            winners.setdefault((first.event, str(first.guard)), {})[str(second.guard)] = None
        fields = attrs.asdict(self, recurse=False)
        fields["budget"] = attrs.asdict(self.budget)
        text = render_text(
            "certificate.md",
            **fields,
            verdict=verdict,
            arguments=_arguments(self.rows),
            ends=sum("ends" in why for why in others),
            others=len(others),
            winners=winners,
            CLOSING=CLOSING,
            counted=counted,
            figure=figure,
            number_text=number_text,
            path_text=path_text,
            played=played,
            stated=stated,
        )
        if self.call is None or not calls:
            return text
        return f"{text}\n{self.call.to_markdown()}"


def _arguments(rows: Sequence[RowProof]) -> list[tuple[str, RowProof, dict[str, None]]]:
    """Group the rows to rungs by their argument, with their events; refused rows come first."""
    arguments: dict[tuple[str, str], tuple[str, RowProof, dict[str, None]]] = {}
    for proof in rows:
        if proof.is_argued:
            title = f"-> {proof.row.target}"
            if proof.row.guard:
                title = f"[{proof.row.guard}] {title}"
            _, _, events = arguments.setdefault((title, proof.argument), (title, proof, {}))
            events[proof.row.event] = None
    return sorted(arguments.values(), key=lambda each: each[1].verdict == "proved")


def by_fallbacks(worst: Mapping[int, Sequence[WorstCase]]) -> str:
    """Write the worst cases of chains with 0, 1, 2, ... fallbacks as a table in Markdown."""
    lines = []
    for cases in zip(*worst.values(), strict=True):
        line = [cases[0].name]
        for each in cases:
            line.append("not known" if each.value is None else f"{each.value:,.10g}")
        lines.append(line)
    table = markdown_table(["fallbacks", *map(str, worst)], lines)
    return f"\n## Worst cases by the number of fallbacks\n\n{table}"
