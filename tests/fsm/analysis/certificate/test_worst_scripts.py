"""No script of replies passes a worst case, whatever each reply is, how long it takes and where the
budgets end.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import (
    CALL,
    Budget,
    ConfigurationError,
    Limits,
    Policy,
    Prices,
    Reserve,
    Timeouts,
    ToolCall,
    Usage,
)
from rungwise.adapters.provider.enacted import script_of
from rungwise.core import Call, Failure, PlainLink, Reply, Request, Send
from rungwise.fsm.analysis.certificate.shown.scripts import WorstScript
from rungwise.fsm.analysis.certificate.worst import worst_cases
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.play import reworded
from support.sampling import examples
from support.tables import limits


def text_of(send: Send) -> str:
    """Return as much text as the cap allows, which is like no other."""
    return " ".join(
        f"w{send.backend}x{send.max_tokens}y{count}"
        for count in range(min(send.max_tokens or 0, 3000))
    )


SCRIPTED: dict[str, Callable[[Send, Usage], Reply | Failure]] = {
    "T": lambda send, usage: Reply(text_of(send), stop_reason="length", usage=usage),
    "R": lambda send, usage: Reply(reasoning="hm", stop_reason="length", usage=usage),
    "H": lambda send, usage: Reply(reasoning="hm " * 50, stop_reason="stop", usage=usage),
    "O": lambda send, usage: Reply(text_of(send), stop_reason="overflow", usage=usage),
    "B": lambda send, usage: Reply(
        text_of(send), interrupted=True, failure=Failure("connection", asked_wait=9), usage=usage
    ),
    "C": lambda send, usage: Reply(
        tool_calls=(ToolCall("1", "f", "{"),), stop_reason="length", usage=usage
    ),
    "E": lambda send, usage: Reply(stop_reason="stop", usage=usage),
    "5": lambda send, usage: Failure("server_error", asked_wait=9),
    "S": lambda send, usage: Failure("connection", is_stale=True, asked_wait=9),
    "A": lambda send, usage: Failure("auth"),
    "F": lambda send, usage: Reply("The end.", stop_reason="stop", usage=usage),
}
"""What a backend may do; a "+" behind it says that it takes as long as it may."""


def scripted(
    policy: Policy,
    links: Sequence[PlainLink],
    script: str,
    max_tokens: int,
    prompt: int,
) -> Call:
    """Play a script to a call, each reply at its dearest, and the last of them again as long as the
    call goes on.
    """
    request = Request("say", max_tokens=max_tokens, input_tokens=prompt)
    call = Call(request, policy, links, jitter=lambda: 1.0, has_compactor=True)
    now = 0.0
    number = 0
    todo = re.findall(r".\+?", script)
    send = call.begin(now)
    while send is not None:
        if send.needs_compaction:
            send = call.compacted(reworded(send.messages)) or send
        now += send.wait
        send = call.sending(now)
        if send is None:
            break
        what = todo[min(number, len(todo) - 1)]
        ends_by = call.clocks().ends_by
        number = number + 1
        if len(what) > 1:
            now = min(
                now + (policy.timeouts.total or 0.0),
                now + 600.0 if ends_by is None else max(now, ends_by),
            )
        usage = Usage(prompt + send.added_tokens, most_counted(send.max_tokens or 0))
        send = call.receive(SCRIPTED[what[0]](send, usage), now)
    return call


def check_script(
    policy: Policy,
    prices: Sequence[Prices],
    script: str,
    max_tokens: int,
    prompt: int,
) -> Call:
    """Play a script, and hold what was spent against the worst cases."""
    links = [PlainLink(f"backend {number}", prices=price) for number, price in enumerate(prices)]
    call = scripted(policy, links, script, max_tokens, prompt)
    found = worst_cases(
        policy, policy.limits.bounded(policy.table.limits, len(prices)), prices, max_tokens, prompt
    )
    spent = {
        "attempts": call.result.attempts,
        "waiting seconds": sum(
            step.wait for step, after in pairwise(call.journal.steps) if after.event == "sent"
        ),
        "seconds": call.spending.elapsed,
        "output tokens": call.spending.usage.output_tokens,
        "money": call.result.cost or 0.0,
    }
    for worst in found:
        assert worst.value is None or spent[worst.name] <= worst.value * (1 + 1e-9), (
            worst.name,
            worst.path,
        )
    return call


YIELDING = [
    # the attempts of the budget, and what comes back
    (2, "TF"),
    (5, "T+TTRF"),
    (8, "T+TTRRROF"),
]


@pytest.mark.full
@pytest.mark.parametrize(("attempts", "script"), YIELDING)
def test_a_dear_backend_that_is_asked_with_a_raised_cap_stays_within_the_worst_case(
    attempts: int, script: str
) -> None:
    """A continuation is spent and raises the cap, but the cheap backend has no time or attempt left
    to send it.
    """
    policy = Policy(budget=Budget(attempts=attempts), timeouts=Timeouts(total=700.0))
    call = check_script(policy, [Prices(1, 1), Prices(1, 50)], script, 1000, 100)
    assert any(step.event == "ran_out" and step.target == "fallback" for step in call.journal.steps)
    assert call.result.attempts == attempts
    assert call.result.outcome == "done"


@pytest.mark.full
@given(
    script=st.lists(
        st.sampled_from([*SCRIPTED, *(f"{name}+" for name in SCRIPTED), "T", "T+"]),
        min_size=1,
        max_size=9,
    ),
    attempts=st.integers(1, 9),
    seconds=st.sampled_from([None, 60.0, 900.0, 5000.0]),
    prices=st.lists(
        st.builds(Prices, st.sampled_from([0.0, 1.0, 9.0]), st.sampled_from([0.0, 1.0, 50.0])),
        min_size=1,
        max_size=3,
    ),
    money=st.sampled_from([None, None, 0.02, 0.1, 0.5]),
    output_tokens=st.sampled_from([None, None, 3000, 9000]),
    share=st.sampled_from([0.0, 0.25, 0.9]),
)
@settings(max_examples=examples(60))
def test_no_random_script_passes_a_worst_case(
    script: list[str],
    attempts: int,
    seconds: float | None,
    prices: list[Prices],
    money: float | None,
    output_tokens: int | None,
    share: float,
) -> None:
    budget = Budget(
        attempts=attempts,
        seconds=seconds,
        money=money,
        output_tokens=output_tokens,
    )
    small = Limits(
        retries=1,
        reasks=1,
        continuations=2,
        enlargements=2,
        prefills=1,
        compactions=1,
    )
    policy = Policy(budget=budget, reserve=Reserve(share=share), limits=small)
    check_script(policy, prices, "".join(script), 500, 100)


def test_a_wait_that_is_asked_for_is_kept_where_the_same_is_sent_again() -> None:
    policy = Policy(
        budget=Budget(seconds=None), limits=Limits(**limits(retries=2, resends=1, continuations=1))
    )
    call = check_script(policy, [Prices(3.0, 15.0)], "SSBSSB", 100, 10)
    waits = [(step.target, step.wait) for step in call.journal.steps if step.target in CALL.rungs]
    assert waits == [("resend", 0), ("retry", 9), ("continuation", 9), ("retry", 9), ("retry", 9)]
    found = worst_cases(policy, policy.limits.bounded(policy.table.limits, 1), [None], None, None)[
        1
    ]
    assert (found.value, found.is_exact) == (5 * policy.waits.longest_asked, True)


# what a script is made from: what was played, and what no server can bring about


def scripts_of(policy: Policy, backends: int = 1) -> dict[str, WorstScript]:
    bounded = policy.limits.bounded(policy.table.limits, backends)
    found = worst_cases(policy, bounded, [Prices(1, 2)] * backends, 100, 10)
    return {case.name: WorstScript(case, policy, backends) for case in found}


@pytest.mark.full
@pytest.mark.parametrize("backends", [1, 2])
def test_the_attempts_are_those_that_were_counted(backends: int) -> None:
    for name, worst in scripts_of(Policy.interactive(), backends).items():
        spent = worst.case.enacted.spent
        assert len(worst.attempts) == sum(worst.requests) == spent["attempts"] == len(worst.rungs)
        assert sum(each.wait for each in worst.attempts) == pytest.approx(spent["waiting seconds"])
        assert worst.takes == pytest.approx(spent["seconds"])
        replies = [each.came for each in worst.attempts if isinstance(each.came, Reply)]
        assert sum(reply.usage.output_tokens for reply in replies) == spent["output tokens"]
        assert (worst.closing > 0) == (name == "seconds")
        assert worst.unseen is None


def test_waits_that_nobody_asks_for_are_drawn() -> None:
    own = Policy(limits=Limits(continuations=0), waits=evolve(Policy().waits, longest_asked=0.0))
    worst = scripts_of(own)["waiting seconds"]
    assert worst.drawn == worst.case.attained
    still = evolve(own, waits=evolve(own.waits, jitter=0.0))
    assert scripts_of(still)["waiting seconds"].drawn == 0.0


@pytest.mark.full
def test_a_connection_that_must_be_lost_is_no_servers_to_lose() -> None:
    policy = Policy(budget=Budget(seconds=None), limits=Limits(**limits(resends=1)))
    worst = scripts_of(policy)["attempts"]
    assert worst.case.value == 2
    assert any(isinstance(each.came, Failure) and each.came.is_stale for each in worst.attempts)
    with pytest.raises(
        ConfigurationError, match="no script can play attempts at worst: it needs a connection"
    ):
        script_of(worst)
