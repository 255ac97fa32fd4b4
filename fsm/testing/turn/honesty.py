"""The one assertion that every turn must pass, whatever its providers, its tools and its caller did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from rungwise.fsm.testing.coverage import RECORDER
from rungwise.fsm.testing.turn.checks import ends, inside, tools, transcript
from rungwise.fsm.testing.turn.checks.seen import SeenTurn
from rungwise.fsm.testing.turn.player import ENDS, RunOfTurn
from rungwise.fsm.turn.table import TURN

if TYPE_CHECKING:
    from rungwise.fsm.certificate.certificate import Certificate
    from rungwise.fsm.testing.coverage import Coverage

TURN_CHECKS: Final[tuple[Callable[[SeenTurn], None], ...]] = (
    ends.check_end,
    ends.check_steps,
    ends.check_limits,
    inside.check_calls,
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
    inside.check_privacy,
    inside.check_journal,
)
"""The checks, in the order in which they are made: first those without which the others mean nothing."""

TURN_PROPERTIES: Final = (
    *(ENDS, ends.LIMITED, ends.SUMMED, ends.BUDGET, ends.CERTIFIED),
    *(tools.WHOLE_CALLS, tools.ALLOWED, tools.SHORTENED, tools.HANDED, tools.PRIOR),
    *(transcript.VALID, transcript.CLEAN, transcript.WHOLE, transcript.ANSWERED, transcript.LAST),
)
"""What must hold of every turn, in words, besides what holds of its calls and of its steps."""


def assert_turn_honest(run: RunOfTurn, *, certificate: Certificate | None = None, secrets: Iterable[str] = ()) -> None:
    """Check everything that must hold of a turn that was played, and count its path as covered.

    Arguments:
        run: what `run_turn` returned.
        certificate: what `rungwise.verify` said of its policy, for a chain as long as its own.
        secrets: texts that may stand nowhere, such as API keys.

    Raises:
        Dishonest: an `AssertionError` that says which property broke, and at which step.
    """
    seen = SeenTurn(run, certificate, tuple(secrets))
    check_turn(seen)
    record_turn(RECORDER, seen)


def check_turn(seen: SeenTurn) -> None:
    """Make every check, and count nothing.

    Raises:
        Dishonest: the first property that broke.
    """
    for check in TURN_CHECKS:
        check(seen)


def record_turn(coverage: Coverage, seen: SeenTurn) -> None:
    """Count a turn as covered."""
    certified = {worst.name: worst.value for worst in seen.certificate.worst} if seen.certificate else {}
    coverage.record_path(TURN, ends.path_of(seen), ends.spending(seen), certified)
