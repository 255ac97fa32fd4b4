"""langchain's chat model with retries and one fallback; its client is openai's."""

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_openai import ChatOpenAI

PROMPT = "What is a state machine?"


def _model(url: str) -> Any:
    first, second = (
        ChatOpenAI(
            model=name,
            base_url=url,
            api_key="sk-1f38",
            timeout=60,
            stream_usage=True,
        )
        for name in ("bench", "backup")
    )
    return first.with_retry(stop_after_attempt=3).with_fallbacks(
        [second.with_retry(stop_after_attempt=3)]
    )


def call(url: str) -> Callable[[], str]:
    """Invoke the model."""
    model = _model(url)
    return lambda: model.invoke(PROMPT).content


def acall(url: str) -> Callable[[], Awaitable[str]]:
    """Do the same asynchronously."""
    model = _model(url)

    async def one() -> str:
        return (await model.ainvoke(PROMPT)).content

    return one


def stream(url: str) -> Callable[[], str]:
    """Gather the text of a stream."""
    model = _model(url)
    return lambda: "".join(chunk.content for chunk in model.stream(PROMPT))
