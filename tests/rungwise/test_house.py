"""Limits that keep the package readable: the size of its files, functions and rooms, its names, its
import circles.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

from support.imports import MODULES, ROOT, imports_in, in_circles

LINES_OF_A_FILE = 600  # while the package is set at 100 columns; 400 from then on
LINES_OF_A_FUNCTION = 100  # likewise; 60 from then on
FILES_OF_A_ROOM = 20
MODULES_IN_CIRCLES = 10
FILES = 430

SOURCES = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in MODULES.values()}
LENGTHS = {path: len(source.splitlines()) for path, source in SOURCES.items()}


def definitions(
    *kinds: type[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef],
) -> Iterator[tuple[str, ast.AST]]:
    """Yield the classes or functions of the package, each with its place as `file:line name`."""
    for path, source in SOURCES.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, kinds):
                yield f"{path}:{node.lineno} {node.name}", node


def test_no_file_is_too_long() -> None:
    assert {str(path): lines for path, lines in LENGTHS.items() if lines > LINES_OF_A_FILE} == {}


def test_no_function_is_too_long() -> None:
    lengths = {
        place: node.end_lineno - node.lineno + 1
        for place, node in definitions(ast.FunctionDef, ast.AsyncFunctionDef)
    }
    assert len(lengths) > 1_000
    assert {place: lines for place, lines in lengths.items() if lines > LINES_OF_A_FUNCTION} == {}


def test_no_room_holds_too_many_files() -> None:
    rooms = Counter(str(path.parent) for path in SOURCES)
    assert {room: files for room, files in rooms.items() if files > FILES_OF_A_ROOM} == {}


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


def test_the_package_stays_small() -> None:
    assert 100 < len(SOURCES) <= FILES
