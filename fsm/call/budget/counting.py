"""Counting the tokens of an attempt: its prompt, and its reply if the provider did not report
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from attrs import evolve

from rungwise.fsm.call.budget.costs import LARGEST_PRICED_CAP
from rungwise.fsm.call.budget.estimate import (
    MISSING_RESULT_TOKENS,
    STAND_IN_TOKENS,
    tokens_compacted,
)
from rungwise.fsm.call.budget.metering import measured, most_counted
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.chain.prices import Prices, is_same_model
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import NO_USAGE, Usage

ENDED_BY_ITSELF: Final = frozenset(
    {
        "answered",
        "called_tools",
        "answered_wrongly",
        "called_wrongly",
        "answered_uncertainly",
        "verdict_raised",
        "came_empty",
        "only_reasoned",
        "paused",
        "truncated",
        "tools_truncated",
        "json_truncated",
        "reasoning_truncated",
    }
)
"""The events of a reply that came whole: if nobody reported its tokens, its text shows them."""


def charge_of(evidence: Evidence, sent: Proposal | None) -> Usage:
    """Return what an attempt counts as against the budgets: all that was reserved if it broke off
    unreported.
    """
    usage = evidence.usage
    if sent is None or not sent.send.must_cut or not usage.estimated:
        return usage
    if evidence.event in ENDED_BY_ITSELF and not usage.lost:
        return usage
    cap = sent.send.max_tokens
    most = LARGEST_PRICED_CAP if cap is None else most_counted(cap)
    prompt = max(usage.input_tokens, sent.prompt_tokens or 0)
    return evolve(usage, input_tokens=prompt, output_tokens=max(usage.output_tokens, most))


def reported_by(
    reply: Reply,
    sent: Proposal,
) -> Usage:
    """Return the tokens that a provider reported, with the names of models, tiers and units as
    journals show them.

    What has a price has the name that the prices give it. A model that was asked for and has none
    is not named.
    """
    usage = reply.usage
    link = sent.for_backend.link
    is_plain = usage.tier is None and not usage.units and not usage.shares
    if usage == NO_USAGE or (is_plain and reply.model in (None, link.model)):
        return usage
    prices = link.prices or _NO_PRICES
    parts = []
    for part in (evolve(usage, model=usage.model or reply.model), *usage.shares):
        served = part.model
        model = prices.model_named(served)
        if model is None and served and link.model and not is_same_model(served, link.model):
            model = sent.shown(served.rpartition("/")[2])
        tier = prices.of(model, None).tier_named(part.tier) or sent.shown(part.tier)
        units = {}
        for name, count in part.units.items():
            units[str(sent.shown(name, is_known=name in prices.units))] = count
        parts.append(
            evolve(
                part,
                model=model,
                tier=tier,
                units=units,
            )
        )
    return evolve(parts[0], shares=tuple(parts[1:]))


_NO_PRICES: Final = Prices(0, 0)


class TokenCounter:
    """Count the tokens of what is sent and of what comes back; a journal has those of each prompt
    `recorded`.
    """

    __slots__ = ("_base", "_counted", "context", "estimate", "recorded")

    def __init__(
        self,
        context: CallContext,
        estimate: Callable[[Any], int],
        recorded: Iterator[int] | None = None,
    ) -> None:
        self.context = context
        self.estimate = estimate
        self.recorded = recorded
        # messages and backend
        self._counted: tuple[Sequence[PlainMessage | Message], int] | None = None
        self._base = 0  # their tokens

    def prompt(self, messages: Sequence[PlainMessage | Message], added_tokens: int) -> int:
        """Return the tokens of a prompt, by the caller's own count as far as it goes, otherwise by
        an estimate.
        """
        if self.recorded is not None:
            return next(self.recorded, 0)
        transcript = self.context.transcript
        chain = self.context.chain
        own = transcript.messages
        # a compactor has run, or another backend is asked
        if (own, chain.index) != self._counted:
            self._counted = (own, chain.index)
            self._base = self._count_own()
            self._base += MISSING_RESULT_TOKENS * chain.shapes.unanswered(own)
        if transcript.changes.restore_reasoning:
            roles = map(chain.shapes.role_of, messages)
            added_tokens += STAND_IN_TOKENS * sum(role == "assistant" for role in roles)
        return self._base + added_tokens

    def _count_own(self) -> int:
        request = self.context.request
        messages = self.context.transcript.messages
        size = len(request.messages)
        # a compactor may add to them
        if request.input_tokens is not None and messages[:size] == request.messages:
            if len(messages) == size:
                return request.input_tokens
            return request.input_tokens + self.estimate(messages[size:])
        link = self.context.chain.link
        # a backend may send tools of its own
        parameters = [request.parameters, link.parameters]
        # A format that is said in words is counted with them, not here.
        if link.in_words(request, frozenset()) is not None:
            parameters = [
                {name: each[name] for name in each if name != "response_format"}
                for each in parameters
            ]
        beside = sum(map(self.estimate, (request.tools, *parameters)))
        tokens = self.estimate(messages) + beside
        if request.input_tokens is None:
            return tokens
        tokens_before = self.estimate(request.messages) + beside
        return tokens_compacted(request.input_tokens, tokens_before, tokens)

    def usage_of(
        self,
        proposal: Proposal,
        reply: Reply | None,
        failure: Failure | None = None,
        *,
        was_cancelled: bool = False,
    ) -> tuple[Usage, bool]:
        """Return the usage of an attempt, as reported or estimated, and whether its reply is longer
        than was reserved.

        No budget relies on silence: what brought nothing but may have been billed counts as if it
        had used its cap; after a cancellation only under a shared budget.

        Arguments:
            proposal: what was sent.
            reply: what came of it; None if nothing did.
            failure: why there is no reply, or what cut it.
            was_cancelled: whether the caller ended the call.
        """
        usage = NO_USAGE if reply is None else reported_by(reply, proposal)
        context = self.context
        cap = proposal.send.max_tokens
        link = context.chain.link
        reserves = context.spending.needs_cap
        if not reserves and link.prices is None:
            return usage, False
        overran = False
        # other calls go on, and must not rely on silence either
        is_shared = context.spending.share is not None
        is_unbilled = failure is not None and not failure.may_be_billed
        if reply is not None:
            is_free = is_unbilled or (was_cancelled and not is_shared)
            usage, overran = measured(usage, reply, cap, None if is_free else cap)
        elif is_unbilled:
            return usage, False
        elif failure is not None or is_shared:
            usage = Usage(output_tokens=cap or 0)
        if not usage.input_tokens:
            prompt = self.prompt(proposal.send.messages, proposal.send.added_tokens)
            usage = evolve(usage, input_tokens=prompt, estimated=True)
        return usage, overran and reserves
