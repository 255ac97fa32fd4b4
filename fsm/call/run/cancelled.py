"""What had arrived of a reply when the caller ended the call."""

from __future__ import annotations

from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.reading import PLAIN
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import NO_USAGE


def observe_cancel(
    partial: Reply | None,
    *,
    proposal: Proposal | None,
    is_sent: bool,
    counter: TokenCounter,
    delivered: str | None,
) -> Observation:
    """Observe what had arrived of a reply when the caller ended the call.

    Arguments:
        partial: what had arrived; None for nothing.
        proposal: what was sent, or was to be sent next.
        is_sent: whether it was sent.
        counter: counts what nobody reported.
        delivered: the visible text that was handed out; None reads that of `partial`.
    """
    usage = NO_USAGE if partial is None else partial.usage
    if proposal is not None and is_sent:
        usage, _ = counter.usage_of(proposal, partial, was_cancelled=True)
    if delivered is None:
        delivered = ""
        if partial is not None:
            reading = PLAIN if proposal is None else proposal.reading
            delivered = reading.part(partial).visible
    evidence = Evidence(event="cancelled", usage=usage)
    return Observation(evidence=evidence, part=delivered, new=delivered)
