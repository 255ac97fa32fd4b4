"""The facts of a reply that the guards read."""

from __future__ import annotations

from attrs import evolve

from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import EMPTY_REPLY
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.proposal import Proposal
from rungwise.fsm.call.table import MAY_ASK
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.machine.declare import Fact
from rungwise.fsm.machine.table import Table
from rungwise.fsm.text.contents import is_blank
from rungwise.fsm.text.thinking import split_thinking

CUT = frozenset({"truncated", "paused", "interrupted", "fell_silent"})
"""The events after which text may be gone on from."""

EMPTY = frozenset({"came_empty", "only_reasoned"})
"""The events of a reply without an answer."""

SETTLED = ("same_empty_again", "wait_fits", "switch_asked", "refusal_ends")
"""The facts that follow from the policy and from what was counted."""


class FactFinder:
    """Find every fact of what came back, from the reply and from what the call knows besides.

    Arguments:
        context: what the call knows.
    """

    __slots__ = ("_alike", "context")

    def __init__(self, context: CallContext) -> None:
        self.context = context
        self._alike: dict[tuple[int, str], int] | None = None  # failures of each backend and reason

    def find(self, observation: Observation, previous: Observation | None, *, asks_for_little: bool) -> tuple[str, ...]:
        """Return the names of the facts that hold.

        Arguments:
            observation: what came back; its text is gathered already.
            previous: what came back before it.
            asks_for_little: whether the caller wants a handful of tokens.
        """
        context, failure = self.context, observation.failure
        policy, turn, transcript = context.policy, context.turn, context.transcript
        evidence, event, gathered = observation.evidence, observation.event, transcript.answer.gathered
        prior = turn.prior_answer if turn.only_housekeeping and is_blank(gathered) else None
        held = []  # in the order in which journals have always told them
        if event in EMPTY and observation.has_delivered:
            held.append("has_delivered")
        if prior is not None and not is_blank(split_thinking(prior)[0]):
            held.append("has_prior_answer")
        if (text := gathered or transcript.answer.spare) and not is_blank(text):
            held.append("has_text")
        if observation.adds_text:
            held.append("added_text")
        if transcript.has_recent_tool_result(policy.nudge_window, context.chain.shapes):
            held.append("follows_tool_result")
        if observation.thinks_inline:
            held.append("thinks_inline")
        if event in CUT and transcript.answer.repeats_itself:
            held.append("repeats_itself")
        held += self._settled(observation, previous)
        if evidence.repair is not None:
            held.append("repair_known")
        if context.has_compactor:
            held.append("has_compactor")
        if context.chain.next_usable() is not None:
            held.append("has_next_backend")
        if failure is not None and failure.is_stale:
            held.append("connection_was_stale")
        if asks_for_little:
            held.append("asks_for_little")
        if observation.overran:
            held.append("overran")
        return tuple(held)

    def settled(self, observation: Observation, previous: Observation | None, proposal: Proposal) -> dict[str, bool]:
        """Count what came back, and return the facts that follow from the policy, the chain and the counts.

        They need no text of the reply, so that a recorded reply has them under another policy too.
        """
        held = self._settled(observation, previous)
        facts = {name: name in held for name in SETTLED}
        facts["has_next_backend"] = self.context.chain.next_usable() is not None
        facts["asks_for_little"] = proposal.for_backend.asks_for_little
        return facts

    def _settled(self, observation: Observation, previous: Observation | None) -> list[str]:
        policy, held = self.context.policy, []
        if policy.skip_identical_empties and _same_empty(observation, previous):
            held.append("same_empty_again")
        if observation.event not in MAY_ASK or self._fits(observation.evidence.asked_wait):
            held.append("wait_fits")
        if self._is_one_too_many(observation):
            held.append("switch_asked")
        if policy.after_refusal == "end":
            held.append("refusal_ends")
        return held

    def _fits(self, asked: float | None) -> bool:
        context = self.context
        if asked is None:
            return True
        ends_after = context.reserved.ends_after  # what is kept for the backends to come is not waited away
        in_time = ends_after is None or context.spending.elapsed + asked < ends_after
        return in_time and asked <= context.policy.waits.longest_asked and context.spending.allows_wait(asked)

    def _is_one_too_many(self, observation: Observation) -> bool:
        """Count a failure, and tell whether the policy leaves the backend after so many of its reason."""
        reason, failure = observation.evidence.reason, observation.failure
        if observation.event in EMPTY:
            reason = EMPTY_REPLY
        most = None if reason is None else self.context.policy.switch_after.get(reason)
        if reason is None or most is None or most >= LARGEST_LIMIT:
            return False  # and never will, so nobody counts it
        count = self._count_of(observation.backend, reason)
        if failure is None or not failure.is_stale:
            count += 1
            if self._alike is None:
                self._alike = {}
            self._alike[observation.backend, reason] = count
        return count >= most

    def _count_of(self, backend: int, reason: str) -> int:
        return 0 if self._alike is None else self._alike.get((backend, reason), 0)

    def _are_too_many(self, reason: str, count: int) -> bool:
        most = self.context.policy.switch_after.get(reason)
        return most is not None and most < LARGEST_LIMIT and count >= most

    def of_silence(self, proposal: Proposal, *, has_next_backend: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the facts that would hold if the attempt in flight fell silent: without visible text, and with some.

        Arguments:
            proposal: what is in flight.
            has_next_backend: whether another backend can be asked.
        """
        context, transcript = self.context, self.context.transcript
        is_one_too_many = self._are_too_many("silence", self._count_of(context.chain.index, "silence") + 1)
        facts = {
            "wait_fits": True,
            "switch_asked": is_one_too_many,
            "has_next_backend": has_next_backend,
            "has_compactor": context.has_compactor,
            "asks_for_little": proposal.for_backend.asks_for_little,
        }
        held = tuple([name for name, holds in facts.items() if holds])
        is_kept = not (proposal.for_backend.expects_json or proposal.for_backend.asks_for_little)
        had_text = not is_blank(transcript.answer.gathered or transcript.answer.spare)
        before = (*held, "has_text") if had_text else held
        return before, (*held, "has_text", "added_text") if is_kept else (*held, "has_text")


def _same_empty(observation: Observation, previous: Observation | None) -> bool:
    """Tell whether two empty replies in a row are alike: same finish, no output tokens."""
    if previous is None or observation.event != "came_empty" or previous.event != "came_empty":
        return False
    one, other = observation.evidence, previous.evidence
    return one.stop_raw == other.stop_raw and one.usage.output_tokens == other.usage.output_tokens == 0


def own_facts_of(table: Table, observation: Observation, gathered: str) -> tuple[str, ...]:
    """Return the names of the facts of the user's own that hold; where no reply came, none does.

    Arguments:
        observation: what came back.
        gathered: the text so far, of which the reply's may be the rest: its facts are those of the whole answer.

    Raises:
        ConfigurationError: a fact is no bool, or its function raises.
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
        raise ConfigurationError(f"the fact {fact.name!r} must be True or False, and is of type {type(held).__name__}")
    return held
