"""Call a proxy for a time, in every protocol and with mixed faults behind it, and count what its
process holds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
from attrs import define, field, frozen

from benchmarks.soaking import faulty_server
from rungwise import Budget, Policy, Timeouts, Waits
from support.proxies import chain_toml, policy_toml, proxy
from support.waiting import auntil

AT_ONCE: Final = 24
MOST_CONNECTIONS: Final = 2 * AT_ONCE
ROUND: Final = 120
FEWEST: Final = 2
"""Rounds, however short the time is."""
POLICY: Final = Policy(
    budget=Budget(seconds=3.0),
    timeouts=Timeouts(connect=1.0, first_token=0.5, stall=0.5, total=2.0),
    waits=Waits(
        retry_base=0.01, retry_cap=0.05, overload_cap=0.05, reask_base=0.01, reask_cap=0.05
    ),
)
OPEN: Final = ("01", "08")
"""The states of connections in `/proc` that a process still holds: established, and closed by the
other side.
"""
QUESTION: Final = "Why is the sky blue?"
ENDS: Final = {
    "openai": ("data: [DONE]", '"error"'),
    "responses": ("event: response.completed", "event: response.incomplete", "event: error"),
    "anthropic": ("event: message_stop", "event: error"),
    "gemini": ("finishReason", '"error"'),
}
"""What the end of a stream holds: an end marker, or an error that makes the SDK raise."""


@frozen
class Sample:
    """Hold what the process has after so many calls, while nothing runs; idle connections to
    providers apart.
    """

    calls: int
    seconds: float
    memory: int
    descriptors: int
    idle: int
    threads: int


@define
class Soak:
    """Hold what a soak saw: samples in their order, how often calls ended how, and what the process
    said.
    """

    samples: list[Sample] = field(factory=list)
    ends: Counter[str] = field(factory=Counter)
    errors: str = ""


def soak(seconds: float, folder: Path, seed: int = 1) -> Soak:
    """Call a proxy for some seconds, and two rounds at least."""
    seen = Soak()
    with faulty_server(seed) as (faulty, well):
        places = [f"http://127.0.0.1:{port}/v1" for port in (faulty, well)]
        chain = chain_toml(
            "default",
            *({"model": "soak", "base_url": place, "key_env": ""} for place in places),
        )
        with proxy(
            f"{policy_toml(POLICY)}\n{chain}", folder, "--max-connections", str(MOST_CONNECTIONS)
        ) as served:
            at = served.base_url.removesuffix("/v1"), served.pid, (faulty, well)
            asyncio.run(_soak(*at, seconds, random.Random(seed), seen))
    seen.errors = (folder / "stderr.txt").read_text(encoding="utf-8")
    return seen


async def _soak(
    base_url: str,
    pid: int,
    providers: tuple[int, int],
    seconds: float,
    draw: random.Random,
    seen: Soak,
) -> None:
    """Call in rounds, and sample behind each, when its client has left: httpx loses connections of
    cancelled calls.
    """
    began = time.monotonic()
    while len(seen.samples) < FEWEST or time.monotonic() - began < seconds:
        # None that was idle for long is used again: the server may close it at that moment.
        limits = httpx.Limits(max_keepalive_connections=AT_ONCE, keepalive_expiry=2.0)
        async with httpx.AsyncClient(base_url=base_url, timeout=30.0, limits=limits) as client:
            gate = asyncio.Semaphore(AT_ONCE)
            seen.ends.update(
                await asyncio.gather(*(_one(client, draw, gate) for _ in range(ROUND)))
            )
            while (await client.get("/healthz")).json()["running"]:
                await asyncio.sleep(0.01)
        await auntil(lambda: not _sockets_of_clients(pid, base_url))
        seen.samples.append(_sample(pid, providers, seen.ends.total(), time.monotonic() - began))


async def _one(client: httpx.AsyncClient, draw: random.Random, gate: asyncio.Semaphore) -> str:
    async with gate:
        return await _call(client, draw)


def _sockets_of_clients(pid: int, base_url: str) -> int:
    """Count the connections that the process has from its clients."""
    port = int(base_url.rpartition(":")[2])
    return sum(here == port and state == "01" for here, _, state in _connections(pid))


def _connections(pid: int) -> Iterator[tuple[int, int, str]]:
    """Yield the port here, the port there, and the state of each connection that the process can
    see.
    """
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, here, there, state, *_ = line.split()
        yield int(here.rpartition(":")[2], 16), int(there.rpartition(":")[2], 16), state


def _sample(
    pid: int,
    providers: tuple[int, int],
    calls: int,
    seconds: float,
) -> Sample:
    memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    folder = Path(f"/proc/{pid}")
    held = len(os.listdir(folder / "fd"))
    idle = sum(there in providers and state in OPEN for _, there, state in _connections(pid))
    return Sample(calls, seconds, memory, held - idle, idle, len(os.listdir(folder / "task")))


def _request(draw: random.Random, api: str, *, streams: bool) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request."""
    turn = {"role": "user", "content": QUESTION}
    if api == "gemini":
        method = "streamGenerateContent?alt=sse" if streams else "generateContent"
        return f"/v1beta/models/m:{method}", {
            "contents": [{"role": "user", "parts": [{"text": QUESTION}]}]
        }
    if api == "responses":
        return "/v1/responses", {
            "model": "m",
            "input": QUESTION,
            "stream": streams,
        }
    if api == "anthropic":
        return "/v1/messages", {
            "model": "m",
            "max_tokens": 500,
            "messages": [turn],
            "stream": streams,
        }
    cap = {"max_tokens": 500} if draw.random() < 0.2 else {}
    return "/v1/chat/completions", {
        "model": "m",
        "messages": [turn],
        "stream": streams,
        **cap,
    }


async def _call(client: httpx.AsyncClient, draw: random.Random) -> str:
    """Make one call, read it or leave it, and say how it ended."""
    api = draw.choice([*ENDS])
    streams = draw.random() < 0.7
    path, body = _request(draw, api, streams=streams)
    text = ""
    way = draw.choices(("read", "left", "late", "nonsense"), (80, 10, 5, 5))[0]
    if way == "nonsense":
        response = await client.post(
            path, content=b"{", headers={"content-type": "application/json"}
        )
        return "refused" if response.status_code == 400 else f"nonsense: {response.status_code}"
    try:
        async with asyncio.timeout(draw.random() * 0.05 if way == "late" else 25.0):
            async with client.stream("POST", path, json=body) as response:
                async for piece in response.aiter_text():
                    text += piece
                    if way == "left":
                        return "left"
    except TimeoutError:
        return "left" if way == "late" else "hangs"
    except httpx.HTTPError as error:
        return f"broken off: {error!r} after {text[-200:]!r}"
    return _end(api, response, text)


def _end(api: str, response: httpx.Response, text: str) -> str:
    """Say how a response ended that was read to its end."""
    if not response.headers["content-type"].startswith("text/event-stream"):
        json.loads(text)
        return "answered" if response.status_code == 200 else "error"
    if not any(each in text for each in ENDS[api]):
        return f"{api}: a stream without an end"
    return "streamed"
