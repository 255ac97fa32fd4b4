"""What the folder of a protocol declares about it; `registry` gathers these declarations."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from rungwise.adapters.wires.capabilities.capability import CapabilityRow
from rungwise.fsm.values.patterns import Pattern


def _origin(host: str) -> Pattern:
    return Pattern(rf"https://(?:{host})")


@frozen
class KeyPlace:
    """Say where a provider's key belongs.

    Arguments:
        origin: a regular expression that matches the whole host; the scheme is https, without a port.
        variables: the environment variables that hold the key; the first one that is set counts.
    """

    origin: Pattern = field(converter=_origin)
    variables: tuple[str, ...]


@frozen(kw_only=True)
class Wire:
    """Declare a protocol.

    Arguments:
        protocol: its name for people.
        client: the Python expression that points the provider's own client at a server, with `{!r}` for the URL.
        client_base: the path of the base URL that this client expects.
        client_path: the path of one of its requests.
        keys: where the keys belong of the providers that speak it.
        capabilities: rows of the capability table that hold for this protocol alone.
        members: what Rungwise reads of each kind of message part and of tools in this protocol's form, by kind, the
            names separated by blanks.
    """

    protocol: str
    client: str
    client_base: str = ""
    client_path: str
    keys: tuple[KeyPlace, ...] = ()
    capabilities: tuple[CapabilityRow, ...] = ()
    members: Mapping[str, str] = field(factory=dict)
