"""openai's own client, which asks again twice by default, and has no fallback."""

from collections.abc import Awaitable, Callable
from typing import Any

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAI

try:
    from httpx2 import Limits
except ImportError:
    from httpx import Limits

MESSAGES = [{"role": "user", "content": "What is a state machine?"}]


def call(url: str, **options: Any) -> Callable[[], str]:
    """Create a completion."""
    client = OpenAI(base_url=url, api_key="sk-1f38", timeout=60, **options)
    return lambda: (
        client.chat.completions.create(model="bench", messages=MESSAGES).choices[0].message.content
    )


def acall(url: str, connections: int = 1000) -> Callable[[], Awaitable[str]]:
    """Do the same asynchronously."""
    limits = Limits(max_connections=connections, max_keepalive_connections=connections)
    http = DefaultAsyncHttpxClient(limits=limits, timeout=60)
    client = AsyncOpenAI(
        base_url=url,
        api_key="sk-1f38",
        timeout=60,
        http_client=http,
    )

    async def one() -> str:
        return (
            (await client.chat.completions.create(model="bench", messages=MESSAGES))
            .choices[0]
            .message.content
        )

    return one


def stream(url: str, **options: Any) -> Callable[[], str]:
    """Gather the text of a stream."""
    client = OpenAI(base_url=url, api_key="sk-1f38", timeout=60, **options)
    usage = {"include_usage": True}

    def one() -> str:
        chunks = client.chat.completions.create(
            model="bench", messages=MESSAGES, stream=True, stream_options=usage
        )
        return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)

    return one
