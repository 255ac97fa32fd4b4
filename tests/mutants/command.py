"""Break the code in small ways and see which tests notice.

    python tests/mutants [ROOM...] [--quick] [--most N] [--report] [--results FOLDER]

Each room is tried in three tiers, and what survives one meets the next: its quick tests, the broad
ones, and the quick ones again with the mutant imported anew. Results are kept in a folder outside
the checkout, so a run continues where the last one was interrupted. The command fails if a mutant
survives without a verdict in `verdicts.toml`, or a verdict has no survivor.
"""

import argparse
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

import attrs
import pytest

from mutants.making import Mutant
from mutants.rooms import Results, Room, complaints, rooms
from mutants.trying import (
    Cost,
    Functions,
    Loop,
    Trials,
    Verdict,
    collect,
    costs_of,
    import_mutated,
    run_until_one_fails,
)
from mutants.verdicts import verdicts
from support.imports import ROOT

IMPORTING: Final = 60.0
"""Seconds of the processor in which everything must be imported."""

MOST: Final = 20.0
"""Seconds of tests that one mutant meets in a tier."""

LIBRARIES: Final = (
    "anyio",
    "httpx",
    "hypothesis",
    "jsonschema",
    "orjson",
    "pydantic",
    "transitions",
)


def main(arguments: list[str] | None = None) -> int:
    """Try the mutants, print the figures, and return 1 where there is something to complain of."""
    options = _options(arguments)
    lines = []
    wrong = []
    for room in [rooms()[name] for name in options.room or rooms()]:
        results = Results(room, options.results)
        mutants = room.mutants()
        if not options.report:
            _try_all(room, mutants[: options.most], results, options)
        own = [each for each in verdicts() if each.file in room.sources]
        every = {mutant.key for mutant in room.every_mutant()}
        lines.append(_figures(room, mutants, results, {each.key for each in own}))
        found = list(complaints(mutants, results, every, own))
        for each in found:
            print(each)
        if room.is_settled:
            wrong += found
    print("| room | mutants | killed | explained | open | not run |")
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(lines))
    return int(bool(wrong))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python tests/mutants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("room", nargs="*", choices=[[], *rooms()], help="all by default")
    parser.add_argument("--quick", action="store_true", help="only the quick tests")
    parser.add_argument("--most", type=int, metavar="N", help="try N mutants of each room")
    parser.add_argument("--report", action="store_true", help="try none, print the figures")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument(
        "--results", type=Path, default=Path.home() / ".cache/rungwise/mutants", metavar="FOLDER"
    )
    return parser.parse_args(arguments)


def _figures(room: Room, mutants: list[Mutant], results: Results, explained: set[str]) -> str:
    """Return the row of a room; `open` are survivors that have no verdict, or not met every tier.

    Arguments:
        room: the room.
        mutants: those that are to be tried.
        results: what came of them.
        explained: the keys of those with a verdict.
    """
    counts: Counter[str] = Counter()
    for mutant in mutants:
        state = results.so_far(mutant) or "not run"
        if state == "survived":
            state = "explained" if mutant.key in explained else "open"
        counts[state] += 1
    figures = [len(mutants)]
    figures += [counts[state] for state in ("killed", "explained", "open", "not run")]
    return f"| `{room.name}` | {' | '.join(map(str, figures))} |"


# The tiers


def _try_all(
    room: Room,
    mutants: list[Mutant],
    results: Results,
    options: argparse.Namespace,
) -> None:
    """Try mutants in each tier; what an earlier run has tried is not tried again.

    Arguments:
        room: the room.
        mutants: its mutants.
        results: what earlier runs came to, and where this one writes.
        options: of the command.
    """
    tiers = {"quick": room.quick} if options.quick else {"quick": room.quick, "broad": room.broad}
    for tier, tests in tiers.items():
        left = [mutant for mutant in results.left(mutants, tier) if mutant.is_run_later]
        if left and tests:
            place = InPlace(tier, tests, left, results, options.at_once)
            _in_a_child(place.run)
            results.read()
    if not options.quick:
        _import_libraries()
        _try_anew(room, results.left(mutants, "anew"), results, options.at_once)


def _in_a_child(work: Callable[[], None]) -> None:
    """Do some work in a process of its own, which may import what is ours."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit("the tests could not be run")


@attrs.define
class InPlace:
    """Put each of some mutants into the functions of this process, and run tests.

    Arguments:
        tier: the name of the tests.
        tests: their files and folders.
        mutants: the mutants.
        results: where the results go.
        at_once: how many are tried at a time.
    """

    tier: str
    tests: list[str]
    mutants: list[Mutant]
    results: Results
    at_once: int

    def run(self) -> None:
        """Collect the tests, and try every mutant."""
        loop = Loop(self._try_each)
        collect(self.tests, loop, with_full=self.tier == "broad")
        if loop.failure:
            raise SystemExit(loop.failure)

    def _try_each(self, loop: Loop, items: list[pytest.Item]) -> None:
        paths = {str(ROOT / file) for file in self.results.room.sources}
        costs = self.results.costs(self.tests)
        missing = [item for item in items if item.nodeid not in costs]
        if missing:
            costs |= costs_of(loop, missing, paths)
            self.results.note_costs(costs)
        for item in items:
            if costs[item.nodeid].failed:
                print(f"left out, for it fails as it is: {item.nodeid}")
        functions = Functions(paths)
        trials = Trials(self._note, self.at_once)
        for mutant in self.mutants:
            entering = _entering(mutant, items, costs)

            def run(mutant: Mutant = mutant, entering: list[pytest.Item] = entering) -> str | None:
                functions.put(mutant)
                return run_until_one_fails(loop, entering, costs)

            trials.begin(mutant, run)
        trials.finish()

    def _note(self, mutant: Mutant, verdict: Verdict, by: str) -> None:
        if verdict != "not here":
            self.results.note(mutant, self.tier, verdict, by)


def _entering(
    mutant: Mutant, items: Iterable[pytest.Item], costs: Mapping[str, Cost]
) -> list[pytest.Item]:
    """Return the tests that come into the function of a mutant, the quick ones first, as long as
    they take no longer than `MOST` together.
    """
    place = (str(ROOT / mutant.file), mutant.unit.definition)
    entering = []
    seconds = 0.0
    for item in sorted(items, key=lambda item: costs[item.nodeid].seconds):
        cost = costs[item.nodeid]
        if place in cost.functions and not cost.failed and seconds + cost.seconds < MOST:
            entering.append(item)
            seconds += cost.seconds
    return entering


def _try_anew(room: Room, mutants: list[Mutant], results: Results, at_once: int) -> None:
    """Try mutants in processes that import them, with the quick tests.

    Arguments:
        room: the room.
        mutants: the mutants.
        results: where the results go.
        at_once: how many are tried at a time.
    """
    costs = results.costs(room.quick)

    def note(mutant: Mutant, verdict: Verdict, by: str) -> None:
        results.note(mutant, "anew", verdict, by)

    def run_each(loop: Loop, items: list[pytest.Item]) -> None:
        sound = [item for item in items if item.nodeid in costs and not costs[item.nodeid].failed]
        sound.sort(key=lambda item: costs[item.nodeid].seconds)
        run_until_one_fails(loop, sound, costs)

    trials = Trials(note, at_once)
    for mutant in mutants:

        def run(mutant: Mutant = mutant) -> str | None:
            signal.setitimer(signal.ITIMER_PROF, IMPORTING)
            import_mutated(mutant)
            loop = Loop(run_each)
            collect(room.quick, loop)
            return loop.failure

        trials.begin(mutant, run)
    trials.finish()


def _import_libraries() -> None:
    """Import what is not ours once, for every child."""
    for name in LIBRARIES:
        import_module(name)
