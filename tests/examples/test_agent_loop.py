"""The agent: what it sends, what it keeps, and what is left of a turn that fails or is
interrupted.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rungwise
from rungwise.testing import ScriptedReply

LOOKS = ScriptedReply(tool_calls=[{"name": "nests", "arguments": '{"lake": "Vomb"}'}])
ANSWER = ScriptedReply("Three herons and a bittern.")


@pytest.fixture
def agent(example: Callable[[str], ModuleType]) -> ModuleType:
    return example("agent_loop")


def said(folder: Path) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = json.loads((folder / "conversation.json").read_text("utf-8"))
    return messages


def roles(messages: list[dict[str, Any]]) -> str:
    return " ".join(message["role"] for message in messages)


def test_a_question_is_answered_with_tools_and_the_next_one_goes_on_from_there(
    agent: ModuleType,
    rungwise_provider: Any,
    rungwise_client: Any,
    tmp_path: Path,
) -> None:
    busy = ScriptedReply(status=429, headers={"retry-after": "7"})
    provider = rungwise_provider(LOOKS, busy, ANSWER)
    client = rungwise_client(provider)
    folder = tmp_path / "birds"
    result = agent.run_turn(client, folder, "Who nests by the Vomb?")
    assert (result.outcome, result.text, len(provider.requests)) == ("finished", ANSWER.text, 3)
    assert roles(said(folder)) == "user assistant tool assistant"
    again = agent.run_turn(client, folder, "And in winter?")
    sent = provider.requests[-1].body
    assert roles(sent["messages"]) == "user assistant tool assistant user"
    assert json.loads(sent["messages"][2]["content"]) == {"heron": 3, "bittern": 1}
    assert sent["messages"][-1]["content"] == "And in winter?"
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["nests"]
    assert (
        sent["max_completion_tokens" if "max_completion_tokens" in sent else "max_tokens"] <= 20_000
    )
    journal = rungwise.TurnJournal.from_json((folder / "journal.json").read_text("utf-8"))
    assert rungwise.replay(journal).outcome == again.outcome


@pytest.mark.parametrize(
    "trouble",
    [
        ScriptedReply(status=401),
        ScriptedReply(),
        ScriptedReply(status=429, headers={"retry-after": "1000"}),
        ScriptedReply("Three her", cut_after=300),
    ],
)
def test_what_a_failed_turn_has_found_is_kept(
    agent: ModuleType,
    rungwise_provider: Any,
    rungwise_client: Any,
    tmp_path: Path,
    trouble: ScriptedReply,
) -> None:
    provider = rungwise_provider(LOOKS, trouble)
    with pytest.raises(rungwise.TurnFailed):
        agent.run_turn(rungwise_client(provider), tmp_path, "Who nests by the Vomb?")
    assert roles(said(tmp_path)).startswith("user assistant tool")
    assert json.loads((tmp_path / "journal.json").read_text("utf-8"))["outcome"] == "failed"


def test_ctrl_c_while_a_provider_is_silent_keeps_what_came_before(
    command: Callable[..., None],
    rungwise_provider: Any,
    tmp_path: Path,
    ctrl_c: None,
) -> None:
    def answer(request: rungwise.testing.ReceivedRequest) -> ScriptedReply:
        if len(request.body["messages"]) == 1:
            return LOOKS
        os.kill(os.getpid(), signal.SIGINT)
        return ScriptedReply(hang=True)

    provider = rungwise_provider(answer)
    with pytest.raises(SystemExit) as ended:
        command(
            "agent_loop",
            tmp_path,
            "Who nests by the Vomb?",
            "--model",
            "m",
            "--base-url",
            provider.base_url,
        )
    assert str(ended.value).startswith("interrupted; ")
    assert provider.wait_disconnected()
    assert len(provider.requests) == 2
    assert roles(said(tmp_path)) == "user assistant tool"
    assert json.loads((tmp_path / "journal.json").read_text("utf-8"))["outcome"] == "cancelled"


def test_the_command_plays_without_a_key_and_goes_on_with_one_question_after_another(
    command: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command("agent_loop", tmp_path, "Who nests by the Vomb?")
    command("agent_loop", tmp_path, "How many of each?")
    shown = capsys.readouterr()
    assert shown.out == "By the Vomb nest three herons and a bittern.\n" * 2
    assert shown.err.count('nests({"lake": "Vomb"})') == 2
    assert [message["content"] for message in said(tmp_path) if message["role"] == "user"] == [
        "Who nests by the Vomb?",
        "How many of each?",
    ]


def test_the_command_asks_a_given_server_and_says_in_a_line_why_it_failed(
    command: Callable[..., None], rungwise_provider: Any, tmp_path: Path
) -> None:
    provider = rungwise_provider(
        ScriptedReply(status=404, error={"message": "no such model", "code": "model_not_found"})
    )
    with pytest.raises(SystemExit) as ended:
        command("agent_loop", tmp_path, "Who?", "--model", "mine", "--base-url", provider.base_url)
    assert [request.body["model"] for request in provider.requests] == ["mine"]
    assert "failed after 1 call" in str(ended.value)
