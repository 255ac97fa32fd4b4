"""What common faults cost a caller: how many requests, and how many seconds beyond those of a
healthy answer.

    python -m tests.failover --costs --full

A healthy fallback follows the primary, which never recovers by itself. Waits are random, so each
fault is played with the shortest ones and with the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen

from failover.faults import Behaviour, Fault
from failover.playing import NOTHING, Played, play_all
from failover.rows import ROWS
from rungwise import Policy

COLUMNS: Final = ("the defaults", "interactive")
PATIENCE: Final = 300.0
"""Seconds after which a call is given up; none of these takes as long."""


def _always(title: str, **behaviour: object) -> Fault:
    return Fault(title, title, (Behaviour(**behaviour),), PATIENCE)  # type: ignore[arg-type]


COMMON: Final = (
    _always("a refused connection", refuses=True),
    _always("a connection reset before any byte", resets=True),
    _always("429 without `Retry-After`", status=429, code="rate_limit_exceeded"),
    _always(
        "429 with `Retry-After: 2`",
        status=429,
        code="rate_limit_exceeded",
        asked_wait=2.0,
    ),
    _always("503, overloaded", status=503, code="server_is_overloaded"),
    _always("500", status=500),
    _always("an empty reply", is_empty=True),
    _always("a stream that breaks off before any text", tokens=0),
    _always("a stream that breaks off in the text", tokens=40),
    _always("an event that is no JSON", garbled=10),
    _always("a prompt that does not fit", status=400, code="context_length_exceeded"),
    _always("no answer at all", mute=PATIENCE),
    _always("silence after the head", thinks=PATIENCE, tokens=0),
    _always("silence in the text", tokens=20, stalls=PATIENCE),
)
"""The faults, each of which comes back from every request to the primary."""


@frozen
class Cost:
    """Hold what a fault costs under a policy."""

    requests: int  # 0 if the call was not rescued each time, or the waits decide how many there are
    least: float  # seconds, with the shortest waits
    most: float  # the same with the longest

    def __str__(self) -> str:
        least, most = (f"{round(seconds * 2) / 2:g}" for seconds in (self.least, self.most))
        return (
            f"{self.requests}, {least} s"
            if least == most
            else f"{self.requests}, {least} to {most} s"
        )


def costs_of(
    policy: Policy, faults: Iterable[Fault] = COMMON, *, scale: float = 1.0
) -> dict[str, Cost]:
    """Play faults to a policy, and return what each costs, by its title.

    Arguments:
        scale: by how much every time is multiplied.
    """
    faults = [NOTHING, *faults]
    shortest, longest = (
        {
            each.fault.title: each
            for each in play_all(policy, faults, scale=scale, jitter=lambda share=share: share)
        }
        for share in (0.0, 1.0)
    )
    return {fault.title: _cost(fault, shortest, longest) for fault in faults[1:]}


def _cost(fault: Fault, shortest: Mapping[str, Played], longest: Mapping[str, Played]) -> Cost:
    asked = []
    for played in (shortest, longest):
        [one], [healthy] = played[fault.title].seen.asked, played[NOTHING.title].seen.asked
        is_rescued = played[fault.title].seen.is_complete(one)
        asked.append((one.requests if is_rescued else 0, one.seconds - healthy.seconds))
    (requests, least), (same, most) = asked
    return Cost(requests if requests == same else 0, least, most)


def costs_table(costs: Mapping[str, Mapping[str, Cost]]) -> str:
    """Return the costs of several policies as a table in Markdown."""
    lines = [
        f"| the primary's fault, every time | {' | '.join(costs)} |",
        f"| --- |{' --- |' * len(costs)}",
    ]
    for title in next(iter(costs.values())):
        lines.append(f"| {title} | {' | '.join(str(row[title]) for row in costs.values())} |")
    return "\n".join(lines)


def measured(*, scale: float) -> dict[str, dict[str, Cost]]:
    """Measure the costs of every fault under each policy of the table."""
    return {name: costs_of(ROWS[name], scale=scale) for name in COLUMNS}
