"""What a strict build does not see: images, names that are no links, names that are missing, and
what is fetched.
"""

import builtins
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from docs.tools.names import public_names
from docs.tools.tree import SOURCES

DOTTED: Final = re.compile(r"rungwise(\.\w+)+(\(\))?")
TRACED: Final = re.compile(
    r"rungwise\.(attempts|backend\.closed|(cache_write_long|discarded|input|output)_tokens|cost|"
    r"cost_reported|fallbacks|health|outcome|rungs?|units\.NAME)"
)
"""Attributes and metrics of traces, which are no names of Python."""
CLASS: Final = re.compile(r"[A-Z]\w*[a-z]\w*(\.\w+)*(\(\))?")
REFERENCE: Final = "reference/"
CHANGELOG: Final = "changelog/"
"""What names were called earlier stands here, so its names are no links."""
FETCHED: Final = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
NOT_FETCHED: Final = {"canonical", "next", "preconnect", "prev"}
ERRORS: Final = {"IllegalEvent", "TableError"}
"""Public errors that a module may raise without importing them, which mkdocstrings does not link
then.
"""


class Page(HTMLParser):
    """Gather the anchors of a page, its links, what it fetches, and the names in code that are no
    links.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.unlinked: set[str] = set()
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in FETCHED and given.get("rel") not in NOT_FETCHED and given.get(FETCHED[tag]):
            self.fetched.add(given[FETCHED[tag]])
        if tag in ("a", "code", "pre", "span", "nav", "h1", "h2", "h3", "h4", "h5", "h6"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close what a tag opened."""
        if tag in self._open:
            self._open.reverse()
            self._open.remove(tag)
            self._open.reverse()

    def handle_data(self, data: str) -> None:
        """Note a name that stands in code of a text; a type has a span, or a link."""
        if self._open == ["code"]:
            self.unlinked.add(data)


def faults_of(site: Path, checkout: Path) -> Iterator[str]:
    """Yield what is wrong with a built site, in a sentence each.

    Arguments:
        site: the folder of the site.
        checkout: what links to our sources must lead to.
    """
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
    }
    for path in pages:
        name = path.relative_to(site.resolve()).as_posix()
        if name == "404.html":  # its links begin at the root of the host
            continue
        yield from (f"{name} {fault}" for fault in _faults_of(name, path, pages, checkout))
    anchors = {anchor for page in pages.values() for anchor in page.anchors}
    for public, module in public_names():
        if f"{module}.{public}" not in anchors:
            yield f"no page describes {module}.{public}"


def _faults_of(name: str, path: Path, pages: dict[Path, Page], checkout: Path) -> Iterator[str]:
    page = pages[path]
    for link in sorted(page.links):
        if link.startswith(SOURCES):
            place = unquote(urlsplit(link.removeprefix(SOURCES)).path)
            if not (checkout / place).exists():
                yield f"links to {place}, which is no file of the sources"
        elif not urlsplit(link).scheme:
            yield from _faults_of_link(link, path, pages)
    for link in sorted(page.fetched):
        parts = urlsplit(link)
        if parts.scheme in ("http", "https") or parts.netloc:
            yield f"fetches {link}"
        elif not parts.scheme and not (path.parent / unquote(parts.path)).is_file():
            yield f"shows {link}, which is not there"
    if name.startswith(CHANGELOG):
        return
    pattern = CLASS if name.startswith(REFERENCE) else DOTTED
    for code in sorted(page.unlinked - set(dir(builtins)) - ERRORS):
        if not TRACED.fullmatch(code) and (pattern.fullmatch(code) or DOTTED.fullmatch(code)):
            yield f"names {code}, which is no link"


def _faults_of_link(link: str, path: Path, pages: dict[Path, Page]) -> Iterator[str]:
    place, _, anchor = link.partition("#")
    target = (path.parent / unquote(place)).resolve() if place else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        yield f"links to {link}, which is not there"
    elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
        yield f"links to {link}, which has no such anchor"
