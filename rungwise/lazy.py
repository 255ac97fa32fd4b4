"""Public names that are imported when they are first used.

`import rungwise` must be fast, and its names must be known to type checkers. So a module lists its
names once, as imports below `if TYPE_CHECKING:`, and `lazy_names` reads that list from its source.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module


def lazy_names(
    module: str, *, others: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a module.

    Arguments:
        module: its name; it lists its public names below `if TYPE_CHECKING:`.
        others: modules with public names of their own; the error for an unknown name points there.
    """
    homes = _homes(module)
    public = sorted(name for name, home in homes.items() if home != module)

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(_unknown(module, name, others))
        home = homes[name]
        if home == module:
            return import_module(f"{module}.{name}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[module], name, value)
        return value

    return get, lambda: public, public


def _unknown(module: str, name: str, others: Sequence[str]) -> str:
    """Say that a module has no such name, or where the name is now."""
    if not name.startswith("_"):
        for other in others:
            if name in import_module(other).__all__:
                return f"{module}.{name} is now {other}.{name}"
    return f"module {module!r} has no attribute {name!r}"


def _homes(module: str) -> dict[str, str]:
    """Map each listed name to the module that defines it."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    [listed] = [node.body for node in tree.body if isinstance(node, ast.If)]
    homes: dict[str, str] = {}
    for node in listed:
        if isinstance(node, ast.ImportFrom):
            homes.update({alias.name: str(node.module) for alias in node.names})
    return homes
