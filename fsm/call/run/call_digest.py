"""The summary of a call, from its journal: how it ended and why, what it used, and a line for each
attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import Final

from attrs import asdict

from rungwise.fsm.call.budget.costs import Charges, price_of
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.run.causes import cause_of, sentence_of
from rungwise.fsm.call.table import UNSENT
from rungwise.fsm.engine.journal.amounts import ordinal, plain
from rungwise.fsm.engine.journal.attempts import RecordedAttempt, attempts_of, end_of
from rungwise.fsm.engine.journal.digest import AttemptLine, Digest, Spent, digest_of
from rungwise.fsm.engine.journal.path import (
    LEAST_ERROR,
    Path,
    path_of,
    word_of,
)
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
    prices = _prices_in(path)
    priced = [prices.get(step.backend) for step in path.steps if step.usage.total_tokens]
    usage = reduce(add, (step.usage for step in path.steps), NO_USAGE)
    has_prices = any(each is not None for each in (priced or prices.values()))
    return Spent(
        attempts=path.steps[-1].attempts,
        seconds=path.steps[-1].at,
        usage=usage,
        cost=as_money(sum(cost for cost in _costs_in(path) if cost is not None))
        if has_prices
        else None,
        is_least=any(each is None for each in priced),
    )


def _prices_in(path: Path) -> dict[str, Prices | None]:
    return {link.name: link.prices for link in reversed(path.record.setting.chain)}


def _costs_in(path: Path) -> Iterator[int | None]:
    """Yield what each step cost, in units; None where its backend has no prices."""
    prices = _prices_in(path)
    for step in path.steps:
        own = prices.get(step.backend)
        yield None if own is None else price_of(step.usage, own)


def money_of(path: Path) -> Iterator[float | None]:
    """Yield what was spent after each step; None where the backend has no prices."""
    prices = _prices_in(path)
    spending = Charges()
    for step in path.steps:
        spending.add(step.usage, step.usage, prices.get(step.backend))
        yield (
            None
            if prices.get(step.backend) is None or spending.cost is None
            else as_money(spending.cost)
        )


def _lines(path: Path, attempts: Sequence[RecordedAttempt]) -> Iterator[AttemptLine]:
    has_several = len(path.record.setting.chain) > 1
    costs = [None if cost is None else as_money(cost) for cost in _costs_in(path)]
    for attempt in attempts:
        yield AttemptLine(
            attempt=attempt,
            backend=attempt.sent.backend if has_several else "",
            cost=None if attempt.back is None else costs[attempt.back.number - 1],
            end=end_of(attempt, path.table),
        )


def _cause(path: Path, attempts: Sequence[RecordedAttempt]) -> str:
    """Say why a call ended as it did: the last event, and how many times it had happened."""
    last = path.steps[-1]
    row = path.rows[-1]
    if path.record.outcome is None or row is None:
        return ""
    found = last.note if last.event == "malformed" else None
    cause = cause_of(
        path.table, row, Evidence(event=last.event, asked_wait=last.asked_wait), last.facts, found
    )
    if cause is None:
        return ""
    says = sentence_of(path.table, row, last.facts, found)
    times = sum(
        attempt.back is not None and word_of(attempt.back) == word_of(last) for attempt in attempts
    )
    is_error = last.status is not None and last.status >= LEAST_ERROR
    told = f"the provider answered {last.status}" if is_error else says
    told += f" ({plain(last.reason)})" if last.reason else ""
    note = f": {last.note}" if last.event in UNSENT and last.note else ""
    told += f" for the {ordinal(times)} time" if times > 1 else ""
    return told + note + cause.removeprefix(says)
