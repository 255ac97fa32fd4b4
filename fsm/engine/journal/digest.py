"""The summary of a run: how it ended, what it took, and a line for each attempt.

Pages, terminals and notebooks show it, and a result prints its first line. It is of any table;
`call_digest.py` and `turn_digest.py` add what only a call or a turn has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from attrs import field, frozen

from rungwise.fsm.engine.journal.amounts import (
    count_text,
    counted,
    money_in,
    money_text,
    noun_text,
    plain,
    seconds_text,
    tokens_text,
)
from rungwise.fsm.engine.journal.attempts import RecordedAttempt, attempts_of, end_of, ending_of
from rungwise.fsm.engine.journal.path import Path
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.values.label import label
from rungwise.fsm.values.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from rich.text import Text


END_SIGNS: Final = {"answer": "✓", "lesser": "◐", "error": "✕"}
"""The sign of each kind of outcome, for readers who cannot rely on colours."""

Kind = Literal["rung", "answer", "lesser", "error", "outcome"]
LONGEST_NAME: Final = 40
"""Characters of a backend's name in a line."""


@frozen(kw_only=True)
class Spent:
    """Hold what a run or a part of it used.

    Arguments:
        cost: in the currency of the prices; None without prices.
        is_least: whether a part had no prices, so that the run may have cost more.
        calls: those of a turn; None for a call.
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
        parts = []
        if self.calls is not None:
            parts.append(counted(self.calls, "call"))
        parts.append(counted(self.attempts, "attempt"))
        parts.append(seconds_text(self.seconds))
        if self.usage.total_tokens:
            noun = noun_text(self.usage.input_tokens, "token")
            parts.append(tokens_text(self.usage).replace(" in,", f" {noun} in,"))
        if self.cost is not None:
            parts.append(f"cost {money_in(self.cost, self.usage, self.is_least)}")
        return ", ".join(parts)


@frozen(kw_only=True)
class AttemptLine:
    """Describe one attempt in a line.

    Arguments:
        name: what stands beside its rung, such as `call 2`.
        backend: that of the attempt, if there are several.
        cost: in the currency of the prices, if it is known.
        end: the outcome that it led to, if any.
        within: the digest of the call that it made, if one was recorded.
        kind: that of its bar on a page.
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
        parts = [
            ("rung", plain(attempt.rung)),
            ("name", self.name),
            ("why", attempt.why or ""),
        ]
        for step in self._passed_over:
            skipped = f"skipped {step.backend}"
            if step.note:
                skipped += f": {step.note}"
            parts.append(("skipped", skipped))
        parts.append(("backend", label(self.backend, LONGEST_NAME)))
        parts.append(("waited", self._waited))
        parts.append(("note", attempt.sent.note or ""))
        return tuple((what, text) for what, text in parts if text)

    @property
    def _passed_over(self) -> tuple[Step, ...]:
        """Return the steps at which a backend was not asked before the attempt."""
        led = self.attempt.led
        skipped = self.attempt.skipped
        if led is not None and led.event == "found_open":
            return led, *skipped
        return skipped

    @property
    def _waited(self) -> str:
        """Say how long the rung waited, or was to wait if no clock shows it."""
        attempt = self.attempt
        if attempt.waited > 0:
            return f"waited {seconds_text(attempt.waited)}"
        if attempt.wait:
            return f"wait {seconds_text(attempt.wait)}"
        return ""

    @property
    def came(self) -> str:
        """Return what came back, in words."""
        return self.attempt.came or "not back yet"

    @property
    def lasted(self) -> str:
        """Return how long it was in flight; empty if no clock was passed in."""
        if not self.attempt.seconds:
            return ""
        return seconds_text(self.attempt.seconds)

    @property
    def paid(self) -> str:
        """Return its tokens and its cost, if known."""
        usage = self.attempt.usage
        parts = []
        if usage.total_tokens:
            parts.append(tokens_text(usage))
        if self.cost:
            parts.append(f"cost {money_in(self.cost, usage)}")
        return " · ".join(parts)

    @property
    def text(self) -> str:
        """Return the line: its number, what led to it, and what came back."""
        parts = " · ".join([str(self.attempt.number), *(text for _, text in self.parts)])
        line = f"{parts} → {self.came}"
        if self.end:
            line += f": {plain(self.end)}"
        return line


@frozen(kw_only=True)
class Digest:
    """Sum up a run.

    Arguments:
        outcome: how it ended; None if it has not.
        kind: that of the outcome, which colours it.
        most: the limits of its budget, by name; None for no limit.
        ending: what ended it in a rung, if no attempt did.
        says: the first words of its text.
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
        ended = plain(self.outcome or "not ended")
        if self.cause:
            return f"{ended}: {self.cause}"
        return ended

    @property
    def amounts(self) -> dict[str, str]:
        """Return what it used, by name."""
        spent = self.spent
        most = self.most
        amounts = {}
        if spent.calls is not None:
            amounts["calls"] = count_text(spent.calls)
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
            left = max(0, int(attempts) - spent.attempts)
            parts.append(counted(left, "attempt"))
        if (seconds := most.get("seconds")) is not None:
            parts.append(seconds_text(max(0.0, seconds - spent.seconds)))
        if (tokens := most.get("output_tokens")) is not None:
            left = max(0, int(tokens) - spent.usage.output_tokens)
            parts.append(counted(left, "output token"))
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
    """Sum up the run of any table.

    Arguments:
        path: that of the run.
        spent: what it used.
        cause: why it ended as it did; by default its last event, if it has no answer.
        most: the limits of its budget.
        lines: its attempts; by default what the path says of them.
        says: the first words of its text.
    """
    table = path.table
    outcome = path.record.outcome
    if not cause and outcome is not None and outcome not in table.answers:
        cause = table.says(path.steps[-1].event, at_last=True)
    attempts = tuple(attempts_of(path.steps))
    last = ending_of(path, attempts)
    ending = ""
    if last is not None:
        ending = f"{table.says(last.event)} → {plain(last.target)}"
    return Digest(
        name=table.name,
        outcome=outcome,
        kind=table.kind_of_end(outcome) if outcome else "rung",
        cause=cause,
        spent=spent,
        most=most or {},
        lines=tuple(lines) or tuple(plain_lines(path, attempts)),
        ending=ending,
        says=says,
    )


def plain_lines(path: Path, attempts: Sequence[RecordedAttempt]) -> Iterator[AttemptLine]:
    """Describe each attempt by its steps alone."""
    names = {attempt.sent.backend for attempt in attempts}
    for attempt in attempts:
        backend = attempt.sent.backend if len(names) > 1 else ""
        yield AttemptLine(attempt=attempt, backend=backend, end=end_of(attempt, path.table))


def _of(used: str, most: float | None, write: Callable[[float], str]) -> str:
    """Write what was used, and of how much if there is a limit."""
    if most is None:
        return used
    return f"{used} of {write(most)}"


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
    """Write a result on one line: its outcome, its first words or its cause, and what it took.

    Arguments:
        name: that of its class.
        outcome: how it ended.
        text: what it says.
        cause: why it ended so, for a result without text.
        spent: what it took.
    """
    content: str = _quoted(text) if text.strip() else label(cause or "", LONGEST_CAUSE)
    ended = f"{name} {outcome}"
    if content:
        ended += f": {content}"
    return f"<{ended} · {spent.text}>"


def _quoted(text: str) -> str:
    """Quote the first words of a text, with its last quotation mark."""
    quoted = repr(text[:WORDS])
    if len(text) <= WORDS and len(quoted) <= LONGEST_QUOTE:
        return quoted
    return f"{quoted[:-1][:LONGEST_QUOTE]}…{quoted[-1]}"


def digest_lines(digest: Digest) -> Iterator[str]:
    """Yield the lines of a run: how it ended, what it took, and one for each attempt."""
    yield f"{digest.name} {digest.headline}"
    spent = digest.spent.text
    if digest.left:
        spent += f"; left: {digest.left}"
    yield spent
    if digest.says:
        yield digest.says
    yield from attempt_lines(digest)


def attempt_lines(digest: Digest, indent: str = "") -> Iterator[str]:
    """Yield a line for each attempt, and below it those of the run that it made."""
    for line in digest.lines:
        number, _, rest = line.text.partition(" ")
        text = f"{indent}{number:>3} {rest}"
        took = " · ".join(filter(None, [line.lasted, line.paid]))
        if took:
            text += f"   ({took})"
        yield text
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
    for line in digest_lines(digest):
        yield Text(line, style=styles.pop(0) if styles else "")
