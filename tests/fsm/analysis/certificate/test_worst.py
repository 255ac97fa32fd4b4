"""Worst cases: pinned for the default policy, and equal to a brute force over the whole walk on
small limits.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import (
    CALL,
    Budget,
    Hints,
    Limits,
    Policy,
    Prices,
    Reserve,
    Rung,
    Timeouts,
    Usage,
    Waits,
)
from rungwise.core import Failure, PlainLink, Reply, Request, Row, Table
from rungwise.fsm.analysis.certificate.certificate import WorstCase
from rungwise.fsm.analysis.certificate.enactment import links_of
from rungwise.fsm.analysis.certificate.money import NO_MORE_INPUT
from rungwise.fsm.analysis.certificate.worst import worst_cases
from rungwise.fsm.call.budget.estimate import message_tokens
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.clocks.waiting import cap_of, longest_wait
from rungwise.fsm.call.conversation.changes import most_of_correction
from rungwise.fsm.engine.checker.branches import branches
from rungwise.fsm.engine.checker.longest import longest
from rungwise.fsm.engine.checker.moves import detours_of, moves_of
from rungwise.fsm.engine.checker.tracking import SearchProblem
from rungwise.fsm.engine.checker.walk import Walk, walk
from rungwise.fsm.engine.machine.run import Run
from rungwise.testing import run as play
from support.facts import Check
from support.sampling import examples
from support.tables import COUNTERS, ENTREAT, OTHERS_OFF, limits, unchecked

PRICES = [Prices(3.0, 15.0, cache_creation=3.75), Prices(1.0, 5.0), Prices(2.0, 20.0)]
Weight = Callable[[Any], float]
UNTIMED = partial(Budget, seconds=None)
"""Makes a budget in which the time, which would end most paths, has no limit."""

TURNS = 2
HINTS = (
    sum(
        map(
            message_tokens, (Hints().placeholder, Hints().nudge, Hints().continuation, Hints().seed)
        )
    )
    + 8
)


def limits_of(policy: Policy, fallbacks: int) -> dict[str, int]:
    return dict(policy.limits.bounded(policy.table.limits, fallbacks + 1))


@cache
def ways_of(table: Table) -> dict[str, dict[tuple[Any, ...], set[str]]]:
    """Return by rung what leads there from the hub: what must be left, spent, taken and refilled,
    with its kinds.
    """
    found: dict[str, dict[tuple[Any, ...], set[str]]] = {}
    for event, source in table.ladders:
        for way in branches(table, event, source) if source == table.hub else ():
            if way.row is None or way.row.target not in table.rungs:
                continue
            spent = way.spent | (
                {"fallbacks"} if way.facts.get("has_next_backend") is False else set()
            )
            sets = (way.left, spent, filter(None, [way.takes]), way.refills)
            needs = tuple(frozenset(map(table.counters.index, names)) for names in sets)
            found.setdefault(way.row.target, {}).setdefault(needs, set()).add(way.row.event)
    return found


def kinds_of(
    table: Table, given: Mapping[str, int]
) -> Callable[[tuple[int, ...], str, tuple[int, ...]], set[str]]:
    """Return what tells which events lead from the hub with some counters to a rung with others."""
    most = tuple(given[name] for name in table.counters)

    def kinds(counts: tuple[int, ...], rung: str, after: tuple[int, ...]) -> set[str]:
        found: set[str] = set()
        for (left, spent, takes, refills), names in ways_of(table)[rung].items():
            if any(counts[at] >= most[at] for at in left) or any(
                counts[at] != most[at] for at in spent
            ):
                continue
            if all(
                now == (0 if at in refills else count + (at in takes))
                for at, (count, now) in enumerate(zip(counts, after, strict=True))
            ):
                found |= names
        return found

    return kinds


def heaviest(
    table: Table,
    walked: Walk,
    weight: Weight,
    attempts: int,
    given: Mapping[str, int],
    *,
    keeps: bool = False,
    passes: bool = False,
) -> float:
    """Try every path through every configuration of the walk.

    Arguments:
        keeps: whether an attempt is kept for each backend to come.
        passes: whether backends may be passed over, because they cannot be paid for or it is too
            late for them.
    """
    kinds = kinds_of(table, given)
    fallbacks = table.counters.index("fallbacks")
    numbers = {configuration: number for number, configuration in enumerate(walked.configurations)}

    @cache
    def best(index: int, left: int, kind: str) -> float:
        state, counts = walked.configurations[index]
        if state in table.outcomes or (state != table.hub and left == 0):
            return 0.0
        if state == table.hub:
            ways = [(target, walked.configurations[target]) for target in walked.edges[index]]
            return max(
                best(target, left, kind)
                for target, (rung, after) in ways
                for kind in (kinds(counts, rung, after) if rung in table.rungs else {""})
            )
        if (
            keeps
            and left <= given["fallbacks"] - counts[fallbacks]
            and state not in (table.start, "fallback")
        ):
            others = {walked.configurations[target][0]: target for target in walked.edges[index]}
            return best(others["fallback"], left, "") if "fallback" in others else 0.0
        sent = [
            target
            for target in walked.edges[index]
            if walked.configurations[target][0] == table.hub
        ]
        attempt = SimpleNamespace(
            rung=state, kind=kind, **dict(zip(table.counters, counts, strict=True))
        )
        found = weight(attempt) + max(best(target, left - 1, "") for target in sent)
        # Nothing need go out: another backend may be asked instead. Those that are entered may be
        # left so only where they cannot be paid for, and then what they would have cost is more
        # than what is spent later.
        others = {walked.configurations[target][0]: target for target in walked.edges[index]}
        if "fallback" in others and state not in (table.start, "fallback"):
            found = max(found, best(others["fallback"], left, ""))
        if passes and state == "fallback" and counts[fallbacks] < given["fallbacks"]:
            after = tuple(count + (at == fallbacks) for at, count in enumerate(counts))
            found = max(found, best(numbers[state, after], left, ""))
        if passes and state == table.start and "fallback" in others:
            found = max(found, best(others["fallback"], left, ""))
        return found

    return best(0, attempts, "")


def cost(
    policy: Policy,
    given: Mapping[str, int],
    prices: Sequence[Prices],
    max_tokens: int,
    prompt: int,
) -> Weight:
    """Say once more what an attempt costs at most, in the words of the certificate."""

    def cap(continuations: int, enlargements: int) -> int:
        return most_counted(cap_of(policy, continuations + enlargements, max_tokens) or 0)

    def weight(attempt: Any) -> float:
        widest = [cap(count, given["enlargements"]) for count in range(attempt.continuations + 1)]
        own = cap(attempt.continuations, attempt.enlargements)
        tokens = prompt + sum(widest[:-1]) + (attempt.fallbacks + attempt.compactions) * widest[-1]
        if attempt.rung in ("retry", "rotate", "prefill", "enlarge", "repair", "compact"):
            tokens += given["prefills"] * own
        # a turn of the caller's own at the end may have to be gone on from
        if attempt.rung == "ask":
            tokens += message_tokens(Hints().continuation)
        else:
            # what was repaired may be reasoning that is missing, in the caller's turns and in those
            # of the rungs
            tokens += HINTS + (24 * (TURNS + 3) if given["repairs"] else 0)
            tokens += sum(message_tokens(hint) for hint in policy.hints.rungs.values())
        tokens += getattr(attempt, "corrections", 0) * (
            widest[-1] + most_of_correction(policy.hints)
        )
        price = prices[attempt.fallbacks]
        return (
            tokens * max(price.input, 1.6 * (price.cache_creation or 0)) + own * price.output
        ) / 1_000_000

    return weight


def wait(policy: Policy) -> Weight:
    def weight(attempt: Any) -> float:
        rung = policy.table.rung(attempt.rung)
        if rung is None:
            return 0.0
        return longest_wait(
            policy.waits, rung, max(1, getattr(attempt, rung.counter)), attempt.kind
        )

    return weight


def check_against_brute_force(
    policy: Policy,
    given: dict[str, int],
    max_tokens: int,
    prices: Sequence[Prices] = PRICES,
) -> None:
    prices = prices[: given["fallbacks"] + 1]
    prompt = 1000
    policy = evolve(policy, limits=Limits(**given))
    weights: dict[str, Weight] = {
        "attempts": lambda attempt: 1,
        "waiting seconds": wait(policy),
        "seconds": lambda attempt: 601 + wait(policy)(attempt),
        "output tokens": lambda attempt: most_counted(
            cap_of(policy, attempt.continuations + attempt.enlargements, max_tokens) or 0
        ),
        "money": cost(policy, given, prices, max_tokens, prompt),
    }
    # A resend follows an attempt that nobody read, and that was free. The reply that a rung without
    # a prompt fetches was counted when it was asked for.
    fetching = [each.name for each in policy.table.declared_rungs if not each.sends_prompt]
    for name in ("output tokens", "money"):
        weights[name] = lambda attempt, weight=weights[name]: (
            0 if attempt.rung in ("resend", *fetching) else weight(attempt)
        )
    table, walked = policy.table, walk(policy.table, given)
    assert all(each.holds for each in walked.properties)
    found = worst_cases(policy, given, prices, max_tokens, prompt, TURNS)
    assert [each.name for each in found] == list(weights)
    for each in found:
        weight = weights[each.name]
        most = heaviest(table, walked, weight, policy.budget.attempts, given, passes=True)
        assert each.value == pytest.approx(most)
        assert each.ladder == pytest.approx(
            heaviest(table, walked, weight, 1 + sum(given.values()) * 100, given)
        )
        assert each.attained <= each.value * (1 + 1e-9)
        assert each.is_exact == (each.attained == pytest.approx(each.value))
        assert len(each.rungs) <= policy.budget.attempts
        check_path(table, given, each)


def check_path(table: Table, given: Mapping[str, int], worst: WorstCase) -> None:
    """Take the path on the real machine, by its own events and facts."""
    run = Run.at_start(table, given)
    rungs = []
    for step in worst.enacted.steps:
        if step.event != "ran_out":
            rungs.append(run.state)
            run.fire("sent")
        assert run.fire(step.event, step.facts).guard == step.guard
    rungs.append(run.state)
    run.fire("sent")
    assert tuple(rungs) == worst.rungs
    assert run.attempts == len(worst.rungs)


DEARER = [Prices(1.0, 1.0), Prices(1.0, 50.0), Prices(2.0, 400.0)]
"""Of backends of which each costs far more than the one before it."""

DETOURS = [
    limits(continuations=2, fallbacks=1),
    limits(continuations=2, fallbacks=2, compactions=1),
    limits(continuations=1, fallbacks=1, enlargements=2, retries=1),
    limits(continuations=2, fallbacks=2, prefills=1, reasks=1),
]


@pytest.mark.full
@pytest.mark.sampled(4)
@pytest.mark.parametrize("given", DETOURS, ids=range(len(DETOURS)))
@pytest.mark.parametrize("attempts", [2, 3, 5])
def test_a_rung_that_sends_nothing_spends_its_counter_and_no_attempt(
    given: dict[str, int], attempts: int
) -> None:
    check_against_brute_force(Policy(budget=UNTIMED(attempts=attempts)), given, 1000, DEARER)


REASKS_WAIT = Waits(retry_base=0.0, reask_base=10.0, jitter=0.0, longest_asked=0.0)
UNPAID = [Prices(1e12, 1e12), Prices(1e12, 1e12), Prices(1.0, 1.0)]


@pytest.mark.parametrize(
    ("prices", "attempts"),
    [
        (UNPAID[1:], 2),
        (UNPAID, 2),
        ([UNPAID[2], UNPAID[0], UNPAID[2]], 3),
        ([UNPAID[0], UNPAID[2], UNPAID[2]], 3),
    ],
)
def test_a_backend_that_cannot_be_paid_for_leaves_its_attempt_to_the_others(
    prices: list[Prices], attempts: int
) -> None:
    given = limits(retries=1, fallbacks=len(prices) - 1)
    policy = Policy(
        limits=Limits(**given), budget=UNTIMED(attempts=attempts, money=1.0), waits=REASKS_WAIT
    )
    waiting = worst_cases(policy, given, prices, 100, 100)[1]
    call = play(policy, [Failure("malformed")], chain=links_of(prices))
    waited = sum(step.wait for step in call.journal.steps)
    assert (waiting.value, waiting.is_exact, waited) == (10.0, True, 10.0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("fallbacks", [1, 2])
@pytest.mark.parametrize("attempts", [1, 2, 3, 4])
def test_any_backend_may_have_to_be_passed_over(fallbacks: int, attempts: int) -> None:
    for more in ({"retries": 1}, {"retries": 2, "reasks": 1}):
        policy = Policy(budget=UNTIMED(attempts=attempts), waits=REASKS_WAIT)
        check_against_brute_force(policy, limits(**more, fallbacks=fallbacks), 4096)


@pytest.mark.full
@pytest.mark.sampled(4)
@pytest.mark.parametrize("refills_on", [None, "added_text"])
@pytest.mark.parametrize("attempts", [4, 50])
def test_a_rung_of_ones_own_that_refills_others_is_counted_without_slack(
    attempts: int, refills_on: str | None
) -> None:
    entreat = Rung(
        "entreat", limit=2, hint="Please.", refills=("retries", "reasks"), refills_on=refills_on
    )
    table = CALL.with_rung(entreat, refused=None)
    given = {**limits(retries=2, reasks=1, fallbacks=1), "entreats": 2}
    policy = Policy(table=table, limits=Limits(**given), budget=UNTIMED(attempts=attempts))
    most, *_ = worst_cases(policy, given, PRICES[:2], 100, 100)
    assert most.value == heaviest(
        table, walk(table, given), lambda attempt: 1, attempts, given, passes=True
    )


KEPT = [
    *DETOURS,
    limits(retries=1, enlargements=1, repairs=1, fallbacks=1),
    limits(reasks=1, compactions=1, nudges=1, fallbacks=2),
    limits(enlargements=2, continuations=1, compactions=1, fallbacks=2),
]


@pytest.mark.full
@pytest.mark.sampled(2)
@pytest.mark.parametrize("given", KEPT, ids=range(len(KEPT)))
def test_the_heaviest_path_leaves_an_attempt_to_each_later_backend(given: dict[str, int]) -> None:
    policy = Policy(limits=Limits(**given))
    walked = walk(CALL, given)
    weights: list[Weight] = [
        lambda attempt: 1,
        lambda attempt: cap_of(policy, attempt.continuations + attempt.enlargements, 1000) or 0,
        cost(policy, given, DEARER, 1000, 10),
    ]
    moves = moves_of(CALL, given)
    moves += detours_of(CALL, given, moves)
    for weight, attempts in product(weights, (1, 2, 3, 4, 6, 9)):
        problem = SearchProblem.of(
            moves, CALL.start, given, CALL.ranks, weight, attempts, "fallbacks"
        )
        found = longest(problem)
        assert found.value == pytest.approx(
            heaviest(CALL, walked, weight, attempts, given, keeps=True)
        )
        assert len(found.path) < attempts
        left = attempts - 1
        here = 0
        for move in found.path:
            assert move.takes == "fallbacks" or left > given["fallbacks"] - here
            left = left - 1
            here = here + (move.takes == "fallbacks")


small = st.dictionaries(st.sampled_from(COUNTERS), st.integers(1, 3), max_size=4).filter(
    lambda given: given.get("fallbacks", 0) <= 2
)


@pytest.mark.full
@given(
    given_limits=small,
    attempts=st.integers(1, 14),
    max_tokens=st.sampled_from([1, 700, 4096, 20_000]),
    data=st.data(),
)
@settings(max_examples=examples(50))
def test_any_small_limits_against_every_path(
    given_limits: dict[str, int],
    attempts: int,
    max_tokens: int,
    data: st.DataObject,
) -> None:
    waits = Waits(
        retry_base=data.draw(st.sampled_from([0.0, 2.0, 50.0])),
        reask_base=data.draw(st.sampled_from([0.0, 5.0, 100.0])),
        jitter=data.draw(st.sampled_from([0.0, 0.5])),
        longest_asked=data.draw(st.sampled_from([0.0, 10.0])),
    )
    largest = data.draw(st.sampled_from([1, 8192, 32_768]))
    policy = Policy(budget=UNTIMED(attempts=attempts), waits=waits, largest_cap=largest)
    check_against_brute_force(policy, limits(**given_limits), max_tokens)


def test_a_cheaper_fallback_is_no_reason_to_spend_late() -> None:
    prices = [Prices(0, 100.0), Prices(0, 1.0)]
    given = limits(compactions=2, fallbacks=1, repairs=2)
    policy = Policy(budget=Budget(attempts=6), limits=Limits(**given))
    found = worst_cases(policy, given, prices, 1000, 1)[4]
    assert found.path in (
        "ask, compact x2, repair x2, fallback",
        "ask, repair x2, compact x2, fallback",
    )
    assert found.value == pytest.approx((5 * 1008 * 100.0 + 1008 * 1.0) / 1_000_000)
    assert found.is_exact


@pytest.mark.full
@pytest.mark.parametrize("fallbacks", [0, 1, 2])
def test_the_default_policy_without_its_budget_of_seconds(fallbacks: int, fact: Check) -> None:
    policy = Policy(budget=UNTIMED())
    given = limits_of(policy, fallbacks)
    found = worst_cases(policy, given, [None] * (fallbacks + 1), 4096, 1000)
    for each in found[:4]:
        fact(
            f"{each.name} and those of the ladder alone, {fallbacks} fallbacks",
            [each.value, each.ladder],
        )
    assert all(each.ended_by == "budget.attempts" for each in found[:4])
    # The values know nothing of the attempts that are kept for the backends to come. Where there is
    # a deadline, a rung can be spent on the way there, and they are attained all the same.
    exact = [each.name for each in found[:4] if each.is_exact]
    fact(f"figures that are attained exactly, {fallbacks} fallbacks", exact)
    for each in found[:4]:
        # Nor that a backend which others follow is left at its second empty reply.
        assert each.attained >= (0.89 if each.name == "output tokens" else 0.95) * each.value
        check_path(CALL, given, each)


PATIENT = {"empty": 1000}  # for which the values allow


@pytest.mark.full
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy.interactive(), Policy(reserve=Reserve(share=0.0), switch_after=PATIENT)],
)
@pytest.mark.parametrize("fallbacks", [0, 1, 2])
def test_the_dearest_call_in_tokens_is_played_with_any_number_of_backends(
    policy: Policy, fallbacks: int
) -> None:
    given = limits_of(policy, fallbacks)
    tokens = worst_cases(policy, given, [None] * (fallbacks + 1), 1000, 5000)[3]
    assert tokens.value == (63_096 if policy.budget.attempts == 12 else 147_192)
    # What ends in a word that nobody knows, and fills its cap, was cut: it is one token less.
    assert tokens.attained == tokens.value - 9
    check_path(CALL, given, tokens)


def test_the_default_policy_by_hand() -> None:
    policy = Policy(limits=Limits(**OTHERS_OFF))
    found = worst_cases(policy, limits_of(policy, 0), [None], None, None)
    # Three continuations give back retries, reasks and prefills; nothing gives back the rest.
    assert found[0].ladder == 1 + 3 + 4 * (3 + 3 + 2) + 1 + 1 + 1 + 3 + 2 + 3 + 3
    # Each of four rounds: three waits as long as a service may ask for, and 1, 2, 4 s with half of
    # it for jitter; as long a wait before each continuation of a broken stream, and before each
    # repair; and 1 s with its jitter before a recheck.
    assert found[1].ladder == 4 * (3 * 120 + 1.5 + 3 + 6) + (3 + 3) * 120 + 1.5
    # Each attempt takes ten minutes, and its connection a second to close.
    assert found[2].ladder == found[0].ladder * 601 + found[1].ladder


@pytest.mark.full
def test_a_ladder_that_ends_before_the_budget_says_so() -> None:
    policy = Policy(budget=UNTIMED(attempts=100))
    found = worst_cases(policy, limits_of(policy, 0), [PRICES[0]], 4096, 1000)
    assert [each.ended_by for each in found] == ["ladder"] * 5
    assert [each.value for each in found] == [each.ladder for each in found]


def test_every_budget_caps_what_it_is_about() -> None:
    budget = Budget(attempts=5, seconds=60.0, output_tokens=5000, money=0.01)
    found = worst_cases(Policy(budget=budget), limits_of(Policy(), 0), [PRICES[0]], 4096, 1000)
    assert [each.value for each in found] == [5, 60.0, 61.0, 5000, 0.01]
    assert [each.ended_by for each in found] == [
        "budget.attempts",
        "budget.seconds",
        "budget.seconds",
        "budget.output_tokens",
        "budget.money",
    ]


def test_without_a_cap_the_output_is_unbounded() -> None:
    tokens = worst_cases(Policy(), limits_of(Policy(), 0), [PRICES[0]], None, 1000)[3]
    assert (tokens.value, tokens.ladder, tokens.ended_by) == (None, None, "nothing")
    assert "without max_tokens" in tokens.note
    policy = Policy(budget=Budget(output_tokens=9000))
    tokens = worst_cases(policy, limits_of(policy, 0), [PRICES[0]], None, 1000)[3]
    assert (tokens.value, tokens.ended_by) == (9000, "budget.output_tokens")


@pytest.mark.parametrize(
    ("prices", "max_tokens", "prompt", "why"),
    [
        ([None], 4096, 1000, "no price is known for a backend of the chain"),
        ([PRICES[0]], None, 1000, "needs max_tokens"),
        ([PRICES[0]], 4096, None, "needs input_tokens"),
    ],
)
def test_money_needs_to_know(
    prices: list[Prices | None],
    max_tokens: int | None,
    prompt: int | None,
    why: str,
) -> None:
    money = worst_cases(Policy(), limits_of(Policy(), 0), prices, max_tokens, prompt)[4]
    assert (money.value, money.note) == (None, why + NO_MORE_INPUT)


def spent(
    given: Mapping[str, int], messages: list[dict[str, str]], prompt: int, *replies: Reply | Failure
) -> float:
    """Return what a call costs whose input is all that costs anything, if the service does not say
    how long it was.
    """
    request = Request(messages, max_tokens=10, input_tokens=prompt)
    policy = Policy(limits=Limits(**given))
    link = PlainLink(prices=Prices(1_000_000, 0))
    return play(policy, replies, chain=[link], request=request).result.cost or 0.0


MISSING = Failure("reasoning_missing", status=400)
EMPTY = Reply(stop_reason="stop")


@pytest.mark.full
@pytest.mark.parametrize("pairs", [0, 1, 100])
def test_no_stand_in_for_missing_reasoning_passes_the_worst_case(pairs: int) -> None:
    """A repair makes every later request longer by some tokens for each assistant turn, of which
    short ones abound.
    """
    given = limits(repairs=1, reasks=3)
    prompt = 3 + 6 * pairs
    user = {"role": "user", "content": "hi"}
    messages = [*[user, {"role": "assistant", "content": "yo"}] * pairs, user]
    cost = spent(given, messages, prompt, MISSING, EMPTY, EMPTY, EMPTY, EMPTY)
    policy = Policy(limits=Limits(**given))
    for turns in (pairs, None):
        money = worst_cases(policy, given, [Prices(1_000_000, 0)], 10, prompt, turns)[4]
        assert cost <= money.value
        assert not money.is_exact
        assert "to each of" in money.note
        assert ("give assistant_turns" in money.note) == (turns is None)
    assert (
        money.value > worst_cases(policy, given, [Prices(1_000_000, 0)], 10, prompt, pairs)[4].value
    )
    # Where nothing can be repaired there is nothing to add.
    money = worst_cases(policy, limits(reasks=3), [Prices(1_000_000, 0)], 10, prompt)[4]
    assert "assistant turns" not in money.note


def test_what_a_server_counts_beside_each_cap_is_within_the_worst_case() -> None:
    given = limits(enlargements=3)
    request = Request("hi", max_tokens=100)
    policy = Policy(limits=Limits(**given))
    link = PlainLink(prices=Prices(0, 1))
    replies = [Reply(stop_reason="length", usage=Usage(1, cap + 8)) for cap in (100, 200, 300, 400)]
    result = play(policy, replies, chain=[link], request=request).result
    *_, tokens, money = worst_cases(policy, given, [Prices(0, 1)], 100, 1)
    assert (result.usage.output_tokens, tokens.value, tokens.is_exact) == (1032, 1032, True)
    assert result.cost == pytest.approx(money.value)


def test_a_repeated_seed_counts_twice() -> None:
    """In the prompt, and in the worst case."""
    given = limits(prefills=1)
    hints = Hints(seed="{reasoning}, and again: {reasoning}")
    policy = Policy(limits=Limits(**given), hints=hints, budget=Budget(money=10_000.0))
    thought = Reply(reasoning="reed " * 30, stop_reason="stop", usage=Usage(9, 50))
    link = PlainLink(prices=Prices(1_000_000, 0))
    request = Request("hi", max_tokens=50, input_tokens=9)
    call = play(policy, [thought], chain=[link], request=request)
    counted = [step.input_tokens for step in call.journal.steps if step.event == "sent"]
    assert counted == [9, 9 + 2 * 50 + message_tokens(hints.seed)]
    money = worst_cases(policy, given, [Prices(1_000_000, 0)], 50, 9, 0)[4].value
    assert money >= sum(filter(None, counted))


def test_continuing_a_final_assistant_turn_stays_within_the_worst_case() -> None:
    messages = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "It was"}]
    cost = spent(limits(), messages, 9, Reply("me.", stop_reason="stop"))
    policy = Policy(limits=Limits(**limits()))
    hint = message_tokens(policy.hints.continuation)
    for turns in (1, None):
        money = worst_cases(policy, limits(), [Prices(1_000_000, 0)], 10, 9, turns)[4]
        assert (money.value, cost) == (9 + hint, 9 + hint)
    assert worst_cases(policy, limits(), [Prices(1_000_000, 0)], 10, 9, 0)[4].value == 9


@pytest.mark.full
def test_a_way_back_to_the_first_rung_is_no_first_attempt() -> None:
    """What the rungs have added by then goes out again, also where the request is asked as at
    first.
    """
    table = CALL.with_rows(Row("failed_permanently", "await", "may_reask", "ask", "spend_reask"))
    given = limits(nudges=1, reasks=1)
    policy = Policy(table=table, limits=Limits(**given))
    money = worst_cases(policy, given, [Prices(1_000_000, 0)], 10, 9, 0)[4]
    assert money.value == 3 * (9 + HINTS)


def test_a_rung_that_is_not_always_open_is_counted_where_a_call_can_take_it() -> None:
    # Nothing is asked again here but a reply of reasoning alone, when no prefill is left.
    rows = [row for row in CALL.rows if row.target != "reask" or row.event != "came_empty"]
    rows = [
        row
        for row in rows
        if row.event != "only_reasoned" or row.guard in ("may_prefill", "may_reask", None)
    ]
    table = evolve(CALL, rows=rows)
    given = limits(prefills=1, reasks=2)
    # refused otherwise: text could become an error here
    policy = unchecked(table, Policy(limits=Limits(**given)))
    attempts = worst_cases(policy, given, [None], 4096, 1000)[0]
    assert attempts.value == heaviest(table, walk(table, given), lambda attempt: 1, 24, given) == 4
    assert attempts.is_exact  # the path that the search finds is one that a call takes
    check_path(table, given, attempts)


def test_a_backend_that_follows_is_asked_before_a_malformed_reply_is_waited_for() -> None:
    """A call has a next backend until it has used it, whatever comes back."""
    waits = Waits(longest_asked=0.0, reask_base=100.0, reask_cap=1000.0)
    # A table on which a broken stream is not asked for again, because that waits as long as a
    # malformed reply does.
    table = evolve(
        CALL, rows=[row for row in CALL.rows if (row.event, row.target) != ("interrupted", "retry")]
    )
    policy = Policy(
        waits=waits, limits=Limits(**limits(retries=2, fallbacks=1)), budget=UNTIMED(), table=table
    )
    found = worst_cases(policy, limits(retries=2, fallbacks=1), [None, None], None, None)[1]
    # Two retries of 2 and 4 s with half of it for jitter, and behind the fallback 100 and 200 s
    # likewise.
    assert (found.value, found.attained) == (459.0, 459.0)
    assert found.is_exact


TIMES = [
    # total, attempts and seconds of the budget, backends, and what comes of it
    (60.0, 1, 900.0, 1, (61.0, "budget.attempts", True)),
    (60.0, 3, None, 1, (3 * 61.0 + 2 * 120.0, "budget.attempts", True)),
    (600.0, 24, 100.0, 1, (101.0, "budget.seconds", True)),
    (60.0, 24, 100.0, 1, (101.0, "budget.seconds", True)),
    (None, 24, 100.0, 1, (101.0, "budget.seconds", True)),
    (None, 24, 100.0, 3, (101.0, "budget.seconds", True)),
    (None, 24, None, 1, (None, "nothing", False)),
]


@pytest.mark.parametrize(("total", "attempts", "seconds", "backends", "expected"), TIMES)
def test_the_whole_time_is_that_of_the_attempts_and_the_waits_within_the_budget(
    total: float | None,
    attempts: int,
    seconds: float | None,
    backends: int,
    expected: tuple[float | None, str, bool],
) -> None:
    policy = Policy(
        timeouts=Timeouts(total=total), budget=Budget(attempts=attempts, seconds=seconds)
    )
    found = worst_cases(policy, limits_of(policy, backends - 1), [None] * backends, None, None)[2]
    assert found.name == "seconds"
    assert (found.value, found.ended_by, found.is_exact) == expected
    assert (found.ladder is None) == (total is None)
    assert ("waiting for a free connection" in found.note) == (
        seconds is None and total is not None
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backends", [1, 2, 3])
@pytest.mark.parametrize("seconds", [10.0, 100.0, 900.0])
def test_a_budget_of_seconds_is_waited_for_to_all_but_its_end(
    seconds: float, backends: int
) -> None:
    given = limits_of(Policy(), backends - 1)
    _, found, whole, *_ = worst_cases(
        Policy(budget=Budget(seconds=seconds)), given, [None] * backends, None, None
    )
    assert (found.value, found.ended_by, found.is_exact) == (seconds, "budget.seconds", True)
    assert (whole.value, whole.is_exact) == (seconds + CLOSING, True)
    check_path(CALL, given, whole)
    assert found.attained < seconds
    assert found.note.endswith("and never reach it")
    check_path(CALL, given, found)


@pytest.mark.full
def test_an_own_table_with_another_rung_is_counted() -> None:
    table = CALL.with_rung(ENTREAT, refused=None)
    given = limits(pleas=2, continuations=1)
    check_against_brute_force(Policy(table=table, budget=UNTIMED(attempts=9)), given, 4096)


def test_huge_limits_give_a_bound_at_once() -> None:
    huge = Limits(**dict.fromkeys(COUNTERS, 1000))
    policy = Policy(limits=huge, budget=Budget(attempts=1000))
    found = worst_cases(policy, limits_of(policy, 5), [PRICES[0]] * 6, 4096, 1000)
    assert [each.is_exact for each in found[3:]] == [False, False]
    assert found[3].value == 1000 * (32_768 + 8)
    assert "upper bound" in found[3].note


@pytest.mark.full
def test_a_huge_chain_works_too() -> None:
    huge = Limits(**dict.fromkeys(COUNTERS, 1000))
    found = worst_cases(
        Policy(limits=huge), limits_of(Policy(limits=huge), 1000), [PRICES[0]] * 1001, 4096, 1000
    )
    assert found[0].value == 24
