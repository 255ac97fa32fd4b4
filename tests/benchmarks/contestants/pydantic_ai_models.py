"""pydantic-ai's direct requests to a FallbackModel of two, each with openai's client and its two
retries.
"""

import asyncio
from collections.abc import Awaitable, Callable

from pydantic_ai.direct import model_request, model_request_stream, model_request_sync
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

PROMPT = "What is a state machine?"


def _models(url: str) -> FallbackModel:
    provider = OpenAIProvider(base_url=url, api_key="sk-1f38")
    return FallbackModel(
        OpenAIChatModel("bench", provider=provider), OpenAIChatModel("backup", provider=provider)
    )


def call(url: str) -> Callable[[], str]:
    """Make a request."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    models = _models(url)
    return lambda: model_request_sync(models, [ModelRequest.user_text_prompt(PROMPT)]).text


def acall(url: str) -> Callable[[], Awaitable[str]]:
    """Do the same asynchronously."""
    models = _models(url)

    async def one() -> str:
        return (await model_request(models, [ModelRequest.user_text_prompt(PROMPT)])).text

    return one


def astream(url: str) -> Callable[[], Awaitable[str]]:
    """Read a stream to its end, asynchronously, for it has no other."""
    models = _models(url)

    async def one() -> str:
        async with model_request_stream(models, [ModelRequest.user_text_prompt(PROMPT)]) as events:
            async for _ in events:
                pass
            return events.get().text

    return one
