"""What a command is given: a prompt beside what is piped in, a backend in one word, and texts that
begin with a byte order mark; and the line that a pipe gets.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rungwise import ConfigurationError, Journal, Policy
from rungwise.adapters.durable.batch import read_lines
from rungwise.core import Call, PlainLink, Reply, Request
from rungwise.testing import ScriptedReply
from support.command_line import command, environment, invoke, refused

ANSWER = ScriptedReply(text="In reeds.")
LOG = "12:00 a heron\n12:01 another one\n"


def said(provider: Any) -> str:
    """Return the last message that a provider got."""
    [request] = provider.requests
    text: str = request.body["messages"][-1]["content"]
    return text


def at(provider: Any) -> tuple[str, ...]:
    return ("--model", "m", "--base-url", provider.base_url, "--api-key-env", "")


def test_what_is_piped_in_stands_behind_the_prompt(rungwise_provider: Any) -> None:
    provider = rungwise_provider(ANSWER)
    result = invoke("ask", "Summarise this log:", *at(provider), input=LOG)
    assert said(provider) == f"Summarise this log:\n\n{LOG}"
    assert "piped in" in result.stderr
    assert result.stdout == ANSWER.text


@pytest.mark.parametrize(
    ("text", "written"),
    [("In reeds.", "In reeds.\n"), ("In reeds.\n", "In reeds.\n"), ("a\n\nb", "a\n\nb\n")],
)
@pytest.mark.parametrize("options", [(), ("--no-stream",)], ids=" ".join)
def test_the_last_line_ends_where_it_is_asked_for(
    rungwise_provider: Any, options: tuple[str, ...], text: str, written: str
) -> None:
    answer = ScriptedReply(text=text)
    provider = rungwise_provider(answer, answer)
    asked = ("ask", "Where?", *at(provider), *options)
    assert invoke(*asked).stdout == text
    assert invoke(*asked, "--newline").stdout == written


def test_the_line_ends_once_where_the_text_comes_in_parts(rungwise_provider: Any) -> None:
    cut = ScriptedReply(text="In reeds, ", finish="length")
    provider = rungwise_provider(cut, ScriptedReply(text="and by the lake."))
    result = invoke("ask", "Where?", *at(provider), "--newline")
    assert (result.exit_code, result.stdout) == (0, "In reeds, and by the lake.\n")


def test_no_answer_is_no_line_and_json_has_its_own_end(rungwise_provider: Any) -> None:
    provider = rungwise_provider(ScriptedReply(status=401), ANSWER)
    refusal = invoke("ask", "Where?", *at(provider), "--newline")
    assert (refusal.exit_code, refusal.stdout) == (5, "")
    written = invoke("ask", "Where?", *at(provider), "--newline", "--json").stdout
    assert (written[-2:], written.count("\n")) == ("}\n", 1)


@pytest.mark.parametrize("piped", ["", " \n"])
def test_a_pipe_with_nothing_in_it_adds_nothing(rungwise_provider: Any, piped: str) -> None:
    provider = rungwise_provider(ANSWER)
    result = invoke("ask", "Where?", *at(provider), input=piped)
    assert said(provider) == "Where?"
    assert "piped in" not in result.stderr


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", ["file", "pipe", "open pipe", "null"])
def test_a_process_reads_what_is_there_and_waits_for_no_open_pipe(
    rungwise_provider: Any, tmp_path: Path, way: str
) -> None:
    provider = rungwise_provider(ANSWER)
    file = tmp_path / "log"
    file.write_text(LOG)
    stdin: Any = subprocess.PIPE
    if way == "file":
        stdin = file.open()
    elif way == "null":
        stdin = subprocess.DEVNULL
    with subprocess.Popen(
        command("ask", "Summarise:", *at(provider)),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        if way == "pipe":
            stdout, _ = process.communicate(LOG.encode())
        else:
            assert process.stdout is not None
            stdout = process.stdout.read()  # with stdin as it is
        assert stdout.decode() == ANSWER.text
    expected = "Summarise:" if way in ("open pipe", "null") else f"Summarise:\n\n{LOG}"
    assert said(provider) == expected


@pytest.mark.parametrize("form", ["{url}#m", "{url}#m#", "openai:{url}#m#", "chat:{url}#m#"])
def test_a_model_may_name_its_server_as_a_fallback_does(rungwise_provider: Any, form: str) -> None:
    provider = rungwise_provider(ANSWER)
    result = invoke("ask", "Where?", "--model", form.format(url=provider.base_url))
    assert result.stdout == ANSWER.text, result.output
    [request] = provider.requests
    assert request.body["model"] == "m"


def test_a_model_may_name_its_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    told = refused("ask", "Where?", "--model", "anthropic:claude-sonnet-5")
    assert "ANTHROPIC_API_KEY" in told


@pytest.mark.parametrize("model", ["llama3.2:latest", "openai/gpt-5", "anthropic.claude-5-v1:0"])
def test_other_models_are_sent_as_they_are(rungwise_provider: Any, model: str) -> None:
    provider = rungwise_provider(ANSWER)
    given = ("--base-url", provider.base_url, "--api-key-env", "")
    assert invoke("ask", "Where?", "--model", model, *given).exit_code == 0
    assert provider.requests[0].body["model"] == model


def test_a_server_is_named_once(rungwise_provider: Any) -> None:
    url = rungwise_provider(ANSWER).base_url
    told = refused("ask", "Where?", "--model", f"{url}#m", "--base-url", url)
    assert "--base-url" in told
    assert "--model" in refused("ask", "Where?", "--model", "http://localhost:1/v1")


MARK = b"\xef\xbb\xbf"
UTF_16 = "Where?".encode("utf-16")


def test_a_mark_in_front_of_a_piped_text_is_no_part_of_it(rungwise_provider: Any) -> None:
    provider = rungwise_provider(ANSWER)
    assert invoke("ask", "-", *at(provider), input=MARK + b"Where?").exit_code == 0
    assert said(provider) == "Where?"
    told = refused("ask", "-", *at(provider), input=UTF_16)
    assert "UTF-16" in told
    assert "UTF-8" in told


def test_a_mark_costs_a_batch_no_prompt(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(MARK + b'{"id": "a", "prompt": "Where?"}\n{"id": "b", "prompt": "When?"}\n')
    assert [(line.id, line.fault) for line in read_lines(file)] == [("a", ""), ("b", "")]
    file.write_bytes('{"id": "a", "prompt": "Where?"}\n'.encode("utf-16"))
    assert "UTF-16" in next(iter(read_lines(file))).fault


def test_a_journal_may_begin_with_a_mark() -> None:
    call = Call(Request("Where?"), Policy(), [PlainLink()])
    call.begin()
    call.receive(Reply("In reeds.", stop_reason="stop"))
    text = call.journal.to_json()
    for marked in (f"\ufeff{text}", MARK + text.encode()):
        assert Journal.from_json(marked).to_json() == text
    with pytest.raises(ConfigurationError, match="UTF-16"):
        Journal.from_json(text.encode("utf-16"))
