"""A headless Chromium, driven by Playwright: the installed one, or Playwright's own where that was
downloaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from support.missing import missing
from support.pages import PAGES

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Tab:
    """A page in the browser, which shows one file after another; what a file logs and loads is
    remembered.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("requestfailed", lambda request: self.problems.append(f"failed: {request.url}"))
        page.on("request", lambda request: self.requests.append(request.url))
        self.run = page.evaluate
        self.press = page.keyboard.press

    def open(
        self,
        path: Path,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
    ) -> Tab:
        """Load a file into a window of some size, by day or by night."""
        self._page.set_viewport_size({"width": width, "height": height})
        self._page.emulate_media(
            color_scheme="dark" if dark else "light", reduced_motion="no-preference"
        )
        self._page.mouse.move(0, 0)
        self.problems.clear()
        self.requests.clear()
        self._page.goto(path.as_uri())
        return self

    def open_url(
        self,
        url: str,
        *,
        width: int,
        height: int,
    ) -> Page:
        """Load a page from a server by day, and return it."""
        self._page.set_viewport_size({"width": width, "height": height})
        self._page.emulate_media(color_scheme="light", reduced_motion="no-preference")
        self.problems.clear()
        self._page.goto(url)
        return self._page

    def click(self, selector: str) -> None:
        """Click on the middle of an element with the mouse, at once: nothing moves on these
        pages.
        """
        self._page.click(selector, force=True)

    def run_inside(self, script: str) -> Any:
        """Run a script in the frame within the page, once that has loaded."""
        frame = self._page.wait_for_selector("iframe").content_frame()
        frame.wait_for_function("typeof page !== 'undefined'")
        return frame.evaluate(script)

    def be_still(self) -> None:
        """Tell the page that its user wants nothing to move."""
        self._page.emulate_media(reduced_motion="reduce")


@pytest.fixture(scope="module")  # while Playwright runs, no event loop can be started beside it
def tab() -> Iterator[Tab]:
    """Start the browser; where CI has none that is a failure, for everybody else a reason to
    skip.
    """
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        program = next(filter(None, map(shutil.which, PROGRAMS)), own if own.exists() else None)
        if program is None:
            missing(
                f"no browser: none of {', '.join(PROGRAMS)} is installed (on Debian: apt-get "
                f"install chromium)"
            )
        with playwright.chromium.launch(executable_path=program) as browser:
            yield Tab(browser.new_page())


@pytest.fixture
def open_tab(tab: Tab) -> Callable[..., Tab]:
    """Open a file in the browser: `open_tab(path, width=..., height=..., dark=...)`."""
    return tab.open


class Pages(dict[str, Path]):
    """Hold the files of the pages by name; each is written when it is asked for."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def __missing__(self, name: str) -> Path:
        self[name] = self._directory / f"{name}.html"
        self[name].write_text(PAGES[name](), encoding="utf-8")
        return self[name]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Return the files of the pages of `support.pages`."""
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def show(tab: Tab, pages: Pages) -> Callable[..., Tab]:
    """Open a page of `support.pages` in the browser: `show(name, width=..., height=...,
    dark=...)`.
    """
    return lambda name, **window: tab.open(pages[name], **window)
