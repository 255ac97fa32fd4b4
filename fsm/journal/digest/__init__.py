"""The summary of a run: how it ended and why, what it took, and a line for each attempt.

Pages, the lines on a terminal and notebooks all render this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal

from attrs import field, frozen

from rungwise.fsm.journal.attempts import RecordedAttempt, attempts_of, ending_of
from rungwise.fsm.journal.digest.words import (
    count_text,
    counted,
    money_text,
    plain,
    seconds_text,
    tokens_named,
    tokens_text,
)
from rungwise.fsm.journal.path import Path
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.table import Table
from rungwise.fsm.values.label import label
from rungwise.fsm.values.usage import NO_USAGE, Usage

Kind = Literal["rung", "answer", "lesser", "error", "outcome"]
LONGEST_NAME: Final = 40
"""Characters of a backend's name in a line."""

__all__ = ["AttemptLine", "Digest", "Spent", "digest_of", "money_in", "with_times"]


@frozen(kw_only=True)
class Spent:
    """Hold what a run or a part of it used.

    Arguments:
        is_least: whether a part had no prices, so that the run may have cost more.
        calls: how many calls a turn made; None for a call.
    """

    attempts: int
    seconds: float
    usage: Usage = NO_USAGE
    cost: float | None = None
    is_least: bool = False
    calls: int | None = None

    @property
    def text(self) -> str:
        """Write what it took on one line."""
        cost = "" if self.cost is None else f"cost {money_in(self.cost, self.usage, self.is_least)}"
        parts = [
            counted(self.calls, "call") if self.calls is not None else "",
            counted(self.attempts, "attempt"),
            seconds_text(self.seconds),
            tokens_named(self.usage) if self.usage.total_tokens else "",
            cost,
        ]
        return ", ".join(filter(None, parts))


@frozen(kw_only=True)
class AttemptLine:
    """Describe one attempt in a line.

    Arguments:
        name: a name beside its rung, such as `call 2`; empty for none.
        end: the outcome that it led to, if any.
        within: the summary of the call that it made, if one was recorded.
    """

    attempt: RecordedAttempt
    name: str = ""
    backend: str = ""
    cost: float | None = None
    end: str | None = None
    within: Digest | None = None
    kind: str = "attempt"

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Return the parts before the arrow: the name and the text of each."""
        attempt = self.attempt
        waited = f"waited {seconds_text(attempt.waited)}" if attempt.waited > 0 else ""
        if attempt.wait and not waited:  # no clock was passed in, or nobody waited
            waited = f"wait {seconds_text(attempt.wait)}"
        skipped = [f"skipped {step.backend}{f': {step.note}' if step.note else ''}" for step in attempt.skipped]
        parts = [
            ("rung", plain(attempt.rung)),
            ("name", self.name),
            ("why", attempt.why or ""),
            *(("skipped", each) for each in skipped),
            ("backend", label(self.backend, LONGEST_NAME)),
            ("waited", waited),
            ("note", attempt.sent.note or ""),
        ]
        return tuple((what, text) for what, text in parts if text)

    @property
    def came(self) -> str:
        """Return what came back, in words."""
        return self.attempt.came or "not back yet"

    @property
    def lasted(self) -> str:
        """Return how long it was in flight; empty if no clock was passed in."""
        return seconds_text(self.attempt.seconds) if self.attempt.seconds else ""

    @property
    def paid(self) -> str:
        """Return its tokens and its cost, if known."""
        usage = self.attempt.usage
        tokens = tokens_text(usage) if usage.total_tokens else ""
        return " · ".join(filter(None, [tokens, f"cost {money_in(self.cost, usage)}" if self.cost else ""]))

    @property
    def text(self) -> str:
        """Return the line: its number, what led to it, and what came back."""
        parts = " · ".join([str(self.attempt.number), *(text for _, text in self.parts)])
        return f"{parts} → {self.came}" + (f": {plain(self.end)}" if self.end else "")


@frozen(kw_only=True)
class Digest:
    """Sum up a run.

    Arguments:
        ending: what ended it in a rung, if no attempt did.
    """

    name: str
    outcome: str | None
    kind: Kind
    cause: str = ""
    spent: Spent
    most: Mapping[str, float | None] = field(factory=dict, hash=False)
    lines: tuple[AttemptLine, ...] = ()
    ending: str = ""
    says: str = ""

    @property
    def headline(self) -> str:
        """Return how it ended and why, in words."""
        ended = plain(self.outcome) if self.outcome else "not ended"
        return f"{ended}: {self.cause}" if self.cause else ended

    @property
    def amounts(self) -> dict[str, str]:
        """Return what it used, by name."""
        spent, most = self.spent, self.most
        money = {}
        if spent.cost is not None:
            cost = money_in(spent.cost, spent.usage, spent.is_least)
            money = {"cost": _of(cost, _written(most.get("money"), money_text))}
        calls = {} if spent.calls is None else {"calls": count_text(spent.calls)}
        return {
            **calls,
            "attempts": _of(count_text(spent.attempts), most.get("attempts")),
            "time": _of(seconds_text(spent.seconds), _written(most.get("seconds"), seconds_text)),
            "tokens": tokens_text(spent.usage),
            **money,
        }

    @property
    def left(self) -> str:
        """Return what remained of the limits of its budget."""
        return ", ".join(_remaining(self.most, self.spent))


def digest_of(
    path: Path,
    *,
    spent: Spent,
    cause: str = "",
    most: Mapping[str, float | None] | None = None,
    lines: Sequence[AttemptLine] = (),
    says: str = "",
) -> Digest:
    """Sum up the run of any table.

    Arguments:
        cause: why it ended as it did; by default the sentence of its last event.
        lines: the lines of its attempts; by default they are read from the path.
    """
    table, outcome = path.table, path.record.outcome
    attempts = attempts_of(path)
    ending = ending_of(path, attempts)
    return Digest(
        name=table.name,
        outcome=outcome,
        kind=table.kind_of_end(outcome) if outcome else "rung",
        cause=cause or _cause(table, path.steps[-1], outcome),
        spent=spent,
        most=most or {},
        lines=tuple(lines) or tuple(plain_lines(path, attempts)),
        ending="" if ending is None else f"{table.says(ending.event)} → {plain(ending.target)}",
        says=says,
    )


def plain_lines(path: Path, attempts: Sequence[RecordedAttempt]) -> Iterator[AttemptLine]:
    """Describe each attempt by its steps alone."""
    names = {attempt.sent.backend for attempt in attempts}
    for attempt in attempts:
        backend = attempt.sent.backend if len(names) > 1 else ""
        yield AttemptLine(attempt=attempt, backend=backend, end=end_of(attempt, path.table))


def end_of(attempt: RecordedAttempt, table: Table) -> str | None:
    """Return the outcome that an attempt led to, if any."""
    return attempt.back.target if attempt.back is not None and attempt.back.target in table.outcomes else None


def with_times(sentence: str, times: int, ordinal: str) -> str:
    """Append to a sentence which time it was, from the second on."""
    return f"{sentence} for the {ordinal} time" if times > 1 else sentence


def money_in(cost: float, usage: Usage, is_least: bool = False) -> str:
    """Write a cost, with `at least` or `about` where it is not exact."""
    return f"{'at least ' if is_least else 'about ' if usage.estimated else ''}{money_text(cost)}"


def _cause(table: Table, last: Step, outcome: str | None) -> str:
    return "" if outcome is None or outcome in table.answers else table.says(last.event, at_last=True)


def _of(used: str, most: float | str | None) -> str:
    if most is None:
        return used
    return f"{used} of {most if isinstance(most, str) else count_text(most)}"


def _written(limit: float | None, write: Callable[[float], str]) -> str | None:
    return None if limit is None else write(limit)


def _remaining(most: Mapping[str, float | None], spent: Spent) -> Iterator[str]:
    attempts, seconds, tokens, money = (most.get(name) for name in ("attempts", "seconds", "output_tokens", "money"))
    if attempts is not None:
        yield counted(max(0, int(attempts) - spent.attempts), "attempt")
    if seconds is not None:
        yield seconds_text(max(0.0, seconds - spent.seconds))
    if tokens is not None:
        yield counted(max(0, int(tokens) - spent.usage.output_tokens), "output token")
    if money is not None and spent.cost is not None:
        yield f"{money_text(max(0.0, money - spent.cost))} of money"
