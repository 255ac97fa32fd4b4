"""What a page of code costs its reader, room by room. Words are free; nothing here counts lines.

A room is a folder of `fsm/` or `adapters/`, and in a wing each folder of its own. A line of code is
one that is neither blank nor a comment, a docstring or an import.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from support.imports import ROOT, parsed

WINGS = ("engine", "replies", "analysis", "call")
NO_CODE = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.COMMENT,
    tokenize.ENCODING,
}
COMPOUND = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.While,
    ast.With,
    ast.Try,
    ast.AsyncFor,
    ast.AsyncWith,
    ast.Import,
    ast.ImportFrom,
    ast.Match,
)
DISPLAYS = (ast.Dict, ast.List, ast.Tuple, ast.Set)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MARKS_OF_COMMANDS = ("overload", "click", "command", "option")


@attrs.define
class Cost:
    """Hold the counts of some files."""

    lines: int = 0
    code_lines: int = 0
    tokens: int = 0
    tokens_of_code_lines: int = 0  # those outside imports
    word_lines: int = 0
    statements: int = 0
    expressions: int = 0
    above_twenty: int = 0
    above_forty: int = 0
    stars: int = 0
    pairs: int = 0
    conditionals: int = 0
    unexplained: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            *(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True))
        )

    @property
    def tokens_a_line(self) -> float:
        """Tokens of code in a line of code."""
        return self.tokens_of_code_lines / max(1, self.code_lines)

    @property
    def expressions_a_statement(self) -> float:
        """Expressions in a simple statement."""
        return self.expressions / max(1, self.statements)

    @property
    def conditionals_a_thousand(self) -> float:
        """Conditional expressions in a thousand lines of code."""
        return 1000 * self.conditionals / max(1, self.code_lines)

    @property
    def share_of_words(self) -> float:
        """The share of lines that hold a docstring or a comment."""
        return self.word_lines / max(1, self.lines)


def cost_of(source: str) -> Cost:
    """Measure the source of one file."""
    tree = parsed(source)
    lines = source.splitlines()
    cost = Cost(lines=len(lines))
    tables = set(_tables_of_data(tree))
    for node in ast.walk(tree):
        _count_node(node, cost)
        if isinstance(node, ast.stmt) and not isinstance(node, COMPOUND) and not _is_text(node):
            size = sum(isinstance(each, ast.expr) for each in ast.walk(node))
            cost.statements += 1
            cost.expressions += size
            if node not in tables:
                cost.above_twenty += size > 20
                cost.above_forty += size > 40
    _count_lines(source, tree, cost)
    return cost


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _tables_of_data(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the constants of modules and classes that are displays, or calls of displays."""
    owners = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for each in (statement for owner in owners for statement in owner.body):
        if not isinstance(each, ast.Assign | ast.AnnAssign):
            continue
        parts: list[ast.expr | None] = [each.value]
        if isinstance(each.value, ast.Call):
            parts = [*each.value.args, *(word.value for word in each.value.keywords)]
        if any(isinstance(part, DISPLAYS) for part in parts):
            yield each


def _count_node(node: ast.AST, cost: Cost) -> None:
    match node:
        case ast.IfExp():
            cost.conditionals += 1
        case ast.Starred(value=ast.Tuple() | ast.List() | ast.IfExp()):
            cost.stars += 1
        case ast.Dict(keys, values):
            for key, value in zip(keys, values, strict=True):
                cost.stars += key is None and isinstance(value, ast.Dict | ast.IfExp)
        case ast.Assign(targets=targets, value=ast.Tuple()):
            cost.pairs += any(isinstance(target, ast.Tuple) for target in targets)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            cost.unexplained += _is_unexplained(node)
        case _:
            pass


def _is_unexplained(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a function takes four values or more and does not say what they are."""
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [each.arg for each in given if each.arg not in ("self", "cls")]
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    if node.name.startswith("__") or any(mark in decorators for mark in MARKS_OF_COMMANDS):
        return False
    return len(names) >= 4 and "Arguments:" not in (ast.get_docstring(node) or "")


def _spans(nodes: Iterable[ast.stmt]) -> set[int]:
    return {
        line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _count_lines(source: str, tree: ast.Module, cost: Cost) -> None:
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    texts = _spans(node for node in statements if _is_text(node))
    imports = _spans(node for node in statements if isinstance(node, ast.Import | ast.ImportFrom))
    comments: set[int] = set()
    by_line: dict[int, int] = defaultdict(int)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in NO_CODE and token.start[0] not in texts:
            cost.tokens += 1
            by_line[token.start[0]] += 1
    for number, line in enumerate(source.splitlines(), 1):
        text = line.strip()
        if not text:
            continue
        cost.word_lines += number in texts or number in comments
        if number not in texts and number not in imports and not text.startswith("#"):
            cost.code_lines += 1
            cost.tokens_of_code_lines += by_line[number]


def room_of(path: Path) -> str:
    """Return the room of a file, by its path in the checkout."""
    parts = path.parts
    if parts[0] == "tests":
        return "tests/support" if parts[1] == "support" else "tests"
    depth = 3 if len(parts) > 3 and parts[1] in WINGS else 2
    return "/".join(parts[:depth]) if len(parts) > 2 else parts[0]


def rooms(*tops: str) -> dict[str, Cost]:
    """Measure every room of some folders of the checkout."""
    found: dict[str, Cost] = defaultdict(Cost)
    for top in tops:
        for path in sorted((ROOT / top).rglob("*.py")):
            is_linked = any(each.is_symlink() for each in path.parents if ROOT in each.parents)
            if not is_linked:
                found[room_of(path.relative_to(ROOT))] += cost_of(path.read_text(encoding="utf-8"))
    return dict(found)
