"""Use the whole public API once, for the type checkers; nothing here is run."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

import adapters
import fsm


def build() -> adapters.Client:
    policy = fsm.Policy(
        limits=fsm.Limits(retries=2),
        budget=fsm.Budget(attempts=10, seconds=60, output_tokens=20_000, money=0.5),
        waits=fsm.Waits(retry_base=1),
        timeouts=fsm.Timeouts(idle=30),
        hints=fsm.Hints(nudge="Go on."),
        switch_after={"rate_limit": 1},
    )
    primary = adapters.OpenAIChat("model", api_key="key", prices=fsm.Prices(1.0, 2.0))
    return adapters.Client([primary], policy=policy, http=httpx.Client(), async_http=httpx.AsyncClient())


def shorten(messages: tuple[fsm.Message, ...]) -> Sequence[fsm.Message]:
    return messages[-2:]


def use(client: adapters.Client) -> str:
    result: fsm.Result = client.call("hello", max_tokens=100, turn=fsm.TurnContext("prior", only_housekeeping=True))
    for event in client.stream([{"role": "user", "content": "hello"}], cancellation=adapters.Cancellation()):
        match event:
            case fsm.Text(text) | fsm.Reasoning(text):
                print(text)
            case fsm.Discard(text):
                print(len(text))
            case fsm.Rung(step):
                print(step.event, step.guard, step.target)
            case fsm.Result():
                result = event
    call: fsm.ToolCall = result.tool_calls[0]
    usage: fsm.Usage = result.usage
    replayed: fsm.Result = fsm.replay(fsm.Journal.from_json(result.journal.to_json()))
    return f"{call.name} {usage.total_tokens} {replayed.outcome}"


async def use_async(client: adapters.Client) -> str:
    result = await client.acall(fsm.Request("hello"))
    async with client.astream("hello") as stream:
        async for event in stream:
            if isinstance(event, fsm.Result):
                result = event
    return result.text


def core() -> fsm.Result:
    call = fsm.Call(fsm.Request("hello"), fsm.Policy(), [fsm.PlainLink("one"), fsm.PlainLink("two")])
    send = call.begin()
    while send is not None:
        send = call.receive(fsm.Reply("text", stop_reason="stop"))
    return call.result


def derive() -> fsm.Policy:
    return fsm.Policy(table=fsm.CALL.without("prefill").with_rows(fsm.Row("refused", "await", "has_text", "partial")))
