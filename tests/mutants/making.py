"""The mutants of a file: copies with one small fault each.

Cosmic Ray's operators make them, and one of our own, which removes a statement. Of the replacements
of an operator only the nearest ones are taken: what kills `a - b` for `a + b` kills `a ** b` too.
Annotations are left alone, for nothing runs them.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar, Final

import attrs
import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.boolean_replacer import AddNot
from cosmic_ray.operators.exception_replacer import ExceptionReplacer
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

from mutants.verdicts import without_comments
from support.imports import ROOT

Position = tuple[int, int]

BINARY = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Div",
    "Div": "Mul",
    "FloorDiv": "Mul",
    "Mod": "Mul",
    "Pow": "Mul",
    "BitAnd": "BitOr",
    "BitOr": "BitAnd",
    "BitXor": "BitOr",
}
COMPARISONS = {
    "Eq": ["NotEq"],
    "NotEq": ["Eq"],
    "Lt": ["LtE", "GtE"],
    "LtE": ["Lt", "Gt"],
    "Gt": ["GtE", "LtE"],
    "GtE": ["Gt", "Lt"],
    "Is": ["IsNot"],
    "IsNot": ["Is"],
}
OTHERS = [
    "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
]
OPERATIONS = {"term", "arith_expr", "shift_expr", "and_expr", "xor_expr", "expr", "power"}
REMOVED = {"raise_stmt", "return_stmt", "del_stmt", "yield_expr", "atom_expr"}


class RemoveStatement(Operator):
    """Replace a statement by `pass`: a call, an assignment to a part of something, a `return`."""

    def mutation_positions(self, node):
        if node.type == "simple_stmt" and self._can_go(node.children[0]):
            yield (node.children[0].start_pos, node.children[0].end_pos)

    def mutate(self, node, index):
        prefix = node.get_first_leaf().prefix
        node.children[0] = parso.python.tree.Keyword("pass", (0, 0), prefix)
        return node

    @staticmethod
    def _can_go(statement):
        if statement.type == "expr_stmt":
            is_new_name = statement.children[0].type == "name" and statement.children[1] == "="
            return not is_new_name and statement.children[1].type != "annassign"
        return statement.type in REMOVED or statement == "return"

    @classmethod
    def examples(cls):
        return ()


class Negate(AddNot):
    """Negate a condition that is no comparison: the operator of that is replaced."""

    def mutation_positions(self, node):
        for first, last in super().mutation_positions(node):
            condition = node.get_leaf_for_position(first, include_prefixes=True).parent
            while condition.start_pos == first and condition.end_pos < last:
                condition = condition.parent
            if condition.type != "comparison":
                yield first, last


class ReplaceException(ExceptionReplacer):
    """Catch another exception; one with a dotted name is left alone."""

    @staticmethod
    def _name_nodes(node):
        return [each for each in ExceptionReplacer._name_nodes(node) if each.type == "name"]


class ReplaceAugmented(Operator):
    """Subtract where something is added in place, and the reverse, which Cosmic Ray does not."""

    NEW: ClassVar = {"+=": "-=", "-=": "+="}

    def mutation_positions(self, node):
        if node.type == "operator" and node.value in self.NEW:
            yield (node.start_pos, node.end_pos)

    def mutate(self, node, index):
        node.value = self.NEW[node.value]
        return node

    @classmethod
    def examples(cls):
        return ()


class ReplaceIn(Operator):
    """Replace `in` by `not in`, which Cosmic Ray does not."""

    def mutation_positions(self, node):
        if node.type == "comparison" and node.children[1] == "in":
            yield (node.children[1].start_pos, node.children[1].end_pos)

    def mutate(self, node, index):
        node.children[1].value = "not in"
        return node

    @classmethod
    def examples(cls):
        return ()


def _operators() -> Iterator[tuple[str, Operator]]:
    """Yield the operators by their names."""
    names = [f"ReplaceBinaryOperator_{old}_{new}" for old, new in BINARY.items()]
    for old, news in COMPARISONS.items():
        names += [f"ReplaceComparisonOperator_{old}_{new}" for new in news]
    for name in names + OTHERS:
        yield name, get_operator(f"core/{name}")()
    yield "RemoveStatement", RemoveStatement()
    yield "ReplaceIn", ReplaceIn()
    yield "Negate", Negate()
    yield "ReplaceException", ReplaceException()
    yield "ReplaceAugmented", ReplaceAugmented()


OPERATORS: Final = dict(_operators())


@attrs.frozen
class Unit:
    """A part of a file that is parsed by itself: a function, a field, the head of a class."""

    lines: tuple[str, ...]  # those of the whole file
    first: int  # the number of its first line, from 1
    last: int
    definition: str  # the qualified name of the function, or of the class around it
    is_function: bool = False
    is_head: bool = False  # of a class: its body is added

    @property
    def depth(self) -> int:
        """Return how many lines stand before it in its snippet."""
        return int(self.lines[self.first - 1].startswith(" "))

    @cached_property
    def snippet(self) -> str:
        """Return its source, in a block of its own where it is indented."""
        own = list(self.lines[self.first - 1 : self.last])
        if self.is_head:
            indent = len(own[0]) - len(own[0].lstrip())
            own.append(" " * (indent + 4) + "pass")
        return "\n".join(["if 1:"] * self.depth + own) + "\n"

    def mutated(self, operator: Operator, occurrence: int) -> str:
        """Return the source of the file with one occurrence of an operator applied."""
        changed = mutate_code(self.snippet, operator, occurrence).rstrip("\n").split("\n")
        changed = changed[self.depth :]
        if self.is_head:
            changed.pop()
        lines = [*self.lines[: self.first - 1], *changed, *self.lines[self.last :]]
        return "\n".join(lines)


@attrs.frozen
class Mutant:
    """One small fault."""

    key: str  # the same as long as the statement is, wherever it stands
    file: str
    line: int
    was: str  # the statement
    operator: str
    occurrence: int = attrs.field(repr=False)  # in the snippet
    unit: Unit = attrs.field(repr=False)
    is_run_later: bool  # a test runs it, not the import of its module

    @property
    def source(self) -> str:
        """Return the file with the fault in it."""
        return self.unit.mutated(OPERATORS[self.operator], self.occurrence)

    @property
    def becomes(self) -> str:
        """Return the lines that differ, as they are with the fault."""
        old = self.unit.lines
        new = self.source.split("\n")
        first = 0
        while first < min(len(old), len(new)) and old[first] == new[first]:
            first += 1
        last = 0
        while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
            last += 1
        return " ".join(" ".join(new[first : len(new) - last]).split())


def mutants_of(file: str) -> list[Mutant]:
    """Return every mutant of a file, which is named from the root of the checkout."""
    return mutants_in(file, (ROOT / file).read_text(encoding="utf-8"))


def mutants_in(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a source, under the name of a file."""
    tree = ast.parse(source)
    lines = tuple(source.split("\n"))
    statements = _statements(tree)
    last_lines = set(_last_lines(tree))
    annotations = list(_annotations(tree))
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for unit in _units(tree.body, lines, ""):
        parsed = list(ast_nodes(get_ast(unit.snippet)))
        for name, operator in OPERATORS.items():
            spots = [(node, at) for node in parsed for at, _ in operator.mutation_positions(node)]
            for occurrence, (node, (line, column)) in enumerate(spots):
                if name.startswith("ReplaceBinary") and node.parent.type not in OPERATIONS:
                    continue  # such as the star of `*arguments`
                line += unit.first - 1 - unit.depth
                if line < unit.first or line > unit.last:
                    continue
                if any(begin <= (line, column) < end for begin, end in annotations):
                    continue
                if name == "RemoveStatement" and line in last_lines:
                    continue
                first, last, is_head = statements[line]
                was = without_comments(lines[first - 1 : last])
                place = (file, unit.definition, was, name)
                seen[place] += 1
                text = "\n".join([*place, str(seen[place])])
                found.append(
                    Mutant(
                        key=hashlib.sha256(text.encode()).hexdigest()[:12],
                        file=file,
                        line=line,
                        was=was,
                        operator=name,
                        occurrence=occurrence,
                        unit=unit,
                        is_run_later=unit.is_function and not is_head,
                    )
                )
    return found


def _units(body: list[ast.stmt], lines: tuple[str, ...], within: str) -> Iterator[Unit]:
    for statement in body:
        first = _first_line(statement)
        last = statement.end_lineno or first
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Unit(lines, first, last, within + statement.name, is_function=True)
        elif isinstance(statement, ast.ClassDef):
            name = within + statement.name
            head = _first_line(statement.body[0]) - 1
            yield Unit(lines, first, head, name, is_head=True)
            yield from _units(statement.body, lines, f"{name}.")
        elif not _is_for_types(statement) and not _is_text(statement):
            yield Unit(lines, first, last, within.rstrip("."))


def _is_for_types(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *[each.lineno for each in decorators]])


def _statements(tree: ast.Module) -> dict[int, tuple[int, int, bool]]:
    """Return the first and the last line of the statement on each line, and whether it is the head
    of a definition. Of what holds a block, only the lines before the block count.
    """
    found: dict[int, tuple[int, int, bool]] = {}
    for node in ast.walk(tree):  # what is within comes later
        if not isinstance(node, ast.stmt | ast.excepthandler):
            continue
        first = _first_line(node)
        last = node.end_lineno or first
        body = getattr(node, "body", None)
        if body:
            last = max(first, _first_line(body[0]) - 1)
        is_head = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for line in range(first, last + 1):
            found[line] = (first, last, is_head)
    return found


def _last_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the lines on which a function returns None at its very end: without that, it does so
    all the same.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.body[-1]
            if isinstance(last, ast.Return) and ast.unparse(last) == "return None":
                yield last.lineno


def _annotations(tree: ast.Module) -> Iterator[tuple[Position, Position]]:
    """Yield where annotations begin and end; those of types, as in `X = A | B`, too."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            noted = getattr(node, name, None)
            if noted is not None:
                yield (
                    (noted.lineno, noted.col_offset),
                    (noted.end_lineno, noted.end_col_offset),
                )
