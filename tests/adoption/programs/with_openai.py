"""The openai SDK, 2 or 3: the transport goes into its HTTP client, and its own retries off."""

import openai
from chain import client

import rungwise

transport = rungwise.Transport(client)
sdk = openai.OpenAI(http_client=openai.DefaultHttpxClient(transport=transport), max_retries=0)
async_sdk = openai.AsyncOpenAI(
    http_client=openai.DefaultAsyncHttpxClient(transport=transport), max_retries=0
)


def whole() -> str:
    completion = sdk.chat.completions.create(
        model="gpt-5", messages=[{"role": "user", "content": "What should a caller expect?"}]
    )
    return completion.choices[0].message.content


def stream() -> str:
    chunks = sdk.chat.completions.create(
        model="gpt-5",
        messages=[{"role": "user", "content": "What should a caller expect?"}],
        stream=True,
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


async def awhole() -> str:
    response = await async_sdk.responses.create(model="gpt-5", input="What should a caller expect?")
    return response.output_text


async def astream() -> str:
    events = await async_sdk.responses.create(
        model="gpt-5", input="What should a caller expect?", stream=True
    )
    return "".join(
        [event.delta async for event in events if event.type == "response.output_text.delta"]
    )


if __name__ == "__main__":
    print(whole())
