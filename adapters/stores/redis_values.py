"""The values that the store in Redis reads and writes. One that is not ours counts as nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from attrs import asdict, fields_dict, frozen

from rungwise.adapters.stores.memory import UNKNOWN
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger
from rungwise.fsm.health.health import BackendHealth
from rungwise.fsm.health.table import OPEN, STATES
from rungwise.fsm.values.checks import LARGEST, is_number, is_whole
from rungwise.fsm.values.money import UNITS

MICRO: Final = UNITS // 10**6
"""Units of money that the server counts as one, because its numbers hold fifteen digits. What goes
there is rounded up.
"""

BY_HAND: Final = "by hand"
"""The kind of a value that says until when a backend is open because somebody wants it."""

LARGEST_VALUE: Final = 2**20
"""Characters of a value that are read. A longer one is not ours."""


@frozen
class StoreKey:
    """Identify a backend with its key in every process."""

    digest: str  # of its URL, model and key, none of which it reveals
    name: str = ""  # of the backend, for those who look at the store


def digest_of(text: str) -> str:
    """Return 128 bits that identify a text and do not reveal it, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def micros(money: int) -> int:
    """Return an amount in the unit of the server, rounded up."""
    return -(-money // MICRO)


def or_blank(*values: object) -> list[object]:
    """Return the arguments of a script, which takes "" for None."""
    return ["" if each is None else each for each in values]


def ceilings_of(ledgers: Sequence[Ledger]) -> list[object]:
    """Return the arguments of `hold.lua` for some budgets: their ceilings, then when they end."""
    ceilings = []
    for ledger in ledgers:
        most_money = ledger.most_money
        if most_money is not None:
            most_money //= MICRO
        ceilings += or_blank(ledger.budget.attempts, ledger.budget.output_tokens, most_money)
    return ceilings + ends_of(ledgers)


def ends_of(ledgers: Sequence[Ledger]) -> list[object]:
    """Return when the periods of some budgets end, as scripts take it."""
    return or_blank(*[ledger.ends for ledger in ledgers])


def written(health: BackendHealth, name: str) -> str:
    """Return the value for the health of a backend.

    Arguments:
        health: what is remembered of it.
        name: the name of the backend, for those who look at the store.
    """
    fields = asdict(health)
    fields["since"] = max(health.since, 0.0)
    fields["name"] = name
    return orjson.dumps(fields).decode()


def value_in(text: str) -> dict[str, Any]:
    """Read a value of the server; one that is not ours is empty."""
    if len(text) > LARGEST_VALUE:
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def health_in(text: str) -> BackendHealth:
    """Read the health of a backend. Of a value that is not ours, nothing is known."""
    known = fields_dict(BackendHealth)
    value = {name: each for name, each in value_in(text).items() if name in known}
    spent = value.pop("spent", None)
    if not isinstance(spent, list) or len(spent) != len(UNKNOWN.spent):
        return UNKNOWN
    counts = [*spent, value.get("opened", 0)]
    moments = [value.get(name, 0.0) for name in ("since", "until", "tried_until")]
    is_ours = (
        value.get("state") in STATES
        and all(is_whole(each, 0, LARGEST) for each in counts)
        and all(is_number(each, 0, LARGEST) for each in moments)
        and isinstance(value.get("why", ""), str)
    )
    return BackendHealth(**value, spent=tuple(spent)) if is_ours else UNKNOWN


def until_in(by_hand: Mapping[str, Any]) -> float:
    """Return until when a backend is open by hand; 0 if it is not."""
    until = by_hand.get("until")
    return until if is_number(until, 0, LARGEST) else 0.0


def opened_in(text: str, by_hand: str, now: float) -> BackendHealth:
    """Read the health of a backend, which may be open by hand for longer.

    Arguments:
        text: what attempts have shown.
        by_hand: until when it is open by hand.
        now: the time of the server.
    """
    health = health_in(text)
    until = until_in(value_in(by_hand))
    if until <= max(now, health.until):
        return health
    return BackendHealth(state=OPEN, until=until, why=BY_HAND)


# Answers of the server: each function returns what an answer says, or raises a ValueError or a
# TypeError if no script of ours says it.

LARGEST_WAIT: Final = 10.0**6
"""The most seconds that a quota lets anybody wait."""


def anything(answer: Any) -> None:
    """Read nothing."""


def taken_in(answer: Any) -> tuple[float, bool, int]:
    """Return the wait, whether there was room, and the processes of the last minute."""
    wait, is_given, processes = answer
    return _number(wait, LARGEST_WAIT), bool(is_given), max(_whole(processes), 1)


def held_in(answer: Any, levels: int) -> tuple[bool, list[tuple[Paid, float]]]:
    """Return whether an amount is held, and for each level what is paid and its age."""
    is_held, *counts = answer
    if len(counts) != 4 * levels:
        raise ValueError
    found = []
    for start in range(0, len(counts), 4):
        attempts, tokens, money, age = counts[start : start + 4]
        paid = Paid(_whole(attempts), _whole(tokens), _whole(money) * MICRO)
        found.append((paid, _number(age, LARGEST)))
    return bool(is_held), found


def values_in(answer: Any, count: int) -> tuple[float, list[str]]:
    """Return the time of the server, in seconds since 1970, and so many values."""
    seconds, microseconds, *values = answer
    if len(values) != count:
        raise ValueError
    return _whole(seconds) + _whole(microseconds) / 1e6, list(map(str, values))


def swapped_in(answer: Any) -> tuple[bool, str]:
    """Return whether a value was replaced, and the one that is there now."""
    is_written, value = answer
    return bool(is_written), str(value)


def names_in(answer: Any) -> list[str]:
    """Return the names of keys."""
    return sorted(map(str, answer))


def _number(value: Any, most: float) -> float:
    number = float(value)
    if not 0 <= number <= most:
        raise ValueError
    return number


def _whole(value: Any) -> int:
    return int(_number(value, LARGEST))
