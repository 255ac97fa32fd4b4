"""httpx by itself, with its own defaults but for the time limit and the number of connections."""

from collections.abc import Awaitable, Callable

import httpx

MESSAGES = [{"role": "user", "content": "What is a state machine?"}]
CUT = [*MESSAGES, {"role": "assistant", "content": "tok"}, {"role": "user", "content": "Go on."}]
BODY = {"model": "bench", "messages": MESSAGES}


def call(url: str) -> Callable[[], str]:
    """Post, and read the JSON."""
    client = httpx.Client(timeout=60)

    def one() -> str:
        answer: str = client.post(f"{url}/chat/completions", json=BODY).json()["choices"][0][
            "message"
        ]["content"]
        return answer

    return one


def acall(url: str, connections: int = 100) -> Callable[[], Awaitable[str]]:
    """Do the same asynchronously."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    client = httpx.AsyncClient(timeout=60, limits=limits)

    async def one() -> str:
        response = await client.post(f"{url}/chat/completions", json=BODY)
        answer: str = response.json()["choices"][0]["message"]["content"]
        return answer

    return one


def stream(url: str, path: str = "chat/completions", requests: int = 1) -> Callable[[], str]:
    """Read the raw bytes of a stream, or of one that is cut and of the one that goes on from
    there.
    """
    client = httpx.Client(timeout=60)
    bodies = [
        {
            **BODY,
            "messages": messages,
            "stream": True,
        }
        for messages in (MESSAGES, CUT)[:requests]
    ]

    def one() -> str:
        count = 0
        for body in bodies:
            with client.stream("POST", f"{url}/{path}", json=body) as response:
                for piece in response.iter_bytes():
                    count += len(piece)
        return f"tok: {count} bytes"

    return one
