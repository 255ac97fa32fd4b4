"""Both views as Markdown: the rows as a table, the decision lists as numbered lists; and the
counters of a policy.
"""

from __future__ import annotations

from collections.abc import Mapping

from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.model import Decision, Node, Picture
from rungwise.fsm.engine.machine.table import Table


def hub_view(picture: Picture) -> str:
    """Write a table of the rows, by event; rows that differ only in their source share a line."""
    lines = [
        _cells(picture, decision, line) for decision in picture.decisions for line in decision.lines
    ]
    head = ["event", "from", "guard", "to", "effect", *(["steps"] if picture.marked else [])]
    if any(remark for *_, remark in lines):
        head.append("what a policy makes of it" if not picture.is_change else "what changes")
        return _heading(picture) + markdown_table(head, lines)
    return _heading(picture) + markdown_table(head, [cells for *cells, _ in lines])


def ladder_view(picture: Picture) -> str:
    """Write a numbered list for each event: its guards in the order in which they are tried."""
    return _heading(picture) + "\n".join(_list(picture, decision) for decision in picture.decisions)


def _heading(picture: Picture) -> str:
    """Write the caption of a policy and the key of a change; empty for a plain table."""
    if not picture.caption and not picture.key:
        return ""
    rows = f"{picture.rows[:1].upper()}{picture.rows[1:]}"
    first = "; ".join(filter(None, [rows, picture.caption]))
    return "".join(f"{says}\n\n" for says in (f"{first}.", picture.key) if says)


def counters(table: Table, limits: Mapping[str, int | None]) -> str:
    """Write a table of the counters: their limits, the rungs that spend them, and what refills
    them.
    """
    effects = {row.target: table.effect(row.effect) for row in table.rows if row.effect}
    lines = []
    for name in table.counters:
        ceiling = limits[name]
        spenders = ", ".join(rung for rung, effect in effects.items() if effect.spends == name)
        refilling = [
            (rung, effect.refills_on) for rung, effect in effects.items() if name in effect.refills
        ]
        refillers = ", ".join(
            f"{rung} (with `{fact}`)" if fact else rung for rung, fact in refilling
        )
        allowed = "as many as the chain allows" if ceiling is None else str(ceiling)
        lines.append([f"`{name}`", allowed, spenders, refillers or "nothing"])
    return markdown_table(["counter", "limit", "taken by", "refilled by"], lines)


def _cells(picture: Picture, decision: Decision, line: Line) -> list[str]:
    row = line.row
    struck = line.is_struck
    sources = ", ".join(
        _struck(name, picture.node(name).is_struck and not struck) for name in decision.sources
    )
    guard = f"`{row.guard}`" if row.guard else ""
    cells = [f"`{row.event}`", sources, guard, row.target, f"`{row.effect}`" if row.effect else ""]
    cells = [_struck(cell, struck) for cell in cells]
    cells[3] += _detail(picture.node(row.target))
    steps = [", ".join(map(str, line.steps))] if picture.marked else []
    return [*cells, *steps, _remark(line)]


def _list(picture: Picture, decision: Decision) -> str:
    lines = [f"**`{decision.event}`** {decision.where}".rstrip(), ""]
    for rank, line in decision.ranked:
        guard = f"`{line.row.guard}`" if line.row.guard else decision.guard(line)
        effect = f", `{line.row.effect}`" if line.row.effect else ""
        says = _struck(f"{guard} → **{line.row.target}**{effect}", line.is_struck)
        steps = f" (taken at {', '.join(map(str, line.steps))})" if line.steps else ""
        tried = f" (false at {', '.join(map(str, line.tried))})" if line.tried else ""
        remark = f"; {_remark(line)}" if _remark(line) else ""
        begin = "-" if rank is None else f"{rank}."
        lines.append(
            f"{begin} {says}{_detail(picture.node(line.row.target))}{steps}{tried}{remark}"
        )
    return "\n".join([*lines, ""])


def _detail(node: Node) -> str:
    says = "".join(
        _struck(words.strip(), True) if is_struck else words for words, is_struck in node.pieces
    )
    return f" ({says})" if says else ""


def _remark(line: Line) -> str:
    """Say why a row is never taken, and what a change does to it."""
    changed = {"added": "**+ new**", "removed": "**− gone**"}[line.change] if line.change else ""
    off = (
        f"{'**now off**' if line.turned == 'off' else 'off'}: {line.off}"
        if line.off is not None
        else ""
    )
    on = "**now on**" if line.turned == "on" else ""
    was = f"was {line.was}." if line.was is not None else ""
    return ", ".join(filter(None, [changed, off, on, was]))


def _struck(says: str, is_struck: bool) -> str:
    return f"~~{says}~~" if says and is_struck else says


def markdown_table(head: list[str], lines: list[list[str]]) -> str:
    """Write a Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in rows)
