"""The fuzz kit for turns: what it generates, that honest turns pass, and that each thing it asserts
can fail.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, given, seed, settings

import rungwise
from rungwise import (
    Budget,
    ConfigurationError,
    Limits,
    Message,
    Policy,
    Tool,
    Toolbox,
    ToolCall,
    TurnPolicy,
    Usage,
    testing,
    verify,
)
from rungwise.core import TURN, Call, Failure, MakeCall, Reply, Request, Turn
from rungwise.fsm.call.run import judging
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.testing.checks import honesty, path, privacy, success
from rungwise.fsm.testing.checks import turn_tools as tools
from rungwise.fsm.testing.checks import turn_transcript as transcript
from rungwise.fsm.testing.checks import turns as ends
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.testing.compactors import TurnCompactor
from rungwise.fsm.testing.coverage import Coverage
from rungwise.fsm.testing.turn_player import ENDS
from rungwise.fsm.testing.turn_script import Stop, ToolPlay, write_turn_script
from rungwise.fsm.turn import caller, compaction, tool_round
from rungwise.fsm.turn.conversation import Conversation
from rungwise.fsm.turn.turn_journal import TurnRecorder
from support import turns
from support.sampling import examples
from support.turns import OVERFLOW, cut, said

pytestmark = pytest.mark.sampled(1)  # what tests others is tested itself

TEXT = "Herons nest in the reeds by the lake."
calling = partial(turns.calling, arguments='{"path": "x"}')
ONCE = TurnPolicy(
    auto_continues=1,
    call=Policy(
        limits=Limits(
            continuations=0,
            retries=0,
            reasks=0,
            nudges=0,
        )
    ),
)
SMALL = evolve(ONCE, auto_continues=3)
SILENT = (HealthCheck.too_slow, HealthCheck.data_too_large)


def script(*replies: Reply | Failure, **fields: Any) -> testing.TurnScript:
    return testing.TurnScript(replies, **fields)


EMPTY = said("")
NOTED = script(calling("note", text=TEXT), calling("look_up"), EMPTY)
LOOKED = script(calling("look_up", "write", text="I look, and then I write."), said(TEXT))
SUMMED_UP = script(calling("look_up"), calling("look_up"), said(TEXT))
CUT = script(cut("Herons nest in "), said("the reeds."))
HANDED = script(calling("look_up", "ask_user"))
SHORTENED = script(OVERFLOW, said(TEXT), asked="a turn of ours", compactor=TurnCompactor())
HUGE = script(calling("look_up"), said(TEXT), tools=[ToolPlay("returns much text")])
MANY = script(calling(*["look_up"] * 4))
PLAYS = {
    "noted": (SMALL, NOTED),
    "noted, streamed": (SMALL, evolve(NOTED, streams=True)),
    "looked": (SMALL, LOOKED),
    "summed up": (ONCE, SUMMED_UP),
    "cut": (SMALL, CUT),
    "handed": (SMALL, HANDED),
    "shortened": (SMALL, SHORTENED),
    "huge": (evolve(SMALL, window=2_000), HUGE),
    "many": (evolve(SMALL, calls_per_reply=2), MANY),
    "nameless": (SMALL, script(calling("", text=TEXT))),
    "waiting": (SMALL, script(calling("look_up", "send"))),
    "cancelled": (SMALL, evolve(LOOKED, stop=Stop("cancel", 5))),
    "killed": (SMALL, evolve(LOOKED, stop=Stop("kill", 5))),
    "cancelled at once": (SMALL, evolve(LOOKED, stop=Stop("cancel", 0))),
    "late": (
        evolve(SMALL, budget=Budget(seconds=10)),
        script(calling("look_up"), calling("note", "look_up"), latency=6.0),
    ),
    "streamed": (SMALL, evolve(CUT, streams=True, contents=True)),
    "over budget": (evolve(SMALL, budget=Budget(attempts=1)), LOOKED),
}


@pytest.mark.parametrize("name", PLAYS)
def test_honest_turns_pass(name: str) -> None:
    policy, played = PLAYS[name]
    run = testing.run_turn(policy, played, chain=2)
    testing.assert_turn_honest(run, secrets=["sk-5e884898"])
    assert run.turn.is_over is (name != "killed")


# what breaks, and how it is told


Planted = tuple[Callable[[pytest.MonkeyPatch], None], str, str]
PLANTED: dict[str, Planted] = {}


def planted(
    owner: Any,
    name: str,
    property: str,
    play: str,
) -> Callable[[Callable[..., Any]], None]:
    """Plant a fault: a function that does the work of another, which it is given first.

    Arguments:
        owner, name: the place of the other function.
        property: what breaks.
        play: the turn of which it does, by its name in `FAULTY`.
    """

    def declare(fault: Callable[..., Any]) -> None:
        def plant(patch: pytest.MonkeyPatch) -> None:
            whole = getattr(owner, name)
            whole = getattr(whole, "__func__", whole)

            def faulty(*given: Any, **options: Any) -> Any:
                return fault(whole, *given, **options)

            is_of_class = isinstance(vars(owner).get(name), classmethod)
            patch.setattr(owner, name, classmethod(faulty) if is_of_class else faulty)

        PLANTED[fault.__name__] = (plant, property, play)

    return declare


def _role(message: Any) -> str:
    return message.role if isinstance(message, Message) else str(message["role"])


@planted(Conversation, "completed", transcript.VALID, "looked")
def results_are_lost(whole: Any, *given: Any) -> Any:
    return [message for message in whole(*given) if _role(message) != "tool"]


@planted(Conversation, "completed", transcript.VALID, "looked")
def results_change_places(whole: Any, *given: Any) -> Any:
    return tuple(Message("tool", m.parts[::-1]) if _role(m) == "tool" else m for m in whole(*given))


@planted(Conversation, "add_tool_results", transcript.ANSWERED, "many")
def faults_pass_for_results(add: Any, self: Conversation, entries: Any) -> Any:
    return add(self, [each._replace(is_fault=False) for each in entries])


@planted(Conversation, "_add_answer", transcript.WHOLE, "looked")
def text_is_said_twice(add: Any, self: Conversation, result: Any) -> Any:
    return add(self, evolve(result, text=result.text * 2))


@planted(Conversation, "_add_answer", transcript.WHOLE, "looked")
def text_is_dropped(add: Any, self: Conversation, result: Any) -> None:
    self._show(result.text)


@planted(Conversation, "add_result", transcript.WHOLE, "cut")
def cut_text_is_forgotten(
    add: Any,
    self: Conversation,
    result: Any,
    event: str,
    **options: Any,
) -> None:
    before = self.gathered
    add(self, result, event, **options)
    if event in ("truncated", "overflowed"):
        self.gathered = before


@planted(Conversation, "_show", transcript.LAST, "looked")
def nothing_is_shown(show: Any, self: Conversation, text: str) -> None: ...


@planted(caller, "request_of", transcript.CLEAN, "summed up")
def the_hint_stays(
    request: Any, state: str, first: Request, conversation: Conversation, *more: Any, **by: Any
) -> Any:
    made = request(state, first, conversation, *more, **by)
    conversation.messages = made.messages
    return made


@planted(caller, "request_of", ends.LIMITED, "summed up")
def summaries_may_call_tools(
    request: Any, state: str, first: Request, *others: Any, **options: Any
) -> Any:
    return evolve(request(state, first, *others, **options), tools=first.tools)


@planted(Run, "at_start", path.LEGAL, "summed up")
def one_call_more(
    at_start: Any,
    cls: Any,
    table: Any,
    limits: Any,
) -> Any:
    return at_start(cls, table, {**limits, "auto_continues": 9} if table is TURN else limits)


@planted(caller.TurnCaller, "_call", ends.BUDGET, "over budget")
def budgets_are_not_shared(
    call: Any, self: caller.TurnCaller, request: Request, *more: Any
) -> Call:
    return Call(request, self.policy.of_calls, self.chain)


@planted(caller.TurnCaller, "remember_answer", tools.PRIOR, "noted")
def answers_are_remembered_for_ever(remember: Any, self: caller.TurnCaller, round: Any) -> None:
    self.prior_answer = (self.last and self.last.text) or self.prior_answer


@planted(Turn, "_settle_call", ends.SUMMED, "looked")
def nothing_is_paid(settle: Any, self: Turn, result: Any) -> Any:
    return settle(self, evolve(result, usage=Usage()))


@planted(tool_round, "shortened", tools.SHORTENED, "huge")
def results_have_any_length(shorten: Any, texts: Any, tokens: int) -> Any:
    return tuple(texts)


@planted(tool_round.ToolRound, "of", tools.ALLOWED, "many")
def as_many_run_as_are_called(
    of: Any, cls: Any, calls: Any, tools: Any, policy: TurnPolicy, *more: Any
) -> Any:
    return of(cls, calls, tools, evolve(policy, calls_per_reply=99), *more)


@planted(tool_round.ToolRound, "handed_off", tools.HANDED, "looked")
def every_tool_hands_off(
    handed_off: Any,
    self: tool_round.ToolRound,
    tools: Any,
    conversation: Any,
) -> Any:
    return self.calls


@planted(Tool, "waits_for_approval", tools.ALLOWED, "waiting")
def nobody_is_asked(waits: Any, self: Tool, arguments: Any) -> bool:
    return False


@planted(tool_round.ToolRound, "of", tools.HANDED, "waiting")
def what_waits_is_forgotten(of: Any, cls: Any, *given: Any) -> Any:
    return Forgetful(*attrs.astuple(of(cls, *given), recurse=False))


class Forgetful(tool_round.ToolRound):
    waiting: Any = ()


@planted(judging, "_of_calls", success.WHOLE_TOOLS, "cut call")
def wrong_calls_are_run(of_calls: Any, *given: Any) -> Any:
    return judging.RIGHT


@planted(compaction, "problems_of", transcript.VALID, "parted")
def compactors_may_do_anything(
    problems_of: Any, messages: Any, callers: Any = ()
) -> tuple[str, ...]:
    return ()


@planted(TurnRecorder, "record", privacy.PRIVATE, "looked")
def journals_tell_everything(
    record: Any, self: TurnRecorder, *about: Any, note: Any = None, **besides: Any
) -> None:
    record(self, *about, note=TEXT, **besides)


@planted(Turn, "_end", path.LEGAL, "looked")
def journals_lose_calls(end: Any, self: Turn, *given: Any) -> None:
    end(self, *given)
    self.journal.calls.pop()


@planted(Turn, "_end", ENDS, "looked")
def journals_know_no_end(end: Any, self: Turn, *given: Any) -> None:
    end(self, *given)
    self.journal.outcome = None


PARTS = TurnCompactor("keeps the last message")
FAULTY = {
    **PLAYS,
    "cut call": (SMALL, script(calling("look_up", arguments="[1]"), said(TEXT))),
    "parted": (
        SMALL,
        script(
            calling("look_up", arguments='{"path": "' + "x" * 3000 + '"}'),
            OVERFLOW,
            compactor=PARTS,
        ),
    ),
}


@pytest.mark.parametrize(("plant", "property", "name"), PLANTED.values(), ids=PLANTED)
def test_each_assertion_can_fail(
    plant: Any,
    property: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    policy, played = FAULTY[name]
    with pytest.raises(testing.Dishonest) as caught:
        testing.assert_turn_honest(testing.run_turn(policy, played))
    assert caught.value.property == property
    assert str(caught.value).startswith(f"{property}: ")


def test_what_was_proved_of_something_else_is_refused() -> None:
    run = testing.run_turn(SMALL, LOOKED)
    with pytest.raises(testing.Dishonest, match="is for the table 'call'") as caught:
        testing.assert_turn_honest(run, certificate=verify())
    assert caught.value.property == ends.CERTIFIED
    proved = evolve(verify(), table="turn")
    testing.assert_turn_honest(run, certificate=proved)
    few = evolve(
        proved, worst=[evolve(each, value=1.0) for each in proved.worst if each.name == "attempts"]
    )
    with pytest.raises(testing.Dishonest, match="2 attempts, and at worst there are 1"):
        testing.assert_turn_honest(run, certificate=few)


def test_a_cut_call_that_is_run_all_the_same_is_found() -> None:
    with pytest.raises(testing.Dishonest, match="no JSON") as caught:
        tools._check_whole("look_up", '{"pa')
    assert caught.value.property == tools.WHOLE_CALLS


def test_a_turn_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: Turn, result: Any, now: float) -> Any:
        return MakeCall(Call(Request("again")))

    monkeypatch.setattr(Turn, "called", again)

    with pytest.raises(testing.Dishonest, match="moments"):
        testing.run_turn(SMALL, LOOKED)


PROPERTIES = {
    ENDS,
    ends.LIMITED,
    ends.SUMMED,
    ends.BUDGET,
    ends.CERTIFIED,
    tools.WHOLE_CALLS,
    tools.ALLOWED,
    tools.SHORTENED,
    tools.HANDED,
    tools.PRIOR,
    transcript.VALID,
    transcript.CLEAN,
    transcript.WHOLE,
    transcript.ANSWERED,
    transcript.LAST,
}
"""What must hold for every turn, in words, besides what holds for its calls and steps."""


def test_every_property_was_broken() -> None:
    broken = {property for _, property, _ in PLANTED.values()} | {ends.CERTIFIED, tools.WHOLE_CALLS}
    assert broken >= PROPERTIES


def test_a_secret_is_found() -> None:
    with pytest.raises(testing.Dishonest, match="secret"):
        testing.assert_turn_honest(testing.run_turn(SMALL, LOOKED), secrets=["backend-1"])


# what is generated

MOST_BATCHES = 120
UNREACHED = {
    # A turn asks for something as soon as it is in a rung, so the caller finds it in one only
    # before it begins.
    *(
        (event, state)
        for event in ("cancelled",)
        for state in ("use_tools", "go_on", "compact", "summarize")
    ),
    # Calls find out for themselves that the budget is spent.
    *(("ran_out", state) for state in ("ask", "go_on", "summarize")),
}
"""The events that no turn meets in these states."""


def rows() -> Iterator[Any]:
    """Yield the rows that a turn can take; one that cannot go on asks for no compaction, so it
    never has one.
    """
    for row in TURN.rows:
        if (row.event, row.source) not in UNREACHED and (row.event, row.target) != (
            "compacted",
            "limit_reached",
        ):
            yield row


def fuzz(examples: int, start: int, coverage: Coverage | None = None, **options: Any) -> None:
    @seed(start)
    @settings(
        max_examples=examples, database=None, phases=[Phase.generate], suppress_health_check=SILENT
    )
    @given(testing.scripts_of_turns(), testing.turn_policies())
    def attempt(played: testing.TurnScript, policy: TurnPolicy) -> None:
        seen = SeenTurn(testing.run_turn(policy, played, chain=2))
        honesty.check_turn(seen)
        if coverage is not None:
            honesty.record_turn(coverage, seen)

    attempt()


@pytest.mark.full
def test_random_turns_are_honest() -> None:
    fuzz(100, 1)


REFUSED = Failure("content_policy")
STRICT = evolve(ONCE, call=evolve(ONCE.of_calls, after_refusal="end"))
SELDOM = [
    (STRICT, script(calling("look_up"), calling("look_up"), REFUSED)),
    (STRICT, script(calling("look_up", text=TEXT), calling("look_up"), REFUSED)),
    (evolve(SMALL, budget=Budget(seconds=6)), evolve(SHORTENED, latency=6.0)),
]
"""Turns by hand, for rows that thousands of random ones do not take."""


@pytest.mark.slowest
@pytest.mark.soak
def test_every_row_is_taken_by_random_turns_and_all_are_honest() -> None:
    coverage = Coverage()
    for policy, played in SELDOM:
        seen = SeenTurn(testing.run_turn(policy, played, chain=1))
        honesty.check_turn(seen)
        honesty.record_turn(coverage, seen)
    for start in range(MOST_BATCHES):
        fuzz(100, start, coverage)
        missing = [str(row) for row in rows() if row not in coverage.rows]
        if not missing and coverage.paths >= 1_000:
            break
    assert missing == []


@settings(max_examples=examples(100), suppress_health_check=SILENT)
@given(testing.scripts_of_turns())
def test_every_script_can_be_written_and_read(played: testing.TurnScript) -> None:
    assert testing.read_turn_script(write_turn_script(played)) == played


@pytest.mark.parametrize(
    "text",
    [
        "",
        "replies = 5",
        "[[replies]]\ntext = 5",
        "[[replies]]\nno = 1",
        "[[replies]]\n[[tools]]\nway = 'x'",
        "=",
    ],
)
def test_a_script_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        testing.read_turn_script(text)


@pytest.mark.full
def test_the_tools_of_a_script_are_the_callers_own() -> None:
    box = Toolbox.of({"heron": lambda path: None})
    names = set()

    @settings(
        max_examples=30,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=SILENT,
    )
    @given(testing.scripts_of_turns(tools=box, stops=False))
    def collect(played: testing.TurnScript) -> None:
        run = testing.run_turn(SMALL, played, tools=box)
        testing.assert_turn_honest(run)
        names.update(each.call.name for round in run.rounds for each in round.runs)

    collect()
    assert names == {"heron"}


# several turns at once

Several = testing.turns_of(
    TurnPolicy(call=Policy(limits=Limits(retries=1, reasks=1)), budget=Budget(attempts=20))
)
TestSeveral = Several.TestCase
TestSeveral.settings = settings(
    max_examples=8, stateful_step_count=20, suppress_health_check=SILENT
)
Tight = testing.turns_of(
    TurnPolicy(auto_continues=4), shared=Budget(attempts=5, output_tokens=3_000, seconds=100)
)
TestTight = pytest.mark.full(Tight.TestCase)
TestTight.settings = settings(max_examples=8, stateful_step_count=20, suppress_health_check=SILENT)


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": Policy()},
        {"policy": TurnPolicy(), "most": 0},
        {"policy": TurnPolicy(), "shared": 5},
        {"policy": TurnPolicy(budget=Budget(money=1.0))},
    ],
)
def test_what_makes_no_stateful_test_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        testing.turns_of(wrong.pop("policy"), **wrong)


def test_turns_that_pass_their_shared_budget_are_found() -> None:
    machine = testing.turns_of(SMALL, shared=Budget(attempts=1))()
    machine.shared = Budget(attempts=1)
    machine.within = rungwise.SharedBudget(Budget(attempts=9))
    machine.begin(LOOKED)

    def go_on() -> None:
        for _ in range(9):
            machine.go_on(0, 1)
            machine.the_budget_is_never_passed()

    with pytest.raises(testing.Dishonest, match="1 attempts"):
        go_on()


@pytest.mark.parametrize("way", ["does nothing", "leaves out the oldest", "keeps the second half"])
def test_messages_that_a_compactor_leaves_alone_are_the_originals(way: str) -> None:
    looked = Reply(
        tool_calls=(ToolCall("call_1", "look_up", "{}"), ToolCall("call_2", "look_up", "{}")),
        stop_reason="tool_calls",
    )
    replies = (looked, looked, Failure("context_overflow"), Reply("An answer.", stop_reason="stop"))
    run = testing.run_turn(
        SMALL, testing.TurnScript(replies, asked="after tools", compactor=TurnCompactor(way))
    )
    assert any(step.event in ("compacted", "stayed_long") for step in run.turn.journal.steps)
    assert any(isinstance(each, Message) for each in run.seen[-1])
    testing.assert_turn_honest(run)
