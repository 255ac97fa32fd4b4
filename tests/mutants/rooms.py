"""The rooms whose mutants are tried, and what came of each."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

from mutants.making import Mutant, mutants_of
from mutants.trying import Cost, Verdict
from mutants.verdicts import Written
from support.imports import ROOT

HERE: Final = Path(__file__).parent
SEED: Final = "1"
TIERS: Final = ("", "quick", "broad", "anew")


@attrs.frozen
class Room:
    """A part of the package, with the tests that should kill its mutants.

    Arguments:
        name: the room.
        files: its files and folders.
        quick: the tests that run first.
        broad: those that a survivor meets besides.
        drawn: how many mutants are tried; None for all.
        is_settled: whether each of its survivors was looked at. If not, they are shown, and are no
            failure.
    """

    name: str
    files: list[str]
    quick: list[str]
    broad: list[str]
    drawn: int | None = None
    is_settled: bool = True

    @property
    def sources(self) -> list[str]:
        """Return its files, named from the root of the checkout."""
        return [_name(path) for path in _below(self.files)]

    def every_mutant(self) -> list[Mutant]:
        """Return all its mutants."""
        return [mutant for file in self.sources for mutant in mutants_of(file)]

    def mutants(self) -> list[Mutant]:
        """Return the mutants that are tried. A mutant is drawn by its key, so that a change of the
        code around it does not change the choice.
        """
        every = self.every_mutant()
        if self.drawn is None:
            return every
        return sorted(every, key=lambda mutant: _digest(SEED, mutant.key))[: self.drawn]


def rooms() -> dict[str, Room]:
    """Return the rooms by their names."""
    read = tomllib.loads((HERE / "rooms.toml").read_text(encoding="utf-8"))
    return {name: Room(name, **values) for name, values in read.items()}


def _below(places: Iterable[str]) -> list[Path]:
    found = []
    for place in places:
        path = ROOT / place
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


@cache
def _content(path: Path) -> str:
    return _digest(path.read_text(encoding="utf-8"))


# Results


@attrs.define
class Results:
    """What came of the mutants of a room. Each result is written at once, so that a run that was
    interrupted continues.

    A kill stays valid until the mutated file changes, a survival until a test of the room does.
    """

    room: Room
    folder: Path
    _rows: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.read()

    def read(self) -> None:
        """Read what is written by now."""
        if self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._rows[row["key"]] = row

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.room.name.replace('/', '-')}.jsonl"

    @property
    def tests(self) -> str:
        """Return what stands for the content of the room's tests."""
        paths = _below(self.room.quick + self.room.broad)
        return _digest(*[_content(path) for path in paths])

    def note(self, mutant: Mutant, tier: str, verdict: Verdict, by: str) -> None:
        """Write a result down."""
        row = {
            "key": mutant.key,
            "tier": tier,
            "verdict": verdict,
            "by": by,
            "source": _content(ROOT / mutant.file),
            "tests": self.tests,
        }
        self._rows[mutant.key] = row
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def of(self, mutant: Mutant) -> Verdict | None:
        """Return the verdict about a mutant; None if it has not met every tier since its file has
        changed.
        """
        verdict, tier = self._met(mutant)
        return verdict if verdict == "killed" or tier == TIERS[-1] else None

    def so_far(self, mutant: Mutant) -> Verdict | None:
        """Return the verdict of the last tier that a mutant has met; None if it has met none."""
        return self._met(mutant)[0]

    def left(self, mutants: Iterable[Mutant], tier: str) -> list[Mutant]:
        """Return those of some mutants that live and have not met a tier."""
        left = []
        for mutant in mutants:
            verdict, met = self._met(mutant)
            if verdict != "killed" and TIERS.index(met) < TIERS.index(tier):
                left.append(mutant)
        return left

    def _met(self, mutant: Mutant) -> tuple[Verdict | None, str]:
        """Return the last verdict about a mutant, and the tier that it met."""
        row = self._rows.get(mutant.key)
        if row is None or row["source"] != _content(ROOT / mutant.file):
            return None, ""
        if row["verdict"] != "killed" and row["tests"] != self.tests:
            return None, ""
        return row["verdict"], row["tier"]

    def costs(self, tests: Iterable[str]) -> dict[str, Cost]:
        """Return what tests of files that have not changed since cost."""
        found = {}
        for path in _below(tests):
            file = self._cost_file(path)
            if file.exists():
                for name, seconds, entered, failed in json.loads(file.read_text()):
                    found[name] = Cost(seconds, frozenset(map(tuple, entered)), failed)
        return found

    def note_costs(self, costs: dict[str, Cost]) -> None:
        """Write down what the tests of each file cost."""
        files: dict[str, list[Any]] = {}
        for name, cost in costs.items():
            row = [name, cost.seconds, sorted(cost.functions), cost.failed]
            files.setdefault(name.partition("::")[0], []).append(row)
        for name, rows in files.items():
            self._cost_file(ROOT / name).write_text(json.dumps(rows))

    def _cost_file(self, tests: Path) -> Path:
        sources = [_content(path) for path in _below(self.room.files)]
        return self.folder / f"costs-{_digest(_content(tests), str(tests), *sources)}.json"


# What is wrong


def complaints(
    mutants: Iterable[Mutant],
    results: Results,
    every: Iterable[str],
    written: Iterable[Written],
) -> Iterator[str]:
    """Say what is wrong: a survivor without a verdict, a verdict without a survivor.

    Arguments:
        mutants: those that were to be tried.
        results: what came of them.
        every: the keys of all mutants of the room.
        written: the verdicts on mutants of the room's files.
    """
    explained = {each.key: each for each in written}
    for mutant in mutants:
        verdict = results.of(mutant)
        if verdict == "survived" and mutant.key not in explained:
            yield f"{mutant.file}:{mutant.line}: {mutant.key} survived: {mutant.becomes}"
        if verdict == "killed" and mutant.key in explained:
            yield f"{mutant.file}:{mutant.line}: {mutant.key} has a verdict, and is killed"
    for key in explained.keys() - set(every):
        yield f"{explained[key].file}: the verdict {key} has no mutant: {explained[key].was}"
