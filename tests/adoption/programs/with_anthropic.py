"""The anthropic SDK: the transport goes into its HTTP client, and its own retries off."""

import anthropic
from chain import client

import rungwise

transport = rungwise.Transport(client)
sdk = anthropic.Anthropic(
    http_client=anthropic.DefaultHttpxClient(transport=transport), max_retries=0
)
async_sdk = anthropic.AsyncAnthropic(
    http_client=anthropic.DefaultAsyncHttpxClient(transport=transport), max_retries=0
)

ASKED = {
    "model": "claude-sonnet-5",
    "max_tokens": 1024,
    "messages": [{"role": "user", "content": "What should a caller expect?"}],
}


def whole() -> str:
    return sdk.messages.create(**ASKED).content[0].text


def stream() -> str:
    with sdk.messages.stream(**ASKED) as events:
        return "".join(events.text_stream)


async def awhole() -> str:
    return (await async_sdk.messages.create(**ASKED)).content[0].text


async def astream() -> str:
    async with async_sdk.messages.stream(**ASKED) as events:
        return "".join([text async for text in events.text_stream])


if __name__ == "__main__":
    print(whole())
