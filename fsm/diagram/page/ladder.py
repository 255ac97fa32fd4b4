"""The ladder view as HTML, for a page: a list for each event, which wraps where a phone leaves no more room."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rungwise.fsm.diagram.model import ENDS, Decision, Line, Node, Picture
from rungwise.fsm.journal.digest.words import END_SIGNS


def ladder(picture: Picture) -> str:
    """Write a list for each event, with its guards in the order in which they are tried.

    Each line carries its row as `data-event`, `data-source`, `data-guard` and `data-target`, as that of the SVG does.
    """
    return ladder_of(picture, picture.decisions)


def ladder_of(picture: Picture, decisions: Iterable[Decision]) -> str:
    """Write some of the lists of a picture."""
    return f'<div class="ladder">{"".join(_decision(picture, decision) for decision in decisions)}</div>'


def state_chip(node: Node) -> str:
    """Write a state as small as a word; an outcome with the sign of what it is."""
    sign = f'<span aria-hidden="true">{END_SIGNS[node.kind]}</span> ' if node.kind in END_SIGNS else ""
    kind = f"{node.kind} end" if node.kind in ENDS else node.kind
    title = f' title="{escape(node.says)}"' if node.says else ""
    return f'<span class="chip {kind}"{title}>{sign}{escape(node.name)}</span>'


def _decision(picture: Picture, decision: Decision) -> str:
    where = f' <small class="faint">{escape(decision.where)}</small>' if decision.where else ""
    lines = "".join(_line(picture, decision, line) for line in decision.lines)
    return f'<section class="rungs"><h3><code>{escape(decision.event)}</code>{where}</h3><ol>{lines}</ol></section>'


CHANGES: dict[str, tuple[str, str]] = {
    "added": ("+", "new"),
    "removed": ("−", "removed"),
    "moved": ("↕", "moved"),
    "off": ("−", "turned off"),
    "on": ("+", "turned on"),
}
"""The sign of each change of a line, and its word."""


def change_in(line: Line) -> str | None:
    """Name what a change does to a line; None where it leaves it as it is."""
    return line.change or line.turned or ("moved" if line.was is not None else None)


def _line(picture: Picture, decision: Decision, line: Line) -> str:
    row, node = line.row, picture.node(line.row.target)
    data = {"event": row.event, "source": row.source, "guard": row.guard or "", "target": row.target}
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    changed = change_in(line)
    classes = [name for name, holds in (("off", line.off), (line.change, line.change), ("moved", line.was)) if holds]
    classes += [f"turned-{line.turned}"] if line.turned else []
    marked = f' class="{" ".join(filter(None, classes))}"' if classes else ""
    asides = [_detail(node) if node.kind == "rung" else "", escape(line.off or "")]
    asides.append(f"was {line.was}." if line.was else "")
    aside = " · ".join(filter(None, asides))
    return (
        f"<li{attributes}{marked}>{_sign(changed)}"
        f'<span class="guard"><code>{escape(decision.guard(line))}</code></span>'
        f"{state_chip(node)}{f'<small>{aside}</small>' if aside else ''}</li>"
    )


def _sign(changed: str | None) -> str:
    if changed is None:
        return ""
    sign, word = CHANGES[changed]
    return f'<b class="sign {changed}" title="{word}" aria-label="{word}">{sign}</b>'


def _detail(node: Node) -> str:
    """Write the limit and the waits of a rung, those that it had struck out."""
    was = f"<del>{escape(node.was)}</del> " if node.was else ""
    return was + (f"<ins>{escape(node.detail)}</ins>" if node.was is not None else escape(node.detail))
