"""The core alone, without any I/O."""

import copy
import logging
import pickle

import attrs
import pytest

import rungwise
from rungwise import CALL, Budget, Policy, Prices, Usage, replay
from rungwise.core import Call, Failure, IllegalEvent, PlainLink, Reply, Request
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.run.result import error_of

EMPTY = Reply(stop_reason="stop", stop_raw="stop")
ANSWER = Reply(
    "An answer.",
    stop_reason="stop",
    stop_raw="stop",
    usage=Usage(3, 4),
)
TOOL_ROUND = (
    {"role": "user", "content": "look it up"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "tool_call_id": "1", "content": "found"},
)


def cut(text, **fields):
    return Reply(text, stop_reason="length", stop_raw="length", **fields)


def failed(reason="server_error", **fields):
    return Failure(reason, **fields)


def drive(
    *replies,
    messages="hi",
    policy=None,
    chain=None,
    request=None,
    **options,
):
    """Run a call over replies, the last one for ever; return it with everything it sent."""
    call = Call(request or Request(messages), policy or Policy(), chain or [PlainLink()], **options)
    sends = []
    left = list(replies)
    send = call.begin()
    while send is not None:
        sends.append(attrs.evolve(send))
        send = call.receive(left.pop(0) if len(left) > 1 else left[0])
    return call, sends


def begun():
    call = Call(Request("x"))
    call.begin()
    return call


def rungs(sends):
    return [send.rung for send in sends]


def test_does_not_repeat_whitespace_that_the_wire_left_out():
    replies = [cut("verse one\n"), Reply("\nverse two", stop_reason="stop")]
    call, _ = drive(*replies, chain=[PlainLink(prefills=True)])
    assert call.result.text == "verse one\nverse two"


def test_the_compactor_is_asked_for_through_the_send():
    call = Call(Request(["x"] and TOOL_ROUND), has_compactor=True)
    call.begin()
    send = call.receive(failed("context_overflow"))
    assert (send.rung, send.needs_compaction) == ("compact", True)
    send = call.compacted([{"role": "user", "content": "short"}])
    assert (send.messages, send.needs_compaction) == (
        ({"role": "user", "content": "short"},),
        False,
    )
    assert call.receive(ANSWER) is None
    with pytest.raises(IllegalEvent):
        call.compacted([{"role": "user", "content": "late"}])


def test_what_goes_out_is_returned_also_where_nobody_has_shortened_the_messages():
    call = Call(Request("x", max_tokens=9), has_compactor=True)
    call.begin()
    send = call.receive(failed("context_overflow"))
    assert (send.needs_compaction, send.max_tokens) == (True, None)
    sent = call.sending()
    assert (sent.rung, sent.needs_compaction, sent.max_tokens) == ("compact", False, 9)
    assert call.sending() is None


def test_a_driver_out_of_step_gets_an_error_and_nothing_changes():
    call = Call(Request("hi"))
    with pytest.raises(IllegalEvent):
        call.receive(ANSWER)
    call.begin()
    with pytest.raises(IllegalEvent):
        call.begin()
    with pytest.raises(IllegalEvent):
        _ = call.result
    assert call.receive(ANSWER) is None
    with pytest.raises(IllegalEvent):
        call.receive(ANSWER)
    assert call.result.attempts == 1


def test_the_logger_gets_a_line_a_step_without_contents(caplog):
    with caplog.at_level(logging.DEBUG, logger="rungwise"):
        call, _ = drive(EMPTY, ANSWER, messages="a private prompt")
    assert (
        len([record for record in caplog.records if record.name == "rungwise"])
        == len(call.journal.steps)
        == 4
    )
    assert "private" not in caplog.text
    assert "answer" not in caplog.text.replace("answered", "")


def test_an_interrupt_in_the_observer_on_the_last_step_leaves_the_call_ended():
    def observer(step):
        if step.event == "answered":
            raise KeyboardInterrupt

    call = Call(Request("hi"), observer=observer)
    call.begin()
    with pytest.raises(KeyboardInterrupt):
        call.receive(ANSWER)
    assert (call.cancel().outcome, call.result.text) == ("done", "An answer.")


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_results_and_errors_can_be_copied_and_pickled_without_keys(outcome):
    backend = rungwise.OpenAIChat(
        "m", api_key="sk-a-real-key-1234567890", base_url="http://localhost:1/v1"
    )
    error = failed("connection", exception=OSError("gone"))
    call, _ = drive(
        ANSWER if outcome == "done" else error, chain=[backend], policy=Policy(base_cap=99)
    )
    result = call.result
    for copied in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert copied.text == result.text
        assert copied.journal.to_json() == result.journal.to_json()
        assert replay(copied.journal).outcome == outcome
    assert b"sk-a-real" not in pickle.dumps(result)
    assert "sk-a-real" not in str(attrs.asdict(result))
    if outcome == "failed":
        again = pickle.loads(pickle.dumps(error_of(result)))
        assert (type(again), str(again)) == (rungwise.Failed, str(error_of(result)))
    assert pickle.loads(pickle.dumps(Policy(base_cap=99))) == Policy(base_cap=99)
    assert pickle.loads(pickle.dumps(Policy())).table is CALL


@pytest.mark.parametrize("sent", [False, True])
def test_a_call_with_a_budget_of_money_that_was_cancelled_early_replays(sent):
    chain = [PlainLink(prices=Prices(1.0, 2.0))]
    policy = Policy(budget=Budget(money=1.0))
    call = Call(Request("a prompt"), policy, chain)
    call.begin()
    if sent:
        call.sending(1.0)
    call.cancel(2.0)
    assert replay(rungwise.Journal.from_json(call.journal.to_json())).outcome == "cancelled"


class TestSilence:
    """What an attempt is counted as when the provider does not say."""

    policy = Policy(budget=Budget(money=1.5))
    chain = (PlainLink(prices=Prices(10.0, 10.0)),)
    request = Request("long", input_tokens=100_000)

    def test_a_prompt_costs_its_estimate_with_every_attempt(self):
        replies = [Reply("cut", interrupted=True, usage=Usage(0, 5, estimated=True))]
        call, sends = drive(
            *replies,
            policy=self.policy,
            chain=self.chain,
            request=self.request,
        )
        assert (len(sends), call.result.outcome) == (1, "over_budget")
        assert call.result.cost == pytest.approx(1.00005)
        assert call.result.usage.estimated

    @pytest.mark.parametrize("reason", ["timeout", "connection"])
    def test_an_attempt_without_a_reply_costs_its_cap(self, reason):
        policy = Policy(budget=Budget(output_tokens=250))
        call, sends = drive(failed(reason), policy=policy, request=Request("hi", max_tokens=100))
        # 8 more may be counted for each
        assert [send.max_tokens for send in sends] == [100, 100, 26]
        assert call.result.usage.output_tokens == 226
        assert call.spending.charged_tokens == sum(map(most_counted, (100, 100, 26)))

    @pytest.mark.parametrize("stop", ["stop", "content_filter"])
    def test_an_empty_reply_that_ended_by_itself_is_no_silence(self, stop):
        policy = Policy(budget=Budget(output_tokens=1000))
        call, _ = drive(
            Reply(stop_reason=stop), ANSWER, policy=policy, chain=[PlainLink("a"), PlainLink("b")]
        )
        assert (call.result.outcome, call.result.usage.output_tokens) == ("done", 4)

    def test_without_a_cap_of_the_callers_one_silence_keeps_no_more_than_half_of_the_budget(self):
        policy = Policy(budget=Budget(output_tokens=20_000))
        _, sends = drive(failed("timeout"), ANSWER, policy=policy)
        assert [send.max_tokens for send in sends] == [9_996, (19_992 - most_counted(9_996)) // 2]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Request(None), "messages"),
        (lambda: Request(5), "messages"),
        (lambda: Request("x", tools=[1]), r"tools\[0\]"),
        (lambda: Request("x", parameters=5), "parameters"),
        (lambda: Request("x", headers={"Content-Length": "3"}), "Content-Length"),
        (lambda: Call("hi"), "request must be a Request, not str"),
        (lambda: Call(Request("x"), turn={}), "turn must be a TurnContext, not dict"),
        (lambda: Call(Request("x"), {}), "policy must be a Policy, not dict"),
        (
            lambda: Call(Request("x"), chain=PlainLink()),
            "the chain must be a list of backends, not PlainLink",
        ),
        (lambda: Call(Request("x"), chain=["gpt"]), "the chain must hold backends, not str"),
        (lambda: Call(Request("x"), chain=[]), "the chain is empty"),
        (lambda: Call(Request("x")).begin("soon"), "now must be seconds"),
        (
            lambda: begun().receive({"text": "An answer."}),
            "reply must be a Reply or a Failure, not dict",
        ),
        (lambda: begun().receive(None), "reply must be a Reply or a Failure, not NoneType"),
        (lambda: begun().receive(ANSWER, "soon"), "now must be seconds"),
        (lambda: Budget(seconds=10**400), "finite"),
    ],
)
def test_names_a_value_of_the_wrong_type(build, says):
    with pytest.raises(rungwise.ConfigurationError, match=says):
        build()


def test_failures_are_counted_for_each_backend_by_itself():
    policy = Policy(switch_after={"overloaded": 2})
    busy = failed("overloaded", status=529)
    chain = [PlainLink(name) for name in ("one", "two", "three")]
    call, sends = drive(busy, busy, busy, ANSWER, policy=policy, chain=chain)
    # Two of them leave the first backend; the one of the second is only its first.
    assert rungs(sends) == ["ask", "retry", "fallback", "retry"]
    assert call.result.backend == "two"


@pytest.mark.parametrize(
    ("wait", "goes_out"), [(10.0 * (1 - 2.0**-32), True), (10.0, False), (11.0, False)]
)
def test_nothing_goes_out_at_the_last_second_or_after_it(wait, goes_out):
    policy = Policy(budget=Budget(seconds=10.0))
    call, _ = drive(failed("rate_limit", asked_wait=wait), ANSWER, policy=policy)
    assert call.result.attempts == (2 if goes_out else 1)
    late = Call(Request("hi"), policy)
    late.begin(0.0)
    assert (late.sending(wait) is not None) is goes_out
