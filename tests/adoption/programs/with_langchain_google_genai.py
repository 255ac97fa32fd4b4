"""langchain-google-genai: its `client_args` go to both of its HTTP clients, and its own retries are
off.
"""

from chain import client
from langchain_google_genai import ChatGoogleGenerativeAI

import rungwise

model = ChatGoogleGenerativeAI(
    model="gemini-2.5-flash", client_args={"transport": rungwise.Transport(client)}, max_retries=0
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
