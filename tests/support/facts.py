"""What is written down of the shipped tables, in `tests/facts.toml`, and how it is renewed.

Many tests know a number of `CALL`: how many configurations its walk has, how many attempts its
worst case takes. Nobody works such a number out by hand when a rung is added. So a test hands what
it found to the fixture `fact`, which compares it with the file. `python tests/renew.py` runs these
tests without comparing and writes what they found into the file.
"""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

FILE = Path(__file__).parents[1] / "facts.toml"
HEAD = """\
# What tests know of the shipped tables. Nobody writes this by hand: `python tests/renew.py` does,
# and prints what has changed. Judge each change, as you would judge a test that you edit.
"""

Facts = dict[str, dict[str, Any]]
"""The values by the test file that finds them and by name."""

Check = Callable[[str, Any], None]
"""What the fixture gives a test: it takes a name and the value that the test found."""


def read() -> Facts:
    """Return what is written down."""
    return tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def write(facts: Facts) -> None:
    """Write facts down, sorted, so that a change shows as few lines."""
    parts = [HEAD]
    for file, values in sorted(facts.items()):
        lines = [f"{json.dumps(name)} = {_toml(value)}\n" for name, value in sorted(values.items())]
        parts.append(f"[{json.dumps(file)}]\n" + "".join(lines))
    FILE.write_text("\n".join(parts), encoding="utf-8")


def _toml(value: Any) -> str:
    """Return a string, a number or a list of such in TOML, which here is as in JSON."""
    return json.dumps(value, ensure_ascii=False)


def merged(old: Facts, new: Facts) -> Facts:
    """Return old facts with new ones in their place, and with all that only one of them has."""
    return {file: {**old.get(file, {}), **new.get(file, {})} for file in {*old, *new}}


def changes(old: Facts, new: Facts) -> list[str]:
    """Return a line for each fact that differs: its file, its name, the old and the new value."""
    lines: list[str] = []
    for file in sorted({*old, *new}):
        before = old.get(file, {})
        after = new.get(file, {})
        for name in sorted({*before, *after}):
            was = _toml(before[name]) if name in before else "none"
            now = _toml(after[name]) if name in after else "none"
            if was != now:
                lines.append(f"{file}: {name}: {was} -> {now}")
    return lines


@define(eq=False)
class Renewal:
    """A plugin of pytest that runs only the tests with facts, and keeps what they find.

    Arguments:
        found: what they found so far.
        failed: the tests that failed.
    """

    found: Facts = field(factory=dict)
    failed: list[str] = field(factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the name of a test that failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out the tests that know no fact."""
        known = [item for item in items if "fact" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in known])
        items[:] = known


@pytest.fixture
def fact(request: pytest.FixtureRequest) -> Check:
    """Give a test what compares a value that it found with the one that is written down."""
    file = request.path.relative_to(FILE.parent).as_posix()
    plugins = request.config.pluginmanager.get_plugins()
    renewal = next((each for each in plugins if isinstance(each, Renewal)), None)
    known = read().get(file, {})

    def check(name: str, value: Any) -> None:
        value = json.loads(json.dumps(value))  # a tuple as the list that the file has
        if renewal is None:
            compare(known, file, name, value)
        else:
            renewal.found.setdefault(file, {})[name] = value

    return check


def compare(known: dict[str, Any], file: str, name: str, value: Any) -> None:
    """Compare a value that a test found with the one that is written down.

    Arguments:
        known: what is written down of the test file, by name.
        file: the test file.
        name: the name of the value.
        value: what the test found.
    Raises:
        AssertionError: it differs, or nothing is written down.
    """
    assert name in known, (
        f"{FILE.name} does not know {name!r} of {file}: run `python tests/renew.py`"
    )
    assert value == known[name], (
        f"{name}: {known[name]!r} is written down in {FILE.name}. If the shipped table was "
        "meant to change this, run `python tests/renew.py` and judge what it prints"
    )
