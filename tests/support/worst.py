"""Play the script of a worst case from its file to a client over HTTP, on a virtual clock."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from rungwise import (
    CallError,
    Client,
    OpenAIChat,
    Policy,
    Prices,
    Result,
    Tool,
    TurnError,
    TurnPolicy,
)
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.sync_driver import Driver
from rungwise.adapters.provider.enacted import EARLY
from rungwise.adapters.provider.script import Script
from rungwise.core import Call, Send
from rungwise.fsm.analysis.certificate.enactment import AFTER_A_TOOL, waited
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.play import reworded
from rungwise.testing import Clocks, EmbeddedProvider, ReceivedRequest, VirtualClock

REAL_SECONDS = 30.0
"""The least seconds of a socket, however little time the virtual clock has left."""


@contextmanager
def unhurried_sockets() -> Iterator[None]:
    """Let no attempt end because of its sockets, which take no time on the virtual clock."""
    of = AttemptLimits.of

    def limits(*args: Any, **options: Any) -> AttemptLimits:
        found = of(*args, **options)
        found.ends_at = max(found.ends_at, time.monotonic() + REAL_SECONDS)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttemptLimits, "of", limits)
        yield


@contextmanager
def busy_client(clock: VirtualClock) -> Iterator[None]:
    """Let clients take as long as they may to read and to close their connections."""
    ends: dict[int, float] = {}
    begin = Driver.exchange
    finish = Exchange.reply

    def exchange(
        driver: Driver,
        send: Send,
        call: Call,
        *keyed: Any,
        is_fresh: bool,
    ) -> Exchange:
        found = begin(driver, send, call, *keyed, is_fresh=is_fresh)
        total = driver.timeouts.total
        ends_by = call.clocks().ends_by
        ends[id(found)] = min(
            float("inf") if total is None else clock.now + total,
            float("inf") if ends_by is None else ends_by,
        )
        return found

    def reply(exchange: Exchange) -> Any:
        came = finish(exchange)
        until = ends[id(exchange)]
        if clock.now >= until - EARLY - 1e-6:
            clock.now = until + CLOSING
        return came

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Driver, "exchange", exchange)
        patch.setattr(Exchange, "reply", reply)
        yield


def played(
    file: Path,
    policy: Policy,
    messages: Sequence[Any],
    *,
    backends: int,
    prices: Prices | None = None,
    is_busy: bool = False,
    **options: Any,
) -> tuple[dict[str, float], list[ReceivedRequest], Result]:
    """Play a script to one call and return what it spent, by the names of the worst cases.

    Arguments:
        file: the script.
        messages: what is asked.
        backends: the number of backends, all served by the script.
        is_busy: whether the client takes as long as it may.
        options: for the call.
    """
    clock = VirtualClock()
    with EmbeddedProvider(Script.load(file), sleep=clock.advance) as provider:
        chain = chain_of(provider, backends, prices)
        client = Client(
            chain,
            policy=policy,
            compactor=reworded,
            testing=Clocks(clock=clock, sleep=clock.sleep, jitter=lambda: 1.0),
        )
        with client, unhurried_sockets(), busy_client(clock) if is_busy else nullcontext():
            try:
                result = client.call(messages, **options)
            except CallError as error:
                result = error.result
        requests = provider.requests
    spent = {
        "attempts": len(requests),
        "waiting seconds": waited(result.journal),
        "seconds": result.seconds,
        "output tokens": result.usage.output_tokens,
        "money": result.cost or 0.0,
    }
    assert result.attempts == len(requests)
    assert sum(clock.waits) == pytest.approx(spent["waiting seconds"])
    return spent, requests, result


def played_turn(
    file: Path,
    policy: TurnPolicy,
    *,
    backends: int,
    prices: Prices,
    tool_seconds: float,
    is_busy: bool,
    **options: Any,
) -> dict[str, float]:
    """Play a script to one turn, whose tool takes some seconds, and return what it spent.

    Arguments:
        file: the script.
        backends: the number of backends, all served by the script.
        is_busy: whether the client takes as long as it may.
        options: for the turn.
    """
    clock = VirtualClock()
    runs = list[float]()

    def work(number: int) -> int:
        """Take its time, but no more than the turn has left, when a driver ends it."""
        left = (
            math.inf
            if policy.budget.seconds is None
            else max(policy.budget.seconds - clock.now, 0.0)
        )
        runs.append(min(tool_seconds, left))
        clock.advance(runs[-1])
        return number

    with EmbeddedProvider(Script.load(file), sleep=clock.advance) as provider:
        chain = chain_of(provider, backends, prices)
        client = Client(
            chain, health=None, testing=Clocks(clock=clock, sleep=clock.sleep, jitter=lambda: 1.0)
        )
        with client, unhurried_sockets(), busy_client(clock) if is_busy else nullcontext():
            try:
                result = client.turn(
                    AFTER_A_TOOL, policy=policy, tools=[Tool(function=work, alone=True)], **options
                )
            except TurnError as error:
                result = error.result
        assert result.attempts == len(provider.requests)
    return {
        "calls": result.calls,
        "attempts": result.attempts,
        "waiting seconds": sum(map(waited, result.journal.calls)),
        "seconds": result.seconds,
        "tool runs": len(runs),
        "tool seconds": sum(runs),
        "output tokens": result.usage.output_tokens,
        "money": result.cost or 0.0,
    }


def chain_of(provider: EmbeddedProvider, backends: int, prices: Prices | None) -> list[OpenAIChat]:
    """Return the backends of a chain, all behind one server."""
    return [
        OpenAIChat(
            f"backend-{number}",
            base_url=provider.base_url,
            api_key="",
            prices=prices,
        )
        for number in range(1, backends + 1)
    ]
