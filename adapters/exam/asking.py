"""Ask a gateway once, as a plain and strict client, in a process of its own, and print the answer:
`python -m rungwise.adapters.exam.asking URL MODEL [KEY_VARIABLE]`.

It asks for a stream of chat completions, never asks again, and takes nothing for an answer whose
end it has not seen. So what it shows is what the gateway made of its upstream.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from rungwise.adapters.exam.answer import PROMPT

SECONDS = 300.0


def main(url: str, model: str, variable: str = "OPENAI_API_KEY") -> None:
    """Print the text of an answer as it comes."""
    is_over = False
    for event in events(url, model, os.environ.get(variable, "")):
        if "error" in event:
            sys.exit("the gateway sent an error inside the stream")
        for choice in event.get("choices") or ():
            print((choice.get("delta") or {}).get("content") or "", end="", flush=True)
            is_over = is_over or bool(choice.get("finish_reason"))
            if choice.get("finish_reason") == "length":
                sys.exit("the gateway said that the answer is cut")
    if not is_over:
        sys.exit("the stream broke off")


def events(url: str, model: str, key: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream."""
    message = {"role": "user", "content": PROMPT}
    body = {"model": model, "messages": [message], "stream": True}
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    place = f"{url.rstrip('/').removesuffix('/v1')}/v1/chat/completions"
    request = Request(place, json.dumps(body).encode(), headers)
    try:
        with urlopen(request, timeout=SECONDS) as response:
            for line in response:
                data = line.decode().strip().removeprefix("data:").strip()
                if data.startswith("{"):
                    yield json.loads(data)
    except HTTPError as error:
        sys.exit(f"the gateway answered with status {error.code}")


if __name__ == "__main__":
    main(*sys.argv[1:])
