"""Both views as Mermaid flowcharts, which GitHub and most documentation tools render.

Mermaid lays the picture out itself, so the text is written for its ways:

* it ranks states by their edges, in the order of the text, so every edge is written from left to
  right, and an arrow back is drawn at the beginning of its edge;
* it lets long labels of edges overlap, so the label of an arc from the hub is a node of its own;
* it styles an edge by its number in the text, so edges are collected and written last;
* some words are keywords and cannot be ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter

from attrs import frozen

from rungwise.fsm.diagram.colours import LIGHT, MARK
from rungwise.fsm.diagram.layout import columns, struck_html, wrapped
from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.model import Arc, DecisionList, Kind, Node, Note, Picture

RESERVED = {
    "call",
    "class",
    "classDef",
    "click",
    "default",
    "direction",
    "end",
    "flowchart",
    "graph",
    "href",
    "interpolate",
    "linkStyle",
    "style",
    "subgraph",
}
"""Keywords of Mermaid; a state with such a name gets another id, but keeps its label."""

ESCAPES = {
    "#": "#35;",
    "&": "#amp;",
    "<": "#lt;",
    ">": "#gt;",
    '"': "#quot;",
}
"""The codes of signs that mean something to Mermaid. `#` comes first, since it begins each code."""

SHAPES: dict[Kind, tuple[str, str]] = {
    "rung": ("(", ")"),
    "hub": ("([", "])"),
    "answer": ("[[", "]]"),
    "lesser": (">", "]"),
    "error": ("{{", "}}"),
    "outcome": ("[[", "]]"),
}
"""The signs that open and close a node of each kind, and so give it its shape."""

COLUMNS = 3
CARD_GAP = 1.5  # what separates two chains, in lines
PAGE, PANEL, INK, FAINT, LINE = itemgetter("page", "panel", "ink", "faint", "line")(LIGHT)

SETTINGS = (
    '%%{init: {"flowchart": {"nodeSpacing": 14, "rankSpacing": 26, "padding": 6, "wrappingWidth": '
    "600},"
    ' "themeVariables": {"fontSize": "13px"}}}%%'
)


@frozen
class Edge:
    """Hold an edge and its look.

    Arguments:
        text: the edge, in Mermaid.
        hit: whether a path took it, or it is new; it is thick.
        struck: whether no path ever takes it; it is dotted.
        reversed: whether its arrow stands at its beginning alone.
    """

    text: str
    hit: bool = False
    struck: bool = False
    reversed: bool = False

    @property
    def style(self) -> str:
        """Return its style; empty for a plain edge."""
        style = []
        if self.reversed:
            style.append("marker-end:none")
        if self.hit:
            style += [f"stroke:{MARK}", "stroke-width:3px"]
        elif self.struck:
            style.append("stroke-dasharray:2 5")
        return ",".join(style)


def hub_view(picture: Picture) -> str:
    """Write one arc for each pair of states, whose label has a line for each row."""
    nodes = sorted(picture.nodes, key=lambda node: (node.kind != "rung", node.kind != "hub"))
    body = [_state(node) for node in nodes]
    edges: list[Edge] = []
    for node in nodes:
        if node.start:
            body.append("  start_(( )):::dot")
            edges.append(Edge(f"start_ --> {_id(node.name)}"))
        for arc in picture.arcs:
            if _side_of(picture, arc) == node.name:
                if _has_panel(picture, arc):
                    body.append(f'  {_panel_id(arc)}["{_lines(arc)}"]:::panel')
                edges.extend(_arc(picture, arc))
        for note in picture.notes:
            if note.target == node.name:
                body.append(_note(note))
                edges.extend(_note_edges(picture, note, node))
    if picture.key:
        body.append(_key(picture))
        edges.append(Edge(f"{_id(picture.hub)} ~~~~ key_"))
    return _document(picture, title=picture.hub_title, direction="LR", body=body, edges=edges)


def ladder_view(picture: Picture) -> str:
    """Write a chain for each event, whose links are its guards with their targets."""
    body: list[str] = []
    edges: list[Edge] = []
    for column in columns(picture.decisions, COLUMNS, _chain_height):
        above = ""
        for decision in column:
            name = _id(f"{decision.event}_{decision.sources[0]}")
            links = _chain(picture, decision, name)
            body.extend(links.values())
            if above:
                edges.append(Edge(f"{above} ~~~ {name}"))
            for (one, other), line in zip(pairwise(links), decision.lines, strict=True):
                was_tried = bool(line.steps or line.tried)
                edges.append(Edge(f"{one} --> {other}", hit=was_tried))
            above = list(links)[-1]
    if picture.key:
        body.append(_key(picture))
    return _document(picture, title=picture.ladder_title, direction="TB", body=body, edges=edges)


def _side_of(picture: Picture, arc: Arc) -> str:
    """Return the state beside which an arc is written: its end that is not the hub."""
    return arc.source if arc.target == picture.hub else arc.target


def _has_panel(picture: Picture, arc: Arc) -> bool:
    """Tell whether the label of an arc is a node of its own: it does not lead back to the hub."""
    return arc.target != picture.hub or arc.source == picture.hub


def _panel_id(arc: Arc) -> str:
    return _id(f"{arc.source}_to_{arc.target}")


def _arc(picture: Picture, arc: Arc) -> Iterator[Edge]:
    """Yield the edges of an arc: one back to the hub, or two with a panel between them."""
    source = _id(arc.source)
    target = _id(arc.target)
    panel = _panel_id(arc)
    hit = bool(arc.steps) or arc.change == "added"
    struck = arc.is_struck
    if not _has_panel(picture, arc):
        # as long as an edge through a panel
        arrow = "-.->" if picture.arc(arc.target, arc.source) else "-..->"
        yield Edge(f'{source} {arrow}|"{_lines(arc)}"| {target}', hit, struck)
    elif arc.source == picture.hub and picture.node(arc.target).kind == "rung":
        yield Edge(f"{target} <--> {panel}", hit, struck, reversed=True)
        yield Edge(f"{panel} --- {source}", hit, struck)
    else:
        yield Edge(f"{source} --- {panel}", hit, struck)
        yield Edge(f"{panel} --> {target}", hit, struck)


def _note_edges(picture: Picture, note: Note, node: Node) -> Iterator[Edge]:
    """Yield the edges of a note: to its target, and one without ink that puts it beside the hub."""
    name = f"note_{_id(note.name)}"
    target = _id(node.name)
    hub = _id(picture.hub)
    hit = bool(note.steps)
    if node.kind == "rung":
        yield Edge(f"{target} -.- {name}", hit)
        yield Edge(f"{name} ~~~ {hub}")
    else:
        yield Edge(f"{hub} ~~~ {name}")
        yield Edge(f"{name} -.- {target}", hit)


def _note(note: Note) -> str:
    words = f"{_line(note.line)}<br>{_escaped(note.where)}"
    return f'  note_{_id(note.name)}["{words}"]:::note'


def _key(picture: Picture) -> str:
    """Write the explanation of the signs of a change."""
    lines = [_escaped(words) for words in picture.key.split(" · ")]
    return f'  key_["{"<br>".join(lines)}"]:::note'


def _chain_height(decision: DecisionList) -> float:
    return len(decision.lines) + CARD_GAP


def _lines(arc: Arc) -> str:
    return "<br>".join(map(_line, arc.lines))


def _line(line: Line) -> str:
    words = struck_html(_escaped(line.text), line.is_struck)
    steps = _numbers("", line.steps, ": ")
    return f"{line.sign_html}{steps}{words}{line.turned_html}"


def _chain(picture: Picture, decision: DecisionList, name: str) -> dict[str, str]:
    """Return the head of a chain and its links, by id."""
    where = "".join(f"<br>{_escaped(words)}" for words in wrapped(decision.where, 40))
    links = {name: f'  {name}(["<b>{_escaped(decision.event)}</b>{where}"]):::head'}
    for place, line in enumerate(decision.lines, start=1):
        link = f"{name}_{place}"
        node = picture.node(line.row.target)
        is_marked = bool(line.steps) or line.change == "added"
        look = _class(node.kind, is_struck=line.is_struck, is_marked=is_marked)
        links[link] = _node(link, _link_text(line, node, place), node.kind, look)
    return links


def _link_text(line: Line, node: Node, place: int) -> str:
    """Write a link of a chain: its guard, target and effect, and below them what is to be said."""
    words = []
    if place > 1:
        words.append("else")
    if line.row.guard:
        words.append(line.row.guard)
    words.append(f"→ {line.row.target}")
    if line.row.effect:
        words.append(f"/ {line.row.effect}")
    link = struck_html(_escaped(" ".join(words)), line.is_struck)
    below = [f"{line.sign_html}{link}{line.turned_html}"]
    if node.pieces:
        below.append(_detail(node))
    below.append(_why(line))
    below.append(_numbers("taken at ", line.steps))
    below.append(_numbers("false at ", line.tried))
    return "<br>".join(filter(None, below))


def _why(line: Line) -> str:
    """Say what rank a line had, and why it is off."""
    reasons = []
    if line.was is not None:
        reasons.append(f"was {line.was}.")
    if line.off is not None:
        reasons.append(f"off: {_escaped(line.off)}")
    return ", ".join(reasons)


def _state(node: Node) -> str:
    detail = f"<br>{_detail(node)}" if node.pieces else ""
    sign = node.label.removesuffix(node.name)
    says = f"<b>{sign}{struck_html(_escaped(node.name), node.is_struck)}</b>{detail}"
    is_marked = node.visited or node.change == "added"
    look = _class(node.kind, is_struck=node.is_struck, is_marked=is_marked)
    return _node(_id(node.name), says, node.kind, look)


def _class(kind: Kind, *, is_struck: bool, is_marked: bool) -> str:
    if is_marked:
        return f"{kind}Marked"
    return "idle" if is_struck else kind


def _node(name: str, says: str, kind: Kind, look: str) -> str:
    """Write a node.

    Arguments:
        name: its id.
        says: its text, escaped.
        kind: the kind of the state, which decides its shape.
        look: its class.
    """
    opening, closing = SHAPES[kind]
    return f'  {name}{opening}"{says}"{closing}:::{look}'


def _detail(node: Node) -> str:
    return "".join(struck_html(_escaped(words), is_struck) for words, is_struck in node.pieces)


def _escaped(says: str) -> str:
    """Escape a text for Mermaid and for HTML."""
    for sign, code in ESCAPES.items():
        says = says.replace(sign, code)
    return says


def _id(name: str) -> str:
    """Return an id for a name: letters, digits and underscores, and no keyword."""
    plain = re.sub(r"\W", lambda match: f"_{ord(match[0]):x}_", name, flags=re.ASCII)
    return f"{plain}_" if plain in RESERVED else plain


def _numbers(before: str, steps: tuple[int, ...], after: str = "") -> str:
    """Write the numbers of steps between two texts; nothing if there are none."""
    if not steps:
        return ""
    return f"{before}{', '.join(map(str, steps))}{after}"


def _document(
    picture: Picture, *, title: str, direction: str, body: list[str], edges: list[Edge]
) -> str:
    """Write the whole file.

    Arguments:
        picture: the picture.
        title: its title.
        direction: how it grows, in Mermaid's letters: `LR` or `TB`.
        body: the nodes.
        edges: the edges, in the order in which Mermaid numbers them.
    """
    if picture.caption:
        title = f"{title} · {picture.caption}"
    used = {line.rpartition(":::")[2] for line in body}
    lines = [
        "---",
        f"title: {json.dumps(title, ensure_ascii=False)}",
        "---",
        SETTINGS,
        f"flowchart {direction}",
        *body,
    ]
    lines += [f"  {edge.text}" for edge in edges]
    lines += _link_styles(edges)
    for name, paint in _classes():
        if name in used:
            lines.append(f"  classDef {name} {paint}")
    return "\n".join(lines) + "\n"


def _link_styles(edges: list[Edge]) -> Iterator[str]:
    """Yield a line for each style, with the numbers of its edges."""
    styled: dict[str, list[str]] = {}
    for number, edge in enumerate(edges):
        if edge.style:
            styled.setdefault(edge.style, []).append(str(number))
    for style, numbers in styled.items():
        yield f"  linkStyle {','.join(numbers)} {style}"


def _classes() -> Iterator[tuple[str, str]]:
    """Yield the classes of nodes.

    Their text colours are explicit: on a dark page, Mermaid would use light ones.
    """
    for kind in SHAPES:
        paint = f"fill:{LIGHT[kind]},color:{INK}"
        yield kind, f"{paint},stroke:{LIGHT[f'{kind}_edge']}"
        yield f"{kind}Marked", f"{paint},stroke:{MARK},stroke-width:4px"
    yield "idle", f"fill:{PAGE},color:{FAINT},stroke:{LINE},stroke-dasharray:4 3"
    yield "panel", f"fill:{PANEL},color:{INK},stroke:{LINE},text-align:left"
    yield "note", f"fill:{PANEL},color:{INK},stroke:{LINE},stroke-dasharray:3 3,text-align:left"
    yield "head", f"fill:{PANEL},color:{INK},stroke:{INK}"
    yield "dot", f"fill:{LINE},stroke:{LINE}"
