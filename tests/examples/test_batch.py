"""The batch: what it sends and what that costs by the provider's own count, what fails, and what
Ctrl-C leaves.
"""

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rungwise
from rungwise.fsm.call.budget.costs import price_of
from rungwise.fsm.values.money import as_money
from rungwise.testing import ReceivedRequest, ScriptedReply

PROMPTS = [f"What is bird {number}?" for number in range(30)]
PRICES = rungwise.Prices(2.0, 10.0)


@pytest.fixture
def batch(example: Callable[[str], ModuleType]) -> ModuleType:
    return example("batch")


def asked(request: ReceivedRequest) -> str:
    return str(request.body["messages"][0]["content"])


def prompts_of(path: Path) -> list[str]:
    """Return the prompts that have an answer."""
    return [json.loads(line)["prompt"] for line in path.read_text("utf-8").splitlines()]


def run(
    batch: ModuleType,
    clients: Any,
    provider: Any,
    path: Path,
    money: float,
    **options: Any,
) -> dict[str, str]:
    client = clients(rungwise.OpenAIChat("m", base_url=provider.base_url, prices=PRICES))
    budget = rungwise.SharedBudget(rungwise.Budget(money=money, attempts=1000, seconds=None))
    failed: dict[str, str] = asyncio.run(batch.run_batch(client, PROMPTS, path, budget, **options))
    return failed


class Billing:
    """Make trouble with each prompt, then answer with as many tokens as the cap allows, and count
    what that costs.
    """

    def __init__(self) -> None:
        self.lock, self.tries, self.cost = threading.Lock(), Counter[str](), 0

    def __call__(self, request: ReceivedRequest) -> ScriptedReply:
        with self.lock:
            self.tries[asked(request)] += 1
            number = self.tries[asked(request)]
            if number == 1:
                return ScriptedReply(status=429, headers={"retry-after": "3"})
            text = "" if number == 2 else "It is a heron."
            prompt = sum(len(message["content"]) for message in request.body["messages"]) // 4
            written = request.body["max_tokens"] if number > 3 else len(text) // 4
            self.cost += price_of(rungwise.Usage(prompt, written), PRICES)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + written,
        }
        return ScriptedReply(text, usage=usage, cut_after=450 if number == 3 else None)


@pytest.mark.parametrize("money", [0.02, 1.0])
def test_the_money_is_never_passed_by_the_providers_own_count(
    batch: ModuleType,
    rungwise_provider: Any,
    rungwise_client: Any,
    tmp_path: Path,
    money: float,
) -> None:
    path = tmp_path / "answers.jsonl"
    billing = Billing()
    provider = rungwise_provider(billing)
    failed = run(batch, rungwise_client, provider, path, money)
    assert 0 < as_money(billing.cost) <= money
    assert sorted([*prompts_of(path), *failed]) == sorted(PROMPTS)
    assert bool(failed) is (money < 1)
    assert all("over_budget" in cause for cause in failed.values())
    assert failed or set(billing.tries.values()) == {4}
    assert all(request.body["max_tokens"] <= 1_000 for request in provider.requests)


def test_so_many_are_asked_at_once_and_no_more(
    batch: ModuleType,
    rungwise_provider: Any,
    rungwise_client: Any,
    tmp_path: Path,
) -> None:
    meet = threading.Barrier(3)
    lock = threading.Lock()
    now = 0
    most = 0

    def answer(request: ReceivedRequest) -> ScriptedReply:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        meet.wait(5)  # which three must, and a fourth would
        with lock:
            now -= 1
        return ScriptedReply("A heron.")

    assert (
        run(batch, rungwise_client, rungwise_provider(answer), tmp_path / "a.jsonl", 1.0, at_once=3)
        == {}
    )
    assert most == 3


def test_what_failed_is_told_with_its_cause_and_is_all_that_is_asked_the_next_time(
    batch: ModuleType,
    rungwise_provider: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "answers.jsonl"
    refuses = True

    def answer(request: ReceivedRequest) -> ScriptedReply:
        bad = refuses and asked(request) in PROMPTS[3:5]
        return ScriptedReply(status=400) if bad else ScriptedReply("A heron.")

    provider = rungwise_provider(answer)
    backend = rungwise.OpenAIChat("m", base_url=provider.base_url, prices=PRICES)
    with pytest.raises(SystemExit) as ended:
        batch.main(backend, PROMPTS, path, 1.0)
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert all(f"{prompt}: failed after 1 attempt" in told for prompt in PROMPTS[3:5])
    assert len(provider.requests) == 30
    refuses = False
    with pytest.raises(SystemExit) as ended:
        batch.main(backend, PROMPTS, path, 1.0)
    assert ended.value.code == 0
    assert sorted(map(asked, provider.requests[30:])) == PROMPTS[3:5]
    assert sorted(prompts_of(path)) == sorted(PROMPTS)


def test_what_a_kill_had_half_written_is_asked_again(
    batch: ModuleType,
    rungwise_provider: Any,
    rungwise_client: Any,
    tmp_path: Path,
) -> None:
    path, provider = (
        tmp_path / "answers.jsonl",
        rungwise_provider(lambda request: ScriptedReply("A heron.")),
    )
    path.write_text(
        json.dumps({"prompt": PROMPTS[0]}) + "\n" + json.dumps({"prompt": PROMPTS[1]})[:-4], "utf-8"
    )
    assert run(batch, rungwise_client, provider, path, 1.0) == {}
    assert sorted(map(asked, provider.requests)) == sorted(PROMPTS[1:])
    assert sorted(prompts_of(path)) == sorted(PROMPTS)


def test_ctrl_c_leaves_the_answers_that_are_there(
    batch: ModuleType,
    rungwise_provider: Any,
    tmp_path: Path,
    ctrl_c: None,
) -> None:
    path = tmp_path / "answers.jsonl"

    def answer(request: ReceivedRequest) -> ScriptedReply:
        if asked(request) != PROMPTS[12]:
            return ScriptedReply("A heron.")
        os.kill(os.getpid(), signal.SIGINT)
        return ScriptedReply(hang=True)

    provider = rungwise_provider(answer)
    backend = rungwise.OpenAIChat("m", base_url=provider.base_url, prices=PRICES)
    with pytest.raises(SystemExit) as ended:
        batch.main(backend, PROMPTS, path, 1.0)
    assert "interrupted" in str(ended.value)
    assert provider.wait_disconnected()
    done = prompts_of(path)
    assert len(done) >= 5  # of twelve before it, seven at most were under way
    assert set(done) < {asked(request) for request in provider.requests} < set(PROMPTS)


def test_the_command_plays_without_a_key(
    command: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answers.jsonl"
    with pytest.raises(SystemExit) as ended:
        command("batch", path)
    told = capsys.readouterr().err
    assert ended.value.code == 1
    assert "40/40" in told
    assert len(prompts_of(path)) + told.count("auth, HTTP 401") == 40


def test_the_command_asks_a_given_server_the_prompts_of_a_file(
    command: Callable[..., None], rungwise_provider: Any, tmp_path: Path
) -> None:
    provider = rungwise_provider(ScriptedReply("A heron."))
    (tmp_path / "prompts.txt").write_text(
        "Which bird is this?\n\nAnd that?\nWhich bird is this?\n", "utf-8"
    )
    given = (
        "--prompts",
        tmp_path / "prompts.txt",
        "--model",
        "m",
        "--base-url",
        provider.base_url,
        "--prices",
        "1/2",
    )
    with pytest.raises(SystemExit) as ended:
        command("batch", tmp_path / "answers.jsonl", *given)
    assert ended.value.code == 0
    assert sorted(map(asked, provider.requests)) == ["And that?", "Which bird is this?"]
    assert sorted(prompts_of(tmp_path / "answers.jsonl")) == ["And that?", "Which bird is this?"]
