"""A played turn as the checks see it, and whether it ends, within its table, limits, budget and
certificate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from attrs import define, field

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.checks.path import COUNTED, LEGAL, follow
from rungwise.fsm.testing.turn_player import ENDS, CallInTurn, PlayedRound, RunOfTurn, most_calls
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.turn.tools import Toolbox
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.money import as_money, units_of
from rungwise.fsm.values.usage import NO_USAGE


@define(eq=False)
class SeenTurn:
    """What the checks see of a played turn."""

    run: RunOfTurn
    certificate: Certificate | None = None
    secrets: tuple[str, ...] = ()  # must not appear anywhere
    result: TurnResult | None = field(init=False)  # None if it was dropped half-way
    journal: TurnJournal = field(init=False)
    steps: tuple[Step, ...] = field(init=False)  # of the turn itself
    policy: TurnPolicy = field(init=False)
    tools: Toolbox = field(init=False)

    def __attrs_post_init__(self) -> None:
        turn = self.run.turn
        self.result = turn.result if turn.is_over else None
        self.journal, self.steps = turn.journal, turn.journal.steps
        self.policy = turn.policy
        self.tools = turn.tools

    def is_settled(self, played: CallInTurn) -> bool:
        """Tell whether the turn has received the end of a call."""
        return played.call.is_over and (played is not self.run.doings[-1] or self.run.turn.is_over)

    def asked_by(self, played: CallInTurn) -> tuple[ToolCall, ...]:
        """Return the tool calls that a call ended with, if its turn may answer them."""
        may = (
            played.call.is_over
            and played.state != "summarize"
            and played.call.result.outcome == "done"
        )
        return played.call.result.tool_calls if may else ()

    def rounds(self) -> Iterator[tuple[CallInTurn, PlayedRound]]:
        """Yield each round of tools, with the call that asked for it."""
        for before, each in pairwise(self.run.doings):
            if isinstance(each, PlayedRound) and isinstance(before, CallInTurn):
                yield before, each


BUDGET = "nothing exceeds the budget of the turn"
CERTIFIED = "nothing exceeds the certificate of the turn"
LIMITED = "a turn makes no more calls than its limits allow"
SUMMED = "the turn has used what its calls have used"
TOLERANCE = 1e-9


def check_end(seen: SeenTurn) -> None:
    """Check that the last step, and only that, leads to the outcome of the journal and the
    result.
    """
    result = seen.result
    turn = seen.run.turn
    if result is None:
        if seen.run.was_stopped != "kill":
            raise Dishonest(ENDS, f"nothing follows, and it is in state {turn.position.state!r}")
        return
    last = seen.steps[-1]
    if result.outcome not in OUTCOMES:
        raise Dishonest(ENDS, f"{result.outcome!r} is no outcome of a turn", last)
    if not (last.target == result.outcome == seen.journal.outcome == turn.position.state):
        raise Dishonest(
            ENDS, f"the result says {result.outcome!r}, the journal {seen.journal.outcome!r}", last
        )
    early = next((step for step in seen.steps[:-1] if step.target in OUTCOMES), None)
    if early is not None:
        raise Dishonest(ENDS, f"something follows the outcome {early.target!r}", early)
    if (result.cause is None) is not (
        result.outcome in ("finished", "handed_off", "awaiting_approval")
    ):
        raise Dishonest(
            ENDS, f"the outcome is {result.outcome!r}, and the cause is {result.cause!r}", last
        )


def check_steps(seen: SeenTurn) -> None:
    """Check each step as a firing of the machine; each `sent` is one action."""
    sent = follow(TURN, seen.policy.limits, seen.steps)
    if sent != len(seen.run.doings) and seen.run.was_stopped == "":
        raise Dishonest(COUNTED, f"{sent} things were to be done, and {len(seen.run.doings)} were")
    if len(seen.journal.calls) != sum(
        step.event == "sent" and step.source in CALLS for step in seen.steps
    ):
        raise Dishonest(
            LEGAL, f"the journal holds {len(seen.journal.calls)} calls, and its steps others"
        )


def check_limits(seen: SeenTurn) -> None:
    """Check the number of calls and of rounds of tools: at most one round per call."""
    made = len(seen.run.calls)
    most = most_calls(seen.policy)
    if made > most:
        raise Dishonest(LIMITED, f"{made} calls were made, and the limits allow {most}")
    if len(seen.run.rounds) > made:
        raise Dishonest(LIMITED, f"{len(seen.run.rounds)} rounds of tools were run in {made} calls")
    summaries = [each for each in seen.run.calls if each.state == "summarize"]
    if summaries and (len(summaries) > 1 or seen.run.doings[-1] is not summaries[0]):
        raise Dishonest(LIMITED, "something follows the summary")
    if any(each.call.request.tools for each in summaries):
        raise Dishonest(LIMITED, "the summary is asked for with tools")


def check_sums(seen: SeenTurn) -> None:
    """Check that the usage of the result is the sum over its calls."""
    result = seen.result
    if result is None:
        return
    ends = [each.call.result for each in seen.run.calls if each.call.is_over]
    usage = sum((each.usage for each in ends), NO_USAGE)
    costs = [each.cost for each in ends if each.cost is not None]
    cost = as_money(sum(map(units_of, costs))) if len(costs) == len(ends) else None
    reported = (result.usage, result.attempts, result.calls)
    summed = (usage, sum(each.attempts for each in ends), len(seen.run.calls))
    if reported != summed:
        raise Dishonest(SUMMED, f"the result says {reported}, and its calls come to {summed}")
    if cost != result.cost:
        raise Dishonest(SUMMED, f"the result costs {result.cost}, and its calls come to {cost}")
    passed = seen.run.clock.now - seen.run.began
    if (
        not math.isclose(result.seconds, passed, rel_tol=TOLERANCE, abs_tol=1e-6)
        and not seen.run.is_interleaved
    ):
        raise Dishonest(
            SUMMED, f"the result says {result.seconds:g} s, and {passed:g} s have passed"
        )


def check_budget(seen: SeenTurn) -> None:
    """Check each request and round of tools against the rest of the turn's budget at the time."""
    budget = seen.policy.budget
    run = seen.run
    attempts = 0
    used = 0
    cost = 0
    most = math.inf if budget.money is None else units_of(budget.money)
    for doing in run.doings:
        late = budget.seconds is not None and doing.at - run.began >= budget.seconds
        if late and not isinstance(doing, CallInTurn):
            what = "tools were run" if isinstance(doing, PlayedRound) else "a compaction was begun"
            raise Dishonest(BUDGET, f"{what} after the {budget.seconds:g} s of the turn")
        if not isinstance(doing, CallInTurn):
            continue
        attempts += len(doing.sent_at)
        if budget.seconds is not None and any(
            at - run.began >= budget.seconds for at in doing.sent_at
        ):
            raise Dishonest(
                BUDGET, f"a request went out after the {budget.seconds:g} s of the turn"
            )
        for step in doing.call.journal.steps:
            left = math.inf if budget.output_tokens is None else budget.output_tokens - used
            if step.event == "sent" and left < math.inf and (step.cap is None or step.cap > left):
                raise Dishonest(
                    BUDGET,
                    f"a request carried a cap of {step.cap}, and the turn has {left} left",
                    step,
                )
            if step.event == "sent" and cost >= most:
                raise Dishonest(
                    BUDGET, f"a request went out after all {budget.money:g} was spent", step
                )
            used += step.usage.output_tokens
        cost += units_of(doing.call.result.cost or 0) if doing.call.is_over else 0
    if attempts > budget.attempts:
        raise Dishonest(BUDGET, f"{attempts} attempts, and the turn has {budget.attempts}")
    if run.script.is_fair and budget.output_tokens is not None and used > budget.output_tokens:
        raise Dishonest(BUDGET, f"{used} output tokens, and the turn has {budget.output_tokens}")
    if run.script.is_fair and cost > most:
        raise Dishonest(BUDGET, f"the turn cost {as_money(cost):g}, and has {budget.money:g}")


def check_certificate(seen: SeenTurn) -> None:
    """Check the spending against the proved worst cases."""
    proved = seen.certificate
    if proved is None:
        return
    if proved.table != TURN.name:
        raise Dishonest(CERTIFIED, f"the certificate is for the table {proved.table!r}")
    spent = spending(seen)
    is_for_this = seen.run.script.is_fair and proved.max_tokens == seen.run.request.max_tokens
    for worst in proved.worst:
        amount = spent.get(worst.name)
        if (
            amount is None
            or worst.value is None
            or (worst.name == "output tokens" and not is_for_this)
        ):
            continue
        if amount > worst.value * (1 + TOLERANCE):
            raise Dishonest(
                CERTIFIED, f"{amount:g} {worst.name}, and at worst there are {worst.value:g}"
            )


def spending(seen: SeenTurn) -> dict[str, float]:
    """Return the spending of a turn by the names of the worst cases."""
    calls = seen.run.calls
    rounds = seen.run.rounds
    steps = [step for each in calls for step in each.call.journal.steps]
    waits = [before.wait for before, after in pairwise(steps) if after.event == "sent"]
    return {
        "calls": float(len(calls)),
        "attempts": float(sum(len(each.sent_at) for each in calls)),
        "waiting seconds": math.fsum(waits),
        "tool runs": float(sum(len(each.runs) for each in rounds)),
        "output tokens": float(sum(step.usage.output_tokens for step in steps)),
    }
