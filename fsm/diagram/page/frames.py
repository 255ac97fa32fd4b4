"""The pages of the runs within a run, inside the one file of its own page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import orjson

from rungwise.fsm.diagram.page.markup import Page, shell


def frames_data(pages: Sequence[Page | None]) -> dict[str, Any]:
    """Return what a script needs to write each page when it is opened; what they have in common is there once.

    Arguments:
        pages: the pages; None where there is nothing to show.
    """
    pool: dict[str, int] = {}
    machines: dict[bytes, int] = {}
    written: list[dict[str, Any] | None] = []
    for page in pages:
        if page is None:
            written.append(None)
            continue
        rest = dict(page.data)
        machine = orjson.dumps(rest.pop("machine"), default=dict)
        written.append(
            {
                "title": escape(page.title),
                "parts": [pool.setdefault(part, len(pool)) for part in page.parts],
                "machine": machines.setdefault(machine, len(machines)),
                "data": rest,
            }
        )
    return {
        "shell": shell(),
        "pool": list(pool),
        "machines": [orjson.Fragment(machine) for machine in machines],
        "pages": written,
    }
