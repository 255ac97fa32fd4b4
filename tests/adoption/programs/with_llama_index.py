"""LlamaIndex: one HTTP client for `complete`, one for `acomplete`, and its own retries off.

`OpenAILike` takes any name of a model; `OpenAI` of `llama_index.llms.openai` takes the same
clients.
"""

import openai
from chain import client
from llama_index.llms.openai_like import OpenAILike

import rungwise

transport = rungwise.Transport(client)
llm = OpenAILike(
    model="gpt-5",
    is_chat_model=True,
    http_client=openai.DefaultHttpxClient(transport=transport),
    async_http_client=openai.DefaultAsyncHttpxClient(transport=transport),
    max_retries=0,
)


def whole() -> str:
    return llm.complete("What should a caller expect?").text


def stream() -> str:
    return "".join(each.delta or "" for each in llm.stream_complete("What should a caller expect?"))


async def awhole() -> str:
    return (await llm.acomplete("What should a caller expect?")).text


async def astream() -> str:
    return "".join(
        [
            each.delta or ""
            async for each in await llm.astream_complete("What should a caller expect?")
        ]
    )


if __name__ == "__main__":
    print(whole())
