"""What the end of a call is as an HTTP status, and when the program may come back.

The status is that of the cause, so that an SDK raises the error that it raises without us. What
ended a call is in its last step: a failure of a backend, a quota of our own, a budget.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, inf
from typing import Final

from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.run.sending import FULL, OPEN
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.values.moments import read_rfc_3339

FAULTS: Final[tuple[Reason, ...]] = (
    "context_overflow",
    "payload_too_large",
    "output_cap",
    "prefill_unsupported",
    "parameter_unsupported",
    "reasoning_signature",
    "reasoning_missing",
    "wrong_endpoint",
    "content_policy",
    "format",
)
"""The failures that are the request's fault: the program gets the provider's own words."""

_STATUSES: Final[Mapping[str, int]] = {
    **dict.fromkeys(FAULTS, 400),
    "auth": 401,
    "billing": 402,
    "model_not_found": 404,
    "rate_limit": 429,
    "server_error": 500,
    "timeout": 504,
    "silence": 504,
    "overloaded": 529,
}
"""The status of a failure that came without one, such as an error inside a stream."""
UNAVAILABLE: Final = 503
LATE: Final = 504
LIMITED: Final = 429
_FULL: Final = re.compile(rf"{FULL}; (\S+) s ")
_PERIOD: Final = re.compile(
    r"(?!other calls hold).*\((?:day|week|month) of .*; the next begins on (\S+), UTC\)"
)
_OPEN: Final = re.compile(rf"{OPEN}(\S+): ")


def failure_of(result: Result) -> Failure | None:
    """Return the failure that ended a call; None if something else did."""
    last = result.journal.last
    return None if last.reason is None else dict(result.failures).get(last.backend)


def status_of(result: Result) -> int:
    """Return the status of a call that did not succeed."""
    failure = failure_of(result)
    status = None if failure is None else failure.status
    if status is not None and status >= 400:
        return status
    if _is_late(result):
        return LATE
    if failure is not None:
        return _STATUSES.get(failure.reason, UNAVAILABLE)
    note = result.journal.last.note or ""
    is_limit = note.startswith((FULL, OPEN)) or _next_period(result) is not None
    return LIMITED if is_limit else UNAVAILABLE


def wait_of(result: Result) -> int | None:
    """Return the whole seconds after which the first of the backends may be asked again, as far as
    they have said it; None if none has. A budget that is spent is so until its period ends.
    """
    following = _next_period(result)
    if following is not None and result.journal.started is not None:
        return max(1, ceil(following - result.journal.started - result.seconds))
    backs: dict[str, float] = {}
    for step in result.journal.steps:
        back = _back_at(step, result.journal.started)
        if back is not None:
            backs[step.backend] = back
        elif step.event == "sent":
            backs.pop(step.backend, None)
    if not backs:
        return None
    return max(1, ceil(min(backs.values()) - result.seconds))


def _back_at(step: Step, started: float | None) -> float | None:
    """Return when a backend may be asked again, in seconds of the call; None if a step does not
    say it.

    Arguments:
        step: of the call.
        started: when the call began, in seconds since 1970, if that is known.
    """
    note = step.note or ""
    if step.asked_wait is not None:
        return step.at + step.asked_wait
    if full := _FULL.match(note):
        return step.at + float(full[1])
    if started is not None and (left := _OPEN.match(note)):
        moment = read_rfc_3339(left[1])
        return None if moment is None else moment - started
    return None


def _next_period(result: Result) -> float | None:
    """Return when the next period of the budget begins that ended a call, in seconds since 1970;
    None if something else did.
    """
    last = result.journal.last
    found = _PERIOD.match(last.note or "") if last.event == "ran_out" else None
    return None if found is None else read_rfc_3339(f"{found[1]}T00:00:00Z")


def _is_late(result: Result) -> bool:
    """Tell whether a call ended because its time was up."""
    setting = result.journal.setting
    limits = (setting.policy.budget.seconds, setting.deadline, setting.within_deadline)
    limit = min((each for each in limits if each is not None), default=inf)
    if result.seconds >= limit:
        return True
    last = result.journal.last  # the next attempt might have begun too late only
    return last.event == "ran_out" and " begin after " in (last.note or "")
