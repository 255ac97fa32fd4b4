"""Mermaid itself, as GitHub runs it, takes every text and puts each state in its place."""

import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from browser.conftest import Tab
from rungwise.fsm.diagram import VIEWS, View, draw
from support.colours import contrast
from support.pictures import PICTURES, pictures
from support.waiting import patience

RELEASE = "mermaid@11"
"""The major version that GitHub runs."""

PAGE = (
    '<!doctype html><meta charset="utf-8"><title>Mermaid</title><script '
    'src="mermaid.min.js"></script><main></main>'
)
DRAW = """async ([text, theme]) => {
  mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme });
  await mermaid.parse(text);
  const main = document.querySelector("main");
  main.innerHTML = (await mermaid.render("picture", text)).svg;
  return [...main.querySelectorAll("g.node")].map((node) => {
    const box = node.getBoundingClientRect();
    const label = node.querySelector("foreignObject span, foreignObject p, foreignObject div");
    const shape = node.querySelector("rect, polygon, path, circle");
    return {
      name: node.id.replace(/^.*flowchart-/, "").replace(/-\\d+$/, ""),
      says: node.textContent.trim(),
      x: box.x + box.width / 2,
      y: box.y + box.height / 2,
      left: box.left,
      right: box.right,
      ink: getComputedStyle(label ?? node).color,
      fill: getComputedStyle(shape).fill,
    };
  });
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with Mermaid in it, as npm has it; without it nothing is tested, and that is a
    failure.
    """
    folder = tmp_path_factory.mktemp("mermaid")
    try:
        packed = subprocess.run(
            ["npm", "pack", RELEASE, "--json"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=patience(240),
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        pytest.fail(
            f"npm pack {RELEASE} failed, so that nobody knows whether Mermaid takes the pictures: "
            f"{error}"
        )
    with tarfile.open(folder / json.loads(packed.stdout)[0]["filename"]) as archive:
        script = archive.extractfile("package/dist/mermaid.min.js")
        (folder / "mermaid.min.js").write_bytes(script.read())
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    return folder / "page.html"


def drawn(tab: Tab, text: str, theme: str) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = tab.run(DRAW, [text, theme])
    return nodes


@pytest.mark.full
@pytest.mark.parametrize(
    ("theme", "some"), [("dark", PICTURES), ("default", ("default", "default to own"))]
)
@pytest.mark.parametrize("view", VIEWS)
def test_mermaid_draws_every_picture_with_labels_that_can_be_read(
    page: Path,
    open_tab: Callable[..., Tab],
    view: View,
    theme: str,
    some: tuple[str, ...],
) -> None:
    tab = open_tab(page)
    for name, picture in ((name, pictures()[name]) for name in some):
        nodes = drawn(tab, draw(picture, "mermaid", view), theme)
        assert len(nodes) >= len(picture.nodes if view == "hub" else picture.decisions), name
        for node in nodes:
            assert "Unsupported markdown" not in node["says"], (name, node)
            if node["says"]:
                assert contrast(node["ink"], node["fill"]) >= 4.5, (name, node)
    assert tab.problems == []


@pytest.mark.full
def test_rungs_hub_and_outcomes_stand_in_their_order(
    page: Path, open_tab: Callable[..., Tab]
) -> None:
    tab = open_tab(page)
    for name, picture in pictures().items():
        nodes = {
            node["name"].removesuffix("_"): node
            for node in drawn(tab, draw(picture, "mermaid"), "default")
        }
        hub = nodes[picture.hub]
        rungs = [nodes[node.name] for node in picture.of_kind("rung")]
        ends = [
            nodes[node.name] for node in picture.of_kind("answer", "lesser", "error", "outcome")
        ]
        assert all(rung["right"] < hub["left"] for rung in rungs), name
        assert all(hub["right"] < end["left"] for end in ends), name
        for column in (rungs, ends):
            assert [node["y"] for node in column] == sorted(node["y"] for node in column), name
