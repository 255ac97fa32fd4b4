"""The store in Redis or Valkey, which many processes share.

Theory. The health of a backend is one value in the server. A process reads it, computes the next
value with the same pure functions as the store in memory, and writes that only if the value is
still the one it has read (compare and swap, in `swap.lua`). If another process came first, it tries
again with the new value. So only one process sends a probe, and the table of the health machine
stays the only place that decides. Most calls find nothing remembered, and cost one read.

What is open by hand is a value of its own for the name of a backend, which is read in the same
step. No attempt changes it, and the server drops it at its end.

Quotas and budgets change with every attempt, and there compare and swap would often fail. So their
arithmetic runs in the server, in Lua, each operation in one step: `take.lua` and `pay.lua` do what
`QuotaMeter` does, `hold.lua` and `paid.lua` what the ledgers do; `heart.py` keeps it alive.

While the server is away, each process goes on with what it knows itself: the health that it has
seen, and its share of a quota among the processes of the last minute. Only a budget that must not
continue alone stops (`Ledger.continues`).
"""

from __future__ import annotations

import logging
import math
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from rungwise.adapters.stores.budgets import Answer
from rungwise.adapters.stores.heart import LEASE, Heart, Names
from rungwise.adapters.stores.memory import MemoryStore
from rungwise.adapters.stores.redis_scripts import SCRIPTS
from rungwise.adapters.stores.redis_values import (
    BY_HAND,
    StoreKey,
    anything,
    ceilings_of,
    digest_of,
    ends_of,
    health_in,
    held_in,
    micros,
    opened_in,
    or_blank,
    swapped_in,
    taken_in,
    values_in,
    written,
)
from rungwise.adapters.stores.store import Command, Work, perform
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.health import BackendHealth, Health, HealthChoice, Symptom, choose
from rungwise.fsm.health.quota import FORGOTTEN, POLL, TINY, Claim, Quota, Settlement

T = TypeVar("T")

LOGGER: Final = logging.getLogger("rungwise")

TIMEOUT: Final = 0.5
"""Seconds that an operation may take, with its connection and all its commands."""

AWAY: Final = 1.0  # seconds for which nobody asks a server that did not answer
TRIES: Final = 8  # how often to try a change while other processes come first
KEPT: Final = 3_600.0  # seconds for which a value is kept after the last moment that it names


class RedisStore:
    """Hold health, quotas and budgets in Redis or Valkey.

    All times are those of the server's clock, which this process estimates from its own.

    Arguments:
        url: the server, as redis-py takes it.
        clock: returns seconds on a clock of this process.
        namespace: what every key in the server begins with.

    Raises:
        ConfigurationError: redis-py is missing, or the URL is malformed.
    """

    def __init__(self, url: str, clock: Callable[[], float], namespace: str = "rungwise") -> None:
        try:
            import redis

            from rungwise.adapters.stores.redis_connection import BOUNDS, connection_for
        except ImportError:
            raise ConfigurationError(
                "a store in Redis needs the extra: pip install 'rungwise[redis]'"
            ) from None
        try:
            self._redis = redis.Redis.from_url(
                url,
                retry=None,
                protocol=2,  # in which a server can push nothing
                connection_class=connection_for(url),
                socket_timeout=TIMEOUT,
                socket_connect_timeout=TIMEOUT,
                decode_responses=True,
            )
        except ValueError:  # whose message may hold a password
            raise ConfigurationError(
                "store must be a URL such as redis://localhost:6379/0"
            ) from None
        self._bounds = BOUNDS
        self._scripts = {
            name: self._redis.register_script(script) for name, script in SCRIPTS.items()
        }
        self._process = f"{os.getpid()} {secrets.token_hex(8)}"
        self._processes = 1  # how many the server has seen in the last minute
        self._clock = clock
        self._namespace = namespace
        self._offset = 0.0  # seconds by which the server's clock is ahead of ours
        self._heart = Heart(self._renew)
        self._local = MemoryStore(clock)
        self._seen: dict[StoreKey, str] = {}
        self._local_probes: set[StoreKey] = set()  # sent while the server was away
        self._away_until = -math.inf
        self._warned: set[str] = set()

    def now(self) -> float:
        """Return the server's seconds since 1970; before it has answered, those on our clock."""
        return self._clock() + self._offset

    def key_of(self, link: Backend) -> StoreKey:
        """Return what identifies a backend and its key, the same in every process."""
        identity = link.digest or repr(sorted(link.account))
        return StoreKey(digest_of(identity), link.name)

    def choose(
        self, keys: Sequence[StoreKey], rules: Health, lease: float
    ) -> Work[tuple[HealthChoice, Sequence[BackendHealth]]]:
        """Choose which of some backends a call asks; see `Store.choose`."""
        until = self._clock() + TIMEOUT
        for _ in range(TRIES):
            known = yield from self._known(keys, until)
            if known is None:
                break
            choice = choose(known, self.now(), rules, min(lease, LEASE))
            if (yield from self._all_swapped(keys, choice.changed, until)):
                if choice.is_probe:
                    name = self._name(keys[choice.place].digest)
                    self._heart.hold(name, (name,), lease)
                return choice, known
        choice, seen = yield from self._local.choose(keys, rules, lease)
        if choice.is_probe:
            self._local_probes.add(keys[choice.place])
        return choice, seen

    def note(
        self, key: StoreKey, symptom: Symptom, rules: Health, *, sent_at: float, was_probe: bool
    ) -> Work[None]:
        """Remember what an attempt has shown of its backend.

        Arguments: as for `Store.note`.
        """
        if was_probe:
            self._heart.drop(self._name(key.digest))
        sent_here = sent_at - self._offset
        yield from self._local.note(key, symptom, rules, sent_at=sent_here, was_probe=was_probe)
        if was_probe and key in self._local_probes:  # the server knows nothing of that probe
            self._local_probes.discard(key)
            was_probe = False
        is_harmless = symptom.event in (None, "answered") and not was_probe
        if is_harmless and not self._seen.get(key):
            return  # as nearly always: nothing is remembered of it
        until = self._clock() + TIMEOUT
        if key not in self._seen and (yield from self._known([key], until)) is None:
            return  # the server is away, and its time is unknown
        for _ in range(TRIES):
            known = health_in(self._seen.get(key, ""))
            after = known.after(
                symptom,
                self.now(),
                rules,
                sent_at=sent_at,
                was_probe=was_probe,
                draw=self._local.draw(),
            )
            if after == known:
                return
            is_written = yield from self._swapped(key, after, until)
            if is_written is not False:
                return

    def take(self, key: StoreKey, quota: Quota, claim: Claim) -> Work[tuple[float, bool]]:
        """Let an attempt through; see `Store.take`."""
        arguments = (  # in the order in which take.lua names them
            claim.attempt,
            claim.tokens,
            claim.longest,
            LEASE,
            self._process,
            FORGOTTEN,
            POLL,
            key.name,
            TINY,
        )
        answer = yield from self._count("take", key, quota, arguments, taken_in)
        if answer is None:
            return (yield from self._local.take(key, quota.shared_by(self._processes), claim))
        wait, is_given, self._processes = answer
        if is_given:
            self._heart.hold(claim.attempt, (self._name(key.digest, "quota"),), wait + claim.lease)
        return wait, is_given

    def pay(self, key: StoreKey, quota: Quota, paid: Settlement) -> Work[None]:
        """Count what an attempt has used; see `Store.pay`."""
        self._heart.drop(paid.attempt)
        yield from self._local.pay(key, quota.shared_by(self._processes), paid)
        arguments = (  # in the order in which pay.lua names them
            paid.attempt,
            paid.unused,
            paid.requests_left,
            paid.tokens_left,
            paid.asked_wait,
            int(paid.was_sent),
        )
        yield from self._count("pay", key, quota, arguments, anything)

    def hold(
        self, attempt: str, lease: float, reserved: Paid, ledgers: Sequence[Ledger]
    ) -> Work[Answer]:
        """Hold what an attempt may use of budgets.

        Arguments: as for `BudgetStore.hold`.
        """
        names = self._budgets(ledgers)
        arguments: list[object] = [attempt, LEASE, reserved.tokens, micros(reserved.money)]
        arguments += ceilings_of(ledgers)
        read = partial(held_in, levels=len(ledgers))
        until = self._clock() + TIMEOUT
        answer = yield from self._asked(("hold", names, arguments), read, until)
        if answer is not None and answer[0]:
            self._heart.hold(attempt, names, lease)
        return answer

    def paid(self, attempt: str, paid: Paid, ledgers: Sequence[Ledger]) -> Work[None]:
        """Count what an attempt has paid; see `BudgetStore.paid`."""
        self._heart.drop(attempt)
        arguments: list[object] = [attempt, paid.attempts, paid.tokens, micros(paid.money)]
        arguments += ends_of(ledgers)
        command = ("paid", self._budgets(ledgers), arguments)
        yield from self._asked(command, anything, self._clock() + TIMEOUT)

    def _renew(self, names: Names, attempts: Sequence[str]) -> None:
        command = ("renew", names, [LEASE, *attempts])
        perform(self, self._asked(command, anything, self._clock() + TIMEOUT))

    def _budgets(self, ledgers: Sequence[Ledger]) -> Names:
        return tuple([self._name(digest_of(each.name), "budget") for each in ledgers])

    def _count(
        self,
        script: str,
        key: StoreKey,
        quota: Quota,
        arguments: Sequence[object],
        read: Callable[[Any], T],
    ) -> Work[T | None]:
        """Run a script on the meter of a backend.

        Arguments:
            script: the name of the script.
            key: the backend.
            quota: its quota, whose three limits come first among the script's arguments.
            arguments: the others; None goes out as "".
            read: reads the answer.
        """
        limits = (quota.requests_per_minute, quota.tokens_per_minute, quota.concurrent)
        command = (script, [self._name(key.digest, "quota")], or_blank(*limits, *arguments))
        return (yield from self._asked(command, read, self._clock() + TIMEOUT))

    def read(self, keys: Sequence[StoreKey]) -> Work[Sequence[BackendHealth]]:
        """Return what is remembered of some backends."""
        known = yield from self._known(keys, self._clock() + TIMEOUT)
        return (yield from self._local.read(keys)) if known is None else known

    @property
    def is_away(self) -> bool:
        """Tell whether the server did not answer a moment ago."""
        return self._clock() < self._away_until

    def execute(self, command: Command) -> Any:
        """Send a command to the server, and wait for its answer; return the error if none comes."""
        name, keys, values, until = command
        seconds = until - self._clock()
        if seconds <= 0 or self.is_away:  # in an event loop, it has waited for a thread
            return TimeoutError()
        self._bounds.begin(seconds)
        try:
            if name == "scan":
                return list(self._redis.scan_iter(keys, count=1_000))
            return self._scripts[name](keys=keys, args=values)
        except Exception as error:  # whatever redis-py makes of an answer that is none
            return error

    def _name(self, digest: str, kind: str = "health") -> str:
        return f"{self._namespace}:{kind}:{digest}"

    def _asked(self, command: Command, read: Callable[[Any], T], until: float) -> Work[T | None]:
        """Ask the server; return None if it is away, or says what is not ours.

        Arguments:
            command: what to ask.
            read: reads the answer, or raises a ValueError.
            until: when the operation must have ended, on our clock.
        """
        if self.is_away:
            return None
        answer = yield (*command, until)
        if isinstance(answer, Exception):
            self._away_until = self._clock() + AWAY
            kind = type(answer).__name__
            self._warn(f"is away ({kind}); each process goes on with what it knows")
            return None
        try:
            return read(answer)
        except (ValueError, TypeError, OverflowError):
            self._warn("says what is not ours, which counts as nothing")
            return None

    def _warn(self, what: str) -> None:
        """Warn once of each thing."""
        kind = what.partition(" (")[0]
        if kind not in self._warned:
            self._warned.add(kind)
            LOGGER.warning("the store %s", what)

    def _known(self, keys: Sequence[StoreKey], until: float) -> Work[list[BackendHealth] | None]:
        """Read what is remembered, and what is open by hand; None if the server is away."""
        began = self._clock()
        names = [self._name(key.digest) for key in keys]
        names += [self._name(digest_of(key.name), BY_HAND) for key in keys]
        read = partial(values_in, count=len(names))
        answer = yield from self._asked(("read", names, []), read, until)
        if answer is None:
            return None
        now, values = answer
        # the server read its clock about halfway between the question and the answer
        halfway = (began + self._clock()) / 2
        self._offset = now - halfway
        self._seen.update(zip(keys, values, strict=False))
        by_hand = values[len(keys) :]
        return [opened_in(value, hand, now) for value, hand in zip(values, by_hand, strict=False)]

    def _all_swapped(
        self,
        keys: Sequence[StoreKey],
        changed: Iterable[tuple[int, BackendHealth]],
        until: float,
    ) -> Work[bool]:
        """Replace what was seen last of some backends, which stand by their places in `keys`.

        Returns:
            Whether all was still there: otherwise another process came first, or the server is
            away.
        """
        for place, health in changed:
            if not (yield from self._swapped(keys[place], health, until)):
                return False
        return True

    def _swapped(self, key: StoreKey, health: BackendHealth, until: float) -> Work[bool | None]:
        """Replace the value that was seen last.

        Returns:
            Whether it was still there; None if the server is away.
        """
        seconds = max(self.now(), health.until, health.tried_until) - self.now() + KEPT
        arguments = [self._seen.get(key, ""), written(health, key.name), int(1000 * seconds)]
        command = ("swap", [self._name(key.digest)], arguments)
        answer = yield from self._asked(command, swapped_in, until)
        if answer is None:
            return None
        is_written, self._seen[key] = answer
        return is_written
