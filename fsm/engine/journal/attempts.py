"""The attempts of a recorded run: what led to each, what was sent, and what came back.

Summaries, counts of journals, rates and comparisons of policies all read attempts. They read them
here, so that they agree on what an attempt is:

* it begins with a step `sent`, from a rung to the hub;
* the next step that is not `skipped` is what came back. There is none while the attempt is in
  flight;
* the last step before it that is not `skipped` led to its rung, and has the wait of that rung.

A step `skipped` marks a backend that the run passed over. It is no row of the table, and it can
stand between any two steps. Steps after the last reply belong to no attempt, such as a cancellation
in a rung; `ending_of` returns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from attrs import frozen

from rungwise.fsm.engine.journal.path import SKIPPED, Path, word_of, words_of
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.values.usage import NO_USAGE, Usage

SENT: Final = "sent"


@frozen(kw_only=True)
class RecordedAttempt:
    """Hold one attempt: a step to the hub, and the step back.

    Arguments:
        number: counted from 1.
        sent: the step that sent it.
        back: the step that its reply, its failure or a cancellation caused; None while it is in
            flight.
        led: the step that led to its rung; None for the first attempt of a run that began there.
        skipped: the steps that passed over a backend since the attempt before was sent.
        facts_before: the facts of what came back of all earlier attempts.
        steps: the numbers of its first and its last step, up to the one that leads to the next
            attempt.
    """

    number: int
    sent: Step
    back: Step | None = None
    led: Step | None = None
    skipped: tuple[Step, ...] = ()
    facts_before: frozenset[str] = frozenset()
    steps: tuple[int, int]

    @property
    def rung(self) -> str:
        """Return the rung that sent it."""
        return self.sent.source

    @property
    def wait(self) -> float:
        """Return the wait of the rung, in seconds."""
        return 0.0 if self.led is None else self.led.wait

    @property
    def waited(self) -> float:
        """Return the seconds that passed in the rung; 0 if it had no wait."""
        if self.led is None or not self.wait:
            return 0.0
        return self.sent.at - self.led.at

    @property
    def seconds(self) -> float | None:
        """Return the seconds that it was in flight; None while it is."""
        if self.back is None:
            return None
        return self.back.at - self.sent.at

    @property
    def usage(self) -> Usage:
        """Return its tokens."""
        return NO_USAGE if self.back is None else self.back.usage

    @property
    def why(self) -> str | None:
        """Return what led to it in a word or two; None for the first attempt."""
        if self.led is None:
            return None
        return word_of(self.led)

    @property
    def came(self) -> str | None:
        """Return what came back in a few words; None while nothing has."""
        if self.back is None:
            return None
        return words_of(self.back)


def attempts_of(steps: Sequence[Step]) -> Iterator[RecordedAttempt]:
    """Yield the attempts of a run, in order; steps before the first attempt belong to it.

    Arguments:
        steps: all steps of the run, or all but the skipped ones. They need not follow a table.
    """
    places = [place for place, step in enumerate(steps) if step.event == SENT]
    facts = frozenset[str]()
    start = 0  # of the steps since the attempt before was sent
    for number, (place, end) in enumerate(pairwise([*places, len(steps)]), start=1):
        before = steps[start:place]
        sent = steps[place]
        back = _first_row(steps[place + 1 : end])
        skipped = [step for step in before if step.event == SKIPPED]
        first = sent
        if number == 1:
            first = steps[0]
        yield RecordedAttempt(
            number=number,
            sent=sent,
            back=back,
            led=_first_row(reversed(before)),
            skipped=tuple(skipped),
            facts_before=facts,
            steps=(first.number, steps[end - 1].number),
        )
        if back is not None:
            facts = facts.union(back.facts)
        start = place + 1


def _first_row(steps: Iterable[Step]) -> Step | None:
    """Return the first step that took a row of the table."""
    return next((step for step in steps if step.event != SKIPPED), None)


def end_of(attempt: RecordedAttempt, table: Table) -> str | None:
    """Return the outcome that an attempt led to, if any."""
    back = attempt.back
    if back is not None and back.target in table.outcomes:
        return back.target
    return None


def ending_of(path: Path, attempts: Sequence[RecordedAttempt]) -> Step | None:
    """Return the last step if it came back with no attempt, such as a cancellation in a rung."""
    last = path.steps[-1]
    if last.event == SKIPPED:
        return None
    if not attempts:
        return last
    back = attempts[-1].back
    if back is None or back.number >= last.number:
        return None
    return last
