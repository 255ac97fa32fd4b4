"""A stream that breaks off behind its finish reason may have lost what it cost: it counts as all
that was reserved.
"""

from itertools import accumulate
from typing import Any

import orjson
import pytest

from rungwise.adapters.http.exchange import Exchange
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.provider.server import render
from rungwise.core import Reply
from rungwise.testing import ScriptedReply
from support.protocols import PROTOCOLS, backend, encoded

URL = "http://localhost:1/v1"


def events(api: str) -> tuple[bytes, ...]:
    """Return the events of a streamed reply."""
    request = encoded(backend(api, URL), stream=True)
    path = request.url.removeprefix("http://localhost:1")
    reply = ScriptedReply(text="Herons nest in the reeds.")
    return render(reply, orjson.loads(request.body), path=path).pieces


def read(api: str, body: bytes, *, breaks: bool = False) -> Any:
    exchange = Exchange(backend(api, URL), AttemptLimits(), is_streaming=True)
    exchange.begin(200, {"content-type": "text/event-stream"})
    assert list(exchange.feed(body))
    if breaks:
        exchange.fail(ConnectionResetError("gone"))
    return exchange.reply()


@pytest.mark.parametrize("breaks", [True, False], ids=["breaks", "ends"])
@pytest.mark.parametrize("api", PROTOCOLS)
def test_wherever_a_stream_is_cut_its_usage_is_reported_or_lost(api: str, breaks: bool) -> None:
    pieces = events(api)
    lost = set()
    body = b"".join(pieces)
    for end in accumulate(map(len, pieces)):
        for size in (end - 5, end - 1, end):
            reply = read(api, body[:size], breaks=breaks and size < len(body))
            if isinstance(reply, Reply):
                usage = reply.usage
                assert usage.lost is (usage.estimated or not usage.output_tokens)
                lost.add(usage.lost)
    assert lost == {True, False}
    assert not read(api, body).usage.lost


def test_an_error_behind_the_finish_reason_loses_it_too() -> None:
    usage = next(each for each in events("openai") if b'"completion_tokens"' in each)
    body = b"".join(events("openai"))
    reply = read("openai", body.replace(usage, b'data: {"error": {"message": "gone"}}\n\n'))
    assert reply.interrupted is False
    assert reply.usage.lost is True
    # whoever ends a stream has said all
    assert not read("openai", body.replace(usage, b"")).usage.lost
