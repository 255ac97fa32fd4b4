"""Whole chat completions over bare sockets: what the caller of a proxy waits for, without what an
HTTP client costs.
"""

import asyncio
import os
import statistics
import time
from typing import Any
from urllib.parse import urlsplit

from benchmarks.processors import keep_to

BODY = b'{"model": "bench", "messages": [{"role": "user", "content": "What is a state machine?"}]}'


def begin() -> None:
    """Keep to the first processor, where the server is: the last one belongs to the proxies."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    keep_to(0)


def knock(url: str, connections: int, seconds: float) -> dict[str, Any]:
    """Call for some seconds on as many connections, one call after another on each.

    Returns:
        How many calls were answered as they should be, how many were not, how many connections it
        took, the calls a second, and the median of their seconds.
    """
    return asyncio.run(_knock(url, connections, seconds))


def pace(url: str, a_second: int, seconds: float) -> dict[str, Any]:
    """Call so many times a second, whether or not the calls before have been answered.

    Returns:
        How many calls were answered, how many were not, and the median and the 99th percentile of
        their seconds, each from when it was due.
    """
    return asyncio.run(_pace(url, a_second, seconds))


async def _pace(url: str, a_second: int, seconds: float) -> dict[str, Any]:
    place = urlsplit(url)
    request = _request(url)
    times: list[float] = []
    failed: list[bytes] = []
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call_at(due: float) -> None:
        await asyncio.sleep(due - time.perf_counter())
        if free:
            reader, writer = free.pop()
        else:
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(request)
        answer = await _answer(reader)
        if b" 200 " in answer[:16] and b"tok00000" in answer:
            times.append(time.perf_counter() - due)
        else:
            failed.append(answer)
        free.append((reader, writer))

    begins = time.perf_counter() + 0.1
    calls = int(a_second * seconds)
    await asyncio.gather(*(call_at(begins + number / a_second) for number in range(calls)))
    for _, writer in free:
        writer.close()
    times.sort()
    return {
        "calls": len(times),
        "failed": len(failed),
        "connections": len(free),
        "median": statistics.median(times) if times else 0.0,
        "p99": times[int(len(times) * 0.99)] if times else 0.0,
    }


def _request(url: str) -> bytes:
    place = urlsplit(url)
    head = (
        f"POST {place.path}/chat/completions HTTP/1.1\r\nhost: {place.netloc}\r\nauthorization: "
        f"Bearer sk-1f38\r\n"
        f"content-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
    ).encode()
    return head + BODY


async def _knock(url: str, connections: int, seconds: float) -> dict[str, Any]:
    place = urlsplit(url)
    request = _request(url)
    times: list[float] = []
    failed: list[bytes] = []
    opened = 0

    async def call_on(until: float) -> None:
        nonlocal opened
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        opened += 1
        while (start := time.perf_counter()) < until:
            writer.write(request)
            answer = await _answer(reader)
            if b" 200 " in answer[:16] and b"tok00000" in answer:
                times.append(time.perf_counter() - start)
            else:
                failed.append(answer)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(call_on(began + seconds) for _ in range(connections)))
    elapsed = time.perf_counter() - began
    return {
        "calls": len(times),
        "failed": len(failed),
        "why": failed[0][-300:].decode("utf-8", "replace") if failed else "",
        "connections": opened,
        "a_second": len(times) / elapsed,
        "median": statistics.median(times) if times else 0.0,
    }


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        return head + await reader.readuntil(b"0\r\n\r\n")
    length = int(lower.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    return head + await reader.readexactly(length)
