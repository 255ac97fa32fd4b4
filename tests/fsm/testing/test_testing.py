"""The fuzz kit: what it generates, and that each thing it asserts can fail."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import attrs
import httpx
import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st

import rungwise
from rungwise import (
    CALL,
    Budget,
    Client,
    ConfigurationError,
    Discard,
    Failed,
    Limits,
    OpenAIChat,
    Policy,
    Prices,
    Text,
    ToolCall,
    Usage,
    testing,
    verify,
)
from rungwise.adapters.testing.runner import MemoryProvider
from rungwise.core import (
    BrokenMachine,
    Call,
    Effect,
    Failure,
    Guard,
    IllegalEvent,
    PlainLink,
    Reply,
    Request,
    Table,
    TurnContext,
)
from rungwise.fsm.call.overrides import Overrides, set_overrides, waits_are_off, with_overrides
from rungwise.fsm.call.run.result import error_of
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.testing import compactors, policy_strategies, scripted, strategies
from rungwise.fsm.testing.checks import delivery, honesty, privacy, replays, success
from rungwise.fsm.testing.checks import path as path_checks
from rungwise.fsm.testing.checks import spending as spending_checks
from rungwise.fsm.testing.checks.ended import EndedCall
from rungwise.fsm.testing.coverage import Coverage
from rungwise.fsm.testing.scripted import ScriptedLink
from rungwise.testing import ScriptedReply
from support.drawn import chains, chunkings
from support.sampling import examples
from support.tables import OTHERS_OFF, limits, redeclaring, row_of, tampered, unchecked

pytestmark = pytest.mark.sampled(1)  # what tests others is tested itself

ANSWER = Reply(
    "An answer.",
    stop_reason="stop",
    stop_raw="stop",
    usage=Usage(3, 4),
)
EMPTY = Reply(stop_reason="stop", stop_raw="stop")
CUT = Reply(
    "The first half ",
    stop_reason="length",
    stop_raw="length",
    usage=Usage(3, 5),
)
REST = Reply(
    "and the second.",
    stop_reason="stop",
    stop_raw="stop",
    usage=Usage(9, 4),
)
LOOK_UP = ToolCall("call_1", "look_up", '{"path": "x"}')
TOOLS = Reply(tool_calls=(LOOK_UP,), stop_reason="tool_calls", stop_raw="tool_calls")
WRONG = attrs.evolve(TOOLS, tool_calls=(attrs.evolve(LOOK_UP, name=""),))
BUSY = Failure("rate_limit", status=429, asked_wait=3.0)
SILENT = settings(suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))

DEFAULT = Policy()
SMALL = Policy(
    limits=Limits(
        **OTHERS_OFF,
        retries=1,
        reasks=1,
        prefills=1,
        enlargements=1,
        repairs=1,
        compactions=1,
        continuations=1,
    ),
    budget=Budget(seconds=120),
)
TIGHT = Policy(budget=Budget(attempts=5, seconds=40, output_tokens=6_000))


# what breaks, and how it is told


class Forged:
    """Hold a call that has ended, to be tampered with."""

    def __init__(self, *script: Any, **options: Any) -> None:
        self.events: list[Any] = []
        self.call = testing.run(
            options.pop("policy", DEFAULT), script, events=self.events, **options
        )
        self.call.journal._rows[:] = self.call.journal.steps  # which can be replaced

    def step(self, which: int, /, **changes: Any) -> Forged:
        rows = self.call.journal._rows
        rows[which - 1] = attrs.evolve(rows[which - 1], **changes)
        return self

    def drop(self, number: int) -> Forged:
        del self.call.journal._rows[number - 1]
        return self

    def result(self, **changes: Any) -> Forged:
        self.call._outcome.result = attrs.evolve(self.call.result, **changes)
        return self

    def more(self) -> Forged:
        return self.result(text="An answer, and more", parts=("An answer, and more",))

    def called(self, name: str) -> Forged:
        return self.result(tool_calls=(ToolCall("1", name, "{}"),))

    def reply(self, **changes: Any) -> Forged:
        return self.result(reply=attrs.evolve(self.call.result.reply, **changes))

    def policy(self, **changes: Any) -> Forged:
        setting = self.call.journal.setting
        self.call.journal.setting = attrs.evolve(
            setting, policy=attrs.evolve(setting.policy, **changes)
        )
        return self

    def outcome(self, outcome: str) -> Forged:
        self.call.journal.outcome = outcome
        return self.result(outcome=outcome)


def retold(*events: Any) -> dict[str, Any]:
    return {"events": events}


def whole(forged: Forged) -> list[Any]:
    return list(forged.events)


def streamed(*script: Any, **options: Any) -> Forged:
    return Forged(*script, is_streaming=True, **options)


FORGERIES: dict[str, list[Callable[[], Forged | tuple[Forged, dict[str, Any]]]]] = {
    path_checks.ENDED: [
        lambda: Forged(ANSWER).result(outcome="refused"),
        lambda: Forged(ANSWER).result(outcome="well"),
        lambda: Forged(ANSWER).drop(2),
        lambda: Forged(EMPTY, ANSWER).step(2, target="done"),
    ],
    path_checks.LEGAL: [
        lambda: Forged(EMPTY, ANSWER).drop(2),
        lambda: Forged(EMPTY, ANSWER).step(2, number=7),
        lambda: Forged(EMPTY, ANSWER).step(4, at=-1.0),
        lambda: Forged(EMPTY, ANSWER).step(2, guard="may_nudge"),
        lambda: Forged(EMPTY, ANSWER).step(2, facts=("has_delivered",)),
        lambda: Forged(EMPTY, ANSWER).step(2, facts=("is_tuesday",)),
        lambda: Forged(EMPTY, ANSWER).step(2, source="ask"),
        lambda: Forged(EMPTY, ANSWER).step(2, event="came_home"),
    ],
    path_checks.COUNTED: [
        lambda: Forged(EMPTY, ANSWER).step(2, attempts=2),
        lambda: Forged(EMPTY, ANSWER).step(2, spent={}),
        lambda: Forged(EMPTY, ANSWER).result(attempts=1),
    ],
    spending_checks.CHAIN: [
        lambda: Forged(EMPTY, ANSWER).step(3, backend="nobody"),
        lambda: Forged(EMPTY, ANSWER, chain=2).step(3, backend="backend-2"),
    ],
    spending_checks.BUDGET: [
        lambda: Forged(EMPTY, ANSWER).policy(budget=Budget(attempts=1)),
        lambda: Forged(EMPTY, ANSWER).policy(budget=Budget(seconds=1)),
        lambda: Forged(CUT, REST).policy(budget=Budget(output_tokens=9)),
        lambda: Forged(ANSWER).step(1, cap=0),
        lambda: Forged(ANSWER, policy=PAID, chain=PRICED).step(1, input_tokens=60_000),
        lambda: (Forged(ANSWER, chain=PRICED).policy(budget=CENTS), {"is_fair": True}),
        lambda: (Forged(ANSWER).policy(budget=FEW), {"is_fair": True}),
    ],
    spending_checks.WAITS: [
        lambda: Forged(EMPTY, ANSWER).step(2, wait=math.inf),
        lambda: Forged(EMPTY, ANSWER).step(2, wait=200.0),
        lambda: Forged(BUSY, ANSWER).step(2, wait=2.0),
        lambda: Forged(BUSY, ANSWER).policy(waits=rungwise.Waits(longest_asked=1.0)),
    ],
    spending_checks.CERTIFIED: [
        lambda: (Forged(EMPTY, ANSWER), {"certificate": verify(NOTHING)}),
        lambda: (Forged(Failure("auth"), ANSWER, chain=2), {"certificate": verify()}),
    ],
    spending_checks.SUMMED: [
        lambda: Forged(CUT, REST).result(usage=Usage(9, 4)),
        lambda: Forged(CUT, REST, chain=PRICED).result(cost=0.0),
    ],
    success.NOT_EMPTY: [
        lambda: Forged(ANSWER).result(text=" \n"),
    ],
    success.CLEAN: [
        lambda: Forged(ANSWER).reply(stop_reason="length"),
        lambda: Forged(ANSWER).reply(interrupted=True),
        lambda: Forged(ANSWER).reply(refusal="no"),
        lambda: Forged(ANSWER, request=CAPPED).reply(stop_reason=None, stop_raw=None),
    ],
    success.WHOLE_TOOLS: [
        lambda: Forged(TOOLS).result(tool_calls=(ToolCall("1", "look_up", '{"pa'),)),
        lambda: Forged(TOOLS).result(tool_calls=(ToolCall("1", "look_up", "[]"),)),
        lambda: Forged(TOOLS).result(tool_calls=(ToolCall("1", "look_up", " "),)),
        lambda: Forged(TOOLS).result(tool_calls=(ToolCall("1", "", "{}"),)),
        lambda: Forged(EMPTY).result(tool_calls=(LOOK_UP,)),
    ],
    success.RIGHT: [
        lambda: Forged(TWO, returns=NESTS).result(text='{"nests": "two"}'),
        lambda: Forged(TWO, returns=NESTS).result(value=3),
        lambda: Forged(
            ANSWER, verdict=lambda reply: "No." if "more" in reply.text else None
        ).more(),
        lambda: Forged(TOOLS, request=OFFERED).called("note"),
    ],
    success.TEXT_STAYS: [
        lambda: Forged(EMPTY).result(text="something"),
    ],
    delivery.KEPT: [
        lambda: (forged := streamed(CUT, REST), retold(*whole(forged)[:-1])),
        lambda: (forged := streamed(CUT, REST), retold(*whole(forged), Text("more"))),
        lambda: (forged := streamed(CUT, REST), retold(Discard("x"), *whole(forged))),
        lambda: (forged := streamed(CUT, REST), retold("An answer.", *whole(forged))),
        lambda: taken_back(streamed(CUT, REST)),
        lambda: (forged := streamed(ANSWER), retold(*whole(forged), Forged(ANSWER).call.result)),
    ],
    delivery.STITCHED: [
        lambda: Forged(CUT, REST).result(text="The first half and the "),
        lambda: Forged(CUT, REST).result(text="and the second."),
        lambda: said_twice(Forged(CUT, REST)),
    ],
    privacy.PRIVATE: [
        lambda: (Forged(ANSWER), {"secrets": ["backend-1"]}),
        lambda: Forged(EMPTY, ANSWER).step(2, content={"part": "x"}),
        lambda: Forged(EMPTY, REST).step(2, stop_raw="it was: and the second."),
    ],
    replays.REPLAYS: [
        lambda: Forged(EMPTY, ANSWER).step(2, draw=0.5),
        lambda: Forged(EMPTY, ANSWER).result(cause="nobody knows"),
    ],
}

NOTHING = Policy(limits=Limits(**limits()))
PAID = Policy(budget=Budget(money=0.05))
CENTS = Budget(money=0.00001)
FEW = Budget(output_tokens=3)
PRICED = [PlainLink("backend-1", prices=Prices(1.0, 10.0))]
CAPPED = Request("hi", max_tokens=4)
TWO = Reply('{"nests": 2}', stop_reason="stop")
NESTS = {"type": "object", "properties": {"nests": {"type": "integer"}}}
OFFERED = Request("hi", tools=[{"name": "look_up"}])


def taken_back(forged: Forged) -> tuple[Forged, dict[str, Any]]:
    """Let a stream take the first part back and say it again."""
    events = whole(forged)
    at = events.index(Text("and the second."))
    again = [
        Discard("The first half "),
        forged.events[-1],
        Text("The first half "),
    ]
    return forged, retold(*events[:at], *again, *events[at:])


def said_twice(forged: Forged) -> Forged:
    """Let the second part repeat the first, as a server that echoes does, and keep both."""
    first, second = forged.call.result.parts
    echo = first + second
    return forged.result(parts=(first, echo), text=first + echo, final_text=first + echo)


@pytest.mark.parametrize(
    ("property", "forge"),
    [(property, forge) for property, forges in FORGERIES.items() for forge in forges],
)
def test_each_assertion_can_fail(property: str, forge: Callable[[], Any]) -> None:
    made = forge()
    forged, options = made if isinstance(made, tuple) else (made, {})
    with pytest.raises(testing.Dishonest) as caught:
        testing.assert_call_honest(forged.call, **options)
    assert caught.value.property == property
    assert str(caught.value).startswith(f"{property}: ")


REASK = row_of("came_empty", "may_reask")
FAULTY: list[tuple[str, Table]] = [
    (path_checks.BOUNDED, redeclaring(CALL, Guard("may_reask"))),
    (path_checks.FALLS, redeclaring(CALL, Effect("spend_reask"))),
    (path_checks.LEGAL, tampered(REASK, test=lambda test: lambda run: True)),
    (path_checks.COUNTED, tampered(REASK, count=lambda count: None)),
]


@pytest.mark.parametrize(("property", "table"), FAULTY, ids=[property for property, _ in FAULTY])
def test_a_faulty_machine_is_stopped_and_otherwise_caught(
    property: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = unchecked(table)
    with pytest.raises(BrokenMachine):
        testing.run(policy, [EMPTY])
    # Without the check that the running machine makes of itself, the kit has something to find.
    monkeypatch.setattr(Run, "_check", lambda run, row, before: None)
    with pytest.raises(testing.Dishonest, match=property):
        testing.assert_call_honest(testing.run(policy, [EMPTY]))


PROPERTIES = {
    path_checks.ENDED,
    path_checks.LEGAL,
    path_checks.COUNTED,
    path_checks.BOUNDED,
    path_checks.FALLS,
    spending_checks.CHAIN,
    spending_checks.BUDGET,
    spending_checks.WAITS,
    spending_checks.CERTIFIED,
    spending_checks.SUMMED,
    success.NOT_EMPTY,
    success.CLEAN,
    success.WHOLE_TOOLS,
    success.RIGHT,
    success.TEXT_STAYS,
    delivery.KEPT,
    delivery.STITCHED,
    privacy.PRIVATE,
    replays.REPLAYS,
}
"""What must hold for every call, in words."""


def test_every_property_was_broken() -> None:
    assert {*FORGERIES, *(property for property, _ in FAULTY)} == PROPERTIES


def test_an_error_tells_the_step() -> None:
    with pytest.raises(testing.Dishonest, match=r"at step 2: came_empty .* -> reask") as caught:
        testing.assert_call_honest(Forged(EMPTY, ANSWER).step(2, wait=200.0).call)
    assert caught.value.step.number == 2


@pytest.mark.parametrize(
    "script",
    [
        [ANSWER],
        [EMPTY],
        [CUT, REST],
        [TOOLS],
        [BUSY, ANSWER],
        [Failure("auth")],
        [CUT, Failure("auth")],
        [CUT, WRONG],
    ],
    ids=("answer", "empty", "cut", "tools", "busy", "auth", "cut and auth", "cut and wrong"),
)
@pytest.mark.parametrize("streams", [False, True])
def test_honest_calls_pass_as_call_as_result_and_as_error(script: list[Any], streams: bool) -> None:
    events: list[Any] = []
    call = testing.run(
        DEFAULT, script, chain=2, is_streaming=streams, events=events, contents=streams
    )
    seen = events if streams else None
    testing.assert_call_honest(call, events=seen, certificate=certificates()[id(DEFAULT)])
    testing.assert_call_honest(call.result, events=seen, request=call.request)
    if not call.result.is_success:
        testing.assert_call_honest(error_of(call.result), events=seen)


def test_a_call_that_goes_on_is_none_to_judge() -> None:
    call = Call(Request("hi"))
    call.begin()
    with pytest.raises(IllegalEvent):
        testing.assert_call_honest(call)


@pytest.mark.full
def test_a_table_of_ones_own_is_judged_by_its_own_rows() -> None:
    policy = Policy(table=CALL.without("reask"))
    call = testing.run(policy, [EMPTY])
    testing.assert_call_honest(call, certificate=verify(policy))
    with pytest.raises(testing.Dishonest, match="certificate"):
        testing.assert_call_honest(call, certificate=attrs.evolve(verify(policy), table="turn"))


# what is generated


def simplest(strategy: Any) -> Any:
    """Return what a failure of everything shrinks to."""
    plain = settings(SILENT, database=None, phases=[Phase.generate, Phase.shrink])
    return find(strategy, lambda value: True, settings=plain)


def judge_nothing(reply: Reply) -> str | None:
    raise ValueError("who should judge this?")


@pytest.mark.full
def test_the_strategies_bring_about_every_event_and_every_state() -> None:
    coverage = Coverage()
    policy = attrs.evolve(SMALL, budget=Budget(attempts=4))

    def collect(
        script: Any,
        request: Request,
        turn: TurnContext,
        chain: list[PlainLink],
        streams: bool,
        cancel_at: int | None,
        extras: tuple[Any, list[bool]],
    ) -> None:
        options = {
            "turn": turn,
            "is_streaming": streams,
            "cancel_at": cancel_at,
            "has_compactor": True,
        }
        options |= {"verdict": extras[0], "opens": extras[1]}
        coverage.record(
            EndedCall.of(
                testing.run(
                    policy,
                    script,
                    chain=chain,
                    request=request,
                    **options,
                )
            )
        )

    some = settings(
        SILENT,
        max_examples=150,
        database=None,
        phases=[Phase.generate],
    )
    kinds = (
        testing.scripts_of_replies(),
        testing.requests(),
        strategies.turns(),
        chains(),
        st.booleans(),
    )
    extras = st.tuples(st.none() | st.just(judge_nothing), OPENS)
    for number in range(8):
        seed(number)(some(given(*kinds, st.none() | st.integers(0, 9), extras)(collect)))()
        events = {row.event for row in coverage.rows}
        targets = {row.target for row in coverage.rows}
        events.add("answered_uncertainly")  # of decisions, which these scripts do not hold
        targets.add("reattach")  # of backends that go on with a reply, which are none of these
        if events == set(CALL.events) and targets == set(CALL.states) - {CALL.start}:
            return
    pytest.fail(f"after {coverage.paths} scripts: {coverage.summary()}")


@pytest.mark.parametrize(
    ("strategy", "smallest"),
    [
        (strategies.texts(), "An answer."),
        (testing.replies(), Reply("An answer.", stop_reason="stop", stop_raw="stop")),
        (strategies.headers(), {}),
        (strategies.usages(), Usage()),
        (
            policy_strategies.limits(),
            Limits(
                **{
                    **dict.fromkeys(Limits(), 0),
                    "rotations": None,
                    "fallbacks": None,
                }
            ),
        ),
        (testing.scripts_of_replies(), [Reply("An answer.", stop_reason="stop", stop_raw="stop")]),
        (chains(), [ScriptedLink("backend-1")]),
        (chunkings(b"whole"), [b"whole"]),
        (strategies.turns(), TurnContext()),
        (testing.compactors(), compactors.Compactor()),
    ],
)
def test_everything_shrinks_to_what_is_plain(strategy: Any, smallest: Any) -> None:
    assert simplest(strategy) == smallest


def test_policies_and_requests_shrink_to_the_defaults() -> None:
    policy = simplest(testing.policies())
    assert (policy.budget, policy.table) == (Budget(), CALL)
    assert simplest(testing.requests()).max_tokens is None


@given(st.binary(max_size=60).flatmap(lambda whole: st.tuples(st.just(whole), chunkings(whole))))
def test_the_pieces_of_a_chunking_join_to_the_whole(drawn: tuple[bytes, list[bytes]]) -> None:
    whole, pieces = drawn
    assert b"".join(pieces) == whole
    assert all(pieces) or whole == b""


@given(testing.policies(money=True), chains(priced=True))
def test_policies_and_chains_go_together(policy: Policy, chain: list[PlainLink]) -> None:
    Call(Request("hi"), policy, chain)


# what holds of everything that is generated

OPENS = st.lists(st.booleans(), max_size=3)
"""Whether the backends are open at which a call arrives."""


@cache
def certificates() -> dict[int, Any]:
    """Return the certificate of each policy, by the policy's `id`."""
    return {id(policy): verify(policy, 2) for policy in (DEFAULT, SMALL, TIGHT)}


def judge(script: Any, policy: Policy, *, certified: bool = True, **options: Any) -> None:
    events: list[Any] = []
    call = testing.run(
        policy, script, events=events, jitter=lambda: 1.0, has_compactor=True, **options
    )
    certificate = certificates()[id(policy)] if certified else None
    testing.assert_call_honest(
        call, certificate=certificate, events=events if call.is_streaming else None
    )


@settings(SILENT, max_examples=examples(200))
@given(
    testing.scripts_of_replies(),
    st.sampled_from((DEFAULT, SMALL, TIGHT)),
    testing.requests(),
    st.booleans(),
    st.sampled_from((0.0, 1.0, 30.0)),
    OPENS,
)
def test_no_script_exceeds_the_certificate(
    script: Any,
    policy: Policy,
    request: Request,
    streams: bool,
    latency: float,
    opens: list[bool],
) -> None:
    judge(
        script, policy, chain=2, request=request, is_streaming=streams, latency=latency, opens=opens
    )


@settings(SILENT, max_examples=examples(150))
@given(
    testing.scripts_of_replies(),
    testing.policies(),
    chains(),
    strategies.turns(),
    st.tuples(st.booleans(), st.booleans()),
    st.none() | st.integers(0, 9),
    OPENS,
)
def test_calls_are_honest_under_any_policy_and_chain(
    script: Any,
    policy: Policy,
    chain: list[PlainLink],
    turn: TurnContext,
    kinds: tuple[bool, bool],
    cancel_at: int | None,
    opens: list[bool],
) -> None:
    options = {
        "turn": turn,
        "is_streaming": kinds[0],
        "contents": kinds[1],
        "cancel_at": cancel_at,
        "opens": opens,
    }
    judge(script, policy, certified=False, chain=chain, **options)


# what was found by all this, so that it stays away


def test_a_turn_that_only_pauses_is_no_success() -> None:
    judge([Reply(stop_reason="paused", stop_raw="pause_turn")], DEFAULT, chain=2)


@pytest.mark.parametrize("echo", ["The first half ", "The first half and"])
def test_a_call_that_is_cancelled_in_an_echo_says_nothing_twice(echo: str) -> None:
    judge(
        [CUT, Reply(echo, stop_reason="stop")],
        DEFAULT,
        chain=2,
        is_streaming=True,
        cancel_at=3,
    )


def test_an_echo_of_text_that_repeats_itself_but_for_its_margin_is_dropped() -> None:
    judge([Reply(" \nAn answer.An answer.", interrupted=True)], DEFAULT, chain=2)


def test_text_that_was_handed_out_stays_when_the_stream_breaks() -> None:
    first = "a sentence that comes first, "
    events: list[Any] = []
    broken = scripted.Played(Failure("connection"), streamed=first + first[:20])
    testing.run(
        DEFAULT, [Reply(first, stop_reason="length"), broken], is_streaming=True, events=events
    )
    assert not [event for event in events if isinstance(event, Discard)]


# compactors, under budgets of tokens and money

OVERFLOW = Failure("context_overflow", status=400)
LONG_TALK = [
    {"role": "system", "content": "You know the birds of this river."},
    {"role": "user", "content": "Which birds live here?"},
    {"role": "assistant", "content": "Kingfishers, dippers and a pair of herons. " * 20},
    {"role": "user", "content": "And where do they nest?"},
]
BUDGETS = {
    "money": Policy(
        budget=Budget(attempts=12, seconds=90, money=0.05),
        limits=Limits(retries=2),
    ),
    "tokens": Policy(budget=Budget(output_tokens=5_000)),
    "both": Policy(budget=Budget(output_tokens=5_000, money=0.01)),
}
DEAR_WRITES = [PlainLink("backend-1", prices=Prices(1.0, 10.0, cache_creation=20.0))]


@pytest.mark.parametrize(
    "script", [[OVERFLOW, CUT, REST], [OVERFLOW, ANSWER], [CUT, OVERFLOW, CUT, OVERFLOW, REST]]
)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("way", compactors.COMPACTORS)
def test_budgets_hold_and_journals_replay_whatever_a_compactor_does(
    way: str, budget: str, script: list[Any]
) -> None:
    compactor = compactors.Compactor(way, seconds=5.0)
    call = testing.run(
        BUDGETS[budget],
        script,
        chain=DEAR_WRITES,
        request=deepcopy(LONG_TALK),
        compactor=compactor,
        is_fair=True,
    )
    testing.assert_call_honest(call, is_fair=True)


@settings(SILENT, max_examples=examples(200))
@given(
    testing.scripts_of_replies(),
    testing.policies(money=True),
    chains(priced=True),
    testing.requests(),
    st.none() | testing.compactors(),
    st.booleans(),
)
def test_a_fair_provider_never_costs_more_than_the_budget(
    script: Any,
    policy: Policy,
    chain: Any,
    request: Request,
    compactor: Any,
    streams: bool,
) -> None:
    call = testing.run(
        policy,
        script,
        chain=chain,
        request=request,
        compactor=compactor,
        is_streaming=streams,
        is_fair=True,
    )
    testing.assert_call_honest(call, is_fair=True)


def test_what_a_compactor_raises_ends_the_call_as_with_a_driver() -> None:
    backend = testing.ScriptedBackend([OVERFLOW, ANSWER], compactor=compactors.Compactor("raises"))
    call = backend.run(DEFAULT)
    assert isinstance(backend.raised, compactors.CompactorFailed)
    assert call.result.outcome == "cancelled"
    testing.assert_call_honest(call)


def test_a_slow_compactor_takes_its_time() -> None:
    backend = testing.ScriptedBackend(
        [OVERFLOW, ANSWER], compactor=compactors.Compactor(seconds=20.0)
    )
    assert backend.run(DEFAULT).result.seconds == 20.0


@pytest.mark.parametrize("way", ["eats them", "", None])
def test_an_unknown_way_of_compacting_is_refused(way: Any) -> None:
    with pytest.raises(ConfigurationError, match="COMPACTORS"):
        compactors.Compactor(way)


# many calls at once

TestManyCallsAtOnce = testing.calls_of(SMALL, chain=2).TestCase
TestManyCallsAtOnce.settings = settings(SILENT, max_examples=30, stateful_step_count=40)


def test_calls_that_touch_each_other_are_caught() -> None:
    shared: list[Any] = []

    def spend(run: Any) -> None:
        shared.append(run)
        for each in shared:
            each.spent[CALL.counters.index("reasks")] += 1

    machine = testing.calls_of(unchecked(tampered(REASK, count=lambda count: spend)))()
    request = Request("hi")
    for _ in range(2):
        machine.begin(request, False, False)
        machine.send(0)
    machine.receive(0, EMPTY, 0.0)
    machine.calls_are_apart()
    machine.receive(0, EMPTY, 0.0)
    with pytest.raises(testing.Dishonest, match="do not touch each other"):
        machine.calls_are_apart()


# the clock and the switch


def test_the_clock_moves_only_when_told() -> None:
    clock = testing.VirtualClock()
    clock.sleep(2.0)
    asyncio.run(clock.asleep(3.0))
    clock.advance(10.0)
    assert (clock(), clock.now, clock.waits) == (15.0, 15.0, [2.0, 3.0])
    with pytest.raises(ValueError, match="cannot advance"):
        clock.advance(-1.0)


@pytest.fixture
def no_overrides() -> Any:
    before = set_overrides(Overrides())
    yield
    set_overrides(before)


def busy_client() -> tuple[Client, httpx.MockTransport]:
    provider = MemoryProvider(
        lambda request: ScriptedReply(status=503, headers={"retry-after": "100"})
    )
    transport = httpx.MockTransport(provider.respond)
    backend = OpenAIChat("model", base_url=provider.base_url, api_key="sk-1f3870be274f6c49")
    http = httpx.Client(transport=transport)
    async_http = httpx.AsyncClient(transport=transport)
    return Client(backend, http=http, async_http=async_http), transport


@pytest.mark.usefixtures("no_overrides")
def test_no_driver_waits_while_testing() -> None:
    client, _ = busy_client()
    with testing.testing():
        assert waits_are_off()
        with pytest.raises(Failed) as caught:
            client.call("hi")
        with pytest.raises(Failed):
            asyncio.run(client.acall("hi"))
    assert not waits_are_off()
    result = caught.value.result
    assert [step.wait for step in result.journal.steps if step.wait] == [100.0] * 3
    assert result.seconds < 10
    testing.assert_call_honest(caught.value)


@pytest.mark.usefixtures("no_overrides")
def test_the_switch_is_for_the_whole_process_and_nests() -> None:
    seen: list[bool] = []
    testing.set_testing(True, attempts=2)
    thread = threading.Thread(target=lambda: seen.append(waits_are_off()))
    thread.start()
    thread.join()
    assert seen == [True]
    with testing.testing(attempts=1):
        assert testing.run(DEFAULT, [EMPTY]).result.attempts == 1
    assert testing.run(DEFAULT, [EMPTY]).result.attempts == 2
    assert with_overrides(Policy(budget=Budget(attempts=1))).budget.attempts == 1
    testing.set_testing(False)
    assert testing.run(DEFAULT, [EMPTY]).result.attempts == 4
    assert with_overrides(DEFAULT) is DEFAULT


@pytest.mark.usefixtures("no_overrides")
def test_a_client_makes_no_more_attempts_than_the_switch_allows() -> None:
    client, _ = busy_client()
    with testing.testing(attempts=2), pytest.raises(rungwise.OverBudget) as caught:
        client.call("hi")
    assert caught.value.result.attempts == 2
    testing.assert_call_honest(caught.value)


@pytest.mark.parametrize("attempts", [0, True, 1.5, "2"])
def test_the_switch_refuses_other_numbers_of_attempts(attempts: Any) -> None:
    with pytest.raises(ConfigurationError, match="attempts"):
        testing.set_testing(True, attempts=attempts)
    with pytest.raises(ConfigurationError, match="attempts"):
        testing.set_testing(False, attempts=2)
    assert not waits_are_off()


# the recorder


def test_the_recorder_tells_paths_rows_and_the_worst() -> None:
    coverage = Coverage()
    certificate = verify(SMALL)
    for script in ([ANSWER], [ANSWER], [EMPTY]):
        coverage.record(EndedCall.of(testing.run(SMALL, script), certificate=certificate))
    assert (coverage.paths, coverage.distinct) == (3, 2)
    states = len(CALL.states)
    assert coverage.states == (5, states)
    attempts, waiting = coverage.extremes
    assert (attempts.amount, attempts.rungs) == (2.0, ("ask", "reask", "exhausted"))
    assert (waiting.amount, waiting.certified) == (1.0, certificate.worst[1].value)
    rows = len(CALL.rows)
    told = (
        f"3 paths, 2 of them different; 5 of {states} states and 5 of {rows} rows; 1 of "
        f"{len(coverage.guarded)} guards both ways; 4 of {len(coverage.possible_pairs)} pairs of "
        f"rows; at worst 2 of {attempts.certified:g} attempts"
    )
    assert coverage.summary().startswith(told)
    coverage.reset()
    assert (coverage.paths, coverage.table_rows, coverage.extremes) == (0, (), ())
    assert coverage.reached == 0


def test_the_recorder_tells_guards_both_ways_and_rows_in_succession() -> None:
    coverage = Coverage()
    coverage.record(EndedCall.of(testing.run(SMALL, [EMPTY])))
    first, reask, again, exhausted = [
        next(row for row in CALL.ladder(event, source) if row.target == target)
        for event, source, target in (
            ("sent", "ask", "await"),
            ("came_empty", "await", "reask"),
            ("sent", "reask", "await"),
            ("came_empty", "await", "exhausted"),
        )
    ]
    assert coverage.pairs == {(first, reask), (reask, again), (again, exhausted)}
    assert coverage.pairs <= set(coverage.possible_pairs)
    above = CALL.ladder("came_empty", "await")
    assert coverage.passed == {row for row in above if row != exhausted}
    assert coverage.reached == len(coverage.passed) + 3

    unreached = list(coverage.unreached())
    assert f"never taken: {first}" not in unreached
    assert unreached[0] == f"never taken: {coverage.missing[0]}"
    assert f"never in succession: {first}, {exhausted}" in unreached
    assert f"its guard always held: {reask}" not in unreached  # the second time it did not

    reached = coverage.reached
    coverage.record(EndedCall.of(testing.run(SMALL, [EMPTY, ANSWER])))
    answered = next(row for row in coverage.rows if row.event == "answered")
    assert (again, answered) in coverage.pairs
    assert coverage.reached == reached + 1


def test_a_guard_that_always_held_is_named() -> None:
    coverage = Coverage()
    coverage.record(EndedCall.of(testing.run(SMALL, [EMPTY, ANSWER])))
    reask = next(row for row in coverage.rows if row.target == "reask")
    assert f"its guard always held: {reask}" in coverage.unreached()
    coverage.record(EndedCall.of(testing.run(SMALL, [EMPTY])))
    assert f"its guard always held: {reask}" not in coverage.unreached()


def test_an_assertion_that_passes_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Coverage()
    monkeypatch.setattr(honesty, "RECORDER", recorder)
    testing.assert_call_honest(testing.run(DEFAULT, [ANSWER]))
    with pytest.raises(testing.Dishonest):
        testing.assert_call_honest(Forged(ANSWER).result(text="").call)
    assert recorder.paths == 1


# imports


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.full
def test_the_core_imports_no_hypothesis_and_the_kit_says_what_it_needs() -> None:
    said = python(
        "import sys; from rungwise import Client, verify; print('hypothesis' in sys.modules, "
        "'rungwise.fsm.testing' in sys.modules)"
    )
    assert said.split() == ["False", "False"]
    for line in ("import rungwise.fsm.testing", "rungwise.testing.run"):
        said = python(
            f"import sys; sys.modules['hypothesis'] = None; import rungwise.testing; {line}"
        )
        assert (
            "ImportError: rungwise.testing needs Hypothesis: pip install 'rungwise[testing]'"
            in said
        )
    said = python(
        "import sys; sys.modules['hypothesis'] = None; import rungwise; "
        "print(rungwise.testing.Script, rungwise.testing.EmbeddedProvider, "
        "rungwise.testing.set_testing)"
    )
    assert said.count("rungwise.") == 2


def test_the_fuzz_profile_fuzzes_also_in_ci() -> None:
    code = (
        "import rungwise.fsm.testing; from hypothesis import settings; "
        "print(settings.get_current_profile_name(),"
        " *[(p.derandomize, p.database is None) for p in map(settings.get_profile, "
        "('rungwise-ci', 'rungwise-fuzz'))])"
    )
    assert python(code, CI="true").strip() == "ci (True, True) (False, False)"
