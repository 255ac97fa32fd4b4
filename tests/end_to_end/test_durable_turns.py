"""Turns that outlive their process: resumed where they stood, and no tool is run twice that must
not be.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS

from rungwise import Budget, ConfigurationError, Policy, Tool, TurnPolicy, replay
from rungwise.adapters.durable.own_rows import client_of
from rungwise.adapters.durable.turn_tape import UNKNOWN
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.command_line import invoke, refused
from support.durable import child, killed_after, same, until
from support.durable_tools import PAID, TOOLS, ring

DOWN = ScriptedReply(status=503)
MESSAGES = "Ring the heron, then look at it."
SHORT = "[waits]\nretry_base = 0.01\nretry_cap = 0.01\noverload_cap = 0.01"


def calling(*names: str) -> ScriptedReply:
    arguments = '{"bird": "heron"}'
    calls = [
        {"id": f"c{place}", "name": name, "arguments": arguments}
        for place, name in enumerate(names)
    ]
    return ScriptedReply(tool_calls=calls)


def answer(request: ReceivedRequest) -> ScriptedReply:
    """Call both tools, and answer once there are results."""
    is_first = request.body["messages"][-1]["role"] == "user"
    return calling("ring", "look") if is_first else ScriptedReply(text="It is grey.")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "ran.txt"
    file.touch()
    monkeypatch.setenv("DURABLE_LOG", str(file))
    return file


def told(server: Any) -> dict[str, str]:
    """Return what the model was told last of each tool call."""
    return {
        each["tool_call_id"]: each["content"]
        for each in server.requests[-1].body["messages"]
        if "tool_call_id" in each
    }


@pytest.mark.full
def test_an_id_is_run_once_in_this_process_and_the_next(
    serve: Any,
    backend_of: Any,
    opened: Any,
    log: Path,
) -> None:
    server = serve(DOWN, answer)
    open_ = opened(backend_of(server))
    with open_() as durable:
        first = durable.turn("heron", MESSAGES, tools=TOOLS)
        assert durable.turn("heron", MESSAGES, tools=TOOLS) == first
        with pytest.raises(ConfigurationError, match="the id of another request"):
            durable.turn("heron", MESSAGES, tools=PAID)
        with pytest.raises(ConfigurationError, match="the id of another request"):
            durable.call("heron", MESSAGES)
    with open_() as durable:
        again = durable.turn("heron", MESSAGES, tools=TOOLS)
        assert durable.handle("heron").status() == "finished"
    assert again == first
    assert (again.text, again.calls, again.attempts) == ("It is grey.", 2, len(server.requests))
    assert again.messages == first.messages
    assert replay(again.journal).outcome == "finished"
    assert sorted(log.read_text().splitlines()) == ["look heron", "ring heron"]
    assert told(server) == {"c0": "the heron is ringed", "c1": '{"heron":"grey"}'}


@pytest.mark.full
@pytest.mark.parametrize("tool", ["ring heron", "look heron"])
def test_a_tool_that_ran_when_its_process_died_is_run_again_only_if_it_may_be(
    tool: str,
    serve: Any,
    opened: Any,
    database: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serve(calling(tool.split()[0]), answer)
    monkeypatch.setenv("DURABLE_DIE_IN", tool)
    died = child(
        server,
        database,
        "heron",
        messages=MESSAGES,
        is_turn=True,
        policy=SHORT,
    )
    assert died.communicate(timeout=60)[0] == ""
    monkeypatch.delenv("DURABLE_DIE_IN")
    with opened(same(server))(policy=Policy.from_toml(SHORT)) as durable:
        result = durable.turn("heron", MESSAGES, tools=TOOLS)
    is_repeatable = tool == "look heron"
    assert log.read_text().splitlines() == [tool] * (1 + is_repeatable)
    assert told(server) == {"c0": '{"heron":"grey"}' if is_repeatable else UNKNOWN}
    assert (result.text, result.attempts) == ("It is grey.", 2)
    assert len(server.requests) == 2
    assert replay(result.journal).outcome == "finished"


@pytest.mark.dear(3)
@pytest.mark.sampled(24)
@pytest.mark.parametrize("moment", range(12))
def test_a_process_that_dies_between_any_two_writes_runs_no_tool_twice_and_stays_within_the_bound(
    moment: int,
    serve: Any,
    opened: Any,
    database: str,
    log: Path,
) -> None:
    server = serve(DOWN, answer)
    died = child(
        server, database, "heron", messages=MESSAGES, is_turn=True, policy=SHORT, die_at=moment
    )
    said, _ = died.communicate(timeout=60)
    with opened(same(server))(policy=Policy.from_toml(SHORT)) as durable:
        result = durable.turn("heron", MESSAGES, tools=TOOLS)
    crashed = [step.reason for call in result.journal.calls for step in call.steps].count("crashed")
    assert (died.returncode, said) in ((9, ""), (0, "It is grey.\n"))
    assert result.text == "It is grey."
    assert crashed <= 1
    assert len(server.requests) <= result.attempts <= len(server.requests) + crashed <= 5
    assert log.read_text().splitlines().count("ring heron") <= 1
    assert told(server)["c0"] in ("the heron is ringed", UNKNOWN)
    assert replay(result.journal).outcome == "finished"


def test_an_approval_may_come_in_another_process(
    serve: Any,
    backend_of: Any,
    opened: Any,
    log: Path,
) -> None:
    server = serve(calling("ring"), answer)
    open_ = opened(backend_of(server))
    with open_() as durable:
        assert durable.turn("heron", MESSAGES, tools=PAID).outcome == "awaiting_approval"
    assert log.read_text() == ""
    with open_() as durable:
        paused = durable.handle("heron").result()
        [waiting] = paused.awaiting
        result = durable.turn(
            "heron, approved", paused.messages, tools=PAID, approvals={waiting.id: True}
        )
    assert result.text == "It is grey."
    assert log.read_text() == "ring heron\n"


@pytest.mark.full
def test_a_turn_that_is_started_again_has_what_is_left_of_its_budget(
    serve: Any,
    opened: Any,
    database: str,
    log: Path,
) -> None:
    server = serve(DOWN, calling("look"), ScriptedReply(hang=True), answer)
    killed_after(
        3,
        server,
        database,
        "heron",
        messages=MESSAGES,
        is_turn=True,
        policy=SHORT,
    )
    policy = TurnPolicy(budget=Budget(attempts=50))
    with opened(same(server))(policy=Policy()) as durable:
        with pytest.raises(ConfigurationError, match="the id of another request"):
            durable.turn("heron", MESSAGES, tools=TOOLS, policy=policy)
        with pytest.raises(ConfigurationError, match="has changed since this call began"):
            durable.turn("heron", MESSAGES, tools=TOOLS)
        result = durable.turn("heron", MESSAGES, tools=TOOLS, restart=True)
    assert result.journal.setting.policy.budget.attempts == 100 - 3


@pytest.mark.full
def test_what_was_started_again_is_taken_over_by_nobody(
    serve: Any,
    opened: Any,
    database: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another one may have seen what a dead process had left just before it was begun anew."""
    server = serve(DOWN, ScriptedReply(hang=True), ScriptedReply("It is grey.", delay=1.0))
    killed_after(
        2,
        server,
        database,
        "heron",
        messages=MESSAGES,
        is_turn=True,
        policy=SHORT,
    )
    seen: list[Any] = []
    look = DBOS.list_workflows

    def listed(**asked: Any) -> list[Any]:
        found = look(**asked)
        if "workflow_ids" in asked:
            return found
        seen.extend(each for each in found if each.executor_id not in ("", None))
        return seen or found

    monkeypatch.setattr(DBOS, "list_workflows", listed)
    with opened(same(server))(policy=Policy()) as durable:
        until(lambda: seen)
        handle = durable.start_turn("heron", MESSAGES, tools=TOOLS, restart=True)
        until(lambda: len(server.requests) == 3)
        durable.workflows.engine.take_over()
        assert handle.status() == "running"
        assert handle.result().text == "It is grey."


def test_what_another_process_would_not_find_is_refused(
    serve: Any, backend_of: Any, opened: Any
) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        (
            {"tools": [Tool(lambda bird: bird, name="ring")]},
            "the function of the tool 'ring' .* top of a module",
        ),
        (
            {"tools": [Tool(ring, needs_approval=lambda bird: True)]},
            "the needs_approval of the tool 'ring'",
        ),
        ({"tools": TOOLS, "policy": Policy()}, "policy must be a TurnPolicy"),
        (
            {"tools": [{"name": "fly"}], "executor": lambda name, arguments: name},
            "the executor of a durable turn",
        ),
        (
            {"tools": TOOLS, "compactor": lambda messages, room: messages},
            "the compactor of a durable turn",
        ),
        ({"tools": TOOLS, "within": object()}, "cannot have within="),
        ({"tools": TOOLS, "approvals": {"c0": True}}, "approvals are for the messages"),
    ]
    with opened(backend_of(serve(answer)))() as durable:
        for options, says in refused:
            with pytest.raises(ConfigurationError, match=says):
                durable.turn("heron", MESSAGES, **options)


def test_the_command_lists_and_explains_turns(
    serve: Any,
    backend_of: Any,
    opened: Any,
    database: str,
    log: Path,
) -> None:
    with opened(backend_of(serve(answer)))() as durable:
        durable.turn("heron", MESSAGES, tools=TOOLS)
    [listed] = json.loads(invoke("calls", "--database", database, "--json").stdout)
    assert (listed["id"], listed["status"], listed["attempts"]) == ("heron", "finished", 2)
    explained = invoke("calls", "--database", database, "heron")
    assert (explained.exit_code, "finished" in explained.stdout) == (0, True)


def test_the_command_deletes_what_has_ended_and_nothing_that_may_run(
    serve: Any, backend_of: Any, opened: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("calls", "--database", database)
    monkeypatch.setattr("rungwise.adapters.durable.listing.PAGE", 1)
    server = serve(ScriptedReply("In the reeds."))
    open_ = opened(backend_of(server))
    with open_() as durable:
        states = {"running": "PENDING", "queued": "ENQUEUED", "cancelled": "CANCELLED"}
        for id in ("one", "two", *states):
            durable.call(id, "Where?")
        with client_of(database) as client, client._sys_db.engine.begin() as connection:
            rows = client._sys_db.tables.workflow_status
            for id, status in states.items():
                of_id = rows.update().where(rows.c.workflow_uuid == id)
                connection.execute(of_id.values(status=status, queue_name=None))
        assert invoke(*command, "--delete", "--older-than", "30d").stdout == "0 calls deleted\n"
        assert invoke(*command, "--delete", "--older-than", "0s").stdout == "2 calls deleted\n"
        left = json.loads(invoke(*command, "--json").stdout)
        assert {each["id"] for each in left} == set(states)
        with client_of(database) as client, client._sys_db.engine.begin() as connection:
            steps = client._sys_db.tables.operation_outputs.c.workflow_uuid
            kept = {
                id for (id,) in connection.execute(steps.table.select().with_only_columns(steps))
            }
        assert kept == set(states)
        monkeypatch.setattr("rungwise.adapters.durable.listing.DAY", 0.0)
        assert invoke(*command, "--delete", "--older-than", "0s").stdout == "1 call deleted\n"
        assert len(server.requests) == 5
        durable.call("one", "Where?")  # the id is free
        assert len(server.requests) == 6


@pytest.mark.parametrize(
    "options",
    [
        "--delete",
        "--older-than 30d",
        "x --delete --older-than 30d",
        "--failed --delete --older-than 30d",
    ],
)
def test_what_is_deleted_is_named_by_its_age_alone(options: str, tmp_path: Path) -> None:
    says = refused("calls", "--database", f"sqlite:///{tmp_path / 'x'}", *options.split())
    assert "--delete needs --older-than" in says
