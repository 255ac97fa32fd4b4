"""Calls that outlive their process: run once per id, resumed where they stood, and never dearer
than is proved.
"""

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from attrs import evolve
from dbos import DBOS
from pydantic import BaseModel

from rungwise import (
    Budget,
    CallError,
    Client,
    ConfigurationError,
    Discard,
    Failed,
    Limits,
    OverBudget,
    Policy,
    RungwiseError,
    SharedBudget,
    Text,
    replay,
)
from rungwise.adapters.durable import workflows as module
from rungwise.adapters.durable.durable import Durable
from rungwise.adapters.durable.forms import plain_event
from rungwise.core import Reply, TurnContext
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.durable import SHORT, child, killed_after, same, until

ANSWER, DOWN, SILENT = (
    ScriptedReply(text="In the reeds."),
    ScriptedReply(status=503),
    ScriptedReply(hang=True),
)
MESSAGES = "Where do herons nest?"
RESTLESS = "[waits]\nretry_base = 0.01\nreask_base = 0.01\nretry_cap = 0.01\nreask_cap = 0.01"
KEY = "sk-secret-5e884898da28"


def events(result: Any) -> list[str]:
    return [step.event for step in result.journal.steps if step.event != "sent"]


def test_an_id_is_run_once_in_this_process_and_the_next(
    serve: Any, backend_of: Any, opened: Any
) -> None:
    server = serve(DOWN, ANSWER)
    open_ = opened(backend_of(server))
    with open_() as durable:
        first = durable.call("herons", MESSAGES, max_tokens=50)
        assert durable.call("herons", MESSAGES, max_tokens=50) == first
    with open_() as durable:
        again = durable.call("herons", MESSAGES, max_tokens=50)
        assert durable.handle("herons").status() == "done"
    assert again == first
    assert again.text == "In the reeds."
    assert events(again) == ["failed_transiently", "answered"]
    assert replay(again.journal).outcome == "done"
    assert [request.body["messages"] for request in server.requests] == [
        [{"role": "user", "content": MESSAGES}]
    ] * 2


@pytest.mark.full
def test_a_failure_is_kept_too(serve: Any, backend_of: Any, opened: Any) -> None:
    server = serve(DOWN)
    for _ in range(2):
        once = Policy(limits=Limits(retries=0))
        with (
            opened(backend_of(server))(policy=once) as durable,
            pytest.raises(Failed, match="HTTP 503") as caught,
        ):
            durable.call("herons", MESSAGES)
    assert caught.value.result.attempts == len(server.requests) == 1


def test_another_request_is_no_old_result(serve: Any, backend_of: Any, opened: Any) -> None:
    server = serve(ANSWER)
    with opened(backend_of(server))() as durable:
        durable.call("herons", MESSAGES)
        for changed in ({"max_tokens": 7}, {"policy": Policy()}, {"returns": {"type": "object"}}):
            with pytest.raises(ConfigurationError, match="the id of another request"):
                durable.call("herons", MESSAGES, **changed)
        with pytest.raises(ConfigurationError, match="the id of another request"):
            durable.start("herons", "What do they eat?")
    assert len(server.requests) == 1


@pytest.mark.full
def test_what_a_killed_process_had_in_flight_counts_once_at_its_cap(
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    server = serve(SILENT, ANSWER)
    policy = "[budget]\noutput_tokens = 1000\n[waits]\nretry_base = 0.01\nretry_cap = 0.01"
    killed_after(
        1, server, database, "herons", messages=MESSAGES, policy=policy, options={"max_tokens": 200}
    )
    with opened(same(server))(policy=Policy.from_toml(policy)) as durable:
        result = durable.call("herons", MESSAGES, max_tokens=200)
    assert events(result) == ["failed_transiently", "answered"]
    assert (result.journal.steps[1].reason, result.journal.steps[1].usage.output_tokens) == (
        "crashed",
        200,
    )
    assert result.attempts == len(server.requests) == 2
    assert result.usage.output_tokens > 200
    assert replay(result.journal).outcome == "done"


MOMENTS = range(9)


@pytest.mark.dear(3)
@pytest.mark.sampled(18)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_that_dies_between_any_two_writes_costs_no_more_than_is_proved(
    moment: int,
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    server = serve(DOWN, ScriptedReply(text=""), ANSWER)
    policy = "[budget]\nattempts = 8\n" + RESTLESS
    died = child(
        server,
        database,
        "herons",
        messages=MESSAGES,
        die_at=moment,
        policy=policy,
    )
    said, _ = died.communicate(timeout=60)
    known = len(server.requests)
    with opened(same(server))(policy=Policy.from_toml(policy)) as durable:
        result = durable.call("herons", MESSAGES)
    crashed = [step.reason for step in result.journal.steps].count("crashed")
    assert (died.returncode, said) in ((9, ""), (0, "In the reeds.\n"))
    assert result.text == "In the reeds."
    assert crashed <= 1
    assert len(server.requests) <= result.attempts <= len(server.requests) + crashed <= 8
    assert known <= len(server.requests) <= 4
    assert replay(result.journal).outcome == "done"


@pytest.mark.full
def test_a_survivor_goes_on_with_what_a_dead_process_has_left(
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    server = serve(SILENT, SILENT, ANSWER)
    with opened(same(server))(policy=Policy()) as durable:
        killed = child(server, database, "one", "two", messages=MESSAGES)
        until(lambda: len(server.requests) == 2)
        assert durable.handle("one").status() == "running"
        killed.kill()
        killed.wait()
        results = [durable.handle(id).result() for id in ("one", "two")]
    assert [result.text for result in results] == ["In the reeds."] * 2
    assert [result.attempts for result in results] == [2, 2]
    assert len(server.requests) == 4


@pytest.mark.full
def test_a_living_process_keeps_its_calls(
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    server = serve(ScriptedReply(text="In the reeds.", delay=4.0))
    living = child(server, database, "herons", messages=MESSAGES)
    until(lambda: server.requests)
    with opened(same(server))(policy=Policy()) as durable:
        durable.workflows.engine.take_over()
        assert durable.call("herons", MESSAGES).attempts == 1
    assert living.communicate(timeout=60)[0] == "In the reeds.\n"
    assert len(server.requests) == 1


THEIRS = """
import os, sys
from dbos import DBOS
DBOS(config={"name": "rungwise", "system_database_url": sys.argv[1]})
@DBOS.workflow(name="theirs")
def theirs():
    os._exit(9)
DBOS.launch()
theirs()
"""


@pytest.mark.full
def test_what_a_program_of_somebody_else_has_left_is_not_touched(
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    assert subprocess.run([sys.executable, "-c", THEIRS, database], timeout=60).returncode == 9
    with opened(same(serve(ANSWER)))() as durable:
        durable.workflows.engine.take_over()
        [left] = DBOS.list_workflows(name="theirs")
    assert (left.status, left.executor_id, left.queue_name) == ("PENDING", "local", None)


def test_a_program_that_runs_dbos_keeps_it(
    serve: Any,
    opened: Any,
    tmp_path: Path,
) -> None:
    DBOS(config={"name": "theirs", "system_database_url": f"sqlite:///{tmp_path}/theirs.sqlite"})
    try:
        DBOS.launch()
        with pytest.raises(ConfigurationError, match="runs DBOS for something else"):
            opened(same(serve(ANSWER)))()
        assert DBOS.list_workflows() == []
    finally:
        DBOS.destroy()


def test_the_dbos_of_a_program_is_used_where_it_says_so(
    serve: Any, backend_of: Any, tmp_path: Path
) -> None:
    server = serve(DOWN, ANSWER)
    client = Client(backend_of(server), policy=SHORT)
    DBOS(config={"name": "theirs", "system_database_url": f"sqlite:///{tmp_path}/theirs.sqlite"})
    try:
        with Durable(client, None) as durable:
            DBOS.launch()
            result = durable.call("herons", MESSAGES)
            assert durable.call("herons", MESSAGES) == result
            with pytest.raises(ConfigurationError, match="DBOS of your own cannot have within="):
                durable.call("x", MESSAGES, within=SharedBudget(Budget(seconds=None), name="n"))
        assert [each.workflow_id for each in DBOS.list_workflows()] == ["herons"]  # it still runs
    finally:
        DBOS.destroy()
    assert (result.text, len(server.requests)) == ("In the reeds.", 2)


@pytest.mark.full
def test_a_call_that_begins_as_its_process_ends_is_left_to_the_next_one(
    serve: Any,
    backend_of: Any,
    opened: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serve(ANSWER)
    open_ = opened(backend_of(server))
    with open_() as durable:
        with monkeypatch.context() as patch:
            patch.setattr(module, "_open", [])
            begun = durable.start("herons", MESSAGES)
            until(begun._begun.handle.task.done)
        assert durable.handle("herons").status() == "running"
    with open_() as durable:
        assert durable.handle("herons").result().text == "In the reeds."
    assert len(server.requests) == 1


@pytest.mark.full
def test_a_changed_policy_is_refused_or_started_again_on_what_is_left(
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    server = serve(DOWN, SILENT, ANSWER)
    killed_after(2, server, database, "herons", messages=MESSAGES)
    with opened(same(server))(policy=Policy(budget=Budget(attempts=3))) as durable:
        with pytest.raises(ConfigurationError, match="changed since this call began"):
            durable.call("herons", MESSAGES)
        # for a process that can run it
        assert durable.handle("herons").status() in ("running", "waiting")
        result = durable.call("herons", MESSAGES, restart=True)
        assert durable.call("herons", MESSAGES, restart=True) == result
    assert result.text == "In the reeds."
    assert result.journal.setting.policy.budget.attempts == 1
    assert len(server.requests) == 3


def test_a_call_is_cancelled_by_its_handle(serve: Any, backend_of: Any, opened: Any) -> None:
    server = serve(SILENT)
    with opened(backend_of(server))() as durable:
        handle = durable.start("herons", MESSAGES)
        until(lambda: server.requests)
        handle.cancel()
        with pytest.raises(Exception, match="cancelled") as caught:
            handle.result()
        assert caught.value.result.outcome == handle.status() == "cancelled"


@pytest.mark.full
def test_a_shared_budget_holds_for_all_processes_and_over_crashes(
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    server = serve(ANSWER, ANSWER, SILENT, ANSWER)
    within = {"attempts": 4, "seconds": None, "output_tokens": 1000}
    options = {"max_tokens": 300}
    for ids in (["one"], ["two"]):
        assert (
            child(
                server,
                database,
                *ids,
                messages=MESSAGES,
                options=options,
                within=within,
            ).wait(60)
            == 0
        )
    killed_after(
        3,
        server,
        database,
        "three",
        messages=MESSAGES,
        options=options,
        within=within,
    )
    budget = SharedBudget(Budget(**within), name="everything")
    with opened(same(server))(policy=Policy()) as durable:
        third = durable.call("three", MESSAGES, within=budget, **options)
        with pytest.raises(OverBudget, match="everything"):
            durable.call("four", MESSAGES, within=budget, **options)
    assert (third.text, third.attempts) == ("In the reeds.", 2)
    assert [step.reason for step in third.journal.steps if step.reason] == ["crashed"]
    assert len(server.requests) == 4
    assert replay(third.journal).outcome == "done"


@pytest.mark.full
def test_a_deadline_goes_on_while_no_process_holds_the_call(
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    server = serve(SILENT, ANSWER)
    killed_after(
        1, server, database, "herons", messages=MESSAGES, options={"deadline": time.time() + 600}
    )
    later = opened(same(server))(policy=Policy(), wall_clock=lambda: time.time() + 601)
    with later as durable, pytest.raises(OverBudget, match="deadline"):
        durable.handle("herons").result()
    assert len(server.requests) == 1


class Place(BaseModel):
    where: str


def is_short(reply: Reply, place: Place) -> str | None:
    return None if len(place.where) < 12 else "say it in one word"


def test_values_and_verdicts_are_found_by_their_path(
    serve: Any, backend_of: Any, opened: Any
) -> None:
    long = ScriptedReply(text='{"where": "among the reeds"}')
    short = ScriptedReply(text='{"where": "reeds"}')
    server = serve(long, short)
    with opened(backend_of(server))() as durable:
        result = durable.call("herons", MESSAGES, returns=Place, verdict=is_short)
        listed = durable.call("list", MESSAGES, returns=dict[str, str])
        with pytest.raises(ConfigurationError, match="must stand at the top of a module"):
            durable.start("local", MESSAGES, verdict=lambda reply: None)
    assert result.value == Place(where="reeds")
    assert events(result) == ["answered_wrongly", "answered"]
    assert listed.value == {"where": "reeds"}


def test_the_database_holds_no_key(
    serve: Any,
    backend_of: Any,
    opened: Any,
    tmp_path: Path,
) -> None:
    server = serve(ScriptedReply(status=401), ANSWER)
    with opened(
        backend_of(server, api_key=KEY), backend_of(server, name="second", api_key=KEY + "2")
    )() as durable:
        durable.call("herons", MESSAGES)
        with pytest.raises(ConfigurationError, match="the database holds no keys"):
            durable.call("key", MESSAGES, headers={"Authorization": KEY})
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()


NONSENSE: dict[str, tuple[Any, str]] = {
    "no id": (lambda durable: durable.start("", MESSAGES), "id of a call"),
    "a long id": (lambda durable: durable.start("x" * 201, MESSAGES), "id of a call"),
    "half of a surrogate pair": (lambda durable: durable.start("\ud800", MESSAGES), "id of a call"),
    "such a handle": (lambda durable: durable.handle("\ud800"), "id of a call"),
    "a NUL": (lambda durable: durable.start("a\x00", MESSAGES), "id of a call"),
    "a budget with half of one": (
        lambda durable: durable.start(
            "x", MESSAGES, within=SharedBudget(Budget(seconds=None), name="n\ud800")
        ),
        "no database can hold the name",
    ),
    "a budget with a NUL": (
        lambda durable: durable.start(
            "x", MESSAGES, within=SharedBudget(Budget(seconds=None), name="n\x00")
        ),
        "no database can hold the name",
    ),
    "an unknown id": (lambda durable: durable.handle("nobody"), "there is no call"),
    "within": (
        lambda durable: durable.start("x", MESSAGES, within=object()),
        "within must be a SharedBudget",
    ),
    "no name": (
        lambda durable: durable.start("x", MESSAGES, within=SharedBudget(Budget(seconds=None))),
        "a name",
    ),
    "seconds": (
        lambda durable: durable.start("x", MESSAGES, within=SharedBudget(Budget(), name="n")),
        "seconds=None",
    ),
    "turn": (lambda durable: durable.start("x", MESSAGES, turn=TurnContext()), "cannot have turn="),
    "money without prices": (
        lambda durable: durable.start(
            "x", MESSAGES, within=SharedBudget(Budget(seconds=None, money=1), name="n")
        ),
        "prices",
    ),
    "a negative offset": (
        lambda durable: list(durable.stream("x", MESSAGES, offset=-1)),
        "offset must be a whole number of 0 or more, not",
    ),
    "half an offset": (
        lambda durable: list(durable.stream("x", MESSAGES, offset=1.5)),
        "offset must be a whole number of 0 or more, not",
    ),
    "a second one": (
        lambda durable: Durable(durable.workflows.client, "sqlite:///other.sqlite"),
        "one Durable at a time",
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(
    name: str,
    serve: Any,
    backend_of: Any,
    opened: Any,
) -> None:
    do, says = NONSENSE[name]
    with (
        opened(backend_of(serve(ANSWER)))() as durable,
        pytest.raises(ConfigurationError, match=says),
    ):
        do(durable)


@pytest.mark.parametrize(
    "url", ["", "sqlite://", "sqlite:///:memory:", "mysql://here/x", "sqlite:////no/such/place.db"]
)
def test_a_database_that_cannot_be_is_refused(url: str, serve: Any, backend_of: Any) -> None:
    with pytest.raises(ConfigurationError, match="database"):
        Durable(Client(backend_of(serve(ANSWER))), url)


KILLS = 10
CALLS = [f"heron {number}" for number in range(30)]


@pytest.mark.dear(5)
@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_processes_that_are_killed_at_random_moments_cost_no_more_than_is_proved(
    seed: int, serve: Any, tmp_path: Path
) -> None:
    draws = random.Random(seed)
    server = serve(
        lambda _: evolve(
            draws.choice((DOWN, ScriptedReply(text=""), ANSWER, ANSWER)), delay=draws.random() / 5
        )
    )
    database = f"sqlite:///{tmp_path}/calls.sqlite"
    policy = "[budget]\nattempts = 40\n" + RESTLESS
    for _ in range(KILLS):
        known = len(server.requests)
        process = child(server, database, *CALLS, messages="Where does {id} nest?", policy=policy)
        until(
            lambda known=known, process=process: (
                len(server.requests) > known or process.poll() is not None
            )
        )
        time.sleep(draws.random() / 2)
        process.kill()
        process.wait()
    with Durable(Client(same(server), policy=Policy.from_toml(policy)), database) as durable:
        # on a busy machine, no process may have come to the last ones
        handles = {id: durable.start(id, f"Where does {id} nest?") for id in CALLS}
        results = {id: end_of(handle) for id, handle in handles.items()}
    asked = Counter(request.body["messages"][0]["content"] for request in server.requests)
    for id, result in results.items():
        crashed = [step.reason for step in result.journal.steps].count("crashed")
        sent = asked[f"Where does {id} nest?"]
        assert sent <= result.attempts <= min(sent + crashed, 40)
        assert replay(result.journal).outcome == result.outcome


LONG = " ".join(f"Heron number {number} nests in the reeds." for number in range(200))


def slowly(request: ReceivedRequest) -> ScriptedReply:
    """Write a long text over three seconds, or what is left of it."""
    last = request.body["messages"][-1]
    is_begun = last["role"] == "assistant" or len(request.body["messages"]) > 1
    given = next(
        (each["content"] for each in request.body["messages"] if each["role"] == "assistant"), ""
    )
    return ScriptedReply(
        text=LONG[len(given) :] if is_begun else LONG, lasts=0.5 if is_begun else 3.0
    )


@pytest.mark.full
def test_a_stream_goes_on_after_a_crash_from_the_text_that_was_written(
    serve: Any,
    opened: Any,
    database: str,
) -> None:
    server = serve(slowly)
    killed = child(server, database, "herons", messages=MESSAGES, is_stream=True)
    assert killed.stdout is not None
    seen = [json.loads(killed.stdout.readline()) for _ in range(3)]
    killed.kill()
    killed.wait()
    with opened(same(server))(policy=Policy()) as durable:
        *events, result = durable.handle("herons").stream()
        *rest, _ = durable.stream("herons", MESSAGES, offset=2)
        read_again = asyncio.run(read_all(durable.handle("herons")))
    assert read_again == [*events, result]
    assert rest == events[2:]
    assert [plain_event(event) for event in events[: len(seen)]] == seen
    shown = ""
    for event in events:
        if isinstance(event, Text):
            shown += event.text
        elif isinstance(event, Discard):
            assert shown.endswith(event.text)
            shown = shown.removesuffix(event.text)
    assert shown == result.text == LONG
    assert not any(isinstance(event, Discard) for event in events)
    [_, again] = [request.body["messages"] for request in server.requests]
    given = "".join(each["content"] for each in again if each["role"] == "assistant")
    assert given
    assert LONG.startswith(given)
    assert result.attempts == 2
    assert replay(result.journal).outcome == "done"


def end_of(handle: Any) -> Any:
    """Return how a call ended, whether it raises or not."""
    try:
        return handle.result()
    except CallError as error:
        return error.result


async def read_all(handle: Any) -> list[Any]:
    return [event async for event in handle.astream()]


def test_who_waits_for_a_call_or_asks_after_the_end_is_told_that_it_is_closed(
    serve: Any, backend_of: Any, opened: Any
) -> None:
    def answer(request: ReceivedRequest) -> ScriptedReply:
        closing.wait(60)
        return ANSWER

    closing = threading.Event()
    told = list[BaseException]()
    provider = serve(answer)

    def wait() -> None:
        try:
            handle.result()
        except BaseException as error:
            told.append(error)

    with opened(backend_of(provider))() as durable:
        handle = durable.start("herons", MESSAGES)
        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: provider.requests)
    closing.set()
    waiting.join(60)
    for use in (handle.result, handle.status, lambda: durable.call("owls", MESSAGES)):
        with pytest.raises(
            RungwiseError, match="this Durable is closed: its calls go on in the next process"
        ):
            use()
    assert [type(error) for error in told] == [RungwiseError]
    assert "is closed" in str(told[0])


@pytest.mark.parametrize("way", ["call", "stream"])
def test_of_different_requests_under_one_id_at_the_same_moment_one_is_answered(
    serve: Any,
    backend_of: Any,
    opened: Any,
    way: str,
) -> None:
    provider = serve(ANSWER)
    begin = threading.Barrier(6)
    came: list[Any] = []

    def ask(number: int) -> None:
        begin.wait()
        try:
            prompt = f"Where is {number}?"
            came.append(
                durable.call("one", prompt)
                if way == "call"
                else [*durable.stream("one", prompt)][-1]
            )
        except ConfigurationError as error:
            came.append(str(error))

    with opened(backend_of(provider))() as durable:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
    others = [each for each in came if isinstance(each, str)]
    assert (len(came), len(others), len(provider.requests)) == (6, 5, 1)
    assert {*others} == {"'one' is the id of another request; give this one an id of its own"}


@pytest.mark.full
def test_many_asynchronous_calls_leave_the_threads_of_the_program_alone(
    serve: Any, backend_of: Any, opened: Any
) -> None:
    go_on = threading.Event()

    def answer(request: ReceivedRequest) -> ScriptedReply:
        assert go_on.wait(60)
        return ANSWER

    async def main() -> int:
        with opened(backend_of(provider))() as durable:
            calls = [
                asyncio.create_task(durable.acall(str(number), MESSAGES)) for number in range(45)
            ]
            while len(provider.requests) < 45:
                await asyncio.sleep(0.01)
            borrowed = anyio.to_thread.current_default_thread_limiter().borrowed_tokens
            go_on.set()
            await asyncio.gather(*calls)
        return borrowed

    provider = serve(answer)
    assert asyncio.run(main()) == 0


def test_who_reads_a_call_that_is_no_stream_gets_its_result(
    serve: Any, backend_of: Any, opened: Any
) -> None:
    with opened(backend_of(serve(ANSWER)))() as durable:
        result = durable.call("herons", MESSAGES)
        assert list(durable.stream("herons", MESSAGES)) == [result]
