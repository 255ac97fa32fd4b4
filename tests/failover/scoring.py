"""What a fault came to: `pass`, `partial`, `safe` or `fail`."""

from collections.abc import Iterable

from failover.checks import Check, alive
from failover.faults import POLICY_CODE, Fault
from failover.seen import Asked, Seen
from rungwise.adapters.exam.grades import Mark


def score(fault: Fault, seen: Seen) -> Mark:
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
        return Mark("fail", tuple(dict.fromkeys(failed)))
    lost = [asked.error or "" for asked in seen.asked if not _is_rescued(fault, seen, asked)]
    if lost:
        return Mark("safe", tuple(dict.fromkeys(lost)))
    advised = _lacking(fault.advisory, seen)
    return Mark("partial", advised) if advised else Mark("pass")


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
