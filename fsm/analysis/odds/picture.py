"""The odds drawn: how calls flow from attempt to attempt, and curves of time and money.

A flow is as high as its share of the calls. Most calls end at the first attempt, and everything
else would be too thin to see beside them, so what ends there at once is drawn lower than its scale,
and the picture says so. A curve shows how many calls need at most so much; its axis gives each nine
the same width, since the last percent matters most.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import floor, log10
from typing import Final

from attrs import define, field

from rungwise.fsm.analysis.odds.calls import QUANTILES, Odds, Passage, Spread
from rungwise.fsm.analysis.odds.odds import TurnOdds
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.diagram.svg.document import document
from rungwise.fsm.engine.journal.amounts import money_text, ordinal, seconds_text
from rungwise.fsm.values.label import label

MOST_ATTEMPTS: Final = 6
"""The attempts that are drawn one by one; later ones are joined."""

THIN: Final = 0.001
"""Rungs that a smaller share of the calls takes are joined.

So are those that fewer than one in fifty of the calls take that are asked again.
"""

# Of the flows, in pixels:
TOP: Final = 66  # above the first node
GAP: Final = 14  # between nodes
LABEL: Final = 28  # the least height of a node, which holds its name
PITCH: Final = 168  # between attempts
WHOLE: Final = 400  # all calls, if what ends at once is drawn to scale
AGAIN: Final = 220  # all calls that are asked again, if it is not
CUT: Final = 120  # what ends at once, if it is not
MOST_AT_ONCE: Final = 0.5  # the largest share of the calls that is drawn to scale

# Of the curves:
ENDS: Final = log10(2000)  # in nines: a curve ends at all but 1 in 2000 calls
NINE: Final = 96  # the width of each nine, in pixels
HIGH: Final = 170  # in pixels

Picture = tuple[float, float, str]
"""The width and the height of a picture, in pixels, and its SVG."""


@define(eq=False)
class FlowNode:
    """Hold a rung at a backend in one attempt, or an outcome, with the bands that come and go."""

    layer: int
    name: str
    backend: str
    kind: str
    y: float = 0.0
    into: list[FlowBand] = field(factory=list)
    out: list[FlowBand] = field(factory=list)

    def total(self, of: str) -> float:
        """Add up the shares or the heights of its bands: of those that come, or go, if more."""
        coming: float = sum(getattr(band, of) for band in self.into)
        going: float = sum(getattr(band, of) for band in self.out)
        return max(coming, going)


@define(eq=False)
class FlowBand:
    """Hold the calls that go from one node to another.

    Arguments:
        source, target: the nodes.
        share: of all calls.
        height: of the band, in pixels.
        leaves, arrives: how low the band leaves the source and arrives at the target.
    """

    source: FlowNode
    target: FlowNode
    share: float = 0.0
    height: float = 0.0
    leaves: float = 0.0
    arrives: float = 0.0


def pictures_of(found: Odds | TurnOdds, old: Odds | TurnOdds | None = None) -> Iterator[Picture]:
    """Yield each picture: of the flows, which turns do not have, the seconds and the money."""
    both = [found] if old is None else [found, old]
    what = "call" if isinstance(found, Odds) else "turn"
    if isinstance(old, Odds):
        yield flows_drawn(old.flows, "How calls go before")
    if isinstance(found, Odds):
        yield flows_drawn(found.flows, "How calls go" if old is None else "How calls go now")
    yield curves_drawn(f"Seconds of a {what}", seconds_text, [each.seconds for each in both])
    if found.money is not None:
        money = [each.money for each in both if each.money is not None]
        yield curves_drawn(f"Cost of a {what}", money_text, money)


def nodes_of(flows: Sequence[Passage]) -> list[FlowNode]:
    """Return the nodes with their bands, the largest first.

    Thin rungs of an attempt are joined, and so are late attempts.
    """
    asked: dict[object, float] = defaultdict(float)
    for each in flows:
        asked[each.attempt, each.rung, each.backend] += each.share
        asked[each.attempt] += each.share
    thin = min(THIN, asked[2] / 50)
    last = 2  # the attempt from which on they are joined
    while last <= MOST_ATTEMPTS and asked[last] > thin:
        last += 1
    end = last + (asked[last] > 0)
    nodes: dict[tuple[int, str, str], FlowNode] = {}
    bands: dict[tuple[FlowNode, FlowNode], FlowBand] = {}

    def node(attempt: int, name: str, backend: str | None) -> FlowNode:
        place = attempt, name, backend or ""
        if backend is None:
            place = end, name, ""
        elif attempt >= last:
            place = last, "later attempts", ""
        elif asked[place] < thin:
            place = attempt, "other rungs", ""
        return nodes.setdefault(
            place, FlowNode(*place, CALL.kind_of_end(name) if backend is None else "rung")
        )

    for each in flows:
        source = node(each.attempt, each.rung, each.backend)
        target = node(each.attempt + 1, each.target, each.to_backend)
        band = bands.setdefault((source, target), FlowBand(source, target))
        band.share += each.share
    for band in bands.values():
        if band.source is not band.target:  # as among late attempts
            band.source.out.append(band)
            band.target.into.append(band)
    return sorted(nodes.values(), key=lambda node: -node.total("share"))


def lay_out(nodes: Sequence[FlowNode]) -> float:
    """Place the nodes and bands, and return how low they reach.

    What most calls end with stands above all attempts. A band turns in the gap after its attempt
    and then goes straight on, so that it crosses no node.
    """
    end = max(node.layer for node in nodes)
    best, *others = (node for node in nodes if node.layer == end)
    _set_heights(nodes, best)
    lane = float(TOP)
    bottom = _pile([best], TOP)
    for layer in range(1, end):
        here = [node for node in nodes if node.layer == layer]
        bottom = max(bottom, _pile(here, lane + GAP * (layer > 1)))
        lane += sum(band.height for band in best.into if band.source.layer == layer)
    bottom = _pile(others, bottom)
    for node in nodes:
        _stack_bands(node, latest_first=node in others)
    return bottom


def _set_heights(nodes: Sequence[FlowNode], best: FlowNode) -> None:
    """Set the height of each band; what ends with the best outcome at once may be cut."""
    at_once = sum(band.share for band in best.into if band.source.layer == 1)
    is_to_scale = at_once < MOST_AT_ONCE
    unit = WHOLE if is_to_scale else AGAIN / max(1 - at_once, 1e-9)
    for node in nodes:
        for band in node.out:
            band.height = band.share * unit
            if not is_to_scale and node.layer == 1 and band.target is best:
                band.height = CUT


def _stack_bands(node: FlowNode, *, latest_first: bool) -> None:
    """Place the bands of a node below each other, so that they do not cross beside it."""
    turn = -1 if latest_first else 1

    def order(band: FlowBand) -> tuple[float, float]:
        return turn * band.source.layer, band.source.y

    enters = node.y
    for band in sorted(node.into, key=order):
        band.arrives = enters
        enters += band.height
    leaves = node.y
    for band in sorted(node.out, key=lambda band: band.target.y):
        band.leaves = leaves
        leaves += band.height


def _pile(nodes: Sequence[FlowNode], y: float) -> float:
    """Place nodes below each other, and return where the next one would be."""
    for node in nodes:
        node.y = y
        y += max(node.total("height"), LABEL) + GAP
    return y


def flows_drawn(flows: Sequence[Passage], title: str) -> Picture:
    """Draw how calls go from attempt to attempt, and to their outcomes."""
    nodes = nodes_of(flows)
    w = PITCH * max(node.layer for node in nodes) + GAP
    h = lay_out(nodes)
    marks = render(
        "flows",
        title=title,
        nodes=nodes,
        pitch=PITCH,
        top=TOP,
        cut=CUT,
        label=label,
        ordinal=ordinal,
    )
    return w, h, document(w, h, title, [marks])


def curves_drawn(
    title: str,
    written: Callable[[float], str],
    spreads: Sequence[Spread],
) -> Picture:
    """Draw what share of the calls needs at most so much.

    Arguments:
        title: that of the picture.
        written: writes an amount.
        spreads: the distribution, and perhaps the one before.
    """
    curves = []
    for spread in spreads:
        shares = [share for _, share in spread.curve]
        reach = bisect_left(shares, 1 - 10**-ENDS) + 1
        curves.append(spread.curve[:reach])
    most = max([value for curve in curves for value, _ in curve]) or 1.0
    # the axis has four marks at most, at multiples of 1, 2 or 5
    least = 10 ** floor(log10(most / 4))
    steps = (least, 2 * least, 5 * least, 10 * least)
    step = next(step for step in steps if step * 4 >= most)
    w = 90 + NINE * ENDS
    h = HIGH + TOP + 36 + 16 * len(spreads)
    values = {
        "title": title,
        "curves": curves,
        "most": most,
        "step": step,
        "high": HIGH,
        "spreads": spreads,
    }
    marks = render(
        "curves",
        **values,
        quantiles=[*QUANTILES.values()],
        across=_across,
        written=written,
    )
    return w, h, document(w, h, title, [marks])


def _across(share: float) -> float:
    """Return how far to the right a share stands, in pixels."""
    nines = -log10(max(1 - share, 1e-9))
    return round(NINE * min(nines, ENDS), 1)
