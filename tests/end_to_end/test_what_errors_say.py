"""What a provider says in an error leads to the right rung: a compaction, a wait, a switch, or the
same again.
"""

import json
import time
from email.utils import formatdate
from itertools import product
from typing import Any

import pytest

from rungwise import Client, OpenAIChat
from rungwise.adapters.http.exchange import CLOCK_SKEW
from rungwise.testing import Clocks, ScriptedReply
from support.plain import user
from support.raw_server import Peer, RawServer, answer

ANSWER = ScriptedReply("In the reeds, mostly.")
LONG = [user("a long story"), user("and a question")]


def error(status: int, message: str, **more: Any) -> ScriptedReply:
    return ScriptedReply(status=status, error={"message": message, **more})


def shorten(messages: Any) -> Any:
    return list(messages)[-1:]


LLAMA = (
    '{"error":{"code":500,"message":"the request exceeds the available context size. try '
    "increasing the context size"
    ' or enable context shift","type":"server_error"}}'
)


CODE = '{"error": {"message": "No.", "code": "context_length_exceeded"}}'
FRAMED = [
    f": PROCESSING\n\n{CODE}",
    f": PROCESSING\n: PROCESSING\n\n{json.dumps(json.loads(CODE), indent=2)}\n",
    f"error: {CODE}\n\n",
    f"event: error\ndata: {CODE}\n\n",
    f"event: error\nid: 1\ndata: {CODE}\n\ndata: [DONE]\n\n",
]
TOO_LONG = [
    ScriptedReply(status=500, body=LLAMA),
    ScriptedReply(
        status=500, body='{"error":{"code":500,"message":"Context size has been exceeded."}}'
    ),
    ScriptedReply(body='{"base_resp":{"status_code":1039,"status_msg":"token limit"}}'),
    error(400, "Range of input length should be [1, 30720]"),
    error(400, "max_tokens must be at least 1, got -7584."),
    error(
        400,
        "Total tokens of image and text exceed max message tokens.",
        type="BadRequest",
        code="InvalidParameter",
    ),
    error(400, "The message was not sent.", code="prompt_too_long"),
    *(
        error(400, f"Invalid '{place}': string too long. Expected a string with maximum length 9.")
        for place in ("messages[1].content", "messages[0].content[2].text", "input")
    ),
    *(
        ScriptedReply(body=f"{line}\n\n", headers={"content-type": "text/event-stream"})
        for line in (
            *(f"{start}error: {LLAMA}" for start in ("", "\ufeff", ": ping\n\n")),
            f"data: {LLAMA}",
        )
    ),
    *(
        ScriptedReply(status=status, body=body.replace("\n", end))
        for body, status, end in product(FRAMED, (200, 400), ("\n", "\r\n", "\r"))
    ),
]


@pytest.mark.parametrize("too_long", TOO_LONG)
def test_an_overflow_runs_the_compactor_however_it_is_framed(
    run: Any, too_long: ScriptedReply
) -> None:
    ended = run([too_long, ANSWER], messages=LONG, compactor=shorten)
    ended.was("done", path="compact done")
    assert ended.bodies[1]["messages"] == LONG[-1:]


@pytest.mark.parametrize(
    "place", ["messages[1].tool_calls[0].id", "messages[0].name", "input[2].call_id"]
)
def test_an_id_that_is_too_long_is_no_overflow(run: Any, place: str) -> None:
    message = (
        f"Invalid '{place}': string too long. Expected a string with maximum length 40, "
        f"but got one of 83."
    )
    ended = run(
        [error(400, message, code="string_above_max_length")], messages=LONG, compactor=shorten
    )
    ended.was("failed", counts=[1])
    assert ended.bodies[0]["messages"] == LONG


@pytest.mark.parametrize(
    "gone",
    [
        error(404, "This model version has reached the end of its life."),
        error(404, "The API deployment does not exist.", code="DeploymentNotFound"),
    ],
)
def test_a_model_that_is_no_longer_there_is_asked_once(run: Any, gone: ScriptedReply) -> None:
    ended = run([gone], [ANSWER])
    ended.was("done", counts=[1, 1])
    assert ended.result.failures[0][1].reason == "model_not_found"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "start", [": PROCESSING\n\n", "\n\n: PROCESSING\n", "  : PROCESSING\n\n\n", "\ufeff: x\n"]
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_whole_reply_behind_a_comment_is_read(
    run: Any,
    start: str,
    indent: int | None,
    end: str,
) -> None:
    choice = {
        "index": 0,
        "message": {"content": "In the reeds."},
        "finish_reason": "stop",
    }
    body = start + json.dumps({"choices": [choice]}, indent=indent)
    run([ScriptedReply(body=body.replace("\n", end))]).was("done", "In the reeds.", counts=[1])


def test_a_first_line_that_only_begins_like_an_error_is_no_reply(run: Any) -> None:
    ended = run([ScriptedReply(body="error: something went wrong\n"), ANSWER])
    assert (ended.outcome, ended.steps[1].event) == ("done", "malformed")


@pytest.mark.parametrize(
    "throttle",
    [
        error(400, "ThrottlingException: Too many tokens, please wait before trying again."),
        ScriptedReply(
            body='{"error":{"message":"Too many tokens, please wait before trying again."}}'
        ),
        ScriptedReply(
            body='data: {"error":{"message":"ThrottlingException: Too many tokens"}}\n\n'
        ),
        ScriptedReply(body='{"base_resp":{"status_code":1039,"status_msg":"TPM limit"}}'),
        error(500, "ThrottlingException: Too many tokens, please wait before trying again."),
        error(400, "Too many tokens. Please try again."),
        error(413, "Too many requests", code="too_many_requests"),
        ScriptedReply(body='data: {"error":{"message":"Too many tokens, slow down"}}\n\n'),
        ScriptedReply(body='{"error":{"message":"Rate limit exceeded","type":null,"code":"1300"}}'),
    ],
)
def test_a_throttle_never_runs_the_compactor(run: Any, throttle: ScriptedReply) -> None:
    ended = run([throttle, ANSWER], messages=LONG, compactor=shorten)
    ended.was("done", path="retry done")
    assert ended.bodies[0] == ended.bodies[1]


def test_mistrals_rate_limit_is_waited_out(run: Any) -> None:
    body = (
        '{"object":"error","message":"Rate limit '
        'exceeded","type":"rate_limited","param":null,"code":"1300"}'
    )
    run([ScriptedReply(status=429, body=body), ANSWER]).was("done", path="retry done", waits=[2])


@pytest.mark.parametrize(
    "refusal",
    [
        error(500, "input new_sensitive (1026)", type="api_error"),
        error(422, "output new_sensitive (1027)"),
        ScriptedReply(
            status=400,
            body='event: error\ndata: {"error":{"message":"x","code":"content_filter"}}\n\n',
        ),
        ScriptedReply(body='{"base_resp":{"status_code":1026,"status_msg":"input new_sensitive"}}'),
    ],
)
def test_a_refusal_in_any_words_is_never_asked_again(run: Any, refusal: ScriptedReply) -> None:
    run([refusal]).was("refused", counts=[1])
    assert run([refusal], [ANSWER]).counts == [1, 1]


def test_the_days_free_requests_are_not_waited_for(run: Any) -> None:
    spent = ScriptedReply(
        status=429,
        body='{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 '
        'credits","code":429,"metadata":'
        '{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0",'
        '"X-RateLimit-Reset":"1924992000000"}}}}',
    )
    ended = run([spent])
    ended.was("failed", counts=[1], waits=[])
    ((_, failure),) = ended.result.failures
    assert failure.reason == "billing"
    assert failure.asked_wait is not None


def test_the_minutes_free_requests_are_waited_for(run: Any) -> None:
    spent = ScriptedReply(
        status=429,
        headers={"date": "Fri, 20 Nov 2026 10:00:00 GMT"},
        body='{"error":{"message":"Rate limit exceeded: free-models-per-min. '
        '","code":429,"metadata":'
        '{"headers":{"X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0",'
        '"X-RateLimit-Reset":"1795168830000"}}}}',
    )
    run([spent, ANSWER]).was("done", waits=[30])


SLIP = error(
    400,
    "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more "
    "details.",
    type="invalid_request_error",
    code="tool_use_failed",
)


def test_a_slip_of_the_model_is_asked_for_again_and_not_for_ever(run: Any) -> None:
    ended = run([SLIP, SLIP, ANSWER])
    ended.was("done", path="retry retry done")
    assert ended.bodies[0] == ended.bodies[1] == ended.bodies[2]
    assert len(run([SLIP]).requests) == 4
    assert run([SLIP], [ANSWER]).counts == [4, 1]


# a date to wait for, from a server that does not say what time it is


@pytest.mark.parametrize("date", [None, "", "garbage"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_date_counts_from_our_own_clock_where_the_server_gives_none(
    date: str | None, times: int
) -> None:
    waits: list[float] = []
    fields = [f"retry-after: {formatdate(time.time() + 60, usegmt=True)}"] * times
    fields += [] if date is None else [f"date: {date}"]
    busy = "\r\n".join(["HTTP/1.1 503 Busy", *fields, "content-length: 2", "", "{}"]).encode()

    def play(peer: Peer) -> None:
        for number, _ in enumerate(peer.requests()):
            peer.send(answer("hi") if number else busy)

    with (
        RawServer(play) as server,
        Client(
            OpenAIChat("model", base_url=server.base_url), testing=Clocks(sleep=waits.append)
        ) as client,
    ):
        assert client.call("hi").text == "hi"
    (wait,) = waits
    assert 60 < wait <= 61 + CLOCK_SKEW
