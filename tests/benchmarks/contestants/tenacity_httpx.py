"""httpx under tenacity, as many write it themselves: three attempts, exponential waits, then
another model.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential

MESSAGES = [{"role": "user", "content": "What is a state machine?"}]
MODELS = ("bench", "backup")


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)


again: Any = retry(
    retry=retry_if_exception(_may_pass),
    stop=stop_after_attempt(3),
    wait=wait_random_exponential(max=60),
    reraise=True,
)


def _either(ask: Any) -> Callable[[], str]:
    """Ask one model, and then the other."""

    def one() -> str:
        try:
            return str(ask(MODELS[0]))
        except httpx.HTTPError:
            return str(ask(MODELS[1]))

    return one


def call(url: str) -> Callable[[], str]:
    """Post, and read the JSON."""
    client = httpx.Client(timeout=60)

    @again
    def ask(model: str) -> str:
        response = client.post(
            f"{url}/chat/completions", json={"model": model, "messages": MESSAGES}
        )
        answer: str = response.raise_for_status().json()["choices"][0]["message"]["content"]
        return answer

    return _either(ask)


def acall(url: str, connections: int = 100) -> Callable[[], Awaitable[str]]:
    """Do the same asynchronously."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    client = httpx.AsyncClient(timeout=60, limits=limits)

    @again
    async def ask(model: str) -> str:
        response = await client.post(
            f"{url}/chat/completions", json={"model": model, "messages": MESSAGES}
        )
        answer: str = response.raise_for_status().json()["choices"][0]["message"]["content"]
        return answer

    async def one() -> str:
        try:
            return str(await ask(MODELS[0]))
        except httpx.HTTPError:
            return str(await ask(MODELS[1]))

    return one


def stream(url: str) -> Callable[[], str]:
    """Gather the text of a stream; what is cut begins anew."""
    client = httpx.Client(timeout=60)

    @again
    def ask(model: str) -> str:
        body = {
            "model": model,
            "messages": MESSAGES,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        text = []
        with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            for line in response.raise_for_status().iter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    text += [choice["delta"].get("content") or "" for choice in choices]
        return "".join(text)

    return _either(ask)
