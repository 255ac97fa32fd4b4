"""Nothing is held once a call is over, however it ended: no cycle that only the garbage collector would free."""

from __future__ import annotations

import asyncio
import gc
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import anyio
import pytest

import rungwise
from rungwise import Client, EmbeddedProvider, ScriptedReply
from support.modes import ask

ANSWER = ScriptedReply(text="Rayleigh scattering, most of all. " * 4)
LOOKS = ScriptedReply(tool_calls=[{"name": "look", "arguments": "{}"}])
LOST = ScriptedReply(text="Rayleigh scattering.", cut_after=150)
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


@pytest.fixture
def garbage() -> Iterator[Callable[[Callable[[], object]], int]]:
    """Return what counts the objects that only the collector frees behind ten calls, the first ones aside."""

    def count(call: Callable[[], object]) -> int:
        for _ in range(3):
            call()
        gc.collect()
        for _ in range(10):
            call()
        return gc.collect()

    gc.disable()
    yield count
    gc.enable()


def trying(function: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        with suppress(rungwise.CallError, rungwise.TurnError):
            function()

    return call


ENDINGS: dict[str, tuple[ScriptedReply, ...]] = {
    "answered": (ANSWER,),
    "failed": (ScriptedReply(status=500),),
    "not allowed": (ScriptedReply(status=401),),
    "cut": (LOST,),
    "silent": (ScriptedReply(hang=True),),
}


@pytest.mark.parametrize("mode", ["call", "stream", "acall", "astream"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_call_leaves_nothing_for_the_collector(
    mode: str, ending: str, serve: Callable[..., EmbeddedProvider], backend_of: Any, garbage: Any
) -> None:
    client = Client(backend_of(serve(*ENDINGS[ending])), policy=QUICK)
    if not mode.startswith("a"):
        assert garbage(trying(lambda: ask(client, mode))) == 0
        client.close()
        return
    with asyncio.Runner() as runner:

        async def one() -> None:
            with suppress(rungwise.CallError):
                if mode == "acall":
                    await client.acall("Where?")
                else:
                    async for _ in client.astream("Where?"):
                        pass

        assert garbage(lambda: runner.run(one())) == 0
        runner.run(client.aclose())


PROTOCOLS = ("OpenAIChat", "OpenAIResponses", "Anthropic", "Gemini", "Ollama", "Bedrock")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_a_stream_in_a_cycle_that_is_collected_ends_its_call_with_what_was_said(
    mode: str, protocol: str, serve: Callable[..., EmbeddedProvider], caplog: pytest.LogCaptureFixture
) -> None:
    provider = serve(ScriptedReply(text="Rayleigh scattering.", chunk_size=4, cut_after=1_000, chunk_delay=0.02))
    options = {"region": "eu-north-1"} if protocol == "Bedrock" else {}
    backend = getattr(rungwise, protocol)("model", base_url=provider.base_url, api_key="sk-key-0123456789", **options)
    client, steps, said = Client(backend, observer=lambda step: steps.append(step)), list[Any](), list[str]()

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
