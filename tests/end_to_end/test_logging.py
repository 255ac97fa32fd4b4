"""What a call writes to logs: its own steps on its own logger. The `transitions` library has a logger of its own."""

import logging
import subprocess
import sys
from typing import Any

import pytest
import transitions

from rungwise import Client
from rungwise.testing import ScriptedReply

ANSWER = ScriptedReply(text="In the reeds.")


def test_our_steps_and_the_machine_log_to_their_own_loggers(
    serve: Any, backend_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Client(backend_of(serve(ScriptedReply(), ANSWER)), sleep=lambda _: None) as client:
        client.call("Where?")
    assert [record.getMessage().split()[0] for record in caplog.records if record.name == "rungwise"] == [
        *("sent", "came_empty", "sent", "answered")
    ]
    machine = [record for record in caplog.records if record.name.startswith("transitions")]
    assert {record.name for record in machine} == {"transitions.core"}
    assert all(record.getMessage().startswith("rungwise: ") for record in machine)


def test_other_machines_of_the_process_log_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    machine = transitions.Machine(states=["a", "b"], initial="a", name="theirs")
    machine.add_transition("go", "a", "b")
    machine.trigger("go")
    assert [record for record in caplog.records if record.name == "transitions.core"]


def test_basic_logging_stays_short() -> None:
    script = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "logging.getLogger('transitions').setLevel(logging.WARNING)\n"
        "import rungwise\n"
        "call = rungwise.core.Call(rungwise.core.Request('hi')); call.begin()\n"
        "call.receive(rungwise.core.Reply('Hello.', stop_reason='stop'))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == ["rungwise", "rungwise"]
