"""The layout of the SVG: nothing overlaps, whatever a policy or a change makes of the machine."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram import VIEWS, View, draw, render
from rungwise.fsm.diagram.svg.document import PITCH, SIZES
from support.parsed_pictures import parts
from support.pictures import PATHS, PICTURES, TABLES, pictures

Box = tuple[float, float, float, float]


def text_box(element: ET.Element) -> Box:
    size = next(SIZES[name[3:]] for name in element.attrib["class"].split() if name[3:] in SIZES)
    wide = len(element.text or "") * size * PITCH
    x = float(element.attrib["x"])
    y = float(element.attrib["y"])
    left = (
        x
        - wide
        * {
            "start": 0.0,
            "middle": 0.5,
            "end": 1.0,
        }[element.get("text-anchor", "start")]
    )
    return left, y - 0.76 * size, left + wide, y + 0.24 * size


def shape_box(element: ET.Element) -> Box:
    x, y, wide, high = (float(element.attrib[name]) for name in ("x", "y", "width", "height"))
    return x, y, x + wide, y + high


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def within(inner: Box, outer: Box) -> bool:
    slack = 0.2  # coordinates are written with one decimal
    low = inner[0] >= outer[0] - slack and inner[1] >= outer[1] - slack
    return low and inner[2] <= outer[2] + slack and inner[3] <= outer[3] + slack


def outline_box(element: ET.Element) -> Box:
    """Return what an outline with cut corners stands in."""
    points = [
        [float(number) for number in point.split()]
        for point in element.attrib["d"].strip("MZ").split("L")
    ]
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def check_texts(text: str) -> None:
    texts = [(text_box(element), element.text) for element in parts(text, "text")]
    shapes = [shape_box(element) for element in parts(text, "rect")]
    shapes += [
        outline_box(path)
        for path in parts(text, "path")
        if path.attrib["d"].endswith("Z") and "L8 4" not in path.attrib["d"]
    ]
    assert all(says and says == says.strip() for _, says in texts), (
        "a browser drops the space at either end"
    )
    for (one, says), (other, says_too) in combinations(texts, 2):
        assert not overlap(one, other), (says, says_too)
    for box, says in texts:
        assert within(box, shapes[0]), says
        assert all(within(box, shape) for shape in shapes if overlap(box, shape)), says


def check_lines(text: str) -> None:
    texts = [(text_box(element), element.text) for element in parts(text, "text")]
    for path in parts(text, "path"):
        drawn = re.fullmatch(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", path.attrib["d"])
        # an arc back is cut open around its label
        if drawn and "rw-back" not in path.attrib["class"]:
            xs = sorted(map(float, drawn.group(1, 3)))
            ys = sorted(map(float, drawn.group(2, 4)))
            for box, says in texts:
                assert not overlap((xs[0], ys[0] - 0.5, xs[1], ys[1] + 0.5), box), says


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("path", PATHS)
def test_no_text_of_the_svg_overlaps_another_or_crosses_a_border_or_a_line(
    name: str, view: View, path: str
) -> None:
    text = render(TABLES[name], "svg", view, PATHS[path](TABLES[name]))
    check_texts(text)
    check_lines(text)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", PICTURES)
def test_nothing_of_a_policy_or_a_change_overlaps(name: str, view: View) -> None:
    text = draw(pictures()[name], "svg", view)
    check_texts(text)
    check_lines(text)


@pytest.mark.parametrize("view", VIEWS)
def test_the_picture_of_the_default_policy_fits_a_page(view: View) -> None:
    assert float(ET.fromstring(draw(pictures()["default"], "svg", view)).attrib["width"]) <= 1000


@pytest.mark.parametrize("view", VIEWS)
def test_the_svg_loads_nothing_and_touches_nothing_else_on_a_page(view: View) -> None:
    text = render(CALL, "svg", view)
    style = parts(text, "style")[0].text or ""
    assert not re.search(r"url\(|@import|href|<script", text.replace("url(#rw-", ""))
    assert "prefers-color-scheme:dark" in style
    flat = style.replace("@media (prefers-color-scheme:dark){", "").replace("}}", "}")
    selectors = [one for rule in flat.split("}") if rule for one in rule.split("{")[0].split(",")]
    assert all(selector.startswith(".rungwise ") for selector in selectors)
