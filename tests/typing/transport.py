"""Pass a transport to every HTTP client that SDKs use, for the type checkers; nothing here is
run.
"""

from typing import assert_type

import anthropic
import httpx
import httpx2
import openai

import rungwise
from rungwise.adapters.gateway.asgi import Asgi


def clients(client: rungwise.Client) -> None:
    transport = rungwise.Transport(client, hold=True)
    assert_type(transport, rungwise.Transport)
    httpx.Client(transport=transport)
    httpx.AsyncClient(transport=transport)
    httpx2.Client(transport=transport)
    httpx2.AsyncClient(transport=transport)
    openai.OpenAI(http_client=openai.DefaultHttpxClient(transport=transport), max_retries=0)
    openai.AsyncOpenAI(
        http_client=openai.DefaultAsyncHttpxClient(transport=transport), max_retries=0
    )
    anthropic.Anthropic(
        http_client=anthropic.DefaultHttpxClient(transport=transport), max_retries=0
    )
    anthropic.AsyncAnthropic(
        http_client=anthropic.DefaultAsyncHttpxClient(transport=transport), max_retries=0
    )


async def chains(client: rungwise.Client) -> None:
    with rungwise.Transport({"fast": client, "*": client}) as transport:
        assert_type(transport, rungwise.Transport)
    async with rungwise.Transport(client) as transport:
        await transport.aclose()
    assert_type(rungwise.asgi({"fast": client}, hold=True), Asgi)
    budget = rungwise.SharedBudget(rungwise.Budget(money=5.0, seconds=None), per="day")
    rungwise.Transport(client, within=budget)
    caller = rungwise.core.Caller("team", chains=["fast"], within=budget)
    rungwise.asgi({"fast": client}, caller=lambda scope: caller)
