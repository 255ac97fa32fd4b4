"""Examine a program: one healthy run to learn what it asks and shows, then a run for each case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from attrs import frozen

from rungwise.adapters.exam.answer import ANSWER, begun
from rungwise.adapters.exam.cases import QUICK, ExamCase, catalogue
from rungwise.adapters.exam.grades import Grade, Mark, total
from rungwise.adapters.exam.judging import Seen, judge
from rungwise.adapters.exam.programs import ProgramEnd
from rungwise.adapters.exam.stage import Stage
from rungwise.adapters.exam.wanted import Wanted
from rungwise.fsm.errors import ConfigurationError

HEALTHY_SECONDS: Final = 60.0
START: Final = 3
"""How often the time of a healthy run is added to the limit of a case: programs that start side by
side start slowly.
"""
Play = Callable[[Stage, float], ProgramEnd]
"""Play a case to whoever is examined: on its stage, and at most for so many seconds."""


@frozen(kw_only=True)
class Examined:
    """Hold a case, what was seen of it, and its grade."""

    case: ExamCase
    seen: Seen
    mark: Mark


@frozen(kw_only=True)
class Exam:
    """Hold all outcomes.

    Arguments:
        outcomes: in the order of the cases.
        left_out: the cases that the budget had no time for.
        seconds: how long all of it took.
    """

    outcomes: tuple[Examined, ...]
    left_out: tuple[ExamCase, ...]
    seconds: float

    def of(self, grade: Grade) -> list[str]:
        """Return the names of the cases with a grade."""
        return [each.case.name for each in self.outcomes if each.mark.grade == grade]

    @property
    def total(self) -> str:
        """Return the grades as pass-partial-safe-fail."""
        return total(each.mark.grade for each in self.outcomes)


def examine(
    play: Play,
    *,
    names: Iterable[str] = (),
    pool: Iterable[ExamCase] = (),
    count: int = QUICK,
    budget: float | None = None,
    at_once: int = 1,
    finished: Callable[[Examined], None] = lambda outcome: None,
) -> Exam:
    """Examine a program.

    Arguments:
        play: runs it.
        names: of the cases; none for the first ones that fit it.
        pool: the cases to take these from; none for the catalogue.
        count: how many of these.
        budget: seconds after which no further case begins.
        at_once: how many cases run side by side.
        finished: called with each outcome as it comes.

    Raises:
        ConfigurationError: the program asks no provider, or shows no answer of a healthy one.
    """
    began = time.monotonic()
    healthy, wanted = _healthy_run(play)
    cases = _chosen(names, pool or catalogue().values(), wanted, count)

    def play_one(case: ExamCase) -> Examined | None:
        if budget is not None and time.monotonic() - began >= budget:
            return None
        stage = Stage(case, wanted.backend)
        ended = play(stage, case.limit + START * healthy.seconds)
        seen = Seen(case=case, ended=ended, asked=tuple(stage.asked), healthy=healthy)
        outcome = Examined(case=case, seen=seen, mark=judge(seen))
        finished(outcome)
        return outcome

    with ThreadPoolExecutor(at_once) as threads:
        longest_first = sorted(cases, key=lambda case: -case.limit)
        begun_cases = {case.name: threads.submit(play_one, case) for case in longest_first}
        outcomes = [begun_cases[case.name].result() for case in cases]
    came = [outcome for outcome in outcomes if outcome is not None]
    played = {outcome.case.name for outcome in came}
    return Exam(
        outcomes=tuple(came),
        left_out=tuple(case for case in cases if case.name not in played),
        seconds=time.monotonic() - began,
    )


def _healthy_run(play: Play) -> tuple[ProgramEnd, Wanted]:
    """Run a program once while all is well."""
    stage = Stage(None)
    ended = play(stage, HEALTHY_SECONDS)
    if not stage.asked:
        how = "had to be killed" if ended.code is None else f"exit code {ended.code}"
        raise ConfigurationError(
            f"the program sent no request to its provider ({how}): it has to read its address from "
            "a variable such as OPENAI_BASE_URL, and to ask on its own"
        )
    if begun(ended.output) != ANSWER:
        raise ConfigurationError(
            "the program did not print the whole answer of a healthy provider, so its answers "
            "cannot be judged: it has to print the model's text on stdout"
        )
    return ended, stage.asked[0].wanted


def _chosen(
    names: Iterable[str], pool: Iterable[ExamCase], wanted: Wanted, count: int
) -> Sequence[ExamCase]:
    """Return the cases that are named, or the first ones of a pool that fit such requests.

    Arguments:
        names: of cases.
        pool: the cases to choose from where none is named.
        wanted: what the program asks for.
        count: how many.
    """
    named = [catalogue()[name] for name in names]
    for case in named:
        if not case.fits(wanted):
            raise ConfigurationError(
                f"the case {case.name} does not fit: the program's requests cannot meet it"
            )
    return named or [case for case in pool if case.fits(wanted)][:count]
