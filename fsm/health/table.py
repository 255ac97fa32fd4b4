"""The table of the health of one backend with one key: whether calls ask it, pass it over, or try
it once.

Theory

This is a circuit breaker (M. Nygard, *Release It!*, 2007): *open* means that the backend is not
asked. It differs from the textbook in four ways, each for a reason:

* It is keyed by backend and key. A spent quota or a rejected key says nothing of another account.
* Counts in a row, not a rate over a window. Calls to models are few and long; a window of a minute
  often holds three of them, and a share of three means little. What counts is an attempt, whatever
  became of its call: an attempt that a fallback rescued has failed, and so has a retry of the same
  call. What says something of the request alone, such as a refusal, is no evidence
  (`symptom_of` in `fsm/health/health.py`).
* A half-open backend gets one real call, the probe, and no ping: only a real request shows whether
  the model answers. The counter `probes` has the limit one. A probe that nobody reports is lost
  after its lease, so that a process that dies does not close the way for all others.
* What opens it may say until when (`Retry-After`), and that counts for more than any doubling.

The machine is cyclic and has no outcome: nothing about it has to end, so there is no variant. What
is proved instead (`fsm/health/check.py`): an open backend comes due whatever else happens, and no
second probe goes out while one is out. The walk has at most six configurations (three states, a
probe out or not) for each failure that is borne; a step costs one firing of the table.

Warning: the order of the rows is the behaviour.
"""

from __future__ import annotations

from rungwise.fsm.engine.machine.declare import Effect, Event, Guard
from rungwise.fsm.engine.machine.table import Row, Table, ship

CLOSED = "closed"
OPEN = "open"
HALF_OPEN = "half_open"
STATES = (CLOSED, OPEN, HALF_OPEN)

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

FAILURES = ("failed", "fell_silent")
"""The events of which a closed backend bears some in a row."""

AT_ONCE = ("limited", "rejected_key")
"""The events that open a backend at once."""

BEAR = Guard("may_bear", counter="failures", says="one more failure in a row is borne")
PROBE = Guard("may_probe", counter="probes", says="no probe is out")

COUNT_FAILURE = Effect("count_failure", spends="failures")
SEND_PROBE = Effect("send_probe", spends="probes")
FORGET = Effect("forget_failures", refills=("failures",))
FREE = Effect("free_probe", refills=("probes",))


def _rows() -> tuple[Row, ...]:
    answers = [Row("answered", state, None, CLOSED, FORGET.name) for state in STATES]
    borne = [Row(event, CLOSED, BEAR.name, CLOSED, COUNT_FAILURE.name) for event in FAILURES]
    # first in the ladder of a closed backend stands that the failure is borne
    opens = [Row(event, state, None, OPEN) for event in (*FAILURES, *AT_ONCE) for state in STATES]
    probes = [
        Row("came_due", OPEN, None, HALF_OPEN),
        Row("probed", HALF_OPEN, PROBE.name, HALF_OPEN, SEND_PROBE.name),
        Row("probed", HALF_OPEN, None, HALF_OPEN),
    ]
    ends = [Row("came_back", state, None, state, FREE.name) for state in STATES]
    return (*answers, *borne, *opens, *probes, *ends)


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
