"""The web endpoint, on a real server: what readers get, and that the call ends with them."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from logging.handlers import QueueHandler
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import httpx
import pytest
import uvicorn

import rungwise
from rungwise.testing import ScriptedReply
from rungwise.testing import testing as no_waits
from support.ui_server import served

ANSWER = "The air scatters the short waves of the light most."
ENDLESS = ScriptedReply(
    ANSWER * 100_000,
    chunk_size=50_000,
    cut_after=10**9,
    hang=True,
)
"""More than the reader's connection holds, and then silence."""
ASKED = {"question": "Why is the sky blue?"}


@pytest.fixture
def serve(example: Callable[[str], ModuleType]) -> Iterator[Callable[..., str]]:
    """Return `serve(provider)`, which serves the endpoint before that provider until the test
    ends.
    """
    with ExitStack() as stack:

        def start(provider: rungwise.testing.EmbeddedProvider) -> str:
            backend = rungwise.OpenAIChat("m", base_url=provider.base_url)
            return f"{stack.enter_context(served(example('web_endpoint').app_of(backend)))}/answer"

        yield start


@pytest.fixture
def wait_for(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[str], None]]:
    """Return `wait_for(words)`, which waits until a step of a call is logged that holds these
    words.
    """
    lines: SimpleQueue[logging.LogRecord] = SimpleQueue()
    handler = QueueHandler(lines)
    logger = logging.getLogger("rungwise")
    caplog.set_level(logging.DEBUG, "rungwise")
    logger.addHandler(handler)

    def wait(words: str) -> None:
        while words not in lines.get(timeout=5).getMessage():
            pass

    yield wait
    logger.removeHandler(handler)


def events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """Read server-sent events."""
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def get(url: str, **options: Any) -> list[tuple[str, Any]]:
    with httpx.stream("GET", url, params=ASKED, **options) as response:
        assert (response.status_code, response.headers["content-type"]) == (
            200,
            "text/event-stream; charset=utf-8",
        )
        return list(events(response.iter_lines()))


def shown(seen: list[tuple[str, Any]]) -> str:
    """Return what stands on the reader's screen."""
    text = ""
    for name, data in seen:
        text = (
            text + data
            if name == "text"
            else text[: len(text) - data]
            if name == "discard"
            else text
        )
    return text


def test_an_answer_is_streamed_and_the_deadline_of_the_reader_is_passed_on(
    serve: Callable[..., str], rungwise_provider: Any
) -> None:
    provider = rungwise_provider(ScriptedReply(ANSWER))
    until = datetime.now(UTC) + timedelta(seconds=20)
    seen = get(
        serve(provider),
        headers={
            "x-deadline": until.isoformat(),
            "cookie": "a=b",
            "authorization": "Bearer theirs",
        },
    )
    assert (shown(seen), seen[-1]) == (ANSWER, ("done", "done"))
    (request,) = provider.requests
    assert request.body["messages"] == [{"role": "user", "content": ASKED["question"]}]
    assert (request.body["stream"], request.body["max_tokens"]) == (True, 1_000)
    assert abs(datetime.fromisoformat(request.headers["x-deadline"]) - until) < timedelta(seconds=2)
    assert not {"cookie", "authorization"} & request.headers.keys()


@pytest.mark.parametrize(
    ("reply", "is_open"),
    [
        pytest.param(ScriptedReply(ANSWER * 1_000, chunk_delay=0.02), True, id="in mid-stream"),
        pytest.param(ENDLESS, True, id="while nothing more can be sent"),
        pytest.param(ScriptedReply(hang=True), True, id="before the first word"),
        pytest.param(
            ScriptedReply(status=429, headers={"retry-after": "12"}), False, id="during a wait"
        ),
    ],
)
def test_a_reader_who_leaves_ends_the_call_and_nothing_more_is_sent(
    serve: Callable[..., str],
    rungwise_provider: Any,
    wait_for: Callable[[str], None],
    reply: ScriptedReply,
    is_open: bool,
) -> None:
    arrived = threading.Event()

    def answer(request: rungwise.testing.ReceivedRequest) -> ScriptedReply:
        arrived.set()
        return reply

    provider = rungwise_provider(answer)
    with httpx.stream("GET", serve(provider), params=ASKED) as response:
        assert response.status_code == 200
        if reply.text:
            assert next(events(response.iter_lines()))[0] == "text"
        assert arrived.wait(5)
        if not is_open:
            wait_for("-> retry")
    wait_for("-> cancelled")
    if is_open:  # otherwise the connection is kept, for whoever asks next
        assert provider.wait_disconnected()
    assert len(provider.requests) == 1
    assert provider.aborted == is_open


def test_a_provider_in_trouble_is_asked_again_and_the_reader_reads_one_answer(
    serve: Callable[..., str], rungwise_provider: Any
) -> None:
    provider = rungwise_provider(
        ScriptedReply(status=503),
        ScriptedReply(),
        ScriptedReply(ANSWER, cut_after=500),
        ScriptedReply(ANSWER),
    )
    with no_waits():
        seen = get(serve(provider))
    assert (shown(seen), seen[-1]) == (ANSWER, ("done", "done"))
    assert len(provider.requests) == 4


def test_a_failure_is_an_event_that_names_no_backend(
    serve: Callable[..., str], rungwise_provider: Any
) -> None:
    provider = rungwise_provider(ScriptedReply(status=401))
    assert get(serve(provider)) == [("error", "failed")]
    assert len(provider.requests) == 1


@pytest.mark.parametrize(("asked", "headers"), [({}, {}), (ASKED, {"x-deadline": "soon"})])
def test_what_cannot_be_asked_is_refused_and_nothing_is_sent(
    serve: Callable[..., str],
    rungwise_provider: Any,
    asked: dict[str, str],
    headers: dict[str, str],
) -> None:
    provider = rungwise_provider(ScriptedReply(ANSWER))
    assert httpx.get(serve(provider), params=asked, headers=headers).status_code == 400
    assert provider.requests == []


def test_the_command_plays_without_a_key(
    command: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def run(app: Any, **options: Any) -> None:
        with served(app) as url, httpx.stream("GET", f"{url}/answer", params=ASKED) as response:
            seen.append(next(events(response.iter_lines())))

    monkeypatch.setattr(uvicorn, "run", run)
    command("web_endpoint")
    assert seen == [("text", "The air scat")]
