"""The turn, played by hand: what it asks for, what it says of itself, and what it leaves behind."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from attrs import define, field

import rungwise
from rungwise import (
    Budget,
    ConfigurationError,
    Limits,
    Policy,
    Tool,
    ToolCall,
    TurnFailed,
    TurnPolicy,
    replay,
)
from rungwise.core import (
    Call,
    Failure,
    IllegalEvent,
    PlainLink,
    Reply,
    Request,
    Send,
    ToolRun,
    Turn,
)
from rungwise.fsm.turn.actions import Compact, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.turn.validity import problems_of
from support.tables import OTHERS_OFF
from support.turns import OVERFLOW, USAGE, cut, said
from support.turns import calling as calls

TEXT = "Herons nest in the reeds by the lake"


def look() -> str:
    return "three herons"


def breaks() -> str:
    raise OSError("the lake is closed")


TOOLS: dict[str, Any] = {
    "look": look,
    "breaks": breaks,
    "note": Tool(look, housekeeping=True),
}


@define
class Played:
    turn: Turn
    sent: list[Send] = field(factory=list)
    ran: list[list[str]] = field(factory=list)
    rooms: list[int] = field(factory=list)

    @property
    def events(self) -> list[str]:
        return [step.event for step in self.turn.journal.steps if step.event != "sent"]

    @property
    def result(self) -> rungwise.TurnResult:
        return self.turn.result


def play(
    *replies: Reply | Failure,
    policy: TurnPolicy | None = None,
    messages: Any = "Where do herons nest?",
    compactor: Callable[[Sequence[Any]], Any] | None = None,
    **options: Any,
) -> Played:
    request = messages if isinstance(messages, Request) else Request(messages)
    turn = Turn(
        request, policy or TurnPolicy(), tools=TOOLS, has_compactor=compactor is not None, **options
    )
    played = Played(turn)
    coming = iter(replies)
    action = turn.begin()
    while action is not None:
        assert not problems_of(turn.messages, callers=turn.messages)
        match action:
            case MakeCall(call):
                run_call(call, coming, played.sent)
                action = turn.called(call.result)
            case RunTools(runs):
                played.ran.append([run.call.name for run in runs])
                action = turn.tools_ran([run_tool(run) for run in runs])
            case Compact(given, room):
                played.rooms.append(room)
                try:
                    action = turn.compacted(compactor(given))
                except ValueError as error:
                    action = turn.compacted(error)
    assert turn.is_over
    assert not problems_of(turn.result.messages, callers=turn.result.messages)
    text = turn.journal.to_json()
    assert TurnJournal.from_json(text).to_json() == text
    return played


def run_call(call: Call, coming: Iterator[Reply | Failure], sent: list[Send]) -> None:
    send = call.begin()
    while send is not None:
        send = call.sending()
        if send is not None:
            sent.append(send)
            send = call.receive(next(coming))


def after_first_call(
    turn: Turn,
    reply: Reply | Failure,
    begins: float = 0.0,
    ends: float = 0.0,
) -> Any:
    """Begin a turn, make its first call, and return what the turn asks for next."""
    action = turn.begin(begins)
    run_call(action.call, iter([reply]), [])
    return turn.called(action.call.result, ends)


def run_tool(run: ToolRun) -> ToolOutcome:
    try:
        return ToolOutcome(run.tool.function(**run.arguments))
    except OSError as error:
        return ToolOutcome(fault=str(error))


def plain(played: Played) -> list[tuple[str, Any]]:
    return [(each["role"], each.get("content")) for each in played.result.plain_messages]


def test_a_summary_that_calls_tools_gets_none_and_ends_the_turn() -> None:
    played = play(
        calls("look"),
        calls("look", text="I must look."),
        policy=TurnPolicy(auto_continues=1, same_calls=1),
    )
    assert (played.result.outcome, played.result.text) == ("limit_reached", "I must look.")
    assert len(played.ran) == 1


LIMITS = Limits(**OTHERS_OFF, continuations=0, retries=0)
BROKEN_OFF = Reply("Herons nest in", interrupted=True, usage=USAGE)


@pytest.mark.parametrize(
    "reply", [OVERFLOW, cut(TEXT), Failure("auth"), Reply(stop_reason="content_filter"), BROKEN_OFF]
)
def test_whatever_becomes_of_the_summary_the_limit_was_reached(reply: Any) -> None:
    policy = TurnPolicy(
        auto_continues=1,
        same_calls=1,
        call=Policy(limits=LIMITS),
    )
    played = play(
        calls("look", text="I look."), reply, policy=policy, compactor=lambda messages: messages[:1]
    )
    assert played.result.outcome == "limit_reached"
    assert played.result.text
    assert not played.rooms


@pytest.mark.parametrize(
    "reply", [OVERFLOW, Failure("auth"), Reply(stop_reason="content_filter"), calls("look")]
)
def test_a_summary_that_leaves_the_turn_without_a_text_is_no_success(reply: Any) -> None:
    call = Policy(limits=Limits(**OTHERS_OFF))
    policy = TurnPolicy(auto_continues=1, same_calls=1, call=call)
    played = play(calls("look"), reply, policy=policy, compactor=lambda messages: messages[:1])
    assert (played.result.outcome, played.result.text) == ("failed", "")
    with pytest.raises(TurnFailed):
        played.result.raise_for_outcome()
    if isinstance(reply, Reply) and reply.tool_calls:
        assert "asked for a summary it called tools again" in str(played.result.cause)
    assert not played.rooms


def test_faults_in_a_row_end_the_turn_and_work_between_them_begins_anew() -> None:
    played = play(*[calls("nowhere")] * 3, said("I could not."))
    assert (played.result.outcome, played.result.calls) == ("limit_reached", 4)
    assert "3 rounds of tools in a row" in str(played.result.cause)
    assert played.ran == [[]] * 3
    bad = [calls("breaks", arguments=f'{{"x": {n}}}') for n in range(2)]
    mixed = play(
        *[calls("breaks")] * 2,
        calls("look"),
        *[calls("nowhere")] * 2,
        calls("breaks", "look"),
        *bad,
        said(TEXT),
    )
    assert mixed.result.outcome == "finished"


def test_a_reply_with_too_many_calls_ends_the_turn_without_a_summary() -> None:
    played = play(calls(*["look"] * 4), policy=TurnPolicy(calls_per_reply=3))
    assert (played.result.outcome, played.result.calls, played.ran) == (
        "limit_reached",
        1,
        [["look"] * 3],
    )
    assert [text for role, text in plain(played) if role == "tool"][3].startswith(
        "This call was not run"
    )


def test_continues_cut_text_into_one_answer() -> None:
    parts = [
        "Herons nest in reeds",
        " by the lake",
        " and in trees",
        " near water",
        " where it is quiet.",
    ]
    played = play(*map(cut, parts[:4]), said(parts[4]))
    assert (played.result.outcome, played.result.text) == ("finished", "".join(parts))
    assert (played.result.calls, len(played.sent)) == (2, 5)
    assert plain(played) == [("user", "Where do herons nest?"), ("assistant", "".join(parts))]


@pytest.mark.parametrize("ended", ["over_budget", "cancelled"])
def test_the_journal_of_a_call_that_never_went_on_tells_what_it_went_on_from(ended: str) -> None:
    call = Policy(limits=Limits(continuations=0))
    policy = TurnPolicy(call=call, budget=Budget(attempts=1 if ended == "over_budget" else 9))
    turn = Turn(Request("Where?"), policy, contents=True)
    action = after_first_call(turn, cut("Herons nest in"))
    action.call.begin()
    result = turn.called(action.call.result) if action.call.sending() is None else turn.cancel()
    assert turn.result.outcome == ended
    assert replay(action.call.journal).text == "Herons nest in", result


@pytest.mark.parametrize("request_", [Request("Where?", max_tokens=16), Request("Where?")])
def test_does_not_continue_hopeless_text(request_: Request) -> None:
    text = "one two three" if request_.max_tokens else "the same line again and again\n" * 40
    played = play(cut(text), messages=request_)
    assert (played.result.outcome, played.result.calls, played.result.text) == (
        "limit_reached",
        1,
        text,
    )


def test_an_answer_beside_housekeeping_replaces_an_empty_one() -> None:
    empty = Reply(stop_reason="stop", usage=USAGE)
    policy = TurnPolicy(call=Policy(limits=Limits(nudges=0, reasks=0)))
    forgot = play(calls("note", text=TEXT), calls("look"), empty, policy=policy)
    assert (forgot.result.outcome, forgot.result.last.outcome) == ("failed", "exhausted")
    kept = play(calls("note", text=TEXT), calls("note"), empty, policy=policy)
    assert (kept.result.outcome, kept.result.text) == ("finished", TEXT)
    # it is not said twice
    assert [role for role, _ in plain(kept)] == ["user", "assistant", "tool", "assistant", "tool"]


LONG = [{"role": "user", "content": "herons " * 500}, {"role": "user", "content": "Where?"}]


def test_a_compactor_may_sum_up_in_a_message_of_its_own() -> None:
    summed = {"role": "system", "content": "They asked for herons, at length."}
    played = play(
        OVERFLOW, said(TEXT), messages=LONG, compactor=lambda messages: [messages[1], summed]
    )
    assert played.result.outcome == "finished"
    assert played.sent[1].messages == (LONG[1], summed)


@pytest.mark.parametrize(
    "useless", [lambda messages: messages, lambda _: [], lambda _: 5, lambda _: "Herons."]
)
def test_a_compactor_that_does_not_help_ends_the_turn(useless: Any) -> None:
    played = play(OVERFLOW, messages=LONG, compactor=useless)
    assert (played.result.outcome, played.events) == ("failed", ["overflowed", "stayed_long"])
    assert "the compactor did not help" in str(played.result.cause)
    assert len(played.result.messages) == 2


def test_a_compactor_that_parts_a_call_from_its_result_is_no_help() -> None:
    long = calls("look", arguments=json.dumps({"words": "heron " * 500}))
    played = play(
        long, OVERFLOW, compactor=lambda messages: messages[-1:], policy=TurnPolicy(window=10**6)
    )
    assert (played.result.outcome, played.events[-1]) == ("failed", "stayed_long")
    assert "messages[0]: tool result 0 has no call right before it" in str(played.result.cause)
    assert [role for role, _ in plain(played)] == ["user", "assistant", "tool"]


def test_a_compactor_that_leaves_an_answer_to_follow_an_answer_is_no_help() -> None:
    ends = [LONG[1], {"role": "assistant", "content": "In short, they"}]
    played = play(OVERFLOW, messages=LONG, compactor=lambda messages: ends)
    assert "messages[2]: a second assistant's message in a row" in str(played.result.cause)


def test_what_the_caller_broke_a_compactor_may_leave_broken() -> None:
    orphan = {"role": "tool", "tool_call_id": "c9", "content": "three"}
    turn = Turn(Request([*LONG, orphan]), has_compactor=True)
    assert isinstance(after_first_call(turn, OVERFLOW), Compact)
    assert isinstance(turn.compacted([LONG[1], orphan]), MakeCall)


def test_the_conversation_is_shortened_three_times_at_most() -> None:
    long = [{"role": "user", "content": "heron " * 300} for _ in range(8)]
    played = play(*[OVERFLOW] * 4, messages=long, compactor=lambda messages: messages[1:])
    assert (played.result.outcome, len(played.rooms), played.result.calls) == ("failed", 3, 4)


def test_nothing_is_shortened_where_the_turn_could_not_go_on() -> None:
    played = play(
        OVERFLOW,
        messages=LONG,
        compactor=lambda messages: messages[1:],
        policy=TurnPolicy(auto_continues=0),
    )
    assert (played.result.outcome, played.rooms) == ("failed", [])


@pytest.mark.parametrize(
    ("reply", "event"),
    [
        (Reply(stop_reason="content_filter", usage=USAGE), "refused"),
        (Failure("auth", status=401), "call_failed"),
        (BROKEN_OFF, "interrupted"),
    ],
)
def test_a_call_that_fails_ends_the_turn_with_what_was_gathered(reply: Any, event: str) -> None:
    policy = TurnPolicy(call=Policy(limits=LIMITS))
    played = play(calls("look"), reply, policy=policy)
    assert (played.result.outcome, played.events[-1]) == ("failed", event)
    assert [role for role, _ in plain(played)][:3] == ["user", "assistant", "tool"]
    assert played.result.text == getattr(reply, "text", "")
    with pytest.raises(TurnFailed, match="failed after 2 calls"):
        played.result.raise_for_outcome()


def test_a_turn_that_has_not_begun_can_be_cancelled() -> None:
    turn = Turn(Request("hello"))
    assert turn.cancel(1.0).outcome == "cancelled"
    with pytest.raises(IllegalEvent):
        turn.begin()


def test_the_time_of_the_turn_ends_before_its_tools_begin() -> None:
    turn = Turn(Request("hello"), TurnPolicy(budget=Budget(seconds=10)), tools=TOOLS)
    assert after_first_call(turn, calls("look"), 100.0, 110.0) is None
    assert turn.result.outcome == "over_budget"
    assert "10 s" in str(turn.result.cause)
    assert not problems_of(turn.result.messages, callers=turn.result.messages)


def test_what_does_not_belong_is_refused_and_changes_nothing() -> None:
    turn = Turn(Request("hello"), tools=TOOLS)
    with pytest.raises(IllegalEvent):
        turn.tools_ran([])
    action = turn.begin()
    for wrong in (
        turn.begin,
        lambda: turn.tools_ran([]),
        lambda: turn.compacted([]),
        lambda: turn.result,
    ):
        with pytest.raises(IllegalEvent):
            wrong()
    with pytest.raises(ConfigurationError):
        turn.called("done")  # type: ignore[arg-type]
    other = Call(Request("hello"))
    other.cancel()
    with pytest.raises(ConfigurationError, match="that of the call"):
        turn.called(other.result)
    run_call(action.call, iter([calls("look", "look")]), [])
    action = turn.called(action.call.result)
    before = turn.journal.to_json()
    for outcomes in (
        [],
        [ToolOutcome("one")],
        ["one", "two"],
        [None, None],
        None,
        iter([ToolOutcome("one")] * 2),
    ):
        with pytest.raises(ConfigurationError):
            turn.tools_ran(outcomes)  # type: ignore[arg-type]
    assert turn.journal.to_json() == before
    assert isinstance(turn.tools_ran([ToolOutcome("one")] * 2), MakeCall)


def test_ids_and_names_that_cannot_be_sent_back_are_mended() -> None:
    twice = [
        ToolCall("same", "look", "{}"),
        ToolCall("same", "functions.look", "{}"),
        ToolCall("", "look", "{}"),
    ]
    played = play(Reply(tool_calls=twice, stop_reason="tool_calls", usage=USAGE), said(TEXT))
    made = Request(played.result.messages).messages[1].tool_calls
    assert [(call.id, call.name) for call in made] == [
        ("same", "look"),
        ("same_2", "functions_look"),
        ("call_2", "look"),
    ]
    known = [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c0", "function": {"name": "look", "arguments": "{}"}}],
        }
    ]
    known += [{"role": "tool", "tool_call_id": "c0", "content": "none"}]
    again = play(
        calls("look"),
        calls("look"),
        said(TEXT),
        messages=[{"role": "user", "content": "Where?"}, *known],
    )
    assert [message["parts"][0]["id"] for message in again.result.messages[3::2][:2]] == [
        "c0_2",
        "c0_3",
    ]


def test_parameters_that_mean_nothing_without_tools_stay_out_of_the_summary() -> None:
    class Shapes(rungwise.fsm.call.conversation.shapes.Shapes):
        tool_parameters = frozenset({"tool_choice"})

    class Link(PlainLink):
        shapes = Shapes()

    policy = TurnPolicy(auto_continues=1, same_calls=1)
    request = Request("hello", parameters={"tool_choice": "auto", "top_p": 1})
    played = play(
        calls("look"),
        said("Three."),
        policy=policy,
        messages=request,
        chain=[Link()],
    )
    assert [dict(send.request.parameters) for send in played.sent] == [
        {"tool_choice": "auto", "top_p": 1},
        {"top_p": 1},
    ]


def test_parameters_cannot_take_the_tools_away() -> None:
    with pytest.raises(ConfigurationError, match="'tools'"):
        Turn(Request("hello", parameters={"tools": []}), tools=TOOLS)


def interrupted_once(turn: Turn, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the first call of a turn, and interrupt the turn in one of its steps where it takes the
    result.
    """
    action = turn.begin()
    run_call(action.call, iter([said(TEXT)]), [])
    whole = getattr(Turn, step)

    def interrupted(self: Turn, *given: Any) -> None:
        monkeypatch.setattr(Turn, step, whole)
        raise KeyboardInterrupt

    monkeypatch.setattr(Turn, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        turn.called(action.call.result)


def test_a_turn_that_was_interrupted_as_it_ended_ends_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = Turn(Request("hello"), contents=True)
    interrupted_once(turn, "_end", monkeypatch)
    assert not turn.is_over
    result = turn.cancel()
    assert (result.outcome, result.text) == ("finished", TEXT)
    assert plain(Played(turn))[-1] == ("assistant", TEXT)
    assert replay(TurnJournal.from_json(turn.journal.to_json())).outcome == "finished"


def test_an_interrupted_driver_neither_loses_nor_repeats_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = Turn(Request("hello"))
    interrupted_once(turn, "_settle_call", monkeypatch)
    assert turn.cancel().outcome == "cancelled"
    assert plain(Played(turn)) == [("user", "hello"), ("assistant", TEXT)]
