"""The summary of a call, from its journal: how it ended and why, what it used, and a line for each
attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import asdict

from rungwise.fsm.call.budget.costs import Charges, cost_of
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.run.causes import cause_of, sentence_of
from rungwise.fsm.call.table import UNSENT
from rungwise.fsm.engine.journal.amounts import ordinal, plain
from rungwise.fsm.engine.journal.attempts import RecordedAttempt, attempts_of, end_of
from rungwise.fsm.engine.journal.digest import AttemptLine, Digest, Spent, digest_of
from rungwise.fsm.engine.journal.path import LEAST_ERROR, Path, path_of, word_of
from rungwise.fsm.engine.journal.record import Evidence, Record
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import label
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import NO_USAGE

FIRST_WORDS: Final = 200
"""Characters of an answer that are shown of it."""


def digest_of_call(path: Path, says: str = "") -> Digest:
    """Sum up a call; `says` holds the first words of its text."""
    attempts = tuple(attempts_of(path.steps))
    return digest_of(
        path,
        spent=spent_in(path),
        cause=_cause(path, attempts),
        most=asdict(path.record.setting.policy.budget),
        lines=tuple(_lines(path, attempts)),
        says=says,
    )


def digest_of_journal(journal: Record, text: str = "") -> Digest | None:
    """Sum up a call from its journal; None if it has no steps, or is of another table than its
    policy's.
    """
    try:
        return digest_of_call(path_of(journal, journal.setting.policy.table), first_words(text))
    except ConfigurationError:
        return None


def first_words(text: str) -> str:
    """Return the beginning of a text on one line, without control characters."""
    return str(label(" ".join(text[: 2 * FIRST_WORDS].split()), FIRST_WORDS))


def spent_in(path: Path) -> Spent:
    """Add up what a call took, from its steps."""
    usage = NO_USAGE
    costs = []  # of what was paid for
    for step, units in zip(path.steps, _costs_in(path), strict=True):
        usage += step.usage
        if step.usage != NO_USAGE:
            costs.append(units)
    known = [units for units in costs if units is not None]
    cost = None
    if known or (not costs and any(_prices_in(path).values())):
        cost = as_money(sum(known))
    last = path.steps[-1]
    return Spent(
        attempts=last.attempts,
        seconds=last.at,
        usage=usage,
        cost=cost,
        is_least=len(known) < len(costs),
    )


def _prices_in(path: Path) -> dict[str, Prices | None]:
    return {link.name: link.prices for link in reversed(path.record.setting.chain)}


def _costs_in(path: Path) -> Iterator[int | None]:
    """Yield what each step cost, in units; None where its backend has no prices."""
    prices = _prices_in(path)
    for step in path.steps:
        yield cost_of(step.usage, prices.get(step.backend))


def money_of(path: Path) -> Iterator[float | None]:
    """Yield what was spent after each step; None where the backend has no prices."""
    prices = _prices_in(path)
    spending = Charges()
    for step in path.steps:
        own = prices.get(step.backend)
        spending.add(step.usage, step.usage, own)
        is_known = own is not None or spending.cost_reported
        if spending.cost is None or not is_known:
            yield None
        else:
            yield as_money(spending.cost)


def _lines(path: Path, attempts: Sequence[RecordedAttempt]) -> Iterator[AttemptLine]:
    has_several = len(path.record.setting.chain) > 1
    costs = list(_costs_in(path))
    for attempt in attempts:
        units = None
        if attempt.back is not None:
            units = costs[attempt.back.number - 1]
        cost = None if units is None else as_money(units)
        yield AttemptLine(
            attempt=attempt,
            backend=attempt.sent.backend if has_several else "",
            cost=cost,
            end=end_of(attempt, path.table),
        )


def _cause(path: Path, attempts: Sequence[RecordedAttempt]) -> str:
    """Say why a call ended as it did: the last event, and how many times it had happened."""
    last = path.steps[-1]
    row = path.rows[-1]
    if path.record.outcome is None or row is None:
        return ""
    found = last.note if last.event == "malformed" else None
    evidence = Evidence(event=last.event, asked_wait=last.asked_wait)
    cause = cause_of(path.table, row, evidence, last.facts, found)
    if cause is None:
        return ""
    says = sentence_of(path.table, row, last.facts, found)
    backs = [attempt.back for attempt in attempts if attempt.back is not None]
    times = sum([word_of(back) == word_of(last) for back in backs])
    sentence = says
    if last.status is not None and last.status >= LEAST_ERROR:
        sentence = f"the provider answered {last.status}"
    if last.reason:
        sentence += f" ({plain(last.reason)})"
    if times > 1:
        sentence += f" for the {ordinal(times)} time"
    if last.event in UNSENT and last.note:
        sentence += f": {last.note}"
    return sentence + cause.removeprefix(says)
