"""A durable call that outlives its process fetches the rest of a reply that its provider goes on
with: nothing is paid twice, lost or repeated.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from dbos import DBOS

from rungwise import (
    Budget,
    CallError,
    Discard,
    GeminiInteractions,
    Limits,
    OpenAIResponses,
    Policy,
    SharedBudget,
    Text,
    replay,
)
from rungwise.adapters.durable import driver
from support.durable import Opened, child, until
from support.kept_server import PROMPT, KeptServer

TOKENS: Final = [f"word{number} " for number in range(12)]
WHOLE: Final = "".join(TOKENS)
CUT: Final = 1100
"""The bytes after which a stream falls silent: some of its text has come."""
APIS: Final = pytest.mark.parametrize("api", ["responses", "interactions"])


@pytest.fixture
def open_(tmp_path: Path) -> Callable[..., Opened]:
    """Return what opens a database with the backend of a server."""
    return lambda server: Opened(f"sqlite:///{tmp_path}/calls.sqlite", [kept(server)])


def kept(server: KeptServer) -> Any:
    kind: Any = GeminiInteractions if server.api == "interactions" else OpenAIResponses
    return kind("m", base_url=server.base_url, api_key="k", background=True)


def records(count: int) -> None:
    """Wait until as many records are saved."""
    until(lambda: len(DBOS.list_workflow_steps("herons")) >= count)


def was_asked_once(server: KeptServer) -> bool:
    """Tell whether the server was asked for one reply, and neither charged nor cancelled more."""
    posts = [path for method, path, _ in server.asked if method == "POST"]
    return len(posts) == 1 and server.charged == PROMPT + len(server.tokens)


def shown(events: list[Any]) -> str:
    assert not any(isinstance(event, Discard) for event in events)
    return "".join(event.text for event in events if isinstance(event, Text))


@APIS
@pytest.mark.parametrize("stream_calls", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_is_taken_up_by_the_next_process(
    open_: Any, api: str, stream_calls: bool, is_async: bool
) -> None:
    with KeptServer(TOKENS, cuts=[CUT], stays_open=True, polls=2, api=api) as server:
        if stream_calls:
            server.polls = 0
        with open_(server)(stream_calls=stream_calls, async_sleep=forever) as durable:
            durable.start("herons", "Where?")
            records(2)
        with open_(server)(stream_calls=stream_calls) as durable:
            if is_async:
                result = asyncio.run(durable.acall("herons", "Where?"))
            else:
                result = durable.call("herons", "Where?")
    assert result.text == WHOLE
    assert was_asked_once(server)
    assert result.usage.input_tokens + result.usage.output_tokens == server.charged
    crash = result.journal.steps[1]
    assert (crash.event, crash.reason, crash.target) == ("interrupted", "crashed", "reattach")
    assert replay(result.journal).outcome == "done"


async def forever(_: float) -> None:
    await asyncio.Event().wait()


@pytest.mark.full
@APIS
def test_a_stream_repeats_nothing(open_: Any, api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LARGEST", 10)  # so that some of the text is saved
    with KeptServer(TOKENS, cuts=[CUT, 700], api=api) as server:
        server.stays_open = True
        with open_(server)() as durable:
            seen = durable.stream("herons", "Where?")
            first = next(event for event in seen if isinstance(event, Text))
        server.stays_open = False  # the second stream is cut, and the third is whole
        with open_(server)() as durable:
            *events, result = durable.stream("herons", "Where?")
    assert result.text == WHOLE == shown(events)
    assert WHOLE.startswith(first.text)
    assert was_asked_once(server)
    assert ["starting_after" in path or "last_event_id" in path for path in server.requests] == [
        False,
        False,
        True,
    ]
    assert replay(result.journal).outcome == "done"


@pytest.mark.full
def test_two_crashes_one_after_the_other(open_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LARGEST", 10)
    with KeptServer(TOKENS, cuts=[CUT, CUT + 400], stays_open=True) as server:
        for count in (3, 5):
            with open_(server)() as durable:
                if count == 3:
                    next(iter(durable.stream("herons", "Where?")))
                records(count)
        with open_(server)() as durable:
            *events, result = durable.handle("herons").stream()
    assert result.text == WHOLE == shown(events)
    assert was_asked_once(server)
    assert result.attempts == 3


@pytest.mark.full
@pytest.mark.parametrize("ending", ["fetched", "late", "given up"])
def test_a_shared_budget_is_charged_once(open_: Any, tmp_path: Path, ending: str) -> None:
    budget = SharedBudget(Budget(output_tokens=1000, seconds=None), name="team")
    limits = Limits() if ending != "given up" else Limits(reattaches=0, continuations=0, retries=0)
    policy = Policy(limits=limits, budget=Budget(attempts=1 if ending == "late" else 9))
    with (
        KeptServer(TOKENS, cuts=[CUT]) as server,
        open_(server)(policy=policy) as durable,
        suppress(CallError),
    ):
        durable.call("herons", "Where?", max_tokens=100, within=budget)
    with closing(sqlite3.connect(tmp_path / "calls.sqlite")) as connection:
        [[row]] = connection.execute("SELECT value FROM rungwise_budgets")
    spent = json.loads(row)
    assert (spent["attempts"], spent["holds"]) == (1, [])
    if ending == "fetched":
        assert spent["tokens"] == len(TOKENS)
    else:
        assert spent["tokens"] >= len(TOKENS) / 2


@pytest.mark.full
def test_a_turn_is_taken_up_too(open_: Any) -> None:
    with KeptServer(TOKENS, cuts=[CUT], stays_open=True) as server:
        with open_(server)() as durable:
            durable.start_turn("herons", "Where?")
            records(2)
        with open_(server)() as durable:
            result = durable.turn("herons", "Where?")
    assert result.text == WHOLE
    assert was_asked_once(server)


@pytest.mark.full
def test_a_reply_that_the_ladder_does_not_fetch_is_cancelled(open_: Any) -> None:
    policy = Policy(limits=Limits(reattaches=0))
    with KeptServer(TOKENS, cuts=[CUT], stays_open=True) as server:
        with open_(server)(policy=policy) as durable:
            durable.start("herons", "Where?")
            records(2)
            assert server.cancels == []
        assert server.cancels == []
        with open_(server)(policy=policy) as durable:
            result = durable.call("herons", "Where?")
    assert server.cancels == ["resp_0"]
    assert result.text == WHOLE
    assert len(server.kept) == 2


def test_a_call_that_is_cancelled_by_its_handle_cancels_the_reply(open_: Any) -> None:
    with KeptServer(TOKENS, cuts=[CUT], stays_open=True) as server, open_(server)() as durable:
        handle = durable.start("herons", "Where?")
        records(2)
        handle.cancel()
        until(lambda: server.cancels)
    assert server.cancels == ["resp_0"]


@pytest.mark.full
def test_a_reply_that_is_gone_is_asked_for_anew(open_: Any) -> None:
    with KeptServer(TOKENS, cuts=[CUT], refusals=[404], stays_open=True) as server:
        with open_(server)() as durable:
            durable.start("herons", "Where?")
            records(2)
        with open_(server)() as durable:
            result = durable.call("herons", "Where?")
    assert result.text == WHOLE
    assert server.cancels == []
    assert len(server.kept) == 2


LONG: Final = [f"{Random(number).randbytes(50).hex()}{number} " for number in range(40)]
"""More text than a process holds before it saves it, and none that runs in circles."""


@pytest.mark.dear(3)
@pytest.mark.full
@APIS
@pytest.mark.parametrize(
    ("is_stream", "moment"),
    [(False, moment) for moment in range(4)] + [(True, moment) for moment in range(6)],
)
def test_a_process_that_is_killed_between_any_two_writes_pays_once(
    open_: Any, tmp_path: Path, api: str, is_stream: bool, moment: int
) -> None:
    """Only one that dies before the id is saved has asked in vain."""
    database = f"sqlite:///{tmp_path}/calls.sqlite"
    with KeptServer(LONG, cuts=[6000], stays_open=True, api=api) as server:
        died = child(
            server,
            database,
            "herons",
            messages="Where?",
            kept=api,
            is_stream=is_stream,
            die_at=moment,
        )
        died.communicate(timeout=120)
        assert died.returncode == 9
        with open_(server)(policy=Policy()) as durable:
            events: list[Any] = []
            if is_stream:
                *events, result = durable.stream("herons", "Where?")
            else:
                result = durable.call("herons", "Where?")
    posts = [path for method, path, _ in server.asked if method == "POST"]
    assert len(posts) == (2 if moment == 2 else 1)
    assert server.charged == len(posts) * (PROMPT + len(LONG))
    assert result.text == "".join(LONG)
    assert not is_stream or shown(events) == result.text
    assert replay(result.journal).outcome == "done"
