"""What a failure is to the machine: the event of each reason."""

from __future__ import annotations

from typing import Final

from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.failures.reasons import Reason

KEY_HINT_REASONS: Final[frozenset[Reason]] = frozenset({"auth"})
"""The reasons that call for a look at the API key."""

_REASONS: Final[dict[str, tuple[Reason, ...]]] = {
    "failed_transiently": (
        *("rate_limit", "overloaded", "server_error", "timeout", "connection", "failed_generation", "unknown"),
    ),
    "failed_permanently": ("auth", "billing", "certificate", "model_not_found", "format"),
    "overflowed": ("context_overflow", "payload_too_large"),
    "rejected_fixably": (
        *("output_cap", "prefill_unsupported", "parameter_unsupported", "reasoning_signature", "reasoning_missing"),
    ),
    "refused": ("content_policy",),
    "malformed": ("malformed",),
    "fell_silent": ("silence",),
}
_EVENTS: Final = {reason: event for event, reasons in _REASONS.items() for reason in reasons}
_EVENT_IF_RETRYABLE: Final = {True: "failed_transiently", False: "failed_permanently"}


def event_of_failure(failure: Failure) -> str:
    """Return the machine's event for a failure.

    The service's own word on retrying overrides ours; it does not touch refusals, repairs and overflows.
    """
    event = _EVENTS[failure.reason]
    if failure.should_retry is None or event not in _EVENT_IF_RETRYABLE.values():
        return event
    return _EVENT_IF_RETRYABLE[failure.should_retry]


FORMAT_PARAMETER: Final = "response_format"
"""What the parameter that asks for JSON is called in a failure, whatever the provider calls it."""
