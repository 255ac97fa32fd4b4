"""How the body of a response ends: with errors in words, closed streams, and bounds on what is
shown.
"""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import attrs
import pytest

import rungwise
from rungwise.core import Failure, Reply, ToolOutcome
from rungwise.ui import Frames, ag_ui, sse, vercel
from support.command_line import printed_by
from support.ui_readers import AgUiReader, SseReader, VercelReader

DONE = rungwise.testing.run(rungwise.Policy(), [Reply("Yes.", stop_reason="stop")]).result
BROKEN = rungwise.testing.run(
    rungwise.Policy(limits=rungwise.Limits(retries=0)),
    [Failure("server_error", status=500, message="sk-1234567890 hi")],
).result
CALL = rungwise.ToolCall("call_1", "look", '{"at": "it"}')
RUN = {"thread_id": "t", "run_id": "r"}
ASKED = [{"id": "q", "role": "user", "content": "a secret question"}]


def bodies(*events: object) -> dict[str, Frames]:
    """Return the body that each protocol makes of these events."""
    return {
        "sse": sse(raising(*events)),
        "vercel": vercel(raising(*events)),
        "held": vercel(raising(*events), hold=True),
        "ag_ui": ag_ui(raising(*events), ASKED, **RUN),
    }


def raising(*events: object) -> Iterator[object]:
    """Yield events, and raise what is an exception."""
    for event in events:
        if isinstance(event, Exception):
            raise event
        yield event


def ends(*events: object) -> dict[str, Any]:
    """Return how each reader was told that these events ended; whatever the text, it has it."""
    text = {name: b"".join(frames) for name, frames in bodies(*events).items()}
    plain = SseReader().feed(text["sse"])
    shown = VercelReader().feed(text["vercel"])
    held = VercelReader().feed(text["held"])
    agent = AgUiReader([*ASKED]).feed(text["ag_ui"])
    assert plain.text == shown.text == held.text == agent.text
    assert shown.is_done
    assert held.is_done
    assert held.error == shown.error
    return {"sse": plain.end[1], "vercel": shown.error, "ag_ui": agent.end}


def test_an_error_of_a_call_is_told_in_words() -> None:
    with pytest.raises(rungwise.Failed) as raised:
        BROKEN.raise_for_outcome()
    words = str(raised.value)
    told = ends(rungwise.Text("So far"), raised.value)
    assert words.startswith("failed after 1 attempt")
    assert told["sse"] == {"outcome": "failed", "message": words}
    assert told["vercel"] == words
    assert told["ag_ui"]["message"] == words
    assert told["ag_ui"]["code"] == "failed"
    assert "sk-1234567890" not in json.dumps(told)


def test_a_foreign_error_is_not_quoted() -> None:
    told = ends(rungwise.Text("So far"), ValueError("sk-1234567890"))
    assert told["sse"] == {"outcome": "failed", "message": "the stream broke off"}
    assert "sk-1234567890" not in json.dumps(told)


def test_a_stream_without_a_result_has_not_ended_well() -> None:
    assert ends(rungwise.Text("So far"))["vercel"] == "the stream ended before its result"
    assert ends()["sse"]["message"] == "the stream ended before its result"


def test_a_discard_of_what_was_not_shown_is_an_error() -> None:
    body = b"".join(vercel([rungwise.Text("Yes."), rungwise.Discard("No.")], resets=True))
    assert "taken back" in VercelReader().feed(body).error


def test_a_value_that_grows_and_halves_of_characters() -> None:
    events = [rungwise.Text("\ud83d"), rungwise.PartialValue({"n": 10**30, "text": "\udc00"}), DONE]
    plain = SseReader().feed(b"".join(sse(events)))
    assert plain.value == {"n": 10**30, "text": "?"}
    chunks = VercelReader().feed(b"".join(vercel(events))).seen
    assert [chunk["data"]["n"] for chunk in chunks if chunk["type"] == "data-value"] == [10**30]
    agent = AgUiReader().feed(b"".join(ag_ui(events, [], **RUN)))
    assert agent.text == "?"
    assert agent.custom[0][0] == "value"


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (ToolOutcome({"a": [1]}), {"a": [1]}),
        (ToolOutcome("text"), "text"),
        (ToolOutcome(None), "done"),
        (ToolOutcome(fault="it is broken"), "it is broken"),
        (ToolOutcome("x" * 100_000), "(100000 characters)"),
    ],
)
def test_what_a_tool_brought(outcome: ToolOutcome, shown: object) -> None:
    events = [rungwise.ToolStarted(CALL), rungwise.ToolEnded(CALL, outcome), DONE]
    told = SseReader().feed(b"".join(sse(events))).tools["call_1"]
    failed = outcome.fault is not None
    assert told == {
        "id": "call_1",
        "name": "look",
        "input": {"at": "it"},
        "output": shown,
        "failed": failed,
    }
    [part] = [
        part
        for part in VercelReader().feed(b"".join(vercel(events))).parts
        if part["type"] == "tool"
    ]
    assert part["input"] == {"at": "it"}
    assert part["ended"] == shown
    agent = AgUiReader().feed(b"".join(ag_ui(events, [], **RUN)))
    assert agent.messages[0]["toolCalls"][0]["function"] == {
        "name": "look",
        "arguments": '{"at":"it"}',
    }
    assert agent.messages[1]["content"] == (shown if isinstance(shown, str) else '{"a":[1]}')


def test_calls_that_the_application_is_to_run_are_the_end() -> None:
    reader = VercelReader().feed(b"".join(vercel([attrs.evolve(DONE, tool_calls=(CALL,))])))
    assert reader.finish["finishReason"] == "tool-calls"
    assert [part["toolName"] for part in reader.parts if part["type"] == "tool"] == ["look"]


class Closing:
    """A stream that notes whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        return rungwise.Text("more ")

    def close(self) -> None:
        self.is_closed = True


class AsyncClosing:
    """The same for an event loop."""

    def __init__(self) -> None:
        self.is_closed = False

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        await anyio.lowlevel.checkpoint()
        return rungwise.Text("more ")

    async def aclose(self) -> None:
        self.is_closed = True


def test_a_body_that_is_closed_or_forgotten_closes_its_stream() -> None:
    closed = Closing()
    forgotten = Closing()
    frames = sse(closed)
    body = iter(sse(forgotten))
    assert next(iter(frames))
    frames.close()
    assert next(body)
    del body
    gc.collect()
    assert closed.is_closed is True
    assert forgotten.is_closed is True


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_cancelled_reader_closes_its_stream(anyio_backend: str) -> None:
    cancelled = AsyncClosing()
    closed = AsyncClosing()
    threaded = Closing()

    for stream in (cancelled, threaded):
        with anyio.CancelScope() as scope:
            async for _ in sse(stream):
                scope.cancel()
        assert scope.cancelled_caught
    await sse(closed).aclose()
    assert cancelled.is_closed is True
    assert threaded.is_closed is True
    assert closed.is_closed is True


def test_an_asynchronous_stream_is_not_iterated_in_a_thread() -> None:
    with pytest.raises(TypeError, match="async for"):
        iter(sse(AsyncClosing()))


def test_messages_must_be_those_of_the_protocol() -> None:
    with pytest.raises(rungwise.ConfigurationError, match="messages must be"):
        ag_ui([DONE], [{"role": "user", "content": "no id: sk-1234567890"}], **RUN)


def test_the_missing_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['ag_ui'] = None\nimport rungwise.ui\n"
        "try: rungwise.ui.ag_ui([], [], thread_id='t', run_id='r')\n"
        "except rungwise.ConfigurationError as error: print(error)"
    )
    assert (
        printed_by(script) == "rungwise.ui.ag_ui needs the extra: pip install 'rungwise[ag-ui]'\n"
    )


@pytest.mark.parametrize("name", ["sse", "vercel", "held", "ag_ui"])
def test_a_source_that_fails_behind_its_result_has_one_end(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = bodies(rungwise.Text("Yes."), DONE)[name]
    broken = bodies(rungwise.Text("Yes."), DONE, KeyError("a secret"))
    said = b"".join(broken[name])
    assert [line.partition(b":")[0] for line in said.split(b"\n")] == [
        line.partition(b":")[0] for line in b"".join(whole).split(b"\n")
    ]
    assert "the source of a shown stream raised KeyError at " in caplog.text
    assert "test_frames.py:" in caplog.text
    assert "a secret" not in caplog.text


@pytest.mark.parametrize("events", [None, "text", b"bytes", 3, lambda: iter(())])
def test_what_is_no_stream_is_refused_at_once(events: Any) -> None:
    for write in (sse, vercel, lambda events: ag_ui(events, ASKED, **RUN)):
        with pytest.raises(
            rungwise.ConfigurationError, match=r"events must be a stream, as client\.astream"
        ):
            write(events)
