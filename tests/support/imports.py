"""The modules of the package, and what each imports of the others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]


@attrs.frozen(kw_only=True)
class Import:
    """One import of one of our modules by another."""

    by: str
    of: str
    is_late: bool
    is_for_types: bool


def modules() -> dict[str, Path]:
    """Return the file of each module of ours by its name."""
    found = {}
    for folder in ("fsm", "adapters", "rungwise"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "rungwise" in parts[1:] or (
                folder == "rungwise" and parts[1] in ("fsm", "adapters")
            ):
                continue  # a link, followed from Python 3.13 on
            name = ".".join(part for part in parts if part != "__init__")
            found[name if folder == "rungwise" else f"rungwise.{name}"] = path
    return found


MODULES = modules()


def room_of(module: str) -> str:
    """Return the room of a module: a folder or file of `fsm/` or `adapters/`, or `rungwise` for the
    face.
    """
    match module.split("."):
        case ["rungwise", "fsm", "replies", "parts" | "reply"]:
            return "replies"
        case ["rungwise", "fsm", ("engine" | "replies" | "analysis") as wing, room, *_]:
            return f"{wing}.{room}"
        case ["rungwise", "fsm", room, *_]:
            return room
        case ["rungwise", "adapters", room, *_]:
            return f"adapters.{room}"
        case ["rungwise", "fsm" | "adapters" as part, *_]:
            return part
        case _:
            return "rungwise"


@cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a source; what reads the whole package shares them."""
    return ast.parse(source)


def imports_in(by: str, source: str) -> Iterator[Import]:
    """List a module's imports of the package: at the top, inside functions, and for types only."""

    def visit(node: ast.AST, is_late: bool, is_for_types: bool) -> Iterator[Import]:
        for of in _named_by(node):
            yield Import(
                by=by,
                of=of,
                is_late=is_late,
                is_for_types=is_for_types,
            )
        is_late |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        is_guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.iter_child_nodes(node):
            for_types = is_guard and child in node.body
            yield from visit(child, is_late, is_for_types or for_types)

    yield from visit(parsed(source), False, False)


def _named_by(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.Import(names):
            named = [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            full = [f"{module}.{alias.name}" for alias in names]
            named = [name if name in MODULES else module for name in full]
        case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(name))]):
            named = [name]
        case _:
            return ()
    return dict.fromkeys(name for name in named if name in MODULES)


def in_circles(given: Iterable[Import]) -> set[str]:
    """Return the modules that import themselves through others."""
    leads: dict[str, set[str]] = {}
    for each in given:
        leads.setdefault(each.by, set()).add(each.of)

    def reached_from(start: str) -> set[str]:
        reached: set[str] = set()
        ahead = [start]
        while ahead:
            new = leads.get(ahead.pop(), set()) - reached
            reached |= new
            ahead += new
        return reached

    return {name for name in leads if name in reached_from(name)}
