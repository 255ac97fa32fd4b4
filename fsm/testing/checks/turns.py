"""A played turn as the checks see it, and whether it ends within what it may do and spend.

A turn is a machine as a call is, so its steps are checked by the same predicates (`path.follow`).
Its calls are checked as calls, and its budget against the sums over them.
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
from rungwise.fsm.testing.turn_player import (
    ENDS,
    CallInTurn,
    Doing,
    PlayedRound,
    RunOfTurn,
    most_calls,
)
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.turn.tools import Toolbox
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.money import as_money, units_of
from rungwise.fsm.values.usage import NO_USAGE


@define(eq=False)
class SeenTurn:
    """What the checks see of a played turn.

    Arguments:
        run: the turn, with everything that was done in it.
        certificate: what was proved before it began.
        secrets: texts that must not appear anywhere.
    """

    run: RunOfTurn
    certificate: Certificate | None = None
    secrets: tuple[str, ...] = ()
    result: TurnResult | None = field(init=False)  # None if it was dropped half-way
    journal: TurnJournal = field(init=False)
    steps: tuple[Step, ...] = field(init=False)  # of the turn itself
    policy: TurnPolicy = field(init=False)
    tools: Toolbox = field(init=False)

    def __attrs_post_init__(self) -> None:
        turn = self.run.turn
        self.result = turn.result if turn.is_over else None
        self.journal = turn.journal
        self.steps = turn.journal.steps
        self.policy = turn.policy
        self.tools = turn.tools

    def is_settled(self, played: CallInTurn) -> bool:
        """Tell whether the turn has received the end of a call."""
        if not played.call.is_over:
            return False
        return played is not self.run.doings[-1] or self.run.turn.is_over

    def asked_by(self, played: CallInTurn) -> tuple[ToolCall, ...]:
        """Return the tool calls that a call ended with, if its turn may answer them."""
        if not played.call.is_over or played.state == "summarize":
            return ()
        result = played.call.result
        return result.tool_calls if result.outcome == "done" else ()

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
    """Check that the last step alone leads to the outcome of the journal and the result."""
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
        wrong = f"the result says {result.outcome!r}, the journal {seen.journal.outcome!r}"
        raise Dishonest(ENDS, wrong, last)
    for step in seen.steps[:-1]:
        if step.target in OUTCOMES:
            raise Dishonest(ENDS, f"something follows the outcome {step.target!r}", step)
    needs_no_cause = result.outcome in ("finished", "handed_off", "awaiting_approval")
    if (result.cause is None) is not needs_no_cause:
        wrong = f"the outcome is {result.outcome!r}, and the cause is {result.cause!r}"
        raise Dishonest(ENDS, wrong, last)


def check_steps(seen: SeenTurn) -> None:
    """Check each step as a firing of the machine; each `sent` is one action."""
    sent = follow(TURN, seen.policy.limits, seen.steps)
    done = len(seen.run.doings)
    if sent != done and seen.run.was_stopped == "":
        raise Dishonest(COUNTED, f"{sent} things were to be done, and {done} were")
    begun = sum(step.event == "sent" and step.source in CALLS for step in seen.steps)
    recorded = len(seen.journal.calls)
    if recorded != begun:
        raise Dishonest(LEGAL, f"the journal holds {recorded} calls, and its steps others")


def check_limits(seen: SeenTurn) -> None:
    """Check the number of calls and of rounds of tools: at most one round per call."""
    made = len(seen.run.calls)
    most = most_calls(seen.policy)
    if made > most:
        raise Dishonest(LIMITED, f"{made} calls were made, and the limits allow {most}")
    rounds = len(seen.run.rounds)
    if rounds > made:
        raise Dishonest(LIMITED, f"{rounds} rounds of tools were run in {made} calls")
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
    attempts = sum(each.attempts for each in ends)
    costs = [each.cost for each in ends if each.cost is not None]
    cost: float | None = None  # unknown as soon as that of one call is
    if len(costs) == len(ends):
        cost = as_money(sum(map(units_of, costs)))
    reported = (result.usage, result.attempts, result.calls)
    summed = (usage, attempts, len(seen.run.calls))
    if reported != summed:
        raise Dishonest(SUMMED, f"the result says {reported}, and its calls come to {summed}")
    if cost != result.cost:
        raise Dishonest(SUMMED, f"the result costs {result.cost}, and its calls come to {cost}")
    if seen.run.is_interleaved:  # then the clock has moved for other turns, too
        return
    passed = seen.run.clock.now - seen.run.began
    if not math.isclose(result.seconds, passed, rel_tol=TOLERANCE, abs_tol=1e-6):
        wrong = f"the result says {result.seconds:g} s, and {passed:g} s have passed"
        raise Dishonest(SUMMED, wrong)


def check_budget(seen: SeenTurn) -> None:
    """Check each request and round of tools against the rest of the turn's budget at the time."""
    budget = seen.policy.budget
    is_fair = seen.run.script.is_fair
    most_tokens = math.inf if budget.output_tokens is None else budget.output_tokens
    money = math.inf if budget.money is None else units_of(budget.money)
    attempts = 0
    tokens = 0
    cost = 0
    for doing in seen.run.doings:
        _check_time(seen, doing)
        if not isinstance(doing, CallInTurn):
            continue
        attempts += len(doing.sent_at)
        for step in doing.call.journal.steps:
            if step.event == "sent":
                left = most_tokens - tokens
                if left < math.inf and (step.cap is None or step.cap > left):
                    wrong = f"a request carried a cap of {step.cap}, and the turn has {left} left"
                    raise Dishonest(BUDGET, wrong, step)
                if cost >= money:
                    wrong = f"a request went out after all {budget.money:g} was spent"
                    raise Dishonest(BUDGET, wrong, step)
            tokens += step.usage.output_tokens
        if doing.call.is_over:
            cost += units_of(doing.call.result.cost or 0)
    if attempts > budget.attempts:
        raise Dishonest(BUDGET, f"{attempts} attempts, and the turn has {budget.attempts}")
    if is_fair and tokens > most_tokens:
        raise Dishonest(BUDGET, f"{tokens} output tokens, and the turn has {most_tokens}")
    if is_fair and cost > money:
        raise Dishonest(BUDGET, f"the turn cost {as_money(cost):g}, and has {budget.money:g}")


def _check_time(seen: SeenTurn, doing: Doing) -> None:
    """Check that nothing was begun, and no request sent, when the seconds of a turn were over."""
    seconds = seen.policy.budget.seconds
    if seconds is None:
        return
    began = seen.run.began
    if isinstance(doing, CallInTurn):
        if any(at - began >= seconds for at in doing.sent_at):
            raise Dishonest(BUDGET, f"a request went out after the {seconds:g} s of the turn")
    elif doing.at - began >= seconds:
        what = "tools were run" if isinstance(doing, PlayedRound) else "a compaction was begun"
        raise Dishonest(BUDGET, f"{what} after the {seconds:g} s of the turn")


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
        if amount is None or worst.value is None:
            continue
        if worst.name == "output tokens" and not is_for_this:
            continue
        if amount > worst.value * (1 + TOLERANCE):
            wrong = f"{amount:g} {worst.name}, and at worst there are {worst.value:g}"
            raise Dishonest(CERTIFIED, wrong)


def spending(seen: SeenTurn) -> dict[str, float]:
    """Return the spending of a turn by the names of the worst cases."""
    calls = seen.run.calls
    steps = [step for each in calls for step in each.call.journal.steps]
    attempts = sum(len(each.sent_at) for each in calls)
    waits = [before.wait for before, after in pairwise(steps) if after.event == "sent"]
    runs = sum(len(each.runs) for each in seen.run.rounds)
    tokens = sum(step.usage.output_tokens for step in steps)
    counts = {
        "calls": len(calls),
        "attempts": attempts,
        "tool runs": runs,
        "output tokens": tokens,
    }
    spent = {name: float(count) for name, count in counts.items()}
    spent["waiting seconds"] = math.fsum(waits)
    return spent
