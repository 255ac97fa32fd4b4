"""The machine on a page in its two views: the ladders, which wrap, and the picture, which is shown on request."""

from __future__ import annotations

from rungwise.fsm.diagram.page.markup import picture, section

_PLACE = "<svg></svg>"
"""Where a view will stand."""


def machine_views(ladders: str, svg: str) -> tuple[str, ...]:
    """Return the HTML of both views in parts; those that many runs of a table share stand alone.

    Arguments:
        ladders: the ladder view, as HTML.
        svg: the hub view.
    """
    box = section("What follows what came back", f'<div id="ladders">{_PLACE}</div>', name="ladder-box")
    before, _, after = box.partition(_PLACE)
    opened, _, closed = picture(_PLACE).partition(_PLACE)
    summary = '<details class="box" id="hub"><summary>The machine as one picture</summary>'
    return before, ladders, f"{after}{summary}{opened}", svg, f"{closed}</details>"
