"""`rungwise ask --tools`: a turn at the command line."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rungwise import TurnHints, TurnJournal
from rungwise.testing import EmbeddedProvider, ScriptedReply
from support.command_line import invoke, printed, read_until, refused, start
from support.tables import OTHERS_OFF_TOML
from support.turn_modes import calling
from support.waiting import patience

BIRDS = """
import asyncio, os, threading
import rungwise

def look(lake: str) -> list[str]:
    "Look which birds nest by a lake."
    return ["heron"]

def tell() -> str:
    print("told by a tool")
    return "told"

def breaks():
    raise rungwise.ToolError("the boat has sunk")

def hang():
    threading.Event().wait(60)

async def wait():
    await asyncio.sleep(60)

class Held:
    TOOL = rungwise.Tool(look)

pay = rungwise.Tool(look, name="pay", needs_approval=True)
hand_over = rungwise.Tool(name="hand_over", parameters={"type": "object"}, terminating=True)
TOOLS = [look, breaks]
NAMED = {"look": look}
BOX = rungwise.Toolbox.of(TOOLS)
SLOW = [hang, wait]
NOBODYS = [{"name": "find", "parameters": {}}]
NUMBER, EMPTY = 3, []
TURN_POLICY = rungwise.TurnPolicy(auto_continues=1, summary=False)
POLICY = rungwise.Policy(base_cap=77, budget=rungwise.Budget(output_tokens=5000))
"""
LOOKS = calling(("look", '{"lake": "Vomb"}'), text="I look.")
ANSWER = ScriptedReply(text="A heron.")
ASK = ("ask", "Who?", "--model", "m", "--base-url")
"""A question, but for the URL."""
Ask = Callable[..., Result]
Serve = Callable[..., EmbeddedProvider]


@pytest.fixture(autouse=True)
def birds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a module of tools, in which the command runs, as if for the first
    time.
    """
    (tmp_path / "birds.py").write_text(BIRDS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "birds", raising=False)
    return tmp_path


@pytest.fixture
def ask() -> Ask:
    def run(provider: EmbeddedProvider, *arguments: str, tools: str = "birds:TOOLS") -> Result:
        return invoke(*ASK, provider.base_url, "--tools", tools, *arguments)

    return run


def without_host(provider: EmbeddedProvider, told: str) -> list[str]:
    """Return the lines of stderr, less what differs from run to run."""
    host = provider.base_url.removeprefix("http://").removesuffix("/v1")
    lines = told.replace(f"{host}/m", "HOST").splitlines()
    return [*lines[:-1], lines[-1].partition(", 0.")[0]]


def test_the_last_line_of_a_turn_ends_where_it_is_asked_for(
    rungwise_provider: Serve, ask: Ask
) -> None:
    assert ask(rungwise_provider(LOOKS, ANSWER), "--newline").stdout == "A heron.\n"


def test_a_turn_is_told_step_by_step_and_a_pipe_gets_the_answer_alone(
    rungwise_provider: Serve, ask: Ask
) -> None:
    Path("policy.toml").write_text("[waits]\nretry_base = 0\n")
    provider = rungwise_provider(LOOKS, ScriptedReply(status=500), ANSWER)
    result = ask(provider, "--policy", "policy.toml")
    assert result.exit_code == 0
    assert result.stdout == "A heron."
    assert without_host(provider, result.stderr) == [
        "  call 1 (ask)",
        "    request 1 (ask) to HOST",
        "    the model called tools: done",
        "  the model called tools: running them",
        "    look begins",
        "    look has ended",
        "  the tools have run (auto-continue 1/25; 1 of 1 calls worked): going on",
        "  call 2 (go on)",
        "    request 1 (ask) to HOST",
        "    the provider failed (HTTP 500, server error): sending the same again",
        "    request 2 (retry) to HOST",
        "    the answer came: done",
        "  the model answered: finished",
        "rungwise: finished: 2 calls, 3 requests",
    ]
    first = provider.requests[0].body
    last = provider.requests[-1].body
    assert [tool["function"]["name"] for tool in first["tools"]] == ["look", "breaks"]
    assert first["stream"] is True
    assert last["messages"][-1]["content"] == '["heron"]'


@pytest.mark.parametrize(
    "tools", ["birds:look", "birds:Held.TOOL", "birds:NAMED", "birds:BOX", "birds:TOOLS"]
)
def test_tools_may_be_given_in_every_form(rungwise_provider: Serve, ask: Ask, tools: str) -> None:
    provider = rungwise_provider(LOOKS, ANSWER)
    result = ask(provider, tools=tools)
    assert result.exit_code == 0
    assert result.stdout == "A heron."
    assert len(provider.requests) == 2
    assert provider.requests[1].body["messages"][-1]["content"] == '["heron"]'


def test_what_tools_are_given_and_bring_is_shown_only_where_that_is_asked_for(
    rungwise_provider: Serve, ask: Ask
) -> None:
    asked = calling(("look", '{"lake": "Vomb"}'), ("breaks", "{}"))
    told = ask(rungwise_provider(asked, ANSWER)).stderr
    assert "    breaks has failed\n" in told
    assert "1 of 2 calls worked" in told
    assert not [each for each in ("Vomb", "heron", "sunk") if each in told]
    told = ask(rungwise_provider(asked, ANSWER), "--verbose").stderr
    assert '    look begins: {"lake": "Vomb"}\n' in told
    assert '    look has ended: ["heron"]\n' in told
    assert "    breaks has failed: the boat has sunk\n" in told


def test_json_holds_the_turn_with_the_conversation(rungwise_provider: Serve, ask: Ask) -> None:
    result = ask(rungwise_provider(LOOKS, ANSWER), "--json", "--no-stream")
    held = json.loads(result.stdout)
    assert [message["role"] for message in held.pop("messages")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert held.pop("seconds") >= 0
    assert held.pop("usage")["output_tokens"] > 0
    assert held.pop("backend").endswith("/m")
    assert held == {
        "outcome": "finished",
        "text": "A heron.",
        "value": None,
        "handed_off": [],
        "awaiting": [],
        "cost": None,
        "cost_reported": False,
        "unpriced": [],
        "calls": 2,
        "attempts": 2,
        "model": "m",
        "cause": None,
        "failures": [],
    }


def test_what_tools_print_is_no_part_of_the_answer(
    birds: Path, rungwise_provider: Serve, ask: Ask
) -> None:
    (birds / "birds.py").write_text(f"print('told by the module')\n{BIRDS}", encoding="utf-8")
    result = ask(rungwise_provider(calling(("tell", "{}")), ANSWER), tools="birds:tell")
    assert result.exit_code == 0
    assert result.stdout == "A heron."
    assert "told by the module\n" in result.stderr
    assert "told by a tool\n" in result.stderr


SUMMARY = "auto_continues = 1\n"
ENDS = [
    ("finished", 0, (LOOKS, ANSWER), "", "A heron."),
    ("limit_reached", 0, (LOOKS, LOOKS, ANSWER), SUMMARY, "A heron."),
    (
        "failed",
        3,
        (LOOKS, ScriptedReply(text="Well", finish="content_filter")),
        f"[call.limits]\n{OTHERS_OFF_TOML}",
        "I look.",
    ),
    ("failed", 4, (LOOKS, ScriptedReply()), "[call.limits]\nreasks = 0\nnudges = 0\n", "I look."),
    ("failed", 5, (LOOKS, ScriptedReply(status=401)), "", "I look."),
    ("over_budget", 6, (LOOKS,), "[budget]\nattempts = 1\n", "I look."),
]


@pytest.mark.parametrize(("outcome", "code", "replies", "policy", "text"), ENDS)
def test_every_outcome_has_its_exit_code_and_its_journal(
    outcome: str,
    code: int,
    replies: Any,
    policy: str,
    text: str,
    birds: Path,
    rungwise_provider: Serve,
    ask: Ask,
) -> None:
    path = birds / "turn.toml"
    journal = birds / "journal.json"
    path.write_text(policy, encoding="utf-8")
    provider = rungwise_provider(*replies)
    result = ask(provider, "--policy", str(path), "--journal", str(journal))
    assert result.exit_code == code
    assert result.stdout == text
    assert len(provider.requests) == len(replies)
    assert outcome.replace("_", " ") in result.stderr.replace("_", " ").splitlines()[-1]
    recorded = TurnJournal.from_json(journal.read_text(encoding="utf-8"))
    assert recorded.outcome == outcome
    assert len(recorded.calls) == recorded.made
    assert "heron" not in journal.read_text(encoding="utf-8")
    printed("explain", journal)


@pytest.mark.parametrize(
    ("tool", "field", "told"),
    [
        ("hand_over", "handed_off", "is handed off to hand_over"),
        ("pay", "awaiting", "waits for your approval of pay"),
    ],
)
def test_a_turn_that_ends_with_a_tool_of_somebody_elses_names_it(
    rungwise_provider: Serve,
    ask: Ask,
    tool: str,
    field: str,
    told: str,
) -> None:
    asked = calling((tool, '{"lake": "Vomb"}'), text="Over to you.")
    result = ask(rungwise_provider(asked), tools=f"birds:{tool}")
    assert result.exit_code == 0
    assert result.stdout == "Over to you."
    assert f"  the turn {told}; --json shows its arguments\n" in result.stderr
    held = json.loads(ask(rungwise_provider(asked), "--json", tools=f"birds:{tool}").stdout)
    assert held[field] == [{"id": "call_0", "name": tool, "arguments": '{"lake": "Vomb"}'}]


# the policy


def test_a_policy_of_calls_is_that_of_each_call(
    birds: Path, rungwise_provider: Serve, ask: Ask
) -> None:
    (birds / "calls.toml").write_text(
        "base_cap = 77\n[budget]\noutput_tokens = 5000\n", encoding="utf-8"
    )
    for given in ("birds:POLICY", "calls.toml"):
        provider = rungwise_provider(LOOKS, ANSWER)
        assert ask(provider, "--policy", given).exit_code == 0
        # The whole of a call's budget each time: a budget of the turn would have less for its
        # second call.
        first, second = (request.body["max_tokens"] for request in provider.requests)
        assert first == second


def test_a_policy_of_a_turn_may_stand_in_python(rungwise_provider: Serve, ask: Ask) -> None:
    provider = rungwise_provider(LOOKS)
    result = ask(provider, "--policy", "birds:TURN_POLICY")
    assert result.exit_code == 0
    assert result.stdout == "I look."
    assert len(provider.requests) == 2
    assert "limit reached (the turn has gone on by itself 1 times" in result.stderr


def test_what_either_policy_may_hold_is_the_turns(
    birds: Path, rungwise_provider: Serve, ask: Ask
) -> None:
    (birds / "either.toml").write_text("[budget]\nattempts = 2\n")
    result = ask(rungwise_provider(LOOKS), "--policy", "either.toml")
    assert result.exit_code == 6
    assert result.stdout == "I look."
    (birds / "hints.toml").write_text('[hints]\nsummary = "Sum up."\n')
    provider = rungwise_provider(*[LOOKS] * 5, ANSWER)
    assert ask(provider, "--policy", "hints.toml").exit_code == 0
    said = [message["content"] for message in provider.requests[-1].body["messages"]]
    assert said[-1] == "Sum up." != TurnHints().summary


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--tools nowhere:X", "'--tools': nowhere:X cannot be imported: No module named 'nowhere'"),
        ("--tools birds:NOTHING", "has no attribute 'NOTHING'"),
        ("--tools broken:X", "broken:X cannot be imported: ZeroDivisionError"),
        ("--tools birds.py", "'birds.py' is not of the form module:NAME"),
        (
            "--tools birds:NUMBER",
            "is a int, and must be a function, a rungwise.Tool, a list or mapping of them",
        ),
        ("--tools birds:EMPTY", "birds:EMPTY holds no tools"),
        ("--tools birds:NOBODYS", "nothing would run the tool 'find'"),
        (
            "--tools birds:TOOLS --policy birds:NUMBER",
            "must be a rungwise.TurnPolicy, or a rungwise.Policy",
        ),
        (
            "--tools birds:TOOLS --policy both.toml",
            "turn's policy (faults) and of a call's (limits): put",
        ),
        ("--tools birds:TOOLS --policy typo.toml", "typo.toml: TurnPolicy: unknown key 'fault'"),
        ("--tools birds:TOOLS --policy broken.toml", "broken.toml: "),
        ("--tools birds:TOOLS --policy paid.toml", "give --prices IN/OUT"),
        ("--policy birds:TURN_POLICY", "is a TurnPolicy, and must be a rungwise.Policy"),
        ("--verbose", "--verbose is for tools"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_sent(
    arguments: str,
    told: str,
    birds: Path,
    rungwise_provider: Serve,
) -> None:
    (birds / "broken.py").write_text("1 / 0")
    (birds / "both.toml").write_text("faults = 2\n[limits]\nretries = 1\n")
    (birds / "typo.toml").write_text("fault = 2\n")
    (birds / "broken.toml").write_text("[budget\n")
    (birds / "paid.toml").write_text("[budget]\nmoney = 1\n")
    provider = rungwise_provider(ANSWER)
    stderr = refused(*ASK, provider.base_url, *arguments.split())
    assert provider.requests == []
    (line,) = stderr.splitlines()
    assert told in line


# real processes


def started(provider: EmbeddedProvider, tools: str, **options: Any) -> subprocess.Popen[bytes]:
    return start(*ASK, provider.base_url, "--tools", tools, cwd=None, **options)


def test_ctrl_c_ends_what_can_be_ended_and_a_second_one_waits_for_nothing(
    rungwise_provider: Serve,
) -> None:
    provider = rungwise_provider(calling(("hang", "{}"), ("wait", "{}"), text="I wait."))
    with started(provider, "birds:SLOW") as process:
        read_until(process.stderr.fileno(), b"wait begins")
        process.send_signal(signal.SIGINT)
        read_until(process.stderr.fileno(), b"wait has failed")
        assert process.poll() is None  # the tool in its thread is waited for
        process.send_signal(signal.SIGINT)
        text, told = process.communicate(timeout=patience())
    assert process.returncode == 130
    assert text == b"I wait."
    assert b"Traceback" not in told
    assert b"hang has failed" in told
    assert told.splitlines()[-1].startswith(
        b"rungwise: cancelled (the caller ended the turn): 1 call, 1 request"
    )
    assert len(provider.requests) == 1


@pytest.mark.full
def test_a_terminal_sees_what_is_said_beside_tools_and_nothing_twice(
    rungwise_provider: Serve,
) -> None:
    for replies, seen in (
        ((LOOKS, ANSWER), b"I look.\r\nA heron.\r\n"),
        ((LOOKS, calling(("breaks", "{}")), ScriptedReply(status=401)), b"I look.\r\n"),
    ):
        ours, theirs = pty.openpty()
        with started(rungwise_provider(*replies), "birds:TOOLS", stdout=theirs) as process:
            os.close(theirs)
            process.communicate(timeout=patience())
            assert os.read(ours, 1000) == seen
        os.close(ours)
