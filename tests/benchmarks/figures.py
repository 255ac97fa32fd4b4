"""What is found out: figures of contestants, side by side, and whether the goals are held."""

import statistics
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Figure:
    """One contestant's figure: the median of the rounds, the best of them, and how it compares with
    the first one.

    What a piece of code costs by itself is its best round: everything else that a machine does only
    adds to it. The ratio is the median of those within the rounds, in which all come close to one
    another: a machine that is fast at some times and slow at others is so for all of them.
    """

    who: str
    median: float
    best: float
    ratio: float | None = None
    cpu: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """A goal, and what it is held against."""

    what: str
    figure: float
    sense: Literal["≤", "≥"]
    goal: float
    unit: str

    @property
    def held(self) -> bool:
        """Tell whether the goal is reached."""
        return self.figure <= self.goal if self.sense == "≤" else self.figure >= self.goal


@dataclass(frozen=True)
class Goal:
    """What is wanted of a figure."""

    what: str
    sense: Literal["≤", "≥"]
    goal: float
    unit: str = "×"

    def of(self, figure: float, pace: float = 1.0) -> Verdict:
        """Hold a figure against it; a time on a machine that is slower by `pace` may take as much
        longer.
        """
        return Verdict(self.what, figure, self.sense, self.goal * pace, self.unit)


@dataclass(frozen=True)
class Growth:
    """How a cost grows: the seconds at each size, and the power of the size that they follow."""

    name: str
    unit: str
    sizes: list[int]
    seconds: list[float]
    slope: float


@dataclass(frozen=True)
class Section:
    """The outcome of one measure."""

    name: str
    title: str
    unit: str
    figures: list[Figure] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    growths: list[Growth] = field(default_factory=list)


def compared(
    rounds: list[dict[str, float]], cpu: list[dict[str, float]] | None = None
) -> list[Figure]:
    """Compare contestants with the first of them, from what each needed in each round; slow ones
    sit rounds out.
    """
    figures: list[Figure] = []
    first = next(iter(rounds[0]))
    for who in rounds[0]:
        found = [each[who] for each in rounds if who in each]
        figures.append(
            Figure(
                who,
                median=statistics.median(found),
                best=min(found),
                ratio=statistics.median(
                    each[who] / each[first] for each in rounds if who in each and first in each
                ),
                cpu=min(each[who] for each in cpu if who in each) if cpu else None,
                note=f"{len(found)} rounds of {len(rounds)}" if len(found) < len(rounds) else "",
            )
        )
    return figures
