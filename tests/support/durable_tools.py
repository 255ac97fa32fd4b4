"""Tools of durable turns, in a module that every process finds. They note that they ran, and may
end their process.
"""

import os
from pathlib import Path

from rungwise import Tool


def note(name: str) -> None:
    """Note that a tool runs, and end the process here if the test says so."""
    with Path(os.environ["DURABLE_LOG"]).open("a") as log:
        log.write(f"{name}\n")
    if os.environ.get("DURABLE_DIE_IN") == name:
        os._exit(9)


def ring(bird: str) -> str:
    """Put a ring on a bird."""
    note(f"ring {bird}")
    return f"the {bird} is ringed"


async def look(bird: str) -> dict[str, str]:
    """Look at a bird."""
    note(f"look {bird}")
    return {bird: "grey"}


TOOLS = [ring, Tool(look, repeatable=True)]
PAID = [Tool(ring, needs_approval=True)]
