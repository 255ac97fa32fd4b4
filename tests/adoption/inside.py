"""Run a program once for each fault and way, in an environment of its library: `python -m
adoption.inside SETTING`.

The setting is a file of JSON: the program, the provider's and the proxy's address, the scale, and
the calls, each with its way, its fault and the two models of its chain. What each call printed is
written to its `output`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import runpy
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from failover.scaling import scaled
from rungwise import Client, OpenAIChat, Policy

AT_ONCE: Final = 6
KEYS: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY")


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Make every call that the program has a way for, and return what came of each."""
    policy = scaled(Policy.interactive(), setting["scale"])
    with asyncio.Runner() as runner, ThreadPoolExecutor(AT_ONCE) as threads:
        ended = []
        begun = []
        for call in setting["calls"]:
            chain = [OpenAIChat(model, base_url=setting["provider"]) for model in call["models"]]
            client = Client(chain, policy=policy)
            stage: Any = SimpleNamespace(
                client=client, PROXY=setting["proxy"], MODEL=call["models"][0]
            )
            sys.modules["chain"] = stage
            way = runpy.run_path(setting["program"]).get(call["way"])
            if way is not None and setting["alone"]:
                ended.append({**call, **_outcome(way, runner.run)})
                _forget_clients()
            elif way is not None:
                begun.append((call, threads.submit(_outcome, way, asyncio.run)))
        return [*ended, *({**call, **came.result()} for call, came in begun)]


def _outcome(way: Callable[[], Any], run: Callable[[Any], Any]) -> dict[str, Any]:
    try:
        return {"text": run(way()) if inspect.iscoroutinefunction(way) else way()}
    except Exception as error:
        kind = type(error)
        return {"error": f"{kind.__module__.partition('.')[0]}.{kind.__name__}", "says": str(error)}


def _forget_clients() -> None:
    """Have LiteLLM make its clients anew, which it keeps for the life of a process."""
    with suppress(ImportError, AttributeError):
        importlib.import_module("litellm").in_memory_llm_clients_cache.flush_cache()


if __name__ == "__main__":
    os.environ |= dict.fromkeys(KEYS, "none")
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(given["output"]).write_text(json.dumps(run(given)), encoding="utf-8")
