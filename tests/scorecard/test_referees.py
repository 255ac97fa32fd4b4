"""Others grade Rungwise, and the exam grades clients whose grades others have published."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

import rungwise
from adoption.environments import python_for
from benchmarks.environments import variables
from rungwise.adapters.exam.answer import ANSWER
from rungwise.adapters.exam.examinees import Program
from rungwise.adapters.exam.examining import examine
from rungwise.testing import EmbeddedProvider, ScriptedReply
from scorecard.making import script
from support.waiting import answers, patience, until

pytestmark = pytest.mark.full
Behaviour = Mapping[str, Any]
OF_FIRST: Final = {"model": "first"}
TEXT: Final = "In the reeds the heron waits, and the water does not move at all today."


@pytest.fixture(scope="module")
def llmock() -> Iterator[str]:
    """Return the address of LLMock, which runs in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    binary = python_for("llmock").with_name("llmock")
    command = [str(binary), "serve", "--port", str(port), "--log-level", "error"]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: answers(f"{url}/health"), 60)
            yield url
        finally:
            process.terminate()


def verdict(url: str, behaviours: list[Behaviour], ask: Callable[[str], object]) -> list[str]:
    """Return what LLMock finds wrong with a client that meets these behaviours."""
    httpx.post(f"{url}/_llmock/reset").raise_for_status()
    reply = {"type": "reply", "text": TEXT, "times": None}
    scenario = {"behaviors": [*behaviours, reply]}
    httpx.post(f"{url}/_llmock/scenario", json=scenario).raise_for_status()
    ask(f"{url}/v1")
    found = httpx.get(f"{url}/_llmock/verdict").json()
    assert found["faults_injected"], found
    return [each["code"] for each in found["findings"]]


def streamed(url: str) -> None:
    """Ask Rungwise for a stream, with a stall of one second and a second backend, and check that
    it is whole.
    """
    chain = [rungwise.OpenAIChat(model, base_url=url, api_key="any") for model in ("first", "next")]
    policy = rungwise.Policy(timeouts=rungwise.Timeouts(stall=1.0))
    with rungwise.Client(chain, policy=policy) as client, client.stream("Where?") as stream:
        said = "".join(event.text for event in stream if isinstance(event, rungwise.Text))
    assert said == stream.result.text
    assert said.endswith(TEXT[-20:])


@pytest.mark.parametrize(
    ("behaviour", "codes"),
    [
        ({"type": "fail", "status": 429, "retry_after": 2}, []),
        ({"type": "fail", "status": 429, "times": 3}, []),
        ({"type": "fail", "status": 503, "times": None, "match": OF_FIRST}, []),
        ({"type": "fail", "status": 500}, []),
        ({"type": "fail", "status": 401, "times": None, "match": OF_FIRST}, []),
        ({"type": "fail", "status": 404, "times": None, "match": OF_FIRST}, []),
        ({"type": "stream_fault", "kind": "stall", "after_chunks": 4, "stall_seconds": 5}, []),
        ({"type": "stream_fault", "kind": "disconnect", "after_chunks": 4}, ["gave_up"]),
        (
            {"type": "stream_fault", "kind": "truncate", "after_chunks": 4},
            ["truncated_stream_accepted"],
        ),
        (
            {"type": "stream_fault", "kind": "malformed", "after_chunks": 4},
            ["malformed_chunk_ignored"],
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_llmock_finds_nothing_but_what_it_cannot_see(
    llmock: str, behaviour: Behaviour, codes: list[str]
) -> None:
    """LLMock takes requests for retries of one another only if their bodies are equal. Rungwise
    goes on from the text that has come, so LLMock sees a call that gave up, or took half of an
    answer for the whole one, and another call; the test sees that the answer is whole.
    """
    assert verdict(llmock, [behaviour], streamed) == codes


INVISIBLE: Final = ("llm_error_single", "llm_timeout_single", "llm_schema_single")
"""Faults whose reply is a well-formed answer with another text, such as `[API ERROR] HTTP 500`."""


def test_agentchaos_passes_what_a_client_can_see() -> None:
    """AgentChaos puts its errors into the text of an answer with status 200, which no client can
    tell from an answer; what is empty or cut can be told, and is made good.
    """
    seen = ("llm_empty_single", "llm_truncate_single", "compound_max_tokens")
    with EmbeddedProvider(lambda request: ScriptedReply(text=ANSWER)) as provider:
        program = [str(agentchaos()), script("under_agentchaos.py"), provider.base_url]
        done = subprocess.run(
            [*program, *seen, *INVISIBLE],
            capture_output=True,
            text=True,
            check=False,
            env=variables(),
            timeout=patience(120),
        )
    assert done.returncode == 0, done.stderr[-2000:]
    said, passed = map(json.loads, done.stdout.splitlines()[-2:])
    assert [name for name, is_passed in passed.items() if not is_passed] == list(INVISIBLE)
    for name in ("baseline", *seen):
        assert said[name] == ANSWER, name


def agentchaos() -> Path:
    """Return the interpreter that has AgentChaos, without the agents that it also asks for."""
    python = python_for("agentchaos")
    install = [str(python), "-m", "pip", "install", "-qq", "--no-deps", "agentchaos-sdk==0.1.0"]
    subprocess.run(install, check=True, stdout=sys.stderr)
    return python


PUBLISHED: Final = {
    "retry_after": ("pass", "safe"),  # S01
    "busy": ("pass", "safe"),  # S02
    "error_once": ("pass", "safe"),  # S03
    "overloaded": ("pass", "safe"),  # S04
    "mute": ("pass", "safe"),  # S06
    "slow": ("pass", "pass"),  # S07
    "cut": ("pass", "safe"),  # S08
    "stall": ("pass", "safe"),  # S09
    "no_end": ("pass", "pass"),  # S11
    "too_long": ("pass", "safe"),  # S12
    "filtered": ("pass", "pass"),  # S13
}
"""The grades of the reference client and of the control row that Failover Bench published on 12
September 2026, by the name of the same fault here.
"""


@pytest.mark.parametrize("column", [0, 1], ids=["reference", "direct"])
def test_the_exam_grades_as_failover_bench_does(column: int) -> None:
    """There, who has no fallback may wait 20 s for a first byte; here it is a blemish of anybody,
    for nobody declares the backends of a stranger's program.
    """
    expected = {name: grades[column] for name, grades in PUBLISHED.items()}
    if column:
        expected["slow"] = "partial"
    own = ["direct"] * column
    program = Program([sys.executable, script("failover_reference.py"), *own])
    came = examine(program, names=PUBLISHED, at_once=len(PUBLISHED))
    grades = {each.case.name: each.mark.grade for each in came.outcomes}
    assert grades == expected, [each.mark for each in came.outcomes]
