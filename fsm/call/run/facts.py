"""The facts of a reply that the guards read."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from rungwise.fsm.call.budget.throttle import REPEATS
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.observation import Observation
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
        prior = turn.prior_answer if turn.only_housekeeping and is_blank(answer.gathered) else None
        facts = {
            "has_delivered": event in EMPTY and not is_blank(observation.delivered),
            "has_prior_answer": prior is not None and not is_blank(split_thinking(prior)[0]),
            "has_text": not is_blank(answer.gathered or answer.spare),
            "added_text": observation.adds_text,
            "follows_tool_result": "tool" in map(context.chain.shapes.role_of, recent),
            "thinks_inline": observation.thinks_inline,
            "repeats_itself": event in CUT and answer.repeats_itself,
            **self._settled(observation, previous, proposal, observation.adds_text),
            "repair_known": observation.evidence.repair is not None,
            "has_compactor": context.has_compactor,
            "has_next_backend": context.chain.next_usable() is not None,
            "connection_was_stale": observation.failure is not None
            and observation.failure.is_stale,
            "other_key_free": observation.evidence.reason in OF_KEYS
            and len(context.chain.keys_left) > 0,
            "asks_for_little": proposal.for_backend.asks_for_little,
            "same_wrong_again": observation.is_wrong and _same_wrong(observation, previous),
            "throttled": self._is_throttled(observation),
            "overran": observation.overran,
        }
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
        """
        return {
            **self._settled(observation, previous, proposal, adds_text),
            "has_next_backend": self.context.chain.next_usable() is not None,
            "asks_for_little": proposal.for_backend.asks_for_little,
        }

    def _settled(
        self,
        observation: Observation,
        previous: Observation | None,
        proposal: Proposal,
        adds_text: bool,
    ) -> dict[str, bool]:
        policy = self.context.policy
        asked_wait = observation.evidence.asked_wait
        return {
            "same_empty_again": policy.skip_identical_empties
            and _same_empty(observation, previous),
            "wait_fits": observation.event not in MAY_ASK or self._fits(asked_wait),
            "switch_asked": self._is_one_too_many(observation, adds_text)
            or (proposal.is_probe and observation.event in FAILED_PROBE),
            "refusal_ends": policy.after_refusal == "end",
        }

    def _is_throttled(self, observation: Observation) -> bool:
        """Tell whether all calls together have used up their retries; one that is asked for is not
        counted.
        """
        context = self.context
        evidence = observation.evidence
        if context.retries is None or (
            evidence.reason == "rate_limit" and evidence.asked_wait is not None
        ):
            return False
        rows = context.policy.table.ladder(observation.event, context.policy.table.hub)
        return any(row.target in REPEATS for row in rows) and context.retries.is_used_up()

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
        context, answer, resolved = (
            self.context,
            self.context.transcript.answer,
            proposal.for_backend,
        )
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
        before = always if is_blank(answer.gathered or answer.spare) else with_text
        keeps_text = not (resolved.expects_json or resolved.asks_for_little)
        return before, (*with_text, "added_text") if keeps_text else with_text


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
    one = observation.evidence
    other = previous.evidence
    return (
        one.stop_raw == other.stop_raw and one.usage.output_tokens == other.usage.output_tokens == 0
    )


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
            f"the fact {fact.name!r} raised {type(error).__name__}: "
            "its function takes a Reply and returns True or False"
        ) from error
    if not isinstance(held, bool):
        raise ConfigurationError(
            f"the fact {fact.name!r} must be True or False, and is of type {type(held).__name__}"
        )
    return held
