"""The values that the store in Redis reads and writes. One that is not ours counts as nothing."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import orjson
from attrs import asdict, fields_dict, frozen

from rungwise.adapters.stores.memory import UNKNOWN
from rungwise.fsm.health.health import BackendHealth
from rungwise.fsm.health.table import STATES
from rungwise.fsm.values.checks import LARGEST, is_number, is_whole
from rungwise.fsm.values.money import UNITS

MICRO: Final = UNITS // 10**6
"""Units of money that the server counts as one, because its numbers hold fifteen digits. What goes
there is rounded up.
"""

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
