"""langchain-openai: one HTTP client for `invoke`, one for `ainvoke`, and its own retries off."""

import openai
from chain import client
from langchain_openai import ChatOpenAI

import rungwise

transport = rungwise.Transport(client)
model = ChatOpenAI(
    model="gpt-5",
    http_client=openai.DefaultHttpxClient(transport=transport),
    http_async_client=openai.DefaultAsyncHttpxClient(transport=transport),
    max_retries=0,
)


def whole() -> str:
    return model.invoke("What should a caller expect?").text


def stream() -> str:
    return "".join(chunk.text for chunk in model.stream("What should a caller expect?"))


async def awhole() -> str:
    return (await model.ainvoke("What should a caller expect?")).text


async def astream() -> str:
    return "".join([chunk.text async for chunk in model.astream("What should a caller expect?")])


if __name__ == "__main__":
    print(whole())
