"""The assertion that every call must pass, and the one for turns.

Both run a list of checks, the first of which the others depend on, and stop at the first that
fails. A check knows nothing of how the call was made. It reads the result, the journal and the
events of the stream, so it serves runs in memory, real drivers and hostile sockets alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.replies.reply import Text
from rungwise.fsm.testing.checks import delivery, path, privacy, replays, spending, success
from rungwise.fsm.testing.checks import turn_tools as tools
from rungwise.fsm.testing.checks import turn_transcript as transcript
from rungwise.fsm.testing.checks import turns as ends
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.testing.coverage import RECORDER, Coverage
from rungwise.fsm.testing.turn_player import RunOfTurn
from rungwise.fsm.turn.table import TURN

__all__ = ["CHECKS", "Dishonest", "assert_call_honest"]

CHECKS: Final[tuple[Callable[[EndedCall], None], ...]] = (
    path.check_end,
    path.check_rows,
    spending.check_chain,
    spending.check_budget,
    spending.check_fair,
    spending.check_waits,
    spending.check_certificate,
    spending.check_sums,
    success.check_success,
    success.check_clean,
    success.check_tools,
    success.check_right,
    success.check_text_stays,
    delivery.check_stream,
    delivery.check_parts,
    privacy.check_privacy,
    replays.check_replay,
)
"""The checks in order: first those that the others depend on."""


def assert_call_honest(
    ended: Call | Result | CallError,
    *,
    certificate: Certificate | None = None,
    events: Iterable[object] | None = None,
    request: Request | None = None,
    secrets: Iterable[str] = (),
    is_fair: bool = False,
) -> None:
    """Assert everything that must hold for an ended call, and record its path as covered.

    Arguments:
        ended: the call, its result, or the error that it raised; more is checked on the call
            itself.
        certificate: the certificate of its policy, for a chain of the same length.
        events: the events of its stream, in order.
        request: the request, if `ended` is not the call.
        secrets: texts that must not appear anywhere, such as API keys.
        is_fair: whether its providers kept to their caps and counted prompts as they are, as with
            `run(..., is_fair=True)`: budgets of tokens and money must then hold to the last unit.

    Raises:
        Dishonest: an `AssertionError` that says which property broke, and at which step.
        IllegalEvent: the call has not ended.
    """
    others: dict[str, Any] = {
        "certificate": certificate,
        "request": request,
        "is_fair": is_fair,
    }
    others["secrets"] = tuple(secrets)
    if events is not None:
        others["events"] = tuple(events)
    call = EndedCall.of(ended, **others)
    check_all(call)
    RECORDER.record(call)


def check_all(ended: EndedCall) -> None:
    """Run every check, and record nothing."""
    for check in CHECKS:
        check(ended)


def check_calls(seen: SeenTurn) -> None:
    """Check every call; the text that a call continues was shown by the call before."""
    for played in seen.run.calls:
        if not played.call.is_over:
            continue
        others: dict[str, Any] = {"secrets": seen.secrets, "is_fair": seen.run.script.is_fair}
        if played.call.is_streaming:
            gathered = played.call.turn.gathered
            shown_before = [Text(gathered)] if gathered else []
            others["events"] = [*shown_before, *played.events]
        check_all(EndedCall.of(played.call, **others))


TURN_CHECKS: Final[tuple[Callable[[SeenTurn], None], ...]] = (
    ends.check_end,
    ends.check_steps,
    ends.check_limits,
    check_calls,
    ends.check_sums,
    ends.check_budget,
    ends.check_certificate,
    tools.check_runs,
    transcript.check_valid,
    transcript.check_clean,
    transcript.check_whole,
    transcript.check_text,
    tools.check_results,
    tools.check_handed_off,
    tools.check_prior,
    privacy.check_turn_privacy,
    replays.check_turn_replay,
)
"""The checks in order: first those that the others depend on."""


def assert_turn_honest(
    run: RunOfTurn, *, certificate: Certificate | None = None, secrets: Iterable[str] = ()
) -> None:
    """Assert everything that must hold for a played turn, and record its path as covered.

    Arguments:
        run: what `run_turn` returned.
        certificate: the certificate of its policy, for a chain of the same length.
        secrets: texts that must not appear anywhere, such as API keys.

    Raises:
        Dishonest: an `AssertionError` that says which property broke, and at which step.
    """
    seen = SeenTurn(run, certificate, tuple(secrets))
    check_turn(seen)
    record_turn(RECORDER, seen)


def check_turn(seen: SeenTurn) -> None:
    """Run every check, and record nothing."""
    for check in TURN_CHECKS:
        check(seen)


def record_turn(coverage: Coverage, seen: SeenTurn) -> None:
    """Record the path of a turn as covered."""
    coverage.record_path(TURN, seen.steps, ends.spending(seen), seen.certificate)
