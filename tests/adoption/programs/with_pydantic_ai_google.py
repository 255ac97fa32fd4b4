"""pydantic-ai on Gemini: the transport goes into the HTTP client of its provider, which has no
retries of its own.
"""

import httpx2
from chain import client
from pydantic_ai import Agent
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

import rungwise

http_client = httpx2.AsyncClient(transport=rungwise.Transport(client), timeout=600)
agent = Agent(GoogleModel("gemini-2.5-pro", provider=GoogleProvider(http_client=http_client)))


def whole() -> str:
    return agent.run_sync("What should a caller expect?").output


async def awhole() -> str:
    return (await agent.run("What should a caller expect?")).output


async def astream() -> str:
    async with agent.run_stream("What should a caller expect?") as result:
        return "".join([text async for text in result.stream_text(delta=True)])


if __name__ == "__main__":
    print(whole())
