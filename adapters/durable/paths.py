"""Functions and classes by their import paths, by which another process finds them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from rungwise.fsm.errors import ConfigurationError

PATH: Final = "import path"
"""The one member of what stands for a function or class."""


def path_of(value: Any, what: str) -> str:
    """Return the import path of a function or class.

    Raises:
        ConfigurationError: it has none.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module in (None, "__main__") or not name or "<" in name or found(f"{module}:{name}", what) is not value:
        raise ConfigurationError(
            f"{what} must stand at the top of a module that can be imported: another process may have to find it"
        )
    return f"{module}:{name}"


def found(path: str, what: str) -> Any:
    """Return what stands at an import path.

    Raises:
        ConfigurationError: nothing does.
    """
    module, _, name = path.partition(":")
    try:
        value: Any = import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{what} {path!r} cannot be imported: {error}") from None
    return value


def plain_path(value: Any, what: str) -> dict[str, str]:
    """Return what stands for a function or class; raises what `path_of` does."""
    return {PATH: path_of(value, what)}


def at_path(plain: Any, what: str) -> Any:
    """Return what `plain_path` stands for, and anything else unchanged; raises what `found` does."""
    return found(plain[PATH], what) if isinstance(plain, Mapping) and PATH in plain else plain
