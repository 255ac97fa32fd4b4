"""What Rungwise is known by in environments of others: a name that no project has for a folder of its own.

The library itself is in the packages `fsm` and `adapters`; nothing here imports them before they are needed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

HOME = Path(__file__).resolve().parent.parent
PACKAGES = ("fsm", "adapters")


class ShadowedPackage(ImportError):
    """Say that a folder of somebody else's stands in the place of one of Rungwise's packages."""


def ours(name: str) -> ModuleType:
    """Import a module of Rungwise's own.

    Arguments:
        name: its full name, such as `adapters.client`.

    Raises:
        ShadowedPackage: Python finds another package by the name of one of Rungwise's, or has imported it before.
    """
    for package in PACKAGES:
        place = _place(package)
        if place is None or place.parent != HOME / package:
            raise ShadowedPackage(
                f"Rungwise needs its own package {package!r}, but Python finds {place or 'nothing'} by that name. "
                "Rename that folder of this project, or keep it off sys.path (pytest: --import-mode=importlib)."
            )
    return import_module(name)


def loaded(name: str) -> ModuleType | None:
    """Return a module of Rungwise's own if it has been imported; never imports it."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return module if file is not None and HOME / name.partition(".")[0] in Path(file).resolve().parents else None


def _place(package: str) -> Path | None:
    """Return the file that a package is, or would be, imported from."""
    module = sys.modules.get(package)
    spec = getattr(module, "__spec__", None) if module is not None else find_spec(package)
    origin = getattr(module, "__file__", None) or getattr(spec, "origin", None)
    if origin is None:
        folders = list(getattr(spec, "submodule_search_locations", None) or ())
        return Path(folders[0]).resolve() if folders else None
    return Path(origin).resolve()
