"""Why a call ended other than well, in a sentence."""

from __future__ import annotations

from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.machine.table import Row

CAUSES = {
    "came_empty": "the reply was empty",
    "only_reasoned": "the reply held reasoning but no answer",
    "truncated": "the reply was cut at the output cap and is not gone on from",
    "paused": "the provider paused the turn and no continuation is left",
    "tools_truncated": "the tool calls were cut or could not be parsed",
    "json_truncated": "the JSON was cut at the output cap",
    "reasoning_truncated": "the output cap was used up by reasoning",
    "interrupted": "the stream ended before its terminal event",
    "malformed": "the reply had no usable shape or an unknown finish reason",
    "refused": "the provider or the model refused",
    "failed_transiently": "the provider failed",
    "failed_permanently": "the provider rejected the request for good",
    "rejected_fixably": "the provider rejected the request, and no repair is left",
    "overflowed": "the conversation does not fit the model's context",
    "cancelled": "the caller ended the call",
}
"""The sentence of each event that a call can end on; `ran_out` names the part of the budget instead."""


def cause_of(row: Row, evidence: Evidence, facts: tuple[str, ...] = ()) -> str | None:
    """Return the sentence; None for a call that is done."""
    if row.target == "done":
        return None
    cause = CAUSES.get(evidence.event, evidence.event)
    if evidence.asked_wait is not None and "wait_fits" not in facts:
        cause += f"; the wait of {evidence.asked_wait:g} s that it asked for does not fit"
    if "repeats_itself" in facts:
        cause += "; the text ran in circles"
    if "asks_for_little" in facts and evidence.event == "truncated":
        cause += "; no more tokens were asked for"
    if "overran" in facts:
        cause += "; the provider took no notice of the output cap"
    return cause
