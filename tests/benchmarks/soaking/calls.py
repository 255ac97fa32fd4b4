"""The calls: every way to make one, to leave it, and to end it from outside. Each returns what came
of it.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

import anyio
import httpx
from attrs import define, field

import rungwise

PROTOCOLS = ("OpenAIChat", "OpenAIResponses", "Anthropic", "Gemini", "Ollama", "Bedrock")
ORIGINS = 250
MODELS = 3_000
POLICY = rungwise.Policy(
    limits=rungwise.Limits(retries=2, reasks=1, continuations=2),
    budget=rungwise.Budget(attempts=8, seconds=3.0),
    waits=rungwise.Waits(
        **dict.fromkeys(
            ("retry_base", "retry_cap", "overload_cap", "reask_base", "reask_cap"), 0.002
        )
    ),
    timeouts=rungwise.Timeouts(
        connect=0.5,
        first_token=0.25,
        stall=0.1,
        total=0.5,
    ),
)
TURN_POLICY = rungwise.TurnPolicy(call=POLICY)
QUESTION = [{"role": "user", "content": "Why is the sky blue?"}]


def look(lake: str, birds: int = 3) -> str:
    """Look which birds nest by a lake."""
    return ", ".join(["heron", "bittern", "grebe"][:birds])


async def alook(lake: str, birds: int = 3) -> str:
    """Look which birds nest by a lake."""
    await anyio.sleep(0)
    return look(lake, birds)


@define(eq=False)
class Stage:
    """Hold what the calls share: where the server is, and clients that live as long as the process.

    Arguments:
        ports: those of the server: one plays faults, the other answers well.
    """

    ports: tuple[int, int]
    steps: int = field(default=0, init=False)
    clients: list[rungwise.Client] = field(init=False)
    borrowed: httpx.Client = field(init=False)
    session: rungwise.SharedBudget = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.clients = [self.client(number) for number in range(len(PROTOCOLS))]
        self.borrowed = httpx.Client()
        self.renew()

    def renew(self) -> None:
        """Begin another session, which the calls of a round share."""
        day = rungwise.SharedBudget(rungwise.Budget(attempts=10**9, seconds=None))
        self.session = rungwise.SharedBudget(
            rungwise.Budget(attempts=100_000, seconds=None, output_tokens=10**9), day
        )

    def close(self) -> None:
        """Close the connections that are idle; the clients can be used on."""
        for client in self.clients:
            client.close()
        self.borrowed.close()
        self.borrowed = httpx.Client()

    async def aclose(self) -> None:
        """Close those of the running event loop."""
        for client in self.clients:
            await client.aclose()

    def note(self, step: Any) -> None:
        """Observe a step."""
        self.steps += 1

    def backend(self, number: int, *, well: bool = False) -> Any:
        """Make a backend: each number has its protocol, origin and model."""
        origin = number % ORIGINS
        model = f"soak-{number % MODELS}"
        url = f"http://127.0.{origin // 250}.{1 + origin % 250}:{self.ports[well]}/v1"
        protocol = PROTOCOLS[number % len(PROTOCOLS)]
        options = {"region": "eu-north-1"} if protocol == "Bedrock" else {}
        return getattr(rungwise, protocol)(
            model, base_url=url, api_key="sk-soak-0123456789", **options
        )

    def client(self, number: int, **options: Any) -> rungwise.Client:
        """Make a client of two backends."""
        chain = [self.backend(number), self.backend(number * 7 + 1)]
        options = {
            "compactor": rungwise.OldestFirst(keep=1),
            "observer": self.note,
            "policy": POLICY,
        } | options
        return rungwise.Client(chain, **options)

    def lasting(self, number: int) -> rungwise.Client:
        """Return one of the clients that last."""
        return self.clients[number % len(self.clients)]


def drain(events: Iterable[Any]) -> str:
    """Read a stream to its end."""
    *_, last = events
    return str(last.outcome)


# in threads


def call(stage: Stage, number: int) -> str:
    return stage.lasting(number).call(QUESTION, temperature=0.5, max_tokens=400).outcome


def whole_call(stage: Stage, number: int) -> str:
    with stage.client(number, stream_calls=False) as client:
        return client.call(QUESTION).outcome


def stream(stage: Stage, number: int) -> str:
    return drain(stage.lasting(number).stream(QUESTION))


def left_stream(stage: Stage, number: int) -> str:
    events = stage.lasting(number).stream(QUESTION)
    for _ in islice(events, 1 + number % 4):
        pass
    if number % 2:
        ring: list[Any] = [events]
        ring.append(ring)  # which only the collector frees
    return "left"


def closed_stream(stage: Stage, number: int) -> str:
    with stage.lasting(number).stream(QUESTION) as events:
        for _ in islice(events, 1 + number % 4):
            pass
    return events.result.outcome


def cancelled_call(stage: Stage, number: int) -> str:
    cancellation = rungwise.Cancellation()
    timer = threading.Timer(number % 10 / 1_000, cancellation.cancel)
    timer.start()
    try:
        return stage.lasting(number).call(QUESTION, cancellation=cancellation).outcome
    finally:
        timer.cancel()
        timer.join()


def late_call(stage: Stage, number: int) -> str:
    return stage.lasting(number).call(QUESTION, deadline=time.time() + number % 7 / 1_000).outcome


def hurried_call(stage: Stage, number: int) -> str:
    clocks = rungwise.Timeouts(
        connect=0.1,
        first_token=0.02,
        stall=0.01,
        total=0.05,
    )
    policy = rungwise.Policy(
        limits=POLICY.limits, budget=POLICY.budget, waits=POLICY.waits, timeouts=clocks
    )
    return stage.lasting(number).call(QUESTION, policy=policy).outcome


def turn(stage: Stage, number: int) -> str:
    return stage.lasting(number).turn(QUESTION, tools=[look, alook], policy=TURN_POLICY).outcome


def streamed_turn(stage: Stage, number: int) -> str:
    return drain(stage.lasting(number).stream_turn(QUESTION, tools=[look], policy=TURN_POLICY))


def left_turn(stage: Stage, number: int) -> str:
    for _ in islice(
        stage.lasting(number).stream_turn(QUESTION, tools=[alook], policy=TURN_POLICY),
        1 + number % 6,
    ):
        pass
    return "left"


def shared_call(stage: Stage, number: int) -> str:
    return stage.lasting(number).call(QUESTION, within=stage.session, max_tokens=200).outcome


def dropped_client(stage: Stage, number: int) -> str:
    return stage.client(number).call(QUESTION).outcome


def borrowed_call(stage: Stage, number: int) -> str:
    return stage.client(number % 50, http=stage.borrowed).call(QUESTION).outcome


def borrowed_stream(stage: Stage, number: int) -> str:
    with stage.client(number % 50, http=stage.borrowed).stream(QUESTION) as events:
        for _ in islice(events, 3):
            pass
    return events.result.outcome


SYNC: dict[Callable[[Stage, int], str], int] = {
    call: 30,
    whole_call: 8,
    stream: 20,
    left_stream: 8,
    closed_stream: 6,
    cancelled_call: 4,
    late_call: 3,
    hurried_call: 3,
    turn: 5,
    streamed_turn: 3,
    left_turn: 2,
    shared_call: 6,
    dropped_client: 4,
    borrowed_call: 2,
    borrowed_stream: 1,
}

# in event loops


async def acall(stage: Stage, number: int) -> str:
    return (await stage.lasting(number).acall(QUESTION, temperature=0.5, max_tokens=400)).outcome


async def awhole_call(stage: Stage, number: int) -> str:
    async with stage.client(number, stream_calls=False) as client:
        return (await client.acall(QUESTION)).outcome


async def adrain(events: Any) -> str:
    return str([event async for event in events][-1].outcome)


async def astream(stage: Stage, number: int) -> str:
    return await adrain(stage.lasting(number).astream(QUESTION))


async def aleft_stream(stage: Stage, number: int) -> str:
    events = stage.lasting(number).astream(QUESTION)
    if not is_asyncio():  # trio warns of every asynchronous generator that is left
        await events.aclose()
        return "left"
    for _ in range(1 + number % 4):  # one that is never read warns
        with suppress(StopAsyncIteration):
            await anext(events)
    if number % 2:
        ring: list[Any] = [events]
        ring.append(ring)
    return "left"


async def aclosed_stream(stage: Stage, number: int) -> str:
    async with stage.lasting(number).astream(QUESTION) as events:
        for _ in range(number % 4):
            with suppress(StopAsyncIteration):
                await anext(events)
    return events.result.outcome


async def cancelled_task(stage: Stage, number: int) -> str:
    making = stage.lasting(number).acall(QUESTION)
    if not is_asyncio():
        with anyio.move_on_after(number % 10 / 1_000):
            return (await making).outcome
        return "task cancelled"
    task = asyncio.ensure_future(making)
    await asyncio.sleep(number % 10 / 1_000)
    task.cancel()
    try:
        return (await task).outcome
    except asyncio.CancelledError:
        return "task cancelled"


async def timed_out_call(stage: Stage, number: int) -> str:
    try:
        with anyio.fail_after(number % 7 / 1_000):
            return (await stage.lasting(number).acall(QUESTION)).outcome
    except TimeoutError:
        return "timed out"


async def alate_call(stage: Stage, number: int) -> str:
    return (
        await stage.lasting(number).acall(QUESTION, deadline=time.time() + number % 7 / 1_000)
    ).outcome


async def aturn(stage: Stage, number: int) -> str:
    return (
        await stage.lasting(number).aturn(QUESTION, tools=[look, alook], policy=TURN_POLICY)
    ).outcome


async def astreamed_turn(stage: Stage, number: int) -> str:
    return await adrain(
        stage.lasting(number).astream_turn(QUESTION, tools=[alook], policy=TURN_POLICY)
    )


async def ashared_call(stage: Stage, number: int) -> str:
    return (
        await stage.lasting(number).acall(QUESTION, within=stage.session, max_tokens=200)
    ).outcome


async def adropped_client(stage: Stage, number: int) -> str:
    return (await stage.client(number).acall(QUESTION)).outcome


async def aborrowed_call(stage: Stage, number: int) -> str:
    async with httpx.AsyncClient() as borrowed:
        return (await stage.client(number % 50, async_http=borrowed).acall(QUESTION)).outcome


def is_asyncio() -> bool:
    """Tell whether the running event loop is one of asyncio; else it is trio's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


ASYNC: dict[Callable[[Stage, int], Coroutine[Any, Any, str]], int] = {
    acall: 34,
    awhole_call: 8,
    astream: 20,
    aleft_stream: 8,
    aclosed_stream: 6,
    cancelled_task: 5,
    timed_out_call: 4,
    alate_call: 3,
    aturn: 5,
    astreamed_turn: 3,
    ashared_call: 6,
    adropped_client: 4,
    aborrowed_call: 1,
}
