"""Use the whole public API once, for the type checkers; nothing here is run."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack, assert_type

import httpx

import rungwise
import rungwise.testing
from rungwise.core import Check


def build() -> rungwise.Client:
    policy = rungwise.Policy(
        limits=rungwise.Limits(retries=2),
        budget=rungwise.Budget(
            attempts=10,
            seconds=60,
            output_tokens=20_000,
            money=0.5,
        ),
        waits=rungwise.Waits(retry_base=1),
        timeouts=rungwise.Timeouts(first_token=30, stall=None),
        reserve=rungwise.Reserve(share=0.2),
        after_refusal="end",
        hints=rungwise.Hints(nudge="Go on."),
        switch_after={"rate_limit": 1},
    )
    primary = rungwise.OpenAIChat(
        "model",
        api_key="key",
        prices=rungwise.Prices(1.0, 2.0),
        capabilities=rungwise.Capabilities(prefill=True, images=False, window=8_192),
        streams=True,
        first_token=90,
        stall=20,
    )
    second = rungwise.Anthropic("model", api_key="key", beta=["a-beta-of-some-day"])
    local = rungwise.Ollama(
        "llama3.2", base_url="http://localhost:11434", parameters={"num_ctx": 8192}
    )
    responses = rungwise.OpenAIResponses(
        "model", parameters={"reasoning": {"effort": "low", "summary": "auto"}}
    )
    chosen: rungwise.OpenAIChat | rungwise.OpenAIResponses = rungwise.OpenAI(
        "model", api_key="key", base_url="http://localhost:8000/v1", parameters={"user": "u"}
    )
    gemini = rungwise.Gemini(
        "model", base_url="https://example.com/v1beta", headers={"authorization": "Bearer token"}
    )
    interactions = rungwise.GeminiInteractions(
        "model", api_key=lambda: "token", parameters={"thinking_summaries": "auto"}
    )
    oldest_first = rungwise.OldestFirst(keep=4, counter=len)
    return rungwise.Client(
        [
            primary,
            second,
            local,
            responses,
            chosen,
            gemini,
            interactions,
            rungwise.Bedrock("model", api_key="key", region="eu-north-1"),
        ],
        policy=policy,
        stream_calls=False,
        compactor=oldest_first,
        http=httpx.Client(),
        async_http=httpx.AsyncClient(),
        testing=rungwise.testing.Clocks(
            clock=time.monotonic, sleep=time.sleep, wall_clock=time.time, jitter=lambda: 0.5
        ),
    )


async def keep(client: rungwise.Client) -> str:
    with rungwise.Durable(client, "sqlite:///calls.sqlite", concurrency=20) as durable:
        handle: rungwise.core.Handle[rungwise.Result] = durable.start(
            "b", "hello", returns={"type": "object"}, restart=True
        )
        turn: rungwise.TurnResult = durable.start_turn("c", "hello", tools=[look]).result()
        last: rungwise.TurnResult = durable.turn("c", "hello", tools=[look], restart=True)
        for event in durable.stream("d", "hello", offset=2, max_tokens=10):
            print(event, turn.text, last.text)
        results = [
            durable.call("a", "hello", max_tokens=9),
            await durable.acall("c", "hello"),
            handle.result(),
        ]
        durable.handle("b").cancel()
        return (
            durable.handle("a", returns=list[str]).status()
            + results[0].text
            + (await handle.aresult()).text
        )


def shorten(
    messages: tuple[rungwise.core.PlainMessage, ...],
) -> Sequence[rungwise.core.PlainMessage]:
    return messages[-2:]


def use(client: rungwise.Client) -> str:
    result: rungwise.Result = client.call(
        "hello", max_tokens=100, turn=rungwise.core.TurnContext("prior", only_housekeeping=True)
    )
    for event in client.stream(
        [{"role": "user", "content": "hello"}], cancellation=rungwise.Cancellation()
    ):
        match event:
            case rungwise.Text(text) | rungwise.Reasoning(text):
                print(text)
            case rungwise.Discard(text):
                print(len(text))
            case rungwise.Step() as step:
                print(step.event, step.guard, step.target)
            case rungwise.Result():
                result = event
    result = client.call(
        [
            {"role": "user", "content": "hello"},
            result.message,
            rungwise.Message.saying("user", "Go on."),
        ]
    )
    session = rungwise.SharedBudget(rungwise.Budget(money=0.5))
    turn = rungwise.SharedBudget(rungwise.Budget(attempts=20, seconds=120), within=session)
    day = rungwise.SharedBudget(rungwise.Budget(money=50, seconds=None), name="team", per="day")
    client.call("hello", within=day).raise_for_outcome()
    print(day.at(time.time()).cost)
    result = client.call("hello", within=turn, deadline=datetime.now(UTC) + timedelta(seconds=20))
    print(
        session.attempts,
        session.usage.output_tokens,
        session.cost,
        session.deadline,
        turn.shortfall(),
    )
    call: rungwise.ToolCall = result.tool_calls[0]
    usage: rungwise.Usage = result.usage
    replayed: rungwise.Result = rungwise.replay(
        rungwise.Journal.from_json(result.journal.to_json())
    )
    retaken: rungwise.TurnResult = rungwise.replay(
        rungwise.TurnJournal.from_json("{}"), rungwise.TurnPolicy()
    )
    print(retaken.outcome)
    return f"{call.name} {usage.total_tokens} {replayed.outcome}"


def options(
    client: rungwise.Client, **given: Unpack[rungwise.core.CallOptions]
) -> rungwise.core.Request:
    client.call("hello", **given)
    client.call(
        "hello",
        temperature=0.2,
        top_p=0.9,
        stop=["END"],
        seed=7,
        reasoning_effort="low",
    )
    client.stream(
        "hello",
        tool_choice="auto",
        parallel_tool_calls=False,
        response_format={"type": "json_object"},
    )
    client.call("hello", policy=rungwise.Policy.interactive())
    found: dict[str, str] = client.discover()
    print(found)
    check: Check = client.check("hello", temperature=0.2)
    backend: rungwise.core.BackendCheck = check.backends[0]
    print(check.is_clean, backend.name, backend.problem, backend.losses, backend.unknowns)
    lessons: rungwise.core.Lessons = rungwise.core.LEARNED.of([("localhost:8000", "model")])
    print(lessons.dropped, lessons.largest_output)
    # What is misspelt, of another type or of another place is an error.
    client.call("hello", temprature=0.2)  # type: ignore[call-arg]
    client.stream("hello", temperature="hot")  # type: ignore[arg-type]
    client.acall("hello", policy=rungwise.TurnPolicy())  # type: ignore[arg-type]
    client.astream("hello", model="gpt-5")  # type: ignore[call-arg]
    client.turn("hello", temprature=0.2)  # type: ignore[call-arg]
    client.turn("hello", policy=rungwise.Policy())  # type: ignore[arg-type]
    rungwise.core.Request("hello", temprature=0.2)  # type: ignore[call-arg]
    return rungwise.core.Request(
        "hello", max_tokens=5, temperature=0.2, stop="END", parameters={"top_k": 5}
    )


def turn_options(
    client: rungwise.Client, **given: Unpack[rungwise.core.TurnOptions]
) -> rungwise.TurnResult:
    client.turn("hello", temperature=0.2)
    return client.turn("hello", **given)


async def use_async(client: rungwise.Client) -> str:
    await client.adiscover()
    result = await client.acall(rungwise.core.Request("hello"))
    async with client.astream("hello") as stream:
        async for event in stream:
            if isinstance(event, rungwise.Result):
                result = event
    return result.text


def core() -> rungwise.Result:
    call = rungwise.core.Call(
        rungwise.core.Request("hello"),
        rungwise.Policy(),
        [rungwise.core.PlainLink("one"), rungwise.core.PlainLink("two")],
    )
    send = call.begin()
    while send is not None:
        send = call.receive(rungwise.core.Reply("text", stop_reason="stop"))
    return call.result


def is_off_topic(reply: rungwise.core.Reply) -> bool:
    return "weather" in reply.text


def derive() -> rungwise.Policy:
    off_topic = rungwise.Fact(
        "is_off_topic", says="the reply is about the weather", of=is_off_topic
    )
    entreat = rungwise.Rung(
        "entreat", unit="plea", limit=2, hint="Stay with the subject.", holds=off_topic
    )
    meek: rungwise.core.Entry = entreat.when("may_entreat_meekly", lacks="has_text")
    table: rungwise.core.Table = (
        rungwise.CALL.without("prefill")
        .with_rung(entreat, answered=None)
        .with_rung(meek, refused="may_fall_back")
        .with_rows(rungwise.core.Row("refused", "await", "has_text", "partial"))
        .declaring(
            rungwise.core.Guard("may_shout", counter="pleas"),
            rungwise.core.Effect("shout", spends="pleas"),
        )
        .reordered("malformed", ["may_retry", "may_fall_back", "has_text", None])
    )
    event: rungwise.core.Event = table.declared_events[0]
    print(event.says)
    return rungwise.Policy.from_toml("[limits]\npleas = 3", table=table)


def look(query: str) -> str:
    if not query:
        raise rungwise.ToolError("Ask for something.")
    return query


def tools(event: rungwise.ToolStarted | rungwise.ToolEnded) -> rungwise.Tool:
    call: rungwise.ToolCall = event.call
    if isinstance(event, rungwise.ToolEnded):
        outcome: rungwise.core.ToolOutcome = event.outcome
        print(call.name, outcome.fault)
    return rungwise.Tool(look, name="look", alone=True, seconds=5)


POLICY = rungwise.TurnPolicy(
    auto_continues=5, budget=rungwise.Budget(attempts=20), hints=rungwise.TurnHints(not_run="-")
)


def turns(client: rungwise.Client, shared: rungwise.SharedBudget) -> list[dict[str, object]]:
    result: rungwise.TurnResult = client.turn(
        "hello", tools=[look], policy=POLICY, within=shared, max_tokens=100
    )
    deadline = time.time() + 20
    with client.stream_turn(
        result.messages, tools={"look": look}, compactor=rungwise.OldestFirst(), deadline=deadline
    ) as stream:
        for event in stream:
            match event:
                case rungwise.TurnStep() | rungwise.Step():
                    print(event.note)
                case rungwise.ToolStarted() | rungwise.ToolEnded():
                    tools(event)
                case rungwise.TurnResult():
                    result = event
                case rungwise.Text() | rungwise.Discard() | rungwise.Reasoning():
                    print(event.text)
    journal: rungwise.TurnJournal = result.journal
    replayed: rungwise.TurnResult = rungwise.replay(journal)
    try:
        client.turn("hello", executor=lambda name, arguments: name, tools=[{"name": "look"}])
    except rungwise.TurnError as error:
        replayed = error.result
    return replayed.plain_messages


async def turns_in_a_loop(client: rungwise.Client) -> str:
    result = await client.aturn("hello", tools=rungwise.Toolbox.of([look]))
    async with client.astream_turn("hello") as stream:
        async for event in stream:
            if isinstance(event, rungwise.TurnResult):
                result = event
    return result.text


def own_loop() -> rungwise.TurnResult:
    turn = rungwise.core.Turn(
        rungwise.core.Request("hello"), POLICY, tools=[look], has_compactor=True, deadline=60.0
    )
    print(turn.deadline)
    action: rungwise.core.Action | None = turn.begin()
    while action is not None:
        match action:
            case rungwise.core.MakeCall(call):
                action = turn.called(call.cancel())
            case rungwise.core.RunTools(runs):
                action = turn.tools_ran([rungwise.core.ToolOutcome(run.call.name) for run in runs])
            case rungwise.core.Compact(messages, room):
                action = turn.compacted(messages[room:])
    return turn.result


class Bird(TypedDict):
    name: str
    wingspan_cm: int


def values(client: rungwise.Client) -> None:
    assert_type(client.call("hello", returns=Bird).value, Bird)
    assert_type(
        client.call("hello", returns=list[Bird], verdict=lambda reply, value: None).value,
        list[Bird],
    )
    assert_type(client.call("hello", returns={"type": "object"}).value, Any)
    assert_type(client.call("hello", returns=Literal["a", "b"]).value, Any)
    assert_type(client.call("hello", returns=Bird | int).value, Any)
    assert_type(client.call("hello").value, Any)
    asked = {
        "urgent": rungwise.YesNo("Is it urgent?"),
        "queue": rungwise.Choice("Which?", ["a", "b"]),
    }
    assert_type(client.decide("hello", asked).value, rungwise.Decision)
    assert_type(client.decide("hello", asked).value["urgent"].confidence, float | None)
    assert_type(client.turn("hello", returns=Bird, approvals={"c1": True}).value, Bird | None)
    with client.stream("hello", returns=Bird) as stream:
        for event in stream:
            if isinstance(event, rungwise.PartialValue):
                print(event.value)
        assert_type(stream.result, rungwise.Result[Bird])
        assert_type(stream.result.value["name"], str)
    with client.stream_turn("hello", returns=Bird) as turning:
        assert_type(turning.result.value, Bird | None)


def without_a_value(client: rungwise.Client) -> tuple[str, ...]:
    try:
        return (client.call("hello", returns=Bird).value["name"],)
    except rungwise.WrongAnswer as error:
        assert_type(error.result.text, str)
        return (error.text, *error.reasons)


def turned_without_a_value(client: rungwise.Client) -> tuple[str, ...]:
    try:
        return (client.turn("hello", returns=Bird).text,)
    except rungwise.TurnWrongAnswer as error:
        return error.reasons


async def values_later(client: rungwise.Client) -> None:
    assert_type((await client.acall("hello", returns=Bird)).value, Bird)
    assert_type((await client.aturn("hello", returns=Bird)).value, Bird | None)
    async with (
        client.astream("hello", returns=Bird) as stream,
        client.astream_turn("hello", returns=Bird) as turning,
    ):
        assert_type(stream.result.value, Bird)
        assert_type(turning.result.value, Bird | None)
    toolbox: rungwise.Toolbox = await rungwise.mcp_toolbox(object())
    await client.aturn("hello", tools=toolbox)


async def shown(client: rungwise.Client) -> None:
    frames: rungwise.ui.Frames = rungwise.ui.sse(client.stream("hello"), after=7)
    headers: dict[str, str] = frames.headers
    for chunk in frames:
        assert_type(chunk, bytes)
    rungwise.ui.ag_ui(client.stream_turn("hello"), [], thread_id="t", run_id="r")
    async with rungwise.ui.ResumableStreams() as streams:
        id: str = streams.start(
            rungwise.ui.vercel(
                client.astream_turn("hello"), message_id="m", resets=True, hold=False
            )
        )
        assert_type(streams.read(id, 7), rungwise.ui.Frames | None)
        streams.cancel(id)
    async for piece in frames:
        print(piece, headers)
