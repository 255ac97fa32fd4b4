"""What models and servers can do: the table, asked for one model at one place."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from rungwise.adapters.capability import Capabilities
from rungwise.adapters.capability_rows import CAPABILITIES

__all__ = ["Capabilities", "capabilities_of"]


@lru_cache(maxsize=256)
def capabilities_of(api: str, base_url: str, model: str) -> Capabilities:
    """Return what is known of a model at a place.

    Arguments:
        api: the protocol, as the command line calls it.
        base_url: where it is.
        model: its id.
    """
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        host = ""
    known = Capabilities()
    for row in CAPABILITIES:
        if row.fits(api, host, model.lower()):
            known = known.or_else(row.known)
    return known
