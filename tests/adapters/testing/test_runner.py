"""What runs the cases of a fuzz run keeps them apart."""

import threading

import attrs
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import Budget, Policy, Timeouts
from rungwise.adapters.testing.case import Case
from rungwise.adapters.testing.fuzzing import Fuzzer
from rungwise.adapters.testing.runner import CaseRunner, MemoryProvider
from rungwise.adapters.testing.scripts import scripted_replies
from rungwise.adapters.testing.squeeze import Squeeze
from rungwise.core import Request
from rungwise.fsm.call.budget.metering import least_tokens
from rungwise.fsm.testing.tokenizers import TOKENIZERS
from rungwise.testing import Script, ScriptedReply

LOOKS = '{"path": "x", "city": "x", "n": "x"}'
CALL = {"id": "call_1", "name": "look_up", "arguments": LOOKS}
SEEN = Case(
    Script([ScriptedReply(tool_calls=[CALL], cut_after=1217)]),
    is_fair=True,
)


def test_a_request_that_an_earlier_case_left_behind_counts_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[httpx.Request] = []
    next_began = threading.Event()
    late_arrived = threading.Event()
    handle = MemoryProvider.respond

    def handle_late(self: MemoryProvider, request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) > 1:
            next_began.set()
            late_arrived.wait(10)
            return handle(self, request)
        next_began.wait(10)  # the request of the first case arrives when the next case has begun
        try:
            return handle(self, request)
        finally:
            late_arrived.set()

    monkeypatch.setattr(MemoryProvider, "respond", handle_late)
    policy = Policy(budget=Budget(attempts=1), timeouts=Timeouts(total=0.5))
    with CaseRunner(policy, 1, over_http=False) as runner:
        late = runner.run(Case(Script([ScriptedReply(text="Late.")])), [])
        assert late.outcome == "over_budget"
        assert late.attempts == 1
        assert runner.received == []
        result = runner.run(Case(Script([ScriptedReply(text="In the reeds.")])), [])
        assert result.text == "In the reeds."
        assert result.attempts == 1
        assert len(runner.received) == 1


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(cap=st.integers(1, 12), reply=scripted_replies(hangs=False, delays=False))
def test_a_fair_provider_writes_no_more_than_its_cap(
    tokenizer: str,
    cap: int,
    reply: ScriptedReply,
) -> None:
    case = Case(
        Script([reply]),
        request=Request([{"role": "user", "content": "Where?"}], max_tokens=cap),
        is_fair=True,
        tokenizer=tokenizer,
    )
    with CaseRunner(Policy(budget=Budget(attempts=2)), 1, over_http=False) as runner:
        runner.run(case, [])
        for request, said in zip(runner.received, runner.replies, strict=True):
            if said.status != 200 or said.error or said.error_event or said.body:
                continue
            texts = _texts_of(said)
            sent = request.body.get("max_completion_tokens") or request.body["max_tokens"]
            assert least_tokens(*texts) <= sent
            assert sum(map(TOKENIZERS[tokenizer], texts)) <= sent
            if texts != _texts_of(reply):
                assert said.finish == "length"


def _texts_of(reply: ScriptedReply) -> list[str]:
    calls = [text for call in reply.tool_calls for text in (call.name, call.arguments)]
    return [reply.reasoning, reply.text, reply.refusal, *calls]


@pytest.mark.parametrize("money", [step * 5e-6 for step in range(8, 40)])
def test_a_cut_tool_call_costs_no_more_than_was_left(money: float) -> None:
    with Fuzzer(seed=1) as fuzzer:
        fuzzer.check(attrs.evolve(SEEN, squeeze=Squeeze(money=money, is_certified=False)))
