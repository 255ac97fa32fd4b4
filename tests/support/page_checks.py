"""What every page must be in a browser, at any width, by day and by night: no wider than its window, and legible."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from support.colours import contrast

LEAST_CONTRAST = 4.5
MAY_SCROLL = ("picture",)
"""The ids and classes of what may be wider than the window, and then scrolls by itself."""

_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


class Runs(Protocol):
    """What runs a script on the page that it shows, as the `Tab` of the browser tests does."""

    def run(self, script: str, /) -> Any:
        """Return what the script returns."""


def assert_page_fits(page: Runs, *, may_scroll: tuple[str, ...] = MAY_SCROLL) -> None:
    """Assert that nothing is wider than the window, but what may scroll by itself.

    Arguments:
        page: what shows the page.
        may_scroll: the ids and classes of the elements that may.
    """
    seen = page.run(f"({_SCRIPT})(false)")
    assert seen["width"] <= seen["window"], f"{seen['width']} px wide in a window of {seen['window']} px"
    assert not seen["wide"], f"beyond the edge: {seen['wide'][:5]}"
    others = [each for each in seen["scrollers"] if not {each[0], *each[1].split()} & {*may_scroll}]
    assert not others, f"these scroll sideways: {others}"


def assert_contrast(page: Runs, *, least: float = LEAST_CONTRAST) -> int:
    """Assert that every text that is shown can be read on whatever is painted behind it, in pictures too.

    Arguments:
        page: what shows the page.
        least: the contrast that is asked for.

    Returns how many texts were looked at.
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
