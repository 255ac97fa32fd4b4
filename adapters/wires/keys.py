"""Which variable of the environment holds whose key, and the one place that each key is sent to."""

from __future__ import annotations

import os

from rungwise.adapters.wires.endpoint import as_secret, check_key
from rungwise.adapters.wires.registry import WIRES
from rungwise.fsm.values.secret import Secret


def variables_of(origin: str) -> tuple[str, ...]:
    """Return the variables that may hold the key for a place; none for a place that no provider owns, or without TLS.

    Arguments:
        origin: its scheme and host, with the port where that is not the scheme's own.
    """
    places = (place for wire in WIRES.values() for place in wire.keys)
    return next((place.variables for place in places if place.origin.fullmatch(origin)), ())


def key_of_environment(origin: str) -> Secret | None:
    """Return the key that the environment holds for a provider, to its own host alone, and over TLS alone.

    Raises:
        ConfigurationError: the variable holds what no header can hold.
    """
    for variable in variables_of(origin):
        key: Secret | None = as_secret(os.environ.get(variable))
        check_key(None, None, key, where=variable)
        if key:
            return key
    return None
