"""The one assertion that every call must pass, whatever its provider did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.testing.checks import delivery, path, privacy, replays, spending, success
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.testing.coverage import RECORDER

if TYPE_CHECKING:
    from rungwise.fsm.certificate.certificate import Certificate

__all__ = ["CHECKS", "PROPERTIES", "Dishonest", "assert_call_honest"]

CHECKS: Final[tuple[Callable[[EndedCall], None], ...]] = (
    path.check_end,
    path.check_numbers,
    path.check_rows,
    spending.check_chain,
    spending.check_budget,
    spending.check_reserve,
    spending.check_fair,
    spending.check_waits,
    spending.check_certificate,
    spending.check_sums,
    success.check_success,
    success.check_clean,
    success.check_tools,
    success.check_text_stays,
    delivery.check_stream,
    delivery.check_parts,
    privacy.check_privacy,
    replays.check_replay,
)
"""The checks, in the order in which they are made: first those without which the others mean nothing."""

PROPERTIES: Final = (
    *(path.ENDED, path.LEGAL, path.COUNTED, path.BOUNDED, path.FALLS),
    *(spending.CHAIN, spending.BUDGET, spending.WAITS, spending.CERTIFIED, spending.SUMMED),
    *(success.NOT_EMPTY, success.CLEAN, success.WHOLE_TOOLS, success.TEXT_STAYS, delivery.KEPT, delivery.STITCHED),
    *(privacy.PRIVATE, replays.REPLAYS),
)
"""What must hold of every call, in words."""


def assert_call_honest(
    ended: Call | Result | CallError,
    *,
    certificate: Certificate | None = None,
    events: Iterable[object] | None = None,
    request: Request | None = None,
    secrets: Iterable[str] = (),
    is_fair: bool = False,
) -> None:
    """Check everything that must hold of a call that has ended, and count its path as covered.

    Arguments:
        ended: the call, its result, or the error that it raised; the call itself tells the most.
        certificate: what `rungwise.fsm.certificate.verify` said of its policy, for a chain as long as its own.
        events: what the consumer of its stream was given, in order.
        request: what was asked, where `ended` is not the call, which knows it.
        secrets: texts that may stand nowhere, such as API keys.
        is_fair: whether its providers kept to their caps and counted prompts as they are, as with
            `run(..., is_fair=True)`: budgets of tokens and money must then hold to the last unit.

    Raises:
        Dishonest: an `AssertionError` that says which property broke, and at which step.
        IllegalEvent: the call has not ended.
    """
    call = EndedCall.of(
        ended,
        certificate=certificate,
        events=None if events is None else tuple(events),
        request=request,
        secrets=tuple(secrets),
        is_fair=is_fair,
    )
    check_all(call)
    RECORDER.record(call)


def check_all(ended: EndedCall) -> None:
    """Make every check, and count nothing.

    Raises:
        Dishonest: the first property that broke.
    """
    for check in CHECKS:
        check(ended)
