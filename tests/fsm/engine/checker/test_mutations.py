"""Break the shipped table in every small way, and see that somebody notices.

A mutant is the table with one declaration broken: a row, a guard, an effect, a fact that follows
from others. It dies where the checker or the rules of a call refuse it, or where a call that runs
on it does something else than `expectations.toml` says. One that goes the same way with whatever
facts a reply can bring about is the same machine; what replies cannot bring about is said below,
and held against calls. If any other lives, an expectation is missing, or the checker has a gap.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rungwise
from rungwise import CALL, Fact, Policy, ToolCall, testing
from rungwise.core import (
    Call,
    Effect,
    Failure,
    Guard,
    OpaquePart,
    PlainLink,
    Reply,
    Request,
    Row,
    Table,
    TurnContext,
)
from rungwise.fsm.call.budget.throttle import LEAST, RetryThrottle
from rungwise.fsm.call.play import reworded
from rungwise.fsm.call.policy import AfterRefusal
from rungwise.fsm.call.rules import faults_of
from rungwise.fsm.engine.checker.branches import Ask, changes, dead_rows, first_row, ways
from rungwise.fsm.engine.checker.proof import prove_row
from rungwise.fsm.engine.checker.structure import problems
from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
from rungwise.fsm.testing import strategies
from support.drawn import chains
from support.sampling import examples
from support.tables import OTHERS_OFF, redeclaring, replacing, unchecked

pytestmark = pytest.mark.sampled(4)

REPLIES = frozenset(
    {
        "truncated",
        "paused",
        "tools_truncated",
        "json_truncated",
        "reasoning_truncated",
        "ended_unclearly",
    }
)
FAILURES = frozenset({"failed_transiently", "failed_permanently", "rejected_fixably"})
EITHER = frozenset({"interrupted", "fell_silent", "malformed", "refused", "overflowed"})
EMPTY = frozenset({"came_empty", "only_reasoned"})
WRONG = frozenset({"answered_wrongly", "called_wrongly"})
ONLY_WITH: Mapping[str, frozenset[str]] = {
    "has_delivered": EMPTY,
    "has_prior_answer": frozenset(CALL.events) - {"ended_unclearly"},
    "added_text": frozenset({"truncated", "paused", "interrupted", "fell_silent", "overflowed"}),
    "repeats_itself": frozenset({"truncated", "paused", "interrupted", "fell_silent"}),
    "thinks_inline": REPLIES | EITHER | {"only_reasoned"},
    "same_empty_again": frozenset({"came_empty"}),
    "same_wrong_again": WRONG,
    "is_uncertain": frozenset({"answered_uncertainly"}),
    "keeps_running": frozenset({"interrupted", "fell_silent", "refused"}),
    "repair_known": frozenset({"rejected_fixably"}),
    "switch_asked": FAILURES | EITHER | REPLIES | EMPTY,
    "reserve_left": frozenset({"ran_out"}),
    "throttled": frozenset(
        {"interrupted", "fell_silent", "malformed", "failed_transiently", "ended_unclearly"}
    )
    | EMPTY,
    "connection_was_stale": frozenset({"failed_transiently"}),
    "other_key_free": frozenset({"failed_transiently", "failed_permanently", "interrupted"}),
}
"""The facts that hold with some events alone."""

WHERE_IT_RUNS_OUT = ("has_next_backend", "reserve_left")
"""The facts that are found where the next request cannot be afforded: both or none."""

WHERE_IT_IS_OPEN = ("has_text", "has_next_backend")
"""The facts that are found where a backend is not asked."""

MAY_ASK = frozenset({"interrupted", "malformed", "failed_transiently", "rejected_fixably"})
ALWAYS_WITH: Mapping[str, frozenset[str]] = {
    "wait_fits": (REPLIES | FAILURES | EITHER | EMPTY | WRONG | {"answered_uncertainly"}) - MAY_ASK,
    "has_text": frozenset({"ended_unclearly", "answered_uncertainly"}),
}
"""The facts that hold with some events each time: a wait counts only where the same backend may be
asked again, and a reply of which only the end is unclear, or an answer, has text.
"""

WITHOUT = (("added_text", "has_text"), ("repeats_itself", "has_text"))
"""The pairs of facts of which the first never holds without the second."""

TOGETHER = {
    ("added_text", "has_prior_answer"): frozenset(CALL.events),
    ("same_empty_again", "has_prior_answer"): frozenset(CALL.events),
    ("connection_was_stale", "overran"): frozenset(CALL.events),
    ("connection_was_stale", "other_key_free"): frozenset(CALL.events),
    # of which nothing is kept
    ("added_text", "asks_for_little"): frozenset({"interrupted", "fell_silent"}),
}
"""The pairs of facts that never hold together, each with the events of which that is true."""

LEFT_BEFORE = ("connection_was_stale", "switch_asked", "has_next_backend", "fallbacks")
"""What never holds at once: a backend is left at the last failure that the policy bears, and a
stale one is none.
"""

FAMILIES = (
    "row dropped",
    "another target",
    "guard removed",
    "another guard",
    "effect removed",
    "another effect",
    "neighbours swapped",
    "guard always true",
    "guard always false",
    "counter of a guard dropped",
    "another counter of a guard",
    "fact of a guard dropped",
    "fact of a guard negated",
    "fact added to a guard",
    "effect takes nothing",
    "effect takes from another counter",
    "refill forgotten",
    "refill too many",
    "another condition of an effect",
    "fact follows otherwise",
)
"""What is done to the table; written down, so that no change of the declarations can silently end a
family.
"""

# What comes back, by the names that the expectations use

CIRCLES = "the same line again\n" * 40
CUT_CALL = (ToolCall("1", "read", '{"pa'),)
WRONG_CALL = (ToolCall("1", "read", "[{number}]"),)
SAME_CALL = (ToolCall("1", "read", "[]"),)
SHOWN = "Shown so far. "
PRIOR_ANSWER = "A prior answer."
GATHERED = "What was written before. "


COMES_BACK: Mapping[str, Reply | Failure] = {
    "answer": Reply("An answer.", stop_reason="stop"),
    "tools": Reply(tool_calls=(ToolCall("1", "read", '{"path": "x"}'),), stop_reason="tool_calls"),
    "picture": Reply(parts=(OpaquePart("p", {}, is_answer=True),), stop_reason="stop"),
    "prose": Reply("Part {number}.", stop_reason="stop"),
    "wrong_tools": Reply(tool_calls=WRONG_CALL, stop_reason="tool_calls"),
    "wrong_tools_same": Reply(tool_calls=SAME_CALL, stop_reason="tool_calls"),
    "wrong_tools_beside_text": Reply("A text.", tool_calls=WRONG_CALL, stop_reason="tool_calls"),
    "empty": Reply(stop_reason="stop"),
    "blank_tags": Reply("<think>\n</think>", stop_reason="stop"),
    "thought": Reply(reasoning="hm", stop_reason="stop"),
    "inline_thought": Reply("<think>hm</think>", stop_reason="stop"),
    "cut": Reply("Part {number}. ", stop_reason="length"),
    "cut_late": Reply("Part {number}. ", stop_reason="length", failure=Failure("timeout")),
    "cut_tools_late": Reply(tool_calls=CUT_CALL, stop_reason="length", failure=Failure("timeout")),
    "cut_same": Reply("Always the same part. ", stop_reason="length"),
    "cut_circles": Reply(CIRCLES, stop_reason="length"),
    "cut_tools": Reply(tool_calls=CUT_CALL, stop_reason="length"),
    "unparsable_tools": Reply(tool_calls=CUT_CALL, stop_reason="tool_calls"),
    "cut_thought": Reply(reasoning="hm", stop_reason="length"),
    "paused": Reply("Part {number}. ", stop_reason="paused"),
    "paused_silent": Reply(stop_reason="paused"),
    "paused_circles": Reply(CIRCLES, stop_reason="paused"),
    "silent": Failure("silence"),
    "cut_silent": Reply("Part {number}. ", interrupted=True, failure=Failure("silence")),
    "cut_silent_circles": Reply(CIRCLES, interrupted=True, failure=Failure("silence")),
    "cut_silent_inline": Reply(
        "<think>hm</think>Part {number}. ", interrupted=True, failure=Failure("silence")
    ),
    "cut_silent_bit": Reply("It", interrupted=True, failure=Failure("silence")),
    "torn": Reply("Part {number}. ", interrupted=True),
    "torn_bare": Reply(interrupted=True),
    "torn_tools": Reply(tool_calls=CUT_CALL, interrupted=True),
    "torn_circles": Reply(CIRCLES, interrupted=True),
    "torn_by_500": Reply("Part {number}. ", interrupted=True, failure=Failure("server_error")),
    "torn_limited": Reply("Part {number}. ", interrupted=True, failure=Failure("rate_limit")),
    "torn_by_401": Reply(interrupted=True, failure=Failure("auth")),
    "kept": Reply(
        "Part {number}. ", interrupted=True, failure=Failure("connection", generation="g")
    ),
    "kept_silent": Reply(
        "Part {number}. ", interrupted=True, failure=Failure("silence", generation="g")
    ),
    "kept_circles": Reply(CIRCLES, interrupted=True, failure=Failure("connection", generation="g")),
    "kept_inline": Reply(
        "<think>hm</think>Part {number}. ",
        interrupted=True,
        failure=Failure("silence", generation="g"),
    ),
    "kept_refusal": Reply(
        refusal="No.", interrupted=True, failure=Failure("connection", generation="g")
    ),
    "kept_limited": Failure("rate_limit", generation="g"),
    "kept_bare": Failure("connection", generation="g"),
    "kept_bare_silent": Failure("silence", generation="g"),
    "kept_wait_500": Failure("rate_limit", asked_wait=500.0, generation="g"),
    "odd_finish": Reply("A text.", stop_reason="unknown", stop_raw="weird"),
    "odd_finish_late": Reply(
        "<think>hm</think>A text.",
        stop_reason="unknown",
        stop_raw="weird",
        failure=Failure("timeout"),
    ),
    "odd_finish_long": Reply("a word " * 200, stop_reason="unknown", stop_raw="weird"),
    "no_shape": Failure("malformed"),
    "no_shape_wait_500": Failure("malformed", asked_wait=500.0),
    "filtered": Reply("A text.", stop_reason="content_filter"),
    "filtered_inline": Reply("<think>hm</think>A text.", stop_reason="content_filter"),
    "content_policy": Failure("content_policy"),
    "content_policy_wait_500": Failure("content_policy", asked_wait=500.0),
    "error_500": Failure("server_error", status=500),
    "wait_30": Failure("rate_limit", status=429, asked_wait=30.0),
    "wait_100": Failure("rate_limit", status=429, asked_wait=100.0),
    "wait_500": Failure("rate_limit", status=429, asked_wait=500.0),
    "overloaded": Failure("overloaded", status=529),
    "unreachable": Failure("unreachable"),
    "limited": Failure("rate_limit", status=429),
    "stale": Failure("connection", is_stale=True),
    "stale_wait_500": Failure("connection", is_stale=True, asked_wait=500.0),
    "torn_wait_30": Reply(
        "Part {number}. ", interrupted=True, failure=Failure("rate_limit", asked_wait=30.0)
    ),
    "torn_wait_500": Reply(
        "Part {number}. ", interrupted=True, failure=Failure("rate_limit", asked_wait=500.0)
    ),
    "torn_by_filter": Reply("Part {number}. ", interrupted=True, failure=Failure("content_policy")),
    "inline_cut": Reply("<think>hm</think>Part {number}. ", stop_reason="length"),
    "cut_inline_thought": Reply("<think>hm", stop_reason="length"),
    "torn_bit": Reply("It", interrupted=True),
    "torn_inline": Reply("<think>hm</think>Part {number}. ", interrupted=True),
    "torn_inline_thought": Reply("<think>hm</think>", interrupted=True),
    "torn_by_overload": Reply("Part {number}. ", interrupted=True, failure=Failure("overloaded")),
    "torn_by_connection": Reply("Part {number}. ", interrupted=True, failure=Failure("connection")),
    "bare_500": Reply(interrupted=True, failure=Failure("server_error")),
    "bare_wait_500": Reply(interrupted=True, failure=Failure("rate_limit", asked_wait=500.0)),
    "bare_bad_temperature": Reply(
        interrupted=True, failure=Failure("parameter_unsupported", parameter="temperature")
    ),
    "inline_overflow": Reply("<think>hm</think>A text.", stop_reason="overflow"),
    "overflow_wait_500": Failure("context_overflow", asked_wait=500.0),
    "json": Reply('{"a": 1}', stop_reason="stop"),
    "bad_temperature_wait_500": Failure(
        "parameter_unsupported", parameter="temperature", asked_wait=500.0
    ),
    "error_401": Failure("auth", status=401),
    "error_401_wait_500": Failure("auth", status=401, asked_wait=500.0),
    "error_400": Failure("format", status=400),
    "bad_temperature": Failure("parameter_unsupported", parameter="temperature"),
    "bad_top_p": Failure("parameter_unsupported", parameter="top_p"),
    "bad_top_k": Failure("parameter_unsupported", parameter="top_k"),
    "bad_seed": Failure("parameter_unsupported", parameter="seed"),
    "named_cap": Failure("output_cap", available_tokens=1000),
    "overflow": Failure("context_overflow"),
    "sure": Reply('{"a": {"probabilities": {"yes": 0.9, "no": 0.1}}}', stop_reason="stop"),
    "weak": Reply('{"a": {"probabilities": {"yes": 0.4, "no": 0.6}}}', stop_reason="stop"),
    "label": Reply('{"a": true}', stop_reason="stop"),
    "overflow_reply": Reply("A text.", stop_reason="overflow"),
}

PLAIN = Request("hi")
AFTER_A_TOOL = Request(
    [
        {"role": "user", "content": "look it up"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "found"},
    ]
)
LATE = 1000.0
"""Seconds, past every deadline here."""


# The expectations, and what a call does


@frozen(kw_only=True, eq=False)
class Expectation:
    """Hold one entry of the file; its head explains the fields."""

    that: str
    given: tuple[str, ...] = field(converter=tuple)
    path: tuple[str, ...] = field(converter=tuple)
    spent: Mapping[str, int] = field(factory=dict)
    kept: str | None = None
    sends: int | None = None
    backends: int = 1
    keys: int = 1
    second_is_unusable: bool = False
    tool_result: bool = False
    prior_answer: str | None = None
    gathered: bool = False
    throttled: bool = False
    compactor: bool = False
    limits: Mapping[str, int] = field(factory=dict)
    attempts: int = 24
    seconds: float | None = None
    output_tokens: int | None = None
    max_tokens: int | None = None
    json: bool = False
    fallback_expects_json: bool = False
    verdict_raises: bool = False
    returns: bool = False
    measures: tuple[bool, ...] = field(default=(), converter=tuple)
    skip_identical_empties: bool = False
    switch_after: Mapping[str, int] = field(factory=dict)
    after_refusal: AfterRefusal | None = None
    money: float | None = None
    prices: tuple[float, ...] = field(default=(), converter=tuple)
    policy: Policy = field(init=False)

    @policy.default
    def _policy(self) -> Policy:
        return Policy(
            limits=rungwise.Limits(**{**self.others_off, **self.limits}),
            budget=rungwise.Budget(
                attempts=self.attempts,
                seconds=self.seconds,
                output_tokens=self.output_tokens,
                money=self.money,
            ),
            skip_identical_empties=self.skip_identical_empties,
            switch_after=self.switch_after,
            after_refusal=self.after_refusal or "fall_back",
            confidence=0.8 if self.measures else None,
        )

    @property
    def others_off(self) -> dict[str, int]:
        """Return a limit of 0 for each rung that was added since and is not in the path, so that a
        new rung leaves the expectations of the others as they are.
        """
        path = {state.partition(" ")[0] for state in self.path}
        taken = {rung.counter for rung in CALL.declared_rungs if rung.name in path}
        return {name: 0 for name in OTHERS_OFF if name not in taken}

    @property
    def chain(self) -> list[PlainLink]:
        problem = "no key" if self.second_is_unusable else None
        return [
            PlainLink(
                f"backend {n}",
                problem=problem if n == 1 else None,
                keys=self.keys,
                expects_json=self.json or (bool(n) and self.fallback_expects_json),
                prices=rungwise.Prices(self.prices[n], self.prices[n]) if self.prices else None,
                background=any(state.startswith("reattach") for state in self.path),
                measures=bool(self.measures) and self.measures[n],
            )
            for n in range(self.backends)
        ]

    @property
    def turn(self) -> TurnContext:
        if self.prior_answer is None:
            return TurnContext(gathered=GATHERED if self.gathered else "")
        return TurnContext(PRIOR_ANSWER, only_housekeeping=self.prior_answer == "housekeeping")

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Return the policies that it is true of: after a refusal they do as it says, or as they
        like.
        """
        return (
            (self.policy,)
            if self.after_refusal
            else (self.policy, evolve(self.policy, after_refusal="end"))
        )

    def start(self, table: Table, policy: Policy) -> Call:
        policy = unchecked(table, policy)  # a mutant shall run, not be refused
        request = evolve(AFTER_A_TOOL if self.tool_result else PLAIN, max_tokens=self.max_tokens)
        wants: dict[str, Any] = {
            "returns": {} if self.returns else None,
            "verdict": raises if self.verdict_raises else None,
        }
        if self.measures:
            wants["returns"] = OpenQuestions.of({"a": rungwise.YesNo("Is it?")})
        return Call(request, policy, self.chain, self.turn, has_compactor=self.compactor, **wants)


_FILE = Path(__file__).with_name("expectations.toml")
EXPECTATIONS = tuple(
    Expectation(**entry) for entry in tomllib.loads(_FILE.read_text(encoding="utf-8"))["expect"]
)


def play(expectation: Expectation, table: Table, policy: Policy | None = None) -> Call:
    """Run a call over what is given, until it ends or is surely longer than expected."""
    call = expectation.start(table, policy or expectation.policy)
    call.begin(0.0, used_up() if expectation.throttled else None)
    for number in range(len(expectation.path) + 1):
        if call.is_over:
            break
        give(call, expectation.given[min(number, len(expectation.given) - 1)], number)
    return call


@cache
def used_up() -> RetryThrottle:
    """Return what many calls have drawn their retries from, of which none is left."""
    throttle = RetryThrottle(0.0)
    for _ in range(LEAST):
        throttle.begin()
    return throttle


def give(call: Call, name: str, number: int) -> None:
    """Let one thing happen to a call; `number` tells parts of a text from each other."""
    if name == "late":
        call.sending(LATE)
        return
    if name == "found_open":
        call.found_open("open until later")
        return
    if name == "found_open_textless":
        call.found_open("open until later", has_text=False)
        return
    if name == "cancel":
        call.cancel()
        return
    if call.position.state == "compact":
        call.compacted(reworded(call._context.transcript.messages))
    if name == "cancel_in_flight":
        call.sending()
        call.cancel()
        return
    *words, name = name.split()
    what = COMES_BACK[name]
    if isinstance(what, Reply):
        usage = rungwise.Usage(5, 150) if "overrun" in words else what.usage
        calls = tuple(
            evolve(each, arguments=each.arguments.replace("{number}", str(number)))
            for each in what.tool_calls
        )
        what = evolve(
            what, text=what.text.replace("{number}", str(number)), tool_calls=calls, usage=usage
        )
    if "shown" in words:
        call.hear(rungwise.Text(SHOWN))
    judged = call.judging(what)
    call.receive(what, finding=None if judged is None else judged.run())


def raises(reply: Reply) -> str | None:
    """Judge a reply, and fail."""
    raise KeyError(reply.text)


def difference(expectation: Expectation, table: Table) -> str | None:
    """Say how a call on this table differs from what is expected; None if it does not."""
    found = (_difference(expectation, table, policy) for policy in expectation.policies)
    return next(filter(None, found), None)


def _difference(expectation: Expectation, table: Table, policy: Policy) -> str | None:
    try:
        call = play(expectation, table, policy)
    except Exception as error:  # whatever it is, a caller would meet it
        return f"raises {type(error).__name__}: {error}"
    steps = [
        step for step in call.journal.steps if step.event != "skipped" and step.target != table.hub
    ]
    path = [(table.start, None), *((step.target, step.guard) for step in steps)]
    wanted = [
        (state, guard or None)
        for state, _, guard in (each.partition(" by ") for each in expectation.path)
    ]
    if [state for state, _ in path] != [state for state, _ in wanted]:
        return f"went {[state for state, _ in path]}"
    for (state, guard), (_, decides) in zip(path, wanted, strict=True):
        if decides is not None and guard != decides:
            return f"{guard} decided for {state}, not {decides}"
    spent = {name: count for name in table.counters if (count := call.position.spent_of(name))}
    if spent != expectation.spent:
        return f"spent {spent}"
    if kept_by(call) != expectation.kept:
        return f"kept {kept_by(call)}"
    sends = len(wanted) - 1 if expectation.sends is None else expectation.sends
    return None if call.result.attempts == sends else f"sent {call.result.attempts}"


def kept_by(call: Call) -> str | None:
    """Name what stands as the answer of a call that was salvaged."""
    if call.result.outcome != "salvaged":
        return None
    return (
        "prior_answer"
        if call.result.text == PRIOR_ANSWER
        else "delivered"
        if call.result.text
        else "nothing"
    )


@cache
def rows_taken(expectation: Expectation) -> tuple[Row, ...]:
    by_step = {(row.event, row.source, row.guard): row for row in CALL.rows}
    steps = play(expectation, CALL).journal.steps
    return tuple(
        by_step[step.event, step.source, step.guard] for step in steps if step.event != "skipped"
    )


def ladder_of(row: Row) -> tuple[str, str]:
    return row.event, row.source


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda each: each.that)
def test_the_shipped_table_does_what_is_expected(expectation):
    assert difference(expectation, CALL) is None


def test_every_row_is_taken_by_an_expectation():
    taken = {row for each in EXPECTATIONS for row in rows_taken(each)}
    assert [str(row) for row in CALL.rows if row not in taken] == []


def test_every_guard_of_every_ladder_decides_both_ways():
    # A guard was false wherever a row below its own was taken.
    passed = {
        above
        for each in EXPECTATIONS
        for row in rows_taken(each)
        for above in CALL.ladder(*ladder_of(row))[: CALL.ladder(*ladder_of(row)).index(row)]
    }
    assert [str(row) for row in CALL.rows if row.guard and row not in passed] == []


# The mutants


@frozen
class Mutant:
    """Hold a broken table.

    Arguments:
        family: what kind of thing was done to it.
        name: what was done.
        table: what came of it.
        breaks: the rows of the shipped table that it is about; the expectations that take them are
        looked at first.
        changed: the rows of the broken table that mean something else than before,
        so that their proof may fail.
    """

    family: str
    name: str
    table: Table
    breaks: tuple[Row, ...]
    changed: tuple[Row, ...]


FACTS = tuple(fact.name for fact in CALL.facts)
GUARDS = tuple(CALL.guards_by_name)
GUARDS_USED = tuple(dict.fromkeys(row.guard for row in CALL.rows if row.guard))


def label(row: Row) -> str:
    """Name a row shortly: in the hub by its event and guard, elsewhere by its event and state."""
    return (
        f"{row.event}[{row.guard or 'else'}]"
        if row.source == CALL.hub
        else f"{row.event}@{row.source}"
    )


def mutants_of_rows() -> Iterator[Mutant]:
    for row in CALL.rows:
        yield _with_row("row dropped", f"{label(row)} dropped", row)
        for state in CALL.states:
            if state != row.target:
                yield _with_row(
                    "another target", f"{label(row)} -> {state}", row, evolve(row, target=state)
                )
        for guard in (None, *GUARDS):
            if guard != row.guard:
                family = "another guard" if guard else "guard removed"
                yield _with_row(family, f"{label(row)} by {guard}", row, evolve(row, guard=guard))
        for effect in (None, *CALL.effects_by_name):
            if effect != row.effect:
                family = "another effect" if effect else "effect removed"
                yield _with_row(family, f"{label(row)} / {effect}", row, evolve(row, effect=effect))


def _with_row(family: str, name: str, old: Row, *new: Row) -> Mutant:
    return Mutant(family, name, replacing(CALL, {old: new[0] if new else None}), (old,), new)


def mutants_of_order() -> Iterator[Mutant]:
    for ladder in CALL.ladders.values():
        for upper, lower in pairwise(ladder):
            table = replacing(CALL, {upper: lower, lower: upper})
            yield Mutant(
                "neighbours swapped",
                f"{label(upper)} and {label(lower)} swapped",
                table,
                (upper, lower),
                (),
            )


def mutants_of_guards() -> Iterator[Mutant]:
    for name in GUARDS_USED:
        guard = CALL.guard(name)
        # whose guard is the fact itself, so that its rows get one of another name
        if name in FACTS:
            guard = evolve(guard, name=f"broken_{name}")
        breaks = tuple(row for row in CALL.rows if row.guard == name)
        changed = {row: evolve(row, guard=guard.name) for row in breaks}
        for family, what, broken in _guards_like(guard):
            table = redeclaring(replacing(CALL, changed), broken)
            yield Mutant(family, f"{name} {what}", table, breaks, tuple(changed.values()))


def _guards_like(guard: Guard) -> Iterator[tuple[str, str, Guard]]:
    """Yield what a guard could be by mistake, each with its family."""
    yield "guard always true", "always holds", Guard(guard.name)
    yield "guard always false", "never holds", evolve(guard, holds="has_text", lacks="has_text")
    if guard.counter is not None:
        yield "counter of a guard dropped", "looks at no counter", evolve(guard, counter=None)
        for counter in CALL.counters:
            if counter != guard.counter:
                yield (
                    "another counter of a guard",
                    f"looks at {counter}",
                    evolve(guard, counter=counter),
                )
    for fact in FACTS:
        without = evolve(
            guard, holds=_without(guard.holds, fact), lacks=_without(guard.lacks, fact)
        )
        wanted = evolve(without, holds=(*without.holds, fact))
        unwanted = evolve(without, lacks=(*without.lacks, fact))
        if fact in (*guard.holds, *guard.lacks):
            yield "fact of a guard dropped", f"without {fact}", without
            yield (
                "fact of a guard negated",
                f"with {fact} negated",
                wanted if fact in guard.lacks else unwanted,
            )
        else:
            yield "fact added to a guard", f"holds {fact}", wanted
            yield "fact added to a guard", f"lacks {fact}", unwanted


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)


def mutants_of_effects() -> Iterator[Mutant]:
    for effect in CALL.effects:
        breaks = tuple(row for row in CALL.rows if row.effect == effect.name)
        for family, what, broken in _effects_like(effect):
            yield Mutant(family, f"{effect.name} {what}", redeclaring(CALL, broken), breaks, breaks)


def _effects_like(effect: Effect) -> Iterator[tuple[str, str, Effect]]:
    """Yield what an effect could be by mistake, each with its family."""
    if effect.spends is not None:
        yield "effect takes nothing", "takes nothing", evolve(effect, spends=None)
    for counter in CALL.counters:
        if counter != effect.spends:
            yield (
                "effect takes from another counter",
                f"takes from {counter}",
                evolve(effect, spends=counter),
            )
        if counter in effect.refills:
            left = _without(effect.refills, counter)
            yield "refill forgotten", f"does not refill {counter}", evolve(effect, refills=left)
        else:
            more = (*effect.refills, counter)
            yield "refill too many", f"refills {counter}", evolve(effect, refills=more)
    for fact in (None, *FACTS):
        if effect.refills and fact != effect.refills_on:
            yield (
                "another condition of an effect",
                f"refills on {fact}",
                evolve(effect, refills_on=fact),
            )


def mutants_of_facts() -> Iterator[Mutant]:
    for fact in [each for each in CALL.facts if each.is_derived]:
        users = {guard.name for guard in CALL.guards if fact.name in (*guard.holds, *guard.lacks)}
        breaks = tuple(row for row in CALL.rows if row.guard in users)
        for what, broken in _facts_like(fact):
            yield Mutant(
                "fact follows otherwise",
                f"{fact.name} {what}",
                redeclaring(CALL, broken),
                breaks,
                breaks,
            )


def _facts_like(fact: Fact) -> Iterator[tuple[str, Fact]]:
    for other in CALL.found_facts:
        plain = evolve(
            fact,
            any_holds=_without(fact.any_holds, other),
            any_lacks=_without(fact.any_lacks, other),
        )
        if plain != fact:
            yield f"does not follow from {other}", plain
        if other not in fact.any_holds:
            yield f"follows from {other}", evolve(plain, any_holds=(*plain.any_holds, other))
        if other not in fact.any_lacks:
            yield f"follows from no {other}", evolve(plain, any_lacks=(*plain.any_lacks, other))


# What kills them


def comes_to_the_same(
    one: Table,
    other: Table,
    event: str,
    source: str,
) -> bool:
    """Tell whether two tables go the same way with whatever facts a reply can bring about."""

    def both(ask: Ask) -> list[Any]:
        def known(name: str) -> bool:
            if event == "ran_out":
                return name in WHERE_IT_RUNS_OUT and ask(WHERE_IT_RUNS_OUT[0])
            if event == "found_open":
                return name in WHERE_IT_IS_OPEN and ask(name)
            if event in ALWAYS_WITH.get(name, ()):
                return True
            return event in ONLY_WITH.get(name, CALL.events) and ask(name)

        return [
            _way(table, first_row(table, table.ladder(event, source), known), known)
            for table in (one, other)
        ]

    return all(this == that or not _can_be(event, answers) for answers, (this, that) in ways(both))


def _way(table: Table, row: Row | None, ask: Ask) -> Any:
    return row and (row.target, row.effect, changes(table, row, ask))


def _can_be(event: str, facts: Mapping[str, bool]) -> bool:
    without = any(facts.get(one) and facts.get(other) is False for one, other in WITHOUT)
    together = any(
        facts.get(one) and facts.get(other) and event in events
        for (one, other), events in TOGETHER.items()
    )
    return not without and not together and not all(map(facts.get, LEFT_BEFORE))


def killer_of(mutant: Mutant) -> str | None:
    """Name what notices a mutant, the cheapest first; None if it lives."""
    if problems(mutant.table):
        return "shape"
    if any(prove_row(mutant.table, row).verdict == "refused" for row in mutant.changed):
        return "proof"
    touched = {ladder_of(row) for row in (*mutant.breaks, *mutant.changed)}
    rows = tuple(row for row in mutant.table.rows if ladder_of(row) in touched)
    if dead_rows(evolve(mutant.table, rows=rows)):
        return "dead row"
    if next(faults_of(mutant.table), None):
        return "rules"
    if all(comes_to_the_same(CALL, mutant.table, *ladder) for ladder in touched):
        return "nothing, for it is the same machine"
    if any(
        difference(each, mutant.table)
        for each in expectations_about(mutant.breaks, frozenset(touched))
    ):
        return "expectation"
    return None


@cache
def expectations_about(
    rows: tuple[Row, ...], touched: frozenset[tuple[str, str]]
) -> tuple[Expectation, ...]:
    """Return the expectations that can tell, the likeliest and shortest first.

    One that fires no event of a broken ladder goes its way as before.
    """
    able = [
        each for each in EXPECTATIONS if any(ladder_of(row) in touched for row in rows_taken(each))
    ]
    return tuple(
        sorted(
            able, key=lambda each: (not set(rows) & set(rows_taken(each)), len(rows_taken(each)))
        )
    )


@pytest.mark.full
@pytest.mark.slowest
@pytest.mark.parametrize("nth", [23, pytest.param(1, marks=pytest.mark.full)])
def test_every_mutant_dies_or_is_the_same_machine(nth):
    alive: list[str] = []
    families: set[str] = set()
    killers: set[str | None] = set()
    kinds = (
        mutants_of_rows,
        mutants_of_order,
        mutants_of_guards,
        mutants_of_effects,
        mutants_of_facts,
    )
    for mutant in islice(chain.from_iterable(kind() for kind in kinds), 0, None, nth):
        killer = killer_of(mutant)
        families.add(mutant.family)
        killers.add(killer)
        if killer is None:
            alive.append(mutant.name)
    assert alive == [], "nobody notices these"
    if nth == 1:
        assert families == set(FAMILIES)
        assert len(killers) == 6, "one of the checks notices nothing any more"


@pytest.mark.full
@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
@given(
    testing.scripts_of_replies(),
    testing.policies(),
    chains(),
    strategies.turns(),
    testing.requests(),
    st.booleans(),
    st.lists(st.booleans(), max_size=3),
)
def test_what_is_ruled_out_of_facts_never_comes_about(
    script,
    policy,
    chain,
    turn,
    request,
    streams,
    opens,
):
    call = testing.run(
        policy, script, chain=chain, turn=turn, request=request, is_streaming=streams, opens=opens
    )
    for step in call.journal.steps:
        if step.event == "found_open":
            assert {*step.facts} <= {*WHERE_IT_IS_OPEN}
            continue
        if step.event == "ran_out":
            assert step.facts in ((), WHERE_IT_RUNS_OUT)
        assert [
            name for name in step.facts if step.event not in ONLY_WITH.get(name, CALL.events)
        ] == []
        assert [
            name
            for name, events in ALWAYS_WITH.items()
            if step.event in events and name not in step.facts
        ] == []
        left = call.position.limits[CALL.places["fallbacks"]] - step.spent.get("fallbacks", 0)
        left += step.target == "fallback"  # of which it took one
        assert _can_be(
            step.event, {**{name: name in step.facts for name in FACTS}, "fallbacks": left > 0}
        )
