"""The end of the demo: a process dies in the middle of an answer, and another one resumes it.

The two share a database, in which the durable call records what it has written. A reader of the
second process gets the whole answer, so what the first one wrote is left out of what is shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from typing import Final

import httpx

from rungwise.adapters.client import Client
from rungwise.adapters.demo.scenarios import SCENARIOS
from rungwise.adapters.demo.view import STYLES, Screen
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import EmbeddedProvider, ReceivedRequest
from rungwise.adapters.wires.chat.backend import OpenAIChat
from rungwise.fsm.replies.reply import Text

ID: Final = "tides"
MESSAGES: Final = "Why are there tides?"
ANSWER: Final = SCENARIOS["cut-stream"].primary[0].text
LASTS: Final = 2.0  # seconds that the first answer takes

KILLED: Final = 9  # the exit code of a process that dies
CHILD: Final = (
    "import sys; from rungwise.adapters.demo.crash import run_and_die; run_and_die(*sys.argv[1:])"
)


def show_crash(screen: Screen) -> None:
    """Run a durable call in a process that dies, and resume it here; without the extra, name it."""
    if find_spec("dbos") is None:
        screen.print()
        screen.paragraph("For calls that outlive their process: pip install 'rungwise[durable]'")
        return
    from rungwise.adapters.durable.durable import Durable

    screen.print()
    screen.print("A process that dies in the middle of an answer", "bold")
    screen.paragraph(
        "It runs a durable call, and kills itself. This process has the same database.",
        "italic",
        indent=4,
    )
    screen.print()
    with tempfile.TemporaryDirectory() as folder, EmbeddedProvider(_answer) as server:
        database = f"sqlite:///{folder}/calls.sqlite"
        # -P, or it would run a stranger's random.py in this folder
        command = [sys.executable, "-P", "-c", CHILD, server.base_url, database]
        died = subprocess.run(command, stdout=subprocess.PIPE)
        written = died.stdout.decode()
        screen.label("process 1", "bold cyan")
        screen.say(f"exits with {died.returncode}; it has written:")
        screen.stream(written, "default")
        with Durable(_client(server.base_url), database) as durable:
            text = ""
            for event in durable.stream(ID, MESSAGES):
                if isinstance(event, Text):
                    text += event.text
            result = durable.handle(ID).result()
        screen.label("process 2", "bold cyan")
        screen.say("resumes:")
        screen.stream(text.removeprefix(written), "default")
        screen.label(result.outcome, STYLES[result.outcome])
        requests = len(server.requests)
        screen.say(
            f"{len(text)} characters in {requests} requests; nothing is lost, and nothing is "
            "repeated"
        )


def run_and_die(url: str, database: str) -> None:
    """Run the call in a process of its own, and end that once something was written."""
    from rungwise.adapters.durable.durable import Durable

    with Durable(_client(url), database) as durable:
        for event in durable.stream(ID, MESSAGES):
            if isinstance(event, Text):
                print(event.text, end="", flush=True)
                os._exit(KILLED)


def _client(url: str) -> Client:
    # The environment, such as a proxy, must not come between the demo and its own server.
    http = httpx.AsyncClient(timeout=None, trust_env=False)
    return Client(OpenAIChat("demo", base_url=url, api_key="demo"), async_http=http)


def _answer(request: ReceivedRequest) -> ScriptedReply:
    """Answer slowly the first time, and then at once with the rest of the answer."""
    written = ""
    for message in request.body["messages"]:
        if message["role"] == "assistant":
            written += message["content"]
    rest = ANSWER[len(written) :]
    return ScriptedReply(text=rest, lasts=0.0 if written else LASTS)
