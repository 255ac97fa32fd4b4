"""Both views as Markdown: the rows as a table, the decision lists as lists; and what a policy counts and allows."""

from __future__ import annotations

from collections.abc import Mapping

from rungwise.fsm.diagram.model import Decision, Line, Picture
from rungwise.fsm.machine.declare import Effect
from rungwise.fsm.machine.table import Table


def hub_view(picture: Picture) -> str:
    """Write a line for each row, by event; rows that are alike in all but their source share one."""
    head = ["event", "from", "guard", "to", "effect", *(["steps"] if picture.marked else [])]
    lines = [_cells(decision, line, picture.marked) for decision in picture.decisions for line in decision.lines]
    return markdown_table(head, lines)


def ladder_view(picture: Picture) -> str:
    """Write a numbered list for each event, in the order in which its guards are tried."""
    return "\n".join(map(_list, picture.decisions))


def counters(table: Table, limits: Mapping[str, int | None]) -> str:
    """Write what each counter allows, which rungs take from it, and what refills it.

    Arguments:
        limits: the ceiling of each counter.
    """
    effects = {row.target: table.effect(row.effect) for row in table.rows if row.effect}
    lines = []
    for name in table.counters:
        ceiling = limits[name]
        taken = ", ".join(rung for rung, effect in effects.items() if effect.spends == name)
        refilled = ", ".join(rung + _when(effect) for rung, effect in effects.items() if name in effect.refills)
        allowed = "one for each further backend" if ceiling is None else str(ceiling)
        lines.append([f"`{name}`", allowed, taken, refilled or "nothing"])
    return markdown_table(["counter", "limit", "taken by", "refilled by"], lines)


def _when(effect: Effect) -> str:
    return f" (with `{effect.refills_on}`)" if effect.refills_on else ""


def _cells(decision: Decision, line: Line, marked: bool) -> list[str]:
    row = line.row
    guard = f"`{row.guard}`" if row.guard else ""
    cells = [f"`{row.event}`", ", ".join(decision.sources), guard, row.target, f"`{row.effect}`" if row.effect else ""]
    return [*cells, ", ".join(map(str, line.steps))] if marked else cells


def _list(decision: Decision) -> str:
    lines = [f"**`{decision.event}`** {decision.where}".rstrip(), ""]
    for rank, line in enumerate(decision.lines, start=1):
        guard = f"`{line.row.guard}`" if line.row.guard else decision.guard(line)
        effect = f", `{line.row.effect}`" if line.row.effect else ""
        steps = f" (taken at {', '.join(map(str, line.steps))})" if line.steps else ""
        tried = f" (false at {', '.join(map(str, line.tried))})" if line.tried else ""
        lines.append(f"{rank}. {guard} → **{line.row.target}**{effect}{steps}{tried}")
    return "\n".join([*lines, ""])


def markdown_table(head: list[str], lines: list[list[str]]) -> str:
    """Write a table, a line for each of `lines`."""
    written = [head, ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in written)
