"""The API site: it is built without a warning, tells every public name, and has no reference that leads nowhere."""

import builtins
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

import rungwise
import rungwise.core
import rungwise.pytest_plugin
import rungwise.testing
from support.waiting import patience

ROOT = Path(__file__).parents[2]
PUBLIC = [rungwise, rungwise.core, rungwise.testing, rungwise.pytest_plugin]


class Page(HTMLParser):
    """Gather the anchors of a page, its links, and the names in code that are no links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.dead: set[str] = set()
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        if tag == "a":
            self.links.append(given.get("href") or "")
        if tag in ("a", "code", "pre"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("a", "code", "pre"):
            self._open.remove(tag)

    def handle_data(self, data: str) -> None:
        if self._open == ["code"] and re.fullmatch(r"(rungwise\.[\w.]*)?[A-Z]\w*[a-z]\w*(\.\w+)*(\(\))?", data):
            self.dead.add(data)


def test_the_site_builds_without_warnings_and_all_references_resolve(tmp_path: Path) -> None:
    built = subprocess.run(
        [ROOT / ".ci" / "api", tmp_path],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=patience(120),
    )
    assert built.returncode == 0, built.stderr
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in tmp_path.rglob("*.html")}
    names = {path.relative_to(tmp_path).as_posix() for path in pages}
    assert names >= {"index.html", *(f"{module.__name__.replace('.', '/')}.html" for module in PUBLIC)}
    for path, page in pages.items():
        assert page.dead <= set(dir(builtins)), f"{path.name} has names that are no links"
        for link in page.links:
            if link.startswith(("https://", "http://")):
                continue
            place, _, anchor = link.partition("#")
            target = (path.parent / place).resolve() if place else path
            assert target in pages, f"{path.name} links to {link}"
            assert not anchor or anchor in pages[target].anchors, f"{path.name} links to {link}"
    assert set(rungwise.__all__) <= pages[tmp_path / "rungwise.html"].anchors


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_name_says_what_it_is(module: ModuleType) -> None:
    named = {name for code in re.findall(r"`([\w.]+)`", module.__doc__ or "") for name in code.split(".")}
    for name in module.__all__:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)):
            assert name in named, f"{name} has no docstring, so that of {module.__name__} must tell it"
            continue
        own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        assert own, name
