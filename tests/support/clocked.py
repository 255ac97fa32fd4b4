"""Options of clients whose clocks, waits and draws are those of a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rungwise.testing import Clocks

FIELDS = frozenset(attrs.fields_dict(Clocks))


def clocked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a client: those among them that `Clocks` has go into its `testing`."""
    own = {name: value for name, value in options.items() if name in FIELDS}
    others = {name: value for name, value in options.items() if name not in FIELDS}
    if own:
        others["testing"] = attrs.evolve(others.get("testing") or Clocks(), **own)
    return others
