"""Hypothesis strategies for the policies and limits of calls.

They draw small limits, budgets and waits far more often than a user would set them, since a call
meets its ceilings only then.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.call.limits import BY_CHAIN, LARGEST_LIMIT, Limits
from rungwise.fsm.call.policy import (
    DEFAULT_POLICY,
    DEFAULT_SECONDS,
    SWITCH_AFTER,
    Budget,
    Policy,
    Reserve,
    Waits,
)
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.testing.strategies import evenly, seldom

MOST = 4
"""The largest limit of a counter that `limits` draws by default."""


def limits(*, most: int = MOST) -> SearchStrategy[Limits]:
    """Generate limits.

    Arguments:
        most: the largest limit of a counter.
    """
    fields: dict[str, SearchStrategy[Any]] = {}
    for name, default in CALL.limits.items():
        if default is not None:
            fields[name] = st.integers(0, most) | st.integers(1, most)
    by_chain = dict.fromkeys(BY_CHAIN, st.one_of(st.none(), st.integers(0, most)))
    return st.builds(Limits, **fields, **by_chain)


_limits = limits  # the parameter of `policies` has the same name


def policies(
    *, limits: SearchStrategy[Limits] | None = None, table: Table = CALL, money: bool = False
) -> SearchStrategy[Policy]:
    """Generate policies.

    Arguments:
        limits: generates their limits; `limits()` where None.
        table: the machine of all of them.
        money: whether some have a budget of money, which needs prices on every backend.
    """
    share = st.sampled_from((0.25, 0.0, 0.5, 1.0))
    reserve = st.builds(Reserve, share=share, seconds=seldom(st.floats(0.1, 300.0)))
    reasons = st.sampled_from((*SWITCH_AFTER, "rate_limit", "server_error"))
    failures_in_a_row = st.integers(1, 3) | st.just(LARGEST_LIMIT)
    switch_after = st.dictionaries(reasons, failures_in_a_row)
    after_refusal = st.sampled_from(("fall_back", "end"))
    base_cap = st.sampled_from((DEFAULT_POLICY.base_cap, 100))
    largest_cap = st.sampled_from((DEFAULT_POLICY.largest_cap, 300))
    nudge_window = st.sampled_from((DEFAULT_POLICY.nudge_window, 1, 0))
    if limits is None:
        limits = _limits()
    return st.builds(
        Policy,
        limits=limits,
        budget=_budgets(money=money),
        waits=_waits(),
        reserve=reserve,
        switch_after=switch_after,
        after_refusal=after_refusal,
        base_cap=base_cap,
        largest_cap=largest_cap,
        nudge_window=nudge_window,
        skip_identical_empties=st.booleans(),
        table=st.just(table),
    )


def _waits() -> SearchStrategy[Waits]:
    seconds = st.sampled_from((0.0, 0.5, 2.0, 5.0, 60.0))
    jitter = st.sampled_from((0.5, 0.0, 1.0))
    longest_asked = st.sampled_from((120.0, 120.0, 120.0, 0.0, 3.0))
    return st.builds(
        Waits,
        retry_base=seconds,
        retry_cap=seconds,
        overload_cap=seconds,
        reask_base=seconds,
        reask_cap=seconds,
        jitter=jitter,
        longest_asked=longest_asked,
    )


def _budgets(*, money: bool) -> SearchStrategy[Budget]:
    amounts: SearchStrategy[float | None] = st.none()
    if money:
        amounts = st.one_of(st.none(), st.floats(0.001, 1.0))
    attempts = st.sampled_from((24, 100)) | st.integers(1, 40)
    seconds = evenly(st.just(DEFAULT_SECONDS), st.none(), st.floats(0.5, 600.0))
    tokens = seldom(st.integers(1, 50_000))
    return st.builds(
        Budget, attempts=attempts, seconds=seconds, output_tokens=tokens, money=amounts
    )
