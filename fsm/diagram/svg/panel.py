"""The label panel of an arc: a line for each row, events and guards each in a column of their own."""

from __future__ import annotations

from textwrap import wrap

from rungwise.fsm.diagram.model import Arc, Line, Note
from rungwise.fsm.diagram.svg.document import ROW, badges_width, box, draw_badges, group, line, line_group, text, width

PAD = 6
NOTE = 40  # characters in a line of a note


def panel_width(lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> float:
    """Return the least width of a panel."""
    widths = [_guard_at(lines) + width(_guard(item)) + badges_width(item.steps) for item in lines]
    widths += [width(note.lines[0].text) + badges_width(note.steps) for note in notes]
    widths += [width(words, "small") for note in notes for words in _words(note)]
    return max(widths) + 2 * PAD if widths else 0.0


def panel_height(lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> float:
    """Return the height of a panel; one without lines has none."""
    rows = len(lines) + sum(1 + len(_words(note)) for note in notes)
    return rows * ROW + 2 * PAD - 2 if rows else 0.0


def draw_panel(x: float, y: float, w: float, lines: tuple[Line, ...], notes: tuple[Note, ...] = ()) -> list[str]:
    """Draw a panel with the lines of an arc and the notes that take the place of one."""
    parts = [box(x, y, w, panel_height(lines, notes), "panel" if lines else "panel loose", 4)]
    x, y = x + PAD, y + PAD - 1
    for item in lines:
        parts.append(_label(x, y, _guard_at(lines), item))
        y += ROW
    for note in notes:
        words = _words(note)
        parts.append(_note(x, y, note, words))
        y += ROW * (1 + len(words))
    return parts


def draw_arrow(points: list[tuple[float, float]], arc: Arc, *, back: bool = False) -> str:
    """Draw the end of an arc; one that a path went along is thick."""
    kind = "back" if back else "line"
    if arc.steps:
        return line(points, f"{kind} went", "taken")
    return line(points, kind, "return" if back else "arrow")


def draw_stub(points: list[tuple[float, float]], arc: Arc) -> str:
    """Draw the beginning of an arc, up to its panel."""
    return line(points, "line went" if arc.steps else "line")


def _guard(item: Line) -> str:
    return f" [{item.row.guard}]" if item.row.guard else ""


def _guard_at(lines: tuple[Line, ...]) -> float:
    """Return where the guards of a panel begin."""
    return max((width(item.row.event) for item in lines), default=0.0)


def _label(x: float, y: float, guard_at: float, item: Line) -> str:
    hit = " hit" if item.steps else ""
    words = [text(x, y + 12, item.row.event, f"label{hit}")]
    end = x + width(item.row.event)
    if item.row.guard:
        words.append(text(x + guard_at + width(" "), y + 12, f"[{item.row.guard}]", f"label{hit or ' guard'}"))
        end = x + guard_at + width(_guard(item))
    return line_group(item, [*words, *draw_badges(end, y + 8, item.steps)])


def _words(note: Note) -> list[str]:
    return wrap(note.where, NOTE)


def _note(x: float, y: float, note: Note, words: list[str]) -> str:
    says = note.lines[0].text
    parts = [text(x, y + 12, says, f"label{' hit' if note.steps else ''}")]
    parts.extend(draw_badges(x + width(says), y + 8, note.steps))
    parts.extend(text(x, y + 12 + ROW * place, says, "small faint") for place, says in enumerate(words, start=1))
    parts.extend(line_group(item, []) for item in note.lines)
    return group(parts, note=note.name)
