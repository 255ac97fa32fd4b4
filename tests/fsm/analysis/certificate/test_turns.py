"""The certificate of a turn: its proof, its worst cases against every path and script, and what
mutants do to it.
"""

import json
from functools import cache
from itertools import product
from typing import Any

import pytest
from attrs import evolve

from rungwise import (
    Budget,
    ConfigurationError,
    Hints,
    Limits,
    Policy,
    Prices,
    Timeouts,
    TurnPolicy,
    TurnResult,
    Usage,
    verify,
)
from rungwise.core import (
    Certificate,
    Effect,
    Failure,
    Guard,
    PlainLink,
    Reply,
    Request,
    Table,
    Turn,
)
from rungwise.fsm.analysis.certificate.certificate import WorstCase, compressed
from rungwise.fsm.analysis.certificate.money import BESIDE_RESULT, together
from rungwise.fsm.analysis.certificate.verify import calls_of, verify_turn
from rungwise.fsm.call.budget.estimate import message_tokens
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.turn.actions import Compact, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.table import CALLS, TURN
from rungwise.fsm.turn.tools import Tool
from support.tables import COUNTERS, redeclaring

ONE_ATTEMPT = Policy(limits=Limits(**dict.fromkeys(COUNTERS, 0)), budget=Budget(attempts=1))
PRICED = [PlainLink("one", prices=Prices(3.0, 15.0))]


def worst(certificate: Certificate) -> dict[str, WorstCase]:
    return {each.name: each for each in certificate.worst}


@cache
def default() -> Certificate:
    return verify(TurnPolicy())


def test_the_default_policy_of_a_turn_is_proved_on_all_its_limits() -> None:
    certificate = default()
    assert certificate.ok
    assert certificate.walked == certificate.limits == TurnPolicy().limits
    assert certificate.configurations == 3304
    assert [each.row for each in certificate.rows] == list(TURN.rows)
    assert {each.verdict for each in certificate.rows} == {"proved"}
    of_call = [each.name for each in certificate.call.properties]
    assert [each.name for each in certificate.properties][:-1] == of_call[:-4]
    assert certificate.properties[-1].name == "every configuration can still reach finished"


def test_the_worst_cases_of_the_default_policy() -> None:
    found = worst(default())
    assert {name: (each.value, each.ladder, each.ended_by) for name, each in found.items()} == {
        "calls": (27, 27, "ladder"),
        "attempts": (100, 27 * 24, "budget.attempts"),
        "waiting seconds": (3600, 27 * 900, "budget.seconds"),
        "seconds": (3601, 27 * 901 + 26 * 32 * 60, "budget.seconds"),
        "tool runs": (26 * 32, 26 * 32, "ladder"),
        "tool seconds": (3600, 26 * 32 * 60, "budget.seconds"),
        "output tokens": (None, None, "nothing"),
        "money": (None, None, "nothing"),
    }
    exact = ["calls", "attempts", "waiting seconds", "tool runs", "tool seconds"]
    assert [name for name, each in found.items() if each.is_exact] == exact
    assert found["calls"].path == "ask, (use_tools, go_on) x25, use_tools, summarize"
    assert "no price is known for a backend of the chain" in found["money"].note


@pytest.mark.parametrize(
    ("changes", "calls", "runs"),
    [
        ({"auto_continues": 0}, 1, 2),
        ({"auto_continues": 3}, 5, 8),
        ({"auto_continues": 3, "summary": False}, 4, 8),
        ({"auto_continues": 3, "faults": 1, "compactions": 0}, 5, 8),
        # the fifth finds no attempt left
        ({"auto_continues": 9, "budget": Budget(attempts=4)}, 5, 8),
    ],
)
def test_calls_and_tool_runs_are_attained(changes: dict[str, Any], calls: int, runs: int) -> None:
    policy = TurnPolicy(
        **{
            "call": ONE_ATTEMPT,
            "calls_per_reply": 2,
            "tool_seconds": 3,
            **changes,
        }
    )
    found = worst(verify(policy))
    assert (found["calls"].value, found["tool runs"].value, found["tool seconds"].value) == (
        calls,
        runs,
        runs * 3,
    )
    assert all(found[name].is_exact for name in ("calls", "attempts", "tool runs", "tool seconds"))


@pytest.mark.parametrize(
    "limits", [(1, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 3), (3, 2, 1, 2), (1, 3, 0, 4)], ids=str
)
def test_the_calls_are_those_of_the_longest_path_through_every_configuration(
    limits: tuple[int, ...],
) -> None:
    faults, compactions, summaries, auto_continues = limits
    policy = TurnPolicy(
        call=ONE_ATTEMPT,
        faults=faults,
        compactions=compactions,
        summary=bool(summaries),
        auto_continues=auto_continues,
    )
    walked = walk(TURN, policy.limits)

    @cache
    def most(index: int) -> int:
        state = walked.configurations[index][0]
        return (state in CALLS) + max(map(most, walked.edges[index]), default=0)

    assert worst(verify(policy))["calls"].value == most(0)


# Every script, on real turns

CUT = Reply(" ".join(f"incomprehensible{number}" for number in range(40)), stop_reason="length")
CALLED = Reply("work", stop_reason="stop")
ENDS: tuple[tuple[Reply | Failure, ...], ...] = (
    (Reply("An answer.", stop_reason="stop"),),
    (CALLED,),
    (CUT, CALLED),
    (CUT,),
    (Failure("context_overflow"),),
)
"""What comes back in one call; the last of them goes on for ever."""


def written(reply: Reply | Failure, cap: int, number: int) -> Reply | Failure:
    """Return a reply that has used up its cap, and whose tool calls are like no others."""
    if isinstance(reply, Failure):
        return reply
    calls = tuple(
        ToolCall(f"c{each}", "work", f'{{"number": {each}}}') for each in range(number, number + 2)
    )
    tools = {"text": "", "tool_calls": calls} if reply is CALLED else {}
    return evolve(reply, usage=Usage(output_tokens=most_counted(cap)), **tools)


def play(
    policy: TurnPolicy,
    script: tuple[Any, ...],
    works: tuple[bool, ...],
    link: PlainLink,
) -> tuple[TurnResult, int]:
    """Play the ends of calls, and whether each round of tools works, to a turn; the last of them go
    on for ever.
    """
    tool = Tool(lambda number: number, name="work", parameters={"type": "object"})
    # The caller has counted fewer tokens than these bytes are taken for where nobody has.
    request = Request("Do it. " * 400, max_tokens=50, input_tokens=100)
    turn = Turn(request, policy, [link], tools=[tool], has_compactor=True)
    action = turn.begin()
    runs = 0
    rounds = 0
    now = 0.0
    while action is not None:
        match action:
            case MakeCall(call):
                replies = list(script[min(len(turn.journal.calls), len(script)) - 1])
                send = call.begin(now)
                while send is not None and (sent := call.sending(now)) is not None:
                    reply = replies.pop(0) if len(replies) > 1 else replies[0]
                    send = call.receive(
                        written(reply, sent.max_tokens or 0, 2 * len(turn.journal.calls))
                    )
                action = turn.called(call.result, now)
            case RunTools(planned):
                does = works[min(rounds, len(works) - 1)]
                runs = runs + len(planned)
                rounds = rounds + 1
                outcome = ToolOutcome(value="x" * 3000) if does else ToolOutcome(fault="broken")
                action = turn.tools_ran([outcome] * len(planned), now)
            case Compact():
                action = turn.compacted([{"role": "user", "content": "short"}], now)
    return turn.result, runs


@pytest.mark.full
@pytest.mark.parametrize(
    "changes",
    [
        {"auto_continues": 2},
        {"auto_continues": 2, "faults": 1, "compactions": 1},
        {"budget": Budget(attempts=3)},
    ],
)
def test_no_script_of_a_turn_passes_a_worst_case_and_exact_ones_are_attained(
    changes: dict[str, Any],
) -> None:
    call = evolve(
        ONE_ATTEMPT,
        limits=Limits(**{**dict.fromkeys(COUNTERS, 0), "continuations": 1}),
        budget=Budget(attempts=2),
    )
    policy = TurnPolicy(
        **{
            "call": call,
            "auto_continues": 3,
            "calls_per_reply": 2,
            "window": 100,
            **changes,
        }
    )
    link = PlainLink(prices=Prices(1_000_000, 1_000_000))
    found = worst(verify(policy, [link], max_tokens=50, input_tokens=100))
    spent: dict[str, float] = dict.fromkeys(
        ("calls", "attempts", "tool runs", "output tokens", "money"), 0.0
    )
    for script in product(ENDS, repeat=3):
        for works in product((True, False), repeat=2):
            result, runs = play(policy, script, works, link)
            values = (
                result.calls,
                result.attempts,
                runs,
                result.usage.output_tokens,
                result.cost or 0.0,
            )
            spent = {
                name: max(most, value)
                for (name, most), value in zip(spent.items(), values, strict=True)
            }
    for name, most in spent.items():
        value = found[name].value
        assert most <= value, name
        assert not found[name].is_exact or most == value, name
    assert found["calls"].is_exact


def test_the_money_of_a_turn_by_hand() -> None:
    policy = TurnPolicy(
        call=ONE_ATTEMPT, auto_continues=1, summary=False, calls_per_reply=2, window=400
    )
    money = worst(
        verify(
            policy,
            PRICED,
            max_tokens=80,
            input_tokens=1000,
            assistant_turns=0,
        )
    )["money"]
    hint = message_tokens(Hints().continuation)
    written = most_counted(80)
    # The second prompt: what the first call wrote and its message, the results, and a hint where it
    # is gone on from.
    second = 1000 + written + 8 + 100 + 2 * BESIDE_RESULT + hint + 8
    assert money.value == pytest.approx(((1000 + second) * 3.0 + 2 * written * 15.0) / 1_000_000)
    assert money.ended_by == "ladder"


def test_every_budget_of_a_turn_caps_what_it_is_about() -> None:
    budget = Budget(attempts=5, seconds=60.0, output_tokens=5000, money=0.01)
    found = worst(verify(TurnPolicy(budget=budget), PRICED, max_tokens=4096, input_tokens=1000))
    values = {name: (each.value, each.ended_by) for name, each in found.items()}
    assert values == {
        "calls": (6, "budget.attempts"),
        "attempts": (5, "budget.attempts"),
        "waiting seconds": (60.0, "budget.seconds"),
        "seconds": (61.0, "budget.seconds"),
        "tool runs": (5 * 32, "budget.attempts"),
        "tool seconds": (60.0, "budget.seconds"),
        "output tokens": (5000, "budget.output_tokens"),
        "money": (0.01, "budget.money"),
    }


TIMES = [
    # the total of an attempt, the seconds of the turn's budget, and what comes of it
    (10.0, None, (5 * 11 + 4 * 2 * 3, "ladder", True)),
    (10.0, 50.0, (51, "budget.seconds", False)),
    (None, None, (None, "nothing", False)),
    (None, 50.0, (51, "budget.seconds", False)),
]


@pytest.mark.parametrize(("total", "seconds", "expected"), TIMES)
def test_the_time_of_a_turn_is_that_of_its_calls_and_of_its_tools(
    total: float | None, seconds: float | None, expected: tuple[float | None, str, bool]
) -> None:
    call = evolve(
        ONE_ATTEMPT, budget=Budget(attempts=1, seconds=None), timeouts=Timeouts(total=total)
    )
    budget = Budget(attempts=100, seconds=seconds)
    policy = TurnPolicy(
        call=call, budget=budget, auto_continues=3, calls_per_reply=2, tool_seconds=3
    )
    found = worst(verify(policy))["seconds"]
    assert (found.value, found.ended_by, found.is_exact) == expected
    assert found.attained is None or found.attained <= found.value
    assert ("compactor" in found.note) == (total is not None and seconds is None)


@pytest.mark.parametrize("attempts", [1, 4, 9])
@pytest.mark.parametrize("calls", [0, 1, 3, 5])
def test_attempts_are_shared_out_as_dearly_as_they_can_be(calls: int, attempts: int) -> None:
    within = [0, 7, 8, 20]
    shares = [
        share for share in product(range(len(within) + 1), repeat=calls) if sum(share) <= attempts
    ]
    dearest = max(
        sum(0 if tries == 0 else within[tries - 1] for tries in share) for share in shares
    )
    assert together(within, calls, attempts)[-1] == dearest


# Tables of which the proof must fail


def mutant(table: Table) -> Certificate:
    policy = TurnPolicy(call=ONE_ATTEMPT, auto_continues=2)
    return verify_turn(policy, verify(calls_of(policy)), [None], table=table)


@pytest.mark.full
def test_a_guard_of_a_turn_that_looks_at_no_counter_is_refused() -> None:
    for guard in TURN.guards:
        certificate = mutant(redeclaring(TURN, evolve(guard, counter=None)))
        assert "terminates for all limits" in {
            each.name for each in certificate.properties if not each.holds
        }
        assert certificate.worst == ()


def test_an_effect_of_a_turn_that_takes_nothing_is_refused() -> None:
    for effect in TURN.effects:
        if effect.spends is not None:
            certificate = mutant(redeclaring(TURN, evolve(effect, spends=None)))
            assert not certificate.ok


DROPPED = [
    (guard, kind, fact)
    for guard in TURN.guards
    for kind in ("holds", "lacks")
    for fact in getattr(guard, kind)
    # Without the first, the limit of the rounds ends the turn a step later; the second a row before
    # has found.
    if fact != "has_patience" and (guard.name, fact) != ("may_compact", "is_summary")
]


@pytest.mark.parametrize(
    ("guard", "kind", "fact"), DROPPED, ids=[f"{guard.name} {fact}" for guard, _, fact in DROPPED]
)
def test_a_guard_of_a_turn_that_forgets_a_fact_is_dishonest(
    guard: Guard, kind: str, fact: str
) -> None:
    left = tuple(name for name in getattr(guard, kind) if name != fact)
    certificate = mutant(redeclaring(TURN, evolve(guard, **{kind: left})))
    broken = {each.name: each.detail for each in certificate.properties if not each.holds}
    assert set(broken) == {"honest endings"}
    assert f"{fact!r}" in broken["honest endings"]


def test_a_refill_that_nothing_pays_for_is_refused() -> None:
    certificate = mutant(
        redeclaring(TURN, Effect("spend_fault", spends="faults", refills="auto_continues"))
    )
    assert "does not rank below" in certificate.to_text()


def test_an_order_that_finishes_on_a_summary_is_dishonest() -> None:
    rows = [row for row in TURN.rows if not (row.event == "answered" and row.guard == "is_summary")]
    certificate = mutant(evolve(TURN, rows=rows))
    assert "await --answered--> finished: must find no 'is_summary'" in " ".join(
        certificate.to_text().split()
    )


# How it is told


def test_the_forms_hold_the_turn_and_its_calls() -> None:
    certificate = default()
    text = certificate.to_text()
    assert text.startswith("# Certificate: turn\n\nEverything holds.\n")
    assert "\n# Certificate: call\n\nEverything holds.\n" in text
    assert "Why every turn ends" in text
    assert "33 end the turn" in text
    assert "calls_per_reply 32, tool_seconds 60.0, result_tokens 32000" in text
    markdown = certificate.to_markdown()
    assert [line for line in markdown.splitlines() if line.startswith("# ")] == [
        "# Certificate: turn",
        "# Certificate: call",
    ]
    assert "# Certificate: call" not in certificate.to_markdown(calls=False)
    plain = json.loads(json.dumps(certificate.to_json()))
    assert plain["call"]["table"] == "call"
    assert plain["tools"]["result_tokens"] == 32_000
    assert plain["worst"][0]["name"] == "calls"
    assert plain["worst"][0]["events"][:2] == ["called_tools", "tools_ran"]


def test_a_turn_fails_with_its_calls() -> None:
    call = default().call
    broken = evolve(
        default(), call=evolve(call, properties=(evolve(call.properties[0], holds=False),))
    )
    assert not broken.ok
    assert broken.to_text().startswith("# Certificate: turn\n\nFails: its calls are not proved.\n")


def test_refuses_anything_but_a_policy() -> None:
    with pytest.raises(ConfigurationError, match="must be a Policy or a TurnPolicy, not str"):
        verify("turn.toml")  # type: ignore[arg-type]


def test_equal_rungs_and_pairs_are_written_as_one() -> None:
    assert (
        compressed(["ask", *["use_tools", "go_on"] * 3, "use_tools"])
        == "ask, (use_tools, go_on) x3, use_tools"
    )
    assert (
        compressed(["ask", *["use_tools", "go_on"] * 2])
        == "ask, use_tools, go_on, use_tools, go_on"
    )
    assert compressed(["retry", "retry", "ask", "retry", "ask"]) == "retry x2, ask, retry, ask"
    assert compressed([]) == ""
