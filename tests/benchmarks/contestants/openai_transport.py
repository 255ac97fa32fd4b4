"""openai's own client over the transport: the requests that it writes become calls of a client, its
default policy.
"""

from collections.abc import Callable
from typing import Any

from openai import DefaultHttpxClient

from benchmarks.contestants import openai_client
from rungwise import Client, OpenAIChat, Transport


def call(url: str) -> Callable[[], str]:
    """Create a completion."""
    return openai_client.call(url, **_options(url))


def stream(url: str) -> Callable[[], str]:
    """Gather the text of a stream."""
    return openai_client.stream(url, **_options(url))


def _options(url: str) -> dict[str, Any]:
    client = Client(OpenAIChat("bench", base_url=url, api_key="sk-1f38"))
    return {
        "http_client": DefaultHttpxClient(transport=Transport(client), timeout=60),
        "max_retries": 0,
    }
