"""The label panel of an arc: a line for each row, with columns for events and guards."""

from __future__ import annotations

from rungwise.fsm.diagram.model import Arc, Line, Note, wrapped
from rungwise.fsm.diagram.svg.document import ROW, badges_width, box, draw_badges, group, line, line_group, text, width

PAD = 6
NOTE = 40  # characters in a line of a note


def panel_width(lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> float:
    """Return the least width of a panel."""
    widths = [_guard_at(lines) + width(_guard(item)) + _after(item) for item in lines]
    for note in notes:
        whole = note.line
        widths.append(_sign_width((whole,)) + width(whole.text) + _after(whole))
    widths += [width(words, "small") for note in notes for words in wrapped(note.where, NOTE)]
    return max(widths) + 2 * PAD if widths else 0.0


def panel_height(lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> float:
    """Return the height of a panel; 0 without lines."""
    rows = len(lines) + sum(1 + len(wrapped(note.where, NOTE)) for note in notes)
    return rows * ROW + 2 * PAD - 2 if rows else 0.0


def draw_panel(x: float, y: float, w: float, lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> list[str]:
    """Draw a panel with the lines of an arc, or with notes that replace arcs."""
    parts = [box(x, y, w, panel_height(lines, notes), "panel" if lines else "panel loose", 4)]
    x, y = x + PAD, y + PAD - 1
    for item in lines:
        parts.append(_label(x, y, lines, item))
        y += ROW
    for note in notes:
        words = wrapped(note.where, NOTE)
        parts.append(_note(x, y, note, words))
        y += ROW * (1 + len(words))
    return parts


def draw_arrow(points: list[tuple[float, float]], arc: Arc, *, back: bool = False) -> str:
    """Draw the end of an arc; it is thick if a path took it or it is new."""
    kind = "back" if back else "line"
    if arc.steps:
        return line(points, f"{kind} went", "taken")
    return line(points, kind + _looks(arc), "return" if back else "arrow")


def draw_stub(points: list[tuple[float, float]], arc: Arc) -> str:
    """Draw the beginning of an arc, up to its panel."""
    return line(points, "line went" if arc.steps else "line" + _looks(arc))


def _looks(arc: Arc) -> str:
    return (" off" if arc.is_struck else "") + (" new" if arc.change == "added" else "")


def _sign_width(lines: tuple[Line, ...]) -> float:
    return width("+ ") if any(item.sign for item in lines) else 0.0


def _after(item: Line) -> float:
    """Return the width of what follows the words of a line."""
    return (width(f" {item.turn}", "small") if item.turn else 0.0) + badges_width(item.steps)


def _guard(item: Line) -> str:
    return f" [{item.row.guard}]" if item.row.guard else ""


def _guard_at(lines: tuple[Line, ...]) -> float:
    """Return where the guards of a panel begin."""
    return _sign_width(lines) + max((width(item.row.event) for item in lines), default=0.0)


def _label(x: float, y: float, lines: tuple[Line, ...], item: Line) -> str:
    hit = " hit" if item.steps else " struck" if item.is_struck else ""
    parts = [text(x, y + 12, item.sign, "label sign")] if item.sign else []
    begin = x + _sign_width(lines)
    parts.append(text(begin, y + 12, item.row.event, f"label{hit}"))
    end = begin + width(item.row.event)
    if item.row.guard:
        at = x + _guard_at(lines)
        parts.append(text(at + width(" "), y + 12, f"[{item.row.guard}]", f"label{hit or ' guard'}"))
        end = at + width(_guard(item))
    return line_group(item, [*parts, *_rest(end, y, item)])


def _rest(x: float, y: float, item: Line) -> list[str]:
    """Draw what follows the words of a line: its change, and the steps that took it."""
    parts = [text(x + width(" ", "small"), y + 12, item.turn, "small sign")] if item.turn else []
    return [*parts, *draw_badges(x + _after(item) - badges_width(item.steps), y + 8, item.steps)]


def _note(x: float, y: float, note: Note, words: list[str]) -> str:
    item = note.line
    hit = " hit" if item.steps else " struck" if item.is_struck else ""
    begin = x + _sign_width((item,))
    parts = [text(x, y + 12, item.sign, "label sign")] if item.sign else []
    parts.append(text(begin, y + 12, item.text, f"label{hit}"))
    parts.extend(_rest(begin + width(item.text), y, item))
    parts.extend(text(x, y + 12 + ROW * place, says, "small faint") for place, says in enumerate(words, start=1))
    parts.extend(line_group(each, []) for each in note.lines)
    return group(parts, note=note.name)
