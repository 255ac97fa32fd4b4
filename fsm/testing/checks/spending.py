"""Whether a call spent no more than its budget and certificate allow, and counted everything."""

from __future__ import annotations

import math
from itertools import pairwise

from rungwise.fsm.call.budget.costs import price_of, price_of_output
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
    """Check each request, with what it may cost at its cap, against the rest of the budget at the
    time.
    """
    budget = ended.policy.budget
    used = 0
    money = math.inf if budget.money is None else units_of(budget.money)
    if ended.result.attempts > budget.attempts:
        raise Dishonest(
            BUDGET, f"{ended.result.attempts} attempts, and the budget has {budget.attempts}"
        )
    for step in ended.path:
        if step.event == "sent":
            if budget.seconds is not None and step.at >= budget.seconds:
                wrong = (
                    f"a request went out at {step.at:g} s, and the budget has {budget.seconds:g} s"
                )
                raise Dishonest(BUDGET, wrong, step)
            remaining = math.inf if budget.output_tokens is None else budget.output_tokens - used
            if remaining < math.inf and (step.cap is None or step.cap > remaining):
                wrong = (
                    f"a request carried a cap of {step.cap}, and {remaining} output "
                    f"tokens were left"
                )
                raise Dishonest(BUDGET, wrong, step)
            if money <= 0:
                raise Dishonest(
                    BUDGET, f"a request went out after all {budget.money:g} was spent", step
                )
            if step.cap is not None and step.cap < 1:
                raise Dishonest(BUDGET, f"a request carried a cap of {step.cap}", step)
            reserved = _cost(
                ended, step, Usage(step.input_tokens or 0, most_counted(step.cap or 0))
            )
            if reserved > money:
                wrong = (
                    f"a request may cost {as_money(reserved):g}, and "
                    f"{as_money(int(money)):g} were left"
                )
                raise Dishonest(BUDGET, wrong, step)
        used += step.usage.output_tokens
        money -= _cost(ended, step)


def check_fair(ended: EndedCall) -> None:
    """Check that the budget holds to the last unit if providers keep to their caps."""
    if not ended.is_fair:
        return
    budget = ended.policy.budget
    cost = ended.result.cost
    tokens = ended.result.usage.output_tokens
    if budget.output_tokens is not None and tokens > budget.output_tokens:
        raise Dishonest(
            BUDGET, f"{tokens} output tokens, and the budget has {budget.output_tokens}"
        )
    if budget.money is not None and cost is not None and cost > budget.money:
        raise Dishonest(BUDGET, f"the call cost {cost:g}, and the budget has {budget.money:g}")
    written = sum(usage.output_tokens for usage, _ in ended.billed)
    if budget.output_tokens is not None and written > budget.output_tokens:
        raise Dishonest(
            BUDGET, f"{written} output tokens are billed, and the budget has {budget.output_tokens}"
        )
    bill = sum(price_of(usage, prices) for usage, prices in ended.billed)
    if budget.money is not None and bill > units_of(budget.money):
        raise Dishonest(
            BUDGET, f"{as_money(bill):g} is billed, and the budget has {budget.money:g}"
        )


def check_certificate(ended: EndedCall) -> None:
    """Check the spending against the proved worst cases."""
    proved = ended.certificate
    if proved is None:
        return
    if proved.table != ended.table.name:
        raise Dishonest(CERTIFIED, f"the certificate is for the table {proved.table!r}")
    if ended.path[-1].spent.get("fallbacks", 0) >= len(proved.chain):
        raise Dishonest(
            CERTIFIED, f"the certificate is for a chain of {len(proved.chain)}, and more were asked"
        )
    max_tokens = ended.journal.setting.max_tokens
    spent = spending(ended)
    for worst in proved.worst:
        amount = spent.get(worst.name)
        if amount is None or worst.value is None:
            continue
        if worst.name in ("output tokens", "money") and proved.max_tokens != max_tokens:
            continue  # it speaks of another request
        if worst.name == "output tokens" and worst.ended_by == "budget.output_tokens":
            amount = spent["output tokens within the caps"]
        if amount > worst.value * (1 + TOLERANCE):
            raise Dishonest(
                CERTIFIED, f"{amount:g} {worst.name}, and at worst there are {worst.value:g}"
            )


def spending(ended: EndedCall) -> dict[str, float]:
    """Return the spending of a call by the names of the worst cases."""
    caps = [step.cap for step in ended.sent]
    waits = [step.wait for step, after in pairwise(ended.path) if after.event == "sent"]
    spent_on = {"attempts": float(ended.result.attempts), "waiting seconds": math.fsum(waits)}
    # a compactor takes what time it likes
    if not any(step.target == "compact" for step in ended.path):
        spent_on["seconds"] = ended.result.seconds
    if None not in caps:
        spent_on["output tokens"] = float(sum(cap for cap in caps if cap is not None))
    # A provider that takes no notice of a cap can make a call dearer than any certificate says;
    # that is not counted.
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
        cost += 0 if prices is None else price_of_output(tokens, prices)
    return {**spent_on, "output tokens within the caps": float(within), "money": as_money(cost)}


def check_waits(ended: EndedCall) -> None:
    """Check that `Retry-After` is waited in full, and that no other wait exceeds its series."""
    waits = ended.policy.waits
    most = max(waits.retry_cap, waits.overload_cap, waits.reask_cap) * (1 + waits.jitter)
    rungs = ended.table.rungs
    for step in ended.path:
        if not (math.isfinite(step.wait) and step.wait >= 0):
            raise Dishonest(WAITS, f"it waits {step.wait} s", step)
        if (
            step.asked_wait is not None
            and step.target in rungs
            and keeps_asked_wait(step.event, step.target)
        ):
            if step.wait < step.asked_wait:
                raise Dishonest(
                    WAITS,
                    f"it waits {step.wait:g} s, and {step.asked_wait:g} s were asked for",
                    step,
                )
            if step.wait > waits.longest_asked:
                wrong = f"it waits {step.wait:g} s, and the policy allows {waits.longest_asked:g} s"
                raise Dishonest(WAITS, wrong, step)
        elif step.wait > most * (1 + TOLERANCE):
            wrong = (
                f"it waits {step.wait:g} s, and no series of the policy is longer than {most:g} s"
            )
            raise Dishonest(WAITS, wrong, step)


def check_sums(ended: EndedCall) -> None:
    """Check that the usage and cost of the result are the sums over its steps."""
    usage = sum((step.usage for step in ended.path), NO_USAGE)
    cost = as_money(sum(_cost(ended, step) for step in ended.path))
    priced = all(step.usage == NO_USAGE or _prices(ended, step) is not None for step in ended.path)
    if usage != ended.result.usage:
        raise Dishonest(
            SUMMED, f"the result says {ended.result.usage}, and the steps come to {usage}"
        )
    reported = ended.result.cost
    if reported is not None and priced and reported != cost:
        raise Dishonest(SUMMED, f"the result costs {reported:g}, and the steps come to {cost:g}")


def check_chain(ended: EndedCall) -> None:
    """Check that requests follow the order of the chain."""
    for step in ended.sent:
        links = ended.links(step.backend)
        if not links:
            raise Dishonest(CHAIN, f"{step.backend!r} is no backend of the chain", step)
        if all(link.problem is not None for link in links):
            raise Dishonest(
                CHAIN, f"{step.backend!r} was asked, which has a problem: {links[0].problem}", step
            )
    for before, step in pairwise(ended.sent):
        if step.backend != before.backend and step.source != "fallback":
            raise Dishonest(
                CHAIN, f"it goes to {step.backend!r} and not to {before.backend!r}", step
            )


def _cost(ended: EndedCall, step: Step, usage: Usage | None = None) -> int:
    """Return the cost of a step, or of another usage at its prices, in units; 0 if unknown."""
    prices = _prices(ended, step)
    return 0 if prices is None else price_of(usage or step.usage, prices)


def _prices(ended: EndedCall, step: Step) -> Prices | None:
    links = ended.links(step.backend)
    return (
        links[0].prices if links and all(link.prices == links[0].prices for link in links) else None
    )
