"""A process that runs durable calls, and may be killed: `python durable_child.py JSON`."""

import json
import os
import sys
from typing import Any

from rungwise import Client, OpenAIChat, Policy
from rungwise.adapters.durable.durable import Durable


def die_at(number: int) -> None:
    """Kill this process at a moment between two writes: even before the n-th write of a call, odd behind it."""
    from dbos import DBOS

    run_step, count = DBOS.run_step_async, 0

    async def counted(*given: Any) -> Any:
        nonlocal count
        if count == number:
            os._exit(9)
        result = await run_step(*given)
        if count + 1 == number:
            os._exit(9)
        count += 2
        return result

    DBOS.run_step_async = counted  # type: ignore[method-assign, assignment]


def main(given: dict[str, Any]) -> None:
    if "die_at" in given:
        die_at(given["die_at"])
    chain = [OpenAIChat("m", base_url=given["url"], api_key="sk-of-the-child")]
    client = Client(chain, policy=Policy.from_toml(given.get("policy", "")), jitter=lambda: 0.0, sleep=lambda _: None)
    with Durable(client, given["database"]) as durable:
        for id in given["ids"]:
            durable.start(id, given["messages"], **given.get("options", {}))
        for id in given["ids"]:
            print(durable.handle(id).result().text, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
