"""LiteLLM: the transport goes into the sessions of its OpenAI routes, before the first call; its
own retries off.
"""

import httpx
import litellm
from chain import client

import rungwise

transport = rungwise.Transport(client)
litellm.client_session = httpx.Client(transport=transport)
litellm.aclient_session = httpx.AsyncClient(transport=transport)

ASKED = {
    "model": "openai/gpt-5",
    "messages": [{"role": "user", "content": "What should a caller expect?"}],
    "max_retries": 0,
}


def whole() -> str:
    return litellm.completion(**ASKED).choices[0].message.content


def stream() -> str:
    chunks = litellm.completion(**ASKED, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


async def awhole() -> str:
    return (await litellm.acompletion(**ASKED)).choices[0].message.content


async def astream() -> str:
    chunks = await litellm.acompletion(**ASKED, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])


if __name__ == "__main__":
    print(whole())
