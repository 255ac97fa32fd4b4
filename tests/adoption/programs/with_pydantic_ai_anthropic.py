"""pydantic-ai on Anthropic: the transport goes into the HTTP client of its provider, whose own
retries are off.
"""

import anthropic
from chain import client
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

import rungwise

http_client = anthropic.DefaultAsyncHttpxClient(transport=rungwise.Transport(client))
sdk = anthropic.AsyncAnthropic(http_client=http_client, max_retries=0)
agent = Agent(AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(anthropic_client=sdk)))


def whole() -> str:
    return agent.run_sync("What should a caller expect?").output


async def awhole() -> str:
    return (await agent.run("What should a caller expect?")).output


async def astream() -> str:
    async with agent.run_stream("What should a caller expect?") as result:
        return "".join([text async for text in result.stream_text(delta=True)])


if __name__ == "__main__":
    print(whole())
