import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import click
import httpx
import pytest
from click.testing import Result

from rungwise import Journal, Limits, Policy, Prices, ToolCall, verify
from rungwise.adapters.cli.ask import ask as ask_command
from rungwise.adapters.cli.backends import chain_of as chain_of_targets
from rungwise.adapters.cli.command import COMMANDS, main
from rungwise.adapters.cli.output import put
from rungwise.adapters.cli.running import TerminalAnswer
from rungwise.adapters.cli.shown import ShownCall
from rungwise.adapters.cli.targets import Target
from rungwise.adapters.demo.crash import show_crash
from rungwise.adapters.demo.scenarios import SCENARIOS
from rungwise.adapters.demo.view import Screen
from rungwise.adapters.gateway.languages import language_of
from rungwise.adapters.wires.registry import WIRES
from rungwise.core import Call, PlainLink, Request
from rungwise.fsm.call.policy import DEFAULT_POLICY
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support.command_line import (
    ROOT,
    command,
    environment,
    invoke,
    printed,
    read_until,
    refused,
    start,
)
from support.facts import Check
from support.sampling import sampled
from support.tables import OTHERS_OFF_TOML
from support.waiting import patience, until

KEY = "sk-this-must-be-shown-nowhere"
NO_UTF_8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""A locale without most letters."""
CUT_CALL = (ToolCall("c", "look", '{"q": "cu'),)
ASK = ("ask", "Hi", "--model", "m", "--base-url")
"""A question, but for the URL."""
Ask = Callable[..., Result]
Serve = Callable[..., EmbeddedProvider]


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def serve(rungwise_provider: Serve) -> Serve:
    return rungwise_provider


@pytest.fixture
def no_waits(tmp_path: Path) -> str:
    path = tmp_path / "policy.toml"
    path.write_text("[waits]\nretry_base = 0\nreask_base = 0\n")
    return str(path)


@pytest.fixture
def ask(no_waits: str) -> Ask:
    def run(
        provider: EmbeddedProvider, *arguments: str, policy: str = no_waits, **options: Any
    ) -> Result:
        return invoke(*ASK, provider.base_url, "--policy", policy, *arguments, **options)

    return run


def messages(request: ReceivedRequest) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in request.body["messages"]]


# ask: what is sent, and what comes out


def test_text_is_all_of_stdout_and_the_path_is_on_stderr(serve: Serve, ask: Ask) -> None:
    provider = serve(ScriptedReply(text="Grüße von der Leiter 🪜"))
    result = ask(
        provider,
        "--system",
        "Be brief.",
        "--max-tokens",
        "77",
        "--api-key-env",
        "K",
        env={"K": KEY},
    )
    assert (result.exit_code, result.stdout) == (0, "Grüße von der Leiter 🪜")
    assert "request 1 (ask)" in result.stderr
    assert "the answer came: done" in result.stderr
    (request,) = provider.requests
    assert messages(request) == [("system", "Be brief."), ("user", "Hi")]
    assert (request.body["model"], request.body["stream"], request.body["max_tokens"]) == (
        "m",
        True,
        77,
    )
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in result.output


def test_a_whole_reply_can_be_asked_for(serve: Serve, ask: Ask) -> None:
    provider = serve(ScriptedReply(status=500), ScriptedReply(text="At once."))
    result = ask(provider, "--no-stream")
    assert (result.exit_code, result.stdout) == (0, "At once.")
    assert [request.body["stream"] for request in provider.requests] == [False, False]
    assert "the provider failed (HTTP 500, server error): sending the same again" in result.stderr
    assert "request 2 (retry)" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_the_prompt_may_come_from_stdin(serve: Serve, arguments: list[str]) -> None:
    provider = serve(ScriptedReply(text="Yes."))
    given = ["ask", *arguments, "--model", "m", "--base-url", provider.base_url]
    result = invoke(*given, input="From a pipe, mit ü\n")
    assert (result.exit_code, result.stdout) == (0, "Yes.")
    assert messages(provider.requests[0]) == [("user", "From a pipe, mit ü\n")]


def test_a_pipe_never_gets_text_that_is_taken_back(serve: Serve, ask: Ask) -> None:
    provider = serve(
        ScriptedReply(text="Part one ", finish="length"),
        ScriptedReply(text="of something worthless", tool_calls=CUT_CALL, finish="length"),
        ScriptedReply(text="and part two."),
    )
    result = ask(provider)
    assert (result.exit_code, result.stdout) == (0, "Part one and part two.")
    assert [request.body.get("max_tokens") for request in provider.requests] == [None, 8192, 12288]


def test_json_holds_the_whole_result(serve: Serve, ask: Ask) -> None:
    calls = (ToolCall("c1", "look", '{"q": "ü"}'),)
    result = ask(
        serve(ScriptedReply(status=500), ScriptedReply(text="Let me see.", tool_calls=calls)),
        "--json",
    )
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    held = json.loads(result.stdout)
    assert held.pop("seconds") >= 0
    assert held.pop("backend").endswith("/m")
    assert held.pop("usage")["output_tokens"] > 0
    (failure,) = held.pop("failures")
    assert (failure["reason"], failure["status"]) == ("server_error", 500)
    assert held == {
        "outcome": "done",
        "text": "Let me see.",
        "value": None,
        "tool_calls": [
            {
                "id": "c1",
                "name": "look",
                "arguments": '{"q": "ü"}',
            }
        ],
        "cost": None,
        "cost_reported": False,
        "unpriced": [],
        "attempts": 2,
        "model": "m",
        "cause": None,
    }


# ask: exit codes, keys, the chain

NEVER_ASKED = "[limits]\nreasks = 0\nretries = 0\ncontinuations = 0\n"
OUTCOMES = [
    (
        "salvaged",
        0,
        ScriptedReply(text="Shown.", final_message="<think>Or not.</think>"),
        "",
        "Shown.",
    ),
    ("partial", 0, ScriptedReply(text="Half of it", finish="length"), NEVER_ASKED, "Half of it"),
    (
        "refused",
        3,
        ScriptedReply(text="Well", finish="content_filter"),
        f"[limits]\n{OTHERS_OFF_TOML}",
        "",
    ),
    ("exhausted", 4, ScriptedReply(), NEVER_ASKED, ""),
    ("failed", 5, ScriptedReply(status=401), "", ""),
    ("over_budget", 6, ScriptedReply(status=500), "[budget]\nattempts = 1\n", ""),
]


@pytest.mark.parametrize(("outcome", "code", "reply", "policy", "text"), OUTCOMES)
def test_every_outcome_has_its_exit_code(
    outcome: str,
    code: int,
    reply: ScriptedReply,
    policy: str,
    text: str,
    serve: Serve,
    ask: Ask,
    tmp_path: Path,
) -> None:
    path = tmp_path / "own.toml"
    journal = tmp_path / "journal.json"
    path.write_text(policy, encoding="utf-8")
    journal.write_text("an older one " * 10_000, encoding="utf-8")
    provider = serve(reply)
    result = ask(provider, "--journal", str(journal), policy=str(path), env={"OPENAI_API_KEY": KEY})
    assert (result.exit_code, result.stdout) == (code, text)
    assert outcome.replace("_", " ") in result.stderr.replace("_", " ").splitlines()[-1]
    assert len(provider.requests) == 1
    assert Journal.from_json(journal.read_text(encoding="utf-8")).outcome == outcome
    assert KEY not in result.output + journal.read_text(encoding="utf-8")
    as_json = ask(serve(reply), "--json", policy=str(path))
    assert (as_json.exit_code, json.loads(as_json.stdout)["outcome"]) == (code, outcome)


def test_the_help_of_ask_groups_every_option_under_a_heading() -> None:
    text = invoke("ask", "--help").stdout
    sections = re.findall(r"^(\w[\w ]*):\n((?:  .*\n|\n)+)", text, re.MULTILINE)
    options = {
        heading: re.findall(r"^  (?:-\w, )?(--[\w-]+)", body, re.MULTILINE)
        for heading, body in sections
    }
    assert list(options) == ["Whom to ask", "What to ask", "Limits", "Output", "Options"]
    assert options["Options"] == ["--help"]
    shown = [option for each in options.values() for option in each]
    declared = [
        parameter.opts[-1]
        for parameter in ask_command.params
        if isinstance(parameter, click.Option)
    ]
    assert sorted(shown) == sorted([*declared, "--help"])


def test_the_help_names_every_exit_code() -> None:
    told = invoke("ask", "--help").stdout
    codes = re.search(r"Exit codes:\n(.*?)\n\n", told, re.DOTALL)
    named = re.findall(r"^ +(\d+) ", codes[1], re.MULTILINE)
    assert list(map(int, named)) == [0, *range(2, 8), 130, 141]


def test_a_rejected_key_is_named_by_its_backend_and_not_shown(serve: Serve, ask: Ask) -> None:
    result = ask(serve(ScriptedReply(status=401)), env={"OPENAI_API_KEY": KEY})
    assert "/m: auth, HTTP 401: check this backend's API key" in result.stderr


def test_a_key_goes_to_its_own_host_only(serve: Serve, ask: Ask) -> None:
    first = serve(ScriptedReply(status=403))
    second = serve(ScriptedReply(status=403))
    third = serve(ScriptedReply())
    result = ask(
        first,
        "--api-key-env=OPENAI_API_KEY",
        f"--fallback={first.base_url}#other",
        f"--fallback={second.base_url}#theirs",
        f"--fallback={third.base_url}#own#THIRD_KEY",
        env={"OPENAI_API_KEY": KEY, "THIRD_KEY": "sk-the-third"},
    )
    assert result.exit_code == 4
    assert [request.body["model"] for request in first.requests] == ["m", "other"]
    assert {request.headers["authorization"] for request in first.requests} == {f"Bearer {KEY}"}
    assert "authorization" not in second.requests[0].headers
    assert third.requests[0].headers["authorization"] == "Bearer sk-the-third"


@pytest.mark.parametrize("url", ["http://h.example.com/v1", "https://h.example.com:8443/v1"])
def test_a_key_goes_to_no_other_scheme_or_port_of_its_host(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK_KEY", KEY)
    own = ("--base-url", "https://h.example.com/v1", "--api-key-env", "WORK_KEY")
    chain = chain_of(*own, "--fallback", "https://h.example.com/other#m", "--fallback", f"{url}#m#")
    assert list(map(authorization, chain)) == [f"Bearer {KEY}", f"Bearer {KEY}", None]
    assert f"{url} has no key" in refused(
        "ask", "Hi", "--model", "m", *own, "--fallback", f"{url}#m"
    )


def chain_of(*command: str) -> list[Any]:
    options = ask_command.make_context("ask", ["Hi", "--model", "m", *command]).params
    first = Target(
        options["api"],
        options["base_url"],
        options["model"],
        options["api_key_env"],
        is_fallback=False,
    )
    return list(chain_of_targets((first, *options["fallbacks"]), lambda model: options["prices"]))


def authorization(backend: Any) -> str | None:
    headers = backend.encode(Call(Request("?"), chain=[backend]).begin(), stream=False).headers
    return headers.get("authorization")  # type: ignore[no-any-return]


def test_a_key_that_nobody_named_is_that_of_the_provider_at_its_own_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("WORK_KEY", "sk-work")
    url = "https://api.openai.com/v1"
    chain = chain_of(
        "--base-url=http://localhost:1/v1",
        f"--fallback={url}#a",
        "--fallback=openai:b",
        f"--fallback={url}#c#WORK_KEY",
        f"--fallback={url}#d#",
        "--fallback=http://localhost:2/v1#e",
    )
    assert [backend.model for backend in chain] == ["m", "a", "b", "c", "d", "e"]
    assert list(map(authorization, chain)) == [
        None,
        f"Bearer {KEY}",
        f"Bearer {KEY}",
        "Bearer sk-work",
        None,
        None,
    ]
    assert all(backend.problem is None for backend in chain)


@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1", "http://localhost:1/v1", "https://h.example.com/v1"]
)
def test_a_key_that_was_named_is_never_replaced_by_another(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert "WORK_KEY is not set" in refused(
        "ask", "Hi", "--model", "m", "--base-url", url, "--api-key-env", "WORK_KEY"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key-env", "gsk_REALKEY"],
        ["--api-key-env", "sk-gsk_REALKEY"],
        ["--fallback", "http://localhost#m#gsk_REALKEY"],
        ["--fallback", "http://localhost##gsk_REALKEY"],
        ["--fallback", "http://localhost#m##gsk_REALKEY"],
    ],
)
def test_a_key_in_the_place_of_a_name_is_not_shown(arguments: list[str]) -> None:
    result = invoke("ask", "Hi", "--model", "m", "--base-url", "http://localhost:1", *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert arguments[0] in result.stderr
    assert "REALKEY" not in result.output


@pytest.mark.parametrize(
    ("fallback", "key", "told"),
    [
        (
            "https://llm.example.com/v1#m",
            KEY,
            "https://llm.example.com/v1 has no key: name the variable that holds it",
        ),
        ("openai:gpt", None, "OPENAI_API_KEY is not set in the environment: export it, or name"),
        ("openai:gpt", " ", "OPENAI_API_KEY is not set in the environment: export it, or name"),
        (
            "openai:gpt",
            "your-api-key",
            "OPENAI_API_KEY holds a placeholder: give it the real key of https://api.openai",
        ),
        ("https://api.mistral.ai/v1#m", KEY, "MISTRAL_API_KEY is not set in the environment"),
        ("https://api.z.ai/v1#m", KEY, "ZAI_API_KEY or Z_AI_API_KEY is not set in the environment"),
        (
            "https://llm.example.com/v1#m#OPENAI_API_KEY",
            "sk-...",
            "OPENAI_API_KEY holds a placeholder",
        ),
        ("https://llm.example.com/v1#m#OPENAI_API_KEY", "\tx", "blanks around it"),
        (
            "openai:gpt",
            "sk-\u00e9",
            "OPENAI_API_KEY has blanks around it, or a character that no header can hold",
        ),
    ],
)
def test_a_key_that_cannot_be_used_is_told_before_anything_is_sent(
    fallback: str,
    key: str | None,
    told: str,
    serve: Serve,
    ask: Ask,
) -> None:
    provider = serve(ScriptedReply(text="Well."))
    env = {
        "MISTRAL_API_KEY": None,
        "ZAI_API_KEY": None,
        "Z_AI_API_KEY": None,
        "OPENAI_API_KEY": key,
    }
    result = ask(provider, "--fallback", fallback, env=env)
    assert (result.exit_code, result.stdout, provider.requests) == (2, "", [])
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    if key and key.strip():
        assert key not in result.stderr


# bad input: one line, exit code 2, nothing sent

OF_ASK = [
    ("--max-tokens 0", "1<=x"),
    ("--max-tokens 1000000001", "--max-tokens"),
    ("--max-tokens 99999999999999999999999999", "--max-tokens"),
    ("--prices 1e308/1e308", "--prices"),
    ("--policy money.toml", "give --prices IN/OUT"),
    ("--fallback 'URL# '", "--fallback"),
    ("--fallback 'localhost#m'", "'--fallback': the URL must"),
    ("--fallback http://localhost", "URL#MODEL#KEYENV"),
    ("--fallback openai:", "API:MODEL"),
    ("--fallback opnai:gpt", "did you mean 'openai'?"),
    ("--fallback 'ollama:localhost#m'", "the URL must begin"),
    ("--api opnai", "'openai'"),
    ("--temperature hot", "--temperature"),
    ("--temperature nan", "temperature must be a finite number"),
    ("--returns missing.json", "missing.json"),
    ("--returns typo.toml", "typo.toml is not JSON"),
    ("--fallback 'http://localhost#m#NOWHERE'", "NOWHERE"),
    ("--policy missing.toml", "missing.toml"),
    ("--policy broken.toml", "broken.toml: "),
    ("--policy typo.toml", "did you mean 'retries'"),
    ("--journal no/such/folder.json", "no/such/folder.json"),
    ("--journal .", "is a directory"),
]
"""What is wrong with the options of a question, and what is told of it."""
BAD_INPUT = [
    ("ask Hi", "--model"),
    ("ask Hi --model m --modle m", "--modle"),
    ("ask Hi --model m", "OPENAI_API_KEY is not set"),
    ("ask Hi --model m --api-key-env NOWHERE", "NOWHERE is not set"),
    ("ask Hi --model m --base-url localhost", "http://"),
    ("ask Hi --model m --base-url http://me:secret@localhost/v1", "holds a secret"),
    ("ask Hi --model ' ' --base-url URL", "--model: model must be"),
    ("ask Hi --model '' --base-url URL", "--model: model must be"),
    ("ask '' --model m --base-url URL", "the prompt is empty"),
    ("ask --model m --base-url URL", "the prompt is empty"),
    (
        "ask Hi --model m --base-url https://llm.example.com/v1",
        "https://llm.example.com/v1 has no key",
    ),
    ("serve missing.toml", "missing.toml"),
    ("serve typo.toml", "typo.toml: "),
    ("serve script.toml --port 70000", "70000"),
    ("serve script.toml --port PORT", "is taken"),
    ("serve script.toml --host 203.0.113.1", "203.0.113.1"),
    ("demo --scenario nothing", "'clean'"),
    ("diagram --format gif", "'svg'"),
    ("diagram -o no/such/folder.svg", "no/such/folder.svg"),
    ("diagram --check no-such-folder", "no-such-folder"),
    ("verify missing.toml", "missing.toml"),
    ("verify typo.toml", "did you mean 'retries'"),
    ("verify --backends 0", "--backends"),
    ("verify --max-tokens 99999999999999999999999999", "--max-tokens"),
    ("verify --input-tokens 99999999999999999999999999", "--input-tokens"),
    ("verify money.toml", "give --prices IN/OUT"),
    ("diff script.toml script.toml --max-tokens 99999999999999999999999999", "--max-tokens"),
    ("frobnicate", "frobnicate"),
    *((f"ask Hi --model m --base-url URL {options}", told) for options, told in OF_ASK),
]


@pytest.mark.parametrize(("line", "told"), BAD_INPUT, ids=lambda value: None)
def test_bad_input_is_one_line(
    line: str,
    told: str,
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.toml").write_text("[limits\n")
    Path("money.toml").write_text("[budget]\nmoney = 0.5\n")
    Path("typo.toml").write_text("[limits]\nretrys = 3\n")
    Path("script.toml").write_text('[[replies]]\ntext = "Hi"\n')
    provider = serve(ScriptedReply(text="Hi"))
    known = {"URL": provider.base_url, "PORT": provider.base_url.split(":")[2].removesuffix("/v1")}
    known["URL# "] = f"{provider.base_url}# "
    stderr = refused(*(known.get(each, each) for each in shlex.split(line)))
    (said,) = stderr.splitlines()
    assert said.startswith("rungwise: ")
    assert told in said
    assert "secret@" not in said
    assert provider.requests == []
    names = ["broken.toml", "money.toml", "script.toml", "typo.toml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_bytes_that_are_no_text_are_no_prompt(serve: Serve) -> None:
    given = ["ask", "--model", "m", "--base-url", serve(ScriptedReply()).base_url]
    result = invoke(*given, input=b"\xff\xfe")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "UTF-8" in result.stderr


# ask: real processes


def hanging(text: str) -> ScriptedReply:
    """Return a reply that brings its text and then falls silent."""
    return ScriptedReply(
        text=text,
        finish="",
        usage={},
        done=False,
        hang=True,
        cut_after=10**6,
    )


@pytest.mark.full
def test_ctrl_c_keeps_what_a_pipe_may_have(serve: Serve, tmp_path: Path) -> None:
    journal = tmp_path / "journal.json"
    provider = serve(ScriptedReply(text="Part one ", finish="length"), hanging("part two"))
    with start(*ASK, provider.base_url, "--journal", str(journal)) as process:
        # The first part is certain as soon as the second one is asked for.
        read_until(process.stdout.fileno(), b"Part one ")
        until(lambda: len(provider.requests) == 2)
        process.send_signal(signal.SIGINT)
        rest, told = process.communicate(timeout=patience())
    assert process.returncode == 130
    assert rest in (b"", b"part two")
    assert b"Traceback" not in told
    assert b"rungwise: cancelled" in told.splitlines()[-1]
    assert Journal.from_json(journal.read_bytes()).outcome == "cancelled"
    assert provider.wait_disconnected()
    assert len(provider.requests) == 2


def test_a_terminal_sees_text_at_once_and_what_is_taken_back(serve: Serve) -> None:
    provider = serve(
        ScriptedReply(text="Worthless\x1b[31m", tool_calls=CUT_CALL, finish="length"),
        hanging("Worth it"),
    )
    ours, theirs = pty.openpty()
    with start(*ASK, provider.base_url, stdout=theirs) as process:
        seen = read_until(ours, b"Worth it")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=patience())
    # This side holds the terminal open: what was written to one that nobody holds may be lost.
    assert select.select([ours], [], [], patience())[0]
    # so that the prompt of the shell does not stand behind the answer
    assert os.read(ours, 1000) == b"\r\n"
    os.close(theirs)
    os.close(ours)
    assert process.returncode == 130
    assert "Worthless\N{REPLACEMENT CHARACTER}[31m".encode() in seen
    assert b"[taken back: the last 14 characters above" in seen
    assert b"\x1b" not in seen
    assert b"the tool calls were cut" in told


@pytest.mark.parametrize(
    ("shown", "left"), [("Half", "Half\n"), ("A line.\n", "A line.\n"), ("", "")]
)
def test_a_call_that_is_interrupted_without_a_result_ends_its_line(
    shown: str, left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = TerminalAnswer()
    answer.add(shown)
    assert ShownCall(answer).finish(as_json=False) == 130
    assert capsys.readouterr().out == left


@pytest.mark.parametrize("is_terminal", [True, False])
def test_ctrl_c_while_a_text_is_written_leaves_it_there_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    provider = serve(ScriptedReply(text="Part one ", finish="length"), hanging("part two"))
    presses = iter([signal.SIGINT])

    def put_and_press(text: str) -> None:
        put(text)
        for each in presses:
            signal.raise_signal(each)

    monkeypatch.setattr("rungwise.adapters.cli.running.put", put_and_press)
    monkeypatch.setattr("rungwise.adapters.cli.running.is_terminal", lambda stream: is_terminal)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = invoke(*ASK, provider.base_url)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.exit_code, result.stdout.count("Part one")) == (130, 1)
    assert "cancelled" in result.stderr
    assert result.stdout.endswith("\n") or not is_terminal


def test_ctrl_c_ends_a_wait(serve: Serve) -> None:
    provider = serve(ScriptedReply(status=429, headers={"retry-after": "60"}))
    with start(*ASK, provider.base_url, "--no-stream", "--json") as process:
        assert process.stdout is not None
        read_until(process.stderr.fileno(), b"in 60.0 s")
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=patience())
    assert process.returncode == 130
    held = json.loads(told)
    assert (held["outcome"], held["attempts"]) == ("cancelled", 1)
    assert len(provider.requests) == 1


@pytest.mark.parametrize("option", sampled([[], ["--json"]], one_in=2))
def test_a_closed_stdout_is_no_traceback(option: list[str], serve: Serve, tmp_path: Path) -> None:
    journal = tmp_path / "journal.json"
    provider = serve(ScriptedReply(text="Nobody reads this."))
    with start(*ASK, provider.base_url, "--journal", str(journal), *option) as process:
        process.stdout.close()
        told = process.stderr.read()
    assert process.returncode == 141
    assert b"Traceback" not in told
    assert b"Exception ignored" not in told
    assert Journal.from_json(journal.read_bytes()).outcome == "done"


def without_stdout(*arguments: str) -> tuple[int, bytes]:
    shell = ["/bin/sh", "-c", '"$@" >&-', "sh", *command(*arguments)]
    run = subprocess.run(
        shell,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=ROOT,
        timeout=patience(),
    )
    return run.returncode, run.stderr


CLOSED = (141, b"rungwise: stdout cannot be written: it was closed from the start\n")


@pytest.mark.parametrize("option", sampled([[], ["--json"], ["--no-stream"]], one_in=3))
def test_no_call_is_made_for_a_stdout_that_was_closed_from_the_start(
    option: list[str], serve: Serve
) -> None:
    provider = serve(ScriptedReply(text="Nobody reads this."))
    assert without_stdout(*ASK, provider.base_url, *option) == CLOSED
    assert provider.requests == []


@pytest.mark.parametrize(
    "arguments",
    sampled(
        [
            ["--version"],
            ["verify"],
            ["demo"],
            ["diagram"],
            ["demo", "--list"],
            ["explain", "--play"],
            [],
        ],
        one_in=3,
    ),
)
def test_commands_tell_of_a_stdout_that_was_closed_from_the_start(arguments: list[str]) -> None:
    assert without_stdout(*arguments) == CLOSED


@pytest.mark.full
def test_what_goes_to_a_file_needs_no_stdout(tmp_path: Path) -> None:
    path = tmp_path / "call.mmd"
    assert without_stdout("diagram", "-o", str(path)) == (0, b"")
    assert "came_empty" in path.read_text(encoding="utf-8")
    change = tmp_path / "change.svg"
    assert without_stdout("diff", "default", "default", "-o", str(change)) == (
        0,
        f"written: {change}\n".encode(),
    )
    assert change.read_text(encoding="utf-8").startswith("<svg")


def test_a_closed_stdout_ends_the_call(serve: Serve) -> None:
    provider = serve(ScriptedReply(text="Part one ", finish="length"), hanging("for ever"))
    with start(*ASK, provider.base_url) as process:
        process.stdout.close()
        assert process.wait(patience()) == 141
    assert len(provider.requests) <= 2


@pytest.mark.parametrize(
    "arguments", sampled([["diagram"], ["demo", "--scenario", "clean"]], one_in=2)
)
def test_commands_bear_a_closed_stdout(arguments: list[str]) -> None:
    with start(*arguments) as process:
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (141, b"")


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="only Linux has a device that is always full"
)
@pytest.mark.parametrize("arguments", [["demo", "--scenario", "clean"], ["ask", "--help"]])
def test_a_full_stdout_is_told_in_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rungwise", *arguments], stdout=full, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (
        141,
        b"rungwise: stdout cannot be written: No space left on device\n",
    )


def test_a_locale_without_the_letters_gets_substitutes(serve: Serve) -> None:
    provider = serve(ScriptedReply(text="Grüße 🪜"))
    with start(
        "ask", "ü", "--model", "ß", "--base-url", provider.base_url, PYTHONIOENCODING="ascii"
    ) as process:
        text, told = process.communicate(timeout=patience())
    assert (process.returncode, text) == (0, b"Gr??e ?")
    assert b"Traceback" not in told
    assert messages(provider.requests[0]) == [("user", "ü")]


@pytest.mark.parametrize("arguments", sampled([[], ["--no-stream"]], one_in=2))
def test_a_pipe_gets_utf_8_whatever_the_locale_says(arguments: list[str], serve: Serve) -> None:
    provider = serve(ScriptedReply(text="Grüße 🪜"))
    with start(*ASK, provider.base_url, *arguments, **NO_UTF_8) as process:
        text, told = process.communicate(timeout=patience())
    assert (process.returncode, text) == (0, "Grüße 🪜".encode())
    assert b"Traceback" not in told


def test_arguments_are_utf_8_where_the_locale_has_no_such_letters(serve: Serve) -> None:
    provider = serve(ScriptedReply(text="Yes."))
    given = ["ask", "Grüße", "--system", "ß", "--model", "mü", "--base-url", provider.base_url]
    with start(*given, **NO_UTF_8) as process:
        process.communicate(timeout=patience())
    (request,) = provider.requests
    assert (request.body["model"], messages(request)) == (
        "mü",
        [("system", "ß"), ("user", "Grüße")],
    )


def test_an_argument_that_is_no_text_is_bad_input(serve: Serve) -> None:
    provider = serve(ScriptedReply(text="Yes."))
    with start(
        "ask", os.fsdecode(b"\xff"), "--model", "m", "--base-url", provider.base_url
    ) as process:
        _, told = process.communicate(timeout=patience())
    assert (process.returncode, told.count(b"\n"), provider.requests) == (2, 1, [])
    assert b"UTF-8" in told


@pytest.mark.full
def test_a_terminal_whose_locale_lacks_the_letters_gets_substitutes(serve: Serve) -> None:
    provider = serve(ScriptedReply(text="Grüße 🪜."))
    ours, theirs = pty.openpty()
    with start(*ASK, provider.base_url, stdout=theirs, **NO_UTF_8) as process:
        os.close(theirs)
        assert read_until(ours, b".") in (b"Gr??e ?.", b"Gr??e ?.\r\n")
        process.communicate(timeout=patience())
    os.close(ours)


@pytest.mark.full
def test_folders_of_the_names_of_ours_are_in_nobodys_way(tmp_path: Path) -> None:
    """What the script of an installation does is imported; the folders stand before ours, as a
    PYTHONPATH puts them.
    """
    for name in ("adapters", "fsm"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "scripts"
    ]
    module, _, name = scripts["rungwise"].partition(":")
    code = f"import sys; from {module} import {name}; sys.argv[1:] = ['verify']; sys.exit({name}())"
    run = [sys.executable, "-c", code]
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = subprocess.run(
        run, env=environment(PYTHONPATH=path), cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


# the journal, and what Ctrl-C finds


@pytest.mark.parametrize(
    ("reply", "code"), [(ScriptedReply(text="Well."), 7), (ScriptedReply(status=401), 5)]
)
def test_a_journal_that_is_lost_has_its_own_exit_code(
    reply: ScriptedReply,
    code: int,
    serve: Serve,
    ask: Ask,
) -> None:
    provider = serve(reply)
    result = ask(provider, "--journal", "/dev/full")
    assert (result.exit_code, result.stdout) == (code, "Well." if code == 7 else "")
    assert "--journal: /dev/full could not be written (No space left on device)" in result.stderr
    assert len(provider.requests) == 1


def test_a_journal_may_go_to_a_device(serve: Serve, ask: Ask) -> None:
    assert ask(serve(ScriptedReply(text="Well.")), "--journal", os.devnull).exit_code == 0


def run(command: list[str], **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in the checkout, to its end."""
    env = environment(**more)
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, timeout=patience())


def python(code: str) -> subprocess.CompletedProcess[bytes]:
    return run([sys.executable, "-c", code])


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("click", ""),
        ("rungwise.adapters.cli.ask", "main(['ask', 'Hi', '--model', 'm'])"),
        ("attrs", "main(['ask', 'Hi', '--model', 'm'])"),
        ("attrs", "main([])"),
        ("httpx", "main('ask Hi --model m --base-url http://localhost'.split())"),
    ],
)
def test_ctrl_c_while_modules_are_imported_is_no_traceback(module: str, code: str) -> None:
    """The import of a module is where Ctrl-C is pressed."""
    pressed = f"""
import sys
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Press())
from rungwise.adapters.cli.command import main
"""
    done = python(pressed + code)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, b"", b"")


def test_the_entry_point_imports_nothing_heavy() -> None:
    heavy = {"httpx", "rich", "rungwise.fsm", "attrs", "transitions"}
    code = f"import sys, rungwise.adapters.cli.command; print({heavy} & set(sys.modules))"
    assert python(code).stdout == b"set()\n"


def test_every_command_is_where_the_command_line_looks_for_it() -> None:
    for name, module in COMMANDS.items():
        found = main.get_command(click.Context(main), name)
        assert (found.name, found.callback and found.callback.__module__) == (name, module)
    assert "did you mean" in invoke("verfy").stderr.lower()


# serve


def test_serve_answers_reports_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text(
        '[[replies]]\nstatus = 429\n[[replies]]\ntext = "Served."\n', encoding="utf-8"
    )
    with start("serve", str(script)) as process:
        url = process.stdout.readline().decode().strip()
        body = {
            "model": "any",
            "messages": [{"role": "user", "content": "Hello there"}],
            "max_tokens": 9,
        }
        with httpx.Client(trust_env=False) as client:
            replies = [client.post(f"{url}/chat/completions", json=body) for _ in range(2)]
        assert [reply.status_code for reply in replies] == [429, 200]
        assert replies[1].json()["choices"][0]["message"]["content"] == "Served."
        told = [process.stderr.readline().decode()]
        while not told[-1].startswith("2 "):
            told.append(process.stderr.readline().decode())
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=patience())
    assert (process.returncode, rest) == (0, b"")
    assert f"openai.OpenAI(base_url='{url}')\n" in told[0]
    assert told[-3] == f"serving {script}; Ctrl-C ends it\n"
    assert told[-2] == '1 model any, 1 message, last user "Hello there", cap 9 <- HTTP 429\n'
    assert told[-1].startswith("2 model any")
    assert told[-1].endswith("<- HTTP 200, text\n")


# demo


@pytest.fixture(scope="module")
def demo() -> str:
    # A width of another terminal, and a proxy that leads nowhere, must not matter.
    more = {
        "COLUMNS": "200",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "",
        "PYTHONIOENCODING": "utf-8",
    }
    done = run(command("demo", "--all"), **more)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


@pytest.mark.full
def test_the_process_that_dies_in_the_demo_runs_nothing_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("random", "json", "httpx", "rungwise"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    show_crash(Screen())
    assert "process 2" in capsys.readouterr().out
    assert not (tmp_path / "ran").exists()


@pytest.mark.full
def test_the_demo_is_plain_and_fits_when_piped(demo: str) -> None:
    assert "\x1b" not in demo
    assert "\r" not in demo
    assert max(map(len, demo.splitlines())) < 80
    assert all(line == line.rstrip() for line in demo.splitlines())


def seen_in(demo: str) -> dict[str, tuple[str, str, int]]:
    rows = re.findall(
        r"^([a-z-]+) +((?:ask|fallback).*?) {2,}(\w+(?: \w+)?) +(\d+)$", demo, re.MULTILINE
    )
    return {name: (path, outcome, int(attempts)) for name, path, outcome, attempts in rows}


IN_SHORT = ("tool-round", "thinking-only", "tools")


@pytest.mark.full
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "names",
    [IN_SHORT, tuple(SCENARIOS)],
    ids=["short", "all"],
)
@pytest.mark.parametrize(
    "api", [api for api in WIRES if api != "openai" and language_of(WIRES[api].client_path)]
)
def test_the_demo_takes_the_same_paths_in_every_protocol(
    monkeypatch: pytest.MonkeyPatch, demo: str, api: str, names: tuple[str, ...]
) -> None:
    monkeypatch.delenv("AWS_REGION")  # the demo needs no account with anybody
    stdout = printed(
        "demo", "--api", api, *[part for name in names for part in ("--scenario", name)]
    )
    paths = seen_in(demo)
    assert seen_in(stdout) == {name: paths[name] for name in paths if name in names}


@pytest.mark.full
def test_the_demo_runs_every_scenario(demo: str, fact: Check) -> None:
    paths = seen_in(demo)
    assert list(paths) == list(SCENARIOS)
    for name, path in paths.items():
        fact(f"the path, the outcome and the attempts of {name}", path)
    assert all(scenario.title in demo for scenario in SCENARIOS.values())
    told = " ".join(demo.split())
    assert "13 of 14 ended with an answer; the other raised an error that says why." in told
    arrived = re.search(r"\d+ of \d+ requests arrived\.", told)
    assert arrived is not None
    fact("what arrived", arrived[0])
    assert "In 14 of 14, the text that was streamed" in told


@pytest.mark.full
@pytest.mark.parametrize(
    "line",
    [
        "failed_transiently [may_retry] → retry (HTTP 429, rate limit,",
        "waits 30.0 s, as the provider asked (here 0.05 s)",
        "came_empty [may_nudge] → nudge",
        f'"{DEFAULT_POLICY.hints.nudge[:20]}',
        "only_reasoned [may_prefill] → prefill",
        "3 parts, stitched into one answer of 233 characters:",
        "2 parts, minus 84 repeated characters, stitched into one answer",
        "taken back: the 27 characters above",
        'the model calls get_weather with {"city": "Reykjavik"}',
        "→ primary: no server listens there; nothing arrived",
        " fallback      → second: ",
        "59 characters, from second",
        "failed_permanently → failed (HTTP 401, auth)",
        "raises Failed: failed after 6 attempts",
        " 2/24 attempts, 30.",
        "/120 s, 6/4000 tokens out, $0.0005/$0.25",
        "turn: called_tools [may_use_tools] → use_tools",
        ', tool "boat 2 leaks, boat 3 does not"; cap 300, stream',
        "turn: answered [is_summary] → limit_reached",
        "on the turn endless-turn: every property holds, and it makes at\nmost 5 calls. It made 5.",
    ],
)
def test_the_demo_shows(demo: str, line: str) -> None:
    assert line in demo


def scenario_of(demo: str, title: str) -> list[str]:
    """Return what stands below a title."""
    return demo.partition(f"  {title}\n")[2].partition("\n\n")[2].partition("\n\n")[0].splitlines()


@pytest.mark.full
def test_the_demo_runs_tools_side_by_side_and_tells_the_model_what_went_wrong(demo: str) -> None:
    lines = scenario_of(demo, "A turn: two tools side by side, one of which fails")
    at = lines.index(' use_tools     get_weather begins, with {"place": "the island"}')
    assert [line.strip() for line in lines[at + 1 : at + 4]] == [
        'get_boat begins, with {"number": 2}',
        'get_boat fails; the model gets "boat 2 leaks, boat 3 does not"',
        'get_weather returns "calm, 14 degrees"',
    ]
    assert lines[-2] == " finished      the answer is the text above: 56 characters, after 2 calls"


@pytest.mark.full
def test_the_demo_cuts_a_turn_short_that_would_never_end(demo: str) -> None:
    lines = scenario_of(demo, "A turn that would never end")
    labels = [line.split()[0] for line in lines if line[1] != " "]
    rounds = ["use_tools", "go_on"] * 3
    assert labels == ["ask", *rounds, "use_tools", "summarize", "limit_reached", "spent"]
    assert (
        " limit_reached the turn has gone on by itself 3 times, which is all that it may" in lines
    )
    assert lines[-1].startswith(" spent         5/24 attempts, ")


@pytest.mark.full
def test_the_demo_speaks_ascii_where_it_must() -> None:
    given = command("demo", "--scenario", "cut-stream", "--scenario", "refusal")
    done = run(given, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert b"?" not in done.stdout.replace(b'?"', b"").replace(b'? "', b"")
    assert b"fallback      -> second: same user" in done.stdout
    assert b"rate-limit" not in done.stdout


@pytest.mark.full
def test_the_demo_has_colours_on_a_terminal_and_ends_on_ctrl_c() -> None:
    ours, theirs = pty.openpty()
    with start(
        "demo",
        stdout=theirs,
        TERM="xterm-256color",
        COLUMNS="80",
    ) as process:
        os.close(theirs)
        seen = read_until(ours, b"answered")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=patience())
    os.close(ours)
    assert b"\x1b[" in seen
    assert process.returncode == 130
    assert b"Traceback" not in told


@pytest.mark.full
def test_the_demo_ends_after_three_scenarios_and_counts_the_others() -> None:
    first = list(SCENARIOS)[:3]
    shown = printed("demo")
    assert list(seen_in(shown)) == first
    assert "3 calls with providers that misbehave" in shown
    assert f"\n{len(SCENARIOS) - 3} more: rungwise demo --all\n" in shown
    assert "process" not in shown


@pytest.mark.full
def test_the_demo_of_all_scenarios_counts_none_that_are_left(demo: str) -> None:
    assert "more: rungwise demo" not in demo


def test_the_demo_lists_its_scenarios() -> None:
    assert [line.split()[0] for line in printed("demo", "--list").splitlines()] == list(SCENARIOS)


# diagram, verify, and the rest


@pytest.mark.full
def test_pictures_are_written_checked_and_found_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = verify()
    monkeypatch.setattr(
        "rungwise.fsm.analysis.certificate.verify.verify", lambda *arguments, **options: certificate
    )  # once is enough, and quicker
    folder = tmp_path / "pictures"
    assert {
        Path(line).name for line in printed("diagram", "--write", str(folder)).splitlines()
    } == {path.name for path in folder.iterdir()}
    printed("diagram", "--check", str(folder))
    (folder / "rows.md").write_text("old")
    stale = invoke("diagram", "--check", str(folder))
    assert (stale.exit_code, stale.stdout) == (1, f"{folder / 'rows.md'}\n")
    assert stale.stderr == f"rungwise: 1 file out of date: run rungwise diagram --write {folder}\n"


def test_a_certificate_as_text() -> None:
    result = invoke("verify", "--backends", "1")
    assert (result.exit_code, result.stdout) == (0, verify().to_text())


def test_on_a_terminal_a_certificate_is_laid_out_in_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("rungwise.adapters.cli.output.is_terminal", lambda stream: True)
    shown = invoke("verify", "--backends", "1").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "| " not in shown
    assert "…" not in shown
    assert "everything holds" in shown.lower()


@pytest.mark.full
def test_by_default_the_worst_cases_of_two_fallbacks_are_shown_too() -> None:
    result = invoke("verify", "--max-tokens", "4096")
    summary, _, rest = result.stdout.partition("\n## Properties\n")
    lines = summary.splitlines()
    assert len(lines) < 40
    assert "| money | not known: no price is known for a backend of the chain |" in lines
    assert "| fallbacks | 0 | 1 | 2 |" in lines
    assert "\n## Worst cases\n" in rest
    assert "| seconds | 901 | 901 | 901 |" in lines
    assert "| output tokens | 602,304 | 602,304 | 602,304 |" in lines
    held = json.loads(invoke("verify", "--json", "--max-tokens", "4096").stdout)
    for fallbacks in range(3):
        certificate = verify(chain=fallbacks + 1, max_tokens=4096).to_json()
        assert held["worst_by_fallbacks"][str(fallbacks)] == json.loads(
            json.dumps(certificate["worst"])
        )


@pytest.mark.full
def test_a_certificate_as_json_is_about_what_was_given(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        "[limits]\nretries = 1\nreasks = 0\n[budget]\nattempts = 7\n", encoding="utf-8"
    )
    options = "--backends 2 --max-tokens 100 --input-tokens 9 --json"
    stdout = printed("verify", policy, *options.split())
    certificate = verify(Policy.load(policy), 2, max_tokens=100, input_tokens=9)
    assert json.loads(stdout) == json.loads(json.dumps(certificate.to_json()))
    assert json.loads(stdout)["budget"]["attempts"] == 7


def test_an_exhaustive_walk_is_made_with_the_limits_of_the_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    others = "".join(f"{name} = 0\n" for name in Limits() if name != "retries")
    policy.write_text(f"[limits]\nretries = 2\n{others}", encoding="utf-8")
    walked = [
        json.loads(invoke("verify", str(policy), "--json", *more).stdout)["walked"]["retries"]
        for more in ([], ["--exhaustive"])
    ]
    assert walked == [1, 2]


def test_a_property_that_fails_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = verify()
    broken = attrs.evolve(certificate.properties[0], holds=False)
    failed = attrs.evolve(certificate, properties=(broken, *certificate.properties[1:]))
    monkeypatch.setattr(
        "rungwise.fsm.analysis.certificate.verify.verify", lambda *arguments, **options: failed
    )
    result = invoke("verify")
    assert (result.exit_code, result.stdout) == (1, failed.to_text())


def test_without_a_command_there_is_help() -> None:
    stdout = printed()
    for name in ("ask", "demo", "diagram", "serve", "verify"):
        assert f"\n  {name} " in stdout
        told = printed(name, "--help")
        assert "Exit codes:" in told
        assert "Example" in told


def test_the_version_is_told() -> None:
    assert printed("--version").startswith("rungwise")


# prices


@pytest.mark.full
def test_prices_put_money_into_the_certificate() -> None:
    given = "verify --backends 1 --max-tokens 100 --input-tokens 10 --prices 2/8 --json"
    certificate = json.loads(invoke(*given.split()).stdout)
    chain = [PlainLink("backend 1", prices=Prices(2, 8))]
    assert certificate == json.loads(
        json.dumps(verify(chain=chain, max_tokens=100, input_tokens=10).to_json())
    )


def test_prices_put_money_into_the_answer_and_let_a_budget_of_it_cap_requests(
    serve: Serve, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[budget]\nmoney = 0.01\n")
    provider = serve(ScriptedReply(text="x", usage={"prompt_tokens": 10, "completion_tokens": 100}))
    given = ("--policy", policy, "--json", "--prices", "10/20")
    result = invoke(*ASK, provider.base_url, *given)
    assert json.loads(result.stdout)["cost"] == pytest.approx(10 * 10e-6 + 100 * 20e-6)
    assert 0 < provider.requests[0].body["max_tokens"] <= 500


@pytest.mark.full
def test_a_budget_of_money_is_certified_with_prices(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[budget]\nmoney = 0.5\n")
    options = "--max-tokens 100 --input-tokens 10 --prices 2/8"
    result = invoke("verify", policy, *options.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert "money" in result.stdout


@pytest.mark.parametrize(
    "text",
    ["", "5", "1/2/3", "a/b", "-1/2", "nan/1", "1/nan", "1e308/1e308", "1/1e13", "inf/1"],
)
def test_prices_that_are_none_are_bad_input(text: str) -> None:
    assert "IN/OUT" in refused("verify", "--prices", text)
