"""Both views as Graphviz DOT, for readers who lay out or query the machine themselves."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise
from operator import itemgetter

from rungwise.fsm.diagram.colours import LIGHT
from rungwise.fsm.diagram.layout import columns, struck_html, wrapped
from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.model import Arc, DecisionList, Kind, Node, Note, Picture
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
    body = ["rankdir=LR", "ranksep=0.4", "nodesep=0.15"]
    body += [_node(node) for node in picture.nodes]
    for node in picture.nodes:
        if node.start:
            body.append('start_ [shape=point, width=0.12, label=""]')
            body.append(f"start_ -> {_quoted(node.name)}")
    body += [_edge(picture, arc) for arc in picture.arcs]
    for note in picture.notes:
        body += _note(picture, note)
    return _document(picture, picture.hub_title, body)


def ladder_view(picture: Picture) -> str:
    """Write a table for each event: its guards in the order in which they are tried."""
    body = ["node [shape=plain]", "ranksep=0.15", "nodesep=0.2"]
    for column in columns(picture.decisions, COLUMNS, _card_height):
        names = []
        for decision in column:
            name = _quoted(" ".join([decision.event, *decision.sources]))
            names.append(name)
            body.append(f"{name} [label=<{_card(picture, decision)}>]")
        for one, other in pairwise(names):
            body.append(f"{one} -> {other} [style=invis]")
    return _document(picture, picture.ladder_title, body)


def _card_height(decision: DecisionList) -> float:
    return len(decision.lines) + 2


def _note(picture: Picture, note: Note) -> Iterator[str]:
    """Yield the statements of a note: its node, and the edges that hold it in place."""
    name = _quoted(f"note {note.name}")
    label = f"{_line(note.line)}<br/>{escape(note.where)}"
    tooltip = ""
    if note.line.off is not None:
        tooltip = f', tooltip="off: {_text(note.line.off)}"'
    yield f"{name} [shape=plaintext, label=<{label}>{tooltip}]"
    if picture.node(note.target).kind != "rung":  # this puts it on the side of the outcomes
        yield f"{_quoted(picture.hub)} -> {name} [style=invis]"
    yield f"{name} -> {_quoted(note.target)} [style=dotted, arrowhead=none]"


def _node(node: Node) -> str:
    """Write a state."""
    shape = SHAPES[node.kind]
    fill = LIGHT[node.kind]
    border = f'color="{LIGHT[node.kind + "_edge"]}"'
    ink = INK
    if node.is_struck:
        shape = shape.replace("filled", "filled,dashed")
        fill = PAGE
        border = f'color="{LINE}"'
        ink = FAINT
    if node.visited or node.change == "added":
        border = f'color="{MARK}", penwidth=3'
    words = f"{_name(node)}{_detail(node, '<br/>')}"
    attributes = [
        shape,
        f'fillcolor="{fill}"',
        border,
        f'label=<<font color="{ink}">{words}</font>>',
    ]
    if node.says:
        attributes.append(f'tooltip="{_text(node.says)}"')
    return f"{_quoted(node.name)} [{', '.join(attributes)}]"


def _name(node: Node) -> str:
    return node.label.removesuffix(node.name) + struck_html(escape(node.name), node.is_struck)


def _detail(node: Node, before: str = "") -> str:
    says = "".join(struck_html(escape(words), is_struck) for words, is_struck in node.pieces)
    return f'{before}<font point-size="9">{says}</font>' if says else ""


def _edge(picture: Picture, arc: Arc) -> str:
    """Write an arc."""
    label = "".join(f'{_line(line)}<br align="left"/>' for line in arc.lines)
    tooltip = "; ".join(line.says for line in arc.lines)
    style = [f"label=<{label}>", f'tooltip="{_text(tooltip)}"']
    if arc.is_struck:
        style += ["style=dotted", "penwidth=0.8"]
    elif arc.target == picture.hub:
        style += ["style=dashed", "penwidth=0.8"]
    # the arc back already ranks the two: rungs to the left of the hub
    if picture.arc(arc.target, picture.hub):
        style.append("constraint=false")
    if arc.steps or arc.change == "added":
        style += [f'color="{MARK}"', "penwidth=3"]
    return f"{_quoted(arc.source)} -> {_quoted(arc.target)} [{', '.join(style)}]"


def _line(line: Line) -> str:
    text = struck_html(escape(line.text), line.is_struck)
    return f"{line.sign_html}{_numbers(line.steps)}{text}{line.turned_html}"


def _card(picture: Picture, decision: DecisionList) -> str:
    where = "".join(f"<br/>{escape(words)}" for words in wrapped(decision.where, 40))
    head = f"<b>{escape(decision.event)}</b>{where}"
    lines = [f'<tr><td colspan="5" align="left" balign="left">{head}</td></tr>']
    for rank, line in decision.ranked:
        lines.append(_card_line(picture, decision, line, rank))
    frame = f'border="1" cellborder="0" cellspacing="2" color="{LINE}"'
    return f"<table {frame}>{''.join(lines)}</table>"


def _card_line(picture: Picture, decision: DecisionList, line: Line, rank: int | None) -> str:
    """Write a row as a line of a card.

    Arguments:
        picture: the picture.
        decision: the decision list of its event.
        line: the row.
        rank: its number in the list; None if it is gone.
    """
    node = picture.node(line.row.target)
    target = _name(node)
    if node.kind in END_SIGNS:
        # a table cell has no shape, so a sign tells the kinds of outcome apart
        target = f"{END_SIGNS[node.kind]} {target}"
    paint = _paint(node.kind, is_struck=line.is_struck)
    tooltip = ""
    if line.off is not None:
        tooltip = f' href="#" title="{_text(line.says)}"'  # only a link shows its title
    effect = " "
    if line.row.effect:
        effect = struck_html(escape(line.row.effect), line.is_struck)
    number = "" if rank is None else str(rank)
    cells = [
        _cell(f"{line.sign_html}{number}"),
        _cell(_guard(decision, line), tooltip),
        f'<td border="1" {paint}>{target}</td>',
        _cell(effect),
        _cell(_detail(node) or " "),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _cell(content: str, attributes: str = "") -> str:
    return f'<td align="left"{attributes}>{content}</td>'


def _paint(kind: Kind, *, is_struck: bool) -> str:
    """Return the colours of a cell that shows a state."""
    if is_struck:
        return f'style="dashed" color="{LINE}"'
    return f'bgcolor="{LIGHT[kind]}" color="{LIGHT[kind + "_edge"]}"'


def _guard(decision: DecisionList, line: Line) -> str:
    """Write the guard of a line of a card, with the steps that took the row or tried it."""
    guard = struck_html(escape(decision.guard(line)), line.is_struck) + line.turned_html
    if line.tried:
        guard += f" false: {', '.join(map(str, line.tried))}"
    if line.was is not None:
        guard += f" was {line.was}."
    if line.steps:
        guard = f'<font color="{MARK}"><b>{_numbers(line.steps)}{guard}</b></font>'
    return guard


def _numbers(steps: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, steps))}: " if steps else ""


def _text(says: str) -> str:
    """Escape a text for a quoted string; line breaks become spaces."""
    return escape(says.replace("\\", "\\\\").replace("\n", "; "))


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _document(picture: Picture, title: str, body: list[str]) -> str:
    """Write the whole file."""
    titles = [escape(words) for words in (title, picture.caption, picture.key) if words]
    statements = [
        f"label=<{'<br/>'.join(titles)}>",
        "labelloc=t",
        "fontname=monospace",
        "fontsize=13",
        f"node [{FONT}]",
        f'edge [{FONT}, color="{LINE}"]',
        *body,
    ]
    lines = [f"digraph {_quoted(picture.name)} {{"]
    lines += [f"  {statement};" for statement in statements]
    lines.append("}")
    return "\n".join(lines) + "\n"
