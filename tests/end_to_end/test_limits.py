"""What a client bears: several event loops, and bodies without an end."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.testing import ScriptedReply


def test_the_pools_of_closed_event_loops_are_let_go(serve: Any, backend_of: Any) -> None:
    client = Client(backend_of(serve(ScriptedReply(text="In the reeds."))))
    for _ in range(5):
        asyncio.run(client.acall("Where?"))
        assert len(client._connections._in_loops) == 1
    client.close()
    assert len(client._connections._in_loops) == 0


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
