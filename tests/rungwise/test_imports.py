"""What imports what: floor by floor, in no circle, not behind a function's back, and no more than
is used.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any

import attrs
import pytest

import rungwise
import rungwise.core
import rungwise.otel
import rungwise.testing
import rungwise.ui
from support.command_line import printed_by
from support.imports import MODULES, ROOT, Import, imports_in, in_circles, room_of

FLOORS = (
    {"errors"},
    {"values"},
    {"engine.machine"},
    {"engine.checker"},
    {"engine.journal"},
    {"diagram"},
    {"replies.text"},
    {"replies.schemas"},
    {"replies.decisions"},
    {"replies.failures"},
    {"replies"},
    {"replies.assembly"},
    {"call"},
    {"turn"},
    {"health"},
    {"analysis.replay"},
    {"analysis.stats"},
    {"analysis.certificate"},
    {"analysis.odds"},
    {"analysis.review"},
    {"testing"},
    {"adapters.wires"},
    {"adapters.lookups"},
    {"adapters.stores"},
    {"adapters.http"},
    {"adapters.tools"},
    {"adapters.client_options"},
    {"adapters.client_clocks"},
    {"adapters.turn"},
    {"adapters.check", "adapters.discovery"},
    {"adapters.every_client", "adapters.runtime"},
    {"adapters.client_decisions", "adapters.client_turns"},
    {"adapters.client"},
    {"adapters.gateway", "adapters.durable", "adapters.telemetry", "adapters.ui"},
    {"adapters.provider"},
    {"adapters.testing"},
    {"adapters.cli"},
    {"adapters.demo", "adapters.exam"},
    {"rungwise"},
)
"""The rooms, each of which imports nothing but itself and the floors before it. Those of a wing
have the name of the wing before theirs.
"""

LATE_IMPORTS_ALLOWED = {
    ("rungwise.fsm.call.budget.costs", "rungwise.fsm.engine.journal.amounts"),
    ("rungwise.fsm.call.policy", "rungwise.fsm.call.rules"),
    ("rungwise.fsm.call.displayable", "rungwise.fsm.diagram.page.templates"),
    ("rungwise.fsm.call.displayable", "rungwise.fsm.engine.journal.digest"),
    ("rungwise.fsm.call.run.call_journal", "rungwise.fsm.call.run.call_digest"),
    ("rungwise.fsm.call.run.judging", "rungwise.fsm.replies.schemas.returns"),
    ("rungwise.fsm.call.run.observe", "rungwise.fsm.call.run.deciding"),
    ("rungwise.fsm.call.run.observe", "rungwise.fsm.call.run.quoting"),
    ("rungwise.fsm.call.run.result", "rungwise.fsm.call.run.call_digest"),
    ("rungwise.fsm.call.run.result", "rungwise.fsm.engine.journal.digest"),
    ("rungwise.fsm.replies.schemas.returns", "rungwise.fsm.replies.schemas.hints"),
    ("rungwise.fsm.turn.turn_journal", "rungwise.fsm.turn.turn_digest"),
    ("rungwise.fsm.turn.result", "rungwise.fsm.turn.turn_digest"),
    ("rungwise.fsm.turn.result", "rungwise.fsm.engine.journal.digest"),
}
"""Who imports what of our own inside a function of `fsm/`, for a reason that a comment beside the
import gives.
"""


@cache
def imports() -> list[Import]:
    """List what our modules import of each other, but for types."""
    found = (
        each
        for name, path in MODULES.items()
        for each in imports_in(name, path.read_text(encoding="utf-8"))
    )
    return [each for each in found if not each.is_for_types]


def floor_of(module: str) -> int:
    """Return how far down the list of floors a module stands; the package `rungwise.fsm` itself
    holds nothing.
    """
    room = room_of(module)
    return next((number for number, rooms in enumerate(FLOORS) if room in rooms), -1)


def test_the_walk_finds_imports_of_every_kind() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "from rungwise.fsm import errors\n"
        "if TYPE_CHECKING:\n    from rungwise.fsm.errors import TableError\n"
        "else:\n    import rungwise.fsm\n"
        "def late():\n    import rungwise.adapters.client\n    import_module('rungwise.fsm.call')\n"
    )
    found = [(each.of, each.is_late, each.is_for_types) for each in imports_in("x", source)]
    assert found == [
        ("rungwise.fsm.errors", False, False),
        ("rungwise.fsm.errors", False, True),
        ("rungwise.fsm", False, False),
        ("rungwise.adapters.client", True, False),
        ("rungwise.fsm.call", True, False),
    ]


def test_every_room_has_its_floor() -> None:
    folders_of_rooms = {"fsm", "adapters", "engine", "analysis"}
    assert {room_of(name) for name in MODULES} - folders_of_rooms <= set().union(*FLOORS)
    assert len(imports()) > 500


def test_each_floor_imports_only_what_stands_above_it() -> None:
    upward = [each for each in imports() if floor_of(each.of) > floor_of(each.by)]
    told = "\n".join(sorted(f"{each.by} imports {each.of}" for each in upward))
    assert {(room_of(each.by), room_of(each.of)) for each in upward} == set(), told


def test_nothing_imports_itself_by_way_of_others() -> None:
    circle = in_circles(imports())
    told = [f"{each.by} imports {each.of}" for each in imports() if {each.by, each.of} <= circle]
    assert {room_of(name) for name in circle} == set(), "\n".join(told)
    ring = [
        Import(
            by=by,
            of=of,
            is_late=True,
            is_for_types=False,
        )
        for by, of in ("ab", "bc", "cb")
    ]
    assert in_circles(ring) == {"b", "c"}


def test_the_core_imports_nothing_of_its_own_inside_functions() -> None:
    late = {
        (each.by, each.of)
        for each in imports()
        if each.is_late and each.by.startswith("rungwise.fsm")
    }
    assert late == LATE_IMPORTS_ALLOWED


THE_CORE = "from rungwise import Policy; from rungwise.core import Call"
A_CALL = f"{THE_CORE}; from rungwise.core import Request; Call(Request('Hello.'), Policy()).begin()"
A_CLIENT = "from rungwise import Client, OpenAIChat, Policy; from rungwise.core import Call"

SLOW_TO_LOAD = (
    "asyncio",
    "concurrent",
    "datetime",
    "decimal",
    "difflib",
    "email",
    "hashlib",
    "hmac",
    "html",
    "http",
    "logging",
    "pathlib",
    "multiprocessing",
    "random",
    "secrets",
    "shutil",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "tomllib",
    "urllib",
    "unittest",
    "uuid",
    "xml",
    "zoneinfo",
)
"""What of the standard library takes milliseconds, and a call does without until it needs it."""

MOST_MODULES = 97
"""Modules of the core that `Policy` and `rungwise.core.Call` may load, at about 0.1 ms each."""

MOST_CLASSES = 71
"""Classes that attrs may build for them, at about 0.3 ms each."""

MOST_COMPILED = 115_500
"""Characters of methods that attrs may compile for these classes; 3 000 take about 1 ms."""


@cache
def loaded_by(line: str) -> frozenset[str]:
    """List the modules that a new interpreter holds after a line."""
    return frozenset(printed_by(f"{line}\nimport sys\nprint(*sys.modules)").split())


def parts_of(packages: Iterable[str], names: Iterable[str]) -> set[str]:
    """Return the modules that are one of some packages, or stand in one."""
    return {
        name
        for name in names
        if any(name == each or name.startswith(f"{each}.") for each in packages)
    }


def others_among(names: Iterable[str]) -> set[str]:
    """Return the packages of other people among some modules."""
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"rungwise"}


def test_a_call_loads_nothing_that_reviews_tables_or_tests_policies() -> None:
    rooms = ("checker", "diagram", "testing", "certificate", "replay", "journal.digest")
    assert parts_of([f"rungwise.fsm.{room}" for room in rooms], loaded_by(A_CLIENT)) == set()


@pytest.mark.parametrize("line", [THE_CORE, A_CALL], ids=["names", "call"])
def test_the_core_loads_little(line: str) -> None:
    loaded = loaded_by(line) - loaded_by("import transitions")
    assert others_among(loaded) == {"attr", "attrs"}
    assert parts_of(SLOW_TO_LOAD, loaded) == set()
    ours = parts_of(["rungwise"], loaded)
    assert parts_of(["rungwise.adapters", "rungwise.fsm.turn"], ours) == set()
    assert len(ours) <= MOST_MODULES, sorted(ours)


@pytest.mark.full
def test_jinja_is_loaded_when_a_page_is_written() -> None:
    pages = (
        "import rungwise.fsm.analysis.review.page, rungwise.fsm.diagram.page as page, "
        "rungwise.fsm.turn.explained"
    )
    assert "jinja2" not in loaded_by(pages)
    assert "jinja2" in loaded_by(
        f"{pages}; from rungwise.fsm.analysis.certificate.shown.page import play_policy; "
        f"play_policy()"
    )


def test_the_core_builds_few_classes() -> None:
    """To build them, and to compile their methods, takes half of the time in which the core is
    loaded.
    """
    modules = "[each for name, each in sys.modules.items() if name.startswith('rungwise.')]"
    kinds = (
        f"{{each for module in {modules} for each in vars(module).values() if "
        f"isinstance(each, type)}}"
    )
    script = f"""
import linecache, sys
{A_CALL}
ours = (each for each in {kinds} if each.__module__.startswith("rungwise"))
print(sum("__attrs_attrs__" in vars(each) for each in ours))
texts = (kept[0] for name, kept in linecache.cache.items() if "<attrs" in name and " rungwise." in name)
print(sum(texts))
"""  # noqa: E501
    built, compiled = printed_by(script).split()
    assert 30 < int(built) <= MOST_CLASSES
    assert 20_000 < int(compiled) <= MOST_COMPILED


def test_a_client_loads_no_more_than_its_own_protocol_needs() -> None:
    loaded = loaded_by(A_CLIENT) - loaded_by("import httpx, transitions, typing_extensions")
    assert others_among(loaded) <= {"anyio", "attr", "attrs", "h11", "orjson", "sniffio"}
    assert parts_of(["asyncio"], loaded) == set()
    rooms = ["adapters.cli", "adapters.demo", "adapters.provider", "adapters.testing"]
    rooms += [
        f"adapters.wires.{name}"
        for name in ("anthropic", "bedrock", "gemini", "ollama", "responses")
    ]
    assert parts_of([f"rungwise.{room}" for room in rooms], loaded) == set()


def public_callables() -> dict[str, Any]:
    """Return every public function, class and method, but for what attrs generates."""
    found: dict[str, Any] = {}
    for module in (rungwise, rungwise.core, rungwise.otel, rungwise.testing, rungwise.ui):
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.isclass(value):
                found[name] = value
                continue
            found[name] = value
            for part, member in inspect.getmembers(value):
                if not part.startswith("_") or (part == "__init__" and not attrs.has(value)):
                    found[f"{name}.{part}"] = getattr(member, "fget", None) or getattr(
                        member, "func", member
                    )
    return {
        name: value
        for name, value in found.items()
        if inspect.isfunction(value) or inspect.isclass(value)
    }


def test_the_types_of_every_public_callable_can_be_read() -> None:
    callables = public_callables()
    assert len(callables) > 300
    unreadable = {}
    for name, value in callables.items():
        try:
            typing.get_type_hints(value)
        except Exception as error:
            unreadable[name] = repr(error)
    assert unreadable == {}


@pytest.mark.full  # which installs ruff
@pytest.mark.parametrize(
    "line", ["import fsm.errors", "from fsm import errors", "from adapters.client import Client"]
)
def test_the_second_copies_that_a_checkout_offers_are_refused(line: str) -> None:
    """In a checkout `fsm` can be imported beside `rungwise.fsm`, with classes of its own."""
    options = "-m ruff check --output-format concise --stdin-filename fsm/new.py -"
    done = subprocess.run(
        [sys.executable, *options.split()],
        input=f"{line}\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TID251" in done.stdout
    assert "import rungwise." in done.stdout


@pytest.mark.full
@pytest.mark.parametrize("name", ["click", "jinja2", "rich"])
def test_a_call_and_a_turn_need_no_library_of_the_commands(name: str) -> None:
    """A library that cannot be imported fails whoever needs it; httpx makes do without its own
    command.
    """
    script = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
import rungwise
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
with EmbeddedProvider(Script([ScriptedReply(text="Yes.")])) as provider:
    with rungwise.Client(rungwise.OpenAIChat("m", base_url=provider.base_url)) as client:
        print(client.call("hi").text, client.turn("hi").text, [*client.stream("hi")][-1].text)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "Yes. Yes. Yes.\n", done.stderr


def test_a_page_says_what_every_dependency_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs/pages/guides/extras.md").read_text(encoding="utf-8")
    table = page.partition("| dependency | for |\n")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[1:]]
    listed = ",".join(cells).replace(" ", "").split(",")
    assert sorted(listed) == sorted(re.split(r"[>=]", each)[0] for each in project["dependencies"])
