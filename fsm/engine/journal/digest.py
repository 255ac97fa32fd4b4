"""The summary of a run, as pages, terminals and notebooks show it: how it ended, what it took, and
its attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from attrs import field, frozen

from rungwise.fsm.engine.journal.attempts import RecordedAttempt, attempts_of, ending_of
from rungwise.fsm.engine.journal.path import Path
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.values.label import label
from rungwise.fsm.values.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from rich.text import Text


END_SIGNS: Final = {"answer": "✓", "lesser": "◐", "error": "✕"}
"""The sign of each kind of outcome, for readers who cannot rely on colours."""

_UNITS: Final = ((0.1, 1.0, "s"), (1e-4, 1e3, "ms"), (0.0, 1e6, "µs"))
_LAST_ROUNDED: Final = 100
_LEAST_COST: Final = 1e-4
_ORDINALS: Final = (
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
)


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


def ordinal(number: int) -> str:
    """Write an ordinal: `fourth`, `11th`, `22nd`."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    is_teen = 10 < number % 100 < 14
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def plain(word: str) -> str:
    """Return the name of a state or an event with spaces."""
    return word.replace("_", " ")


Kind = Literal["rung", "answer", "lesser", "error", "outcome"]
LONGEST_NAME: Final = 40
"""Characters of a backend's name in a line."""


@frozen(kw_only=True)
class Spent:
    """Hold what a run or a part of it used."""

    attempts: int
    seconds: float
    usage: Usage = NO_USAGE
    cost: float | None = None
    is_least: bool = False  # whether a part had no prices, so that the run may have cost more
    calls: int | None = None  # those of a turn

    @property
    def text(self) -> str:
        """Write what it took on one line."""
        tokens = tokens_text(self.usage).replace(
            " in,", f" token{'' if self.usage.input_tokens == 1 else 's'} in,"
        )
        parts = [
            counted(self.calls, "call") if self.calls is not None else "",
            counted(self.attempts, "attempt"),
            seconds_text(self.seconds),
            tokens if self.usage.total_tokens else "",
            "" if self.cost is None else f"cost {money_in(self.cost, self.usage, self.is_least)}",
        ]
        return ", ".join(filter(None, parts))


@frozen(kw_only=True)
class AttemptLine:
    """Describe one attempt in a line."""

    attempt: RecordedAttempt
    name: str = ""  # beside its rung, such as `call 2`
    backend: str = ""
    cost: float | None = None
    end: str | None = None  # the outcome that it led to
    within: Digest | None = None  # of the call that it made, if one was recorded
    kind: str = "attempt"

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Return the parts before the arrow: the name and the text of each."""
        attempt = self.attempt
        waited = f"waited {seconds_text(attempt.waited)}" if attempt.waited > 0 else ""
        if attempt.wait and not waited:  # no clock was passed in, or nobody waited
            waited = f"wait {seconds_text(attempt.wait)}"
        led = () if attempt.led is None or attempt.led.event != "found_open" else (attempt.led,)
        passed_over = (*led, *attempt.skipped)
        skipped = [
            f"skipped {step.backend}{f': {step.note}' if step.note else ''}" for step in passed_over
        ]
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
        return " · ".join(
            filter(None, [tokens, f"cost {money_in(self.cost, usage)}" if self.cost else ""])
        )

    @property
    def text(self) -> str:
        """Return the line: its number, what led to it, and what came back."""
        parts = " · ".join([str(self.attempt.number), *(text for _, text in self.parts)])
        return f"{parts} → {self.came}" + (f": {plain(self.end)}" if self.end else "")


@frozen(kw_only=True)
class Digest:
    """Sum up a run."""

    name: str
    outcome: str | None
    kind: Kind
    cause: str = ""
    spent: Spent
    most: Mapping[str, float | None] = field(factory=dict, hash=False)
    lines: tuple[AttemptLine, ...] = ()
    ending: str = ""  # what ended it in a rung, if no attempt did
    says: str = ""

    @property
    def headline(self) -> str:
        """Return how it ended and why, in words."""
        ended = plain(self.outcome) if self.outcome else "not ended"
        return f"{ended}: {self.cause}" if self.cause else ended

    @property
    def amounts(self) -> dict[str, str]:
        """Return what it used, by name."""
        spent = self.spent
        most = self.most
        amounts = {} if spent.calls is None else {"calls": count_text(spent.calls)}
        amounts["attempts"] = _of(count_text(spent.attempts), most.get("attempts"), count_text)
        amounts["time"] = _of(seconds_text(spent.seconds), most.get("seconds"), seconds_text)
        amounts["tokens"] = tokens_text(spent.usage)
        if spent.cost is not None:
            cost = money_in(spent.cost, spent.usage, spent.is_least)
            amounts["cost"] = _of(cost, most.get("money"), money_text)
        return amounts

    @property
    def left(self) -> str:
        """Return what remained of the limits of its budget."""
        most = self.most
        spent = self.spent
        parts = list[str]()
        if (attempts := most.get("attempts")) is not None:
            parts.append(counted(max(0, int(attempts) - spent.attempts), "attempt"))
        if (seconds := most.get("seconds")) is not None:
            parts.append(seconds_text(max(0.0, seconds - spent.seconds)))
        if (tokens := most.get("output_tokens")) is not None:
            parts.append(counted(max(0, int(tokens) - spent.usage.output_tokens), "output token"))
        if (money := most.get("money")) is not None and spent.cost is not None:
            parts.append(f"{money_text(max(0.0, money - spent.cost))} of money")
        return ", ".join(parts)


def digest_of(
    path: Path,
    *,
    spent: Spent,
    cause: str = "",
    most: Mapping[str, float | None] | None = None,
    lines: Sequence[AttemptLine] = (),
    says: str = "",
) -> Digest:
    """Sum up the run of any table; by default its last event is the cause, and its lines are read
    from the path.
    """
    table = path.table
    outcome = path.record.outcome
    last = path.steps[-1]
    attempts = tuple(attempts_of(path.steps))
    ending = ending_of(path, attempts)
    return Digest(
        name=table.name,
        outcome=outcome,
        kind=table.kind_of_end(outcome) if outcome else "rung",
        cause=cause
        or (
            ""
            if outcome is None or outcome in table.answers
            else table.says(last.event, at_last=True)
        ),
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
    return (
        attempt.back.target
        if attempt.back is not None and attempt.back.target in table.outcomes
        else None
    )


def money_in(cost: float, usage: Usage, is_least: bool = False) -> str:
    """Write a cost, with `at least` or `about` where it is not exact."""
    return f"{'at least ' if is_least else 'about ' if usage.estimated else ''}{money_text(cost)}"


def _of(used: str, most: float | None, write: Callable[[float], str]) -> str:
    return used if most is None else f"{used} of {write(most)}"


WORDS: Final = 60
"""Characters of a text that are quoted."""
LONGEST_QUOTE: Final = 100
LONGEST_CAUSE: Final = 160
INDENT: Final = "     "
STYLES: Final = {"answer": "bold green", "lesser": "bold yellow", "error": "bold red"}


def brief(
    name: str,
    outcome: str,
    text: str,
    cause: str | None,
    spent: Spent,
) -> str:
    """Write a result on one line: its outcome, its first words or its cause, and what it took."""
    content = _quoted(text) if text.strip() else label(cause or "", LONGEST_CAUSE)
    return f"<{name} {outcome}{f': {content}' if content else ''} · {spent.text}>"


def _quoted(text: str) -> str:
    quoted = repr(text[:WORDS])
    if len(text) <= WORDS and len(quoted) <= LONGEST_QUOTE:
        return quoted
    return f"{quoted[:-1][:LONGEST_QUOTE]}…{quoted[-1]}"


def digest_lines(digest: Digest) -> Iterator[str]:
    """Yield the lines of a run: how it ended, what it took, and one for each attempt."""
    yield f"{digest.name} {digest.headline}"
    yield f"{digest.spent.text}{f'; left: {digest.left}' if digest.left else ''}"
    if digest.says:
        yield digest.says
    yield from attempt_lines(digest)


def attempt_lines(digest: Digest, indent: str = "") -> Iterator[str]:
    """Yield a line for each attempt, and below it those of the run that it made."""
    for line in digest.lines:
        number, _, rest = line.text.partition(" ")
        took = " · ".join(filter(None, [line.lasted, line.paid]))
        yield f"{indent}{number:>3} {rest}{f'   ({took})' if took else ''}"
        if line.within is not None and len(line.within.lines) > 1:
            yield from attempt_lines(line.within, indent + INDENT)
    if digest.ending:
        yield f"{indent}    {digest.ending}"


def digest_texts(digest: Digest | None, otherwise: str) -> Iterator[Text]:
    """Yield the lines of a run for `rich`; nothing in them is read as markup."""
    from rich.text import Text  # whoever prints with rich has loaded it

    if digest is None:
        yield Text(otherwise)
        return
    styles = [STYLES.get(digest.kind, "bold"), "dim"]
    for place, line in enumerate(digest_lines(digest)):
        yield Text(line, style=styles[place] if place < len(styles) else "")
