"""Asynchronous calls over aiohttp, for a program whose network is aiohttp already.

    pip install httpx-aiohttp

Rungwise takes any client of httpx's shape. This one keeps its own connections and limits; you close
it yourself.
"""

import asyncio

import httpx
from httpx_aiohttp import AiohttpTransport

import rungwise


async def ask_all(prompts: list[str], *chain: rungwise.OpenAIChat) -> list[str]:
    """Ask every prompt at once and return the answers in order."""
    async with httpx.AsyncClient(transport=AiohttpTransport(), timeout=None) as http:
        client = rungwise.Client(chain, async_http=http)
        results = await asyncio.gather(*(client.acall(prompt) for prompt in prompts))
    return [result.text for result in results]


if __name__ == "__main__":
    with rungwise.testing.EmbeddedProvider(
        rungwise.testing.Script([rungwise.testing.ScriptedReply(text="In the reeds.")])
    ) as provider:
        backend = rungwise.OpenAIChat("demo", base_url=provider.base_url, api_key="none needed")
        print("\n".join(asyncio.run(ask_all(["Where do herons nest?", "When?"], backend))))
