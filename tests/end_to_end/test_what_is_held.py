"""Nothing is held once a call is over, however it ended: no cycle that only the garbage collector
would free.
"""

import asyncio
import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import anyio
import pytest

import rungwise
from rungwise import CallError, Client
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import Caller, aask, ask, is_async
from support.runs import Serve

ANSWER = ScriptedReply("Rayleigh scattering, most of all. " * 4)
LOOKS = ScriptedReply(tool_calls=[{"name": "look", "arguments": "{}"}])
LOST = ScriptedReply("Rayleigh scattering.", cut_after=150)
QUICK = rungwise.Policy(
    limits=rungwise.Limits(retries=1, continuations=1),
    waits=rungwise.Waits(retry_base=0.001, retry_cap=0.001),
    timeouts=rungwise.Timeouts(first_token=0.02, stall=0.02, total=0.1),
)


def look() -> str:
    """Look which birds nest here."""
    return "heron"


async def alook() -> str:
    """Look which birds nest here."""
    return "heron"


alook.__name__ = "look"  # as the model calls it


@pytest.fixture
def garbage() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Return what counts the objects that only the collector frees behind ten calls, the first ones
    aside.

    Three rounds have to leave some: the server runs in this process, and may leave its own when a
    machine is busy.
    """

    def count(call: Callable[[], object]) -> int:
        for _ in range(3):
            call()
        gc.collect()
        left = []
        while len(left) < 3 and 0 not in left:
            for _ in range(10):
                call()
            left.append(gc.collect())
        return min(left)

    gc.disable()
    yield count
    gc.enable()


ENDINGS: dict[str, tuple[ScriptedReply, ...]] = {
    "answered": (ANSWER,),
    "failed": (ScriptedReply(status=500),),
    "not allowed": (ScriptedReply(status=401),),
    "cut": (LOST,),
    "silent": (ScriptedReply(hang=True),),
}


@pytest.mark.own_connections
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_call_leaves_nothing_for_the_collector(
    mode: str,
    ending: str,
    serve: Serve,
    backend_of: Any,
    garbage: Any,
) -> None:
    with Caller(mode, backend_of(serve(*ENDINGS[ending])), policy=QUICK) as caller:

        def call() -> None:
            with suppress(CallError):
                ask(caller.client, mode)

        async def acall() -> None:
            with suppress(CallError):
                await aask(caller.client, mode)

        assert garbage(lambda: caller.do(acall if is_async(mode) else call)) == 0


@pytest.mark.own_connections
@pytest.mark.parametrize("protocol", protocols.PROTOCOLS)
@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_a_stream_in_a_cycle_that_is_collected_ends_its_call_with_what_was_said(
    mode: str,
    protocol: str,
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = serve(
        ScriptedReply(
            "Rayleigh scattering.",
            chunk_size=4,
            cut_after=1_000,
            chunk_delay=0.02,
        )
    )
    backend = protocols.backend(protocol, provider.base_url)
    client = Client(backend, observer=lambda step: steps.append(step))
    steps = list[Any]()
    said = list[str]()

    def note(events: Any, heard: list[Any]) -> None:
        said.extend(event.text for event in heard if isinstance(event, rungwise.Text))
        ring: list[Any] = [events]
        ring.append(ring)

    async def leave() -> None:
        events = client.astream("Where?")
        note(events, [await anext(events) for _ in range(2)])
        del events
        gc.collect()
        for _ in range(5):
            await asyncio.sleep(0)

    gc.collect()
    if mode == "stream":
        events = client.stream("Where?")
        note(events, list(islice(events, 2)))
        del events
        gc.collect()
        client.close()
    else:
        asyncio.run(leave())
    assert steps[-1].target == "cancelled"
    assert not caplog.records


@pytest.mark.full
@pytest.mark.own_connections
@pytest.mark.parametrize("tool", [look, alook], ids=["look", "alook"])
@pytest.mark.parametrize("mode", ["turn", "stream_turn", "aturn", "astream_turn", "left", "aleft"])
def test_a_turn_leaves_nothing_for_the_collector(
    mode: str,
    tool: Any,
    serve: Serve,
    backend_of: Any,
    garbage: Any,
) -> None:
    # which runs in an event loop of its own: asyncio's leaves cycles
    if tool is alook and not mode.startswith("a"):
        return
    backend = backend_of(serve(lambda request: ANSWER if "heron" in str(request.body) else LOOKS))
    most = 3 if "left" in mode else None
    with Caller("acall" if mode.startswith("a") else "call", backend) as caller:
        client = caller.client

        def run() -> None:
            if mode == "turn":
                client.turn("Where?", tools=[tool])
                return
            for _ in islice(client.stream_turn("Where?", tools=[tool]), most):
                pass

        async def arun() -> None:
            if mode == "aturn":
                await client.aturn("Where?", tools=[tool])
                return
            async with client.astream_turn("Where?", tools=[tool]) as events:
                for _ in range(most or 1_000):
                    await anext(events, None)

        assert garbage(lambda: caller.do(arun if mode.startswith("a") else run)) == 0


def test_backends_that_are_dropped_leave_nothing_for_the_collector(garbage: Any) -> None:
    def build() -> None:
        for protocol in protocols.PROTOCOLS:
            Client(protocols.backend(protocol, "http://127.0.0.1:9/v1"))

    assert garbage(build) == 0


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """List what is warned of from now on, what the collector finds included."""
    gc.collect()
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("always")
        patch.setattr(warnings, "showwarning", lambda message, *_: found.append(str(message)))
        yield found


@pytest.mark.full
@pytest.mark.own_connections
@pytest.mark.parametrize("is_in_a_cycle", [False, True])
def test_a_client_that_is_dropped_closes_its_connections_without_a_warning(
    mode: str,
    is_in_a_cycle: bool,
    serve: Serve,
    backend_of: Any,
    warned: Any,
) -> None:
    provider = serve(ANSWER)
    connections: list[Any] = []

    def kept(http: Any) -> weakref.ref[Any]:
        idle = next(iter(http.pool._idle))
        return weakref.ref(idle.sock)

    def call() -> None:
        client = Client(backend_of(provider))
        if mode.startswith("a"):
            asyncio.run(acall(client))
        else:
            ask(client, mode)
            connections.append(kept(client.runtime.connections.in_threads.http))
        if is_in_a_cycle:
            ring: list[Any] = [client]
            ring.append(ring)

    async def acall(client: Client) -> None:
        await aask(client, mode)
        http = client.runtime.connections.in_this_loop().http
        assert http is not None
        connections.append(kept(http))

    call()
    gc.collect()
    assert connections[0]() is None
    assert not warned


on_both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


@pytest.mark.full
@pytest.mark.own_connections
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("mode", ["acall", "left"])
@on_both_loops
def test_no_generator_is_left_to_the_event_loop(
    loop: str,
    mode: str,
    ending: str,
    serve: Serve,
    backend_of: Any,
    warned: Any,
) -> None:
    async def main() -> None:
        async with Client(backend_of(serve(*ENDINGS[ending])), policy=QUICK) as client:
            for number in range(4):
                with suppress(CallError, StopAsyncIteration):
                    if mode == "acall":
                        await client.acall("Where?")
                        continue
                    async with client.astream("Where?") as events:
                        for _ in range(number):
                            await anext(events)

    left: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        made = asyncio.BaseEventLoop._asyncgen_finalizer_hook  # type: ignore[attr-defined]
        patch.setattr(
            asyncio.BaseEventLoop,
            "_asyncgen_finalizer_hook",
            lambda self, each: (left.append(each), made(self, each)),
        )
        anyio.run(main, backend=loop)
    gc.collect()
    assert not left
    assert not warned


def test_streams_that_outlast_their_event_loop_end_their_calls_quietly(
    serve: Serve, backend_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[Any] = []
    client = Client(
        backend_of(
            serve(
                ScriptedReply(
                    "Rayleigh scattering.",
                    chunk_size=4,
                    hang=True,
                    cut_after=900,
                )
            )
        )
    )
    held: list[Any] = []

    async def main() -> None:
        for _ in range(12):  # an event loop ends the generators that are left in any order
            held.append(client.astream("Where?"))
            await anext(held[-1])
        steps.append(client.runtime.connections.in_this_loop().http)

    asyncio.run(main())
    assert [each.result.outcome for each in held] == ["cancelled"] * 12
    assert [steps[0].pool._taken, steps[0].pool._active] == [0, set()]
    assert not caplog.records


@on_both_loops
def test_a_client_that_is_dropped_behind_an_event_loop_is_gone_at_once(
    loop: str, serve: Serve, backend_of: Any
) -> None:
    client = Client(backend_of(serve(ANSWER)))

    async def main(client: Client) -> None:
        await client.acall("Where?")

    anyio.run(main, client, backend=loop)
    gc.collect()
    connections = weakref.ref(client.runtime.connections)
    gc.disable()
    try:
        del client
        assert connections() is None
    finally:
        gc.enable()


def test_the_pools_of_closed_event_loops_are_let_go(serve: Any, backend_of: Any) -> None:
    client = Client(backend_of(serve(ScriptedReply("In the reeds."))))
    for _ in range(5):
        asyncio.run(client.acall("Where?"))
        assert len(client.runtime.connections._in_loops) == 1
    client.close()
    assert len(client.runtime.connections._in_loops) == 0
