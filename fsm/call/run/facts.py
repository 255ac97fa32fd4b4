"""The facts of a reply that the guards read."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from rungwise.fsm.call.budget.throttle import REPEATS
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.observation import UNCERTAIN, Observation
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import BROKEN_STREAM, EMPTY_REPLY, SWITCH_EVENTS, UNTIMED_LIMIT
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.table import MAY_ASK
from rungwise.fsm.engine.machine.declare import Fact
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.replies.text.thinking import split_thinking

CUT = frozenset({"truncated", "paused", "interrupted", "fell_silent"})
"""The events after which text may be gone on from."""

EMPTY = frozenset(SWITCH_EVENTS[EMPTY_REPLY])
"""The events of a reply without an answer."""

OF_KEYS = frozenset({"auth", "billing", "rate_limit"})
"""The failures that another key may not have."""

FAILED_PROBE = frozenset({"interrupted", "fell_silent", "failed_transiently"})
"""The events after which a call leaves a backend at once that it has asked to see whether it is
back.
"""


class FactFinder:
    """Find the facts of what came back, from the reply and from what the call knows besides."""

    __slots__ = ("_failures", "context")

    def __init__(self, context: CallContext) -> None:
        self.context = context
        self._failures: dict[tuple[int, str], int] = {}  # their number for each backend and reason

    def find(
        self, observation: Observation, previous: Observation | None, proposal: Proposal
    ) -> tuple[str, ...]:
        """Return the names of the facts that hold, in the journal's order; what came back is
        gathered already.
        """
        context = self.context
        event = observation.event
        if not context.position.is_guarded(event):
            return ("overran",) if observation.overran else ()
        turn = context.turn
        answer = context.transcript.answer
        window = context.policy.nudge_window
        recent = context.transcript.messages[-window:] if window else ()
        has_prior_answer = False
        has_own_text = answer.has_unclear_spare or not is_blank(answer.gathered)
        if turn.prior_answer is not None and turn.only_housekeeping and not has_own_text:
            visible, _ = split_thinking(turn.prior_answer)
            has_prior_answer = not is_blank(visible)
        failure = observation.failure
        # A dict keeps its order, and that is the journal's.
        facts = {}
        facts["has_delivered"] = event in EMPTY and not is_blank(observation.delivered)
        facts["has_prior_answer"] = has_prior_answer
        facts["has_text"] = answer.has_text
        facts["added_text"] = observation.adds_text
        facts["follows_tool_result"] = "tool" in map(context.chain.shapes.role_of, recent)
        facts["thinks_inline"] = observation.thinks_inline
        facts["repeats_itself"] = event in CUT and answer.repeats_itself
        goes_on = failure is not None and failure.generation is not None
        facts["keeps_running"] = goes_on and not observation.unsays
        facts.update(self._settled(observation, previous, proposal, observation.adds_text))
        is_rejected = event == "rejected_fixably"
        facts["repair_known"] = is_rejected and observation.evidence.repair is not None
        facts["has_compactor"] = context.has_compactor
        facts["has_next_backend"] = context.chain.next_usable() is not None
        facts["connection_was_stale"] = failure is not None and failure.is_stale
        facts["other_key_free"] = (
            observation.evidence.reason in OF_KEYS and len(context.chain.keys_left) > 0
        )
        facts["asks_for_little"] = proposal.for_backend.asks_for_little
        facts["same_wrong_again"] = observation.is_wrong and _same_wrong(observation, previous)
        facts["throttled"] = self._is_throttled(observation)
        facts["overran"] = observation.overran
        facts["is_uncertain"] = event == UNCERTAIN and self._is_uncertain(observation)
        return tuple([name for name, holds in facts.items() if holds])

    def settled(
        self,
        observation: Observation,
        previous: Observation | None,
        proposal: Proposal,
        *,
        adds_text: bool,
    ) -> dict[str, bool]:
        """Count what came back, and return the facts that follow from the policy, the chain and the
        counts.

        They need no text of the reply, so a recorded one has them under another policy too.

        Arguments:
            observation: what came back.
            previous: what came back before; None for nothing.
            proposal: what it answers.
            adds_text: whether it added text that is kept.
        """
        if observation.event == "rejected_fixably":
            self.context.note_misplaced(observation.evidence)
        facts = self._settled(observation, previous, proposal, adds_text)
        facts["has_next_backend"] = self.context.chain.next_usable() is not None
        facts["asks_for_little"] = proposal.for_backend.asks_for_little
        return facts

    def _settled(
        self,
        observation: Observation,
        previous: Observation | None,
        proposal: Proposal,
        adds_text: bool,
    ) -> dict[str, bool]:
        """Count what came back, and return the facts that follow from the policy and the counts.

        Arguments:
            observation, previous, proposal, adds_text: see `settled`.
        """
        policy = self.context.policy
        event = observation.event
        same_empty_again = False
        if policy.skip_identical_empties:
            same_empty_again = _same_empty(observation, previous)
        wait_fits = event not in MAY_ASK or self._fits(observation.evidence.asked_wait)
        is_one_too_many = self._is_one_too_many(observation, adds_text)  # which counts it
        probe_failed = proposal.is_probe and event in FAILED_PROBE
        return {
            "same_empty_again": same_empty_again,
            "wait_fits": wait_fits,
            "switch_asked": is_one_too_many or probe_failed,
            "refusal_ends": policy.after_refusal == "end",
        }

    def _is_throttled(self, observation: Observation) -> bool:
        """Tell whether all calls together have used up their retries; one that is asked for is not
        counted.
        """
        context = self.context
        evidence = observation.evidence
        if context.retries is None:
            return False
        if evidence.reason == "rate_limit" and evidence.asked_wait is not None:
            return False
        rows = context.policy.table.ladder(observation.event, context.policy.table.hub)
        return any(row.target in REPEATS for row in rows) and context.retries.is_used_up()

    def _is_uncertain(self, observation: Observation) -> bool:
        """Tell whether an answer is below the bar; an unknown one is while a backend follows that
        measures.
        """
        assert observation.finding is not None
        decided = observation.finding.value
        if decided.uncertain:
            return True
        return any(link.measures for _, link in self.context.chain.to_come())

    def _fits(self, asked_wait: float | None) -> bool:
        if asked_wait is None:
            return True
        context = self.context
        # a wait may not use up what is reserved for the backends to come
        ends_after = context.reserved.ends_after
        in_time = ends_after is None or context.spending.elapsed + asked_wait < ends_after
        return (
            in_time
            and asked_wait <= context.policy.waits.longest_asked
            and context.spending.allows_wait(asked_wait)
        )

    def _is_one_too_many(self, observation: Observation, adds_text: bool) -> bool:
        """Count a failure by each of its kinds, and tell whether the policy leaves the backend
        after so many of one.
        """
        failure = observation.failure
        is_one_too_many = False
        if adds_text:
            self._failures.pop((observation.backend, BROKEN_STREAM), None)
        for kind in kinds_of(observation, adds_text):
            key = observation.backend, kind
            if failure is None or not failure.is_stale:
                self._failures[key] = self._failures.get(key, 0) + 1
            is_one_too_many |= self._are_too_many(kind, self._failures.get(key, 0))
        return is_one_too_many

    def _are_too_many(self, reason: str, count: int) -> bool:
        most = self.context.policy.switch_after.get(reason)
        return most is not None and most < LARGEST_LIMIT and count >= most

    def of_silence(
        self, proposal: Proposal, *, has_next_backend: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the facts that would hold if the attempt in flight fell silent: without visible
        text and with.
        """
        context = self.context
        answer = context.transcript.answer
        resolved = proposal.for_backend
        silences = self._failures.get((context.chain.index, "silence"), 0) + 1
        facts = {
            "wait_fits": True,
            "switch_asked": self._are_too_many("silence", silences),
            "has_next_backend": has_next_backend,
            "has_compactor": context.has_compactor,
            "asks_for_little": resolved.asks_for_little,
        }
        always = tuple([name for name, holds in facts.items() if holds])
        with_text = (*always, "has_text")
        before = with_text
        if not answer.has_text:
            before = always
        after = with_text
        if not resolved.expects_json and not resolved.asks_for_little:
            after = (*with_text, "added_text")
        return before, after


def kinds_of(observation: Observation, adds_text: bool) -> Iterator[str]:
    """Yield the names in `switch_after` under which something counts."""
    event = observation.event
    reason = observation.evidence.reason
    if event in EMPTY:
        yield EMPTY_REPLY
        return
    if reason is not None:
        yield reason
    if event in SWITCH_EVENTS[BROKEN_STREAM] and not adds_text:
        yield BROKEN_STREAM
    if (
        reason == "rate_limit"
        and event in SWITCH_EVENTS[UNTIMED_LIMIT]
        and observation.evidence.asked_wait is None
    ):
        yield UNTIMED_LIMIT


def _same_empty(observation: Observation, previous: Observation | None) -> bool:
    """Tell whether two empty replies in a row are alike: same finish, no output tokens."""
    if previous is None or observation.event != "came_empty" or previous.event != "came_empty":
        return False
    here = observation.evidence
    before = previous.evidence
    has_tokens = here.usage.output_tokens or before.usage.output_tokens
    return here.stop_raw == before.stop_raw and not has_tokens


def _same_wrong(observation: Observation, previous: Observation | None) -> bool:
    if previous is None or not previous.is_wrong or previous.backend != observation.backend:
        return False
    return observation.spare == previous.spare and _calls_in(observation) == _calls_in(previous)


def _calls_in(observation: Observation) -> list[tuple[str, str]]:
    calls = () if observation.reply is None else observation.reply.tool_calls
    return [(call.name, call.arguments) for call in calls]


def own_facts_of(table: Table, observation: Observation, gathered: str) -> tuple[str, ...]:
    """Return the names of the facts of the user's own that hold of the whole answer; without a
    reply, none does.
    """
    reply = observation.reply
    if reply is None:
        return ()
    if gathered and observation.part and not observation.unsays:
        reply = evolve(reply, text=gathered + observation.new, parts=None)
    return tuple([fact.name for fact in table.own_facts if _holds(fact, reply)])


def _holds(fact: Fact, reply: Reply) -> bool:
    assert fact.of is not None
    try:
        held = fact.of(reply)
    except Exception as error:
        raise ConfigurationError(
            f"the fact {fact.name!r} raised {type(error).__name__}: its function takes a Reply and "
            "returns True or False"
        ) from error
    if not isinstance(held, bool):
        raise ConfigurationError(
            f"the fact {fact.name!r} must be True or False, and is of type {type(held).__name__}"
        )
    return held
