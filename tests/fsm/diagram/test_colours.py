"""The colours of the pictures: every text can be read, and kinds are told apart by who does not see
every colour.
"""

from collections.abc import Mapping
from itertools import combinations

import pytest

from rungwise.fsm.diagram.colours import DARK, LIGHT, MARK
from support.colours import DEFICIENCIES, Lab, ciede2000, contrast, distance

KINDS = ("rung", "hub", "answer", "lesser", "error")
"""What stands in one picture; `outcome` is what an end is where none is an answer, and then is grey
as the hub is.
"""

EVERY_KIND = (*KINDS, "outcome")


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_every_text_can_be_read_and_every_border_seen(colours: Mapping[str, str]) -> None:
    for ground in (colours["page"], colours["panel"], *(colours[kind] for kind in EVERY_KIND)):
        assert contrast(colours["ink"], ground) >= 7
    for ground in (colours["page"], colours["panel"]):
        assert contrast(colours["faint"], ground) >= 4.5
        assert contrast(colours["mark"], ground) >= 4.5
        assert all(contrast(colours[f"{kind}_edge"], ground) >= 3 for kind in EVERY_KIND)
    assert contrast(colours["on_mark"], colours["mark"]) >= 4.5


@pytest.mark.parametrize("ground", [LIGHT["page"], DARK["page"]])
def test_the_one_mark_of_mermaid_is_seen_by_day_and_by_night(ground: str) -> None:
    assert contrast(MARK, ground) >= 3


@pytest.mark.parametrize("deficiency", ["", *DEFICIENCIES])
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_kinds_are_told_apart_by_everybody(colours: Mapping[str, str], deficiency: str) -> None:
    """A difference of 2.3 can just be noticed, side by side; five times that is another colour at a
    glance.
    """
    for one, other in combinations(KINDS, 2):
        assert distance(colours[f"{one}_edge"], colours[f"{other}_edge"], deficiency) >= 5 * 2.3, (
            one,
            other,
        )
        assert distance(colours[one], colours[other], deficiency) >= 2.5 * 2.3, (one, other)
    assert distance(colours["rung_edge"], colours["outcome_edge"], deficiency) >= 5 * 2.3


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_grey_stays_grey_for_everybody(deficiency: str) -> None:
    assert all(abs(sum(row) - 1) < 1e-5 for row in DEFICIENCIES[deficiency]), (
        "a matrix was copied wrongly"
    )


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (50.0, 0.0, -2.5), 4.3065),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_difference_is_that_of_the_published_pairs(one: Lab, other: Lab, apart: float) -> None:
    assert ciede2000(one, other) == pytest.approx(apart, abs=1e-4)
