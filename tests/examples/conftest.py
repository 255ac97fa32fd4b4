"""What the tests of the examples share: an example as a module, and as the command that its
docstring shows.
"""

import importlib.util
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from rungwise.testing import set_testing
from support.waiting import ctrl_c_interrupts

HERE = Path(__file__).parent


RECIPES = ("TestManyTurnsAtOnce", "test_our_turns_are_honest", "TestManyCallsAtOnce")
"""Tests that users copy, so they bear no mark of this project's; they take seconds, so `.ci/run
full` runs them.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the recipes as `full`."""
    for item in items:
        if any(name in item.nodeid for name in RECIPES):
            item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def example() -> Callable[[str], ModuleType]:
    """Return `example(name)`, which imports an example and runs nothing of it."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"example_{name}", HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return `command(name, *arguments)`, which runs an example as a script, without its waits."""

    def run(name: str, *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")

    set_testing(True)
    yield run
    set_testing(False)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C interrupt, also where a shell has started the tests in the background and ignores
    it.
    """
    with ctrl_c_interrupts():
        yield
