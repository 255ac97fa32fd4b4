"""Replies that go on, behind the transport and the proxy: what a program of OpenAI's SDK sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import httpx
import openai
import pytest

from rungwise import Client, OpenAIResponses, Transport
from rungwise.adapters.gateway.gateway import Gateway
from rungwise.adapters.gateway.proxy import Proxy
from rungwise.fsm.values.secret import Secret
from rungwise.testing import testing
from support import sdks
from support.kept_server import PROMPT, KeptServer
from support.proxied import served
from support.waiting import until

TOKENS: Final = [f"word{number} " for number in range(12)]
WHOLE: Final = "".join(TOKENS)
DOORS: Final = pytest.mark.parametrize("door", ["transport", "proxy"])


@contextmanager
def behind(server: KeptServer, door: str) -> Iterator[openai.OpenAI]:
    """Yield an SDK whose calls go through a transport or a proxy."""
    with ExitStack() as stack:
        stack.enter_context(testing())
        backend = OpenAIResponses("m", base_url=server.base_url, api_key="k", background=True)
        client = stack.enter_context(Client(backend))
        options: dict[str, Any] = {"base_url": server.base_url}
        if door == "proxy":
            proxy = Proxy(Gateway(client), key=Secret(sdks.KEY), forwards=True)
            options["base_url"] = f"{stack.enter_context(served(proxy))}/v1"
        else:
            transport = stack.enter_context(Transport(client))
            options["http_client"] = httpx.Client(transport=transport)
        sdk = openai.OpenAI(api_key=sdks.KEY, max_retries=0, **options)
        yield stack.enter_context(sdk)


@DOORS
def test_the_own_call_of_a_program_passes_unharmed(door: str) -> None:
    """It stores a response at its provider and takes up its stream by itself."""
    with KeptServer(TOKENS) as server, behind(server, door) as sdk:
        direct = openai.OpenAI(api_key=sdks.KEY, max_retries=0, base_url=server.base_url)
        begun = direct.responses.create(model="m", input="Where?", background=True, stream=True)
        events = [*begun]
        rest = [*sdk.responses.retrieve("resp_0", stream=True, starting_after=5)]
        whole = sdk.responses.retrieve("resp_0")
        ended = sdk.responses.cancel("resp_0")
    assert rest == events[6:]
    assert whole.output_text == WHOLE
    assert ended.status == "cancelled"
    assert server.requests[1] == "GET /v1/responses/resp_0?starting_after=5&stream=true"


@DOORS
@pytest.mark.parametrize("streams", [True, False])
def test_a_program_sees_one_whole_answer_of_a_stream_that_was_cut(door: str, streams: bool) -> None:
    with KeptServer(TOKENS, cuts=[1100, 200]) as server, behind(server, door) as sdk:
        if streams:
            events = [*sdk.responses.create(model="m", input="Where?", stream=True)]
            text = "".join(each.delta for each in events if each.type.endswith("text.delta"))
            answer: Any = events[-1].response  # type: ignore[union-attr]
            assert text == WHOLE
        else:
            answer = sdk.responses.create(model="m", input="Where?")
    assert answer.output_text == WHOLE
    assert answer.status == "completed"
    assert answer.usage.output_tokens == len(TOKENS)
    assert server.charged == PROMPT + len(TOKENS)
    assert server.cancels == []


@DOORS
def test_a_program_that_hangs_up_cancels_the_reply(door: str) -> None:
    with (
        KeptServer(TOKENS, cuts=[1100], stays_open=True) as server,
        behind(server, door) as sdk,
    ):
        with sdk.responses.create(model="m", input="Where?", stream=True) as events:
            next(each for each in events if each.type.endswith("text.delta"))
        until(lambda: server.cancels)
    assert server.cancels == ["resp_0"]
