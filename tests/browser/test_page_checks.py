"""The checks of what a page looks like find what they are there to find."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.page_checks import assert_contrast, assert_page_fits

Open = Callable[..., Any]

PLAIN = "<body style='background: #fff; color: #000; margin: 8px'><p>Some words.</p>"


def show(open_tab: Open, directory: Path, body: str, **options: Any) -> Any:
    path = directory / "page.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><meta name=color-scheme content='light dark'>{body}",
        "utf-8",
    )
    return open_tab(path, **options)


FAINT = {
    "grey on white": "<p style='color: #888'>faint</p>",
    "on a ground of its own": "<p style='background: #333'><b>faint</b></p>",
    "through a veil": "<p style='opacity: .4'>faint</p>",
    "on a veil": "<p style='background: rgba(0, 0, 0, .8)'>faint</p>",
    "on hatching": "<p style='background: repeating-linear-gradient(45deg, #222 0 2px, "
    "transparent 2px 6px)'>faint</p>",
    "far below": "<div style='height: 3000px'></div><p style='color: #999'>faint</p>",
    "in a box that scrolls": "<div style='height: 40px; overflow: auto'><p style='height: "
    "90px'>.</p>"
    "<p style='color: #999'>faint</p></div>",
    "beside it on top": "<div style='position: relative'><p style='position: absolute; "
    "background: #222; width: 9em;"
    " margin: 0'>&nbsp;</p><p style='position: relative; margin: 0'>faint</p></div>",
    "where nothing can be clicked": "<p style='pointer-events: none; color: #999'>faint</p>",
    "in a picture": "<svg width=200 height=40><rect width=200 height=40 fill='#222'/><text x=9 "
    "y=20>faint</text></svg>",
    "on a pattern": "<svg width=200 height=40><defs><pattern id=p width=4 height=4 "
    "patternUnits=userSpaceOnUse>"
    "<rect width=2 height=4 fill='#222'/></pattern></defs><rect width=200 height=40 "
    "fill='url(#p)'/>"
    "<text x=9 y=20>faint</text></svg>",
    "in new colours": "<p style='color: color-mix(in srgb, black 40%, white)'>faint</p>",
}


@pytest.mark.full
@pytest.mark.parametrize("name", FAINT)
def test_what_cannot_be_read_is_found(open_tab: Open, tmp_path: Path, name: str) -> None:
    with pytest.raises(AssertionError, match="faint"):
        assert_contrast(show(open_tab, tmp_path, PLAIN + FAINT[name]))


LEGIBLE = {
    "": 1,
    "<p style='background: #333; color: #eee'>light on dark</p>": 2,
    "<svg width=200 height=40><rect width=200 height=40 fill='#222'/><text x=9 y=20 "
    "fill='#fff'>light</text></svg>": 2,
    "<svg width=99 height=40><rect width=99 height=40 fill='none'/><text x=9 y=20>on the "
    "page</text></svg>": 2,
    "<p hidden style='color: #999'>nobody sees it</p>": 1,
    "<details><summary>more</summary><p style='color: #999'>not yet</p></details>": 2,
    "<i style='position: absolute; width: 1px; height: 1px; overflow: hidden; color: #999'>only "
    "heard</i>": 1,
}


@pytest.mark.parametrize("body", LEGIBLE)
def test_what_can_be_read_is_counted(open_tab: Open, tmp_path: Path, body: str) -> None:
    assert assert_contrast(show(open_tab, tmp_path, PLAIN + body)) == LEGIBLE[body]


def test_a_page_of_no_colours_is_read_by_night_too(open_tab: Open, tmp_path: Path) -> None:
    assert assert_contrast(show(open_tab, tmp_path, "<p>Words.</p>", dark=True)) == 1


def test_a_page_without_a_word_is_no_page(open_tab: Open, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no text"):
        assert_contrast(show(open_tab, tmp_path, "<p></p>"))


WIDE = {
    "a wide box": ("<div style='width: 500px'>.</div>", "px wide in a window"),
    "a long word": (f"<p>{'w' * 90}</p>", "px wide in a window"),
    "one that is cut off": (
        f"<style>html {{ overflow-x: clip }}</style><p>{'w' * 90}</p>",
        "beyond the edge|px wide",
    ),
    "a box that scrolls": (
        "<div style='overflow: auto'><p style='width: 500px'>.</p></div>",
        "scroll sideways",
    ),
}


@pytest.mark.parametrize("name", WIDE)
def test_what_is_wider_than_the_window_is_found(open_tab: Open, tmp_path: Path, name: str) -> None:
    body, says = WIDE[name]
    with pytest.raises(AssertionError, match=says):
        assert_page_fits(show(open_tab, tmp_path, PLAIN + body, width=390))


@pytest.mark.full
def test_what_may_scroll_may(open_tab: Open, tmp_path: Path) -> None:
    body = "<div id=picture style='overflow: auto'><p style='width: 500px'>.</p></div>"
    short = (
        "<p style='overflow: hidden; text-overflow: ellipsis; white-space: nowrap'>" + "word " * 90
    )
    assert_page_fits(show(open_tab, tmp_path, PLAIN + body + short, width=390))
