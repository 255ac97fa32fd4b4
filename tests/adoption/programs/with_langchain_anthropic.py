"""langchain-anthropic takes no HTTP client: it asks `rungwise proxy`, with its own retries off."""

from chain import MODEL, PROXY
from langchain_anthropic import ChatAnthropic

model = ChatAnthropic(
    model=MODEL,
    base_url=PROXY,
    api_key="none",
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
