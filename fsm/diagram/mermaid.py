"""Both views as Mermaid flowcharts, which GitHub and most documentation tools draw without any program installed."""

from __future__ import annotations

from itertools import pairwise
from textwrap import wrap

from rungwise.fsm.diagram.colours import LIGHT
from rungwise.fsm.diagram.model import Decision, Kind, Picture, columns

# Words that begin a statement or end a block in the language; a state of that name gets another id, not another label.
RESERVED = {
    "call", "class", "classDef", "click", "default", "direction", "end", "flowchart", "graph", "href", "interpolate",
    "linkStyle", "style", "subgraph",
}  # fmt: skip
SHAPES: dict[Kind, tuple[str, str]] = {
    "rung": ("(", ")"),
    "hub": ("{{", "}}"),
    "answer": ("[[", "]]"),
    "lesser": ("[[", "]]"),
    "error": ("[[", "]]"),
    "outcome": ("[[", "]]"),
}
COLUMNS = 3
Edge = tuple[str, bool]
"""A statement, and whether a path went along it."""

SETTINGS = (
    '%%{init: {"flowchart": {"nodeSpacing": 14, "rankSpacing": 26, "padding": 6, "wrappingWidth": 600},'
    ' "themeVariables": {"fontSize": "13px"}}}%%'
)


def hub_view(picture: Picture) -> str:
    """Write one arc for each pair of states, its label with a line for each row.

    The label of an arc from the hub is a node of its own, because Mermaid lets long labels of edges overlap.
    """
    body = [_node(_id(node.name), node.name, node.kind, hit=node.visited) for node in picture.nodes]
    edges: list[Edge] = []
    for node in picture.nodes:
        if node.start:
            body.append("  start_(( )):::dot")
            edges.append(_edge("start_", "-->", _id(node.name)))
    for arc in picture.arcs:
        hit = bool(arc.steps)
        label = "<br>".join(_numbers("", line.steps) + line.text for line in arc.lines)
        if arc.target == picture.hub:
            edges.append(_edge(_id(arc.source), "-.->", _id(arc.target), label, hit=hit))
            continue
        panel = f"{arc.source}_to_{arc.target}"
        body.append(f'  {panel}["{label}"]:::panel')
        edges.append(_edge(_id(arc.source), "---", panel, hit=hit))
        edges.append(_edge(panel, "-->", _id(arc.target), hit=hit))
    for note in picture.notes:
        says = f"{_numbers('', note.steps)}{note.lines[0].text}<br>{note.where}"
        body.append(f'  note_{note.name}["{says}"]:::note')
        edges.append(_edge(f"note_{note.name}", "-.-", _id(note.target), hit=bool(note.steps)))
    return _document("LR", body, edges)


def ladder_view(picture: Picture) -> str:
    """Write a chain for each event: every link a guard with what it leads to, the next link for when it is false."""
    body: list[str] = []
    edges: list[Edge] = []
    for column in columns(picture.decisions, COLUMNS, lambda decision: len(decision.lines) + 1.5):
        above = ""
        for decision in column:
            name = f"{decision.event}_{decision.sources[0]}"
            links = _chain(picture, decision, name)
            body.extend(links.values())
            if above:
                edges.append(_edge(above, "~~~", name))
            for (one, other), line in zip(pairwise(links), decision.lines, strict=True):
                edges.append(_edge(one, "-->", other, hit=bool(line.steps or line.tried)))
            above = list(links)[-1]
    return _document("TB", body, edges)


def _chain(picture: Picture, decision: Decision, name: str) -> dict[str, str]:
    """Write the head of a chain and its links, by their ids."""
    where = "".join(f"<br>{words}" for words in wrap(decision.where, 40))
    links = {name: f'  {name}(["<b>{decision.event}</b>{where}"])'}
    for rank, line in enumerate(decision.lines):
        guard = " ".join(filter(None, ["else" if rank else "", line.row.guard]))
        says = f"{guard} → {line.row.target}".strip() + (f" / {line.row.effect}" if line.row.effect else "")
        says += _numbers("<br>taken at ", line.steps, "") + _numbers("<br>false at ", line.tried, "")
        kind = picture.node(line.row.target).kind
        links[f"{name}_{rank + 1}"] = _node(f"{name}_{rank + 1}", says, kind, hit=bool(line.steps))
    return links


def _edge(source: str, arrow: str, target: str, label: str = "", *, hit: bool = False) -> Edge:
    """Write an edge; `hit` paints it as part of a path."""
    says = f'|"{label}"|' if label else ""
    return f"  {source} {arrow}{says} {target}", hit


def _id(name: str) -> str:
    return f"{name}_" if name in RESERVED else name


def _node(name: str, says: str, kind: Kind, *, hit: bool) -> str:
    opening, closing = SHAPES[kind]
    return f'  {name}{opening}"{says}"{closing}:::{kind}{"Visited" if hit else ""}'


def _numbers(before: str, steps: tuple[int, ...], after: str = ": ") -> str:
    return f"{before}{', '.join(map(str, steps))}{after}" if steps else ""


def _document(direction: str, body: list[str], edges: list[Edge]) -> str:
    hits = ",".join(str(number) for number, (_, hit) in enumerate(edges) if hit)  # Mermaid styles an edge by its number
    painted = [f"  linkStyle {hits} stroke:{LIGHT.mark},stroke-width:3px"] if hits else []
    classes = []
    for kind in SHAPES:
        paint = f"fill:{LIGHT.fill[kind]},color:{LIGHT.ink}"
        classes.append(f"  classDef {kind} {paint},stroke:{LIGHT.border[kind]}")
        classes.append(f"  classDef {kind}Visited {paint},stroke:{LIGHT.mark},stroke-width:4px")
    classes.append(f"  classDef panel stroke:{LIGHT.line}")
    classes.append("  classDef note fill:none,stroke-dasharray:3 3")
    classes.append(f"  classDef dot fill:{LIGHT.line},stroke:{LIGHT.line}")
    return (
        "\n".join([SETTINGS, f"flowchart {direction}", *body, *(line for line, _ in edges), *painted, *classes]) + "\n"
    )
