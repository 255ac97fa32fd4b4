"""LiteLLM on Anthropic: a client of its own with the transport goes into each call, and has no
retries.
"""

import httpx
import litellm
from chain import client
from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler, HTTPHandler

import rungwise

transport = rungwise.Transport(client)
handler = HTTPHandler(client=httpx.Client(transport=transport))
async_handler = AsyncHTTPHandler()
async_handler.client = httpx.AsyncClient(transport=transport)

ASKED = {
    "model": "anthropic/claude-sonnet-5",
    "messages": [{"role": "user", "content": "What should a caller expect?"}],
}


def whole() -> str:
    return litellm.completion(**ASKED, client=handler).choices[0].message.content


def stream() -> str:
    chunks = litellm.completion(**ASKED, client=handler, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


async def awhole() -> str:
    return (await litellm.acompletion(**ASKED, client=async_handler)).choices[0].message.content


async def astream() -> str:
    chunks = await litellm.acompletion(**ASKED, client=async_handler, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])


if __name__ == "__main__":
    print(whole())
