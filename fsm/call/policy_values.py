"""Build a policy, of calls or of turns, from TOML or from plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import attrs

from rungwise.fsm.call.limits import Limits
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import path_of
from rungwise.fsm.values.files import read_toml
from rungwise.fsm.values.label import did_you_mean, short

T = TypeVar("T", bound=attrs.AttrsInstance)

OF_CHAINS = ("prices", "chain", "health", "key")
"""The tables of a file about whom a policy runs against, and for whom. They are no part of it; the
commands read them.
"""


def unknown(what: str, name: object, names: Any) -> str:
    """Say that a name is unknown, and which was meant: `unknown limit 'retry'; did you mean ...`.

    Arguments:
        what: what the name is of: `key`, `limit`, `rung`.
        name: the unknown name.
        names: the known ones.
    """
    hint = did_you_mean(name, names, f"there are: {', '.join(names)}")
    return f"unknown {what} {short(name)}; {hint}"


def from_toml(kind: type[T], text: str, source: str, **extra: Any) -> T:
    """Build a policy from TOML.

    Arguments:
        kind: the class of the policy.
        text: the TOML.
        source: the name of the text, for errors.
        extra: values that TOML cannot hold: the table of a policy.

    Raises:
        ConfigurationError: the text is no TOML, or a key or value is wrong.
    """
    try:
        values = {name: each for name, each in read_toml(text).items() if name not in OF_CHAINS}
        return from_mapping(kind, values, OF_CHAINS, **extra)
    except ConfigurationError as error:
        raise ConfigurationError(f"{source}: {error}") from None


def from_mapping(
    kind: type[T], values: Mapping[str, Any], others: Iterable[str] = (), **extra: Any
) -> T:
    """Build a policy or one of its parts from plain values, or raise a ConfigurationError.

    Arguments:
        kind: the class of the policy, or of the part.
        values: its fields by name; a part is a mapping itself.
        others: keys that may stand beside these and are read elsewhere.
        extra: values that TOML cannot hold: the table of a policy.
    """
    if not isinstance(values, Mapping):
        raise ConfigurationError(
            f"{kind.__name__} must be a table of keys, not {type(values).__name__}"
        )
    if issubclass(kind, Limits):
        return kind(**values)
    values = _with_preset(kind, values)
    names = [attribute.name for attribute in attrs.fields(kind) if attribute.name != "table"]
    parts: Mapping[str, type[Any]] = getattr(kind, "parts", {})
    built: dict[str, Any] = dict(extra)
    for name, value in values.items():
        if name not in names:
            path = path_of(kind, name)
            what = unknown("key", name, [*names, *others])
            if isinstance(value, list) and "chain" in others:
                what = f"unknown key {short(name)}: write [[chain.{name}]] for a backend"
            elif path:
                what = f"unknown key {short(name)}: it stands below [{'.'.join(path)}]"
            raise ConfigurationError(f"{kind.__name__}: {what}")
        if name not in parts:
            built[name] = value
        elif isinstance(value, Mapping):
            built[name] = from_mapping(parts[name], value)
        else:
            raise ConfigurationError(
                f"{kind.__name__}.{name} must be a table of keys, as in [{name}]"
            )
    return kind(**built)


def _with_preset(kind: type[Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values on top of the preset that they name; parts are merged key by key."""
    presets: Mapping[str, Mapping[str, Any]] = getattr(kind, "presets", {})
    if "preset" not in values or not presets:
        return values
    name = values["preset"]
    if not isinstance(name, str) or name not in presets:
        raise ConfigurationError(f"{kind.__name__}: {unknown('preset', name, presets)}")
    preset = presets[name]
    merged = {**preset, **values}
    del merged["preset"]
    for field, value in preset.items():
        if isinstance(value, Mapping) and isinstance(merged[field], Mapping):
            merged[field] = {**value, **merged[field]}
    return merged
