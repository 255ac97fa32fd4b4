"""Both views as Graphviz DOT, for readers who lay out or query the machine themselves."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from operator import itemgetter

from rungwise.fsm.diagram.colours import LIGHT
from rungwise.fsm.diagram.layout import columns, struck_html, wrapped
from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.model import Arc, Decision, Node, Picture
from rungwise.fsm.engine.journal.digest import END_SIGNS

PAGE, INK, FAINT, LINE, MARK = itemgetter("page", "ink", "faint", "line", "mark")(LIGHT)
SHAPES = {
    "rung": 'shape=box, style="rounded,filled"',
    "hub": 'shape=ellipse, style="filled"',
    "answer": 'shape=box, style="filled", peripheries=2',
    "lesser": 'shape=note, style="filled"',
    "error": 'shape=octagon, style="filled"',
    "outcome": 'shape=box, style="filled", peripheries=2',
}
FONT = 'fontname="DejaVu Sans Mono,Menlo,Consolas,monospace", fontsize=11'
COLUMNS = 3


def hub_view(picture: Picture) -> str:
    """Write one edge for each pair of states, whose label has a line for each row."""
    body = [_node(node) for node in picture.nodes]
    for node in picture.nodes:
        if node.start:
            body += [
                'start_ [shape=point, width=0.12, label=""]',
                f"start_ -> {_quoted(node.name)}",
            ]
    body.extend(_edge(picture, arc) for arc in picture.arcs)
    for note in picture.notes:
        name = _quoted(f"note {note.name}")
        off = f', tooltip="off: {_text(note.line.off)}"' if note.line.off is not None else ""
        body.append(
            f"{name} [shape=plaintext, label=<{_line(note.line)}<br/>{escape(note.where)}>{off}]"
        )
        if picture.node(note.target).kind != "rung":  # this puts it on the side of the outcomes
            body.append(f"{_quoted(picture.hub)} -> {name} [style=invis]")
        body.append(f"{name} -> {_quoted(note.target)} [style=dotted, arrowhead=none]")
    settings = ["rankdir=LR", "ranksep=0.4", "nodesep=0.15"]
    return _document(picture, picture.hub_title, [*settings, *body])


def ladder_view(picture: Picture) -> str:
    """Write a table for each event: its guards in the order in which they are tried."""
    body: list[str] = []
    for column in columns(picture.decisions, COLUMNS, lambda decision: len(decision.lines) + 2):
        names = [_quoted(" ".join([decision.event, *decision.sources])) for decision in column]
        cards = [_card(picture, decision) for decision in column]
        body.extend(f"{name} [label=<{card}>]" for name, card in zip(names, cards, strict=True))
        body.extend(f"{one} -> {other} [style=invis]" for one, other in pairwise(names))
    settings = ["node [shape=plain]", "ranksep=0.15", "nodesep=0.2"]
    return _document(picture, picture.ladder_title, [*settings, *body])


def _node(node: Node) -> str:
    shape = SHAPES[node.kind]
    fill = LIGHT[node.kind]
    border = f'color="{LIGHT[node.kind + "_edge"]}"'
    if node.is_struck:
        shape = shape.replace("filled", "filled,dashed")
        fill = PAGE
        border = f'color="{LINE}"'
    if node.visited or node.change == "added":
        border = f'color="{MARK}", penwidth=3'
    label = (
        f'<font color="{FAINT if node.is_struck else INK}">{_name(node)}'
        f"{_detail(node, '<br/>')}</font>"
    )
    tooltip = f', tooltip="{_text(node.says)}"' if node.says else ""
    return f'{_quoted(node.name)} [{shape}, fillcolor="{fill}", {border}, label=<{label}>{tooltip}]'


def _name(node: Node) -> str:
    return node.label.removesuffix(node.name) + struck_html(escape(node.name), node.is_struck)


def _detail(node: Node, before: str = "") -> str:
    says = "".join(struck_html(escape(words), is_struck) for words, is_struck in node.pieces)
    return f'{before}<font point-size="9">{says}</font>' if says else ""


def _edge(picture: Picture, arc: Arc) -> str:
    label = '<br align="left"/>'.join(_line(line) for line in arc.lines) + '<br align="left"/>'
    style = [f"label=<{label}>", f'tooltip="{_text("; ".join(line.says for line in arc.lines))}"']
    if arc.target == picture.hub or arc.is_struck:
        style += ["style=dotted" if arc.is_struck else "style=dashed", "penwidth=0.8"]
    # the arc back already ranks the two: rungs to the left of the hub
    if picture.arc(arc.target, picture.hub):
        style.append("constraint=false")
    if arc.steps or arc.change == "added":
        style += [f'color="{MARK}"', "penwidth=3"]
    return f"{_quoted(arc.source)} -> {_quoted(arc.target)} [{', '.join(style)}]"


def _line(line: Line) -> str:
    return (
        f"{line.sign_html}{_numbers(line.steps)}"
        f"{struck_html(escape(line.text), line.is_struck)}{line.turned_html}"
    )


def _card(picture: Picture, decision: Decision) -> str:
    where = "".join(f"<br/>{escape(words)}" for words in wrapped(decision.where, 40))
    head = f"<b>{escape(decision.event)}</b>{where}"
    lines = [f'<tr><td colspan="5" align="left" balign="left">{head}</td></tr>']
    lines.extend(_card_line(picture, decision, line, rank) for rank, line in decision.ranked)
    return (
        f'<table border="1" cellborder="0" cellspacing="2" color="{LINE}">{"".join(lines)}</table>'
    )


def _card_line(picture: Picture, decision: Decision, line: Line, rank: int | None) -> str:
    node = picture.node(line.row.target)
    guard = struck_html(escape(decision.guard(line)), line.is_struck) + line.turned_html
    guard += " false: " + ", ".join(map(str, line.tried)) if line.tried else ""
    guard += f" was {line.was}." if line.was is not None else ""
    if line.steps:
        guard = f'<font color="{MARK}"><b>{_numbers(line.steps)}{guard}</b></font>'
    fill = LIGHT[node.kind]
    border = LIGHT[node.kind + "_edge"]
    paint = f'border="1" bgcolor="{fill}" color="{border}"'
    if line.is_struck:
        paint = f'border="1" style="dashed" color="{LINE}"'
    # A table cell has no shape, so a sign tells the kinds of outcome apart.
    target = (f"{END_SIGNS[node.kind]} " if node.kind in END_SIGNS else "") + _name(node)
    effect = struck_html(escape(line.row.effect), line.is_struck) if line.row.effect else " "
    # only a link shows its title
    says = f' href="#" title="{_text(line.says)}"' if line.off is not None else ""
    cells = [
        f'<td align="left">{line.sign_html}{rank if rank is not None else ""}</td>',
        f'<td align="left"{says}>{guard}</td>',
        f"<td {paint}>{target}</td>",
        f'<td align="left">{effect}</td>',
        f'<td align="left">{_detail(node) or " "}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _numbers(steps: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, steps))}: " if steps else ""


def _text(says: str) -> str:
    """Escape a text for a quoted string; line breaks become spaces."""
    return escape(says.replace("\\", "\\\\").replace("\n", "; "))


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _document(picture: Picture, title: str, body: list[str]) -> str:
    title = "<br/>".join(escape(words) for words in (title, picture.caption, picture.key) if words)
    head = [f"label=<{title}>", "labelloc=t", "fontname=monospace", "fontsize=13"]
    head += [f"node [{FONT}]", f'edge [{FONT}, color="{LINE}"]']
    return (
        f"digraph {_quoted(picture.name)} {{\n"
        + "".join(f"  {line};\n" for line in [*head, *body])
        + "}\n"
    )
