"""The table of the health of one backend with one key: whether calls ask it, pass it over, or try
it once.

As in circuit breakers, *open* means that the backend is not asked. A closed one opens after
failures; its time comes due; then one real call probes it, and how that attempt ends closes it or
opens it for longer. The machine never ends.

What came of an attempt is evidence, whatever became of its call: an attempt that a fallback rescued
has failed. So has a retry of the same call. What says something of the request alone is no evidence
(`fsm/health/health.py`).

Warning: the order of the rows is the behaviour.
"""

from __future__ import annotations

from rungwise.fsm.engine.machine.declare import Effect, Event, Guard
from rungwise.fsm.engine.machine.table import Row, Table, ship

CLOSED, OPEN, HALF_OPEN = STATES = ("closed", "open", "half_open")

EVENTS = (
    Event("answered", "the backend answered"),
    Event("failed", "the backend failed, or could not be reached"),
    Event("fell_silent", "nothing came for longer than the clocks allow"),
    Event("limited", "the backend was asked too often"),
    Event("rejected_key", "the backend rejected the key, or its quota is spent"),
    Event("came_due", "the time for which it is not asked has passed"),
    Event("probed", "a call asks whether it may try the backend"),
    Event("came_back", "the attempt of that call has ended, whatever it showed"),
)

BEAR = Guard("may_bear", counter="failures", says="one more failure in a row is borne")
PROBE = Guard("may_probe", counter="probes", says="no probe is out")

COUNT_FAILURE = Effect("count_failure", spends="failures")
SEND_PROBE = Effect("send_probe", spends="probes")
FORGET = Effect("forget_failures", refills=("failures",))
FREE = Effect("free_probe", refills=("probes",))


def _rows() -> tuple[Row, ...]:
    failures = ("failed", "fell_silent")
    return (
        *(Row("answered", state, None, CLOSED, FORGET.name) for state in STATES),
        *(Row(event, CLOSED, BEAR.name, CLOSED, COUNT_FAILURE.name) for event in failures),
        *(
            Row(event, state, None, OPEN)
            for event in (*failures, "limited", "rejected_key")
            for state in STATES
        ),
        Row("came_due", OPEN, None, HALF_OPEN),
        Row("probed", HALF_OPEN, PROBE.name, HALF_OPEN, SEND_PROBE.name),
        Row("probed", HALF_OPEN, None, HALF_OPEN),
        *(Row("came_back", state, None, state, FREE.name) for state in STATES),
    )


HEALTH = ship(
    Table(
        name="health",
        rows=_rows(),
        start=CLOSED,
        hub=CLOSED,
        outcomes=(),
        ranks=(("failures", "probes"),),
        guards=(BEAR, PROBE),
        effects=(COUNT_FAILURE, SEND_PROBE, FORGET, FREE),
        declared_events=EVENTS,
        kind="cyclic",
    )
)
"""The machine that remembers the health of every backend."""
