"""`rungwise fuzz`: it passes what is honest, finds what is not, and makes it small.

The long runs are `rungwise fuzz --examples 20000` and `rungwise fuzz --over-http --examples 500`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from hypothesis import given

from rungwise import CALL, Budget, Client, OpenAIChat, Policy, TurnPolicy, verify
from rungwise.adapters.provider.server import EmbeddedProvider
from rungwise.adapters.testing import fuzzing, search
from rungwise.adapters.testing.case import PRICES, Case
from rungwise.adapters.testing.fuzzing import Fuzzer
from rungwise.adapters.testing.kinds import edge_cases
from rungwise.adapters.testing.runner import MemoryProvider
from rungwise.adapters.testing.scripts import scripted_replies
from rungwise.adapters.testing.squeeze import Squeeze
from rungwise.adapters.wires.chat import stream
from rungwise.core import Effect, Guard, Link, PlainLink
from rungwise.fsm.analysis.certificate import call_search
from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.analysis.replay.calls import RecordedBudget
from rungwise.fsm.call import rounds
from rungwise.fsm.call.budget import estimate
from rungwise.fsm.call.budget.budget import Spending
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.clocks import waiting
from rungwise.fsm.call.conversation import answer, reading
from rungwise.fsm.call.run import delivery, judging, observe
from rungwise.fsm.engine.machine.run import machine_of
from rungwise.fsm.testing.compactors import Compactor
from rungwise.fsm.turn.conversation import Conversation
from rungwise.testing import (
    Clocks,
    Dishonest,
    Script,
    ScriptedReply,
    TurnScript,
    assert_turn_honest,
    read_turn_script,
    run_turn,
)
from support.command_line import invoke, printed, printed_by, refused
from support.sampling import sampled
from support.tables import redeclaring

ENOUGH = 1_500
"""Calls among which each planted bug is found."""
README = Policy(budget=Budget(attempts=12, seconds=90.0, money=0.05))
"""The policy that the README shows."""


@pytest.fixture(autouse=True)
def proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prove each policy once for all tests: planted bugs are held against what the machine is meant
    to be.
    """
    for backends in (1, 2):
        _proved(Policy(), backends)  # before any bug is planted, whichever test comes first
    monkeypatch.setattr(fuzzing, "verify", proved)


@cache
def _proved(
    policy: Policy | TurnPolicy, backends: int, max_tokens: int | None = None
) -> Certificate:
    chain = [PlainLink(str(number), prices=fuzzing.PRICES) for number in range(backends)]
    return verify(policy, chain, max_tokens=max_tokens)


def proved(
    policy: Policy | TurnPolicy, chain: Sequence[Link], *, max_tokens: int | None = None
) -> Certificate:
    return _proved(policy, len(chain), max_tokens)


# clean


@pytest.mark.full
def test_many_calls_in_memory_are_honest_and_within_the_certificate() -> None:
    with Fuzzer(backends=2, seed=7) as fuzzer:
        found = fuzzer.run(examples=600)
    assert found is None, found.to_toml()
    assert fuzzer.examples == fuzzer.coverage.paths == 600
    assert all(extreme.certified for extreme in fuzzer.coverage.extremes)
    # Without a budget that runs out, every event comes about.
    coverage = fuzzer.coverage
    assert {row.event for row in coverage.table_rows} - {row.event for row in coverage.rows} <= {
        "ran_out",
        "ended_unclearly",  # rarely drawn
        "answered_uncertainly",  # of decisions
    }


@pytest.mark.full
def test_calls_over_http_are_honest_and_within_the_certificate() -> None:
    with Fuzzer(backends=2, seed=1, over_http=True) as fuzzer:
        found = fuzzer.run(examples=50)
    assert found is None, found.to_toml()
    assert fuzzer.examples == 50


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(text="An answer.", write_sizes=(3,)),
        ScriptedReply(text="An answer.", cut_after=150),
        ScriptedReply(text="An answer.", cut_after=10_000),
        ScriptedReply(status=429, headers={"retry-after": "3"}),
        ScriptedReply(body="<html>", status=502),
        ScriptedReply(text="half", error_event={"message": "gone"}),
    ],
    ids=repr,
)
def test_the_provider_in_memory_answers_as_the_real_one(
    reply: ScriptedReply, streams: bool
) -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": streams,
    }

    def ask(client: httpx.Client, base_url: str) -> tuple[Any, ...]:
        pieces: list[bytes] = []
        try:
            with client.stream("POST", f"{base_url}/chat/completions", json=body) as response:
                for piece in response.iter_bytes():
                    pieces.append(piece)
        except httpx.TransportError as error:
            return response.status_code, b"".join(pieces), type(error)
        told = {
            name: response.headers.get(name)
            for name in ("content-type", "content-length", "retry-after")
        }
        return response.status_code, b"".join(pieces), told

    memory = MemoryProvider(Script([reply]))
    with EmbeddedProvider(Script([reply])) as real, httpx.Client() as client:
        expected = ask(client, real.base_url)
    with httpx.Client(transport=httpx.MockTransport(memory.respond)) as client:
        assert ask(client, memory.base_url) == expected
    assert memory.requests[0].body == body


def test_the_provider_in_memory_falls_silent_and_takes_its_time() -> None:
    slow = ScriptedReply(
        delay=3.0,
        chunk_delay=1.0,
        write_sizes=(100,),
        text="x" * 300,
    )
    memory = MemoryProvider(
        Script([ScriptedReply(hang=True), slow, ScriptedReply(hang=True, cut_after=5)])
    )
    with httpx.Client(transport=httpx.MockTransport(memory.respond)) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(memory.base_url, json={})
        client.post(memory.base_url, json={})
        with pytest.raises(httpx.ReadTimeout):
            client.post(memory.base_url, json={})
    assert memory.clock.now > 5.0


def test_an_attempt_in_memory_ends_when_a_real_one_would() -> None:
    slow = ScriptedReply(
        delay=80.0,
        chunk_delay=1.0,
        text="x" * 4_000,
        chunk_size=1,
    )
    memory = MemoryProvider(Script([slow], after="repeat"))
    policy = Policy(budget=Budget(seconds=900.0))
    with httpx.Client(transport=httpx.MockTransport(memory.respond)) as http:
        backend = OpenAIChat("m", base_url=memory.base_url, api_key_required=False)
        client = Client(
            backend,
            policy=policy,
            http=http,
            testing=Clocks(clock=lambda: memory.clock.now, sleep=memory.clock.advance),
        )
        assert client.call("Where?").outcome == "partial"
    assert 599.0 < memory.clock.now <= 600.0, "the longest that an attempt may take"


# what is generated


@given(scripted_replies(hangs=False, delays=False))
def test_over_http_nothing_takes_time(reply: ScriptedReply) -> None:
    assert reply.hang is False
    assert reply.delay == 0.0
    assert reply.chunk_delay == 0.0
    assert reply.lasts == 0.0


# planted bugs


def empties_are_answers(patch: pytest.MonkeyPatch) -> None:
    event_of_reply = observe.event_of_reply

    def misclassified(*arguments: Any, **named: Any) -> str:
        event = event_of_reply(*arguments, **named)
        return "answered" if event == "came_empty" else event

    patch.setattr(observe, "event_of_reply", misclassified)


def caps_cut_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(observe, "was_cut", lambda reply, cap: False)


def every_tool_call_is_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "is_cut", lambda *given: False)
    patch.setattr(judging, "_fault_of", lambda *given: None)


def reasks_are_free(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(vars(CALL), "_machine", machine_of(redeclaring(CALL, Effect("spend_reask"))))


def retries_have_no_limit(patch: pytest.MonkeyPatch) -> None:
    guard = Guard("may_retry", holds="wait_fits", lacks="added_text")
    patch.setitem(vars(CALL), "_machine", machine_of(redeclaring(CALL, guard)))


def nobody_pays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Spending, "pay", lambda spending, usage, charged, prices: None)


def streams_are_not_corrected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delivery, "correction", lambda shown, target: ())


def cuts_go_unnoticed(patch: pytest.MonkeyPatch) -> None:
    reply = stream.ChatDecoder.reply
    patch.setattr(
        stream.ChatDecoder,
        "reply",
        lambda self, *, is_cut, cause: reply(self, is_cut=False, cause=None),
    )


def caps_stay_at_home(patch: pytest.MonkeyPatch) -> None:
    encode = OpenAIChat.encode
    without = lambda send: attrs.evolve(send, max_tokens=None)  # noqa: E731
    patch.setattr(
        OpenAIChat,
        "encode",
        lambda self, send, *, stream: encode(self, without(send), stream=stream),
    )


# Each bug with what it breaks, and a seed that leads to it soon.
PLANTED = (
    (empties_are_answers, "an empty answer is no success", 5),
    (caps_cut_nothing, "what is done ended cleanly", 3),
    (every_tool_call_is_whole, "no cut tool call is handed out", 3),
    (nobody_pays, "usage and cost are the sums over all attempts", 5),
    (streams_are_not_corrected, "what a stream handed out is the text of the result", 5),
    (cuts_go_unnoticed, "what is done is what the provider sent", 6),
    (caps_stay_at_home, "what goes over the wire is what the journal says", 5),
)


@pytest.mark.dear(4)
@pytest.mark.full
@pytest.mark.parametrize(
    ("plant", "property", "seed"), PLANTED, ids=[plant.__name__ for plant, _, _ in PLANTED]
)
def test_a_planted_bug_is_found_and_made_small(
    plant: Any,
    property: str,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with Fuzzer(seed=seed) as fuzzer:
        found = fuzzer.run(examples=ENOUGH)
        assert found is not None
        with pytest.raises(Dishonest, match=property):
            fuzzer.check(found.case)
    assert isinstance(found.error, Dishonest)
    assert found.error.property == property
    assert len(found.case.script.replies) == 1
    assert len(found.to_toml().splitlines()) <= 12
    assert Script.from_toml(found.to_toml()) == found.case.script


def texts_count_at_a_third_of_their_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        answer, "tokens_of", lambda text, cap, usage: estimate.tokens_in(estimate.bytes_of(text))
    )


def what_breaks_off_counts_as_its_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rounds, "charge_of", lambda evidence, sent: evidence.usage)


def messages_cost_nothing_beside_their_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(estimate, "MESSAGE_TOKENS", 0)


@pytest.mark.full
@pytest.mark.parametrize(
    ("plant", "says"),
    sampled(
        [
            (retries_have_no_limit, "a counter is 4, and its limit is 3"),
            (reasks_are_free, "the variant did not fall"),
        ],
        one_in=2,
    ),
    ids=["retries_have_no_limit", "reasks_are_free"],
)
def test_what_the_running_machine_itself_refuses_is_a_finding(
    plant: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with Fuzzer(seed=5) as fuzzer:
        found = fuzzer.run(examples=ENOUGH)
    assert found is not None
    assert found.what.startswith("BrokenMachine: ")
    assert says in found.what
    assert len(found.case.script.replies) == 1


def test_a_crash_is_a_finding_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*arguments: Any, **options: Any) -> str:
        raise RuntimeError("never seen before")

    monkeypatch.setattr(observe, "event_of_reply", crash)
    with Fuzzer() as fuzzer:
        found = fuzzer.run(examples=10)
    assert found is not None
    assert found.what == "RuntimeError: never seen before"
    assert found.case == Case(Script([ScriptedReply()]), request=found.case.request)


def test_a_case_is_made_smaller_for_as_long_as_it_fails() -> None:
    replies = [
        ScriptedReply(status=500),
        ScriptedReply(text="a", finish="length"),
        ScriptedReply(text="b"),
    ]
    case = Case(Script(replies), mode="astream", compactor=Compactor("lengthens"))
    least = case.shrunk(
        lambda other: other.compactor is not None and any(r.finish for r in other.script.replies)
    )
    assert least == Case(
        Script([ScriptedReply(finish="length")]), request=case.request, compactor=case.compactor
    )


def unpaid_backends_are_never_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(call_search.CallSearch, "skipping", property(lambda search: {}))
    # It shows in waits alone, and only where those of the last backend are longer than those of the
    # others.
    patch.setattr(waiting, "BROKEN", frozenset({"malformed"}))


def a_replay_forgets_who_was_passed_over(patch: pytest.MonkeyPatch) -> None:
    share = RecordedBudget.share

    def forgetful(shared: RecordedBudget) -> Any:
        found: Any = share(shared)
        found._verdicts = [step for step in found._verdicts if step.event != "skipped"]
        return found

    patch.setattr(RecordedBudget, "share", forgetful)


# Each fault with what it breaks.
FAULTS = (
    (unpaid_backends_are_never_passed_over, "nothing exceeds the certificate"),
    (texts_count_at_a_third_of_their_bytes, "nothing exceeds the budget"),
    (what_breaks_off_counts_as_its_text, "nothing exceeds the budget"),
    (messages_cost_nothing_beside_their_text, "nothing exceeds the budget"),
    (a_replay_forgets_who_was_passed_over, "the journal replays to the same result"),
)


@pytest.mark.dear(3)
@pytest.mark.slowest
@pytest.mark.full
@pytest.mark.parametrize("seed", range(101, 104))
@pytest.mark.parametrize(("plant", "property"), FAULTS, ids=[plant.__name__ for plant, _ in FAULTS])
def test_a_fault_is_found_by_seeds_that_nobody_chose(
    plant: Any,
    property: str,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _proved(README, 2)
    plant(monkeypatch)
    with Fuzzer(README, seed=seed, prices=Prices(2.5, 10.0)) as fuzzer:
        found = fuzzer.run(examples=ENOUGH)
    assert found is not None
    assert isinstance(found.error, Dishonest)
    assert found.error.property == property
    assert isinstance(found.case, Case)
    assert len(found.case.script.replies) <= 2


# what is sought


def test_a_call_is_crossed_with_another() -> None:
    kept = Case(
        Script([ScriptedReply(status=500), ScriptedReply(text="a", finish="length")]),
        mode="stream",
        squeeze=Squeeze(attempts=3),
    )
    other = Case(Script([ScriptedReply(text="b")]), mode="acall", opens=1)
    crossed = kept.crossed(other, 1, ["opens"])
    assert crossed.script == Script([ScriptedReply(status=500), ScriptedReply(text="b")])
    assert (crossed.mode, crossed.opens, crossed.squeeze) == ("stream", 1, kept.squeeze)


@given(edge_cases(PRICES))
def test_money_at_the_edge_pays_for_half_a_request_to_a_few(case: Case) -> None:
    squeeze = case.squeeze
    assert case.is_fair
    assert not squeeze.is_certified
    assert case.request.max_tokens is not None
    assert squeeze.money is not None
    reply = case.request.max_tokens * case.prices.output / 1e6
    assert squeeze.money >= reply / 2
    assert squeeze.policy(Policy()).budget.money == squeeze.money


@pytest.mark.full
def test_calls_that_reached_something_new_are_crossed_with_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []
    near = fuzzing.near_cases

    def recorded(kept: Sequence[Case], others: Any) -> Any:
        drawn.append(len(kept))
        return near(kept, others)

    monkeypatch.setattr(fuzzing, "near_cases", recorded)
    monkeypatch.setattr(search, "BATCH", 9)
    with Fuzzer(seed=2) as fuzzer:
        assert fuzzer.run(examples=18) is None
    assert len(drawn) == 1, "the first batch has nothing to begin with"
    assert 0 < drawn[0] <= 9


# the command


@pytest.mark.full
def test_an_honest_policy_exits_with_0(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[limits]\nretries = 1\nreasks = 1\n[budget]\nattempts = 6\n")
    result = invoke("fuzz", policy, "--examples", 30, "--seed", 3, "--backends", 3)
    assert result.exit_code == 0, result.output
    assert result.stdout == "30 calls, all honest\n"
    assert "seed 3: 30 calls; 30 paths," in result.stderr
    assert re.search(r" of [236] attempts", result.stderr)  # some calls are given fewer


@pytest.mark.full  # it takes half a minute
def test_a_call_with_little_time_waits_for_others_no_longer_than_that() -> None:
    policy = Policy(budget=Budget(seconds=30.0))
    with Fuzzer(policy, seed=1) as fuzzer:
        assert fuzzer.run(examples=60) is None


@pytest.mark.full
def test_a_file_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    stderr = refused("fuzz", "--examples", 5, "-o", tmp_path / "no" / "where.toml")
    assert "cannot be written (No such file or directory)" in stderr
    assert "5 calls" not in stderr
    printed("fuzz", "--examples", 2, "-o", tmp_path / "unused.toml")
    assert not [*tmp_path.iterdir()]


@pytest.mark.full
def test_what_was_never_reached_can_be_written_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "unreached.txt"
    result = invoke("fuzz", "--examples", 3, "--seed", 3, "--unreached", path)
    assert result.exit_code == 0, result.output
    assert " guards both ways; " in result.stderr
    lines = path.read_text().splitlines()
    assert {line.partition(": ")[0] for line in lines} == {
        "never taken",
        "its guard always held",
        "never in succession",
    }
    refused("fuzz", "--examples", 5, "--unreached", tmp_path / "no" / "where.txt")


@pytest.mark.full
def test_the_time_can_be_limited() -> None:
    assert re.fullmatch(r"\d+ calls?, all honest\n", printed("fuzz", "--seconds", 0.2))


@pytest.mark.full
def test_a_finding_exits_with_1_and_writes_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empties_are_answers(monkeypatch)
    result = invoke("fuzz", "--seed", 5)
    assert result.exit_code == 1
    assert Script.from_toml(result.stdout) == Script([ScriptedReply()])
    first, *about = result.stdout.splitlines()
    assert first.startswith("# found with --seed 5: an empty answer is no success: ")
    assert "# backends: 2" in about
    assert "an empty answer is no success" in result.stderr
    path = tmp_path / "failing.toml"
    again = invoke("fuzz", "--seed", 5, "-o", path)
    assert again.exit_code == 1
    assert again.stdout == ""
    assert path.read_text() == result.stdout
    refused("fuzz", "--seed", 5, "-o", tmp_path / "no" / "where.toml")


@pytest.mark.full
def test_a_seed_leads_to_the_same_calls() -> None:
    def summary(seed: int) -> str:
        result = invoke("fuzz", "--examples", 8, "--seed", seed)
        # a slow machine shows its progress on the lines above
        return result.stderr.splitlines()[-1]

    one, other, third = map(summary, (8, 8, 9))
    assert one == other
    assert one.startswith("seed 8: 8 calls; ")
    assert one.partition(":")[2] != third.partition(":")[2]


def test_bad_input_exits_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[limits]\nretires = 1\n")
    for arguments in ((policy,), (tmp_path / "missing.toml",), ("--backends", 0), ("--seconds", 0)):
        refused("fuzz", *arguments)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    for name in [
        name
        for name in sys.modules
        if name.startswith(("rungwise.fsm.testing", "rungwise.adapters.testing"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    assert "rungwise.testing needs Hypothesis" in refused("fuzz", "--examples", 1)


def test_nothing_is_run_without_a_limit() -> None:
    with Fuzzer(Policy()) as fuzzer, pytest.raises(ValueError, match="number of examples"):
        fuzzer.run()


@pytest.mark.full
def test_the_command_leaves_no_folder_behind(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['fuzz', '--examples', '3']; import "
        "rungwise.adapters.cli.fuzz as c; c.fuzz()"
    )
    path = str(Path(delivery.__file__).parent.parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert "3 calls, all honest" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_the_command_is_imported_without_hypothesis() -> None:
    code = (
        "import sys, rungwise.adapters.cli.fuzz; print('hypothesis' in sys.modules, "
        "'httpx' in sys.modules)"
    )
    assert printed_by(code) == "False False\n"


# turns


def forgetful(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Conversation, "_add_answer", lambda self, result: self._show(result.text))


@pytest.mark.full
def test_honest_turns_exit_with_0(tmp_path: Path) -> None:
    policy = tmp_path / "turn.toml"
    policy.write_text("auto_continues = 2\n[budget]\nattempts = 8\n")
    result = invoke("fuzz", policy, "--turn", "--examples", 20, "--seed", 3)
    assert result.exit_code == 0, result.output
    assert result.stdout == "20 turns, all honest\n"
    assert "seed 3: 20 turns; 20 paths," in result.stderr
    assert " of 8 attempts" in result.stderr
    refused("fuzz", policy)
    assert (
        "--hostile and --over-http need a policy of calls"
        in invoke("fuzz", "--turn", "--hostile").stderr
    )


@pytest.mark.full
def test_a_policy_of_turns_in_python_needs_no_flag() -> None:
    stdout = printed(
        "fuzz", "rungwise.fsm.turn.policy:DEFAULT_TURN_POLICY", "--examples", 3, "--seed", 1
    )
    assert stdout == "3 turns, all honest\n"


@pytest.mark.full
def test_a_dishonest_turn_is_written_as_a_script_that_fails_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgetful(monkeypatch)
    result = invoke("fuzz", "--turn", "--seed", 5, "--examples", 50)
    assert result.exit_code == 1
    assert "# found with --seed 5: what was shown stands in the conversation" in result.stdout
    script = read_turn_script(result.stdout)
    assert script == TurnScript(script.replies)
    assert len(script.replies) == 1
    with pytest.raises(Dishonest, match="what was shown stands in the conversation"):
        assert_turn_honest(run_turn(TurnPolicy(), script))


@pytest.mark.full
def test_prices_reach_the_calls_and_their_certificate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Fuzzer] = []
    enter = Fuzzer.__enter__
    monkeypatch.setattr(Fuzzer, "__enter__", lambda self: seen.append(self) or enter(self))
    (tmp_path / "poor.toml").write_text(
        '[budget]\nattempts = 2\nmoney = 0.01\n[prices]\n"*" = [3, 4]\n'
    )
    for more in ((), ("--prices", "5/6")):
        printed("fuzz", tmp_path / "poor.toml", "--examples", "4", "--seed", "1", *more)
    assert [(each.prices.input, each.prices.output) for each in seen] == [(3, 4), (5, 6)]
