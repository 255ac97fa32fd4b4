"""Public names that are imported when they are first used, and listed once: where type checkers
read them.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module


def lazy_names(
    module: str, *, others: Sequence[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a module that lists its names below `if
    TYPE_CHECKING:`.

    The error for an unknown name points to the others, modules with public names of their own.
    """
    homes = _homes(module)
    public = sorted(name for name, home in homes.items() if home != module)

    def get(name: str) -> object:
        if name not in homes:
            for other in others if not name.startswith("_") else ():
                if name in import_module(other).__all__:
                    raise AttributeError(f"{module}.{name} is now {other}.{name}")
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home = homes[name]
        if home == module:
            return import_module(f"{module}.{name}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[module], name, value)
        return value

    return get, lambda: public, public


def _homes(module: str) -> dict[str, str]:
    """Map each listed name to the module that defines it."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    [listed] = [node.body for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in listed if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(each.module) for each in imports for alias in each.names}
