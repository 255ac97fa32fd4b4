"""The provider would go on for ever; the budget does not."""

import time
from typing import Any

import httpx
import pytest

import rungwise
from rungwise import Budget, Client, Policy
from rungwise.adapters.provider.server import render
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.testing import ScriptedReply
from support.modes import MODES, WHOLE, Caller
from support.sampling import sampled

DOWN = ScriptedReply(status=500)
EMPTY = ScriptedReply()
HANGS = ScriptedReply(hang=True)
FIRST = "Herons nest in reeds, "
TRICKLE = ScriptedReply(text=FIRST * 20, chunk_delay=0.02, write_sizes=(5,))
A_THOUSANDTH = {"prices": rungwise.Prices(input=0, output=1000)}
"""What one token of output costs."""
STREAMED = pytest.mark.parametrize("run", sampled(MODES, one_in=3), indirect=True)
OFTEN = pytest.mark.parametrize("run", sampled((*MODES, *WHOLE), one_in=3), indirect=True)
"""The modes of what waits for real seconds."""


def part(text: str, output: int, finish: str = "length") -> ScriptedReply:
    return ScriptedReply(
        text=text, finish=finish, usage={"prompt_tokens": 10, "completion_tokens": output}
    )


def caps(ended: Any) -> list[int | None]:
    """Return the cap of each request, in whichever field it came; two of them are one too many."""
    fields = ("max_tokens", "max_completion_tokens")
    given = [[body[name] for name in fields if name in body] for body in ended.bodies]
    assert all(len(some) < 2 for some in given)
    return [some[0] if some else None for some in given]


def ask_on_own_client(mode: str, backend: Any, policy: Policy) -> None:
    """Ask over an HTTP client of the caller's own, whose timeout is longer than any budget here."""
    with Caller(
        mode,
        backend,
        http=httpx,
        http_options={"timeout": 30},
        policy=policy,
    ) as caller:
        caller.ask()


# attempts


def test_three_attempts_and_errors_for_ever_are_exactly_three_requests(run: Any) -> None:
    ended = run([DOWN], policy=Policy(budget=Budget(attempts=3)))
    ended.was("over_budget", counts=[3], attempts=3)
    assert ended.waits == [2, 4]  # nobody waits for what cannot be sent
    assert type(ended.error) is rungwise.OverBudget
    assert "3 attempts" in str(ended.error)
    assert ended.result.failures[0][1].status == 500


@pytest.mark.parametrize(
    ("reply", "attempts"),
    [
        *((DOWN, attempts) for attempts in (1, 2, 5, 7)),
        *((EMPTY, attempts) for attempts in (1, 2, 5)),
    ],
)
def test_a_fallback_does_not_refill_the_attempts(
    run: Any, reply: ScriptedReply, attempts: int
) -> None:
    ended = run([reply], [reply], policy=Policy(budget=Budget(attempts=attempts)))
    ended.was("over_budget")
    most = 2 if reply is EMPTY else 4  # a backend is left at its second empty reply
    # one is kept for the second backend, if there are two
    first = 1 if attempts == 1 else min(attempts - 1, most)
    assert ended.counts == [first, attempts - first]


def test_the_last_attempt_may_still_succeed(run: Any) -> None:
    run([DOWN, DOWN, ScriptedReply(text=FIRST)], policy=Policy(budget=Budget(attempts=3))).was(
        "done", FIRST
    )


def test_twenty_four_attempts_are_the_default(run: Any) -> None:
    limits = rungwise.Limits(retries=100)
    run([DOWN], policy=Policy(limits=limits, waits=rungwise.Waits(retry_cap=2))).was(
        "over_budget", counts=[24]
    )


def test_a_quarter_of_an_hour_is_the_default(run: Any) -> None:
    ended = run([DOWN], policy=Policy(limits=rungwise.Limits(retries=100)))
    ended.was("over_budget")
    assert sum(ended.waits) < 900 < sum(ended.waits) + 60
    assert "900 s" in str(ended.error)


# seconds


@OFTEN
@pytest.mark.parametrize(
    "slow", [HANGS, pytest.param(TRICKLE, marks=pytest.mark.full)], ids=["hangs", "trickles"]
)
def test_a_slow_provider_ends_with_the_seconds_of_the_budget(run: Any, slow: ScriptedReply) -> None:
    ended = run([slow], policy=Policy(budget=Budget(seconds=0.6)))
    ended.was("over_budget", counts=[1], waits=[])
    assert 0.55 < ended.result.seconds < 2.5
    assert "0.6 s" in str(ended.error)


@pytest.mark.full
@OFTEN
def test_a_provider_that_hangs_leaves_the_fallback_its_reserve(run: Any) -> None:
    ended = run([HANGS], [ScriptedReply(text=FIRST)], policy=Policy(budget=Budget(seconds=2)))
    ended.was("done", FIRST, counts=[1, 1], path="fallback done")
    assert 1.4 < ended.result.seconds < 2
    assert [failure.reason for _, failure in ended.result.failures] == ["timeout"]


@pytest.mark.full
def test_without_a_reserve_a_provider_that_hangs_leaves_nothing(run: Any) -> None:
    policy = Policy(budget=Budget(seconds=0.6), reserve=rungwise.Reserve(share=0))
    run([HANGS], [ScriptedReply(text=FIRST)], policy=policy).was("over_budget", counts=[1, 0])


@STREAMED
def test_text_before_the_seconds_are_over_is_in_the_result(run: Any, cut: Any) -> None:
    silent = cut(ScriptedReply(text=FIRST + "never sent", chunk_size=len(FIRST)), FIRST, hang=True)
    ended = run([silent], policy=Policy(budget=Budget(seconds=0.6)))
    ended.was("over_budget", FIRST)
    assert 0.55 < ended.result.seconds < 2.5
    assert ended.result.usage.output_tokens > 0


@pytest.mark.parametrize(
    ("slow", "mode"),
    [(HANGS, mode) for mode in sampled(MODES, one_in=3)]
    + [(TRICKLE, mode) for mode in sampled(["stream", "astream"], one_in=2)],
)
def test_the_seconds_hold_whatever_the_read_timeout_of_the_callers_own_client(
    serve: Any,
    backend_of: Any,
    mode: str,
    slow: ScriptedReply,
) -> None:
    provider = serve(slow)
    policy = Policy(budget=Budget(seconds=0.6))
    began = time.monotonic()
    with pytest.raises(rungwise.OverBudget):
        ask_on_own_client(mode, backend_of(provider), policy)
    assert 0.55 < time.monotonic() - began < 2.5
    assert len(provider.requests) == 1


def test_a_wait_that_does_not_fit_is_not_begun(run: Any) -> None:
    ended = run([DOWN], policy=Policy(budget=Budget(seconds=10)))
    ended.was("over_budget", counts=[3])
    assert ended.waits == [2, 4]  # the next would be 8, and 4 are left


def test_the_waits_count_against_the_seconds_of_the_fallback_as_well(run: Any) -> None:
    ended = run([DOWN], [DOWN], policy=Policy(budget=Budget(seconds=21)))
    ended.was("over_budget", counts=[4, 3], waits=[2, 4, 8, 2, 4])


# output tokens


@pytest.mark.parametrize(
    ("budget", "spent"),
    [(Budget(output_tokens=1000), "output tokens"), (Budget(money=1.0), "money")],
    ids=["tokens", "money"],
)
@pytest.mark.parametrize("outcome", ["done", "over_budget"])
def test_no_request_goes_out_with_more_than_what_is_left(
    run: Any, budget: Budget, spent: str, outcome: str
) -> None:
    """What is spent ends the call with what was gathered."""
    last = part("part three.", 300, "stop") if outcome == "done" else part("part three.", 400)
    replies = [part("Part one, ", 300), part("part two, ", 300), last]
    ended = run(replies, policy=Policy(budget=budget), backends=[A_THOUSANDTH])
    ended.was(outcome, "Part one, part two, part three.")
    assert caps(ended) == [992, 692, 392]
    assert ended.result.cost == pytest.approx(0.9 if outcome == "done" else 1.0)
    assert outcome == "done" or spent in str(ended.error)


def test_discarded_replies_and_the_fallback_are_paid_from_the_same_output_tokens(run: Any) -> None:
    nothing = ScriptedReply(reasoning="hm", usage={"prompt_tokens": 10, "completion_tokens": 100})
    ended = run(
        [nothing],
        [nothing],
        policy=Policy(budget=Budget(output_tokens=1000), switch_after={"empty": 1000}),
    )
    kept = 250  # of these, for the fallback
    first, second = ended.counts
    assert caps(ended)[:first] == [992 - kept - 100 * number for number in range(first)]
    assert caps(ended)[first:] == [992 - 100 * (first + number) for number in range(second)]
    assert second > 2
    ended.was("over_budget")
    assert ended.result.usage.output_tokens == 1000


@pytest.mark.parametrize("where", ["call", "backend"])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_cap_among_the_parameters_holds_within_what_is_left(
    run: Any, where: str, name: str
) -> None:
    given = {"parameters": {name: 5000}}
    options = given if where == "call" else {"backends": [given]}
    replies = [part("Part one, ", 300), part("part two.", 300, "stop")]
    ended = run(replies, policy=Policy(budget=Budget(output_tokens=1000)), **options)
    assert caps(ended) == [992, 692]


def test_a_cap_among_the_parameters_is_not_raised_by_the_budget(run: Any) -> None:
    policy = Policy(budget=Budget(output_tokens=1000))
    ended = run([part("One.", 30, "stop")], policy=policy, parameters={"max_tokens": 200})
    assert caps(ended) == [200]


def rejecting(name: str) -> ScriptedReply:
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return ScriptedReply(status=400, error={"message": message, "param": name})


@pytest.mark.parametrize(
    ("options", "cap"),
    [({"policy": Policy(budget=Budget(output_tokens=1000))}, 992), ({"max_tokens": 500}, 500)],
    ids=["with a budget", "without a budget"],
)
def test_a_backend_that_takes_no_cap_at_all_gets_no_request_without_one(
    run: Any, options: dict[str, Any], cap: int
) -> None:
    ended = run(
        [rejecting("max_tokens"), rejecting("max_completion_tokens"), ScriptedReply(text=FIRST)],
        **options,
    )
    assert (ended.outcome, caps(ended)) == ("failed", [cap, cap])


@STREAMED
def test_a_cut_stream_keeps_all_that_was_reserved_for_it(run: Any, cut: Any) -> None:
    text = " ".join(f"heron {number:03}" for number in range(40))  # about 100 tokens
    reply = cut(ScriptedReply(text=text + "never sent", chunk_size=len(text)), text)
    ended = run(
        [reply, part("end", 3, "stop")],
        policy=Policy(budget=Budget(output_tokens=700)),
        max_tokens=300,
    )
    assert caps(ended) == [300, 700 - 8 - 308]
    assert ended.result.usage.estimated
    assert ended.result.usage.output_tokens < 300  # by what came


# money


def test_money_needs_prices(serve: Any, backend_of: Any) -> None:
    with pytest.raises(rungwise.ConfigurationError, match=r"Budget\.money needs prices"):
        Client(backend_of(serve(EMPTY)), policy=Policy(budget=Budget(money=1.0)))


# money


def test_what_breaks_off_behind_its_finish_reason_costs_all_that_was_reserved(run: Any) -> None:
    pieces = render(
        ScriptedReply(text=" "), {"stream": True, "stream_options": {"include_usage": True}}
    ).pieces
    # the report would come next
    broken = ScriptedReply(text=" ", cut_after=sum(map(len, pieces[:-2])))
    policy = Policy(budget=Budget(money=0.05), base_cap=20)
    ended = run([broken], policy=policy, backends=[A_THOUSANDTH])
    # a body that is no stream is shorter, and comes whole
    is_streamed = ended.bodies[0].get("stream", False)
    # a model writes on behind a cut
    billed = sum(most_counted(cap) if is_streamed else 1 for cap in caps(ended))
    assert len(ended.bodies) > 1
    assert billed / 1000 <= 0.05
    assert {
        each.usage.lost for each in ended.result.journal.steps if each.event == "came_empty"
    } == {is_streamed}
    again = rungwise.replay(rungwise.Journal.from_json(ended.result.journal.to_json()))
    assert again.journal.steps == ended.result.journal.steps
