"""Checks of every page in a browser, at any width, light and dark: it fits its window and can be
read.
"""

from pathlib import Path
from typing import Any, Protocol

from support.colours import contrast

LEAST_CONTRAST = 4.5
MAY_SCROLL = ("picture",)
"""The ids and classes of elements that may be wider than the window, because they scroll."""

_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


class Runs(Protocol):
    """Anything that runs a script on a page, such as the `Tab` of the browser tests."""

    def run(self, script: str, /) -> Any:
        """Run a script and return its result."""


def assert_page_fits(page: Runs, *, may_scroll: tuple[str, ...] = MAY_SCROLL) -> None:
    """Assert that nothing is wider than the window, apart from elements that scroll.

    Arguments:
        page: the tab that shows the page.
        may_scroll: the ids and classes of the elements that may.
    """
    seen = page.run(f"({_SCRIPT})(false)")
    assert seen["width"] <= seen["window"], (
        f"{seen['width']} px wide in a window of {seen['window']} px"
    )
    assert not seen["wide"], f"beyond the edge: {seen['wide'][:5]}"
    others = [each for each in seen["scrollers"] if not {each[0], *each[1].split()} & {*may_scroll}]
    assert not others, f"these scroll sideways: {others}"


def assert_contrast(page: Runs, *, least: float = LEAST_CONTRAST) -> int:
    """Assert that every visible text has enough contrast with its background, in pictures too.

    Arguments:
        page: the tab that shows the page.
        least: the least contrast.

    Returns the number of texts checked.
    """
    seen = page.run(f"({_SCRIPT})(true)")
    looked = int(seen["texts"] - seen["missed"])
    assert looked > 0, "no text is shown"
    faults = [
        f"{contrast(pair['ink'], pair['ground']):.2f}: {pair['text']!r} in {pair['within']}"
        f" ({[round(part) for part in pair['ink']]} on {[round(part) for part in pair['ground']]})"
        for pair in seen["pairs"]
        if contrast(pair["ink"], pair["ground"]) < least
    ]
    assert not faults, "\n".join(faults)
    return looked
