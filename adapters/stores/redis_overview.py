"""A store in Redis as those who operate it see it: all that is remembered, and hands on health."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import orjson

from rungwise.adapters.stores.redis_scripts import EPOCH
from rungwise.adapters.stores.redis_store import KEPT, TRIES, RedisStore
from rungwise.adapters.stores.redis_values import (
    BY_HAND,
    StoreKey,
    digest_of,
    names_in,
    swapped_in,
    until_in,
    value_in,
    values_in,
    written,
)
from rungwise.adapters.stores.store import Work
from rungwise.fsm.health.health import BackendHealth

LISTING: Final = 5.0  # seconds that listing everything may take
MILLISECOND: Final = 0.001


class RedisOverview(RedisStore):
    """List what a store in Redis holds, and open or close backends by hand."""

    def listed(self) -> Work[Sequence[tuple[StoreKey, BackendHealth]]]:
        """Return every backend of which something is remembered."""
        until = self._clock() + LISTING
        names = yield from self._asked(("scan", self._name("*"), ()), names_in, until)
        keys = [StoreKey(each.rpartition(":")[2]) for each in names or ()]
        known = yield from self._known(keys, until)
        if known is None:
            return []
        shown = [value_in(self._seen.get(key, "")).get("name", "") for key in keys]
        return [
            (StoreKey(key.digest, str(name)), health)
            for key, name, health in zip(keys, shown, known, strict=True)
        ]

    def metered(self) -> Work[Sequence[tuple[StoreKey, dict[str, Any]]]]:
        """Return the meter of each backend with a quota, as the server keeps it.

        Each meter also has `now`, the moment on the clock that it counts on.
        """
        now, values = yield from self._values("quota")
        meters: list[tuple[StoreKey, dict[str, Any]]] = []
        for name, meter in values.items():
            meter["now"] = now - EPOCH
            key = StoreKey(name.rpartition(":")[2], str(meter.get("name", "")))
            meters.append((key, meter))
        return meters

    def opened_by_hand(self) -> Work[dict[str, float]]:
        """Return until when backends are open by hand, by their names."""
        now, values = yield from self._values(BY_HAND)
        ends = {str(value.get("name")): until_in(value) for value in values.values()}
        return {name: end for name, end in ends.items() if end > now}

    def open(self, name: str, seconds: float) -> Work[float]:
        """Let calls pass over the backends of a name, and return until when."""
        yield from self.listed()  # which reads the time of the server
        until = self.now() + seconds
        value = orjson.dumps({"name": name, "until": until}).decode()
        yield from self._put(self._name(digest_of(name), BY_HAND), value, seconds)
        return until

    def close(self, name: str) -> Work[bool]:
        """Forget what opened the backends of a name; return whether there was anything."""
        known = yield from self.listed()
        by_hand = yield from self.opened_by_hand()
        keys = [key for key, _ in known if key.name == name]
        for key in keys:
            # what was sent before is out of date
            health = written(BackendHealth(since=self.now()), name)
            yield from self._put(self._name(key.digest), health, KEPT)
        yield from self._put(self._name(digest_of(name), BY_HAND), "", MILLISECOND)
        return bool(keys) or name in by_hand

    def _values(self, kind: str) -> Work[tuple[float, dict[str, dict[str, Any]]]]:
        """Return the time of the server, and its values of a kind by their keys."""
        until = self._clock() + LISTING
        names = yield from self._asked(("scan", self._name("*", kind), ()), names_in, until)
        names = names or []
        read = partial(values_in, count=len(names))
        answer = yield from self._asked(("read", names, []), read, until)
        now, values = answer or (0.0, [])
        return now, dict(zip(names, map(value_in, values), strict=False))

    def _put(self, name: str, value: str, seconds: float) -> Work[None]:
        """Replace a value, whatever it is.

        Arguments:
            name: its key in the server.
            value: the new one.
            seconds: how long it is kept.
        """
        until = self._clock() + LISTING
        seen = ""
        for _ in range(TRIES):
            arguments = [seen, value, max(1, int(1000 * seconds))]
            answer = yield from self._asked(("swap", [name], arguments), swapped_in, until)
            if answer is None or answer[0]:
                return
            seen = answer[1]
