"""The diffs of the contributors' pages are what it takes: each is applied to a copy of the checkout
and then used.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import patience

ROOT = Path(__file__).parents[2]
PAGES = "".join(
    (ROOT / folder / "README.md").read_text(encoding="utf-8") for folder in ("fsm", "adapters")
)
DIFFS = re.findall(r"```diff\n(.*?)```", PAGES, re.DOTALL)

RUNG = """
from rungwise import CALL, Policy, verify
from rungwise.core import Call, Failure, Reply, Request
assert verify(chain=2).ok and CALL.limits["pleads"] == 1
assert Policy.from_toml("[limits]\\npleads = 2").limits.pleads == 2
call = Call(Request("hi"))
call.begin()
send = call.receive(Failure("content_policy"))
assert (send.rung, send.messages[-1].text) == ("plead", "Please reconsider.")
assert call.receive(Reply("Well.", stop_reason="stop")) is None and call.result.text == "Well."
"""
EXPECTATIONS = """
# Pleading

[[expect]]
that = "a refusal is pleaded with"
given = ["filtered", "answer"]
path = ["ask", "plead by may_plead", "done"]
spent = { pleads = 1 }

[[expect]]
that = "a refusal is pleaded with once"
given = ["content_policy"]
path = ["ask", "plead", "refused"]
spent = { pleads = 1 }

[[expect]]
that = "a refusal is pleaded with before the next backend is asked, which is not"
given = ["content_policy_wait_500"]
backends = 2
after_refusal = "fall_back"
path = ["ask", "plead by may_plead", "fallback by may_ask_another", "refused"]
spent = { pleads = 1, fallbacks = 1 }

[[expect]]
that = "a refusal is pleaded with whatever else holds"
given = ["overrun filtered_inline", "answer"]
backends = 2
after_refusal = "end"
tool_result = true
compactor = true
throttled = true
prior_answer = "housekeeping"
max_tokens = 10
switch_after = { content_policy = 1 }
path = ["ask", "plead by may_plead", "done"]
spent = { pleads = 1 }

[[expect]]
that = "a refusal is pleaded with after text that was gathered"
given = ["cut", "filtered", "answer"]
path = ["ask", "continuation", "plead by may_plead", "done"]
spent = { continuations = 1, pleads = 1 }

[[expect]]
that = "a continuation gives no plea back"
given = ["filtered", "cut", "filtered"]
path = ["ask", "plead", "continuation", "partial"]
spent = { pleads = 1, continuations = 1 }

[[expect]]
that = "a retry before it stays spent, and so does the plea"
given = ["error_500", "filtered", "error_500"]
path = ["ask", "retry", "plead", "retry", "retry", "failed"]
spent = { retries = 3, pleads = 1 }

[[expect]]
that = "each thing that was spent before it stays spent"
given = ["stale", "error_401", "empty", "thought", "filtered", "stale"]
keys = 2
tool_result = true
path = ["ask", "resend", "rotate", "nudge", "prefill", "plead", "retry", "retry", "retry", "failed"]
spent = { resends = 1, rotations = 1, nudges = 1, prefills = 1, retries = 3, pleads = 1 }

[[expect]]
that = "what was enlarged, repaired, asked again or compacted before it stays so"
given = ["cut_tools", "bad_temperature", "empty", "overflow", "filtered", "answer"]
compactor = true
path = ["ask", "enlarge", "repair", "reask", "compact", "plead", "done"]
spent = { enlargements = 1, repairs = 1, reasks = 1, compactions = 1, pleads = 1 }

[[expect]]
that = "what was corrected before it stays so"
given = ["prose", "filtered", "json"]
json = true
path = ["ask", "correct", "plead", "done"]
spent = { corrections = 1, pleads = 1 }

[[expect]]
that = "the next backend has its own pleas where a fallback gives them back, which it does not"
given = ["filtered", "filtered", "filtered"]
backends = 3
after_refusal = "fall_back"
path = ["ask", "plead", "fallback", "fallback", "refused"]
spent = { pleads = 1, fallbacks = 2 }

[[expect]]
that = "the caller may end the call before a plea goes out"
given = ["filtered", "cancel"]
path = ["ask", "plead", "cancelled"]
spent = { pleads = 1 }
sends = 1

[[expect]]
that = "a plea may come too late"
given = ["filtered", "late"]
seconds = 900.0
path = ["ask", "plead", "over_budget"]
spent = { pleads = 1 }
sends = 1

[[expect]]
that = "the last attempt is kept from a plea"
given = ["filtered", "answer"]
backends = 2
attempts = 2
path = ["ask", "plead", "fallback by must_yield", "done"]
spent = { pleads = 1, fallbacks = 1 }
sends = 2

[[expect]]
that = "a plea goes to the next backend instead"
given = ["filtered", "found_open", "answer"]
backends = 2
path = ["ask", "plead", "fallback by may_fall_back", "done"]
spent = { pleads = 1, fallbacks = 1 }
sends = 2

[[expect]]
that = "text of an earlier call is kept where a plea cannot go out"
given = ["filtered", "found_open"]
gathered = true
path = ["ask", "plead", "partial by has_text"]
spent = { pleads = 1 }
sends = 1

[[expect]]
that = "a plea that nobody can be asked ends the call"
given = ["filtered", "found_open"]
path = ["ask", "plead", "failed"]
spent = { pleads = 1 }
sends = 1
"""
EXPLANATIONS = {
    "| `may_ask_another` |": "| `may_plead` | a plea is left |",
    "| `fallback` | the conv": "| `plead` | the last request, and a hint | it may reconsider |",
}
"""For a row of the tables in `diagrams/README.md`, by how it begins, the one that goes before."""
TRIED = (
    "tests/fsm",
    "tests/adapters/cli",
    "tests/end_to_end/test_own_rungs.py",
    "tests/rungwise/test_documents.py::test_every_block_of_a_page_runs",
    "tests/rungwise/test_journal_readers.py",
    "tests/rungwise/test_readme.py",
)
"""What is run with the rung: what the page names, and what is about the shipped table elsewhere."""
WIRE = """
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from rungwise import Client
from rungwise.testing import Clocks
from rungwise.adapters.wires.plain_text import PlainText

class Echo(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).upper()
        self.send_response(503 if not asked else 200)
        asked.append(body)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass

asked = []
server = HTTPServer(("127.0.0.1", 0), Echo)
Thread(target=server.serve_forever, daemon=True).start()
with Client([PlainText(url=f"http://127.0.0.1:{server.server_port}/")], testing=Clocks(sleep=lambda seconds: None)) as client:
    assert client.call("hello").text == "HELLO"
    assert [event.text for event in client.stream("hello") if type(event).__name__ == "Text"] == ["HELLO"]
assert len(asked) == 3
"""  # noqa: E501
TOY = """
import json, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from rungwise import Client
from rungwise.adapters.wires.toy.backend import Toy

class Echo(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked.append(body)
        said = body["messages"][0]["content"].upper()
        if body["stream"]:
            events = [{"say": letter} for letter in said] + [{"end": "full" if len(asked) == 1 else "done"}]
            answer = "".join(f"data: {json.dumps(event)}\\n\\n" for event in events).encode()
        else:
            answer = json.dumps({"say": said, "end": "done"}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass

asked = []
server = HTTPServer(("127.0.0.1", 0), Echo)
Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
with Client([Toy("any", base_url=url)]) as client:
    *_, result = client.stream("hello")  # the first answer is cut, and continued
    assert (result.outcome, result.parts[0], len(asked)) == ("done", "HELLO", 2)
    assert client.call("hello").text == "HELLO"
ask = [sys.executable, "-m", "rungwise", "ask", "hello", "--api", "toy", "--model", "any", "--base-url", url]
done = subprocess.run([*ask, "--max-tokens", "9"], capture_output=True, text=True)
assert done.stdout.strip() == "HELLO", done.stderr
assert (asked[-1]["model"], asked[-1]["most"]) == ("any", 9)
"""  # noqa: E501
MACHINE = """
from rungwise.fsm.engine.checker.check import check_table
from rungwise.fsm.diagram import render
from rungwise.fsm.door import DOOR
from rungwise.fsm.engine.machine.run import Run
check_table(DOOR)
assert "stayed_quiet [may_knock]" in render(DOOR, "mermaid")
run = Run.at_start(DOOR, DOOR.limits)
for event in ("sent", "stayed_quiet", "sent", "was_opened"):
    run.fire(event)
assert (run.state, run.attempts) == ("open", 2)
"""


def changed(text: str, hunk: str) -> str:
    """Return a text with a hunk applied: the lines with a minus, or none, stand in it, in this
    order and once.
    """
    lines = hunk.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(old) == 1, old
    return text.replace(old, new)


def apply(diff: str, checkout: Path) -> None:
    """Apply a diff to a copy of the checkout."""
    for each in re.split(r"^(?=--- )", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@.*\n", each, flags=re.MULTILINE)
        (path,) = re.findall(r"^\+\+\+ b/(.+)$", head, re.MULTILINE)
        target = checkout / path
        text = target.read_text(encoding="utf-8") if target.exists() else ""
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            text = changed(text, hunk) if target.exists() else "".join(line[1:] for line in lines)
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize(
    ("diff", "use"),
    [
        pytest.param(DIFFS[0], RUNG, marks=pytest.mark.full),
        (DIFFS[1], MACHINE),
        (DIFFS[2], WIRE),
        (DIFFS[3], TOY),
    ],
    ids=["rung", "machine", "wire", "toy"],
)
def test_a_diff_of_a_contributors_page_does_what_it_says(
    diff: str, use: str, tmp_path: Path
) -> None:
    for folder in ("fsm", "adapters"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copytree(ROOT / "rungwise", tmp_path / "rungwise", symlinks=True)
    apply(diff, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", use],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=patience(),
    )
    assert done.returncode == 0, done.stderr


def run_in(checkout: Path, *command: str) -> str:
    """Run Python in a copy of the checkout and return what it printed."""
    # without what says that this is a test, for what is run is pytest itself
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=checkout,
        env=env | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=patience(1200),
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.full
@pytest.mark.slowest
def test_a_rung_takes_four_files_by_hand_and_one_command(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(
        ROOT,
        checkout,
        symlinks=True,
        ignore=shutil.ignore_patterns("__pycache__", ".*", "build", "dist"),
    )
    shutil.copytree(ROOT / ".ci", checkout / ".ci")
    apply(DIFFS[0], checkout)
    expectations = checkout / "tests/fsm/engine/checker/expectations.toml"
    with expectations.open("a", encoding="utf-8") as file:
        file.write(EXPECTATIONS)
    explanations = checkout / "diagrams/README.md"
    text = explanations.read_text(encoding="utf-8")
    for row, new in EXPLANATIONS.items():
        assert text.count(f"\n{row}") == 1, row
        text = text.replace(f"\n{row}", f"\n{new}\n{row}")
    explanations.write_text(text, encoding="utf-8")
    by_hand = [
        path.relative_to(checkout).as_posix()
        for folder in ("fsm", "adapters", "rungwise", "tests", "diagrams", "docs")
        for path in (checkout / folder).rglob("*")
        if path.is_file() and path.read_bytes() != (ROOT / path.relative_to(checkout)).read_bytes()
    ]
    assert len(by_hand) <= 4, by_hand

    changes = run_in(checkout, "tests/renew.py")
    assert "diagrams/rows.md" in changes
    assert "docs/pages/images/odds.svg" in changes
    assert re.search(r"a refusal: .*refused.* -> .*plead", changes), changes
    run_in(checkout, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *TRIED)
