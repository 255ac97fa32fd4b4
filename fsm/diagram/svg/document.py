"""The marks that an SVG picture consists of, and its style sheet for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rungwise.fsm.diagram.colours import DARK, LIGHT, Colours
from rungwise.fsm.diagram.model import Line

# The names are identifiers, so they are set in a fixed pitch: then the width of a text is known without its font.
# 0.602 em is the widest pitch of the fonts named in the style sheet.
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
    return f'<text class="{_classes(classes)}" x="{number(x)}" y="{number(y)}"{at}>{escape(content)}</text>'


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
    data = {"event": row.event, "source": row.source, "guard": row.guard or "", "target": row.target}
    children = list(parts)
    return group(titled("\n".join(filter(None, [item.says, more])), children) if children else [], **data)


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


def draw_badges(x: float, middle: float, steps: tuple[int, ...], *, hollow: bool = False) -> list[str]:
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
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rungwise" role="img" viewBox="0 0 {number(w)} {number(h)}" '
        f'width="{number(w)}" height="{number(h)}">'
    )
    style = f"{_rules(FIXED)}{_rules(_paint(LIGHT))}@media (prefers-color-scheme:dark){{{_rules(_paint(DARK))}}}"
    lines = [head, f"<title>{escape(title)}</title>", f"<style>{style}</style>", _markers()]
    lines.append(box(0, 0, w, h, "page", 10))
    return "\n".join([*lines, *parts, "</svg>"]) + "\n"


def _classes(classes: str) -> str:
    return " ".join(f"rw-{name}" for name in classes.split())


def _markers() -> str:
    kinds = "".join(
        f'<marker id="rw-{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="{size}" markerHeight="{size}" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path class="rw-{name}" d="M0 0L8 4L0 8z"/></marker>'
        for name, size in (("arrow", 9), ("return", 7), ("taken", 11))
    )
    return f"<defs>{kinds}</defs>"


FIXED = {
    "text": "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace",
    **{f".rw-{name}": f"font-size:{size}px" for name, size in SIZES.items()},
    ".rw-name, .rw-title, .rw-on-mark, .rw-hit": "font-weight:600",
    "text.rw-faint": "font-style:italic",
    "text.rw-struck": "text-decoration:line-through",
    "text.rw-sign": "font-weight:600",
    "path, rect": "fill:none;stroke-width:1.2",
    "rect.rw-rung, rect.rw-hub, .rw-error": "stroke-width:1.6",
    ".rw-chip, .rw-inner": "stroke-width:1",
    ".rw-visited, .rw-new": "stroke-width:3",
    ".rw-new.rw-chip": "stroke-width:2",
    ".rw-new.rw-inner, .rw-visited.rw-inner": "stroke-width:1",
    ".rw-idle": "stroke-dasharray:4 3",
    "path.rw-off": "stroke-dasharray:1.5 4",
    "rect.rw-loose": "stroke-dasharray:2 3",
    "path.rw-back": "stroke-width:.9;stroke-dasharray:4 3",
    "path.rw-went": "stroke-width:2.6",
}


def _paint(colours: Colours) -> dict[str, str]:
    kinds = tuple(colours.fill)
    return {
        "text": f"fill:{colours.ink}",
        "text.rw-faint, text.rw-guard, text.rw-struck": f"fill:{colours.faint}",
        "rect.rw-page": f"fill:{colours.page}",
        "rect.rw-panel": f"fill:{colours.panel};stroke:{colours.edge}",
        "path.rw-line, path.rw-back": f"stroke:{colours.line}",
        "path.rw-arrow, path.rw-return, rect.rw-dot": f"fill:{colours.line}",
        **{f".rw-{kind}": f"fill:{colours.fill[kind]};stroke:{colours.border[kind]}" for kind in kinds},
        ".rw-idle": f"fill:{colours.page};stroke:{colours.line}",
        ".rw-inner": "fill:none",
        ".rw-visited, path.rw-went, .rw-new, path.rw-new": f"stroke:{colours.mark}",
        "path.rw-taken, rect.rw-badge": f"fill:{colours.mark}",
        "rect.rw-hollow": f"fill:none;stroke:{colours.mark}",
        "text.rw-hit, text.rw-sign": f"fill:{colours.mark}",
        "text.rw-on-mark": f"fill:{colours.on_mark}",
    }


def _rules(rules: dict[str, str]) -> str:
    """Write style rules that apply to these pictures alone, since a page may contain one inline."""
    return "".join(
        ",".join(f".rungwise {part}" for part in selector.split(", ")) + f"{{{style}}}"
        for selector, style in rules.items()
    )
