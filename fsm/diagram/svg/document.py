"""The marks that an SVG picture consists of, and its style sheet for light and dark pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from rungwise.fsm.diagram.colours import DARK, LIGHT
from rungwise.fsm.diagram.model import Line

# The names are identifiers, so they are set in a fixed pitch: then the width of a text is known
# without its font. 0.602 em is the widest pitch of the fonts named in the style sheet.
PITCH = 0.602
SIZES = {"name": 13, "label": 12, "small": 11, "title": 15}
ROW = 16
BADGE = 15


def number(value: float) -> str:
    """Write a coordinate in its shortest form."""
    return f"{round(value, 1):g}"


def width(text: str, size: str = "label") -> float:
    """Return how wide a text can be, in pixels."""
    return len(text) * PITCH * SIZES[size]


def text(x: float, y: float, content: str, classes: str = "label", anchor: str = "start") -> str:
    """Write a text; the first class names its size."""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return (
        f'<text class="{_classes(classes)}" x="{number(x)}" '
        f'y="{number(y)}"{at}>{escape(content)}</text>'
    )


def box(x: float, y: float, w: float, h: float, classes: str, radius: float = 0) -> str:
    """Draw a rectangle."""
    rounded = f' rx="{number(radius)}"' if radius else ""
    size = f'width="{number(w)}" height="{number(h)}"'
    return f'<rect class="{_classes(classes)}" x="{number(x)}" y="{number(y)}" {size}{rounded}/>'


def line(points: Iterable[tuple[float, float]], classes: str, arrow: str = "") -> str:
    """Draw a line through some points; `arrow` names the marker at its end."""
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    end = f' marker-end="url(#rw-{arrow})"' if arrow else ""
    return f'<path class="{_classes(classes)}" d="{path}"{end}/>'


def shape(points: Iterable[tuple[float, float]], classes: str) -> str:
    """Draw a closed outline through some points."""
    path = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f'<path class="{_classes(classes)}" d="M{path}Z"/>'


def titled(says: str, parts: Iterable[str]) -> list[str]:
    """Put a tooltip before some parts."""
    return [f"<title>{escape(says)}</title>", *parts] if says else [*parts]


def group(parts: Iterable[str], **data: str) -> str:
    """Group parts, with data attributes for scripts and tests."""
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    return f"<g{attributes}>" + "".join(parts) + "</g>"


def line_group(item: Line, parts: Iterable[str], more: str = "") -> str:
    """Group the parts that show one row, with the row in full and `more` as their tooltip."""
    row = item.row
    data = {
        "event": row.event,
        "source": row.source,
        "guard": row.guard or "",
        "target": row.target,
    }
    children = list(parts)
    return group(
        titled("\n".join(filter(None, [item.says, more])), children) if children else [], **data
    )


def badges(steps: tuple[int, ...]) -> list[str]:
    """Return the texts of the step badges: all numbers, or the first ones and the last."""
    labels = [str(step) for step in steps]
    return labels if len(labels) <= 4 else [*labels[:3], f"…{labels[-1]}"]


def badge_width(label: str) -> float:
    """Return the width of a badge."""
    return max(BADGE, width(label, "small") + 6)


def badges_width(steps: tuple[int, ...]) -> float:
    """Return the width of a run of step badges with the gaps before them."""
    return sum(badge_width(label) + 3 for label in badges(steps))


def draw_badges(
    x: float, middle: float, steps: tuple[int, ...], *, hollow: bool = False
) -> list[str]:
    """Draw the step badges from `x` to the right."""
    shape, words = ("hollow", "small hit") if hollow else ("badge", "small on-mark")
    parts: list[str] = []
    for label in badges(steps):
        w = badge_width(label)
        parts.append(box(x + 3, middle - BADGE / 2, w, BADGE, shape, BADGE / 2))
        parts.append(text(x + 3 + w / 2, middle + 4, label, words, "middle"))
        x += w + 3
    return parts


def document(w: float, h: float, title: str, parts: Iterable[str]) -> str:
    """Write the whole SVG file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rungwise" role="img" viewBox="0 0 '
        f'{number(w)} {number(h)}" '
        f'width="{number(w)}" height="{number(h)}">'
    )
    light = _rules("painted", **LIGHT)
    dark = _rules("painted", **DARK)
    style = f"{_rules('fixed', **SIZES)}{light}@media (prefers-color-scheme:dark){{{dark}}}"
    lines = [head, f"<title>{escape(title)}</title>", f"<style>{style}</style>", _markers()]
    lines.append(box(0, 0, w, h, "page", 10))
    return "\n".join([*lines, *parts, "</svg>"]) + "\n"


def _classes(classes: str) -> str:
    return " ".join(f"rw-{name}" for name in classes.split())


def _markers() -> str:
    kinds = "".join(
        f'<marker id="rw-{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="{size}" '
        f'markerHeight="{size}" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path class="rw-{name}" d="M0 0L8 4L0 '
        f'8z"/></marker>'
        for name, size in (("arrow", 9), ("return", 7), ("taken", 11))
    )
    return f"<defs>{kinds}</defs>"


@cache
def _rules(name: str, /, **values: object) -> str:
    """Return the rules of a style sheet, for these pictures alone, since a page may contain one
    inline.
    """
    sheet = files(__package__).joinpath(f"{name}.css").read_text(encoding="utf-8")
    rules = re.findall("(.*) ({.*})", Template(sheet).substitute(values))
    return "".join(
        ",".join(f".rungwise {each}" for each in selector.split(", ")) + rule
        for selector, rule in rules
    )
