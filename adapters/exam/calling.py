"""Call a function of a module with a question, in a process of its own, and print what it returns:
`python -m rungwise.adapters.exam.calling MODULE:NAME`.
"""

import asyncio
import inspect
import os
import sys
from importlib import import_module
from operator import attrgetter
from typing import Any

from rungwise.adapters.exam.answer import PROMPT


def main(named: str) -> None:
    """Import a function, sync or async, and call it; what it raises is the caller's to see."""
    module, _, name = named.partition(":")
    sys.path.insert(0, os.getcwd())
    function = attrgetter(name)(import_module(module))
    came = function([{"role": "user", "content": PROMPT}])
    if inspect.isawaitable(came):
        came = asyncio.run(_result(came))
    print(came)


async def _result(came: Any) -> Any:
    return await came


if __name__ == "__main__":
    main(sys.argv[1])
