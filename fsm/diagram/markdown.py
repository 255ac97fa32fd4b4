"""Both views as Markdown, and the counters of a policy.

The hub view is a table of the rows, the ladder view a numbered list for each event.
"""

from __future__ import annotations

from collections.abc import Mapping

from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.model import DecisionList, Node, Picture
from rungwise.fsm.engine.machine.table import Table


def hub_view(picture: Picture) -> str:
    """Write a table of the rows, by event; rows that differ only in their source share a line."""
    lines = []
    remarks = []
    for decision in picture.decisions:
        for line in decision.lines:
            lines.append(_cells(picture, decision, line))
            remarks.append(_remark(line))
    head = ["event", "from", "guard", "to", "effect"]
    if picture.marked:
        head.append("steps")
    if any(remarks):
        head.append("what changes" if picture.is_change else "what a policy makes of it")
        for cells, remark in zip(lines, remarks, strict=True):
            cells.append(remark)
    return _heading(picture) + markdown_table(head, lines)


def ladder_view(picture: Picture) -> str:
    """Write a numbered list for each event: its guards in the order in which they are tried."""
    lists = [_list(picture, decision) for decision in picture.decisions]
    return _heading(picture) + "\n".join(lists)


def _heading(picture: Picture) -> str:
    """Write the caption of a policy and the key of a change; empty for a plain table."""
    if not picture.caption and not picture.key:
        return ""
    first = f"{picture.rows[:1].upper()}{picture.rows[1:]}"
    if picture.caption:
        first += f"; {picture.caption}"
    heading = f"{first}.\n\n"
    if picture.key:
        heading += f"{picture.key}\n\n"
    return heading


def counters(table: Table, limits: Mapping[str, int | None]) -> str:
    """Write a table of the counters.

    Each has its limit, the rungs that spend it, and what refills it.
    """
    effects = {row.target: table.effect(row.effect) for row in table.rows if row.effect}
    lines = []
    for name in table.counters:
        limit = limits[name]
        spenders: list[str] = []
        refillers: list[str] = []
        for rung, effect in effects.items():
            if effect.spends == name:
                spenders.append(rung)
            if name in effect.refills:
                fact = effect.refills_on
                refillers.append(f"{rung} (with `{fact}`)" if fact else rung)
        allowed = "as many as the chain allows" if limit is None else str(limit)
        refilled_by = ", ".join(refillers) or "nothing"
        lines.append([f"`{name}`", allowed, ", ".join(spenders), refilled_by])
    return markdown_table(["counter", "limit", "taken by", "refilled by"], lines)


def _cells(picture: Picture, decision: DecisionList, line: Line) -> list[str]:
    """Write a row as the cells of a table."""
    row = line.row
    sources = []
    for name in decision.sources:
        # a state that is gone is struck by itself, unless the whole row is
        is_gone = picture.node(name).is_struck and not line.is_struck
        sources.append(_struck(name, is_gone))
    event = _struck(f"`{row.event}`", line.is_struck)
    source = _struck(", ".join(sources), line.is_struck)
    guard = _struck(_code(row.guard), line.is_struck)
    target = _struck(row.target, line.is_struck) + _detail(picture.node(row.target))
    effect = _struck(_code(row.effect), line.is_struck)
    cells = [event, source, guard, target, effect]
    if picture.marked:
        cells.append(", ".join(map(str, line.steps)))
    return cells


def _list(picture: Picture, decision: DecisionList) -> str:
    """Write the decision list of an event."""
    lines = [f"**`{decision.event}`** {decision.where}".rstrip(), ""]
    for rank, line in decision.ranked:
        begin = "-" if rank is None else f"{rank}."
        lines.append(f"{begin} {_entry(picture, decision, line)}")
    return "\n".join([*lines, ""])


def _entry(picture: Picture, decision: DecisionList, line: Line) -> str:
    """Write a row as an entry of its decision list."""
    row = line.row
    guard = _code(row.guard) or decision.guard(line)
    says = f"{guard} → **{row.target}**"
    if row.effect:
        says += f", `{row.effect}`"
    entry = _struck(says, line.is_struck) + _detail(picture.node(row.target))
    if line.steps:
        entry += f" (taken at {', '.join(map(str, line.steps))})"
    if line.tried:
        entry += f" (false at {', '.join(map(str, line.tried))})"
    remark = _remark(line)
    if remark:
        entry += f"; {remark}"
    return entry


def _code(name: str | None) -> str:
    return f"`{name}`" if name else ""


def _detail(node: Node) -> str:
    """Write the limit and waits of a rung, in parentheses."""
    says = ""
    for words, is_struck in node.pieces:
        if is_struck:
            words = _struck(words.strip(), True)  # Markdown strikes nothing between spaces
        says += words
    return f" ({says})" if says else ""


def _remark(line: Line) -> str:
    """Say why a row is never taken, and what a change does to it."""
    remarks = []
    if line.change == "added":
        remarks.append("**+ new**")
    elif line.change == "removed":
        remarks.append("**− gone**")
    if line.off is not None:
        off = "**now off**" if line.turned == "off" else "off"
        remarks.append(f"{off}: {line.off}")
    if line.turned == "on":
        remarks.append("**now on**")
    if line.was is not None:
        remarks.append(f"was {line.was}.")
    return ", ".join(remarks)


def _struck(says: str, is_struck: bool) -> str:
    return f"~~{says}~~" if says and is_struck else says


def markdown_table(head: list[str], lines: list[list[str]]) -> str:
    """Write a Markdown table from its head and its lines, each a list of cells."""
    rule = ["---"] * len(head)
    table = ""
    for cells in (head, rule, *lines):
        table += f"| {' | '.join(cells)} |\n"
    return table
