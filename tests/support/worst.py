"""The script of a worst case, as a file has it, played to a client over HTTP on a clock that only the play moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rungwise import (
    Call,
    CallError,
    Client,
    EmbeddedProvider,
    OpenAIChat,
    Policy,
    Prices,
    ReceivedRequest,
    Result,
    Send,
)
from rungwise.adapters.http.driver import Driver
from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.provider.enacted import EARLY
from rungwise.adapters.provider.script import Script
from rungwise.fsm.call.clocks import CLOSING
from rungwise.fsm.certificate.enactment import waited
from rungwise.fsm.testing import VirtualClock


@contextmanager
def busy_client(clock: VirtualClock) -> Iterator[None]:
    """Let clients take as long as they may to read, and to close their connection, where an attempt is nearly over."""
    ends: dict[int, float] = {}
    begin, finish = Driver.exchange, Exchange.reply

    def exchange(driver: Driver, send: Send, call: Call, *, is_fresh: bool) -> Exchange:
        found = begin(driver, send, call, is_fresh=is_fresh)
        total, ends_by = driver.timeouts.total, call.clocks().ends_by
        until = [*([] if total is None else [clock.now + total]), *([] if ends_by is None else [ends_by])]
        ends[id(found)] = min(until, default=float("inf"))
        return found

    def reply(exchange: Exchange) -> Any:
        came, until = finish(exchange), ends[id(exchange)]
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
    """Play a script to one call, and return what that has spent, by the names of the worst cases.

    Arguments:
        file: the script.
        messages: what is asked.
        backends: how many there are, all of them served by that script.
        is_busy: whether the client takes as long as it may.
        options: for the call.
    """
    clock = VirtualClock()
    with EmbeddedProvider(Script.load(file), sleep=clock.advance) as provider:
        chain = [
            OpenAIChat(f"backend-{number}", base_url=provider.base_url, api_key="", prices=prices)
            for number in range(1, backends + 1)
        ]
        client = Client(chain, policy=policy, compactor=list, clock=clock, sleep=clock.sleep, jitter=lambda: 1.0)
        with client, busy_client(clock) if is_busy else pytest.MonkeyPatch.context():
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
