"""The store in Redis or Valkey, which many processes share; each goes on with what it knows itself while that is away.

What is remembered of a backend is one value, which the same pure functions change as in memory: a process writes what
follows from the value that it has read, and only if nobody has written another meanwhile. So one probe is out in all
processes, and the table stays the only place that decides. Most calls find nothing remembered, and cost one read.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
from attrs import asdict, fields_dict, frozen

from rungwise.adapters.stores.memory import UNKNOWN, MemoryStore
from rungwise.adapters.stores.store import Command, Work
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.health import BackendHealth, Choice, Health, Symptom, choose
from rungwise.fsm.health.table import STATES
from rungwise.fsm.values.checks import LARGEST, is_number, is_whole

TIMEOUT: Final = 0.5
"""Seconds to wait for an answer of the server, and for a connection to it."""

AWAY: Final = 1.0
"""Seconds for which a server that did not answer is not asked."""

KEPT: Final = 3_600.0
"""Seconds for which a value outlives its last end."""

TRIES: Final = 8
"""How often a change is tried that others come before."""

LARGEST_VALUE: Final = 4_096
"""Characters of a value that are read; what is longer is none of ours."""

VALUE: Final = """
local function value_of(key)
  local value = redis.pcall('GET', key) -- an error is a table, and a key of another type none of ours
  return type(value) == 'string' and value or ''
end
"""

READ: Final = f"""{VALUE}
local found = redis.call('TIME')
for i = 1, #KEYS do
  found[#found + 1] = value_of(KEYS[i])
end
return found
"""

SWAP: Final = f"""{VALUE}
local value = value_of(KEYS[1])
if value ~= ARGV[1] then
  return {{0, value}}
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return {{1, ARGV[2]}}
"""


@frozen
class StoreKey:
    """Identify a backend with its key in every process.

    Arguments:
        digest: of its URL, model and key, none of which it reveals.
        name: the backend's name, for those who look at the store.
    """

    digest: str
    name: str = ""


class RedisStore:
    """Hold the health of backends in Redis or Valkey.

    Arguments:
        url: as redis-py takes it, such as `redis://localhost:6379/0`.
        clock: returns seconds on a monotonic clock; that of the server counts, as far as this process knows it.
        namespace: what every key begins with.

    Raises:
        ConfigurationError: the URL is none, or redis-py is not installed.
    """

    def __init__(self, url: str, clock: Callable[[], float], namespace: str = "rungwise") -> None:
        try:
            import redis
        except ImportError:
            raise ConfigurationError("a store in Redis needs the extra: pip install 'rungwise[redis]'") from None
        try:
            self._redis = redis.Redis.from_url(
                url, retry=None, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, decode_responses=True
            )
        except ValueError:  # whose message may hold a password
            raise ConfigurationError("store must be a URL such as redis://localhost:6379/0") from None
        self._error = redis.RedisError
        self._scripts = {"read": self._redis.register_script(READ), "swap": self._redis.register_script(SWAP)}
        self._clock, self._namespace = clock, namespace
        self._offset = 0.0  # of the server's clock from ours
        self._local = MemoryStore(clock)
        self._seen: dict[StoreKey, str] = {}
        self._local_probes: set[StoreKey] = set()  # sent while the server was away
        self._away_until, self._has_warned = -math.inf, False

    def now(self) -> float:
        """Return the server's seconds since 1970; before it has answered, those on our clock."""
        return self._clock() + self._offset

    def key_of(self, link: Link) -> StoreKey:
        """Return what identifies a backend here; the same in every process."""
        identity: str = getattr(link, "digest", None) or repr(sorted(link.identities))
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

    def note(self, key: StoreKey, symptom: Symptom, rules: Health, *, sent_at: float, was_probe: bool) -> Work[None]:
        """Remember what an attempt has shown of its backend; see `Store.note`."""
        yield from self._local.note(key, symptom, rules, sent_at=sent_at - self._offset, was_probe=was_probe)
        if was_probe and key in self._local_probes:  # of which the server knows nothing
            self._local_probes.discard(key)
            was_probe = False
        if symptom.event in (None, "answered") and not was_probe and not self._seen.get(key):
            return  # as nearly always: nothing is remembered of it
        if key not in self._seen and (yield from self._known([key])) is None:
            return  # nor is the server's time known
        for _ in range(TRIES):
            known = _parsed(self._seen.get(key, ""))
            after = known.after(
                symptom, self.now(), rules, sent_at=sent_at, was_probe=was_probe, draw=self._local.draw()
            )
            if after == known or (yield from self._swapped(key, after)) is not False:
                return

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
        return [(StoreKey(key.digest, str(name)), health) for key, name, health in zip(keys, names, known, strict=True)]

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
            self._has_warned = True
            kind = type(answer).__name__
            logging.getLogger("rungwise").warning(
                "the store is away (%s); each process goes on with what it knows", kind
            )
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
        """Write what follows from the value that was seen last; False if there is another, None if nobody answers."""
        value = orjson.dumps({**asdict(health), "since": max(health.since, 0.0), "name": key.name}).decode()
        milliseconds = int(1000 * (max(health.until, health.tried_until) - self.now() + KEPT))
        seen = self._seen.get(key, "")
        answer = yield from self._asked(("swap", [self._name(key.digest)], [seen, value, max(milliseconds, 1000)]))
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
    value = {name: each for name, each in _value(text).items() if name in fields_dict(BackendHealth)}
    spent, numbers = value.pop("spent", None), [value.get(name, 0.0) for name in ("since", "until", "tried_until")]
    is_ours = (
        value.get("state") in STATES
        and isinstance(spent, list)
        and len(spent) == len(UNKNOWN.spent)
        and all(is_whole(each, 0, LARGEST) for each in (*spent, value.get("opened", 0)))
        and all(is_number(each, 0, LARGEST) for each in numbers)
        and isinstance(value.get("why", ""), str)
    )
    return BackendHealth(**value, spent=tuple(spent)) if is_ours else UNKNOWN
