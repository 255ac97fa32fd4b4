"""Break the shipped table in every small way, and see that somebody notices.

A mutant is the table with one thing broken: a row, a guard or an effect. It dies where the checker refuses it, or where
a call that runs on it does something else than `expectations.toml` says. A mutant that lives is one of three things: it
is equivalent and stands in `SURVIVORS` with the reason; or an expectation is missing; or the checker has a gap.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
import rungwise.fsm.call.ladder
from attrs import evolve, field, frozen
from rungwise.fsm.checker.explore import Refusal

import rungwise
from rungwise.fsm.call import ladder as ladder_module
from rungwise.fsm.call.table import CALL
from rungwise.fsm.certificate.verify import check_table
from rungwise.fsm.checker.branches import dead_rows, ladders
from rungwise.fsm.checker.proof import prove_row
from rungwise.fsm.checker.structure import problems
from rungwise.fsm.errors import TableError
from rungwise.fsm.machine.table import Row, Table

_EXCLUDE_EACH_OTHER = "one guard asks for new text and the other for none, so at most one of them holds"
_NEVER_COUNTED = "a stale connection does not count as a failure that leaves a backend, so at most one of them holds"
_SAME_TWICE = "it writes the same word again, and nothing else"
SURVIVORS: Mapping[str, str] = {
    "interrupted[may_resume] and interrupted[may_retry] swapped": _EXCLUDE_EACH_OTHER,
    "failed_transiently[may_resend] and failed_transiently[must_switch] swapped": _NEVER_COUNTED,
    "keep_delivered runs twice": _SAME_TWICE,
    "keep_prior_answer runs twice": _SAME_TWICE,
}
"""The mutants that live, each with the reason why it is the same machine as the shipped one."""

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
    "guard negated",
    "part of a guard dropped",
    "and for or in a guard",
    "not left out of a guard",
    "one unit too many",
    "one unit too few",
    "effect does nothing",
    "effect runs twice",
    "effect counts down",
    "refill forgotten",
    "refill too many",
    "condition of an effect",
)
"""What is done to the table; written down, so that a change of its style cannot silently end a family."""

# What comes back, by the names that the expectations use

CIRCLES = "the same line again\n" * 40
CUT_CALL = (rungwise.ToolCall("1", "read", '{"pa'),)
SHOWN = "Shown so far. "


def _failure(reason: str, **fields: Any) -> rungwise.Failure:
    return rungwise.Failure(reason, **fields)


COMES_BACK: Mapping[str, rungwise.Reply | rungwise.Failure] = {
    "answer": rungwise.Reply("An answer.", stop_reason="stop"),
    "tools": rungwise.Reply(tool_calls=(rungwise.ToolCall("1", "read", '{"path": "x"}'),), stop_reason="tool_calls"),
    "empty": rungwise.Reply(stop_reason="stop"),
    "blank_tags": rungwise.Reply("<think>\n</think>", stop_reason="stop"),
    "thought": rungwise.Reply(reasoning="hm", stop_reason="stop"),
    "inline_thought": rungwise.Reply("<think>hm</think>", stop_reason="stop"),
    "cut": rungwise.Reply("Part {number}. ", stop_reason="length"),
    "cut_same": rungwise.Reply("Always the same part. ", stop_reason="length"),
    "cut_circles": rungwise.Reply(CIRCLES, stop_reason="length"),
    "cut_tools": rungwise.Reply(tool_calls=CUT_CALL, stop_reason="length"),
    "unparsable_tools": rungwise.Reply(tool_calls=CUT_CALL, stop_reason="tool_calls"),
    "cut_thought": rungwise.Reply(reasoning="hm", stop_reason="length"),
    "paused": rungwise.Reply("Part {number}. ", stop_reason="paused"),
    "paused_silent": rungwise.Reply(stop_reason="paused"),
    "paused_circles": rungwise.Reply(CIRCLES, stop_reason="paused"),
    "torn": rungwise.Reply("Part {number}. ", interrupted=True),
    "torn_bare": rungwise.Reply(interrupted=True),
    "torn_tools": rungwise.Reply(tool_calls=CUT_CALL, interrupted=True),
    "torn_circles": rungwise.Reply(CIRCLES, interrupted=True),
    "torn_by_500": rungwise.Reply("Part {number}. ", interrupted=True, failure=_failure("server_error")),
    "torn_by_401": rungwise.Reply(interrupted=True, failure=_failure("auth")),
    "odd_finish": rungwise.Reply("A text.", stop_reason="unknown", stop_raw="weird"),
    "no_shape": _failure("malformed"),
    "filtered": rungwise.Reply("A text.", stop_reason="content_filter"),
    "content_policy": _failure("content_policy"),
    "error_500": _failure("server_error", status=500),
    "wait_30": _failure("rate_limit", status=429, asked_wait=30.0),
    "wait_100": _failure("rate_limit", status=429, asked_wait=100.0),
    "wait_500": _failure("rate_limit", status=429, asked_wait=500.0),
    "overloaded": _failure("overloaded", status=529),
    "stale": _failure("connection", is_stale=True),
    "stale_wait_500": _failure("connection", is_stale=True, asked_wait=500.0),
    "torn_wait_30": rungwise.Reply(
        "Part {number}. ", interrupted=True, failure=_failure("rate_limit", asked_wait=30.0)
    ),
    "torn_wait_500": rungwise.Reply(
        "Part {number}. ", interrupted=True, failure=_failure("rate_limit", asked_wait=500.0)
    ),
    "torn_by_filter": rungwise.Reply("Part {number}. ", interrupted=True, failure=_failure("content_policy")),
    "cut_overrun": rungwise.Reply("Part {number}. ", stop_reason="length", usage=rungwise.Usage(5, 150)),
    "json": rungwise.Reply('{"a": 1}', stop_reason="stop"),
    "bad_temperature_wait_500": _failure("parameter_unsupported", parameter="temperature", asked_wait=500.0),
    "error_401": _failure("auth", status=401),
    "error_400": _failure("format", status=400),
    "bad_temperature": _failure("parameter_unsupported", parameter="temperature"),
    "bad_top_p": _failure("parameter_unsupported", parameter="top_p"),
    "bad_top_k": _failure("parameter_unsupported", parameter="top_k"),
    "bad_seed": _failure("parameter_unsupported", parameter="seed"),
    "named_cap": _failure("output_cap", available_tokens=1000),
    "overflow": _failure("context_overflow"),
    "overflow_reply": rungwise.Reply("A text.", stop_reason="overflow"),
}

PLAIN = rungwise.Request("hi")
AFTER_A_TOOL = rungwise.Request(
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
    second_is_unusable: bool = False
    tool_result: bool = False
    prior_answer: str | None = None
    compactor: bool = False
    limits: Mapping[str, int] = field(factory=dict)
    attempts: int = 24
    seconds: float | None = None
    output_tokens: int | None = None
    max_tokens: int | None = None
    json: bool = False
    fallback_expects_json: bool = False
    skip_identical_empties: bool = False
    policy: rungwise.Policy = field(init=False)

    @policy.default
    def _policy(self) -> rungwise.Policy:
        return rungwise.Policy(
            limits=rungwise.Limits(**self.limits),
            budget=rungwise.Budget(attempts=self.attempts, seconds=self.seconds, output_tokens=self.output_tokens),
            skip_identical_empties=self.skip_identical_empties,
        )

    @property
    def chain(self) -> list[rungwise.PlainLink]:
        problem = "no key" if self.second_is_unusable else None
        return [
            rungwise.PlainLink(
                f"backend {n}",
                problem=problem if n == 1 else None,
                expects_json=self.json or (bool(n) and self.fallback_expects_json),
            )
            for n in range(self.backends)
        ]

    @property
    def turn(self) -> rungwise.TurnContext:
        if self.prior_answer is None:
            return rungwise.TurnContext()
        return rungwise.TurnContext("A prior answer.", only_housekeeping=self.prior_answer == "housekeeping")

    def start(self, table: Table) -> rungwise.Call:
        policy = copy.copy(self.policy)
        object.__setattr__(policy, "table", table)  # past the constructor: a mutant shall run, not be refused
        request = evolve(AFTER_A_TOOL if self.tool_result else PLAIN, max_tokens=self.max_tokens)
        return rungwise.Call(request, policy, self.chain, self.turn, has_compactor=self.compactor)


_FILE = Path(__file__).with_name("expectations.toml")
EXPECTATIONS = tuple(Expectation(**entry) for entry in tomllib.loads(_FILE.read_text(encoding="utf-8"))["expect"])


def play(expectation: Expectation, table: Table) -> rungwise.Call:
    """Run a call over what is given, until it ends or is surely longer than expected."""
    call = expectation.start(table)
    call.begin(0.0)
    for number in range(len(expectation.path) + 1):
        if call.is_over:
            break
        give(call, expectation.given[min(number, len(expectation.given) - 1)], number)
    return call


def give(call: rungwise.Call, name: str, number: int) -> None:
    """Let one thing happen to a call; `number` tells parts of a text from each other."""
    if name == "late":
        call.sending(LATE)
        return
    if name == "cancel":
        call.cancel()
        return
    if call.position.state == "compact":
        call.compacted(call.request.messages)
    if name == "cancel_in_flight":
        call.sending()
        call.cancel()
        return
    shown, _, name = name.rpartition(" ")
    if shown:
        call.hear(rungwise.Text(SHOWN))
    what = COMES_BACK[name]
    if isinstance(what, rungwise.Reply) and "{number}" in what.text:
        what = evolve(what, text=what.text.format(number=number))
    call.receive(what)


def difference(expectation: Expectation, table: Table) -> str | None:
    """Say how a call on this table differs from what is expected; None if it does not."""
    try:
        call = play(expectation, table)
    except Exception as error:  # whatever it is, a caller would meet it
        return f"raises {type(error).__name__}: {error}"
    steps = [step for step in call.journal.steps if step.event != "skipped" and step.target != table.hub]
    path = [(table.start, None), *((step.target, step.guard) for step in steps)]
    wanted = [(state, guard or None) for state, _, guard in (each.partition(" by ") for each in expectation.path)]
    if [state for state, _ in path] != [state for state, _ in wanted]:
        return f"went {[state for state, _ in path]}"
    for (state, guard), (_, decides) in zip(path, wanted, strict=True):
        if decides is not None and guard != decides:
            return f"{guard} decided for {state}, not {decides}"
    spent = {name: count for name, count in zip(call.position.counters, call.position.spent, strict=True) if count}
    if spent != expectation.spent:
        return f"spent {spent}"
    if call.position.kept != expectation.kept:
        return f"kept {call.position.kept}"
    sends = len(wanted) - 1 if expectation.sends is None else expectation.sends
    return None if call.result.attempts == sends else f"sent {call.result.attempts}"


@cache
def rows_taken(expectation: Expectation) -> tuple[Row, ...]:
    by_step = {(row.event, row.source, row.guard): row for row in CALL.rows}
    steps = play(expectation, CALL).journal.steps
    return tuple(by_step[step.event, step.source, step.guard] for step in steps if step.event != "skipped")


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
        breaks: the rows of the shipped table that it is about; the expectations that take them are looked at first.
        changed: the rows of the broken table that mean something else than before, so that their proof may fail.
    """

    family: str
    name: str
    table: Table
    breaks: tuple[Row, ...]
    changed: tuple[Row, ...]


FACTS = names_of(Ladder, FACT)
GUARDS = (*FACTS, *(name for name, value in vars(Ladder).items() if isinstance(value, property)))
GUARDS_USED = tuple(dict.fromkeys(row.guard for row in CALL.rows if row.guard))
EFFECTS = tuple(dict.fromkeys(row.effect for row in CALL.rows if row.effect))
COUNTERS = names_of(Ladder, COUNTER)


def label(row: Row) -> str:
    """Name a row shortly: in the hub by its event and guard, elsewhere by its event and state."""
    return f"{row.event}[{row.guard or 'else'}]" if row.source == CALL.hub else f"{row.event}@{row.source}"


def mutants_of_rows() -> Iterator[Mutant]:
    for index, row in enumerate(CALL.rows):
        yield _with_rows("row dropped", f"{label(row)} dropped", index, row)
        for state in CALL.states:
            if state != row.target:
                yield _with_rows("another target", f"{label(row)} -> {state}", index, row, evolve(row, target=state))
        for guard in (None, *GUARDS):
            if guard != row.guard:
                family = "another guard" if guard else "guard removed"
                yield _with_rows(family, f"{label(row)} by {guard}", index, row, evolve(row, guard=guard))
        for effect in (None, *EFFECTS):
            if effect != row.effect:
                family = "another effect" if effect else "effect removed"
                yield _with_rows(family, f"{label(row)} / {effect}", index, row, evolve(row, effect=effect))


def _with_rows(family: str, name: str, index: int, old: Row, *new: Row) -> Mutant:
    rows = (*CALL.rows[:index], *new, *CALL.rows[index + 1 :])
    return Mutant(family, name, evolve(CALL, rows=rows), (old,), new)


def mutants_of_order() -> Iterator[Mutant]:
    for event, source in ladders(CALL):
        ladder = CALL.ladder(event, source)
        for upper, lower in pairwise(ladder):
            turned = {upper: lower, lower: upper}
            table = evolve(CALL, rows=tuple(turned.get(row, row) for row in CALL.rows))
            yield Mutant("neighbours swapped", f"{label(upper)} and {label(lower)} swapped", table, (upper, lower), ())


def mutants_of_guards() -> Iterator[Mutant]:
    for guard in GUARDS_USED:
        for source, family in _expressions_like(_expression_of(guard)).items():
            code: Callable[[Any], Any] = eval(f"lambda self: {source}", dict(vars(ladder_module)))
            # A fact is a field, and the checker reads fields past the class; so its rows get a guard of another name.
            name = f"broken_{guard}" if guard in FACTS else guard
            rows = tuple(evolve(row, guard=name) if row.guard == guard else row for row in CALL.rows)
            table = evolve(CALL, rows=rows, model=_model(name, property(code)))
            breaks = tuple(row for row in CALL.rows if row.guard == guard)
            yield Mutant(family, f"{guard} is {source}", table, breaks, rows)


def _model(name: str, value: object) -> type[Ladder]:
    return type(f"Ladder{name}", (Ladder,), {"__slots__": (), name: value})


def _tree_of(function: Callable[..., Any]) -> ast.FunctionDef:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _expression_of(guard: str) -> ast.expr:
    if guard in FACTS:
        return ast.parse(f"self.{guard}", mode="eval").body
    (*_, last) = _tree_of(vars(Ladder)[guard].fget).body
    assert isinstance(last, ast.Return), f"{guard} is no longer one expression: teach this test to break it"
    assert last.value is not None
    return last.value


def _replaced(tree: Any, at: ast.AST, change: Callable[[Any], ast.AST]) -> Any:
    """Return a copy of a tree in which one node is another."""
    copies: dict[int, Any] = {}
    fresh = copy.deepcopy(tree, copies)
    old = copies[id(at)]

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return change(node) if node is old else self.generic_visit(node)

    return ast.fix_missing_locations(Replace().visit(fresh))


def _expressions_like(tree: ast.expr) -> dict[str, str]:
    """Return what a guard could be by mistake, each with its family."""
    whole = ast.unparse(tree)
    found = {"True": "guard always true", "False": "guard always false", f"not ({whole})": "guard negated"}
    for node in ast.walk(tree):
        for family, change in _mistakes_at(node):
            found.setdefault(ast.unparse(_replaced(tree, node, change)), family)
    found.pop(whole, None)
    return found


def _mistakes_at(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], ast.AST]]]:
    if isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            yield "part of a guard dropped", partial(_without, index=index)
        yield "and for or in a guard", _with_other_operator
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not left out of a guard", lambda old: old.operand
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt):
        yield "one unit too many", lambda old: ast.Compare(old.left, [ast.LtE()], old.comparators)
        yield "one unit too few", _with_one_more


def _without(old: ast.BoolOp, index: int) -> ast.expr:
    left = old.values[:index] + old.values[index + 1 :]
    return left[0] if len(left) == 1 else ast.BoolOp(old.op, left)


def _with_other_operator(old: ast.BoolOp) -> ast.expr:
    return ast.BoolOp(ast.And() if isinstance(old.op, ast.Or) else ast.Or(), old.values)


def _with_one_more(old: ast.Compare) -> ast.expr:
    return ast.Compare(ast.BinOp(old.left, ast.Add(), ast.Constant(1)), old.ops, old.comparators)


def mutants_of_effects() -> Iterator[Mutant]:
    for effect in EFFECTS:
        breaks = tuple(row for row in CALL.rows if row.effect == effect)
        for family, name, code in _effects_like(effect):
            table = evolve(CALL, model=_model(effect, code))
            yield Mutant(family, f"{effect} {name}", table, breaks, CALL.rows)


def _effects_like(effect: str) -> Iterator[tuple[str, str, Callable[[Any], None]]]:
    real: Callable[[Any], None] = getattr(Ladder, effect)
    yield "effect does nothing", "does nothing", lambda self: None
    yield "effect runs twice", "runs twice", _twice(real)
    refilled = _refills_of(effect)
    for counter in COUNTERS:
        if counter in refilled:
            yield "refill forgotten", f"does not refill {counter}", _keeping(real, counter)
        else:
            yield "refill too many", f"refills {counter}", _refilling(real, counter)
    tree = _tree_of(real)
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            yield "effect counts down", "counts down", _compiled(_replaced(tree, node, _counting_down))
        elif isinstance(node, ast.If):
            for test in ("True", "False", f"not ({ast.unparse(node.test)})"):
                broken = _replaced(tree, node, partial(_with_test, test=test))
                yield "condition of an effect", f"if {test}", _compiled(broken)


def _counting_down(old: ast.AugAssign) -> ast.stmt:
    return ast.AugAssign(old.target, ast.Sub(), old.value)


def _with_test(old: ast.If, test: str) -> ast.stmt:
    return ast.If(ast.parse(test, mode="eval").body, old.body, old.orelse)


def _refills_of(effect: str) -> set[str]:
    used: Any = Ladder(rungwise.Limits())
    for counter in COUNTERS:
        setattr(used, counter, 5)
    for fact in FACTS:
        setattr(used, fact, True)
    getattr(used, effect)()
    return {counter for counter in COUNTERS if getattr(used, counter) == 0}


def _twice(real: Callable[[Any], None]) -> Callable[[Any], None]:
    def effect(self: Any) -> None:
        real(self)
        real(self)

    return effect


def _keeping(real: Callable[[Any], None], counter: str) -> Callable[[Any], None]:
    def effect(self: Any) -> None:
        before = getattr(self, counter)
        real(self)
        setattr(self, counter, before)

    return effect


def _refilling(real: Callable[[Any], None], counter: str) -> Callable[[Any], None]:
    def effect(self: Any) -> None:
        real(self)
        setattr(self, counter, 0)

    return effect


def _compiled(tree: ast.FunctionDef) -> Callable[[Any], None]:
    made: dict[str, Any] = {}
    exec(compile(ast.Module([tree], []), "<mutant>", "exec"), dict(vars(ladder_module)), made)
    effect: Callable[[Any], None] = made[tree.name]
    return effect


# What kills them


def killer_of(mutant: Mutant) -> str | None:
    """Name what notices a mutant, the cheapest first; None if it lives."""
    try:
        if problems(mutant.table):
            return "shape"
        if any(prove_row(mutant.table, row).verdict == "refused" for row in mutant.changed):
            return "proof"
        touched = {ladder_of(row) for row in (*mutant.breaks, *mutant.changed)}
        rows = tuple(row for row in mutant.table.rows if ladder_of(row) in touched)
        if dead_rows(evolve(mutant.table, rows=rows)):
            return "dead row"
        if any(difference(each, mutant.table) for each in expectations_about(mutant.breaks, frozenset(touched))):
            return "expectation"
        check_table(mutant.table)  # it makes the checks above once more, so what is new in it is the walk
    except (TableError, Refusal):
        return "walk"
    return None


@cache
def expectations_about(rows: tuple[Row, ...], touched: frozenset[tuple[str, str]]) -> tuple[Expectation, ...]:
    """Return the expectations that can tell, the likeliest and shortest first.

    One that fires no event of a broken ladder goes its way as before.
    """
    able = [each for each in EXPECTATIONS if any(ladder_of(row) in touched for row in rows_taken(each))]
    return tuple(sorted(able, key=lambda each: (not set(rows) & set(rows_taken(each)), len(rows_taken(each)))))


def test_every_mutant_dies_or_is_known_to_be_equivalent():
    alive: list[str] = []
    families: Counter[str] = Counter()
    for mutant in chain(mutants_of_rows(), mutants_of_order(), mutants_of_guards(), mutants_of_effects()):
        families[mutant.family] += 1
        if killer_of(mutant) is None:
            alive.append(mutant.name)
    assert {name for name in alive if name not in SURVIVORS} == set(), "nobody notices these"
    assert {name for name in SURVIVORS if name not in alive} == set(), "these die, or are no mutants any more"
    assert len(alive) == len(SURVIVORS), "two mutants have one name"
    assert set(families) == set(FAMILIES)
