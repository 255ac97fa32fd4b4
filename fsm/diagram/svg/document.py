"""The marks that an SVG picture consists of, and its style sheet for light and dark pages.

All lengths are in pixels of the picture; x grows to the right and y downwards. Classes are given
without their prefix `rw-`, several of them with spaces between.

Theory. A layout must know how wide each text is, but no font is at hand here, and another reader
has another font. Nearly all texts are identifiers, so every text is set in a fixed pitch, and its
width is the number of its characters times a pitch. `PITCH` is the widest of the fonts that the
style sheet names, so a text never needs more room than was counted, in whichever of them it is
shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from rungwise.fsm.diagram.colours import DARK, LIGHT
from rungwise.fsm.diagram.line import Line

PITCH = 0.602  # em: the widest pitch of the fonts named in the style sheet
SIZES = {"name": 13, "label": 12, "small": 11, "title": 15}  # pixels
ROW = 16  # the height of a line of a panel
BADGE = 15  # the height of the badge of a step, and its least width
MOST_BADGES = 4  # more steps than these are shown as the first ones and the last


def number(value: float) -> str:
    """Write a coordinate in its shortest form."""
    return f"{round(value, 1):g}"


def width(text: str, size: str = "label") -> float:
    """Return how wide a text can be, in pixels."""
    return len(text) * PITCH * SIZES[size]


def text(x: float, y: float, content: str, classes: str = "label", anchor: str = "start") -> str:
    """Write a text.

    Arguments:
        x, y: where it is anchored, on its baseline.
        content: the text, which is escaped.
        classes: the first one names its size.
        anchor: `start`, `middle` or `end`: which point of the text is at `x`.
    """
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    place = f'x="{number(x)}" y="{number(y)}"'
    return f'<text class="{_classes(classes)}" {place}{anchored}>{escape(content)}</text>'


def box(x: float, y: float, w: float, h: float, classes: str, radius: float = 0) -> str:
    """Draw a rectangle.

    Arguments:
        x, y: its upper left corner.
        w, h: its width and height.
        classes: its classes.
        radius: the radius of its corners.
    """
    place = f'x="{number(x)}" y="{number(y)}"'
    size = f'width="{number(w)}" height="{number(h)}"'
    rounded = f' rx="{number(radius)}"' if radius else ""
    return f'<rect class="{_classes(classes)}" {place} {size}{rounded}/>'


def line(points: Iterable[tuple[float, float]], classes: str, arrow: str = "") -> str:
    """Draw a line through some points; `arrow` names the marker at its end."""
    end = f' marker-end="url(#rw-{arrow})"' if arrow else ""
    return f'<path class="{_classes(classes)}" d="M{_path(points)}"{end}/>'


def shape(points: Iterable[tuple[float, float]], classes: str) -> str:
    """Draw a closed outline through some points."""
    return f'<path class="{_classes(classes)}" d="M{_path(points)}Z"/>'


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "L".join(f"{number(x)} {number(y)}" for x, y in points)


def titled(says: str, parts: Iterable[str]) -> list[str]:
    """Put a tooltip before some parts; an empty one is left out."""
    if not says:
        return list(parts)
    return [f"<title>{escape(says)}</title>", *parts]


def group(parts: Iterable[str], **data: str) -> str:
    """Group parts, with data attributes for scripts and tests."""
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    return f"<g{attributes}>" + "".join(parts) + "</g>"


def line_group(item: Line, parts: Iterable[str], more: str = "") -> str:
    """Group the parts that show one row.

    The data attributes name the row, also in a group without parts, so that scripts and tests find
    every row. The tooltip is the row in full, and `more` below it.
    """
    row = item.row
    children = list(parts)
    if children:
        tooltip = "\n".join(filter(None, [item.says, more]))
        children = titled(tooltip, children)
    return group(
        children,
        event=row.event,
        source=row.source,
        guard=row.guard or "",
        target=row.target,
    )


def badges(steps: tuple[int, ...]) -> list[str]:
    """Return the texts of the step badges: all numbers, or the first ones and the last."""
    labels = [str(step) for step in steps]
    if len(labels) <= MOST_BADGES:
        return labels
    return [*labels[: MOST_BADGES - 1], f"…{labels[-1]}"]


def badge_width(label: str) -> float:
    """Return the width of a badge."""
    return max(BADGE, width(label, "small") + 6)


def badges_width(steps: tuple[int, ...]) -> float:
    """Return the width of a run of step badges with the gaps before them."""
    return sum(badge_width(label) + 3 for label in badges(steps))


def draw_badges(
    x: float, middle: float, steps: tuple[int, ...], *, hollow: bool = False
) -> list[str]:
    """Draw step badges in a line.

    Arguments:
        x: the left edge of the line.
        middle: the y in the middle of the badges.
        steps: the numbers of the steps.
        hollow: whether the badges are hollow, as for steps that found the guard of a row false.
    """
    frame = "badge"
    label_classes = "small on-mark"
    if hollow:
        frame = "hollow"
        label_classes = "small hit"
    parts: list[str] = []
    for label in badges(steps):
        w = badge_width(label)
        parts.append(box(x + 3, middle - BADGE / 2, w, BADGE, frame, BADGE / 2))
        parts.append(text(x + 3 + w / 2, middle + 4, label, label_classes, "middle"))
        x += w + 3
    return parts


def document(w: float, h: float, title: str, parts: Iterable[str]) -> str:
    """Write the whole SVG file.

    Arguments:
        w, h: the width and height of the picture.
        title: what the picture is, for readers who do not see it; it is escaped.
        parts: what it shows.
    """
    size = f'width="{number(w)}" height="{number(h)}"'
    view = f'viewBox="0 0 {number(w)} {number(h)}"'
    what = 'xmlns="http://www.w3.org/2000/svg" class="rungwise" role="img"'
    fixed = _rules("fixed", **SIZES)
    light = _rules("painted", **LIGHT)
    dark = _rules("painted", **DARK)
    style = f"{fixed}{light}@media (prefers-color-scheme:dark){{{dark}}}"
    lines = [
        f"<svg {what} {view} {size}>",
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
        _markers(),
        box(0, 0, w, h, "page", 10),
    ]
    lines += [*parts, "</svg>"]
    return "\n".join(lines) + "\n"


def _classes(classes: str) -> str:
    return " ".join(f"rw-{name}" for name in classes.split())


ARROW_HEADS = {"arrow": 9, "return": 7, "taken": 11}
"""The size of the head of each kind of line: an arc, an arc back to the hub, and a step taken."""


def _markers() -> str:
    """Define the heads of the lines."""
    kinds = [_marker(name, size) for name, size in ARROW_HEADS.items()]
    return f"<defs>{''.join(kinds)}</defs>"


def _marker(name: str, size: int) -> str:
    tip = 'viewBox="0 0 8 8" refX="7.5" refY="4"'
    extent = f'markerWidth="{size}" markerHeight="{size}"'
    manner = 'markerUnits="userSpaceOnUse" orient="auto"'
    head = f'<path class="rw-{name}" d="M0 0L8 4L0 8z"/>'
    return f'<marker id="rw-{name}" {tip} {extent} {manner}>{head}</marker>'


@cache
def _rules(name: str, /, **values: object) -> str:
    """Return the rules of a style sheet, with values in place of its names.

    Every selector begins with the class of these pictures, because a page may contain a picture
    inline, and its other elements must stay as they are.
    """
    sheet = files(__package__).joinpath(f"{name}.css").read_text(encoding="utf-8")
    filled = Template(sheet).substitute(values)
    rules = []
    for selectors, rule in re.findall("(.*) ({.*})", filled):
        own = [f".rungwise {selector}" for selector in selectors.split(", ")]
        rules.append(",".join(own) + rule)
    return "".join(rules)
