"""Every protocol by its name on the command line, and the module and class of its backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Literal

from attrs import Factory, field, frozen

from rungwise.adapters.wires.capabilities.capability import CapabilityRow
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import Message, Part
from rungwise.fsm.values.patterns import Pattern

_WILDCARDS: Final = {
    ".": r"\.",
    "*": "[a-z0-9-]+",
    "REGION": r"[a-z]{2,4}(?:-[a-z]+)+-[0-9]+",
}


def _origins(place: KeyPlace) -> Pattern:
    """Return the pattern of the origins of some hosts; a key goes out over TLS only."""
    hosts = "|".join(place.hosts.split())
    pattern = Pattern(r"[.*]|REGION").sub(lambda sign: _WILDCARDS[sign[0]], hosts)
    return Pattern(f"https://(?:{pattern})")


@frozen
class KeyPlace:
    """Say which hosts a key belongs to."""

    # whole names; `*` stands for letters, digits and dashes in one label, REGION for an AWS region
    hosts: str
    # the environment variables that may hold the key; the first one that is set counts
    variables: tuple[str, ...]
    origins: Pattern = field(
        init=False, default=Factory(_origins, takes_self=True), repr=False, eq=False
    )


PartReader = Callable[[Mapping[str, Any]], Part | tuple[Part, ...] | None]
"""Read a part of a message; None if it cannot."""
MessageReader = Callable[[Mapping[str, Any]], tuple[Message, ...]]
"""Read a message."""


@frozen(kw_only=True)
class Wire:
    """Declare a protocol. Names in one string are separated by blanks."""

    protocol: str  # its name for people
    # the Python expression that points the provider's own client at a server, with `{!r}` for the
    # URL
    client: str
    client_base: str = ""  # the path of the base URL that this client expects
    client_path: str  # the path of one of its requests
    # the names of the parameters in a request's body, with the members of Gemini's
    # `generationConfig` and of Ollama's `options`; messages, tools, the model, the cap and the
    # common parameters apart
    parameters: str = ""
    extensions: str = ""  # the names of those that only some of its servers take
    keys: tuple[KeyPlace, ...] = ()  # where the keys of the providers that speak it belong
    # rows of the capability table that hold for this protocol alone
    capabilities: tuple[CapabilityRow, ...] = ()
    # the names of the members that Rungwise reads, by the kind of part; those of tools under "tool"
    members: Mapping[str, str] = field(factory=dict)
    # what reads the parts of its messages, by their type
    parts: Mapping[str, PartReader] = field(factory=dict)
    kinds: str = ""  # the types of its other parts, which no other protocol has a form for
    # the types of parts, or the members, that are reasoning or a signature for their provider alone
    sealed: str = ""
    # `parts` without a type, by their only member
    untyped_parts: Mapping[str, PartReader] = field(factory=dict)
    # What reads messages with a form of their own, by a member that no others have; "" is for those
    # without a role.
    messages: Mapping[str, MessageReader] = field(factory=dict)
    # what reads messages without a role that say what they are by their type
    items: Mapping[str, MessageReader] = field(factory=dict)
    calls: str = ""  # the types of parts that are tool calls
    results: str = ""  # the names of parts that are tool results, and may hold parts themselves
    definitions: str = ""  # the names of a tool's members that hold its definition
    marks: str = ""  # the types of parts that are nothing but a cache mark
    references: str = ""  # the types of messages that stand for something the server has stored


APIS: Final[Mapping[str, str]] = {
    "openai": "rungwise.adapters.wires.chat.backend:OpenAIChat",
    "responses": "rungwise.adapters.wires.responses.backend:OpenAIResponses",
    "anthropic": "rungwise.adapters.wires.anthropic.backend:Anthropic",
    "gemini": "rungwise.adapters.wires.gemini.backend:Gemini",
    "interactions": "rungwise.adapters.wires.interactions.backend:GeminiInteractions",
    "ollama": "rungwise.adapters.wires.ollama.backend:Ollama",
    "bedrock": "rungwise.adapters.wires.bedrock.backend:Bedrock",
}
"""The module and the class of each protocol's backends.

The module's package declares the protocol as `WIRE`.
"""


def folder_of(api: str) -> str:
    """Return the name of a protocol's folder."""
    return APIS[api].split(".")[-2]


class _Wires(Mapping[str, Wire]):
    """Import a declaration when it is first needed."""

    def __getitem__(self, api: str) -> Wire:
        return _wire_of(api)

    def __iter__(self) -> Iterator[str]:
        return iter(APIS)

    def __len__(self) -> int:
        return len(APIS)


@lru_cache(maxsize=64)
def _wire_of(api: str) -> Wire:
    package = APIS[api].partition(":")[0].rpartition(".")[0]
    wire = None
    if package:
        wire = getattr(import_module(package), "WIRE", None)
    if not isinstance(wire, Wire):
        raise ConfigurationError(
            f"the registry's {api!r} must be 'package.module:Class', and the package must declare "
            f"WIRE = Wire(...), which {package or repr(APIS[api])} does not"
        )
    return wire


WIRES: Final[Mapping[str, Wire]] = _Wires()
"""The declaration of each protocol, in the order of `APIS`."""


@lru_cache(maxsize=64)
def declared(
    name: Literal["calls", "results", "definitions", "marks", "references", "sealed"],
) -> frozenset[str]:
    """Return the names that any wire declares in a field."""
    names: set[str] = set()
    for wire in WIRES.values():
        names.update(getattr(wire, name).split())
    return frozenset(names)


def is_foreign(kind: str, api: str) -> bool:
    """Tell whether other protocols declare a type of parts, and this one does not."""

    def has(wire: Wire) -> bool:
        return kind in wire.parts or kind in wire.kinds.split()

    return not has(WIRES[api]) and any(map(has, WIRES.values()))


@lru_cache(maxsize=64)
def items_elsewhere(api: str) -> frozenset[str]:
    """Return the types of messages without a role that only protocols besides this one declare."""
    kinds: set[str] = set()
    for other, wire in WIRES.items():
        if other != api and wire.items:
            kinds.update(wire.items, wire.kinds.split())
    return frozenset(kinds)
