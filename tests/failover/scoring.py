"""What a fault came to: `pass`, `partial`, `safe` or `fail`."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal

from attrs import frozen

from failover.checks import Check, alive
from failover.faults import POLICY_CODE, Fault
from failover.seen import Asked, Seen

Verdict = Literal["pass", "partial", "safe", "fail"]
VERDICTS: Final[tuple[Verdict, ...]] = ("pass", "partial", "safe", "fail")


@frozen
class Score:
    """Hold a verdict, and why it is no better one."""

    verdict: Verdict
    why: tuple[str, ...] = ()


def score(fault: Fault, seen: Seen) -> Score:
    """Judge what was seen of a fault.

    `fail` is a hang, an answer that is not the whole one, an error that is none of a call, or a
    required check that does not hold; `safe` is an error in place of a rescue; `partial` a rescue
    whose advisory checks do not all hold.
    """
    failed = [
        *(why for asked in seen.asked for why in _fatal(fault, seen, asked)),
        *_lacking((*fault.required, alive), seen),
    ]
    if failed:
        return Score("fail", tuple(dict.fromkeys(failed)))
    lost = [asked.error or "" for asked in seen.asked if not _is_rescued(fault, seen, asked)]
    if lost:
        return Score("safe", tuple(dict.fromkeys(lost)))
    advised = _lacking(fault.advisory, seen)
    return Score("partial", advised) if advised else Score("pass")


def _fatal(fault: Fault, seen: Seen, asked: Asked) -> Iterable[str]:
    if asked.hangs or asked.seconds > fault.limit:
        yield f"hangs: not over within {fault.limit:g} s"
    if asked.text is not None and not seen.is_complete(asked):
        yield "an answer that is not the whole one, as success"
    if asked.error is not None and not asked.is_clean:
        yield f"raised {asked.error}"


def _is_rescued(fault: Fault, seen: Seen, asked: Asked) -> bool:
    tells = fault.ideal == "reason" and any(POLICY_CODE in reason for reason in asked.reasons)
    return seen.is_complete(asked) or tells


def _lacking(checks: Iterable[Check], seen: Seen) -> tuple[str, ...]:
    return tuple(check.name for check in checks if not check.holds(seen))


def total(verdicts: Iterable[Verdict]) -> str:
    """Count verdicts as pass-partial-safe-fail: `14-2-0-0`."""
    counts = Counter(verdicts)
    return "-".join(str(counts[verdict]) for verdict in VERDICTS)
