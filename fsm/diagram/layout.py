"""What the renderers share: broken lines, columns of decision lists, and struck text."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap

from rungwise.fsm.diagram.model import DecisionList


def wrapped(words: str, room: int) -> list[str]:
    """Break words into lines of at most `room` characters; a longer name gets a line of its own."""
    return wrap(words, room, break_long_words=False, break_on_hyphens=False)


def columns(
    decisions: tuple[DecisionList, ...], count: int, height: Callable[[DecisionList], float]
) -> list[list[DecisionList]]:
    """Distribute decision lists over columns of about equal height, in their order.

    A list stands in the column in which its middle would be if the columns, one below the other,
    were one.

    Arguments:
        decisions: the lists.
        count: the most columns; those that stay empty are left out.
        height: returns the height of a list.
    """
    total = sum(height(decision) for decision in decisions)
    filled: list[list[DecisionList]] = [[] for _ in range(count)]
    above = 0.0
    for decision in decisions:
        middle = above + height(decision) / 2
        place = int(middle / total * count)
        filled[place].append(decision)
        above += height(decision)
    return [column for column in filled if column]


def struck_html(text: str, is_struck: bool) -> str:
    """Strike a text through if it no longer holds."""
    return f"<s>{text}</s>" if is_struck else text
