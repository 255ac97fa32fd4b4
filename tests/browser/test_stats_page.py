"""The page of many journals in a browser: it fits at every width and can be read, by day and by
night.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rungwise.fsm.analysis.stats.shown import FORMS
from support.counted import stats_of
from support.page_checks import assert_contrast, assert_page_fits


@pytest.mark.full
@pytest.mark.sampled(6)
@pytest.mark.parametrize("model", ["gpt-5", "a-name-without-a-place-to-break-it" * 5])
@pytest.mark.parametrize("width", [390, 800, 1440])
def test_it_fits_and_can_be_read(
    open_tab: Callable[..., Any],
    tmp_path: Path,
    width: int,
    model: str,
) -> None:
    path = tmp_path / "stats.html"
    path.write_text(FORMS[".html"](stats_of(model)), encoding="utf-8")
    for dark in (False, True):
        tab = open_tab(path, width=width, dark=dark)
        assert_page_fits(tab)
        assert assert_contrast(tab) > 50
        assert tab.problems == []
        assert tab.run("document.querySelectorAll('td.bar i').length") == 19
