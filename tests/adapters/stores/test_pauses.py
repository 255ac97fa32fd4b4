"""Both stores remember the same, whatever comes and however long nothing comes: on a virtual clock,
with a server that lets values expire by that clock.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rungwise import Health
from rungwise.adapters.stores.memory import MemoryStore
from rungwise.adapters.stores.redis_store import RedisStore
from rungwise.adapters.stores.store import perform
from rungwise.core import Backend, PlainLink
from rungwise.fsm.health.health import NO_SYMPTOM, Symptom
from rungwise.testing import VirtualClock

RULES = Health(jitter=0.0, first=0.6037, longest=5.0123)
"""No sum of pauses ends at the very moment at which a backend is tried again: there the two clocks,
which round otherwise, need not agree."""
LEASE = 100.0
SYMPTOMS = {
    "answered": Symptom("answered"),
    "failed": Symptom("failed", why="503"),
    "limited": Symptom("limited", 60.0, "429"),
    "nothing": NO_SYMPTOM,
}
PAUSES = (0.01, 0.25, 0.7, 1.2, 7.0, 61.0, 3_000.0)
"""Seconds."""


class Plain(PlainLink, Backend):
    """A backend that says no more of itself than its name."""


class VirtualRedis(RedisStore):
    """Ask a server in memory, which does what the scripts do."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__("redis://127.0.0.1:1/0", clock)
        self.clock = clock
        self.values: dict[str, tuple[str, float]] = {}

    def execute(self, command: Any) -> Any:
        name, keys, values, _ = command
        now = 1_000.0 + self.clock.now
        if name == "read":
            return [int(now), int(now % 1 * 1e6), *[self.value_of(key, now) for key in keys]]
        assert name == "swap"
        before, after, milliseconds = values
        current = self.value_of(keys[0], now)
        if current != before:
            return [0, current]
        self.values[keys[0]] = (after, now + milliseconds / 1000)
        return [1, after]

    def value_of(self, key: str, now: float) -> str:
        value, ends = self.values.get(key, ("", 0.0))
        return value if now < ends else ""


def remembered(store: Any, clock: VirtualClock, events: Any) -> list[tuple[Any, ...]]:
    """Tell what a store remembers after each event: whom a call asks, and how the backend is."""
    keys = [store.key_of(Plain("first")), store.key_of(Plain("second"))]
    told = []
    for what, pause in events:
        choice = perform(store, store.choose(keys, RULES, LEASE))[0]
        symptom = SYMPTOMS[what]
        work = store.note(
            keys[choice.place], symptom, RULES, sent_at=store.now(), was_probe=choice.is_probe
        )
        perform(store, work)
        known = perform(store, store.read(keys))
        told.append((choice.place, choice.is_probe, [each.state for each in known]))
        clock.advance(pause)
    return told


EVENTS = st.lists(st.tuples(st.sampled_from([*SYMPTOMS]), st.sampled_from(PAUSES)), max_size=12)


@given(EVENTS)
def test_both_stores_remember_the_same(events: Any) -> None:
    told = []
    for kind in (MemoryStore, VirtualRedis):
        clock = VirtualClock()
        told.append(remembered(kind(clock), clock, events))
    assert told[0] == told[1]


def test_failures_count_together_however_far_apart_they_are() -> None:
    for pause in PAUSES:
        clock = VirtualClock()
        told = remembered(VirtualRedis(clock), clock, [("failed", pause)] * 3)
        assert [place for place, _, _ in told] == [0, 0, 1 if pause < RULES.first else 0]
        assert told[1][2][0] == "open"
