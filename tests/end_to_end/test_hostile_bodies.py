"""Bodies that would fill memory or take for ever to read, over raw HTTP: each call ends, and stays
small.
"""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import httpx
import pytest

import rungwise
from rungwise import Client, OpenAIChat, Result
from rungwise.fsm.call.budget.metering import COUNTED_BESIDE
from support.modes import EVERY, Caller
from support.raw_server import Peer, RawServer, completion, event
from support.sampling import sampled
from support.tables import of_known_rungs

CEILING = 32 * 8 * 2**20
POLICY = rungwise.Policy(limits=rungwise.Limits(retries=0, continuations=0))
MEGABYTE = 2**20


Serve = Callable[..., RawServer]


GZIP = "content-encoding: gzip\r\n"


@pytest.fixture(params=EVERY)
def mode(request: pytest.FixtureRequest) -> str:
    """Run each test that takes it in every mode."""
    return str(request.param)


@pytest.fixture
def raw() -> Iterator[Serve]:
    """Start a server that answers every request with the same bytes: `raw(headers, *body)`."""
    with ExitStack() as stack:

        def start(headers: str, *body: bytes, status: str = "200 OK") -> RawServer:
            def play(peer: Peer) -> None:
                peer.request()
                peer.send(f"HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n".encode())
                for piece in body:
                    peer.send(piece)

            return stack.enter_context(RawServer(play))

        yield start


def run(
    server: RawServer,
    mode: str,
    *,
    passed_in: bool = False,
    backend: Any = None,
    **options: Any,
) -> Result:
    """Make a call, and return how it ended."""
    chat = OpenAIChat("m", base_url=server.base_url, **(backend or {}))
    with Caller(
        mode, chat, http=httpx if passed_in else None, **{"policy": POLICY, **options}
    ) as caller:
        try:
            return caller.ask("hi")
        except rungwise.CallError as error:
            return error.result


END = event(finish="stop") + b"data: [DONE]\n\n"
STREAM = event("In the ") + event("reeds.") + END


def body_for(mode: str) -> bytes:
    return STREAM if "stream" in mode else completion("In the reeds.")


def small(run_it: Callable[[], Result], most: int = CEILING) -> Result:
    tracemalloc.start()
    try:
        result = run_it()
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    return result


def malformed(result: Result) -> bool:
    return (result.outcome, [failure.reason for _, failure in result.failures]) == (
        "failed",
        ["malformed"],
    )


# encodings


def head_of(server: RawServer) -> str:
    """Return the head of the first request."""
    return server.requests[0].partition(b"\r\n\r\n")[0].decode().lower() + "\r\n"


@pytest.mark.parametrize("passed_in", [False, True])
def test_servers_are_asked_for_no_encoding_but_what_is_unpacked_with_a_bound(
    raw: Serve, mode: str, passed_in: bool
) -> None:
    server = raw("", body_for(mode))
    assert run(server, mode, passed_in=passed_in).text == "In the reeds."
    (line,) = [line for line in head_of(server).split("\r\n") if line.startswith("accept-encoding")]
    assert line == "accept-encoding: gzip, deflate"


@pytest.mark.parametrize(
    ("asked", "sent"), [("identity", "identity"), ("gzip;q=1", "gzip;q=1"), ("br, zstd", None)]
)
def test_a_caller_may_want_fewer_encodings_and_no_others(
    raw: Serve, asked: str, sent: str | None
) -> None:
    server = raw("", completion("In the reeds."))
    assert run(server, "call", backend={"headers": {"Accept-Encoding": asked}}).outcome == "done"
    assert head_of(server).count("accept-encoding") == 1
    assert f"accept-encoding: {sent or 'gzip, deflate'}\r\n" in head_of(server)


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    return (data[n : n + size] for n in range(0, len(data), size))


def deflated(data: bytes, window: int) -> bytes:
    packer = zlib.compressobj(wbits=window)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": lambda data: deflated(data, -15),
    "identity": lambda data: data,
    "identity, gzip": gzip.compress,
}


@pytest.mark.parametrize("passed_in", [False, True])
@pytest.mark.parametrize("encoding", PACKED)
def test_encodings_that_were_asked_for_are_taken_off(
    raw: Serve,
    mode: str,
    encoding: str,
    passed_in: bool,
) -> None:
    packed = PACKED[encoding](body_for(mode))
    server = raw(f"content-encoding: {encoding}\r\n", *pieces_of(packed, 1))
    result = run(server, mode, passed_in=passed_in)
    assert (result.outcome, result.text) == ("done", "In the reeds.")


@pytest.mark.parametrize("tail", [b"", bytes(7), b"\x1f", b"\x1fx", b"and the rest"])
@pytest.mark.parametrize("size", [1, 9, 10_000])
def test_gzip_may_have_several_members(
    raw: Serve,
    mode: str,
    size: int,
    tail: bytes,
) -> None:
    body = body_for(mode)
    members = [body[:10], b"", body[10:100], body[100:]]
    packed = b"".join(map(gzip.compress, members)) + tail
    server = raw(GZIP, *pieces_of(packed, size))
    result = run(server, mode)
    assert (result.outcome, result.text, len(server.requests)) == ("done", "In the reeds.", 1)


@cache
def bomb(window: int, times: int = 1) -> bytes:
    """Return 300 MB of zeros, packed."""
    packer = zlib.compressobj(9, wbits=window)
    packed = b"".join([packer.compress(bytes(MEGABYTE)) for _ in range(300)]) + packer.flush()
    return gzip.compress(packed) if times == 2 else packed


@pytest.mark.parametrize("passed_in", [False, True])
@pytest.mark.parametrize(
    "headers", ["gzip, gzip", "gzip\r\ncontent-encoding: gzip", "br", "zstd", "compress", "x"]
)
def test_other_encodings_are_malformed_and_never_unpacked(
    raw: Serve,
    mode: str,
    headers: str,
    passed_in: bool,
) -> None:
    packed = bomb(31, 2)
    assert len(packed) < 10_000
    server = raw(f"content-encoding: {headers}\r\ncontent-length: {len(packed)}\r\n", packed)
    assert malformed(small(lambda: run(server, mode, passed_in=passed_in), 8 * MEGABYTE))


def test_a_body_that_is_not_what_its_encoding_says_is_malformed(raw: Serve, mode: str) -> None:
    assert malformed(run(raw(GZIP, b"In the reeds."), mode))
    packed = bytearray(gzip.compress(body_for(mode), 9))
    packed[20:30] = b"\xff" * 10
    result = run(raw(GZIP, bytes(packed)), mode)
    assert result.outcome in ("failed", "partial")
    assert result.text in ("", "In the ")


@pytest.mark.parametrize("headers", ["content-encoding: br\r\n", GZIP, ""])
def test_the_status_of_an_error_counts_though_its_body_cannot_be_read(
    raw: Serve, mode: str, headers: str
) -> None:
    for status, reason in (
        ("401 Unauthorized", "auth"),
        ("429 Slow down", "rate_limit"),
        ("500 No", "server_error"),
    ):
        server = raw(headers, *([b"{}," * 300_000] * 20), status=status)
        assert [failure.reason for _, failure in run(server, mode).failures] == [reason]


# size


def test_63_megabytes_of_small_objects_stay_small(raw: Serve, mode: str) -> None:
    server = raw("", b'{"choices": [', *[b"{}," * 100_000] * 210, b"1]}")
    assert malformed(small(lambda: run(server, mode)))


HUGE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", lambda: bomb(31)),
    "deflate": ("deflate", lambda: bomb(15)),
    "many members of gzip": ("gzip", lambda: gzip.compress(bytes(MEGABYTE), 9) * 20_000),
    "empty members of gzip": ("gzip", lambda: gzip.compress(b"", 9) * 20_000),
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_body_that_unpacks_to_gigabytes_is_left_alone(raw: Serve, mode: str, kind: str) -> None:
    encoding, pack = HUGE[kind]
    packed = pack()
    server = raw(f"content-encoding: {encoding}\r\ncontent-length: {len(packed)}\r\n", packed)
    assert malformed(small(lambda: run(server, mode), 64 * MEGABYTE))


@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_a_stream_that_unpacks_to_gigabytes_keeps_the_text_so_far(raw: Serve, mode: str) -> None:
    packer = zlib.compressobj(9, wbits=31)
    packed = packer.compress(event("In the "))
    packed += b"".join([packer.compress(b": " + bytes(100_000) + b"\n\n") for _ in range(1_000)])
    server = raw(GZIP, packed)
    result = small(lambda: run(server, mode), 64 * MEGABYTE)
    assert (result.outcome, result.text) == ("partial", "In the ")


ENDLESS = {
    "text": event("word " * 200),
    "reasoning": event(reasoning="word " * 200),
    "refusal": event(refusal="word " * 200),
    "arguments": event(
        tool_calls=[
            {
                "index": 0,
                "id": "a",
                "function": {"name": "f", "arguments": "x" * 1000},
            }
        ]
    ),
    "calls": event(
        tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "{}"}}] * 50
    ).replace(b'"a"', b'"%d"'),
    "an event": b'data: {"a":\n' + b"data: 1,\n" * 100,
    "a line": b"data: " + b"x" * 1000,
    "comments": b": keepalive\n\n" * 5_000,
    "nothing": event() * 1_000,
    "usage": b'data: {"choices":[],"usage":{"x":[%s1]}}\n\n' % (b"{}," * 300_000),
    "messages": b'data: {"choices":[{"message":{"content":"%s"}}]}\n\n' % (b"a" * 1000),
}


@pytest.mark.full
@pytest.mark.parametrize("mode", sampled(["stream", "astream"], one_in=2))
@pytest.mark.parametrize("kind", sampled(ENDLESS, one_in=2))
def test_a_stream_without_an_end_is_cut_with_the_text_so_far(
    raw: Serve, mode: str, kind: str
) -> None:
    largest = MEGABYTE // 4
    endless = ENDLESS[kind]
    many = -(-20 * largest // len(endless))
    pieces = [
        endless % tuple([n] * endless.count(b"%d")) if b"%d" in endless else endless
        for n in range(many)
    ]
    server = raw("content-type: text/event-stream\r\n", event("In the "), *pieces)
    result = small(lambda: run(server, mode, largest_reply=largest), 48 * MEGABYTE)
    if kind == "refusal":
        assert (result.outcome, result.text) == ("refused", "")
        return
    assert result.outcome == "partial"
    assert result.text.startswith("In the ")
    assert result.cause is not None


def test_a_long_reply_is_read_where_the_client_says_so(raw: Serve, mode: str) -> None:
    text = "word, [and] {so} on. " * 20_000
    body = event(text) + END if "stream" in mode else completion(text)
    assert run(raw("", body), mode).text == text
    result = run(raw("", body), mode, largest_reply=100_000)
    assert malformed(result) if "stream" not in mode else result.outcome in ("failed", "partial")


@pytest.mark.parametrize("largest", [0, -1, 1.5, True, "8", None])
def test_largest_reply_is_a_number_of_bytes(largest: Any) -> None:
    with pytest.raises(rungwise.ConfigurationError, match="largest_reply"):
        Client(OpenAIChat("m", base_url="http://localhost/v1"), largest_reply=largest)


def test_a_reply_with_log_probabilities_is_no_heavy_one(raw: Serve) -> None:
    one = {
        "token": " the",
        "logprob": -0.123456,
        "bytes": [32, 116, 104, 101],
    }
    logprobs = {"content": [{**one, "top_logprobs": [one] * 20}] * 4_000}
    choice = {
        "index": 0,
        "message": {"content": "x"},
        "finish_reason": "stop",
        "logprobs": logprobs,
    }
    body = json.dumps({"choices": [choice]}, separators=(",", ":")).encode()
    assert 4 * MEGABYTE < len(body) < 8 * MEGABYTE
    assert run(raw("", body), "call").outcome == "done"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("streams", [False, True])
def test_a_body_without_an_end_is_not_read_to_it(streams: bool) -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b"x" * 10_000

    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=endless()))
    client = Client(
        OpenAIChat("m", base_url="http://localhost/v1"),
        http=httpx.Client(transport=transport),
        policy=rungwise.Policy(limits=rungwise.Limits(retries=0)),
        largest_reply=100_000,
    )
    with pytest.raises(rungwise.Failed) as raised:
        _ = list(client.stream("hi")) if streams else client.call("hi")
    assert raised.value.result.failures[0][1].reason == "malformed"
    assert read <= 12


# what is read over HTTP as everywhere


def test_done_without_a_finish_reason_is_the_end(raw: Serve, mode: str) -> None:
    body = (
        event("In the ") + b"data: [DONE]\n\n" if "stream" in mode else completion("In the ", None)
    )
    whole = run(raw("", body), mode)
    assert (whole.outcome, whole.text) == ("done", "In the ")


NO = "I would rather not."
SAYS_NO = event(refusal=NO)
REFUSALS = {
    "text, then no end": event("Sure, here is") + SAYS_NO,
    "no end": SAYS_NO,
    "done without a finish reason": SAYS_NO + b"data: [DONE]\n\n",
    "an error": SAYS_NO + b'data: {"error":{"type":"overloaded_error","message":"busy"}}\n\n',
    "a finish that says error": event("Sure") + SAYS_NO + event(finish="error"),
    "set aside": event(provider_specific_fields={"refusal": NO}),
}


@pytest.mark.parametrize("body", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_a_refusal_in_a_reply_that_breaks_off_is_never_asked_for_again(
    raw: Serve, mode: str, body: bytes
) -> None:
    server = raw("", body)
    result = run(server, mode, policy=of_known_rungs())
    assert (result.outcome, result.text, len(server.requests)) == ("refused", "", 1)


@pytest.mark.parametrize("finish", [None, "error"])
@pytest.mark.parametrize("mode", ["call", "acall"])
def test_a_refusal_in_a_whole_body_without_an_end_is_one(
    raw: Serve, mode: str, finish: str | None
) -> None:
    message = {"content": "Sure, here is", "refusal": NO}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    server = raw("", json.dumps({"choices": [choice]}).encode())
    result = run(server, mode, policy=of_known_rungs())
    assert (result.outcome, len(server.requests)) == ("refused", 1)


# what nobody reported

SILENT = {
    "the head alone": b"",
    "a comment": b": ping\n\n",
    "a role": event(role="assistant", content=""),
    "half a body": b'{"choices": [{"index": 0, "mess',
}


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_what_ends_after_its_head_counts_as_its_cap(raw: Serve, mode: str, body: bytes) -> None:
    policy = rungwise.Policy(
        budget=rungwise.Budget(output_tokens=5000), waits=rungwise.Waits(retry_base=0, reask_base=0)
    )
    server = raw("content-type: text/event-stream\r\n", body)
    result = run(server, mode, policy=policy)
    spent = 5000 - 2 * COUNTED_BESIDE  # which is kept back for each
    assert (result.outcome, result.usage.output_tokens, len(server.requests)) == (
        "over_budget",
        spent,
        2,
    )


@pytest.mark.parametrize("text", ["", "A few words "])
def test_a_reply_that_the_cap_has_cut_counts_as_its_cap(raw: Serve, mode: str, text: str) -> None:
    policy = rungwise.Policy(budget=rungwise.Budget(output_tokens=1000))
    body = event(text) + event(finish="length") if "stream" in mode else completion(text, "length")
    server = raw("", body)
    result = run(server, mode, policy=policy)
    assert (result.usage.output_tokens, len(server.requests)) == (1000 - COUNTED_BESIDE, 1)
