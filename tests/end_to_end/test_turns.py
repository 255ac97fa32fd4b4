"""Turns over HTTP: what is sent, what comes of tools, and what the turn leaves behind."""

import threading
from typing import Any

import anyio
import pytest

import rungwise
from rungwise import (
    Budget,
    Cancellation,
    Client,
    ConfigurationError,
    Policy,
    Tool,
    TurnFailed,
    TurnPolicy,
)
from rungwise.adapters.wires.chat.shapes import CHAT
from rungwise.core import Request
from rungwise.fsm.turn.explained import explain_turn, read_turn
from rungwise.fsm.turn.tools import Toolbox, ToolRun
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.modes import follow
from support.plain import assistant, user
from support.turn_modes import MODES, calling, is_async, run_turn, streams

TEXT = "Herons nest in the reeds by the lake."
ANSWER = ScriptedReply(TEXT)
OVERFLOW = ScriptedReply(
    status=400, error={"message": "too long", "code": "context_length_exceeded"}
)
LONG = [user("herons " * 500), user("Where?")]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Run each test that takes it in every mode."""
    return str(request.param)


def look(lake: str, birds: int = 1) -> list[str]:
    """Look which birds nest by a lake."""
    return ["heron", "bittern", "grebe"][:birds]


async def listen(lake: str) -> str:
    await anyio.sleep(0)
    return f"a boom from {lake}"


def breaks() -> str:
    raise rungwise.ToolError("the boat has sunk")


LOOKS = calling(("look", '{"lake": "Vomb"}'))
TOOLS: dict[str, Any] = {"look": look, "listen": listen, "breaks": breaks}


def test_tools_run_and_their_results_are_sent_in_the_order_of_the_calls(mode: str) -> None:
    asked = calling(
        ("look", '{"lake": "Vomb", "birds": 2}'),
        ("listen", '{"lake": "Vomb"}'),
        ("breaks", ""),
        text="I look.",
    )
    turned = run_turn(mode, asked, ANSWER, tools=TOOLS)
    assert (turned.outcome, turned.text, turned.result.calls) == ("finished", TEXT, 2)
    assert [tool["function"]["name"] for tool in turned.bodies[0]["tools"]] == [
        "look",
        "listen",
        "breaks",
    ]
    assert turned.bodies[0]["tools"][0]["function"]["parameters"]["required"] == ["lake"]
    assert turned.roles() == ["user", "assistant", "tool", "tool", "tool"]
    assert [each["tool_call_id"] for each in turned.bodies[1]["messages"][2:]] == [
        "call_0",
        "call_1",
        "call_2",
    ]
    assert turned.told() == ['["heron","bittern"]', "a boom from Vomb", "the boat has sunk"]
    assert turned.bodies[1]["messages"][1]["content"] == "I look."
    assert turned.targets == ["use_tools", "go_on", "finished"]
    assert turned.result.plain_messages[-1] == assistant(TEXT)


def test_arguments_that_do_not_fit_and_tools_that_do_not_exist_are_told_to_the_model(
    mode: str,
) -> None:
    asked = calling(
        ("look", '{"lake": 7}'), ("lok", "{}"), ("look", '{"lake": "Vomb", "depth": 1}')
    )
    turned = run_turn(mode, asked, ANSWER, tools=TOOLS)
    assert turned.outcome == "finished"
    first, second, third = turned.told()
    assert "lake" in first
    assert "no tool 'lok'" in second
    assert "did you mean 'look'" in second
    assert "depth" in third


def test_unknown_tools_for_ever_end_the_turn_after_three_rounds_and_a_summary(mode: str) -> None:
    turned = run_turn(
        mode, *[calling(("nowhere", "{}"))] * 3, ScriptedReply("I cannot look."), tools=TOOLS
    )
    assert (turned.outcome, turned.text, len(turned.bodies)) == (
        "limit_reached",
        "I cannot look.",
        4,
    )
    assert "tools" not in turned.bodies[3]
    assert turned.bodies[3]["messages"][-1] == user(rungwise.TurnHints().summary)


@pytest.mark.parametrize(("most", "requests"), [(0, 1), (1, 3), (25, 27)])
def test_one_ceiling_holds_for_all(mode: str, most: int, requests: int) -> None:
    ran: list[int] = []
    policy = TurnPolicy(auto_continues=most, same_calls=1000)
    asked = [calling(("count", "{}"))] * (most + 1)
    turned = run_turn(
        mode,
        *asked,
        ScriptedReply("Enough."),
        tools={"count": lambda: ran.append(1)},
        policy=policy,
    )
    assert (turned.outcome, len(turned.bodies), len(ran)) == ("limit_reached", requests, most + 1)
    assert turned.text == ("Enough." if most else "")


def test_the_same_call_with_the_same_result_ends_the_turn(mode: str) -> None:
    turned = run_turn(
        mode, *[calling(("breaks", "{}"))] * 2, ANSWER, tools=TOOLS, policy=TurnPolicy(same_calls=2)
    )
    assert (turned.outcome, len(turned.bodies)) == ("limit_reached", 3)
    assert "the same call has brought the same result 2 times" in str(turned.result.cause)


def test_calls_of_one_reply_run_side_by_side(mode: str) -> None:
    barrier = threading.Barrier(4, timeout=10)

    def meet() -> int:
        return barrier.wait() * 0

    turned = run_turn(mode, calling(*[("meet", "{}")] * 4), ANSWER, tools=[meet])
    assert (turned.outcome, turned.told()) == ("finished", ["0"] * 4)


def test_a_tool_that_hangs_is_left_when_its_time_is_up(mode: str) -> None:
    is_over = threading.Event()

    async def hang_in_loop() -> None:
        await anyio.sleep_forever()

    tools = {
        "hang": Tool(lambda: is_over.wait(30), seconds=0.05, parameters={"type": "object"}),
        "wait": Tool(hang_in_loop, seconds=0.05),
        **TOOLS,
    }
    try:
        asked = calling(("hang", "{}"), ("wait", "{}"), ("look", '{"lake": "Vomb"}'))
        turned = run_turn(mode, asked, ANSWER, tools=tools)
    finally:
        is_over.set()
    hung, waited, looked = turned.told()
    assert "timed out after 0.05 s" in hung
    assert "timed out after 0.05 s" in waited
    assert looked == '["heron"]'


def test_cut_tool_calls_never_run(mode: str) -> None:
    ran: list[str] = []
    broken = ScriptedReply(tool_calls=calling(("look", '{"lake": "Vo')).tool_calls, finish="length")
    turned = run_turn(mode, broken, ANSWER, tools={"look": lambda lake: ran.append(lake)})
    assert (turned.outcome, ran, len(turned.bodies)) == ("finished", [], 2)
    turned = run_turn(mode, broken, tools={"look": lambda lake: ran.append(lake)})
    assert (turned.outcome, ran) == ("failed", [])


def test_an_answer_cut_in_the_middle_of_a_round_of_tools_is_gone_on_from(mode: str) -> None:
    policy = TurnPolicy(call=Policy(limits=rungwise.Limits(continuations=0)))
    cut = ScriptedReply("Herons nest in the", finish="length")
    turned = run_turn(
        mode,
        LOOKS,
        cut,
        ScriptedReply(" reeds by the lake."),
        tools=TOOLS,
        policy=policy,
    )
    assert (turned.outcome, turned.text, turned.result.calls) == ("finished", TEXT, 3)
    assert turned.bodies[2]["messages"][3] == assistant("Herons nest in the")
    assert turned.bodies[2]["messages"][4]["role"] == "user"
    assert [each["role"] for each in turned.result.plain_messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    if streams(mode):
        assert (
            "".join(event.text for event in turned.events if isinstance(event, rungwise.Text))
            == TEXT
        )


def test_an_overflow_goes_through_a_compactor(mode: str) -> None:
    given: list[Any] = []

    def shorten(messages: Any, room: int) -> Any:
        given.append((messages, room))
        messages[0]["content"] = "changed"  # it may do with its own copy what it likes
        return messages[1:]

    turned = run_turn(mode, OVERFLOW, ANSWER, messages=LONG, compactor=shorten)
    assert (turned.outcome, turned.targets) == ("finished", ["compact", "go_on", "finished"])
    assert turned.bodies[1]["messages"] == LONG[1:]
    assert LONG[0]["content"] != "changed"
    assert given[0][1] > 100
    assert turned.result.plain_messages == [*LONG[1:], assistant(TEXT)]


def test_the_clients_own_compactor_shortens_too(mode: str) -> None:
    turned = run_turn(
        mode,
        OVERFLOW,
        ANSWER,
        messages=LONG,
        client_options={"compactor": lambda messages: messages[1:]},
    )
    assert (turned.outcome, len(turned.bodies)) == ("finished", 2)


def test_a_compactor_that_does_not_help_or_raises_ends_the_turn(mode: str) -> None:
    turned = run_turn(mode, OVERFLOW, messages=LONG, compactor=lambda messages, room: messages)
    assert (turned.outcome, turned.targets, len(turned.bodies)) == (
        "failed",
        ["compact", "failed"],
        1,
    )

    def raises(messages: Any, room: int) -> Any:
        raise ValueError("secret")

    turned = run_turn(mode, OVERFLOW, messages=LONG, compactor=raises)
    assert isinstance(turned.error, TurnFailed)
    assert isinstance(turned.error.__cause__, ValueError)
    assert "secret" not in str(turned.error)
    assert turned.result.plain_messages == LONG


def test_a_terminating_tool_among_others_hands_off(mode: str) -> None:
    tools = {**TOOLS, "ask": Tool(parameters={"type": "object"}, terminating=True)}
    turned = run_turn(
        mode,
        calling(("ask", '{"question": "Which?"}'), ("breaks", ""), text="Which lake?"),
        tools=tools,
    )
    assert (turned.outcome, turned.text, len(turned.bodies)) == ("handed_off", "Which lake?", 1)
    [call] = turned.result.handed_off
    assert (call.name, call.arguments) == ("ask", '{"question": "Which?"}')
    assert [each.get("content") for each in turned.result.plain_messages[2:]] == [
        "Handed over.",
        "the boat has sunk",
    ]


def test_an_executor_runs_what_has_no_function(mode: str) -> None:
    definition = {
        "type": "function",
        "function": {"name": "find", "parameters": {"required": ["bird"]}},
    }
    asked: list[Any] = []

    def execute(name: str, arguments: Any) -> Any:
        asked.append((name, arguments))
        return {"found": True}

    turned = run_turn(
        mode, calling(("find", '{"bird": "heron"}')), ANSWER, tools=[definition], executor=execute
    )
    assert (turned.outcome, asked) == ("finished", [("find", {"bird": "heron"})])
    assert turned.told() == ['{"found":true}']
    assert turned.bodies[0]["tools"][0]["function"]["name"] == "find"


def test_an_answer_beside_housekeeping_stands_for_an_empty_reply(mode: str) -> None:
    tools = {"note": Tool(lambda: "noted", housekeeping=True)}
    turned = run_turn(mode, calling(("note", "{}"), text=TEXT), ScriptedReply(), tools=tools)
    assert (turned.outcome, turned.text, len(turned.bodies)) == ("finished", TEXT, 2)
    if streams(mode):
        assert follow(turned.events) == TEXT, "it is shown once"


def test_a_compactor_ends_with_the_time_of_the_turn(mode: str) -> None:
    is_over = threading.Event()

    def hang(messages: Any, room: int) -> Any:
        is_over.wait(30)
        return messages[1:]

    async def sleep(messages: Any, room: int) -> Any:
        await anyio.sleep_forever()

    policy = TurnPolicy(budget=Budget(seconds=0.3))
    try:
        for compactor in (hang, sleep) if is_async(mode) else (hang,):
            turned = run_turn(
                mode,
                OVERFLOW,
                messages=LONG,
                compactor=compactor,
                policy=policy,
            )
            assert (turned.outcome, turned.result.error) == ("over_budget", None)
            assert turned.result.seconds < 5
    finally:
        is_over.set()


in_threads = pytest.mark.parametrize("mode", ["turn", "stream_turn"])


@in_threads
def test_a_turn_is_cancelled_in_the_middle_of_a_compaction(mode: str) -> None:
    cancellation = Cancellation()
    is_over = threading.Event()

    def hang(messages: Any, room: int) -> Any:
        cancellation.cancel()
        is_over.wait(30)

    turned = run_turn(
        mode,
        OVERFLOW,
        messages=LONG,
        compactor=hang,
        cancellation=cancellation,
    )
    is_over.set()
    assert (turned.outcome, turned.result.plain_messages) == ("cancelled", LONG)


def test_what_a_provider_runs_itself_goes_out_beside_the_tools(mode: str) -> None:
    request = Request("Where?", tools=[{"type": "web_search"}])
    turned = run_turn(mode, ANSWER, messages=request, tools=[look])
    assert [tool["type"] for tool in turned.bodies[0]["tools"]] == ["web_search", "function"]
    assert run_turn(mode, ANSWER, messages=request).bodies[0]["tools"] == [{"type": "web_search"}]
    definition = {
        "type": "function",
        "function": {"name": "find", "parameters": {"type": "object"}},
    }
    asked = Request("Where?", tools=[definition])
    turned = run_turn(
        mode, calling(("find", "{}")), ANSWER, messages=asked, executor=lambda name, arguments: name
    )
    assert (turned.outcome, turned.told()) == ("finished", ["find"])


def test_results_share_a_part_of_the_window_visibly(mode: str) -> None:
    policy = TurnPolicy(window=4_000, results_share=0.25)
    tools = {"long": lambda: "x" * 100_000, "short": lambda: "three herons"}
    turned = run_turn(
        mode, calling(("long", "{}"), ("short", "{}")), ANSWER, tools=tools, policy=policy
    )
    long, short = turned.told()
    assert short == "three herons"
    assert len(long) < 3_100
    assert "left out" in long


def test_a_failing_call_ends_the_turn_with_a_conversation_to_go_on_from(mode: str) -> None:
    down = ScriptedReply(status=401)
    turned = run_turn(mode, LOOKS, down, tools=TOOLS)
    assert isinstance(turned.error, TurnFailed)
    assert "401" in str(turned.error)
    assert [each["role"] for each in turned.result.plain_messages] == ["user", "assistant", "tool"]


def test_the_budget_of_the_turn_is_above_those_of_its_calls(mode: str) -> None:
    policy = TurnPolicy(budget=Budget(attempts=3), same_calls=1000)
    turned = run_turn(mode, LOOKS, tools=TOOLS, policy=policy)
    assert (turned.outcome, len(turned.bodies)) == ("over_budget", 3)
    assert isinstance(turned.error, rungwise.TurnOverBudget)


def test_output_tokens_of_a_turn_are_never_passed(mode: str) -> None:
    asked = LOOKS.tool_calls

    def spends(request: Any) -> ScriptedReply:
        cap = request.body.get("max_tokens") or request.body["max_completion_tokens"]
        return ScriptedReply(
            tool_calls=asked, usage={"prompt_tokens": 5, "completion_tokens": min(90, cap)}
        )

    policy = TurnPolicy(budget=Budget(attempts=50, output_tokens=300), same_calls=1000)
    turned = run_turn(mode, spends, tools=TOOLS, policy=policy)
    assert turned.outcome == "over_budget"
    assert turned.result.usage.output_tokens <= 300
    caps = [body.get("max_tokens") or body["max_completion_tokens"] for body in turned.bodies]
    assert caps == sorted(caps, reverse=True)
    assert caps[0] <= 292


def test_a_journal_with_contents_replays_to_the_same_conversation(mode: str) -> None:
    asked = calling(("look", '{"lake": "Vomb", "birds": 2}'), ("lok", "{}"), text="I look.")
    turned = run_turn(
        mode,
        asked,
        OVERFLOW,
        ANSWER,
        tools=TOOLS,
        client_options={"contents": True},
        messages=LONG,
        compactor=lambda m, _: m,
    )
    assert turned.outcome == "failed"  # the compactor did not help
    again = rungwise.replay(rungwise.TurnJournal.from_json(turned.result.journal.to_json()))
    assert again.text == "I look."
    assert Request(again.messages).messages == Request(turned.result.messages).messages[len(LONG) :]
    assert "<h1>One turn" in explain_turn(read_turn(turned.result.journal.to_json()))


def test_a_turn_shares_a_budget_with_others(mode: str) -> None:
    shared = rungwise.SharedBudget(Budget(attempts=3))
    first = run_turn(mode, LOOKS, ANSWER, tools=TOOLS, within=shared)
    second = run_turn(mode, LOOKS, ANSWER, tools=TOOLS, within=shared)
    assert (first.outcome, second.outcome, shared.attempts) == ("finished", "over_budget", 3)


streamed = pytest.mark.parametrize("mode", ["stream_turn", "astream_turn"])


@streamed
def test_a_stream_tells_of_tools_between_the_calls(mode: str) -> None:
    turned = run_turn(
        mode, calling(("look", '{"lake": "Vomb"}'), text="I look."), ANSWER, tools=TOOLS
    )
    kinds = [type(event).__name__ for event in turned.events]
    order = [kinds.index(kind) for kind in ("Text", "ToolStarted", "ToolEnded")]
    assert order == sorted(order)
    assert kinds[-1] == "TurnResult"
    assert kinds.index("ToolEnded") < len(kinds) - 1 - kinds[::-1].index("Text")
    ended = next(event for event in turned.events if isinstance(event, rungwise.ToolEnded))
    assert (ended.call.name, ended.outcome.value) == ("look", ["heron"])


@streamed
@pytest.mark.parametrize("at", ["Text", "ToolStarted", "ToolEnded", "TurnStep"])
def test_a_stream_can_be_left_anywhere(mode: str, at: str) -> None:
    def leave(event: Any, stream: Any) -> bool:
        return type(event).__name__ == at and len(stream.messages) >= least

    least = 1 if at in ("Text", "TurnStep") else 3
    asked = calling(("look", '{"lake": "Vomb"}'), ("listen", '{"lake": "Vomb"}'), text="I look.")
    turned = run_turn(mode, asked, ANSWER, tools=TOOLS, each=leave)
    assert turned.outcome == "cancelled"
    assert len(turned.bodies) <= 1
    if at == "ToolEnded":
        results = [
            each["content"] for each in turned.result.plain_messages if each["role"] == "tool"
        ]
        assert '["heron"]' in results or "a boom from Vomb" in results


@in_threads
def test_a_turn_is_cancelled_in_the_middle_of_tools(mode: str) -> None:
    cancellation = Cancellation()
    begun = threading.Event()
    ended = threading.Event()

    def cancel() -> str:
        begun.wait(10)
        cancellation.cancel()
        return "done all the same"

    async def wait() -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            ended.set()

    asked = calling(("wait", "{}"), ("cancel", "{}"))
    turned = run_turn(mode, asked, ANSWER, tools=[wait, cancel], cancellation=cancellation)
    assert isinstance(turned.error, rungwise.TurnCancelled)
    assert ended.wait(10)
    texts = [each["content"] for each in turned.result.plain_messages if each["role"] == "tool"]
    assert "cancelled" in texts[0]
    assert texts[1] == "done all the same"
    assert len(turned.bodies) == 1


def test_a_cancelled_task_ends_its_turn_and_waits_for_what_cannot_be_cancelled() -> None:
    began = threading.Event()
    may_end = threading.Event()
    found: list[Any] = []

    def work() -> str:
        began.set()
        may_end.wait(10)
        return "worked"

    async def main() -> None:
        with EmbeddedProvider(Script(replies=[calling(("work", "{}"))])) as provider:
            backend = rungwise.OpenAIChat("m", base_url=provider.base_url, api_key="k")
            async with Client(backend) as client, anyio.create_task_group() as group:

                async def run() -> None:
                    try:
                        await client.aturn("Where?", tools=[work])
                    except BaseException as error:
                        found.append(error)
                        raise

                group.start_soon(run)
                await anyio.to_thread.run_sync(began.wait)
                group.cancel_scope.cancel()
                threading.Timer(0.05, may_end.set).start()

    anyio.run(main)
    [error] = found
    result = error.result
    assert (result.outcome, result.plain_messages[-1]["content"]) == ("cancelled", "worked")


def test_what_is_not_of_its_form_is_refused_before_anything_is_sent(mode: str) -> None:
    for wrong in (
        {"tools": {"look": 5}},
        {"tools": [Tool(name="look", parameters={})]},
        {"policy": Policy()},
        {"policy": {}},
        {"policy": 0},
        {"tools": 0},
        {"tools": ""},
        {"parameters": {"tools": []}, "tools": [look]},
        {"compactor": 5},
        {"within": Budget()},
        {"temperature": "1"},
        {"temprature": 1},
        {"messages": 5},
    ):
        with pytest.raises((ConfigurationError, TypeError)) as caught:
            run_turn(mode, ANSWER, **wrong)  # type: ignore[arg-type]
        assert isinstance(caught.value, ConfigurationError), wrong


def search(query: str, most: int = 3) -> list[str]:
    """Search the archive."""
    return [query] * most


def test_a_tool_read_from_a_function_is_sent_called_and_planned(
    serve: Any, backend_of: Any
) -> None:
    box = Toolbox.of([Tool(search, strict=True)])
    asks = ScriptedReply(
        tool_calls=[
            {
                "id": "call_1",
                "name": "search",
                "arguments": '{"query": "x"}',
            }
        ]
    )
    provider = serve(asks)
    with Client(backend_of(provider)) as client:
        result = client.call("Find x.", tools=box.definitions(CHAT))
    assert provider.requests[0].body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "search",
                "description": "Search the archive.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string"},
                        "most": {"type": "integer", "default": 3},
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                },
                "strict": True,
            },
        }
    ]
    run = box.plan(result.tool_calls[0], 5.0)
    assert isinstance(run, ToolRun)
    assert search(**run.arguments) == ["x", "x", "x"]
