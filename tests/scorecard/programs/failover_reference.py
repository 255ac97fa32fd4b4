"""A client by the rules that Failover Bench states for its reference client; `direct` as the only
argument takes those of its control row: one request to one model.

429, 5xx, a broken connection: up to three attempts, after the time that was asked for or a backoff;
then the next model. Silence and any other 4xx: the next model at once. A content filter: its error.
"""

import json
import os
import random
import sys
import time

import httpx

URL = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
IS_DIRECT = "direct" in sys.argv
AGAIN = (408, 409, 429, 500, 502, 503, 504)
LIMITS = httpx.Timeout(30 if IS_DIRECT else 10, connect=5)


def streamed(model: str) -> str:
    """Return the text of a stream; an event that is no JSON is passed over."""
    message = {"role": "user", "content": "What should a caller expect?"}
    body = {"model": model, "messages": [message], "stream": True}
    text = ""
    with httpx.stream("POST", URL, json=body, timeout=LIMITS) as response:
        if response.is_error:
            response.read()
        response.raise_for_status()
        for line in response.iter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line.removeprefix("data: ")).get("choices", ()):
                    text += choice["delta"].get("content") or ""
    return text


def asked(models: list[str], attempts: int) -> str:
    """Return the first answer of these models, each of which is asked so often."""
    last: httpx.HTTPError = httpx.ConnectError("no model")
    for model in models:
        for attempt in range(attempts):
            try:
                return streamed(model)
            except httpx.TimeoutException as error:
                last = error
                break
            except httpx.HTTPStatusError as error:
                last = error
                if "content_policy_violation" in error.response.text:
                    sys.exit(error.response.text)
                if error.response.status_code not in AGAIN:
                    break
                wait = error.response.headers.get("retry-after", "")
            except httpx.HTTPError as error:
                last = error
                wait = ""
            if attempt + 1 < attempts:
                backoff = 0.5 * 2**attempt * random.uniform(0.8, 1.2)
                time.sleep(min(float(wait), 10) if wait else backoff)
    sys.exit(f"error: {last}")


if IS_DIRECT:
    print(asked(["first"], 1))
else:
    print(asked(["first", "next"], 3))
