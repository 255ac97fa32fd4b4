"""Many streams at once through `rungwise proxy`: each is whole, and nothing of them stays open
behind them.
"""

import asyncio
import os
import threading
from pathlib import Path

import httpx
import openai
import pytest

from failover.endpoint import chains
from support.proxies import proxy
from support.raw_server import STREAM_HEAD, Peer, RawServer, chunk, event
from support.waiting import auntil, patience

WORDS = [f"word{number} " for number in range(40)]


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.full)])
def test_many_streams_at_once_are_whole_and_leave_nothing_open(count: int, tmp_path: Path):
    """Every stream has begun at its caller before any of them may end."""
    all_began = threading.Barrier(count + 1)

    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(STREAM_HEAD + b"\r\n" + chunk(event(WORDS[0])))
            all_began.wait(patience(60))
            for word in WORDS[1:]:
                peer.send(chunk(event(word)))
            peer.send(chunk(event(finish="stop")) + chunk(b"data: [DONE]\n\n") + chunk(b""))

    with RawServer(play) as provider:
        toml = chains({"default": ["m"]}, provider.base_url)
        with proxy(toml, tmp_path, "--max-connections", str(count)) as served:
            texts = asyncio.run(_read(served.base_url, served.pid, count, all_began))
    assert texts == ["".join(WORDS)] * count
    assert provider.connections == count


async def _read(
    base_url: str,
    pid: int,
    count: int,
    all_began: threading.Barrier,
) -> list[str]:
    """Read as many streams at once."""
    # so that the server runs
    httpx.get(f"{base_url.removesuffix('/v1')}/healthz").raise_for_status()
    before = len(os.listdir(f"/proc/{pid}/fd"))
    begun = 0

    async def one(sdk: openai.AsyncOpenAI) -> str:
        nonlocal begun
        asked = [{"role": "user", "content": "Count."}]
        text = ""
        async for piece in await sdk.chat.completions.create(
            model="m", messages=asked, stream=True
        ):
            said = piece.choices[0].delta.content or ""
            begun += bool(said) and not text
            text += said
        return text

    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as sdk:
        reading = [asyncio.create_task(one(sdk)) for _ in range(count)]
        await auntil(lambda: begun == count, 60)
        await asyncio.to_thread(all_began.wait, patience(60))
        texts = await asyncio.gather(*reading)
    kept = count  # connections to the provider, which stay open for a while
    await auntil(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before + kept)
    return texts
