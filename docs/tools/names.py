"""Public names in backticks, and what they link to on the site."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import attrs

MODULES: Final = (
    "rungwise",
    "rungwise.core",
    "rungwise.testing",
    "rungwise.ui",
    "rungwise.otel",
    "rungwise.pytest_plugin",
)
"""The modules whose `__all__` makes a name public."""

CODE: Final = re.compile(r"(?<![`\[])`((?:rungwise\.)?[A-Za-z_]\w*(?:\.\w+)*)(\(\))?`(?!`)")
FENCED: Final = re.compile(r"^([ \t]*)```.*?^\1```$|^(?: {4}|\t)[^\n]*$", re.MULTILINE | re.DOTALL)


def public_names() -> Iterator[tuple[str, str]]:
    """Yield each public name with its module."""
    for module in MODULES:
        for name in import_module(module).__all__:
            yield name, module


def link_names(text: str, home: str = "", *, indented_code: bool = True) -> str:
    """Turn each public name in backticks into a reference, outside of code blocks.

    Arguments:
        text: Markdown.
        home: a public module, whose names link even where they are no class names.
        indented_code: whether four blanks begin a block of code; in a list they do not.
    """
    fenced = [
        each
        for each in FENCED.finditer(text)
        if indented_code or each[0].lstrip().startswith("```")
    ]
    begin = 0
    parts = []
    for block in fenced:
        parts += [
            CODE.sub(lambda found: _linked(found, home), text[begin : block.start()]),
            block[0],
        ]
        begin = block.end()
    return "".join(parts) + CODE.sub(lambda found: _linked(found, home), text[begin:])


def _linked(found: re.Match[str], home: str) -> str:
    target = target_of(found[1], home)
    return f"[{found[0]}][{target}]" if target else found[0]


def target_of(name: str, home: str = "") -> str | None:
    """Return the identifier that a name stands under on the site, or None if it is no public
    one.
    """
    first, _, rest = name.partition(".")
    if first == "rungwise":
        return _target(name)
    modules = [module for public, module in public_names() if public == first]
    if not modules or (first.islower() and not rest and modules[0] != home):
        return None
    return _target(f"{modules[0]}.{name}")


def _target(path: str) -> str | None:
    """Return the identifier of an object; the fields of a class stand under the class."""
    module, names = _module_of(path)
    value: Any = module
    for depth, name in enumerate(names):
        if depth and not inspect.isclass(value):  # what a value has stands under the value
            return ".".join([module.__name__, *names[:depth]]) if hasattr(value, name) else None
        if inspect.isclass(value) and name not in vars(value):
            known = name in _fields(value) or hasattr(value, name)
            return ".".join([module.__name__, *names[:depth]]) if known else None
        if inspect.isclass(value) and name in _fields(value):
            return ".".join([module.__name__, *names[:depth]])
        if not hasattr(value, name):
            return None
        value = getattr(value, name)
    return path


def _module_of(path: str) -> tuple[Any, list[str]]:
    """Split a path into the longest module that it begins with, and the names below it."""
    names = path.split(".")
    module = import_module(names[0])
    for depth in range(1, len(names)):
        try:
            module = import_module(".".join(names[: depth + 1]))
        except ModuleNotFoundError:
            return module, names[depth:]
    return module, []


def _fields(value: type) -> set[str]:
    """Name the fields of a class."""
    fields = {each.name for each in attrs.fields(value)} if attrs.has(value) else set()
    return fields | set(inspect.get_annotations(value))
