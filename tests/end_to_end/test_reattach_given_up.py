"""A call that ends while its provider goes on with the reply cancels it: once, and soon."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager, suppress
from typing import Any, Final

import anyio
import anyio.lowlevel
import pytest

import rungwise
from rungwise import Budget, Cancellation, Client, Limits, Policy, Quota, Text, Timeouts, Waits
from rungwise.adapters.http import async_driver, background
from rungwise.testing import Clocks, VirtualClock, testing
from support.kept_server import PROMPT, KeptServer
from support.modes import EVERY, MODES, WHOLE, ask, options_of

TOKENS: Final = [f"word{number} " for number in range(12)]
LOOPS: Final = pytest.mark.parametrize("loop", ["asyncio", "trio"])
ALONE: Final = Limits(
    reattaches=0,
    continuations=0,
    retries=0,
    fallbacks=0,
)
"""The limits of a call that ends with the first failure."""


def kept(server: KeptServer, name: str = "kept", **options: Any) -> Any:
    kind: Any = rungwise.OpenAIResponses
    if server.api == "interactions":
        kind = rungwise.GeminiInteractions
    return kind("m", base_url=server.base_url, api_key="k", background=True, name=name, **options)


@contextmanager
def silent(api: str = "responses") -> Iterator[KeptServer]:
    """Serve streams that fall silent, and replies that are never there."""
    with KeptServer(TOKENS, cuts=[1100], polls=999, api=api, stays_open=True) as server:
        yield server


def is_given_up(server: KeptServer) -> bool:
    """Tell whether the reply was cancelled by the last request, and by no other."""
    return server.cancels == ["resp_0"] and server.requests[-1].endswith("/resp_0/cancel")


@pytest.mark.parametrize("api", ["responses", "interactions"])
@pytest.mark.parametrize("mode", EVERY)
def test_by_the_deadline(mode: str, api: str) -> None:
    policy = Policy(budget=Budget(seconds=0.3))
    with (
        silent(api) as server,
        Client(kept(server), policy=policy, **options_of(mode)) as client,
        suppress(rungwise.CallError),
    ):
        ask(client, mode)
    assert is_given_up(server)


@pytest.mark.parametrize("api", ["responses", "interactions"])
def test_by_a_cancellation_in_a_stream(api: str) -> None:
    cancellation = Cancellation()
    with silent(api) as server, Client(kept(server)) as client:
        events = client.stream("Where?", cancellation=cancellation)
        next(event for event in events if isinstance(event, Text))
        cancellation.cancel()
        with pytest.raises(rungwise.Cancelled):
            list(events)
        assert is_given_up(server)


def test_by_a_cancellation_between_two_polls() -> None:
    cancellation = Cancellation()
    clocks = Clocks(sleep=lambda _: cancellation.cancel())
    with silent() as server, Client(kept(server), testing=clocks, stream_calls=False) as client:
        with pytest.raises(rungwise.Cancelled):
            client.call("Where?", cancellation=cancellation)
        assert is_given_up(server)


def test_by_leaving_a_stream() -> None:
    with silent() as server, Client(kept(server)) as client:
        with closing(client.stream("Where?")) as events:
            next(event for event in events if isinstance(event, Text))
        assert is_given_up(server)


@LOOPS
def test_by_leaving_an_asynchronous_stream(loop: str) -> None:
    async def main() -> None:
        async with Client(kept(server)) as client:
            events: AsyncGenerator[Any] = client.astream("Where?")  # type: ignore[assignment]
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Text):
                        break

    with silent() as server:
        anyio.run(main, backend=loop)
        assert is_given_up(server)


@LOOPS
def test_by_cancelling_the_task_of_a_stream(loop: str) -> None:
    async def main() -> None:
        async with Client(kept(server)) as client:
            with anyio.CancelScope() as scope:
                async for event in client.astream("Where?"):
                    if isinstance(event, Text):
                        scope.cancel()
            assert scope.cancelled_caught

    with silent() as server:
        anyio.run(main, backend=loop)
        assert is_given_up(server)


@LOOPS
def test_by_cancelling_the_task_between_two_polls(loop: str) -> None:
    async def main() -> None:
        with anyio.CancelScope() as scope:

            async def wait(_: float) -> None:
                scope.cancel()
                await anyio.lowlevel.checkpoint()

            clocks = Clocks(async_sleep=wait)
            async with Client(kept(server), testing=clocks, stream_calls=False) as client:
                await client.acall("Where?")
        assert scope.cancelled_caught

    with silent() as server:
        anyio.run(main, backend=loop)
        assert is_given_up(server)


@pytest.mark.parametrize("way", ["a clock of the test", "no waits"])
@pytest.mark.parametrize("mode", WHOLE)
def test_by_the_time_that_polls_have_waited(mode: str, way: str) -> None:
    clock = VirtualClock()
    with silent() as server, ExitStack() as stack:
        options = options_of(mode)
        if way == "no waits":
            stack.enter_context(testing())
        else:
            clocks = Clocks(clock=clock, sleep=clock.sleep, async_sleep=clock.asleep)
            options["testing"] = clocks
        policy = Policy(limits=ALONE, timeouts=Timeouts(total=300.0))
        client = stack.enter_context(Client(kept(server), policy=policy, **options))
        with pytest.raises(rungwise.CallError, match="timeout"):
            ask(client, mode)
        assert is_given_up(server)
    waits = [0.5, 1.0, 2.0, 4.0, 8.0] + 28 * [10.0]
    assert clock.waits == (waits if way != "no waits" else [])
    assert server.requests.count("GET /v1/responses/resp_0") == len(waits)


@pytest.mark.parametrize("mode", MODES)
def test_by_a_fallback(mode: str) -> None:
    limits = Limits(reattaches=0, continuations=0, retries=0)
    with (
        KeptServer(TOKENS, cuts=[1100]) as first,
        KeptServer(TOKENS) as second,
        testing(),
        Client([kept(first), kept(second, "second")], policy=Policy(limits=limits)) as client,
    ):
        assert ask(client, mode).backend == "second"
    assert is_given_up(first)
    assert second.cancels == []


@pytest.mark.parametrize("mode", MODES)
def test_by_a_fallback_because_the_quota_does_not_let_its_rest_be_fetched(mode: str) -> None:
    with (
        KeptServer(TOKENS, cuts=[1100]) as first,
        KeptServer(TOKENS) as second,
        testing(),
        Client(
            [kept(first, quota=Quota(requests_per_minute=1)), kept(second, "second")],
            policy=Policy(waits=Waits(longest_asked=1.0)),
        ) as client,
    ):
        assert ask(client, mode).backend == "second"
    assert is_given_up(first)
    assert [path for _, path, _ in first.asked if "starting_after" in path] == []


@pytest.mark.parametrize("mode", MODES)
def test_the_rest_of_a_reply_needs_no_tokens_of_the_quota(mode: str) -> None:
    quota = Quota(tokens_per_minute=564)  # what one request needs, and hardly more
    policy = Policy(waits=Waits(longest_asked=0.01))
    with (
        KeptServer(TOKENS, cuts=[1100]) as server,
        testing(),
        Client(kept(server, quota=quota), policy=policy) as client,
    ):
        result = ask(client, mode, max_tokens=550)
    assert result.text == "".join(TOKENS)
    assert [method for method, _, _ in server.asked] == ["POST", "GET"]
    assert server.cancels == []


@pytest.mark.parametrize("mode", MODES)
def test_by_an_exhausted_budget(mode: str) -> None:
    policy = Policy(budget=Budget(attempts=1))
    with (
        KeptServer(TOKENS, cuts=[1100]) as server,
        testing(),
        Client(kept(server), policy=policy) as client,
        suppress(rungwise.CallError),
    ):
        ask(client, mode)
    assert is_given_up(server)
    assert server.charged == PROMPT + len(TOKENS)


@pytest.mark.parametrize("mode", EVERY)
def test_a_provider_that_does_not_answer_holds_nobody_up(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (background, async_driver):
        monkeypatch.setattr(module, "GIVING_UP", 0.05)
    policy = Policy(limits=ALONE, timeouts=Timeouts(total=0.2))
    with (
        KeptServer(TOKENS, cuts=[1100], polls=999, hangs=True) as server,
        testing(),
        Client(kept(server), policy=policy, **options_of(mode)) as client,
        suppress(rungwise.CallError),
    ):
        ask(client, mode)
    assert is_given_up(server)
