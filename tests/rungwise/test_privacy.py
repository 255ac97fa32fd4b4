"""Who reads another object's private members: nobody in another room.

A name that begins with one underscore belongs to the room of the class that defines it, so that a
room can change what it keeps to itself without looking at the others. What others need is a public
member with a docstring; of a client, `Client.runtime`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from rungwise.adapters.client import Client
from rungwise.adapters.runtime import Runtime
from support.imports import MODULES, parsed, room_of

ALLOWED = {
    "_asdict": "documented members of a NamedTuple, whose underscore keeps fields free",
    "_replace": "likewise",
    "_fields": "likewise",
    "_exit": "os._exit: the demo of crashes ends its process as a crash does",
    "_get_running_loop": "asyncio's, documented: asks without raising where no loop runs",
    "_transport": "httpx's: nothing public says over what a client sends",
    "_registry": "jsonschema's: its validator resolves references by it",
    "_resolver": "jsonschema's, of an older version: likewise",
    "_real_meter": "OpenTelemetry's: whether a proxy of a meter has an SDK behind it",
}
"""Private names of the standard library and of other packages, and why we use each."""


def is_private(name: str) -> bool:
    """Tell whether a name begins with exactly one underscore."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


def is_own(value: ast.expr) -> bool:
    """Tell whether an attribute is read from the object itself: `self`, `cls` or `super()`."""
    if isinstance(value, ast.Call):
        value = value.func
    return isinstance(value, ast.Name) and value.id in ("self", "cls", "super")


def defined_in(tree: ast.AST) -> Iterator[Any]:
    """List the private names that a module defines: methods, fields, slots, and members that its
    methods set on themselves.
    """
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, value=ast.Name("self" | "cls"), ctx=ast.Store()):
                yield name
            case ast.Assign(targets=[ast.Name("__slots__")], value=ast.Tuple(names)):
                yield from (each.value for each in names if isinstance(each, ast.Constant))


def read_in(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """List the private members that a module reads from other objects, or imports: the line, the
    name, and the source.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, value=value) if is_private(name) and not is_own(value):
                yield node.lineno, name, ast.unparse(node)
            case ast.ImportFrom(names=names):
                for each in names:
                    if is_private(each.name):
                        yield node.lineno, each.name, f"import of {each.name}"
            case ast.Call(
                func=ast.Name("getattr" | "setattr"), args=[value, ast.Constant(str(name)), *_]
            ):
                if is_private(name) and not is_own(value):
                    yield node.lineno, name, ast.unparse(node)


def trespasses(sources: dict[str, str]) -> list[str]:
    """List the places where a module reads what another room keeps to itself."""
    trees = {module: parsed(source) for module, source in sources.items()}
    own: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        own[room_of(module)].update(filter(is_private, defined_in(tree)))
    places = []
    for module, tree in trees.items():
        for line, name, source in read_in(tree):
            if name not in own[room_of(module)] and name not in ALLOWED:
                places.append(f"{module}, line {line}: {source}")
    return places


OWNER = "class Client:\n    def __init__(self):\n        self._options = {}\n"


@pytest.mark.parametrize(
    ("reader", "is_refused"),
    [
        ("def f(client): return client._options", True),
        ("def f(client): client._options['observer'] = 1", True),
        ("def f(client): return getattr(client, '_options')", True),
        ("from rungwise.adapters.client import _hidden", True),
        ("class Own:\n    def f(self): return self._own", False),
        ("def f(client): return client.runtime.__dict__", False),
        ("def f(pair): return pair._replace(a=1)", False),
    ],
)
def test_the_walk_sees_what_another_room_keeps_to_itself(reader: str, is_refused: bool) -> None:
    sources = {"rungwise.adapters.client": OWNER, "rungwise.adapters.telemetry.otel": reader}
    assert bool(trespasses(sources)) is is_refused


def test_a_room_may_read_what_it_keeps_itself() -> None:
    reader = "def f(client): return client._options"
    sources = {"rungwise.adapters.gateway.a": OWNER, "rungwise.adapters.gateway.b": reader}
    assert trespasses(sources) == []


def test_nobody_reads_what_another_room_keeps_to_itself() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
    places = trespasses(sources)
    assert not places, "\n".join(["make a public member with a docstring of it:", *places])


def test_the_seam_of_a_client_is_documented() -> None:
    names = [each.name for each in attrs.fields(Runtime)]
    assert "seam" in str(Runtime.__doc__)
    assert "runtime" in str(Client.__doc__)
    assert [name for name in names if f"{name}:" not in str(Runtime.__doc__)] == []
