"""pydantic-ai: the transport goes into the HTTP client of its provider, whose own retries are
off.
"""

import openai
from chain import client
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import rungwise

http_client = openai.DefaultAsyncHttpxClient(transport=rungwise.Transport(client))
sdk = openai.AsyncOpenAI(http_client=http_client, max_retries=0)
agent = Agent(OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=sdk)))


def whole() -> str:
    return agent.run_sync("What should a caller expect?").output


async def awhole() -> str:
    return (await agent.run("What should a caller expect?")).output


async def astream() -> str:
    async with agent.run_stream("What should a caller expect?") as result:
        return "".join([text async for text in result.stream_text(delta=True)])


if __name__ == "__main__":
    print(whole())
