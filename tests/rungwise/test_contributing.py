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
    for each in re.split(r"^(?=--- )", diff, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@.*\n", each, flags=re.MULTILINE)
        (path,) = re.findall(r"^\+\+\+ b/(.+)$", head, re.MULTILINE)
        target = tmp_path / path
        text = target.read_text(encoding="utf-8") if target.exists() else ""
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            text = changed(text, hunk) if target.exists() else "".join(line[1:] for line in lines)
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", use],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=patience(),
    )
    assert done.returncode == 0, done.stderr
