"""Rungwise: one backend, its default policy, journal included."""

from collections.abc import Awaitable, Callable
from typing import Any

import rungwise

PROMPT = "What is a state machine?"
OF_BACKENDS = {"Bedrock": {"region": "eu-north-1"}}


def _client(url: str, backend: str = "OpenAIChat", **options: Any) -> rungwise.Client:
    chosen = getattr(rungwise, backend)
    return rungwise.Client(
        chosen(
            "bench",
            base_url=url,
            api_key="sk-1f38",
            **OF_BACKENDS.get(backend, {}),
        ),
        **options,
    )


def call(url: str, **options: Any) -> Callable[[], str]:
    """Run a call."""
    client = _client(url, **options)
    return lambda: client.call(PROMPT).text


def acall(url: str, connections: int | None = None, **options: Any) -> Callable[[], Awaitable[str]]:
    """Run a call asynchronously, on as many connections, or on as many as there are by default."""
    client = _client(
        url, **options, **({} if connections is None else {"max_connections": connections})
    )

    async def one() -> str:
        return (await client.acall(PROMPT)).text

    return one


def stream(url: str, **options: Any) -> Callable[[], str]:
    """Read the events of a stream; the last is the result."""
    client = _client(url, **options)

    def one() -> str:
        last: object = None
        for event in client.stream(PROMPT):
            last = event
        assert isinstance(last, rungwise.Result)
        return last.text

    return one
