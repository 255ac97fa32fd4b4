"""The clocks of an attempt run on content: drips on both sides of each limit, whoever made the
connection.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest
from attrs import define

import rungwise
from rungwise import Budget, Limits, Policy, Reserve, Timeouts, Waits
from rungwise.fsm.call.policy import DefaultSeconds
from support.modes import follow, waits_into
from support.raw_server import (
    STREAM_HEAD,
    Peer,
    RawServer,
    answer,
    answering,
    chunk,
    event,
    stream_of,
)
from support.sampling import sampled
from support.waiting import until
from support.ways import ALL, OWN, PASSED_IN, Asked, aask, aclose, ask, backend, client_for

LIMIT = 0.4
OFTEN, LATE = 0.15, 0.8  # pauses on both sides of it
SLACK = 5.0  # for a busy machine; a broken clock costs more, or never ends

WAYS = [OWN[0], *[pytest.param(way, marks=pytest.mark.full) for way in (*OWN[1:], *PASSED_IN)]]
EVERY_WAY = pytest.mark.parametrize("way", WAYS)
OWN_WAYS = pytest.mark.parametrize(
    "way", [*OWN, *[pytest.param(way, marks=pytest.mark.full) for way in PASSED_IN]]
)
BOTH = pytest.mark.parametrize("streams", [True, False], ids=["stream", "call"])
SOME_WAYS = pytest.mark.parametrize(
    ("way", "streams"),
    [("own sync", True), ("own async", False)]
    + [
        pytest.param(way, streams, marks=pytest.mark.full)
        for way in ALL
        for streams in (True, False)
        if (way, streams) not in [("own sync", True), ("own async", False)]
    ],
)

CLOCKS = Timeouts(first_token=LIMIT, stall=LIMIT)
ONE_MORE = Limits(retries=1, continuations=1, reasks=0, fallbacks=1)
POLICY = Policy(timeouts=CLOCKS, limits=ONE_MORE)
AT_ONCE = Waits(retry_base=0.001, retry_cap=0.001, overload_cap=0.001)

Play = Callable[[Peer], Any]
END = b"data: [DONE]\n\n"
FIRST = "Herons nest in reeds, "
SECOND = "and they nest in trees."


def arguments(text: str) -> bytes:
    """Return an event with a piece of a tool call."""
    return event(
        tool_calls=[
            {
                "index": 0,
                "id": "1",
                "function": {"name": "look", "arguments": text},
            }
        ]
    )


CONTENT: dict[str, list[bytes]] = {
    "text": [event("Herons "), event("nest "), event("in "), event("reeds, "), event("mostly.")],
    "reasoning": [*[event(reasoning_content="Hm. ")] * 4, event("In the reeds.")],
    "tool arguments": [arguments(text) for text in ('{"city"', ": ", '"Mal', 'mö"', "}")],
    "refusal": [event(refusal=text) for text in ("I ", "can", "not ", "say ", "that.")],
}
NOISE = {
    "comments": b": still here\n\n",
    "pings": b"event: ping\ndata: {}\n\n",
    "empty deltas": event(""),
    "deltas of nothing": event(),
    "roles": event(role="assistant", content=""),
    "usage": b'data: {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}\n\n',
    "names of nothing": event(tool_calls=[{"index": 0, "function": {"arguments": ""}}]),
    "blank lines": b"\n\n\n",
}


def begin(peer: Peer) -> None:
    """Read a request and begin a stream."""
    peer.request()
    peer.send(STREAM_HEAD + b"\r\n")


def drip(peer: Peer, pieces: Iterable[bytes], every: float) -> None:
    """Send one piece after another, each behind a pause."""
    for piece in pieces:
        if peer.server.closing.wait(every):
            return
        peer.send(chunk(piece))


def whole_stream(*pieces: bytes, every: float) -> Play:
    """Send a whole stream, each piece behind a pause."""

    def play(peer: Peer) -> None:
        begin(peer)
        drip(peer, pieces, every)
        peer.send(b"0\r\n\r\n")

    return play


def hangs_after(*pieces: bytes, noise: bytes = b"") -> Play:
    """Send pieces of a stream often enough, then nothing more but noise."""

    def play(peer: Peer) -> None:
        begin(peer)
        drip(peer, pieces, OFTEN)
        if noise:
            peer.drip(chunk(noise), every=0.05)
        peer.wait_left()

    return play


def silent(peer: Peer) -> None:
    """Answer nothing."""
    peer.request()
    peer.wait_left()


@define
class Made(Asked):
    """A finished call, with what it waited between its attempts, and what each server was sent."""

    waits: list[float]
    bodies: list[list[Any]]

    @property
    def came(self) -> list[str]:
        """What came back, attempt by attempt."""
        return [
            step.event
            for step in self.result.journal.steps
            if step.event not in ("sent", "skipped")
        ]

    @property
    def reason(self) -> str | None:
        """Why the first attempt failed."""
        return self.result.journal.steps[1].reason

    @property
    def counts(self) -> list[int]:
        """How often each server was asked."""
        return list(map(len, self.bodies))


def make(
    way: str,
    *plays: list[Play],
    streams: bool = True,
    policy: Policy = POLICY,
    first: Any = None,
    **options: Any,
) -> Made:
    """Make a call that waits for nothing between its attempts to a chain of servers, one for each
    list of plays.

    Arguments:
        plays: what a server does on each connection; the last one is repeated.
        first: options of the first backend.
        options: for the client.
    """
    waits: list[float] = []
    with ExitStack() as stack:
        servers = [stack.enter_context(RawServer(one_by_one(each))) for each in plays]
        own = [first or {}, {"name": "second", "model": "n"}]
        chain = [
            backend(server.base_url, **each) for server, each in zip(servers, own, strict=False)
        ]
        client = client_for(way, chain, policy=policy, **{**waits_into(waits), **options})
        asked = ask(way, client, streams=streams)
        *before, last = servers
        # nothing is left waiting there
        until(lambda: last.open_now <= 1 and not any(each.open_now for each in before))
    return Made(
        asked.result, asked.seconds, asked.events, waits, [server.bodies for server in servers]
    )


def one_by_one(plays: list[Play]) -> Play:
    return lambda peer: plays[min(peer.number, len(plays)) - 1](peer)


def goes_on(peer: Peer) -> None:
    """Answer with the second half."""
    answering(stream_of(SECOND))(peer)


# content on both sides of the limit


@EVERY_WAY
@BOTH
@pytest.mark.parametrize("kind", sampled(CONTENT, one_in=2))
def test_a_stream_may_take_as_long_as_it_likes_while_content_comes(
    way: str, streams: bool, kind: str
) -> None:
    end = event(finish="tool_calls" if kind == "tool arguments" else "stop") + END
    play = whole_stream(*CONTENT[kind], end, every=OFTEN)  # twice the limit, all in all
    made = make(way, [play], streams=streams)
    assert (made.outcome, made.counts) == ("refused" if kind == "refusal" else "done", [1])
    assert len(CONTENT[kind]) * OFTEN < made.seconds < SLACK


@EVERY_WAY
@BOTH
@pytest.mark.parametrize("kind", sampled(["text", "reasoning", "tool arguments"], one_in=2))
def test_a_stream_that_pauses_for_too_long_between_two_pieces_has_fallen_silent(
    way: str, streams: bool, kind: str
) -> None:
    pieces = CONTENT[kind][:3]
    made = make(way, [hangs_after(*pieces), goes_on], streams=streams)
    assert (made.came, made.reason, made.outcome) == (
        ["fell_silent", "answered"],
        "silence",
        "done",
    )
    assert len(pieces) * OFTEN + LIMIT <= made.seconds < SLACK
    [[first, second]] = made.bodies
    if kind == "text":
        assert made.text == "Herons nest in " + SECOND
        assert second["messages"][1] == {"role": "assistant", "content": "Herons nest in "}
        assert made.waits == []
    else:
        assert (made.text, second, made.waits) == (SECOND, first, [2])
    if streams:
        assert follow(made.events) == made.text


@pytest.mark.full
@EVERY_WAY
@BOTH
def test_the_first_content_may_be_late_by_less_than_its_limit_alone(
    way: str, streams: bool
) -> None:
    policy = Policy(timeouts=Timeouts(first_token=1.2, stall=LIMIT), limits=ONE_MORE)
    pieces = [NOISE["comments"], event(FIRST), event(SECOND)]

    def play(peer: Peer) -> None:
        begin(peer)
        drip(peer, pieces, OFTEN if peer.number > 1 else LATE)
        peer.send(chunk(event(finish="stop")) + chunk(END) + b"0\r\n\r\n")

    # the first content comes after 1.6 s, then after 0.3 s
    made = make(way, [play], streams=streams, policy=policy)
    assert (made.came, made.text) == (["fell_silent", "answered"], FIRST + SECOND)
    assert 1.2 <= made.seconds < 1.2 + SLACK


# what is no content


@SOME_WAYS
@pytest.mark.parametrize("kind", sampled(NOISE, one_in=3))
@pytest.mark.parametrize("said", [[], [FIRST]], ids=["first token", "stall"])
def test_what_is_no_content_does_not_put_off_a_clock(
    way: str,
    streams: bool,
    kind: str,
    said: list[str],
) -> None:
    made = make(way, [hangs_after(*map(event, said), noise=NOISE[kind]), goes_on], streams=streams)
    assert (made.came, made.text) == (["fell_silent", "answered"], "".join([*said, SECOND]))
    assert len(said) * OFTEN + LIMIT <= made.seconds < SLACK
    assert (made.bodies[0][0] == made.bodies[0][1]) is (not said)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json",
        b"HTTP/1.1 201 OK\r\ncontent-type: text/event-stream",
    ],
)
@pytest.mark.parametrize("said", [[], [event(FIRST)]], ids=["pings", "text"])
def test_a_stream_that_is_called_something_else_has_the_same_clocks(
    head: bytes, said: list[bytes]
) -> None:
    def play(peer: Peer) -> None:
        peer.request()
        peer.send(head + b"\r\ntransfer-encoding: chunked\r\n\r\n" + b"".join(map(chunk, said)))
        peer.drip(chunk(NOISE["comments"]), every=OFTEN)

    made = make("own sync", [play, goes_on])
    assert (made.came, made.text) == (["fell_silent", "answered"], (FIRST if said else "") + SECOND)
    assert LIMIT <= made.seconds < SLACK


def test_text_and_arguments_in_one_piece_are_one_piece(way: str) -> None:
    both = event("Let me look. ") + arguments('{"city": ')
    made = make(way, [hangs_after(both, noise=NOISE["comments"]), goes_on])
    assert made.came[0] == "fell_silent"
    assert OFTEN + LIMIT <= made.seconds < OFTEN + 2 * LIMIT + 0.3


@EVERY_WAY
def test_a_flood_of_comments_does_not_put_off_a_clock(way: str) -> None:
    def flood(peer: Peer) -> None:
        begin(peer)
        peer.flood(chunk(NOISE["comments"]))

    made = make(way, [flood, goes_on])
    assert (made.came, made.text) == (["fell_silent", "answered"], SECOND)
    assert LIMIT <= made.seconds < SLACK


# where the clocks of silence have nothing to say


@pytest.mark.full
@EVERY_WAY
@pytest.mark.parametrize("why", sampled(["the call", "the backend"], one_in=2))
def test_a_reply_that_is_not_streamed_is_waited_for(way: str, why: str) -> None:
    whole = answer("In the reeds.")

    def play(peer: Peer) -> None:
        peer.request()
        for part in (whole[:50], whole[50:-20], whole[-20:]):
            peer.server.closing.wait(LATE)
            peer.send(part)

    first = {"streams": why != "the backend"}
    streams = why == "the backend"
    made = make(way, [play], first=first, streams=streams, stream_calls=why != "the call")
    assert (made.outcome, made.text, made.counts) == ("done", "In the reeds.", [1])
    assert not streams or follow(made.events) == "In the reeds."
    assert made.seconds > 3 * LATE
    [[body]] = made.bodies
    assert body["stream"] is False
    assert "stream_options" not in body


@pytest.mark.full
@EVERY_WAY
@BOTH
def test_a_whole_body_in_place_of_a_stream_is_waited_for(way: str, streams: bool) -> None:
    head, _, body = answer("In the reeds.").partition(b"\r\n\r\n")

    def play(peer: Peer) -> None:
        peer.request()
        peer.send(head + b"\r\n\r\n")
        for part in (body[:-5], body[-5:]):
            peer.server.closing.wait(LATE)
            peer.send(part)

    made = make(way, [play], streams=streams)
    assert [body["stream"] for body in made.bodies[0]] == [True]
    assert (made.outcome, made.text) == ("done", "In the reeds.")


@EVERY_WAY
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("status", "reason", "waited"),
    [(b"500 Broken", "server_error", 2), (b"429 Busy", "rate_limit", 7)],
)
def test_an_error_whose_body_does_not_end_is_what_its_status_says(
    way: str,
    streams: bool,
    status: bytes,
    reason: str,
    waited: float,
) -> None:
    def endless(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 " + status + b"\r\nretry-after: %d\r\n" % waited)
        peer.send(b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        peer.drip(chunk(b" "), every=0.05)

    made = make(
        way,
        [endless, goes_on if streams else answering(answer(SECOND))],
        streams=streams,
        stream_calls=False,
    )
    assert (made.outcome, made.text, made.waits, made.reason) == ("done", SECOND, [waited], reason)
    assert LIMIT <= made.seconds < SLACK


@OWN_WAYS
def test_the_time_that_a_consumer_takes_is_no_silence(way: str) -> None:
    taken = threading.Event()

    def play(peer: Peer) -> None:
        begin(peer)
        peer.send(chunk(event(FIRST)))
        peer.server.closing.wait(LATE)
        taken.set()
        drip(peer, [event(SECOND), event(finish="stop"), END], OFTEN)
        peer.send(b"0\r\n\r\n")

    class Slow(list[Any]):
        def append(self, each: Any) -> None:
            super().append(each)
            if isinstance(each, rungwise.Text):
                taken.wait(5)  # nothing else runs in this loop

    with RawServer(play) as server:
        client = client_for(way, backend(server.base_url), policy=POLICY)
        asked = ask(way, client, events=Slow())
    assert (asked.outcome, asked.text, len(server.requests)) == ("done", FIRST + SECOND, 1)


def test_what_has_come_while_other_tasks_kept_the_loop_is_no_silence() -> None:
    asked_for = threading.Event()
    sent = threading.Event()

    def play(peer: Peer) -> None:
        begin(peer)
        asked_for.set()
        drip(peer, [event(FIRST) + event(finish="stop") + END], LATE)
        peer.send(b"0\r\n\r\n")
        sent.set()

    async def main(server: RawServer) -> Asked:
        client = client_for("own async", backend(server.base_url), policy=POLICY)
        calling = asyncio.create_task(aask(client))
        await asyncio.to_thread(asked_for.wait)
        sent.wait(5)  # nothing else runs in this loop
        asked = await calling
        await aclose(client)
        return asked

    with RawServer(play) as server:
        asked = asyncio.run(main(server))
    assert (asked.outcome, asked.text, len(server.requests)) == ("done", FIRST, 1)


# chains


@EVERY_WAY
@BOTH
@pytest.mark.parametrize("said", [[FIRST], []], ids=["text", "nothing"])
def test_the_next_backend_goes_on_from_the_text_of_one_that_fell_silent(
    way: str, streams: bool, said: list[str]
) -> None:
    made = make(
        way, [hangs_after(*map(event, said)) if said else silent], [goes_on], streams=streams
    )
    text = "".join([*said, SECOND])
    assert (made.outcome, made.text, made.result.backend) == ("done", text, "second")
    [[one], [other]] = made.bodies
    assert other["messages"][1:2] == [{"role": "assistant", "content": each} for each in said]
    assert said or other["messages"] == one["messages"]
    assert [step.target for step in made.result.journal.steps if step.event == "fell_silent"] == [
        "fallback"
    ]
    assert made.waits == []
    assert LIMIT <= made.seconds < SLACK
    if streams:
        assert follow(made.events) == text


def test_a_policy_may_ask_the_silent_one_again_first(way: str) -> None:
    made = make(
        way, [silent], [goes_on], policy=Policy(timeouts=CLOCKS, switch_after={"silence": 2})
    )
    assert (made.outcome, made.counts, made.waits) == ("done", [2, 1], [2])


# the last backend


@pytest.mark.full
@EVERY_WAY
def test_the_last_backend_is_asked_again_and_then_waited_for(way: str) -> None:
    limits = Limits(retries=1, continuations=0)
    policy = Policy(timeouts=Timeouts(first_token=LIMIT, stall=LIMIT, total=1.5), limits=limits)
    late = whole_stream(event(SECOND), event(finish="stop"), END, every=LATE)
    made = make(way, [silent, late], policy=policy, streams=False)
    assert (made.came[:2], made.counts, made.waits) == (["fell_silent", "interrupted"], [2], [2])
    assert LIMIT + 1.5 <= made.seconds < LIMIT + 1.5 + SLACK
    assert (made.outcome, made.text) == ("partial", SECOND)  # its end would have come after 1.6 s


@pytest.mark.full
@EVERY_WAY
def test_without_another_try_the_last_backend_may_be_as_late_as_the_call_allows(way: str) -> None:
    late = whole_stream(event(FIRST), event(SECOND), event(finish="stop"), END, every=LATE)
    made = make(
        way, [late], policy=Policy(timeouts=CLOCKS, limits=Limits(retries=0, continuations=0))
    )
    assert (made.outcome, made.text, made.counts) == ("done", FIRST + SECOND, [1])


def test_the_last_backend_is_not_left_where_no_time_for_another_first_token_remains(
    way: str,
) -> None:
    policy = Policy(
        timeouts=CLOCKS, budget=Budget(seconds=1.0), waits=AT_ONCE, limits=Limits(retries=3)
    )
    made = make(
        way,
        [silent],
        policy=policy,
        sleep=time.sleep,
        async_sleep=asyncio.sleep,
    )
    # At 0.4 s another first token fits into what is left of the second, at 0.8 s none does.
    assert (made.outcome, made.counts, made.came[:2]) == (
        "over_budget",
        [2],
        ["fell_silent", "failed_transiently"],
    )
    assert 0.95 <= made.seconds < 1.0 + SLACK


def test_a_clock_of_the_clients_own_moves_no_limit(way: str) -> None:
    policy = Policy(timeouts=CLOCKS, budget=Budget(seconds=60), limits=ONE_MORE)
    made = make(way, [silent, goes_on], policy=policy, clock=lambda: -5e6)
    assert (made.came, made.text) == (["fell_silent", "answered"], SECOND)
    assert LIMIT <= made.seconds < SLACK


@EVERY_WAY
@pytest.mark.parametrize(
    ("said", "requests"), [("<think>Herons like reeds. ", 1), ("Herons like reeds. ", 2)]
)
@BOTH
def test_thinking_in_tags_is_no_text_to_go_on_from(
    way: str,
    said: str,
    requests: int,
    streams: bool,
) -> None:
    def play(peer: Peer) -> None:
        begin(peer)
        drip(peer, [event(said)], OFTEN)
        drip(peer, [event("</think>In the reeds.") + event(finish="stop") + END], LATE)
        peer.send(b"0\r\n\r\n")

    # Text could be gone on from, so that silence behind it may end the attempt; without any there
    # is no other try.
    policy = Policy(timeouts=CLOCKS, limits=Limits(retries=0, continuations=1))
    made = make(way, [play, goes_on], policy=policy, streams=streams)
    assert (made.outcome, made.counts) == ("done", [requests])
    assert made.text == ("In the reeds." if requests == 1 else said + SECOND)


# the end of an attempt


def drips(piece: bytes) -> Play:
    """Send a piece of a stream often, for ever."""

    def play(peer: Peer) -> None:
        begin(peer)
        peer.drip(chunk(piece), every=0.05)

    return play


@EVERY_WAY
@BOTH
def test_content_does_not_put_off_the_end_of_an_attempt(way: str, streams: bool) -> None:
    policy = Policy(timeouts=Timeouts(first_token=LIMIT, stall=LIMIT, total=0.7), limits=ONE_MORE)
    made = make(way, [drips(event("heron ")), goes_on], policy=policy, streams=streams)
    assert (made.outcome, made.came, made.reason) == (
        "done",
        ["interrupted", "answered"],
        "timeout",
    )
    assert made.text.startswith("heron heron ")
    assert made.text.endswith(SECOND)
    assert 0.7 <= made.seconds < 0.7 + SLACK


@SOME_WAYS
@pytest.mark.parametrize("kind", sampled(["text", "nothing", "comments"], one_in=2))
def test_an_attempt_ends_where_the_reserve_of_the_next_backend_begins(
    way: str, streams: bool, kind: str
) -> None:
    plays = {
        "text": drips(event("heron ")),
        "nothing": hangs_after(),
        "comments": drips(NOISE["comments"]),
    }
    policy = Policy(
        timeouts=Timeouts(first_token=30, stall=30),
        budget=Budget(seconds=2),
        reserve=Reserve(share=0.5),
    )
    made = make(way, [plays[kind]], [goes_on], policy=policy, streams=streams)
    assert (made.outcome, made.result.backend, made.counts, made.reason) == (
        "done",
        "second",
        [1, 1],
        "timeout",
    )
    assert made.text.endswith(SECOND)
    assert made.text.startswith("heron heron ") == (kind == "text")
    assert 0.95 <= made.seconds < 2


# backends with limits of their own


@pytest.mark.full
@pytest.mark.parametrize(
    "first", [{"first_token": LIMIT}, {"stall": LIMIT}], ids=["first token", "stall"]
)
def test_the_limits_of_a_backend_hold_for_it_alone(way: str, first: dict[str, float]) -> None:
    script = silent if "first_token" in first else hangs_after(event(FIRST))
    late = whole_stream(event(SECOND), event(finish="stop"), END, every=LATE)
    made = make(
        way,
        [script],
        [late],
        first=first,
        policy=Policy(timeouts=Timeouts(first_token=30, stall=30)),
    )
    assert (made.outcome, made.result.backend) == ("done", "second")
    assert made.came == ["fell_silent", "answered"]
    assert made.seconds < 3 * LATE + SLACK


BY_DEFAULT = Policy(timeouts=Timeouts(first_token=DefaultSeconds(LIMIT), stall=LIMIT))
THINKER = {"model": "gpt-5"}


LEFT_AT_ONCE: dict[str, tuple[Play, Policy, dict[str, Any]]] = {
    "no head of gpt-5": (silent, BY_DEFAULT, THINKER),
    "no head of o3": (silent, BY_DEFAULT, {"model": "o3"}),
    "no head of grok-4": (silent, BY_DEFAULT, {"model": "grok-4"}),
    "no head of any other": (silent, BY_DEFAULT, {"model": "m"}),
    "a clock of the policy": (hangs_after(), POLICY, THINKER),
    "a clock of the backend": (hangs_after(), BY_DEFAULT, {**THINKER, "first_token": LIMIT}),
}


@EVERY_WAY
@BOTH
@pytest.mark.parametrize("kind", LEFT_AT_ONCE)
def test_a_server_without_a_head_is_left_at_once_and_a_clock_that_somebody_set_holds(
    way: str, streams: bool, kind: str
) -> None:
    play, policy, first = LEFT_AT_ONCE[kind]
    made = make(way, [play], [goes_on], first=first, streams=streams, policy=policy)
    assert (made.came, made.result.backend) == (["fell_silent", "answered"], "second")
    assert made.counts == [1, 1]
    assert LIMIT <= made.seconds < SLACK
    assert made.bodies[0][0]["model"] == first["model"]


@pytest.mark.full
@EVERY_WAY
@BOTH
def test_a_model_that_thinks_has_longer_once_its_server_has_begun_to_answer(
    way: str, streams: bool
) -> None:
    def play(peer: Peer) -> None:
        begin(peer)
        drip(peer, [event(FIRST)], 2 * LATE)
        drip(peer, [event(SECOND), event(finish="stop"), END], OFTEN)
        peer.send(b"0\r\n\r\n")

    made = make(
        way,
        [play],
        [goes_on],
        first=THINKER,
        streams=streams,
        policy=BY_DEFAULT,
    )
    assert (made.text, made.result.backend, made.counts) == (FIRST + SECOND, "primary", [1, 0])


@pytest.mark.full
@OWN_WAYS
def test_nothing_is_left_behind_by_attempts_that_fell_silent(way: str) -> None:
    policy = Policy(timeouts=CLOCKS, limits=Limits(retries=3))
    before = {thread for thread in threading.enumerate() if thread.name.startswith("rungwise")}
    made = make(way, [silent, silent, silent, goes_on], policy=policy)
    assert (made.outcome, len(made.waits)) == ("done", 3)
    until(
        lambda: (
            not [
                t for t in threading.enumerate() if t.name == "rungwise attempt" and t not in before
            ]
        )
    )
