"""Both views as Mermaid flowcharts, which GitHub and most documentation tools render by
themselves.
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
from rungwise.fsm.diagram.model import Arc, Decision, Kind, Node, Note, Picture

# Keywords of Mermaid; a state with such a name gets another id, but keeps its label.
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
SHAPES: dict[Kind, tuple[str, str]] = {
    "rung": ("(", ")"),
    "hub": ("([", "])"),
    "answer": ("[[", "]]"),
    "lesser": (">", "]"),
    "error": ("{{", "}}"),
    "outcome": ("[[", "]]"),
}
COLUMNS = 3
PAGE, PANEL, INK, FAINT, LINE = itemgetter("page", "panel", "ink", "faint", "line")(LIGHT)

SETTINGS = (
    '%%{init: {"flowchart": {"nodeSpacing": 14, "rankSpacing": 26, "padding": 6, "wrappingWidth": '
    "600},"
    ' "themeVariables": {"fontSize": "13px"}}}%%'
)


@frozen
class Edge:
    """Hold an edge and its look."""

    text: str
    hit: bool = False  # thick: a path took it, or it is new
    struck: bool = False  # dotted: no path ever takes it
    # its arrow stands at its beginning, which keeps the layout going from left to right
    reversed: bool = False


def hub_view(picture: Picture) -> str:
    """Write one arc for each pair of states, whose label has a line for each row.

    The label of an arc from the hub is a node of its own, because Mermaid lets long edge labels
    overlap. Mermaid ranks states by their edges, in the order of the text, so every edge is written
    from left to right.
    """
    nodes = sorted(picture.nodes, key=lambda node: (node.kind != "rung", node.kind != "hub"))
    body = [_state(node) for node in nodes]
    edges: list[Edge] = []
    for node in nodes:
        if node.start:
            body.append("  start_(( )):::dot")
            edges.append(Edge(f"start_ --> {_id(node.name)}"))
        for arc in picture.arcs:
            of = arc.source if arc.target == picture.hub else arc.target
            if of == node.name:
                if arc.target != picture.hub or arc.source == picture.hub:
                    body.append(f'  {_panel_id(arc)}["{_lines(arc)}"]:::panel')
                edges += _arc(picture, arc)
        for note in picture.notes:
            if note.target == node.name:
                body.append(
                    f'  note_{_id(note.name)}["{_line(note.line)}<br>{_escaped(note.where)}'
                    f'"]:::note'
                )
                edges += _note_edges(picture, note, node)
    if picture.key:
        body.append(_key(picture))
        edges.append(Edge(f"{_id(picture.hub)} ~~~~ key_"))
    return _document(picture.hub_title, picture, "LR", body, edges)


def ladder_view(picture: Picture) -> str:
    """Write a chain for each event: each link is a guard and its target, and leads to the next
    one.
    """
    body: list[str] = []
    edges: list[Edge] = []
    for column in columns(picture.decisions, COLUMNS, lambda decision: len(decision.lines) + 1.5):
        above = ""
        for decision in column:
            name = _id(f"{decision.event}_{decision.sources[0]}")
            links = _chain(picture, decision, name)
            body.extend(links.values())
            if above:
                edges.append(Edge(f"{above} ~~~ {name}"))
            for (one, other), line in zip(pairwise(links), decision.lines, strict=True):
                edges.append(Edge(f"{one} --> {other}", hit=bool(line.steps or line.tried)))
            above = list(links)[-1]
    if picture.key:
        body.append(_key(picture))
    return _document(picture.ladder_title, picture, "TB", body, edges)


def _panel_id(arc: Arc) -> str:
    return _id(f"{arc.source}_to_{arc.target}")


def _arc(picture: Picture, arc: Arc) -> Iterator[Edge]:
    source = _id(arc.source)
    target = _id(arc.target)
    panel = _panel_id(arc)
    hit = bool(arc.steps) or arc.change == "added"
    struck = arc.is_struck
    if arc.target == picture.hub != arc.source:
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
    name, target, hit = f"note_{_id(note.name)}", _id(node.name), bool(note.steps)
    if node.kind == "rung":
        yield Edge(f"{target} -.- {name}", hit)
        yield Edge(f"{name} ~~~ {_id(picture.hub)}")
        return
    yield Edge(f"{_id(picture.hub)} ~~~ {name}")
    yield Edge(f"{name} -.- {target}", hit)


def _key(picture: Picture) -> str:
    return f'  key_["{"<br>".join(map(_escaped, picture.key.split(" · ")))}"]:::note'


def _lines(arc: Arc) -> str:
    return "<br>".join(map(_line, arc.lines))


def _line(line: Line) -> str:
    words = struck_html(_escaped(line.text), line.is_struck)
    return f"{line.sign_html}{_numbers('', line.steps)}{words}{line.turned_html}"


def _chain(picture: Picture, decision: Decision, name: str) -> dict[str, str]:
    """Return the head of a chain and its links, by id."""
    where = "".join(f"<br>{_escaped(words)}" for words in wrapped(decision.where, 40))
    links = {name: f'  {name}(["<b>{_escaped(decision.event)}</b>{where}"]):::head'}
    for place, line in enumerate(decision.lines, start=1):
        node = picture.node(line.row.target)
        guard = " ".join(filter(None, ["else" if place > 1 else "", line.row.guard]))
        says = f"{guard} → {line.row.target}".strip() + (
            f" / {line.row.effect}" if line.row.effect else ""
        )
        says = line.sign_html + struck_html(_escaped(says), line.is_struck) + line.turned_html
        says += "".join(f"<br>{words}" for words in (_detail(node), _why(line)) if words)
        says += _numbers("<br>taken at ", line.steps, "") + _numbers(
            "<br>false at ", line.tried, ""
        )
        is_marked = bool(line.steps) or line.change == "added"
        look = _class(node.kind, is_struck=line.is_struck, is_marked=is_marked)
        links[f"{name}_{place}"] = _node(f"{name}_{place}", says, node.kind, look)
    return links


def _why(line: Line) -> str:
    was = f"was {line.was}." if line.was is not None else ""
    off = f"off: {_escaped(line.off)}" if line.off is not None else ""
    return ", ".join(filter(None, [was, off]))


def _state(node: Node) -> str:
    detail = f"<br>{_detail(node)}" if node.pieces else ""
    sign = node.label.removesuffix(node.name)
    says = f"<b>{sign}{struck_html(_escaped(node.name), node.is_struck)}</b>{detail}"
    look = _class(
        node.kind, is_struck=node.is_struck, is_marked=node.visited or node.change == "added"
    )
    return _node(_id(node.name), says, node.kind, look)


def _class(kind: Kind, *, is_struck: bool, is_marked: bool) -> str:
    return f"{kind}Marked" if is_marked else "idle" if is_struck else kind


def _node(name: str, says: str, kind: Kind, look: str) -> str:
    opening, closing = SHAPES[kind]
    return f'  {name}{opening}"{says}"{closing}:::{look}'


def _detail(node: Node) -> str:
    return "".join(struck_html(_escaped(words), is_struck) for words, is_struck in node.pieces)


def _escaped(says: str) -> str:
    """Escape a text for Mermaid and for HTML."""
    for sign, code in (
        ("#", "#35;"),
        ("&", "#amp;"),
        ("<", "#lt;"),
        (">", "#gt;"),
        ('"', "#quot;"),
    ):
        says = says.replace(sign, code)
    return says


def _id(name: str) -> str:
    plain = re.sub(r"\W", lambda match: f"_{ord(match[0]):x}_", name, flags=re.ASCII)
    return f"{plain}_" if plain in RESERVED else plain


def _numbers(before: str, steps: tuple[int, ...], after: str = ": ") -> str:
    return f"{before}{', '.join(map(str, steps))}{after}" if steps else ""


def _document(
    title: str, picture: Picture, direction: str, body: list[str], edges: list[Edge]
) -> str:
    title = json.dumps(" · ".join(filter(None, [title, picture.caption])), ensure_ascii=False)
    used = {line.rpartition(":::")[2] for line in body}
    classes = [f"  classDef {name} {paint}" for name, paint in _classes() if name in used]
    statements = [f"  {edge.text}" for edge in edges]
    lines = [
        "---",
        f"title: {title}",
        "---",
        SETTINGS,
        f"flowchart {direction}",
        *body,
        *statements,
    ]
    return "\n".join([*lines, *_link_styles(edges), *classes]) + "\n"


def _link_styles(edges: list[Edge]) -> Iterator[str]:
    """Mermaid styles an edge by its number."""
    painted: dict[str, list[int]] = {}
    for number, edge in enumerate(edges):
        look = (
            [f"stroke:{MARK}", "stroke-width:3px"]
            if edge.hit
            else ["stroke-dasharray:2 5"] * edge.struck
        )
        style = ",".join([*["marker-end:none"] * edge.reversed, *look])
        if style:
            painted.setdefault(style, []).append(number)
    yield from (
        f"  linkStyle {','.join(map(str, numbers))} {style}" for style, numbers in painted.items()
    )


def _classes() -> Iterator[tuple[str, str]]:
    """Yield the classes of nodes, with explicit text colours; on a dark page Mermaid would use
    light ones.
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
