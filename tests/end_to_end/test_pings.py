"""A stream on which nothing comes says that it lives, at each door, and its readers do not mind.

No test waits for a time: what is silent goes on once the test has seen two pings.
"""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import anyio
import httpx
import pytest

import rungwise
from rungwise import Client, ConfigurationError, Limits, Policy, asgi
from rungwise.adapters.gateway.gateway import SPOKEN
from rungwise.testing import ReceivedRequest, ScriptedReply
from rungwise.ui import Frames, ResumableStreams, ag_ui, sse, vercel
from support import protocols, sdks
from support.gateways import client_over, path_of, written
from support.proxied import served
from support.runs import Stages
from support.sdks import APIS
from support.ui_readers import AgUiReader, SseReader, VercelReader

SOON: Final = 0.01
"""The seconds of a ping in these tests."""
TEXT: Final = "In the reeds, mostly; some of them in the alders behind the boathouse."
COMMENT: Final = b":\n\n"
ONCE: Final = Policy(limits=Limits(retries=0))
DONE: Final = rungwise.testing.run(Policy(), [rungwise.core.Reply("Yes.", stop_reason="stop")])
PINGS: Final = {each.api: each.ping for each in SPOKEN}
BOTH: Final = pytest.mark.parametrize("backend", ["asyncio", "trio"])

every = pytest.mark.parametrize("api", APIS)


class Watched:
    """An application that says when it has sent two pings."""

    def __init__(self, client: Client, api: str, ping: float | None = SOON) -> None:
        self.app = asgi(client, ping=ping)
        self.ping = PINGS[api]
        self.count = 0
        self.has_pinged = threading.Event()
        self.heads: list[int] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def seen(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.heads.append(message["status"])
            if message.get("body") == self.ping:
                self.count += 1
                if self.count >= 2:
                    self.has_pinged.set()
            await send(message)

        await self.app(scope, receive, seen)

    def then(self, reply: ScriptedReply) -> Callable[[ReceivedRequest], ScriptedReply]:
        """Return what answers once there were two pings."""

        def answer(request: ReceivedRequest) -> ScriptedReply:
            assert self.has_pinged.wait(60)
            return reply

        return answer


def stream(url: str, api: str, body: dict[str, Any]) -> httpx.Response:
    """Ask for a stream, and read it."""
    if api != "gemini":
        body = {**body, "stream": True}
    return httpx.post(url + path_of(api, streams=True), json=body, timeout=60)


@pytest.mark.parametrize("way", ["stream", "astream"])
@every
def test_an_sdk_reads_a_stream_with_pings(api: str, way: str, stages: Stages) -> None:
    with client_over(["openai"], stages[:1]) as client:
        app = Watched(client, api)
        stages[0].play([app.then(ScriptedReply(TEXT))])
        with served(app) as url:
            seen = sdks.ask(api, way, base_url=url)
    assert (seen.error, seen.text) == (None, TEXT)


@every
def test_pings_come_between_pieces_too(api: str, stages: Stages) -> None:
    with client_over(["openai"], stages[:1]) as client:
        app = Watched(client, api)
        cut = protocols.cut_in_half(ScriptedReply(TEXT, chunk_size=5))
        stages[0].play([cut, app.then(ScriptedReply(TEXT))])
        with served(app) as url:
            seen = sdks.ask(api, "stream", base_url=url)
    assert seen.error is None
    assert seen.text.endswith("boathouse.")
    assert app.count >= 2


@every
def test_an_error_after_a_ping_is_an_event_of_the_stream(api: str, stages: Stages) -> None:
    with client_over(["openai"], stages[:1], policy=ONCE) as client:
        app = Watched(client, api)
        stages[0].play([app.then(ScriptedReply(status=429))])
        with served(app) as url:
            seen = sdks.ask(api, "stream", base_url=url)
    assert app.heads == [200]
    assert seen.error is not None
    assert "429" in seen.message
    assert seen.text == ""


@pytest.mark.full
@every
def test_an_error_before_one_keeps_its_status(api: str, stages: Stages) -> None:
    with client_over(["openai"], stages[:1], policy=ONCE) as client:
        app = Watched(client, api, ping=3_600)
        stages[0].play([ScriptedReply(status=429)])
        with served(app) as url:
            seen = sdks.ask(api, "stream", base_url=url)
    assert app.heads == [429]
    assert seen.status == 429


@every
def test_what_is_forwarded_has_pings_too(api: str, stages: Stages) -> None:
    with client_over([api], stages[:1], policy=ONCE) as client:
        app = Watched(client, api)
        stages[0].play([app.then(ScriptedReply(TEXT, chunk_size=200))])
        with served(app) as url:
            response = stream(url, api, {**written(api), "unheard_of": 5})
        assert TEXT in response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        stages[0].play([app.then(ScriptedReply(status=429))])
        app.has_pinged.clear()
        with served(app) as url:
            response = stream(url, api, {**written(api), "unheard_of": 5})
    assert response.status_code == 200
    assert "429" in response.text


@every
def test_a_stream_tells_those_between_not_to_keep_it(api: str, stages: Stages) -> None:
    stages[0].play([ScriptedReply(TEXT)])
    with client_over(["openai"], stages[:1]) as client, served(asgi(client)) as url:
        response = stream(url, api, written(api))
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.own_connections
@every
def test_a_program_that_leaves_in_silence_ends_its_call(api: str, stages: Stages) -> None:
    ended = threading.Event()
    with client_over(["openai"], stages[:1]) as client:
        app = Watched(client, api)
        gateway = app.app.gateway
        object.__setattr__(gateway, "keep", lambda id, result: ended.set())
        stages[0].play([ScriptedReply(TEXT, hang=True, cut_after=0)])
        with served(app) as url:
            body = written(api) if api == "gemini" else {**written(api), "stream": True}
            path = path_of(api, streams=True)
            with httpx.stream("POST", url + path, json=body, timeout=60) as response:
                next(response.iter_raw())
            assert ended.wait(60)


# user interfaces


def bodies(events: Any, ping: float | None = SOON) -> dict[str, Frames]:
    """Return the body that each protocol makes of a stream; only one may be read."""
    run = {"thread_id": "t", "run_id": "r"}
    return {
        "sse": sse(events, ping=ping),
        "vercel": vercel(events, ping=ping),
        "ag_ui": ag_ui(events, [], **run, ping=ping),
    }


READERS: Final = {"sse": SseReader, "vercel": VercelReader, "ag_ui": AgUiReader}
each_ui = pytest.mark.parametrize("kind", READERS)


def text_of(kind: str, chunks: list[bytes]) -> str:
    """Return what a reader has on the screen."""
    text: str = READERS[kind]().feed(b"".join(chunks)).text
    return text


@BOTH
@each_ui
def test_an_interface_has_pings_while_a_stream_is_silent(kind: str, backend: str) -> None:
    async def main() -> list[bytes]:
        go_on = anyio.Event()

        async def events() -> AsyncIterator[object]:
            yield rungwise.Text("Yes")
            await go_on.wait()
            yield rungwise.Text(".")
            yield DONE.result

        chunks = []
        async for chunk in bodies(events())[kind]:
            chunks.append(chunk)
            if chunks[-2:] == [COMMENT] * 2:
                go_on.set()
        return chunks

    assert text_of(kind, anyio.run(main, backend=backend)) == "Yes."


@each_ui
def test_so_has_one_that_threads_serve(kind: str) -> None:
    go_on = threading.Event()

    def events() -> Iterator[object]:
        yield rungwise.Text("Yes")
        assert go_on.wait(60)
        yield rungwise.Text(".")
        yield DONE.result

    chunks = []
    for chunk in bodies(events())[kind]:
        chunks.append(chunk)
        if chunks[-2:] == [COMMENT] * 2:
            go_on.set()
    assert text_of(kind, chunks) == "Yes."


@pytest.mark.parametrize("is_async", [False, True])
def test_pings_come_while_a_tool_runs(is_async: bool, stages: Stages) -> None:
    go_on = threading.Event()

    def look() -> str:
        """Look."""
        assert go_on.wait(60)
        return "blue"

    call = rungwise.ToolCall("call_1", "look", "{}")
    stages[0].play([ScriptedReply(tool_calls=(call,)), ScriptedReply(TEXT)])
    chunks: list[bytes] = []

    def take(chunk: bytes) -> None:
        chunks.append(chunk)
        if b'"name":"look"' in b"".join(chunks) and chunks[-2:] == [COMMENT] * 2:
            go_on.set()

    async def main(client: Client) -> None:
        async for chunk in sse(client.astream_turn("Where?", tools=[look]), ping=SOON):
            take(chunk)
        await client.aclose()

    with client_over(["openai"], stages[:1]) as client:
        if is_async:
            anyio.run(main, client)
        else:
            for chunk in sse(client.stream_turn("Where?", tools=[look]), ping=SOON):
                take(chunk)
    assert go_on.is_set()
    assert text_of("sse", chunks) == TEXT


@BOTH
def test_a_reader_who_leaves_in_silence_ends_the_stream(backend: str) -> None:
    ended: list[str] = []

    async def main() -> None:
        async def events() -> AsyncIterator[object]:
            try:
                await anyio.sleep_forever()
                yield
            finally:
                ended.append("stream")

        frames = sse(events(), ping=SOON).__aiter__()
        assert [await anext(frames) for _ in range(3)] == [COMMENT] * 3
        await frames.aclose()  # type: ignore[attr-defined]
        ended.append("reader")

    anyio.run(main, backend=backend)
    assert ended == ["stream", "reader"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_reader_who_leaves_in_silence_ends_the_call(is_async: bool, stages: Stages) -> None:
    stages[0].play([ScriptedReply(TEXT, hang=True, cut_after=0)])

    async def main(client: Client) -> Any:
        events = client.astream("Where?")
        frames = sse(events, ping=SOON).__aiter__()
        while not stages[0].requests:
            await anext(frames)
        await frames.aclose()  # type: ignore[attr-defined]
        await client.aclose()
        return events

    with client_over(["openai"], stages[:1]) as client:
        if is_async:
            events = anyio.run(main, client)
        else:
            events = client.stream("Where?")
            body = sse(events, ping=SOON)
            chunks = iter(body)
            while not stages[0].requests:
                next(chunks)
            body.close()
    assert events.cancellation.is_cancelled or events.result.outcome == "cancelled"


@pytest.mark.parametrize("is_async", [False, True])
def test_nothing_is_lost_between_pings(is_async: bool) -> None:
    pieces = [rungwise.Text(f"{number} ") for number in range(50)]

    async def main() -> list[bytes]:
        async def events() -> AsyncIterator[object]:
            for piece in pieces:
                await anyio.sleep(0)
                yield piece
            yield DONE.result

        return [chunk async for chunk in sse(events(), ping=1e-9)]

    chunks = anyio.run(main) if is_async else [*sse([*pieces, DONE.result], ping=1e-9)]
    assert text_of("sse", chunks) == "".join(piece.text for piece in pieces)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_behind_pings_is_told(is_async: bool) -> None:
    def events() -> Iterator[object]:
        yield rungwise.Text("Yes")
        raise ValueError("sk-1234567890")

    async def main() -> list[bytes]:
        async def in_loop() -> AsyncIterator[object]:
            for event in events():
                yield event

        return [chunk async for chunk in sse(in_loop(), ping=SOON)]

    chunks = anyio.run(main) if is_async else [*sse(events(), ping=SOON)]
    end = SseReader().feed(b"".join(chunks)).end
    assert end == ("error", {"outcome": "failed", "message": "the stream broke off"})


def test_pings_have_no_number_in_what_is_kept_of_a_stream() -> None:
    async def main() -> tuple[list[bytes], list[bytes]]:
        go_on = anyio.Event()

        async def events() -> AsyncIterator[object]:
            yield rungwise.Text("Yes")
            await go_on.wait()
            yield rungwise.Text(".")
            yield DONE.result

        async with ResumableStreams() as streams:
            id = streams.start(sse(events(), ping=SOON))
            first = streams.read(id)
            assert first is not None
            chunks = []
            async for chunk in first:
                chunks.append(chunk)
                if chunks[-2:] == [COMMENT] * 2:
                    go_on.set()
            rest = streams.read(id, after=1)
            assert rest is not None
            return chunks, [chunk async for chunk in rest]

    whole, rest = anyio.run(main)
    assert text_of("sse", whole) == "Yes."
    assert b"id: 2" in b"".join(rest)
    assert b"id: 1\n" not in b"".join(rest)


@pytest.mark.parametrize("ping", [0, -1, float("nan"), "15", True])
def test_a_ping_that_is_no_time_is_refused(ping: Any, stages: Stages) -> None:
    with client_over(["openai"], stages[:1]) as client:
        for door in (lambda: asgi(client, ping=ping), lambda: sse([], ping=ping)):
            with pytest.raises(ConfigurationError, match="ping must be a number of seconds"):
                door()
