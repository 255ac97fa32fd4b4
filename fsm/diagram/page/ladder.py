"""The ladder view as HTML, for a page: a list for each event, which wraps where a phone leaves no more room."""

from __future__ import annotations

from html import escape

from rungwise.fsm.diagram.model import ENDS, Decision, Kind, Line, Node, Picture

SIGNS: dict[Kind, str] = {"answer": "✓", "lesser": "◐", "error": "✕"}
"""What tells outcomes apart where colours do not."""


def ladder(picture: Picture) -> str:
    """Write a list for each event, with its guards in the order in which they are tried.

    Each line carries its row as `data-event`, `data-source`, `data-guard` and `data-target`, as that of the SVG does.
    """
    return f'<div class="ladder">{"".join(_decision(picture, decision) for decision in picture.decisions)}</div>'


def state_chip(node: Node) -> str:
    """Write a state as small as a word; an outcome with the sign of what it is."""
    sign = f'<span aria-hidden="true">{SIGNS[node.kind]}</span> ' if node.kind in SIGNS else ""
    kind = f"{node.kind} end" if node.kind in ENDS else node.kind
    title = f' title="{escape(node.says)}"' if node.says else ""
    return f'<span class="chip {kind}"{title}>{sign}{escape(node.name)}</span>'


def _decision(picture: Picture, decision: Decision) -> str:
    where = f' <small class="faint">{escape(decision.where)}</small>' if decision.where else ""
    lines = "".join(_line(picture, decision, line) for line in decision.lines)
    return f'<section class="rungs"><h3><code>{escape(decision.event)}</code>{where}</h3><ol>{lines}</ol></section>'


def _line(picture: Picture, decision: Decision, line: Line) -> str:
    row, node = line.row, picture.node(line.row.target)
    data = {"event": row.event, "source": row.source, "guard": row.guard or "", "target": row.target}
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    classes = [name for name, holds in (("off", line.off), (line.change, line.change), ("moved", line.was)) if holds]
    marked = f' class="{" ".join(filter(None, classes))}"' if classes else ""
    asides = [node.detail if node.kind == "rung" else "", line.off or "", f"was {line.was}." if line.was else ""]
    aside = " · ".join(filter(None, asides))
    return (
        f'<li{attributes}{marked}><span class="guard"><code>{escape(decision.guard(line))}</code></span>'
        f"{state_chip(node)}{f'<small>{escape(aside)}</small>' if aside else ''}</li>"
    )
