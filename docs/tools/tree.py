"""The pages as they stand in the tree, where GitHub shows them, and what their links become on the
site.

A page links as GitHub needs it: to a file of the tree, by a relative path. The site has a part of
these files, some at other places. `for_site` rewrites the links, and `faults_of_tree` finds those
that lead nowhere.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

SOURCES: Final = "https://github.com/rungwise/rungwise/blob/main/"
FOLDERS: Final = (".github", "adapters", "diagrams", "docs", "fsm", "tests")
"""Whatever has pages, but for the links in `rungwise/`, which GitHub does not follow."""

PAGES: Final = "docs/pages/"
PICTURES: Final = "diagrams/"
CHANGELOG: Final = "CHANGELOG.md"
RENAMED: Final = {CHANGELOG: "changelog.md", "diagrams/README.md": "diagrams/pictures.md"}
LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))")
MARKDOWN: Final = MarkdownIt("commonmark").enable("table")


def place_in_site(path: str) -> str | None:
    """Return where a file of the tree stands on the site, or None if it is not there."""
    if path in RENAMED:
        return RENAMED[path]
    if path.startswith(PAGES):
        return path.removeprefix(PAGES)
    return path if path.startswith(PICTURES) else None


def places_in_site(checkout: Path) -> dict[str, str]:
    """Return the files of the tree that the site has, each with its place there."""
    folders = (checkout / PAGES, checkout / PICTURES)
    files = [each for folder in folders for each in folder.rglob("*") if each.is_file()]
    paths = [path.relative_to(checkout).as_posix() for path in sorted(files)]
    return {path: place_in_site(path) or path for path in (CHANGELOG, *paths)}


def for_site(text: str, path: str) -> str:
    """Return a page with its relative links as the site needs them.

    Arguments:
        text: the page.
        path: where it stands in the tree.
    """

    def link_in_site(found: re.Match[str]) -> str:
        link = found[2]
        if urlsplit(link).scheme or link.startswith("#"):
            return found[0]
        place, mark, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), place))
        there = place_in_site(target)
        if there is None:
            new = SOURCES + target
        else:
            new = os.path.relpath(there, os.path.dirname(place_in_site(path) or ""))
        return f"{found[1]}{new}{mark}{anchor}{found[3]}"

    return LINK.sub(link_in_site, text)


class Page:
    """The links and pictures of a page, and the anchors that GitHub makes from its headings."""

    def __init__(self, text: str) -> None:
        blocks = MARKDOWN.parse(text)
        self.links: dict[str, None] = {}
        for token in (each for block in blocks for each in block.children or ()):
            for name in ("href", "src"):
                if name in token.attrs:
                    self.links[str(token.attrs[name])] = None
        self.anchors: set[str] = set()
        seen: Counter[str] = Counter()
        for opened, heading in pairwise(blocks):
            if opened.type == "heading_open":
                words = "".join(each.content for each in heading.children or ())
                slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
                self.anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
                seen[slug] += 1


def faults_of_tree(checkout: Path) -> Iterator[str]:
    """Yield each link and picture that leads nowhere on GitHub, in a sentence each.

    Arguments:
        checkout: the folder of the tree.
    """
    root = checkout.resolve()
    paths = [
        *root.glob("*.md"),
        *(path for name in FOLDERS for path in (root / name).rglob("*.md")),
    ]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(paths)}
    for path, page in pages.items():
        for link in page.links:
            fault = _fault_of(link, path, pages, root)
            if fault:
                yield f"{path.relative_to(root).as_posix()} links to {link}, {fault}"


def _fault_of(link: str, path: Path, pages: dict[Path, Page], root: Path) -> str:
    if link.startswith(SOURCES):
        link = link.removeprefix(SOURCES)
        path = root / "README.md"
    elif urlsplit(link).scheme:
        return ""
    place, _, anchor = link.partition("#")
    target = Path(os.path.normpath(path.parent / unquote(place))) if place else path
    # a symbolic link is a text file on GitHub
    if not target.exists() or target.resolve() != target or not target.is_relative_to(root):
        return "which is not in the tree"
    if anchor and target in pages and unquote(anchor) not in pages[target].anchors:
        return "which has no such anchor on GitHub"
    return ""
