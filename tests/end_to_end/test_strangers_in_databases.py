"""What somebody who can write to the database of durable calls cannot do with the processes that
read it: run code of their own in them.
"""

import base64
import json
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rungwise import CallError, Client, RungwiseError
from rungwise.adapters.durable.databases import is_postgres, path_of_file
from rungwise.adapters.durable.durable import Durable
from rungwise.adapters.durable.handle import Handle
from rungwise.adapters.durable.listing import StoredCalls
from rungwise.adapters.durable.workflows import Begun
from rungwise.testing import ScriptedReply
from support import durable_tools
from support.command_line import invoke
from support.durable import until

MESSAGES = "Where does the heron nest?"
ANSWER = ScriptedReply(text="In the reeds.")
NOT_OURS = "what the database holds of it is no call of Rungwise's"


class Payload:
    """Write a file as soon as anybody unpickles it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.file,)


class Stranger:
    """Write to a database whatever DBOS would unpickle."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.file = folder / "ran"
        self.text = base64.b64encode(pickle.dumps(Payload(self.file))).decode()

    @property
    def has_run(self) -> bool:
        """Tell whether anybody has unpickled it."""
        return self.file.exists()

    def connect(self) -> Any:
        """Return a connection, whose block commits."""
        if is_postgres(self.url):
            return psycopg.connect(self.url, options="-c search_path=dbos")
        return sqlite3.connect(path_of_file(self.url))

    def columns(self) -> dict[str, list[str]]:
        """Return the tables with values of programs, each with their columns of text."""
        with self.connect() as connection:
            if is_postgres(self.url):
                found = connection.execute(
                    "SELECT table_name, column_name, data_type FROM information_schema.columns "
                    "WHERE table_schema = 'dbos'"
                ).fetchall()
            else:
                found = connection.execute(
                    "SELECT m.name, c.name, c.type FROM sqlite_master m, pragma_table_info(m.name)"
                    " c WHERE m.type = 'table'"
                ).fetchall()
        tables: dict[str, list[str]] = {}
        for table, column, kind in found:
            if kind.lower() == "text":
                tables.setdefault(table, []).append(column)
        return {name: texts for name, texts in tables.items() if set(texts) & {*VALUES, FORM}}

    def poison(self, form: str | None, **values: str) -> None:
        """Put a pickle wherever a value of a workflow stands, and say that it is one.

        Arguments:
            form: what the rows say of themselves.
            values: of other columns of each workflow.
        """
        mark = "%s" if is_postgres(self.url) else "?"
        for table, texts in self.columns().items():
            changes = dict.fromkeys(set(texts) & set(VALUES), self.text)
            if FORM in texts:
                changes |= {FORM: form}
            if table == "workflow_status":
                changes |= values
            written = ", ".join(f"{name} = {mark}" for name in changes)
            with self.connect() as connection:
                connection.execute(f"UPDATE {table} SET {written}", [*changes.values()])


VALUES = ("inputs", "output", "error", "value", "message")
"""The columns that hold a value of a program."""

FORM = "serialization"
"""The column that says in which form they are."""

TABLES = {
    "workflow_status",
    "workflow_input",
    "workflow_output",
    "operation_outputs",
    "notifications",
    "workflow_events",
    "workflow_events_history",
    "streams",
    "event_dispatch_kv",  # Postgres alone has it
}
"""The tables with such columns: a new one must be tried, too."""

FORMS = ("py_pickle", None, "custom_serializer")


def refusal(do: Callable[[], object]) -> str:
    """Return how something was refused."""
    with pytest.raises(RungwiseError) as caught:
        do()
    return str(caught.value)


@pytest.mark.parametrize("form", FORMS)
def test_a_pickle_is_refused_before_anybody_reads_it(
    form: str | None, serve: Any, backend_of: Any, opened: Any, database: str, tmp_path: Path
) -> None:
    stranger = Stranger(database, tmp_path)
    open_ = opened(backend_of(serve(ANSWER, ScriptedReply(status=401), ANSWER)))
    with open_() as durable:
        durable.call("done", MESSAGES)
        with pytest.raises(CallError):
            durable.call("failed", MESSAGES)
        assert [*durable.stream("streamed", MESSAGES)]
    stranger.poison(form)
    assert set(stranger.columns()) <= TABLES
    for status in ("SUCCESS", "ERROR", "PENDING"):
        stranger.poison(form, status=status)
        if status != "PENDING":
            for call in StoredCalls(database).newest(9):
                assert (call.status, call.cause) == ("broken", NOT_OURS)
        for command in (("calls",), ("calls", "done", "--json"), ("stats",), ("rates",)):
            seen = invoke(*command, "--database", database)
            assert seen.exception is None or isinstance(seen.exception, SystemExit)
            assert stranger.text[:20] not in seen.output
        with open_() as durable:
            handle: Handle[Any] = Handle("done", durable.workflows, Begun("done"))
            events = handle.stream()
            assert "is no call of Rungwise's" in refusal(lambda: durable.call("done", MESSAGES))
            assert "is no call of Rungwise's" in refusal(lambda: durable.handle("done"))
            if status != "PENDING":  # one waits for this
                assert "is no call of Rungwise's" in refusal(handle.result)
            assert "is no call of Rungwise's" in refusal(lambda events=events: [*events])
    assert not stranger.has_run


@pytest.mark.full
def test_a_pickle_in_a_column_of_another_case_is_refused_too(
    serve: Any, backend_of: Any, tmp_path: Path
) -> None:
    """SQLite finds a column in any case, and then names it as it is declared."""
    stranger = Stranger(f"sqlite:///{tmp_path / 'calls.sqlite'}", tmp_path)
    with Durable(Client(backend_of(serve(ANSWER))), stranger.url) as durable:
        durable.call("done", MESSAGES)
        home = durable.workflows.engine.home
    stranger.poison("py_pickle", status="ENQUEUED", executor_id="dead", queue_name=home)
    with stranger.connect() as connection:
        for table, texts in stranger.columns().items():
            if FORM in texts:
                connection.execute(f"ALTER TABLE {table} RENAME COLUMN {FORM} TO {FORM.upper()}")
    calls = StoredCalls(stranger.url)
    assert [call.id for call in calls.all()] == ["done"]
    with Durable(Client(backend_of(serve(ANSWER))), stranger.url):
        until(lambda: [call.status for call in calls.all()] == ["broken"])
    assert not stranger.has_run


@pytest.mark.parametrize(
    "changes",
    [
        {"attempts": "abc"},
        {"seconds": "x"},
        {"cost": [1]},
        {"outcome": 7},
        {"cause": {}},
        {"journal": []},
    ],
    ids=str,
)
def test_a_result_of_any_shape_is_listed_as_broken(
    changes: dict[str, Any], serve: Any, backend_of: Any, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'calls.sqlite'}"
    with Durable(Client(backend_of(serve(ANSWER))), url) as durable:
        durable.call("done", MESSAGES)
    with sqlite3.connect(tmp_path / "calls.sqlite") as connection:
        for table in ("workflow_status", "workflow_output"):
            for id, output in connection.execute(
                f"SELECT workflow_uuid, output FROM {table} WHERE output IS NOT NULL"
            ).fetchall():
                forged = json.dumps({**json.loads(json.loads(output)), **changes})
                connection.execute(
                    f"UPDATE {table} SET output = ? WHERE workflow_uuid = ?",
                    [json.dumps(forged), id],
                )
    for command in (("calls",), ("calls", "--json"), ("calls", "done"), ("stats",), ("rates",)):
        seen = invoke(*command, "--database", url)
        assert seen.exception is None or isinstance(seen.exception, SystemExit)


@pytest.mark.full
@pytest.mark.parametrize("status", ["PENDING", "ENQUEUED"])
def test_a_pickle_in_what_is_left_to_others_ends_as_a_broken_call(
    status: str, serve: Any, backend_of: Any, opened: Any, database: str, tmp_path: Path
) -> None:
    stranger = Stranger(database, tmp_path)
    open_ = opened(backend_of(serve(ANSWER)))
    with open_() as durable:
        durable.call("left", MESSAGES)
        home = durable.workflows.engine.home
    stranger.poison("py_pickle", status=status, executor_id="dead", queue_name=home)
    calls = StoredCalls(database)
    with open_():
        until(lambda: [call.status for call in calls.all()] == ["broken"])
    assert not stranger.has_run


@pytest.mark.full
def test_a_database_names_functions_of_the_programs_own_modules_alone(
    serve: Any, backend_of: Any, opened: Any, tmp_path: Path
) -> None:
    """A stranger may write a turn whose tools are functions of the standard library."""
    server = serve(ANSWER)
    calls = f"sqlite:///{tmp_path / 'calls.sqlite'}"
    for place, path in enumerate(PATHS_OUT_OF_OUR_MODULES):
        with Durable(Client(backend_of(server)), calls, modules=["support"]) as durable:
            durable.turn(f"turn {place}", MESSAGES, tools=[durable_tools.ring])
            home = durable.workflows.engine.home
        with sqlite3.connect(tmp_path / "calls.sqlite") as connection:
            for table in ("workflow_status", "workflow_input"):
                connection.execute(
                    f"UPDATE {table} SET inputs = replace(inputs, ?, ?)",
                    ["support.durable_tools:ring", path],
                )
            connection.execute(
                "UPDATE workflow_status SET status = 'ENQUEUED', queue_name = ?", [home]
            )
        with Durable(Client(backend_of(server)), calls, modules=["support"]) as durable:
            why = refusal(durable.handle(f"turn {place}").result)
        assert "Durable(..., modules=[...])" in why or "is not defined there" in why


PATHS_OUT_OF_OUR_MODULES = (
    "os:system",
    "subprocess:run",
    "supporting:x",
    "support.durable_tools:os.system",
    "support.durable_tools:Path.unlink",
    "support.durable_tools:ring.__globals__.get",
    "support.durable_tools:os",
)
