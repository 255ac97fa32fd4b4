"""What Rungwise shows of itself: representations on one line, and help that can be read; one
warning in event loops.
"""

from __future__ import annotations

import pydoc
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import rungwise
from rungwise import Budget, Client, Limits, Policy, ToolCall, TurnPolicy, verify
from rungwise.core import Call, PlainLink, Reply, Request, Turn
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply


def journal() -> rungwise.Journal:
    call = Call(Request("A secret question"), Policy(), [PlainLink()])
    call.begin()
    call.receive(Reply("A secret answer", stop_reason="stop"))
    return call.result.journal


@pytest.mark.full
def test_journals_and_certificates_are_shown_on_one_line() -> None:
    turn = Turn(Request("hi"), chain=[PlainLink()])
    assert repr(journal()) == "<Journal of a call, 2 steps, done>"
    assert repr(turn.journal) == "<TurnJournal of a turn, 0 steps>"
    for certificate in (verify(Policy()), verify(TurnPolicy())):
        assert "\n" not in repr(certificate)
        assert len(repr(certificate)) < 300
        assert f"a {certificate.table} over 1 backend: at most" in repr(certificate)
    assert "attempts 24" in repr(verify(Policy()))


def test_a_policy_shows_what_differs_from_the_defaults() -> None:
    assert repr(Policy()) == "Policy()"
    assert repr(TurnPolicy()) == "TurnPolicy()"
    policy = Policy(limits=Limits(retries=1), budget=Budget(seconds=9.0))
    assert (
        eval(
            repr(policy),
            vars(rungwise)
            | {
                "Limits": Limits,
                "Policy": Policy,
                "Budget": Budget,
            },
        )
        == policy
    )
    assert repr(Policy(base_cap=10)) == "Policy(base_cap=10)"
    assert repr(TurnPolicy(call=policy)) == f"TurnPolicy(call={policy!r})"


@pytest.mark.parametrize(
    "thing", [Client, rungwise.draw_policy, Turn, rungwise.verify, rungwise.diff_policies, Call]
)
def test_help_prints_no_whole_policy(thing: Any) -> None:
    text = pydoc.render_doc(thing, renderer=pydoc.plaintext)
    for part in ("Limits(", "Budget(", "Timeouts(", "Hints(", "nudge="):
        assert part not in text
    assert max(map(len, text.splitlines())) < 800


IN_A_LOOP = """
import asyncio, sys, warnings
import rungwise
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

caught = []
warnings.showwarning = lambda message, kind, file, *rest: caught.append(f"{file}: {message}")
warnings.simplefilter("always")

with EmbeddedProvider(Script([ScriptedReply(text="hello")] * 9)) as provider:
    client = rungwise.Client(rungwise.OpenAIChat("model", api_key="key", base_url=provider.base_url))

    async def main(calls=True):
        await client.acall("hello")
        for _ in range(2):
            client.call("hello")
        client.turn("hello")
        list(client.stream("hello"))
        list(client.stream_turn("hello"))

    client.call("hello")
    assert caught == [], caught
    run = asyncio.run if sys.argv[1] == "asyncio" else __import__("trio").run
    (run(main()) if run is asyncio.run else run(main))
print(*caught, sep="\\n")
"""  # noqa: E501


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_call_within_an_event_loop_warns_once_and_names_the_other(loop: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_LOOP, loop], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    assert len(shown) == 4
    assert all(line.startswith("<string>: client.") for line in shown)
    for name in ("client.acall(", "client.aturn(", "client.astream(", "client.astream_turn("):
        assert sum(name in line for line in shown) == 1


@pytest.mark.parametrize("library", ["trio", "trio.lowlevel", "sniffio"])
def test_a_library_that_another_thread_is_just_importing_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """Its module is there, and has no members yet."""
    package, _, name = library.partition(".")
    half = ModuleType(package)
    if name:
        setattr(half, name, ModuleType(library))
    monkeypatch.setitem(sys.modules, package, half)
    replies = [
        ScriptedReply(tool_calls=[ToolCall("c1", "look", "{}")]),
        ScriptedReply(text="In reeds."),
    ]
    with EmbeddedProvider(Script(replies)) as provider:
        backend = rungwise.OpenAIChat("m", base_url=provider.base_url, api_key="")
        with Client([backend], health=None) as client:
            assert client.turn("Where?", tools=[look]).text == "In reeds."
            assert client.call("Where?").text == "In reeds."


def look() -> str:
    """Look."""
    return "a heron"
