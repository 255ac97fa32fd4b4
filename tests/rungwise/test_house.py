"""Limits that keep the package readable: what its pages cost a reader, the size of its files,
functions and rooms, its names, its import circles.

What a page costs is counted by `support.measured`, for all rooms together and for each. Words are
free: nothing here limits the length of a docstring or a comment, and nothing counts all lines.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import reduce

import pytest

from support.imports import MODULES, ROOT, imports_in, in_circles, parsed
from support.measured import Cost, rooms

LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 60
FILES_OF_A_ROOM = 20
MODULES_IN_CIRCLES = 10
SOURCES = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in MODULES.values()}


def definitions(
    *kinds: type[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef],
) -> Iterator[tuple[str, ast.AST]]:
    """Yield the classes or functions of the package, each with its place as `file:line name`."""
    for path, source in SOURCES.items():
        for node in ast.walk(parsed(source)):
            if isinstance(node, kinds):
                yield f"{path}:{node.lineno} {node.name}", node


# What a page costs

SMALL = 500
"""A room of fewer tokens than this has no figures of its own."""


def above(most: float, figures: dict[str, float]) -> dict[str, float]:
    """Return the rooms whose figure is above a limit."""
    return {room: round(figure, 2) for room, figure in figures.items() if figure > most}


def test_a_page_costs_its_reader_little() -> None:
    """One test, for the measuring takes seconds."""
    of_all = rooms("fsm", "adapters", "rungwise")
    large = {room: cost for room, cost in of_all.items() if cost.tokens >= SMALL}
    assert len(large) > 25
    whole = reduce(Cost.__add__, of_all.values())

    # A line holds one thought.
    assert whole.tokens_a_line <= 8.4
    assert above(9.2, {room: cost.tokens_a_line for room, cost in large.items()}) == {}

    # A statement holds few expressions.
    assert whole.expressions_a_statement <= 7.4
    assert above(8.5, {room: cost.expressions_a_statement for room, cost in large.items()}) == {}
    assert whole.above_twenty <= 120
    assert above(0, {room: cost.above_forty for room, cost in of_all.items()}) == {}

    # Two cases stand in two statements, and what is not one thought in two assignments.
    assert whole.conditionals_a_thousand <= 28
    assert whole.pairs <= 90

    # A display is written out.
    assert above(0, {room: cost.stars for room, cost in of_all.items()}) == {}

    # Words say what code cannot, such as what many arguments are.
    assert whole.share_of_words >= 0.18
    wordless = {room: round(1 - cost.share_of_words, 3) for room, cost in large.items()}
    assert above(0.85, wordless) == {}
    assert whole.unexplained <= 40


@pytest.mark.full
def test_the_tests_breathe_too() -> None:
    of_tests = rooms("tests")
    assert of_tests["tests"].tokens_a_line <= 9.2
    assert above(0, {room: cost.stars for room, cost in of_tests.items()}) == {}


# Sizes, names and circles


def test_no_file_is_too_long() -> None:
    lengths = {str(path): len(source.splitlines()) for path, source in SOURCES.items()}
    assert {path: lines for path, lines in lengths.items() if lines > LINES_OF_A_FILE} == {}


def test_no_function_is_too_long() -> None:
    lengths = {
        place: node.end_lineno - node.lineno + 1
        for place, node in definitions(ast.FunctionDef, ast.AsyncFunctionDef)
    }
    assert len(lengths) > 1_000
    assert {place: lines for place, lines in lengths.items() if lines > LINES_OF_A_FUNCTION} == {}


def test_no_room_holds_too_many_files() -> None:
    files_of_rooms = Counter(str(path.parent) for path in SOURCES)
    assert {room: files for room, files in files_of_rooms.items() if files > FILES_OF_A_ROOM} == {}


def test_no_two_classes_share_a_name() -> None:
    places = defaultdict(list)
    for place, node in definitions(ast.ClassDef):
        places[node.name].append(place)
    assert len(places) > 300
    assert [where for where in places.values() if len(where) > 1] == []


def test_few_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions and imports for type checkers count, too."""
    imports = [
        each
        for name, path in MODULES.items()
        for each in imports_in(name, SOURCES[path.relative_to(ROOT)])
    ]
    assert any(each.is_for_types for each in imports)
    assert any(each.is_late for each in imports)
    circles = in_circles(each for each in imports if each.by != each.of)
    assert "rungwise.fsm.errors" not in circles, sorted(circles)
    assert len(circles) <= MODULES_IN_CIRCLES, sorted(circles)
