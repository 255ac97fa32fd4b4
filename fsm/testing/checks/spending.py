"""Whether a call spent no more than its budget and certificate allow, and counted everything.

The budget is a ledger, so it is checked as one: step by step, each request against what was left at
its time. Money is counted in whole units (`values/money.py`), so that sums are exact; seconds are
floats, and only comparisons with a certificate get a tolerance.
"""

from __future__ import annotations

import math
from itertools import pairwise

from rungwise.fsm.call.budget.costs import cost_of, price_of, price_of_output
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.table import keeps_asked_wait
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.values.money import as_money, units_of
from rungwise.fsm.values.usage import NO_USAGE, Usage

BUDGET = "nothing exceeds the budget"
CERTIFIED = "nothing exceeds the certificate"
WAITS = "every wait is as long as asked and no longer than allowed"
SUMMED = "usage and cost are the sums over all attempts"
CHAIN = "only a fallback changes the backend, and none is asked that cannot be used"

TOLERANCE = 1e-9


def check_budget(ended: EndedCall) -> None:
    """Check each request, and what it may cost at its cap, against what was left at its time."""
    budget = ended.policy.budget
    attempts = ended.result.attempts
    if attempts > budget.attempts:
        raise Dishonest(BUDGET, f"{attempts} attempts, and the budget has {budget.attempts}")
    tokens = math.inf if budget.output_tokens is None else budget.output_tokens
    money = math.inf if budget.money is None else units_of(budget.money)
    for step in ended.path:
        if step.event == "sent":
            _check_sent(ended, step, tokens, money)
        tokens -= step.usage.output_tokens
        money -= _cost(ended, step)


def _check_sent(
    ended: EndedCall,
    step: Step,
    tokens: float,
    money: float,
) -> None:
    """Check a request against what was left of the budget.

    Arguments:
        ended: the call.
        step: the request.
        tokens: output tokens that were left; infinite if the budget has no ceiling for them.
        money: units of money that were left, or infinite.
    """
    budget = ended.policy.budget
    if budget.seconds is not None and step.at >= budget.seconds:
        wrong = f"a request went out at {step.at:g} s, and the budget has {budget.seconds:g} s"
        raise Dishonest(BUDGET, wrong, step)
    if tokens < math.inf and (step.cap is None or step.cap > tokens):
        wrong = f"a request carried a cap of {step.cap}, and {tokens} output tokens were left"
        raise Dishonest(BUDGET, wrong, step)
    if money <= 0:
        wrong = f"a request went out after all {budget.money:g} was spent"
        raise Dishonest(BUDGET, wrong, step)
    if step.cap is not None and step.cap < 1:
        raise Dishonest(BUDGET, f"a request carried a cap of {step.cap}", step)
    at_worst = Usage(step.input_tokens or 0, most_counted(step.cap or 0), estimated=True)
    prices = _prices(ended, step)
    reserved = 0 if prices is None else price_of(at_worst, prices)
    if reserved > money:
        left = as_money(int(money))
        wrong = f"a request may cost {as_money(reserved):g}, and {left:g} were left"
        raise Dishonest(BUDGET, wrong, step)


def check_fair(ended: EndedCall) -> None:
    """Check that the budget holds to the last unit if providers keep to their caps."""
    if not ended.is_fair:
        return
    most_tokens = ended.policy.budget.output_tokens
    money = ended.policy.budget.money
    cost = ended.result.cost
    tokens = ended.result.usage.output_tokens
    if most_tokens is not None and tokens > most_tokens:
        raise Dishonest(BUDGET, f"{tokens} output tokens, and the budget has {most_tokens}")
    if money is not None and cost is not None and cost > money:
        raise Dishonest(BUDGET, f"the call cost {cost:g}, and the budget has {money:g}")
    billed = sum(usage.output_tokens for usage, _ in ended.billed)
    if most_tokens is not None and billed > most_tokens:
        wrong = f"{billed} output tokens are billed, and the budget has {most_tokens}"
        raise Dishonest(BUDGET, wrong)
    bill = sum(price_of(usage, prices) for usage, prices in ended.billed)
    if money is not None and bill > units_of(money):
        raise Dishonest(BUDGET, f"{as_money(bill):g} is billed, and the budget has {money:g}")


def check_certificate(ended: EndedCall) -> None:
    """Check the spending against the proved worst cases."""
    proved = ended.certificate
    if proved is None:
        return
    if proved.table != ended.table.name:
        raise Dishonest(CERTIFIED, f"the certificate is for the table {proved.table!r}")
    backends = len(proved.chain)
    if ended.path[-1].spent.get("fallbacks", 0) >= backends:
        wrong = f"the certificate is for a chain of {backends}, and more were asked"
        raise Dishonest(CERTIFIED, wrong)
    max_tokens = ended.journal.setting.max_tokens
    spent = spending(ended)
    for worst in proved.worst:
        amount = spent.get(worst.name)
        if amount is None or worst.value is None:
            continue
        if worst.name in ("output tokens", "money") and proved.max_tokens != max_tokens:
            continue  # these worst cases are those of another request
        if worst.name == "output tokens" and worst.ended_by == "budget.output_tokens":
            amount = spent["output tokens within the caps"]
        if amount > worst.value * (1 + TOLERANCE):
            wrong = f"{amount:g} {worst.name}, and at worst there are {worst.value:g}"
            raise Dishonest(CERTIFIED, wrong)


def spending(ended: EndedCall) -> dict[str, float]:
    """Return the spending of a call by the names of the worst cases.

    A name is missing where nothing can be compared with its worst case.
    """
    spent: dict[str, float] = {"attempts": float(ended.result.attempts)}
    waits = [step.wait for step, after in pairwise(ended.path) if after.event == "sent"]
    spent["waiting seconds"] = math.fsum(waits)
    # a compactor takes what time it likes
    if not any(step.target == "compact" for step in ended.path):
        spent["seconds"] = ended.result.seconds
    caps = [step.cap for step in ended.sent if step.cap is not None]
    if len(caps) == len(ended.sent):
        spent["output tokens"] = float(sum(caps))
    within, cost = _within_caps(ended)
    spent["output tokens within the caps"] = float(within)
    spent["money"] = as_money(cost)
    return spent


def _within_caps(ended: EndedCall) -> tuple[int, int]:
    """Return the output tokens of a call within its caps, and their cost in units.

    A provider that takes no notice of a cap can make a call dearer than any certificate says, so
    tokens beyond the cap do not count.
    """
    within = 0
    cost = 0
    cap = 0
    for step in ended.path:
        if step.event == "sent":
            cap = step.cap or 0
            continue
        tokens = min(step.usage.output_tokens, most_counted(cap))
        within += tokens
        prices = _prices(ended, step)
        if prices is not None:
            cost += price_of_output(tokens, prices)
    return within, cost


def check_waits(ended: EndedCall) -> None:
    """Check that `Retry-After` is waited in full, and that no other wait exceeds its series."""
    waits = ended.policy.waits
    most = max(waits.retry_cap, waits.overload_cap, waits.reask_cap) * (1 + waits.jitter)
    for step in ended.path:
        if not (math.isfinite(step.wait) and step.wait >= 0):
            raise Dishonest(WAITS, f"it waits {step.wait} s", step)
        waited = f"it waits {step.wait:g} s"
        asked = _asked_wait(ended, step)
        if asked is None:
            if step.wait > most * (1 + TOLERANCE):
                wrong = f"{waited}, and no series of the policy is longer than {most:g} s"
                raise Dishonest(WAITS, wrong, step)
        elif step.wait < asked:
            raise Dishonest(WAITS, f"{waited}, and {asked:g} s were asked for", step)
        elif step.wait > waits.longest_asked:
            wrong = f"{waited}, and the policy allows {waits.longest_asked:g} s"
            raise Dishonest(WAITS, wrong, step)


def _asked_wait(ended: EndedCall, step: Step) -> float | None:
    """Return the seconds that a provider asked for, if the step must wait as long."""
    if step.asked_wait is None or step.target not in ended.table.rungs:
        return None
    if not keeps_asked_wait(step.event, step.target):
        return None
    return step.asked_wait


def check_sums(ended: EndedCall) -> None:
    """Check that the usage and cost of the result are the sums over its steps."""
    usage = NO_USAGE
    units = 0
    is_priced = True
    for step in ended.path:
        usage += step.usage
        units += _cost(ended, step)
        is_known = step.usage.cost is not None or _prices(ended, step) is not None
        if step.usage != NO_USAGE and not is_known:
            is_priced = False
    if usage != ended.result.usage:
        wrong = f"the result says {ended.result.usage}, and the steps come to {usage}"
        raise Dishonest(SUMMED, wrong)
    cost = as_money(units)
    reported = ended.result.cost
    if reported is not None and is_priced and reported != cost:
        raise Dishonest(SUMMED, f"the result costs {reported:g}, and the steps come to {cost:g}")


def check_chain(ended: EndedCall) -> None:
    """Check that requests follow the order of the chain."""
    for step in ended.sent:
        links = ended.links(step.backend)
        if not links:
            raise Dishonest(CHAIN, f"{step.backend!r} is no backend of the chain", step)
        if all(link.problem is not None for link in links):
            wrong = f"{step.backend!r} was asked, which has a problem: {links[0].problem}"
            raise Dishonest(CHAIN, wrong, step)
    for before, step in pairwise(ended.sent):
        if step.backend != before.backend and step.source != "fallback":
            wrong = f"it goes to {step.backend!r} and not to {before.backend!r}"
            raise Dishonest(CHAIN, wrong, step)


def _cost(ended: EndedCall, step: Step) -> int:
    """Return the cost of a step, in units; 0 if unknown."""
    return cost_of(step.usage, _prices(ended, step)) or 0


def _prices(ended: EndedCall, step: Step) -> Prices | None:
    """Return the prices of a step's backend; None where backends of the same name differ."""
    links = ended.links(step.backend)
    if not links:
        return None
    prices = links[0].prices
    if any(link.prices != prices for link in links):
        return None
    return prices
