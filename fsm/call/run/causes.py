"""Why a call ended other than well, in a sentence."""

from __future__ import annotations

from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.machine.table import Row, Table


def cause_of(
    table: Table, row: Row, evidence: Evidence, facts: tuple[str, ...] = (), found: str | None = None
) -> str | None:
    """Return the sentence; None for a call that is done.

    Arguments:
        table: that of the call.
        row: the last one.
        evidence: what came back.
        facts: what held of it.
        found: what came in the place of a reply, where that is known.
    """
    if row.target == "done":
        return None
    cause = (
        table.says(evidence.event, at_last=True) if found is None else f"the reply had no usable shape: it was {found}"
    )
    if evidence.asked_wait is not None and "wait_fits" not in facts:
        cause += f"; the wait of {evidence.asked_wait:g} s that it asked for does not fit"
    if "repeats_itself" in facts:
        cause += "; the text ran in circles"
    if "asks_for_little" in facts and evidence.event == "truncated":
        cause += "; no more tokens were asked for"
    if "overran" in facts:
        cause += "; the provider took no notice of the output cap"
    return cause
