"""A process that runs durable calls and turns, and may be killed: `python durable_child.py
JSON`.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1])

from rungwise import (  # noqa: E402  (the folder must be found first)
    Budget,
    Client,
    GeminiInteractions,
    OpenAIChat,
    OpenAIResponses,
    Policy,
    SharedBudget,
)
from rungwise.adapters.durable.durable import Durable  # noqa: E402
from rungwise.adapters.durable.forms import plain_event  # noqa: E402
from rungwise.testing import Clocks  # noqa: E402
from support import durable_tools  # noqa: E402


def die_at(number: int) -> None:
    """Kill this process at a moment between two writes: even before the n-th write of a call, odd
    behind it.
    """
    from dbos import DBOS

    run_step = DBOS.run_step_async
    count = 0

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
    kinds = {"responses": OpenAIResponses, "interactions": GeminiInteractions}
    kind: Any = OpenAIChat
    kept = {}
    if "kept" in given:
        kind = kinds[given["kept"]]
        kept["background"] = True
    chain = [kind("m", base_url=given["url"], api_key="sk-of-the-child", **kept)]
    client = Client(
        chain,
        policy=Policy.from_toml(given.get("policy", "")),
        testing=Clocks(jitter=lambda: 0.0, sleep=lambda _: None),
        stream_calls=given.get("stream_calls", True),
    )
    options = given.get("options", {})
    if "within" in given:
        ceilings = Budget(**given["within"])
        options["within"] = SharedBudget(ceilings, name="everything", per=given.get("per"))
    with Durable(client, given["database"], modules=["support"]) as durable:
        for id in given["ids"]:
            if given.get("is_stream"):
                for event in durable.stream(id, given["messages"], **options):
                    print(json.dumps(plain_event(event)), flush=True)
            elif given.get("is_turn"):
                durable.start_turn(id, given["messages"], tools=durable_tools.TOOLS)
            else:
                durable.start(id, given["messages"].format(id=id), **options)
        for id in given["ids"]:
            print(durable.handle(id).result().text, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
