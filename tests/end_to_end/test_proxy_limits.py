"""What the proxy bounds: bodies, their time, how many requests run, and what runs on for nobody."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import pytest

from rungwise import Result
from rungwise.adapters.gateway import asgi
from rungwise.adapters.gateway.gateway import Gateway
from rungwise.adapters.gateway.proxy import Proxy
from rungwise.adapters.provider.server import render
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.gateways import PATHS, client_over, path_of, written
from support.proxied import Exchange
from support.runs import Stage, Stages
from support.sdks import APIS
from support.waiting import auntil

TEXT: Final = "In the reeds, mostly; some of them in the alders behind the boathouse."
JSON: Final = {"content-type": "application/json"}
MEMBERS: Final = {
    "openai": "error",
    "responses": "error",
    "anthropic": "type",
    "gemini": "error",
    "interactions": "error",
}

pytestmark = pytest.mark.sampled(2)


every = pytest.mark.parametrize("api", APIS)


ANSWERS: Final = (ScriptedReply(TEXT),)


def hanging(request: ReceivedRequest) -> ScriptedReply:
    """Fall silent for ever in the middle of a text."""
    reply = ScriptedReply(TEXT, chunk_size=20, hang=True)
    pieces = render(reply, request.body, path=request.path).pieces
    return attrs.evolve(reply, cut_after=sum(map(len, pieces[:4])))


def request_of(
    app: Any,
    api: str,
    *,
    streams: bool = False,
    body: bytes | None = None,
) -> Exchange:
    """Return a request whose body has come."""
    path, _, query = path_of(api, streams=streams).partition("?")
    exchange = Exchange(app, path=path, query=query, headers=dict(JSON))
    whole = written(api)
    if streams and api != "gemini":
        whole = {**whole, "stream": True}
    exchange.give(json.dumps(whole).encode() if body is None else body)
    return exchange


def over(
    stage: Stage,
    play: Callable[[Any, Any], Awaitable[None]],
    script: Any = ANSWERS,
    **options: Any,
) -> list[Result]:
    """Play with an application over a scripted server, and return the results that it kept."""
    kept: list[Result] = []
    stage.play(script)

    async def main() -> None:
        client = client_over(["openai"], [stage])
        gateway = Gateway(client, False, lambda id, result: kept.append(result))
        try:
            await play(Proxy(gateway, **options), client)
        finally:
            await client.aclose()

    asyncio.run(main())
    return kept


@every
def test_a_body_that_is_too_large_is_413(api: str, stages: Stages) -> None:
    async def play(app: Any, client: Any) -> None:
        app.largest_body = 1_000
        exchange = Exchange(app, path=PATHS[api], headers=dict(JSON))
        for _ in range(3):
            exchange.give(b" " * 400, more=True)
        await exchange.run()
        assert (exchange.status, exchange.is_over) == (413, True)
        assert MEMBERS[api] in json.loads(exchange.body)
        assert exchange.messages.empty(), "nothing more was read than was needed"

    over(stages[0], play)
    assert stages[0].requests == []


@every
def test_a_body_that_does_not_come_is_408(
    api: str, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "BODY_SECONDS", 0.01)

    async def play(app: Any, client: Any) -> None:
        exchange = Exchange(app, path=PATHS[api], headers=dict(JSON))
        exchange.give(b"{", more=True)
        await exchange.run()
        assert (exchange.status, exchange.is_over) == (408, True)
        assert MEMBERS[api] in json.loads(exchange.body)

    over(stages[0], play)


def test_a_client_that_leaves_before_its_body_has_come_gets_nothing(
    stages: Stages,
) -> None:
    async def play(app: Any, client: Any) -> None:
        exchange = Exchange(app, path=PATHS["openai"], headers=dict(JSON))
        exchange.give(json.dumps(written("openai")).encode(), more=True)
        exchange.leave()
        await exchange.run()

    over(stages[0], play)
    assert stages[0].requests == []


@every
def test_too_many_requests_are_503_with_retry_after(api: str, stages: Stages) -> None:
    async def play(app: Any, client: Any) -> None:
        first = request_of(app, "openai")
        running = asyncio.create_task(first.run())
        await auntil(lambda: stages[0].requests)
        second = await request_of(app, api).run()
        assert second.status == 503
        assert second.reply_headers["retry-after"] == "1"
        assert MEMBERS[api] in json.loads(second.body)
        first.leave()
        await running
        third = request_of(app, api)
        stages[0].play([ScriptedReply(TEXT)])
        assert (await third.run()).status == 200, "there is a place again"

    over(stages[0], play, [hanging], most=1)


@pytest.mark.own_connections
@pytest.mark.parametrize("streams", [False, True])
@every
def test_a_client_that_goes_away_cancels_its_call(api: str, streams: bool, stages: Stages) -> None:
    async def play(app: Any, client: Any) -> None:
        before = stages[0].provider.open_connections  # those of earlier tests
        exchange = request_of(app, api, streams=streams)
        running = asyncio.create_task(exchange.run())
        await auntil(lambda: stages[0].requests)
        if streams:
            await auntil(lambda: exchange.body)
        exchange.leave()
        await asyncio.wait_for(running, 5)
        await auntil(lambda: stages[0].provider.open_connections <= before)
        assert not exchange.is_over

    [result] = over(stages[0], play, [hanging])
    assert result.outcome == "cancelled"
    assert len(stages[0].requests) == 1


# the end


def test_a_request_that_comes_after_the_end_is_refused(stages: Stages) -> None:
    async def play(app: Any, client: Any) -> None:
        app.end()
        exchange = await request_of(app, "openai").run()
        assert exchange.status == 503

    over(stages[0], play)
    assert stages[0].requests == []


# what is no request


def test_a_lifespan_is_answered(stages: Stages) -> None:
    sent: list[str] = []

    async def play(app: Any, client: Any) -> None:
        messages: asyncio.Queue[Any] = asyncio.Queue()
        for kind in ("startup", "shutdown"):
            messages.put_nowait({"type": f"lifespan.{kind}"})

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await app({"type": "lifespan"}, messages.get, send)
        await app({"type": "websocket", "path": "/"}, messages.get, send)

    over(stages[0], play)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete", "websocket.close"]
