"""The example over aiohttp: every call is answered, and nothing stays open."""

import asyncio
import warnings
from collections.abc import Callable
from types import ModuleType

import pytest
from httpx_aiohttp import AiohttpTransport

from rungwise import OpenAIChat
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply


@pytest.mark.full
def test_all_prompts_are_answered_over_aiohttp(
    example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = 0
    send = AiohttpTransport.handle_async_request

    async def counted(self: AiohttpTransport, request: object) -> object:
        nonlocal requests
        requests += 1
        return await send(self, request)

    monkeypatch.setattr(AiohttpTransport, "handle_async_request", counted)
    replies = Script([ScriptedReply(status=503), ScriptedReply(text="In the reeds.")])
    with EmbeddedProvider(replies) as provider, warnings.catch_warnings():
        warnings.simplefilter("error")
        backend = OpenAIChat("m", base_url=provider.base_url, api_key="k")
        answers = asyncio.run(example("over_aiohttp").ask_all(["Where?", "When?", "How?"], backend))
        assert answers == ["In the reeds."] * 3
        assert len(provider.requests) == requests == 4


def test_the_command_prints_an_answer_for_each_prompt(
    command: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    command("over_aiohttp")
    assert capsys.readouterr().out.splitlines() == ["In the reeds."] * 2
