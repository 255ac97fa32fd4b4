"""The provider fails, refuses, or answers with something that is no answer."""

from typing import Any

import anyio
import pytest

import rungwise
from rungwise import Client, OldestFirst, OpenAIChat
from rungwise.fsm.turn.compaction import STUB
from rungwise.testing import ScriptedReply
from support.sampling import sampled

ANSWER = ScriptedReply(text="In the reeds, mostly.")
EMPTY = ScriptedReply()


def down(status: int = 500, **more: Any) -> ScriptedReply:
    return ScriptedReply(status=status, **more)


def error(status: int, message: str, **more: Any) -> ScriptedReply:
    return ScriptedReply(status=status, error={"message": message, **more})


# transient failures


@pytest.mark.parametrize(
    ("draw", "waits"), [(0.0, [2, 4, 8]), (0.5, [2.5, 5, 10]), (1.0, [3, 6, 12])]
)
def test_server_errors_for_ever_fail_after_four_requests(
    run: Any, draw: float, waits: list[float]
) -> None:
    ended = run([down()], jitter=lambda: draw)
    ended.was("failed", counts=[4], waits=waits)
    assert all(body == ended.bodies[0] for body in ended.bodies)
    assert type(ended.error) is rungwise.Failed
    ((name, failure),) = ended.result.failures
    assert (name, failure.status, failure.reason) == ("primary", 500, "server_error")
    assert "500" in str(ended.error)


@pytest.mark.parametrize(
    ("failing", "requests", "waits"),
    [
        (down(), 4, [2, 4, 8]),
        (down(503), 2, [2]),
        (down(429, headers={"retry-after": "500"}), 1, []),
        *[(down(status), 1, []) for status in (400, 401, 402, 403)],
    ],
    ids=["500", "overloaded", "asks to wait for long", "400", "401", "402", "403"],
)
def test_a_failing_backend_is_left_after_so_many_requests(
    run: Any,
    failing: ScriptedReply,
    requests: int,
    waits: list[float],
) -> None:
    ended = run([failing], [ANSWER])
    ended.was("done", "In the reeds, mostly.", counts=[requests, 1], waits=waits)
    assert ended.added[-1] == []


def test_server_errors_of_both_backends_are_both_told(run: Any) -> None:
    ended = run([down(500)], [down(502)])
    ended.was("failed", counts=[4, 4])
    assert [(name, failure.status) for name, failure in ended.result.failures] == [
        ("primary", 500),
        ("second", 502),
    ]
    assert "500" in str(ended.error)
    assert "502" in str(ended.error)


def test_the_waits_do_not_grow_beyond_a_minute(run: Any) -> None:
    ended = run([down()], policy=rungwise.Policy(limits=rungwise.Limits(retries=7)))
    assert ended.waits == [2, 4, 8, 16, 32, 60, 60]


def test_an_error_and_an_empty_reply_have_series_of_their_own(run: Any) -> None:
    run([down(), EMPTY, down(), EMPTY, ANSWER]).was("done", waits=[2, 1, 4, 2])


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (error(404, "Not Found"), "not_found"),
        (ScriptedReply(status=404, body=""), "not_found"),
        (
            error(404, "The model 'model-0' does not exist", code="model_not_found"),
            "model_not_found",
        ),
    ],
)
def test_a_404_is_asked_once(run: Any, missing: ScriptedReply, reason: str) -> None:
    ended = run([missing, ANSWER])
    ended.was("failed", counts=[1])
    assert ended.result.failures[0][1].reason == reason
    assert ("check base_url and model" in str(ended.error)) is (reason == "not_found")
    run([missing], [ANSWER]).was("done", counts=[1, 1])


@pytest.mark.parametrize(("word", "requests"), [("false", 1), ("true", 4)])
def test_the_services_own_word_on_retrying_wins(run: Any, word: str, requests: int) -> None:
    run([down(400 if word == "true" else 500, headers={"x-should-retry": word})]).was(
        "failed", counts=[requests]
    )


@pytest.mark.parametrize(("most", "waits"), sampled([(1, []), (2, [2])], one_in=2))
def test_a_backend_that_never_answers_is_left_after_so_many_timeouts(
    run: Any, most: int, waits: list[int]
) -> None:
    switch_after = {} if most == 1 else {"timeout": most}  # the first is the default
    policy = rungwise.Policy(timeouts=rungwise.Timeouts(total=0.4), switch_after=switch_after)
    ended = run([ScriptedReply(hang=True)], [ANSWER], policy=policy)
    ended.was("done", counts=[most, 1], waits=waits)
    assert [failure.reason for _, failure in ended.result.failures] == ["timeout"]


# asked waits


@pytest.mark.parametrize("draw", [0.0, 1.0])
def test_an_asked_wait_of_half_a_minute_is_kept_to_the_second(run: Any, draw: float) -> None:
    ended = run([down(429, headers={"retry-after": "30"}), ANSWER], jitter=lambda: draw)
    ended.was("done", "In the reeds, mostly.", waits=[30], counts=[2])
    assert ended.steps[1].asked_wait == 30


def test_an_asked_wait_shorter_than_the_series_is_kept_as_well(run: Any) -> None:
    ended = run([down(), down(), down(429, headers={"retry-after-ms": "1500"}), ANSWER])
    assert ended.waits == [2, 4, 1.5]


def test_an_asked_wait_above_the_longest_allowed_ends_the_call_at_once(run: Any) -> None:
    ended = run([down(429, headers={"retry-after": "500"})])
    ended.was("failed", counts=[1], waits=[])
    assert "500 s" in str(ended.error)


# permanent failures


def test_a_rejected_key_fails_at_once_and_only_the_backend_is_named(run: Any) -> None:
    quoting = error(401, "Incorrect API key provided: sk-0f2b7d9e6a1c3.", code="invalid_api_key")
    ended = run([quoting])
    ended.was("failed", counts=[1], waits=[])
    assert "primary" in str(ended.error)
    assert "key" in str(ended.error)
    # that no journal and no log line holds it either is seen by `run`
    assert "sk-" not in str(ended.error)


def test_an_error_that_quotes_the_prompt_is_not_passed_on(run: Any) -> None:
    ended = run([error(400, "Cannot read 'Where do the herons of the northern lake nest?'")])
    assert ended.outcome == "failed"  # the rest is seen by `run`


# what can be repaired


def test_a_parameter_that_is_not_supported_is_left_out(run: Any) -> None:
    rejected = error(
        400, "Unsupported parameter: 'temperature' is not supported.", param="temperature"
    )
    ended = run([rejected, ANSWER], parameters={"temperature": 0.5, "top_p": 0.5})
    ended.was("done", path="repair done", waits=[])
    assert [body.get("temperature") for body in ended.bodies] == [0.5, None]
    assert [body["top_p"] for body in ended.bodies] == [0.5, 0.5]


@pytest.mark.parametrize("others", [[], [[ANSWER]]], ids=["alone", "with a fallback"])
def test_a_repair_is_made_once_and_the_fallback_gets_every_parameter_again(
    run: Any, others: list[Any]
) -> None:
    rejected = error(
        400, "Unsupported parameter: 'temperature' is not supported.", param="temperature"
    )
    ended = run([rejected], *others, parameters={"temperature": 0.5})
    ended.was("done" if others else "failed", counts=[2, *[1 for _ in others]])
    assert [body.get("temperature") for body in ended.bodies] == [0.5, None, *[0.5 for _ in others]]


def test_a_rejected_cap_is_clamped_below_what_is_available(run: Any) -> None:
    rejected = error(
        400, "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens"
    )
    run([rejected, ANSWER], max_tokens=9000).was("done", caps=[9000, 8192 - 64])


def test_a_rejected_cap_field_gives_way_to_the_other(run: Any) -> None:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    )
    ended = run([error(400, message, param="max_tokens"), ANSWER], max_tokens=900)
    ended.was("done")
    assert [body.get("max_completion_tokens") for body in ended.bodies] == [None, 900]
    assert [body.get("max_tokens") for body in ended.bodies] == [900, None]


THINKING = ScriptedReply(reasoning="Herons like reeds.")
NO_PREFILL = error(400, "This model does not support assistant message prefill.")


def test_a_rejected_prefill_teaches_every_later_call(serve: Any, backend_of: Any) -> None:
    provider = serve(THINKING, NO_PREFILL, ANSWER, THINKING, ANSWER)
    with Client(backend_of(provider, prefill="trailing")) as client:
        assert client.call("hi").text == client.call("hi").text == "In the reeds, mostly."
    roles = [request.body["messages"][-1]["role"] for request in provider.requests]
    assert roles == ["user", "assistant", "user", "user", "user"]


# a conversation that does not fit

TOO_LONG = error(
    400, "This model's maximum context length is 10 tokens.", code="context_length_exceeded"
)
LONG = [{"role": "user", "content": "a long story"}, {"role": "user", "content": "and a question"}]


def test_an_overflow_is_compacted_by_the_callers_compactor(run: Any) -> None:
    seen: list[Any] = []

    def compact(messages: Any) -> Any:
        seen.append(list(messages))
        return [{"role": "user", "content": "in short"}]

    async def later(messages: Any) -> Any:
        await anyio.sleep(0)
        return compact(messages)

    for overflow in (TOO_LONG, down(413)):
        for compactor in [compact, later] if run.mode.startswith("a") else [compact]:
            ended = run([overflow, ANSWER], messages=LONG, compactor=compactor)
            ended.was("done", path="compact done", waits=[])
            assert ended.bodies[1]["messages"] == [{"role": "user", "content": "in short"}]
            assert seen[-1] == LONG


def test_an_overflow_is_compacted_from_its_oldest_end(run: Any) -> None:
    calls = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "look_up", "arguments": "{}"},
        }
    ]
    tools = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1"},
    ]
    result = {**tools[1], "content": "two nests " * 200}
    talk = [*LONG[:1], tools[0], result, {"role": "assistant", "content": "Two."}, *LONG[1:]]
    ended = run([TOO_LONG, TOO_LONG, ANSWER], messages=talk, compactor=OldestFirst(keep=1))
    ended.was("done", path="compact compact done")
    assert ended.bodies[1]["messages"] == [*talk[:2], {**result, "content": STUB}, *talk[3:]]
    assert ended.bodies[2]["messages"] == [talk[0], *talk[3:]]


@pytest.mark.parametrize("run", ["call", "stream"], indirect=True)
def test_a_compactor_that_is_a_coroutine_function_is_refused_before_anything_is_sent(
    run: Any, stages: Any
) -> None:
    async def compact(messages: Any) -> Any:
        return messages

    with pytest.raises(rungwise.ConfigurationError, match="coroutine"):
        run([TOO_LONG, ANSWER], compactor=compact)
    assert not stages[0].requests


def test_an_overflow_for_ever_is_compacted_three_times(run: Any) -> None:
    def compact(messages: Any) -> Any:
        return [{"role": "user", "content": messages[-1]["content"][:-1]}]

    run([TOO_LONG], messages=LONG, compactor=compact).was("failed", counts=[4])


@pytest.mark.parametrize(
    "compact",
    [
        lambda messages: [*messages],
        lambda messages: [dict(message) for message in messages],
        lambda messages: [{"role": "system", "content": "in short: " * 50}, *messages],
    ],
    ids=["nothing left out", "a copy", "more than before"],
)
def test_what_a_compactor_did_not_shorten_is_not_sent_again(run: Any, compact: Any) -> None:
    ended = run([TOO_LONG], [ANSWER], messages=LONG, compactor=compact)
    assert ended.counts == [1, 1]
    last = run([TOO_LONG], messages=LONG, compactor=compact)
    last.was("failed", counts=[1])
    assert "left nothing out" in last.result.cause


def test_once_a_compactor_leaves_nothing_more_out_the_next_backend_is_asked(run: Any) -> None:
    def compact(messages: Any) -> Any:
        return list(messages)[-1:]

    assert run([TOO_LONG], [ANSWER], messages=LONG, compactor=compact).counts == [2, 1]


def test_an_overflow_without_a_compactor_goes_to_the_fallback_or_fails(run: Any) -> None:
    assert run([TOO_LONG], [ANSWER]).counts == [1, 1]
    run([TOO_LONG]).was("failed", counts=[1])


# bodies that are no answer

ODD = ScriptedReply(text="", finish="banana")
SHAPELESS = pytest.mark.parametrize(
    "shapeless",
    [
        ScriptedReply(body='{"id": "x", "object": "chat.completion", "choices": []}'),
        ScriptedReply(body="<html><body>502 Bad Gateway</body></html>"),
        ScriptedReply(body='{"id": "x", "choices": [{"index": 0, "message": {"role": "assist'),
        ScriptedReply(body='["In the reeds."]'),
        ScriptedReply(body='{"choices": [{"index": 0, "message": null}]}'),
        ScriptedReply(body="data: [DONE]\n\n"),
        ODD,
    ],
    ids=[
        "no choices",
        "html",
        "half a document",
        "a list",
        "no message",
        "no chunk",
        "an unknown finish and no text",
    ],
)


@SHAPELESS
def test_a_200_of_no_usable_shape_switches_at_once(run: Any, shapeless: ScriptedReply) -> None:
    ended = run([shapeless], [ANSWER])
    ended.was(
        "done",
        "In the reeds, mostly.",
        counts=[1, 1],
        added=[[], []],
        waits=[],
    )
    assert ended.steps[1].event == "malformed"


@SHAPELESS
@pytest.mark.parametrize("answers", [True, False], ids=["then an answer", "for ever"])
def test_a_200_of_no_usable_shape_is_retried_where_nobody_else_is_there(
    run: Any, shapeless: ScriptedReply, answers: bool
) -> None:
    ended = run([shapeless, ANSWER] if answers else [shapeless])
    assert (ended.outcome, ended.text) == (
        ("done", "In the reeds, mostly.") if answers else ("failed", "")
    )
    ended.was(counts=[2 if answers else 4], waits=[1] if answers else [1, 2, 4])
    assert all(body == ended.bodies[0] for body in ended.bodies)
    stops = [step.stop_raw for step in ended.steps if step.event == "malformed"]
    assert stops == [shapeless.finish if shapeless is ODD else None] * len(
        ended.waits if answers else ended.requests
    )


def test_an_empty_200_is_no_success(run: Any) -> None:
    run([ScriptedReply(body="")]).was("failed", counts=[4])


# refusals

REFUSALS = pytest.mark.parametrize(
    "refusal",
    [
        ScriptedReply(text="Herons are", finish="content_filter"),
        ScriptedReply(finish="content_filter"),
        ScriptedReply(refusal="I cannot talk about herons."),
        ScriptedReply(text="Well, ", refusal="I cannot talk about herons."),
        ScriptedReply(tool_calls=[{"name": "look", "arguments": "{}"}], finish="content_filter"),
        error(400, "The response was filtered.", code="content_filter"),
        ScriptedReply(
            text="Well, ", error_event={"code": "content_filter", "message": "It was filtered."}
        ),
    ],
    ids=[
        "after text",
        "at once",
        "refusal",
        "refusal after text",
        "after a tool call",
        "status 400",
        "an error in the stream",
    ],
)


@REFUSALS
@pytest.mark.parametrize("others", [[], [[ANSWER]]], ids=["alone", "with a fallback"])
def test_a_refusal_is_never_sent_to_the_same_model_again(
    run: Any, refusal: ScriptedReply, others: list[Any]
) -> None:
    ended = run([refusal, ANSWER], *others)
    assert (ended.outcome, ended.text) == (
        ("done", "In the reeds, mostly.") if others else ("refused", "")
    )
    ended.was(
        counts=[1, *[1 for _ in others]], added=[[], *[[] for _ in others]], waits=[], tool_calls=()
    )
    assert others or type(ended.error) is rungwise.Refused


# bugs of our own and of the caller


class Broken(OpenAIChat):
    def decode(self, *args: Any) -> Any:
        raise TypeError("a bug")

    def decoder(self, *args: Any) -> Any:
        raise TypeError("a bug")


def test_a_type_error_in_a_backend_is_raised_at_once(run: Any, stages: Any) -> None:
    broken = Broken("model", base_url=stages[0].provider.base_url, api_key="sk-5d1e8a7c6b3f2904")
    with pytest.raises(TypeError, match="a bug") as raised:
        run([ANSWER], [ANSWER], chain=lambda live: [broken, live[1]])
    assert len(stages[0].requests) == 1
    assert not stages[1].requests
    assert raised.value.result.outcome == "cancelled"


def test_a_type_error_in_the_callers_compactor_is_raised_at_once(run: Any, stages: Any) -> None:
    def compact(messages: Any) -> Any:
        return messages + 1

    with pytest.raises(TypeError):
        run([TOO_LONG], [ANSWER], compactor=compact)
    assert [len(stage.requests) for stage in stages[:2]] == [1, 0]
