"""What a request asks, as a call takes it, and how the fields of a protocol are declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import Factory, define, field, frozen

from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.errors import ConfigurationError


@define
class Asked:
    """Hold a request as a call takes it."""

    messages: Any = None  # in the form of their protocol
    options: dict[str, Any] = field(factory=dict)  # those that every protocol translates
    own: dict[str, Any] = field(factory=dict)  # parameters for backends of the same protocol
    returns: Any = None  # the schema of the answer
    unknown: list[str] = field(factory=list)  # the fields that a chain cannot express
    may_forward: bool = True  # whether a backend of the chain speaks the protocol

    def take_format(self, form: Any, name: str) -> None:
        """Take what form the answer must have, as chat completions or Responses say it."""
        kind = mapping_of(form).get("type")
        if kind == "json_schema":
            self.returns = mapping_of(form.get("json_schema", form)).get("schema")
            if not isinstance(self.returns, Mapping):
                raise ConfigurationError(f"{name} must hold a schema")
        elif kind == "json_object":
            self.options["response_format"] = {"type": "json_object"}
        elif kind != "text":
            self.unknown.append(name)


Take = Callable[[Asked, Any], None]
"""Take the value of a field."""


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


@frozen(kw_only=True)
class Fields:
    """Declare the fields of a protocol's requests. Names in one string are separated by blanks."""

    common: Mapping[str, str]  # the fields with a name in chat completions, by their own
    special: Mapping[str, Take]  # what takes each of the others
    # what a backend of the same protocol gets as it is
    own: frozenset[str] = field(converter=_names)
    # those of `own` without which no other backend may answer
    essential: frozenset[str] = field(default="", converter=_names)
    # what only an answer that is passed on word for word can hold; without a backend of the same
    # protocol, others answer without it
    answers: frozenset[str] = field(default="", converter=_names)
    # the values that ask for nothing, by field
    plain: Mapping[str, tuple[Any, ...]] = Factory(dict)
    # what takes fields of `own` for backends of other protocols
    foreign: Mapping[str, Take] = Factory(dict)

    def read(self, body: Mapping[str, Any], asked: Asked) -> Asked:
        """Read a body, or a part of one, into `asked`."""
        for name, value in body.items():
            if value is None or value in self.plain.get(name, ()):
                continue
            if name in self.special:
                self.special[name](asked, value)
            elif name in self.common:
                asked.options[self.common[name]] = value
            elif name in self.own or (name in self.answers and not asked.may_forward):
                asked.own[name] = value
            else:
                asked.unknown.append(name)
        return asked

    def leave(self, asked: Asked, own: Mapping[str, Any]) -> None:
        """Take what a backend of the same protocol would get, for a chain that begins with another.

        Each backend gets what it has a form for, and the rest is named in the journal.
        """
        for name, value in own.items():
            if name in self.foreign:
                self.foreign[name](asked, value)
            elif name in self.essential:
                asked.unknown.append(name)
            else:
                asked.own[name] = value
