"""Streams go on without readers, are sent again from where one stopped, and are forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest

import rungwise
from rungwise.adapters.ui import resuming
from rungwise.ui import Frames, ResumableStreams, sse, vercel
from support.ui_readers import SseReader, VercelReader

pytestmark = pytest.mark.anyio

DONE = rungwise.testing.run(
    rungwise.Policy(), [rungwise.core.Reply("One two", stop_reason="stop")]
).result


class Source:
    """A stream whose events come when the test says so."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[object](100)
        self.is_closed = False

    def say(self, *events: object) -> None:
        for event in events:
            self._send.send_nowait(event)
            if isinstance(event, rungwise.Result):
                self._send.close()

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        return await anext(self._receive)

    async def aclose(self) -> None:
        self.is_closed = True


async def gathered(frames: Frames | None) -> bytes:
    assert frames is not None
    return b"".join([chunk async for chunk in frames])


async def settled() -> None:
    for _ in range(300):
        await anyio.lowlevel.checkpoint()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


async def test_a_stream_goes_on_when_its_reader_leaves_and_who_comes_back_gets_the_rest() -> None:
    source = Source()
    async with ResumableStreams() as streams:
        id = streams.start(sse(source))
        source.say(rungwise.Text("One "))
        reader = SseReader()
        frames = streams.read(id)
        async for chunk in frames:
            if reader.feed(chunk).last_id:
                break
        assert reader.last_id == 1
        source.say(rungwise.Text("wrong"), rungwise.Discard("wrong"), rungwise.Text("two"))
        await settled()
        source.say(DONE)
        reader.feed(await gathered(streams.read(id, reader.last_id)))
        assert reader.text == "One two"
        assert reader.end[0] == "result"
        assert SseReader().feed(await gathered(streams.read(id))) == reader
        assert streams.read(id, reader.last_id) is None
        assert source.is_closed


async def test_vercels_reader_gets_the_message_from_its_start() -> None:
    source = Source()
    async with ResumableStreams() as streams:
        id = streams.start(vercel(source, message_id="m", resets=True))
        source.say(rungwise.Text("One wrong"), rungwise.Discard("wrong"))
        await settled()
        frames = streams.read(id)
        assert frames.headers["x-vercel-ai-ui-message-stream"] == "v1"
        source.say(rungwise.Text("two"), DONE)
        reader = VercelReader().feed(await gathered(frames))
        assert reader.text == "One two"
        assert reader.is_done is True


async def test_cancelling_ends_the_stream_for_its_readers() -> None:
    source = Source()
    async with ResumableStreams() as streams:
        id = streams.start(sse(source))
        source.say(rungwise.Text("One "))
        await settled()
        streams.cancel(id)
        reader = SseReader().feed(await gathered(streams.read(id)))
        assert reader.text == "One "
        assert reader.end == (
            "error",
            {"outcome": "cancelled", "message": "the reader cancelled it"},
        )
        assert source.is_closed
        streams.cancel("another")


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "LARGEST", 1_000)
    monkeypatch.setattr(resuming, "MOST", 3)

    now = 0.0
    async with ResumableStreams(clock=lambda: now) as streams:
        source = Source()
        id = streams.start(sse(source))
        slow = streams.read(id)
        source.say(*[rungwise.Text("x" * 100)] * 50)
        await settled()
        source.say(DONE)
        await settled()
        assert streams.read(id) is None
        assert streams.read(id, 3) is None
        assert SseReader(last_id=48).feed(await gathered(streams.read(id, 48))).end[0] == "result"
        # which breaks the connection off
        with pytest.raises(rungwise.RungwiseError, match="too slow"):
            await gathered(slow)
        assert [streams.read(id, after) for after in (-2, 10**30)] == [None, None]
        assert [streams.read(id, after) for after in ("", "-1", "nonsense", "9" * 5_000, "²")] == [
            None
        ] * 5
        assert await gathered(streams.read(id, "48")) == await gathered(streams.read(id, 48))
        now = 300.0
        assert streams.read(id, 48) is not None
        now = 301.0
        assert streams.read(id, 48) is None


async def test_no_stream_that_runs_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "MOST", 3)
    async with ResumableStreams() as streams:
        sources = [Source() for _ in range(3)]
        ids = [streams.start(sse(each)) for each in sources]
        await settled()
        with pytest.raises(rungwise.RungwiseError, match="3 streams run already"):
            streams.start(sse(Source()))
        assert all(streams.read(each) is not None for each in ids)
        sources[1].say(DONE)
        await settled()
        ids.append(streams.start(sse(Source())))
        assert [streams.read(each) is None for each in ids] == [False, True, False, False]
        streams.cancel(ids[0])
        await settled()
        assert sources[0].is_closed


async def test_a_synchronous_stream_is_read_in_a_thread() -> None:
    async with ResumableStreams() as streams:
        id = streams.start(sse(iter([rungwise.Text("One two"), DONE])))
        assert SseReader().feed(await gathered(streams.read(id))).text == "One two"


async def test_it_must_be_entered() -> None:
    with pytest.raises(rungwise.ConfigurationError, match="async with"):
        ResumableStreams().start(sse([DONE]))

    async with ResumableStreams() as streams:
        with pytest.raises(
            rungwise.ConfigurationError,
            match=r"frames must be those of rungwise.ui.sse\(...\), not",
        ):
            streams.start([DONE])  # type: ignore[arg-type]
    with pytest.raises(rungwise.ConfigurationError, match="async with"):
        streams.start(sse([DONE]))
