"""Parsers that read the rows back from a picture, one for each format and view."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator

from rungwise.fsm.diagram import Format, View
from rungwise.fsm.engine.machine.table import Table

SVG = "{http://www.w3.org/2000/svg}"

Short = tuple[str, str, str, str]  # event, source, guard, target
Full = tuple[str, str, str, str, str]  # and effect


def label(text: str) -> tuple[str, str]:
    match = re.fullmatch(
        r"(?:[+−] )?(?:[\d, ]+: )?(\w+)(?: \[(\w+)\])?(?: now (?:off|on))?", plain(text)
    )
    assert match, text
    return match[1], match[2] or ""


def sources_of(table: Table, where: str, target: str = "") -> tuple[str, ...]:
    if where == "from every other rung":
        return tuple(rung for rung in table.rungs if rung != target)
    if where.startswith("from every rung but "):
        return tuple(
            rung for rung in table.rungs if rung != where.removeprefix("from every rung but ")
        )
    if where == "from every rung":
        return table.rungs
    if where == "from every state before an outcome":
        return (*table.rungs, table.hub)
    return tuple(where.removeprefix("from ").split(", "))


# Each parser reads the rows of a picture from what a reader sees of it.


def plain(text: str) -> str:
    """Remove the tags of a label."""
    return re.sub(r"</?(?:s|b|font)\b[^>]*>", "", text)


def hub_mermaid(table: Table, text: str) -> Iterator[Short]:
    nodes = {
        name: plain(says)
        for name, says in re.findall(r'^  (\w+)[(\[{>]+"(.*?)"[)\]}]+:::', text, re.M)
    }
    names = {
        name: says.split("<br>")[0].removeprefix("+ ").removeprefix("− ")
        for name, says in nodes.items()
    }
    dashed = re.findall(r'^  (\w+) -\.+->\|"(.*)"\| (\w+)$', text, re.M)
    reversed_ = re.findall(r"^  (\w+) <--> (\w+)$", text, re.M)
    turned = {panel: target for target, panel in reversed_}
    into = dict(re.findall(r"^  (\w+) --> (\w+)$", text, re.M))
    for one, other in re.findall(r"^  (\w+) --- (\w+)$", text, re.M):
        if one in turned:
            dashed.append((other, nodes[one], turned[one]))
        else:
            dashed.append((one, nodes[other], into[other]))
    for source, says, target in dashed:
        for line in says.split("<br>"):
            event, guard = label(line)
            yield event, names[source], guard, names[target]
    for one, other in re.findall(r"^  (\w+) -\.- (\w+)$", text, re.M):
        note, target = (one, other) if one.startswith("note_") else (other, one)
        says, where = nodes[note].split("<br>", 1)
        event, guard = label(says)
        for source in sources_of(table, where, names[target]):
            yield event, source, guard, names[target]


def ladder_mermaid(table: Table, text: str) -> Iterator[Full]:
    nodes = dict(re.findall(r'^  (\w+)[(\[{>]+"(.*?)"[)\]}]+:::', text, re.M))
    follows = dict(re.findall(r"^  (\w+) --> (\w+)$", text, re.M))
    for head in re.findall(r"^  (\w+)\(.*:::head$", text, re.M):
        event, where = nodes[head].removeprefix("<b>").split("</b>")
        sources = sources_of(table, where.replace("<br>", " ").strip()) if where else (table.hub,)
        link = head
        while link in follows:
            link = follows[link]
            line = re.sub(r"^[+−] | now (?:off|on)$", "", plain(nodes[link].split("<br>")[0]))
            says = re.fullmatch(r"(?:else )?(?:else|(\w+))? ?→ (\w+)(?: / (\w+))?", line)
            assert says, nodes[link]
            for source in sources:
                yield event, source, says[1] or "", says[2], says[3] or ""


def hub_dot(table: Table, text: str) -> Iterator[Short]:
    for source, target, says in re.findall(
        r'^  "([^"]+)" -> "([^"]+)" \[label=<(.*?)>, tooltip', text, re.M
    ):
        for line in says.split('<br align="left"/>')[:-1]:
            event, guard = label(line)
            yield event, source, guard, target
    notes = dict(re.findall(r'^  "(note \w+)" \[.*label=<(.*?)>[],]', text, re.M))
    for note, target in re.findall(r'^  "(note \w+)" -> "(\w+)"', text, re.M):
        says, where = notes[note].split("<br/>")
        event, guard = label(says)
        for source in sources_of(table, where, target):
            yield event, source, guard, target


def ladder_dot(table: Table, text: str) -> Iterator[Full]:
    for markup in re.findall(r"\[label=<(.*)>\];$", text, re.M):
        head, *lines = ET.fromstring(markup)
        event, *where = head[0].itertext()
        sources = sources_of(table, " ".join(where)) if where else (table.hub,)
        for line in lines:
            _, guard, target, effect, _ = ("".join(cell.itertext()) for cell in line)
            target = re.sub("^[+−✓◐✕] ", "", target)
            name = re.fullmatch(
                r"(?:[\d, ]+: )?(\w+)(?: now (?:off|on))?(?: false: .*?)?(?: was \d+\.)?", guard
            )
            assert name, guard
            for source in sources:
                guarded = "" if name[1] in ("always", "otherwise") else name[1]
                yield event, source, guarded, target, effect.strip()


def hub_rows(table: Table, text: str) -> Iterator[Full]:
    for line in text[text.index("| ---") :].splitlines()[1:]:
        event, sources, guard, target, effect = [cell.strip(" `~") for cell in line.split("|")[1:6]]
        sources = sources.replace("~~", "")
        target = re.sub(r"~* \(.*", "", target)
        for source in sources.split(", "):
            yield event, source, guard, target, effect


def ladder_rows(table: Table, text: str) -> Iterator[Full]:
    event = ""
    sources = sources_of(table, table.hub)
    for line in text.splitlines():
        if head := re.fullmatch(r"\*\*`(\w+)`\*\*(?: (from .*))?", line):
            event = head[1]
            sources = sources_of(table, head[2]) if head[2] else (table.hub,)
        elif line and event:
            step = re.match(
                r"(?:\d+\.|-) (?:~~)?(?:`(\w+)`|otherwise|always) → \*\*(\w+)\*\*(?:, `(\w+)`)?",
                line,
            )
            assert step, line
            for source in sources:
                yield event, source, step[1] or "", step[2], step[3] or ""


def parts(text: str, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(text).iter(SVG + tag))


def words(element: ET.Element) -> list[str]:
    return [text.text or "" for text in element.iter(SVG + "text")]


def svg_rows(table: Table, text: str) -> Iterator[Short]:
    """Read the rows from the attributes for scripts and check that the visible text agrees."""
    for element in parts(text, "g"):
        if "data-event" in element.attrib:
            row = element.attrib
            shown = words(element)
            named = any(word in (row["data-event"], row["data-guard"]) for word in shown)
            assert not shown or named or {"always", "otherwise"} & {*shown}
            yield row["data-event"], row["data-source"], row["data-guard"], row["data-target"]


PARSERS: dict[tuple[Format, View], Callable[[Table, str], Iterator[tuple[str, ...]]]] = {
    ("mermaid", "hub"): hub_mermaid,
    ("mermaid", "ladder"): ladder_mermaid,
    ("dot", "hub"): hub_dot,
    ("dot", "ladder"): ladder_dot,
    ("rows", "hub"): hub_rows,
    ("rows", "ladder"): ladder_rows,
    ("svg", "hub"): svg_rows,
    ("svg", "ladder"): svg_rows,
}
