"""A griffe extension: docstrings as the site needs them.

It links the public names in backticks, and gives each of several arguments that share a line a line
of its own, which griffe-fieldz then finds.
"""

import re
from typing import Any, Final

from griffe import Extension, Object

from docs.tools.names import MODULES, link_names

SHARED: Final = re.compile(r"^( {4})(\w+(?:, \w+)+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


class Docstrings(Extension):
    """Rewrite each docstring before it is parsed."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object as soon as it was read, before griffe-fieldz parses
        it.
        """
        if obj.docstring is not None:
            home = obj.path if obj.path in MODULES else ""
            obj.docstring.value = link_names(
                split_shared(obj.docstring.value), home, indented_code=obj.is_module
            )


def split_shared(docstring: str) -> str:
    """Write `a, b: what they are` as two arguments."""
    return SHARED.sub(_split, docstring)


def _split(found: re.Match[str]) -> str:
    indent, names, text = found.groups()
    return "\n".join(f"{indent}{name}: {text}" for name in names.split(", "))
