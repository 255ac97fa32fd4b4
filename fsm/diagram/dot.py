"""Both views as DOT text, for those who lay out or query the machine with a Graphviz of their own."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from textwrap import wrap

from rungwise.fsm.diagram.colours import LIGHT
from rungwise.fsm.diagram.model import Arc, Decision, Kind, Line, Node, Picture, columns

SHAPES: dict[Kind, str] = {
    "rung": 'shape=box, style="rounded,filled"',
    "hub": "shape=hexagon, style=filled",
    "answer": "shape=box, style=filled, peripheries=2",
    "lesser": "shape=component, style=filled",
    "error": "shape=octagon, style=filled",
    "outcome": "shape=box, style=filled, peripheries=2",
}
FONT = 'fontname="DejaVu Sans Mono,Menlo,Consolas,monospace", fontsize=11'
COLUMNS = 3


def hub_view(picture: Picture) -> str:
    """Write one edge for each pair of states, its label with a line for each row."""
    body = [_node(node) for node in picture.nodes]
    for node in picture.nodes:
        if node.start:
            body.append('start_ [shape=point, width=0.12, label=""]')
            body.append(f"start_ -> {_quoted(node.name)}")
    body.extend(_edge(picture, arc) for arc in picture.arcs)
    for note in picture.notes:
        name = _quoted(f"note {note.name}")
        says = f"{_numbers(note.steps)}{note.lines[0].text}\\n{note.where}"
        body.append(f'{name} [shape=note, color="{LIGHT.line}", label="{says}"]')
        body.append(f"{name} -> {_quoted(note.target)} [style=dotted, arrowhead=none]")
    return _document(picture.name, ["rankdir=LR", "ranksep=0.4", "nodesep=0.15", *body])


def ladder_view(picture: Picture) -> str:
    """Write a table for each event, with a line for each guard in the order in which they are tried."""
    body: list[str] = []
    for column in columns(picture.decisions, COLUMNS, lambda decision: len(decision.lines) + 2):
        names = [_quoted(" ".join([decision.event, *decision.sources])) for decision in column]
        cards = [_card(picture, decision) for decision in column]
        body.extend(f"{name} [label=<{card}>]" for name, card in zip(names, cards, strict=True))
        body.extend(f"{one} -> {other} [style=invis]" for one, other in pairwise(names))
    return _document(picture.name, ["node [shape=plain]", "ranksep=0.15", "nodesep=0.2", *body])


def _node(node: Node) -> str:
    border = f'color="{LIGHT.mark}", penwidth=3' if node.visited else f'color="{LIGHT.border[node.kind]}"'
    return f'{_quoted(node.name)} [{SHAPES[node.kind]}, fillcolor="{LIGHT.fill[node.kind]}", {border}]'


def _edge(picture: Picture, arc: Arc) -> str:
    label = "".join(_numbers(line.steps) + line.text + r"\l" for line in arc.lines)
    style = [f'label="{label}"']
    if arc.target == picture.hub:
        style += ["style=dashed", "penwidth=0.8"]
    if picture.arc(arc.target, picture.hub):  # the arc back already ranks the two: rungs to the left of the hub
        style.append("constraint=false")
    if arc.steps:
        style += [f'color="{LIGHT.mark}"', "penwidth=3"]
    return f"{_quoted(arc.source)} -> {_quoted(arc.target)} [{', '.join(style)}]"


def _card(picture: Picture, decision: Decision) -> str:
    where = "".join(f"<br/>{words}" for words in wrap(decision.where, 40))
    lines = [f'<tr><td colspan="4" align="left" balign="left"><b>{decision.event}</b>{where}</td></tr>']
    lines.extend(_card_line(picture, decision, line, rank) for rank, line in enumerate(decision.lines, start=1))
    return f'<table border="1" cellborder="0" cellspacing="2" color="{LIGHT.line}">{"".join(lines)}</table>'


def _card_line(picture: Picture, decision: Decision, line: Line, rank: int) -> str:
    kind = picture.node(line.row.target).kind
    guard = escape(decision.guard(line)) + (" false: " + ", ".join(map(str, line.tried)) if line.tried else "")
    if line.steps:
        guard = f'<font color="{LIGHT.mark}"><b>{_numbers(line.steps)}{guard}</b></font>'
    paint = f'border="1" bgcolor="{LIGHT.fill[kind]}" color="{LIGHT.border[kind]}"'
    cells = f'<td align="left">{rank}</td><td align="left">{guard}</td><td {paint}>{line.row.target}</td>'
    return f'<tr>{cells}<td align="left">{line.row.effect or " "}</td></tr>'


def _numbers(steps: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, steps))}: " if steps else ""


def _quoted(name: str) -> str:
    return f'"{name}"'


def _document(name: str, body: list[str]) -> str:
    head = [f"node [{FONT}]", f'edge [{FONT}, color="{LIGHT.line}"]']
    return f"digraph {_quoted(name)} {{\n" + "".join(f"  {line};\n" for line in [*head, *body]) + "}\n"
