"""The caller ends the call, in every way and at every moment."""

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from typing import Any

import anyio
import httpx
import httpx2
import pytest

import rungwise
from rungwise import Cancellation, Client
from rungwise.adapters.http.cancellation import SLICE
from rungwise.testing import ScriptedReply
from support.modes import aask, ask, follow, options_of
from support.waiting import auntil, ctrl_c_interrupts, until
from support.ways import Either, Reading

# Nothing may be left behind that Python has to clean up.
pytestmark = pytest.mark.filterwarnings("error")

SOON = 1.0  # the promise is 0.1 s, a broken one takes 2 s or more; the rest is for a busy machine
FIRST = "Herons nest in reeds, "
THOUGHT = "Herons like shallow water and reeds."
PROMPT = "Where do herons nest?"
HANGS = ScriptedReply(hang=True)
ASKS_TO_WAIT = ScriptedReply(status=429, headers={"retry-after": "30"})
ANSWER = ScriptedReply(text="In the reeds, mostly.")
STREAMED = pytest.mark.parametrize("mode", ["call", "stream"])


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C interrupt, also where a shell has started the tests in the background and ignores
    it.
    """
    with ctrl_c_interrupts():
        yield


@pytest.fixture
def silent(cut: Any) -> Any:
    """Say FIRST, and then nothing more."""
    return cut(ScriptedReply(text=FIRST + "never sent", chunk_size=len(FIRST)), FIRST, hang=True)


class Later:
    """Do something in another thread, a moment after a condition holds; `since` tells how long ago
    that was.
    """

    def __init__(self, condition: Callable[[], Any], action: Callable[[], Any]) -> None:
        self.at = float("inf")

        def act() -> None:
            until(condition)
            time.sleep(0.05)
            self.at = time.monotonic()
            action()

        self._thread = threading.Thread(target=act)
        self._thread.start()

    def since(self) -> float:
        self._thread.join()
        return time.monotonic() - self.at


def no_more_requests(provider: Any, count: int = 1) -> bool:
    time.sleep(0.05)
    return len(provider.requests) == count


def check(result: rungwise.Result, text: str = "") -> None:
    assert (result.outcome, result.text) == ("cancelled", text)
    assert result.tool_calls == ()
    assert result.journal.last.event == "cancelled"
    replayed = rungwise.replay(rungwise.Journal.from_json(result.journal.to_json()))
    assert replayed.journal.steps == result.journal.steps
    assert replayed.text == result.text


# a Cancellation, from another thread


def has_text(events: list[Any]) -> bool:
    return any(isinstance(event, rungwise.Text) for event in events)


def cancelled(
    client: Client,
    mode: str,
    condition: Callable[[list[Any]], Any],
    provider: Any = None,
) -> tuple[rungwise.Result, list[Any]]:
    """Make a call that is cancelled as soon as a condition holds for its events, and return its
    result and its events.

    A provider is to see at once that the client has left.
    """
    token = Cancellation()
    events = list[Any]()
    with client:
        later = Later(lambda: condition(events), token.cancel)
        with pytest.raises(rungwise.Cancelled) as raised:
            ask(client, mode, PROMPT, events=events, cancellation=token)
        assert later.since() < SOON
        assert provider is None or provider.wait_disconnected()
    return raised.value.result, events


@STREAMED
@pytest.mark.parametrize(
    "reply", [ASKS_TO_WAIT, HANGS], ids=["during a wait", "before the first byte"]
)
def test_cancelled_before_there_is_text(
    serve: Any,
    backend_of: Any,
    mode: str,
    reply: ScriptedReply,
) -> None:
    provider = serve(reply)
    client = Client(backend_of(provider), contents=True)
    result, _ = cancelled(
        client, mode, lambda events: provider.requests, provider if reply is HANGS else None
    )
    check(result)
    assert no_more_requests(provider)


@pytest.mark.parametrize(
    ("mode", "library"),
    [("stream", None), ("stream", httpx), ("stream", httpx2), ("call", None), ("whole", None)],
)
def test_cancelled_in_the_middle_of_a_stream_or_of_a_body(
    serve: Any, backend_of: Any, silent: Any, mode: str, library: Any
) -> None:
    provider = serve(silent)
    # the most that a broken promise may cost here
    policy = rungwise.Policy(timeouts=rungwise.Timeouts(stall=2))
    with library.Client() if library else nullcontext() as http:
        options = {"http": http, "policy": policy, **options_of(mode)}
        client = Client(backend_of(provider), contents=True, **options)
        is_read = has_text if mode == "stream" else lambda events: provider.requests
        result, events = cancelled(client, mode, is_read, provider)
    check(result, "" if mode == "whole" else FIRST)
    if mode == "stream":
        assert follow(events) == FIRST
        assert result.usage.output_tokens > 0
    assert no_more_requests(provider)


@STREAMED
@pytest.mark.parametrize(
    ("reply", "moment", "text"),
    [
        (ScriptedReply(status=500), "failed_transiently", ""),
        (ScriptedReply(text=FIRST, finish="length"), "truncated", FIRST),
    ],
    ids=["with a wait", "without a wait"],
)
def test_cancelled_between_attempts(
    serve: Any,
    backend_of: Any,
    mode: str,
    reply: ScriptedReply,
    moment: str,
    text: str,
) -> None:
    provider = serve(reply)
    token = Cancellation()

    def observe(step: rungwise.Step) -> None:
        if step.event == moment:
            token.cancel()

    client = Client(
        backend_of(provider),
        observer=observe,
        testing=rungwise.testing.Clocks(sleep=lambda seconds: None),
        contents=True,
    )
    with client, pytest.raises(rungwise.Cancelled) as raised:
        ask(client, mode, PROMPT, cancellation=token)
    check(raised.value.result, text)
    assert no_more_requests(provider)


@STREAMED
def test_cancelled_before_it_began(serve: Any, backend_of: Any, mode: str) -> None:
    provider = serve(ANSWER)
    token = Cancellation()
    token.cancel()
    with Client(backend_of(provider)) as client, pytest.raises(rungwise.Cancelled) as raised:
        ask(client, mode, PROMPT, cancellation=token)
    assert raised.value.result.attempts == 0
    assert no_more_requests(provider, 0)


@STREAMED
def test_a_cancellation_while_the_reply_drains_is_no_empty_reply(
    serve: Any, backend_of: Any, mode: str
) -> None:
    provider = serve(ScriptedReply(reasoning="hm", chunk_delay=0.15, write_sizes=(100,)))
    result, _ = cancelled(Client(backend_of(provider)), mode, lambda events: provider.requests)
    assert [step.event for step in result.journal.steps] == ["sent", "cancelled"]


def test_a_cancellation_that_comes_too_late_changes_nothing(serve: Any, backend_of: Any) -> None:
    token = Cancellation()
    with Client(backend_of(serve(ANSWER))) as client:
        assert client.call("Where?", cancellation=token).outcome == "done"
        token.cancel()
        assert client.call("Where?").outcome == "done"


@pytest.mark.parametrize(
    ("first", "again", "options", "text"),
    [
        (ScriptedReply(text=FIRST, finish="length"), FIRST + "and in trees.", {}, FIRST),
        (ScriptedReply(reasoning=THOUGHT), THOUGHT + "In the reeds.", {"prefill": "trailing"}, ""),
    ],
    ids=["an echo", "a seed"],
)
def test_what_is_held_back_as_an_echo_or_a_seed_is_no_text_on_cancelling(
    serve: Any,
    backend_of: Any,
    cut: Any,
    first: ScriptedReply,
    again: str,
    options: dict[str, Any],
    text: str,
) -> None:
    provider = serve(first, cut(ScriptedReply(text=again, chunk_size=15), again[:15], hang=True))
    client = Client(backend_of(provider, **options), contents=True)
    result, events = cancelled(client, "stream", lambda events: len(provider.requests) == 2)
    check(result, text)
    assert follow(events) == text


# a KeyboardInterrupt


@STREAMED
@pytest.mark.parametrize("moment", ["during a wait", "before the first byte", "in the middle"])
def test_interrupted_by_a_signal(
    serve: Any,
    backend_of: Any,
    silent: Any,
    mode: str,
    moment: str,
) -> None:
    reply = {
        "during a wait": ASKS_TO_WAIT,
        "before the first byte": HANGS,
        "in the middle": silent,
    }[moment]
    provider = serve(reply)
    main = threading.main_thread().ident
    events = []
    with Client(backend_of(provider), contents=True) as client:
        later = Later(lambda: provider.requests, lambda: signal.pthread_kill(main, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as raised:
            ask(client, mode, PROMPT, events=events)
        assert later.since() < SOON
        # The exception keeps every frame alive, so nothing is closed here by being forgotten.
        assert moment == "during a wait" or provider.wait_disconnected()
    assert provider.wait_disconnected()
    check(raised.value.result, FIRST if moment == "in the middle" else "")
    assert no_more_requests(provider)


def interrupt_at_text(stream: Any) -> None:
    next(event for event in stream if isinstance(event, rungwise.Text))
    raise KeyboardInterrupt


def test_interrupted_in_the_consumers_loop_within_a_with_block(
    serve: Any, backend_of: Any, silent: Any
) -> None:
    provider = serve(silent)
    with Client(backend_of(provider), contents=True) as client:
        stream = client.stream("Where?")
        with pytest.raises(KeyboardInterrupt), stream:
            interrupt_at_text(stream)
        assert provider.wait_disconnected()
    check(stream.result, FIRST)
    assert no_more_requests(provider)


# a cancelled task


@pytest.mark.parametrize(
    ("mode", "is_waiting"), [("acall", True), ("astream", True), ("astream", False)]
)
def test_a_task_cancelled_during_a_wait_or_in_the_middle_of_a_stream(
    serve: Any, backend_of: Any, silent: Any, mode: str, is_waiting: bool
) -> None:
    provider = serve(ASKS_TO_WAIT if is_waiting else silent)
    events: list[Any] = []

    async def main() -> Any:
        async with Client(backend_of(provider), contents=True) as client:
            task = asyncio.create_task(aask(client, mode, PROMPT, events=events))
            await auntil(lambda: provider.requests if is_waiting else has_text(events))
            await asyncio.sleep(0.05)
            at = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as raised:
                await task
            assert time.monotonic() - at < SOON
            assert is_waiting or await asyncio.to_thread(provider.wait_disconnected)
            assert asyncio.all_tasks() == {asyncio.current_task()}
        return raised.value

    result = asyncio.run(main()).result
    text = "" if is_waiting else FIRST
    check(result, text)
    assert follow(events) == text
    assert provider.wait_disconnected()
    assert no_more_requests(provider)


async def limited(kind: str, asking: Awaitable[Any]) -> None:
    if kind == "anyio":
        with anyio.fail_after(0.1):
            await asking
    else:
        async with asyncio.timeout(0.1):
            await asking


@pytest.mark.parametrize("kind", ["anyio", "asyncio"])
@STREAMED
def test_a_timeout_around_a_call_ends_it_at_once(
    serve: Any,
    backend_of: Any,
    mode: str,
    kind: str,
) -> None:
    provider = serve(HANGS)

    async def main() -> float:
        async with Client(backend_of(provider)) as client:
            began = time.monotonic()
            with pytest.raises(TimeoutError):
                await limited(kind, aask(client, f"a{mode}", PROMPT))
            seconds = time.monotonic() - began
            assert await asyncio.to_thread(provider.wait_disconnected)
            return seconds

    assert 0.09 < asyncio.run(main()) < 0.1 + SOON
    assert no_more_requests(provider)


@STREAMED
def test_interrupted_by_a_signal_in_an_event_loop(serve: Any, backend_of: Any, mode: str) -> None:
    provider = serve(HANGS)
    main_thread = threading.main_thread().ident
    steps = []

    async def main() -> None:
        async with Client(backend_of(provider), observer=steps.append) as client:
            await aask(client, f"a{mode}", PROMPT)

    later = Later(
        lambda: provider.requests, lambda: signal.pthread_kill(main_thread, signal.SIGINT)
    )
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert later.since() < SOON
    assert provider.wait_disconnected()
    assert [step.event for step in steps] == ["sent", "cancelled"]


# a stream that is closed early


@pytest.mark.parametrize("end", [Reading.leave, Reading.close])
def test_a_stream_that_is_closed_early_ends_the_call(
    serve: Any,
    backend_of: Any,
    silent: Any,
    way: str,
    end: Callable[[Reading], Awaitable[None]],
) -> None:
    provider = serve(silent)

    async def main() -> rungwise.Result:
        async with Either(way, backend_of(provider), contents=True) as one:
            stream = one.stream()
            await stream.text()
            await end(stream)
            assert await asyncio.to_thread(provider.wait_disconnected)
            assert await stream.next() is None
            await stream.close()
            return stream.result

    check(asyncio.run(main()), FIRST)
    assert no_more_requests(provider)


def test_the_event_loop_closes_an_abandoned_asynchronous_stream(
    serve: Any, backend_of: Any, silent: Any
) -> None:
    provider = serve(silent)
    steps = []

    async def main() -> None:
        client = Client(backend_of(provider), observer=steps.append)
        async for event in client.astream("Where?"):
            if isinstance(event, rungwise.Text):
                break
        await asyncio.sleep(0.05)
        await client.aclose()

    asyncio.run(main())
    assert provider.wait_disconnected()
    assert [step.event for step in steps] == ["sent", "cancelled"]


def test_a_stream_that_is_closed_before_it_began_sends_nothing(serve: Any, backend_of: Any) -> None:
    provider = serve(ANSWER)
    with Client(backend_of(provider)) as client:
        with client.stream("Where?") as stream:
            pass
        assert stream.result.outcome == "cancelled"
    assert no_more_requests(provider, 0)


def test_a_wait_is_waited_in_slices_so_that_no_signal_is_slept_over() -> None:
    token = Cancellation()
    waited = list[float]()

    class Event:
        def is_set(self) -> bool:
            return len(waited) == 3

        def wait(self, seconds: float) -> bool:
            waited.append(seconds)
            return self.is_set()

    token._event = Event()  # type: ignore[assignment]
    assert token.wait(60.0)
    assert waited == [SLICE] * 3
