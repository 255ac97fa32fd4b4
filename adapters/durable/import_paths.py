"""Functions and classes by their import paths, as a database holds them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from pydantic import TypeAdapter

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.schemas.returns import returns_of

PATH: Final = "import path"
"""The one member of what stands for a function or class, by which another process finds it."""


def plain_returns(returns: Any) -> Any:
    """Return a schema as it is, a class that can be imported by its path, and the schema of any
    other type.
    """
    if returns is None or isinstance(returns, Mapping):
        return returns
    returns_of(returns)  # which says what is wrong with it
    with suppress(ConfigurationError):
        return {PATH: path_of(returns, "returns")}
    return TypeAdapter(returns).json_schema()


def path_of(value: Any, what: str) -> str:
    """Return the import path of a function or class, or raise a ConfigurationError if it has
    none.
    """
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", "")
    has_path = module not in (None, "__main__") and name and "<" not in name
    if not has_path or found(f"{module}:{name}", what) is not value:
        raise ConfigurationError(
            f"{what} must stand at the top of a module that can be imported: another process may "
            f"have to find it"
        )
    return f"{module}:{name}"


def found(path: str, what: str) -> Any:
    """Return what stands at an import path, or raise a ConfigurationError if nothing does."""
    module, _, name = path.partition(":")
    try:
        value: Any = import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{what} {path!r} cannot be imported: {error}") from None
    return value


def at_path(plain: Any, what: str) -> Any:
    """Return the function or class that a mapping with its path stands for, and anything else
    unchanged.
    """
    return found(plain[PATH], what) if isinstance(plain, Mapping) and PATH in plain else plain
