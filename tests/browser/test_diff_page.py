"""The page of a policy change in a real browser: at every width, by day and by night, without
scripts.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rungwise.fsm.analysis.review.diff import PolicyDiff
from support.changes import of_nothing, of_turns, to_interactive, to_other_table
from support.page_checks import assert_contrast, assert_page_fits

WIDTHS = (390, 800, 1440)
IS_SHOWN = "document.querySelector('.df-hub').checkVisibility()"


@pytest.fixture(params=[to_other_table, pytest.param(of_turns, marks=pytest.mark.full), of_nothing])
def page(request: Any, tmp_path: Path) -> Path:
    made: Callable[[], PolicyDiff] = request.param
    path = tmp_path / "page.html"
    path.write_text(made().to_html(), encoding="utf-8")
    return path


@pytest.mark.full
@pytest.mark.sampled(2)
def test_it_fits_and_can_be_read_at_every_width_by_day_and_by_night(
    open_tab: Callable[..., Any], page: Path
) -> None:
    for width in WIDTHS:
        for dark in (False, True):
            tab = open_tab(page, width=width, dark=dark)
            tab.run("for (const each of document.querySelectorAll('details')) each.open = true")
            assert_page_fits(tab)
            assert assert_contrast(tab) > 100
            assert tab.problems == []
            assert tab.requests == [page.as_uri()]


@pytest.mark.full
def test_on_a_phone_the_ladders_stand_first_and_the_hub_is_there_on_request(
    open_tab: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(to_other_table().to_html(), encoding="utf-8")
    tab = open_tab(path, width=390)
    assert not tab.run(IS_SHOWN)
    tab.click("label[for=hub]")
    assert tab.run(IS_SHOWN)
    assert_page_fits(tab)
    assert open_tab(path, width=1440).run(IS_SHOWN)


@pytest.mark.full
def test_on_a_phone_the_page_of_a_whole_preset_is_read_in_ten_screens(
    open_tab: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "change.html"
    path.write_text(to_interactive().to_html(), encoding="utf-8")
    assert open_tab(path, width=390).run("document.documentElement.scrollHeight") < 8_000
