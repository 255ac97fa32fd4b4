"""The tools of the documentation site: what they link, and what they refuse. `.ci/docs` builds the
site itself.
"""

import inspect
import re
import subprocess
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from docs.tools import build
from docs.tools.check import faults_of
from docs.tools.extension import split_shared
from docs.tools.names import MODULES, link_names, public_names
from docs.tools.tree import SOURCES, faults_of_tree, for_site

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("A `Client`.", "A [`Client`][rungwise.Client]."),
        ("`Client.call()`", "[`Client.call()`][rungwise.Client.call]"),
        ("`rungwise.core.Reply`s", "[`rungwise.core.Reply`][rungwise.core.Reply]s"),
        # a field stands under its class
        ("`Policy.base_cap`", "[`Policy.base_cap`][rungwise.Policy]"),
        (
            "`rungwise.core.LEARNED.forget`",
            "[`rungwise.core.LEARNED.forget`][rungwise.core.LEARNED]",
        ),
        ("`verify` and `run`", "`verify` and `run`"),  # common words, outside of their module
        ("`rungwise.Policy.nothing`", "`rungwise.Policy.nothing`"),
        ("```python\n`Client`\n```", "```python\n`Client`\n```"),
        ("[`Client`](client.md)", "[`Client`](client.md)"),
    ],
)
def test_public_names_become_links(text: str, linked: str) -> None:
    assert link_names(text) == linked


def test_a_module_links_its_own_names() -> None:
    assert link_names("`run`", "rungwise.testing") == "[`run`][rungwise.testing.run]"


def test_arguments_that_share_a_line_get_one_each() -> None:
    shared = "Do it.\n\nArguments:\n    old, new: both of\n        calls.\n    last: one."
    split = (
        "Do it.\n\nArguments:\n    old: both of\n        calls.\n    new: both of\n       "
        " calls.\n    last: one."
    )
    assert split_shared(shared) == split


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="../b/">b</a>', "a/index.html links to ../b/, which is not there"),
        ('<a href="#no">b</a>', "a/index.html links to #no, which has no such anchor"),
        ('<img src="../no.svg">', "a/index.html shows ../no.svg, which is not there"),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "a/index.html fetches https://cdn.example/x.js",
        ),
        (
            "<p><code>rungwise.Nothing</code></p>",
            "a/index.html names rungwise.Nothing, which is no link",
        ),
        (
            '<a href="https://github.com/rungwise/rungwise/blob/main/no.py">n</a>',
            "a/index.html links to no.py, which is no file of the sources",
        ),
        ('<h2 id="yes">h</h2><a href="#yes">y</a><a href="https://example.org/">x</a>', ""),
    ],
)
def test_what_a_site_must_not_have_is_found(tmp_path: Path, body: str, fault: str) -> None:
    page = tmp_path / "a/index.html"
    page.parent.mkdir()
    anchors = "".join(f'<a id="{module}.{name}"></a>' for name, module in public_names())
    page.write_text(f"<html><body>{anchors}{body}</body></html>", encoding="utf-8")
    assert "\n".join(faults_of(tmp_path, ROOT)) == fault


def test_a_public_name_without_a_page_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<html></html>", encoding="utf-8")
    assert "no page describes rungwise.Client" in list(faults_of(tmp_path, ROOT))


def test_every_link_of_the_tree_leads_somewhere_on_github() -> None:
    assert "\n".join(faults_of_tree(ROOT)) == ""


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("[x](no.md)", "no.md, which is not in the tree"),
        ("![x](diagrams/call.svg)", "diagrams/call.svg, which is not in the tree"),
        ("[x](../../../outside.md)", "../../../outside.md, which is not in the tree"),
        ("[x](../../rungwise/fsm/a.md)", "../../rungwise/fsm/a.md, which is not in the tree"),
        ("[x]", "no.md, which is not in the tree"),
        ("| a |\n| --- |\n| [x](no.md) |", "no.md, which is not in the tree"),
        ("* a\n\n  [x](no.md)", "no.md, which is not in the tree"),
        (f"[x]({SOURCES}no.py)", f"{SOURCES}no.py, which is not in the tree"),
        ("[x](b.md#no)", "b.md#no, which has no such anchor on GitHub"),
        ("[x](#no)", "#no, which has no such anchor on GitHub"),
        ("[x](b.md#sse--json_lines-1)", ""),
        ("[x](b.md#sse--json_lines) ![y](../../diagrams/call.svg) [z](../../fsm/a.md)", ""),
        (f"[x]({SOURCES}fsm/a.md) <https://example.org/no.md>", ""),
        ("`[x](no.md)`\n\n```text\n[x](no.md)\n```", ""),
    ],
)
def test_a_broken_link_of_the_tree_is_found(tmp_path: Path, body: str, fault: str) -> None:
    for name in ("docs/pages", "diagrams", "fsm", "rungwise"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path.parent / "outside.md").write_text("", encoding="utf-8")
    (tmp_path / "diagrams/call.svg").write_text("", encoding="utf-8")
    (tmp_path / "fsm/a.md").write_text("", encoding="utf-8")
    (tmp_path / "rungwise/fsm").symlink_to("../fsm")
    twice = "## SSE, `json_lines`!\n" * 2
    (tmp_path / "docs/pages/b.md").write_text(twice.replace(",", " /"), encoding="utf-8")
    page = tmp_path / "docs/pages/a.md"
    page.write_text(f"{body}\n\n[x]: no.md\n", encoding="utf-8")
    found = "\n".join(faults_of_tree(tmp_path))
    assert found == (f"docs/pages/a.md links to {fault}" if fault else "")


@pytest.mark.parametrize(
    ("path", "text", "written"),
    [
        ("docs/pages/index.md", "![x](../../diagrams/call.svg)", "![x](diagrams/call.svg)"),
        (
            "docs/pages/pains/outages.md",
            "[x](../../../diagrams/README.md#a)",
            "[x](../diagrams/pictures.md#a)",
        ),
        ("docs/pages/pains/outages.md", "[x](cost.md) [y](#z)", "[x](cost.md) [y](#z)"),
        ("docs/pages/index.md", "[x](../../fsm/README.md#a)", f"[x]({SOURCES}fsm/README.md#a)"),
        ("diagrams/README.md", "[x](../fsm/README.md)", f"[x]({SOURCES}fsm/README.md)"),
        ("diagrams/README.md", "[x](rows.md)", "[x](rows.md)"),
        ("CHANGELOG.md", "[x](docs/pages/pains/cost.md)", "[x](pains/cost.md)"),
        ("CHANGELOG.md", "[x](https://example.org/a/../b)", "[x](https://example.org/a/../b)"),
    ],
)
def test_a_link_of_the_tree_becomes_one_of_the_site(path: str, text: str, written: str) -> None:
    assert for_site(text, path) == written


def test_the_pages_are_gathered_with_pictures_and_commands(tmp_path: Path) -> None:
    config = build.gather(tmp_path)
    pages = config.parent / "pages"
    assert (pages / "diagrams/call.svg").read_bytes() == (ROOT / "diagrams/call.svg").read_bytes()
    assert "## rungwise verify" in (pages / "reference/commands.md").read_text(encoding="utf-8")
    assert "<!--" not in (pages / "get-started.md").read_text(encoding="utf-8")


def test_every_page_stands_in_the_navigation(tmp_path: Path) -> None:
    pages = build.gather(tmp_path).parent / "pages"
    listed = re.findall(
        r"^ +- (?:.*: )?(\S+\.md)$", (ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8"), re.M
    )
    assert sorted(listed) == sorted(
        path.relative_to(pages).as_posix() for path in pages.rglob("*.md")
    )


@pytest.mark.parametrize(
    "module", [*map(import_module, MODULES)], ids=lambda module: module.__name__
)
def test_every_public_name_says_what_it_is(module: ModuleType) -> None:
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
            assert own, name
        elif not inspect.ismodule(value):
            assert f"`{name}`" in (module.__doc__ or ""), (
                f"{name} has no docstring, so its module must describe it"
            )


@pytest.mark.full
@pytest.mark.parametrize("tool", build.TOOLS)
def test_either_tool_builds_the_site(tmp_path: Path, tool: str) -> None:
    assert build.build(tmp_path / "site", tool) == []


@pytest.mark.full
@pytest.mark.parametrize(
    "broken", ["[x](nowhere.md)", "[x](index.md#nowhere)", "[x][rungwise.Nothing]", "![x](no.svg)"]
)
def test_a_broken_reference_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    gather = build.gather

    def gathered(folder: Path) -> Path:
        config = gather(folder)
        page = folder / "pages/adopt.md"
        page.write_text(page.read_text(encoding="utf-8") + f"\n{broken}\n", encoding="utf-8")
        return config

    monkeypatch.setattr(build, "gather", gathered)
    try:
        faults = build.build(tmp_path / "site", "zensical")
    except subprocess.CalledProcessError:
        return
    assert faults
