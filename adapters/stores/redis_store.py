"""The store in Redis or Valkey, which many processes share; each goes on with what it knows itself
while that is away.

What is remembered of a backend is one value, which the same pure functions change as in memory: a
process writes what follows from the value that it has read, and only if nobody has written another
meanwhile. So one probe is out in all processes, and the table stays the only place that decides.
Most calls find nothing remembered, and cost one read.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from attrs import asdict, fields_dict, frozen

from rungwise.adapters.stores.budgets import Answer
from rungwise.adapters.stores.memory import UNKNOWN, MemoryStore
from rungwise.adapters.stores.store import Command, Work
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.health import BackendHealth, Choice, Health, Symptom, choose
from rungwise.fsm.health.quota import FORGOTTEN, POLL, TINY, Claim, Quota, Settlement
from rungwise.fsm.health.table import STATES
from rungwise.fsm.values.checks import LARGEST, is_number, is_whole
from rungwise.fsm.values.money import UNITS

LOGGER: Final = logging.getLogger("rungwise")

EPOCH: Final = 1_700_000_000
"""The moment from which meters and budgets count, in seconds since 1970."""

TIMEOUT: Final = 0.5
"""Seconds to wait for an answer of the server, and for a connection to it."""

AWAY: Final = 1.0
"""Seconds for which a server that did not answer is not asked."""

KEPT: Final = 3_600.0
"""Seconds for which a value outlives its last end."""

TRIES: Final = 8
"""How often a change is tried that others come before."""

MICRO: Final = UNITS // 10**6
"""Units of money that are counted as one in the server, whose numbers hold fifteen digits; always
rounded up.
"""

LARGEST_VALUE: Final = 2**20
"""Characters of a value that are read; what is longer is none of ours."""


def _script(*names: str) -> str:
    """Return what some files in `lua/` hold, in this order: the last one is the script, those
    before it are shared.
    """
    files = [Path(__file__).with_name("lua") / f"{name}.lua" for name in names]
    return "".join(
        [f"local EPOCH = {EPOCH}\n", *(file.read_text(encoding="utf-8") for file in files)]
    )


SCRIPTS: Final = {
    "read": _script("value", "read"),
    "swap": _script("value", "swap"),
    "take": _script("value", "tables", "meter", "take"),
    "pay": _script("value", "tables", "meter", "pay"),
    "hold": _script("value", "tables", "budgets", "hold"),
    "paid": _script("value", "tables", "budgets", "paid"),
}
"""What runs in Redis, each in one step. Values that are none of ours count as nothing."""


@frozen
class StoreKey:
    """Identify a backend with its key in every process."""

    digest: str  # of its URL, model and key, none of which it reveals
    name: str = ""  # of the backend, for those who look at the store


class RedisStore:
    """Hold the health of backends in Redis or Valkey, at a URL as redis-py takes it, or raise a
    ConfigurationError.

    The clock of the server counts, as far as this process knows it from its own. Every key begins
    with the namespace.
    """

    def __init__(self, url: str, clock: Callable[[], float], namespace: str = "rungwise") -> None:
        try:
            import redis
        except ImportError:
            raise ConfigurationError(
                "a store in Redis needs the extra: pip install 'rungwise[redis]'"
            ) from None
        try:
            self._redis = redis.Redis.from_url(
                url,
                retry=None,
                socket_timeout=TIMEOUT,
                socket_connect_timeout=TIMEOUT,
                decode_responses=True,
            )
        except ValueError:  # whose message may hold a password
            raise ConfigurationError(
                "store must be a URL such as redis://localhost:6379/0"
            ) from None
        self._error = redis.RedisError
        self._scripts = {
            name: self._redis.register_script(script) for name, script in SCRIPTS.items()
        }
        # that were seen in the last minute
        self._process = f"{os.getpid()} {secrets.token_hex(8)}"
        self._processes = 1
        self._clock = clock
        self._namespace = namespace
        self._offset = 0.0  # of the server's clock from ours
        self._local = MemoryStore(clock)
        self._seen: dict[StoreKey, str] = {}
        self._local_probes: set[StoreKey] = set()  # sent while the server was away
        self._away_until = -math.inf
        self._has_warned = False

    def now(self) -> float:
        """Return the server's seconds since 1970; before it has answered, those on our clock."""
        return self._clock() + self._offset

    def key_of(self, link: Backend) -> StoreKey:
        """Return what identifies a backend here; the same in every process."""
        identity = link.digest or repr(sorted(link.identities))
        return StoreKey(hashlib.sha256(identity.encode()).hexdigest()[:32], link.name)

    def choose(
        self, keys: Sequence[StoreKey], rules: Health, lease: float
    ) -> Work[tuple[Choice, Sequence[BackendHealth]]]:
        """Choose which of some backends a call asks; see `Store.choose`."""
        for _ in range(TRIES):
            known = yield from self._known(keys)
            if known is None:
                break
            choice = choose(known, self.now(), rules, lease)
            for place, changed in choice.changed:
                if not (yield from self._swapped(keys[place], changed)):
                    break
            else:
                return choice, known
        chosen = yield from self._local.choose(keys, rules, lease)
        if chosen[0].is_probe:
            self._local_probes.add(keys[chosen[0].place])
        return chosen

    def note(
        self, key: StoreKey, symptom: Symptom, rules: Health, *, sent_at: float, was_probe: bool
    ) -> Work[None]:
        """Remember what an attempt has shown of its backend; see `Store.note`."""
        yield from self._local.note(
            key, symptom, rules, sent_at=sent_at - self._offset, was_probe=was_probe
        )
        if was_probe and key in self._local_probes:  # of which the server knows nothing
            self._local_probes.discard(key)
            was_probe = False
        if symptom.event in (None, "answered") and not was_probe and not self._seen.get(key):
            return  # as nearly always: nothing is remembered of it
        if key not in self._seen and (yield from self._known([key])) is None:
            return  # nor is the server's time known
        for _ in range(TRIES):
            known = _parsed(self._seen.get(key, ""))
            now = self.now()
            draw = self._local.draw()
            after = known.after(
                symptom, now, rules, sent_at=sent_at, was_probe=was_probe, draw=draw
            )
            if after == known or (yield from self._swapped(key, after)) is not False:
                return

    def take(self, key: StoreKey, quota: Quota, claim: Claim) -> Work[tuple[float, bool]]:
        """Let an attempt through; see `Store.take`."""
        sizes = (
            claim.tokens,
            claim.longest,
            claim.lease,
            self._process,
            FORGOTTEN,
            POLL,
            key.name,
            TINY,
        )
        answer = yield from self._count("take", key, quota, claim.attempt, *sizes)
        if answer is None:
            return (yield from self._local.take(key, quota.shared_by(self._processes), claim))
        wait = float(answer[0])
        is_given = bool(answer[1])
        self._processes = max(int(answer[2]), 1)
        return wait, is_given

    def pay(self, key: StoreKey, quota: Quota, paid: Settlement) -> Work[None]:
        """Count what an attempt has used; see `Store.pay`."""
        yield from self._local.pay(key, quota.shared_by(self._processes), paid)
        sizes = (
            paid.unused,
            paid.requests_left,
            paid.tokens_left,
            paid.asked_wait,
            int(paid.was_sent),
        )
        yield from self._count("pay", key, quota, paid.attempt, *sizes)

    def hold(
        self, attempt: str, lease: float, reserved: Paid, ledgers: Sequence[Ledger]
    ) -> Work[Answer]:
        """Hold what an attempt may use of budgets; see `BudgetStore.hold`."""
        most = (
            [each.budget.attempts for each in ledgers],
            [each.budget.output_tokens for each in ledgers],
        )
        money = [None if each.most_money is None else each.most_money // MICRO for each in ledgers]
        ceilings = [
            "" if each is None else each
            for level in zip(*most, money, strict=True)
            for each in level
        ]
        arguments = [attempt, lease, reserved.tokens, -(-reserved.money // MICRO), *ceilings]
        answer = yield from self._asked(("hold", self._budgets(ledgers), arguments))
        if answer is None:
            return None
        levels = [answer[place : place + 4] for place in range(1, len(answer), 4)]
        paid = [
            (Paid(int(sent), int(tokens), int(money) * MICRO), float(age))
            for sent, tokens, money, age in levels
        ]
        return bool(answer[0]), paid

    def paid(self, attempt: str, paid: Paid, ledgers: Sequence[Ledger]) -> Work[None]:
        """Count what an attempt has paid; see `BudgetStore.paid`."""
        arguments = [attempt, paid.attempts, paid.tokens, -(-paid.money // MICRO)]
        yield from self._asked(("paid", self._budgets(ledgers), arguments))

    def _budgets(self, ledgers: Sequence[Ledger]) -> list[str]:
        digests = [hashlib.sha256(ledger.name.encode()).hexdigest()[:32] for ledger in ledgers]
        return [f"{self._namespace}:budget:{digest}" for digest in digests]

    def _count(self, script: str, key: StoreKey, quota: Quota, *arguments: object) -> Work[Any]:
        values = (quota.requests_per_minute, quota.tokens_per_minute, quota.concurrent, *arguments)
        name = f"{self._namespace}:quota:{key.digest}"
        return (
            yield from self._asked(
                (script, [name], ["" if each is None else each for each in values])
            )
        )

    def read(self, keys: Sequence[StoreKey]) -> Work[Sequence[BackendHealth]]:
        """Return what is remembered of some backends."""
        known = yield from self._known(keys)
        return (yield from self._local.read(keys)) if known is None else known

    def listed(self) -> Work[Sequence[tuple[StoreKey, BackendHealth]]]:
        """Return every backend of which something is remembered."""
        digests = yield from self._asked(("scan", self._name("*")))
        keys = [StoreKey(each.rpartition(":")[2]) for each in digests or ()]
        known = yield from self._known(keys)
        if known is None:
            return []
        names = [_value(self._seen.get(key, "")).get("name", "") for key in keys]
        return [
            (StoreKey(key.digest, str(name)), health)
            for key, name, health in zip(keys, names, known, strict=True)
        ]

    def metered(self) -> Work[Sequence[tuple[StoreKey, dict[str, Any]]]]:
        """Return the meter of each backend with a quota as the server keeps it, and the moment
        `now` on its clock.
        """
        names = (yield from self._asked(("scan", f"{self._namespace}:quota:*"))) or ()
        seconds, microseconds, *values = (yield from self._asked(("read", list(names), []))) or (
            0,
            0,
        )
        now = int(seconds) - EPOCH + int(microseconds) / 1e6
        meters = zip([name.rpartition(":")[2] for name in names], map(_value, values), strict=False)
        return [
            (StoreKey(digest, str(meter.get("name", ""))), {**meter, "now": now})
            for digest, meter in meters
        ]

    @property
    def is_away(self) -> bool:
        """Tell whether the server did not answer a moment ago."""
        return self._clock() < self._away_until

    def execute(self, command: Command) -> Any:
        """Send a command to the server, and wait for its answer; return the error if none comes."""
        name, *arguments = command
        try:
            if name == "scan":
                return sorted(self._redis.scan_iter(arguments[0], count=1_000))
            keys, values = arguments
            return self._scripts[name](keys=keys, args=values)
        except self._error as error:
            return error

    def _name(self, digest: str) -> str:
        return f"{self._namespace}:health:{digest}"

    def _asked(self, command: Command) -> Work[Any]:
        """Ask the server; return None if it is away."""
        if self.is_away:
            return None
        answer = yield command
        if not isinstance(answer, Exception):
            return answer
        self._away_until = self._clock() + AWAY
        if not self._has_warned:
            self._has_warned, kind = True, type(answer).__name__
            LOGGER.warning("the store is away (%s); each process goes on with what it knows", kind)
        return None

    def _known(self, keys: Sequence[StoreKey]) -> Work[list[BackendHealth] | None]:
        """Read what is remembered; None if the server is away."""
        began = self._clock()
        answer = yield from self._asked(("read", [self._name(key.digest) for key in keys], []))
        if answer is None:
            return None
        seconds, microseconds, *values = answer
        self._offset = int(seconds) + int(microseconds) / 1e6 - (began + self._clock()) / 2
        self._seen.update(zip(keys, values, strict=True))
        return [_parsed(value) for value in values]

    def _swapped(self, key: StoreKey, health: BackendHealth) -> Work[bool | None]:
        """Write what follows from the value that was seen last; False if there is another, None if
        nobody answers.
        """
        value = orjson.dumps(
            {**asdict(health), "since": max(health.since, 0.0), "name": key.name}
        ).decode()
        milliseconds = int(1000 * (max(health.until, health.tried_until) - self.now() + KEPT))
        seen = self._seen.get(key, "")
        answer = yield from self._asked(
            ("swap", [self._name(key.digest)], [seen, value, max(milliseconds, 1000)])
        )
        if answer is None:
            return None
        self._seen[key] = str(answer[1])
        return bool(answer[0])


def _value(text: str) -> dict[str, Any]:
    """Read a value; what is none of ours is empty."""
    try:
        value = orjson.loads(text) if len(text) <= LARGEST_VALUE else {}
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _parsed(text: str) -> BackendHealth:
    """Read what is remembered of a backend; nothing from a value that is none of ours."""
    value = {
        name: each for name, each in _value(text).items() if name in fields_dict(BackendHealth)
    }
    spent = value.pop("spent", None)
    numbers = [value.get(name, 0.0) for name in ("since", "until", "tried_until")]
    is_ours = (
        value.get("state") in STATES
        and isinstance(spent, list)
        and len(spent) == len(UNKNOWN.spent)
        and all(is_whole(each, 0, LARGEST) for each in (*spent, value.get("opened", 0)))
        and all(is_number(each, 0, LARGEST) for each in numbers)
        and isinstance(value.get("why", ""), str)
    )
    return BackendHealth(**value, spent=tuple(spent)) if is_ours else UNKNOWN
