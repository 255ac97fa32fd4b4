"""The odds drawn: how calls flow from attempt to attempt, and how many calls need at most so much
time and money.

A flow is as high as its share of the calls. Most calls end at the first attempt, and everything
else would be too thin to see beside them, so what ends there at once is drawn lower than its scale,
and the picture says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import floor, log10

from attrs import define, field

from rungwise.fsm.analysis.odds.calls import QUANTILES, Odds, Passage, Spread
from rungwise.fsm.analysis.odds.odds import TurnOdds
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page.templates import render
from rungwise.fsm.diagram.svg.document import document
from rungwise.fsm.engine.journal.digest import money_text, ordinal, seconds_text
from rungwise.fsm.values.label import label

MOST_ATTEMPTS = 6
THIN = 0.001
"""Rungs that fewer calls take are joined, or fewer than one in fifty of the calls that are asked
again.
"""
TOP = 66
GAP = 14
LABEL = 28
PITCH = 168
AGAIN, WHOLE, CUT, MOST_AT_ONCE = 220, 400, 120, 0.5
"""The height of all flows but what ends at once, of all if they are to scale, and of what ends at
once if it is not.
"""
ENDS, NINE, HIGH = log10(2000), 96, 170
"""A curve ends at all but 1 in 2000 calls, and is as wide for each nine; its height."""


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
        """Add up the shares or the heights of its bands."""
        found: float = max(
            sum(getattr(band, of) for band in bands) for bands in (self.into, self.out)
        )
        return found


@define(eq=False)
class FlowBand:
    """Hold the calls that go from one node to another, and where the band between them leaves and
    arrives.
    """

    source: FlowNode
    target: FlowNode
    share: float = 0.0
    height: float = 0.0
    leaves: float = 0.0
    arrives: float = 0.0


def pictures_of(
    found: Odds | TurnOdds, old: Odds | TurnOdds | None = None
) -> Iterator[tuple[float, float, str]]:
    """Yield the width, the height and the SVG of each picture: of the flows, the seconds and the
    money.
    """
    for each, when in [(old, " before"), (found, " now")] if old else [(found, "")]:
        if isinstance(each, Odds):
            yield flows_drawn(each.flows, f"How calls go{when}")
    both = [found] if old is None else [found, old]
    what = "call" if isinstance(found, Odds) else "turn"
    yield curves_drawn(f"Seconds of a {what}", seconds_text, [each.seconds for each in both])
    if found.money is not None:
        yield curves_drawn(
            f"Cost of a {what}", money_text, [each.money for each in both if each.money is not None]
        )


def nodes_of(flows: Sequence[Passage]) -> list[FlowNode]:
    """Return the nodes with their bands, the largest first; thin rungs of an attempt are joined,
    and late attempts.
    """
    asked: dict[object, float] = defaultdict(float)
    for each in flows:
        asked[each.attempt, each.rung, each.backend] += each.share
        asked[each.attempt] += each.share
    thin = min(THIN, asked[2] / 50)
    last = next((at for at in range(2, MOST_ATTEMPTS + 1) if asked[at] <= thin), MOST_ATTEMPTS + 1)
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
        ends = (
            node(each.attempt, each.rung, each.backend),
            node(each.attempt + 1, each.target, each.to_backend),
        )
        bands.setdefault(ends, FlowBand(*ends)).share += each.share
    for band in bands.values():
        if band.source is not band.target:  # as among late attempts
            band.source.out.append(band)
            band.target.into.append(band)
    return sorted(nodes.values(), key=lambda node: -node.total("share"))


def lay_out(nodes: Sequence[FlowNode]) -> float:
    """Place the nodes and bands, and return how low they reach: what most calls end with is above
    all attempts.

    A band turns in the gap after its attempt and then goes straight on, so that it crosses no node.
    """
    end = max(node.layer for node in nodes)
    best, *others = (node for node in nodes if node.layer == end)
    at_once = sum(band.share for band in best.into if band.source.layer == 1)
    unit = WHOLE if at_once < MOST_AT_ONCE else AGAIN / max(1 - at_once, 1e-9)
    for band in [band for node in nodes for band in node.out]:
        is_cut = at_once >= MOST_AT_ONCE and band.source.layer == 1 and band.target is best
        band.height = CUT if is_cut else band.share * unit
    lane = float(TOP)
    bottom = _pile([best], TOP)
    for layer in range(1, end):
        here = [node for node in nodes if node.layer == layer]
        bottom = max(bottom, _pile(here, lane + GAP * (layer > 1)))
        lane += sum(band.height for band in best.into if band.source.layer == layer)
    bottom = _pile(others, bottom)
    for node in nodes:
        turn = -1 if node in others else 1
        enters = node.y
        leaves = node.y
        for band in sorted(node.into, key=lambda band: (turn * band.source.layer, band.source.y)):
            band.arrives = enters
            enters = enters + band.height
        for band in sorted(node.out, key=lambda band: band.target.y):
            band.leaves, leaves = leaves, leaves + band.height
    return bottom


def _pile(nodes: Sequence[FlowNode], y: float) -> float:
    for node in nodes:
        node.y = y
        y += max(node.total("height"), LABEL) + GAP
    return y


def flows_drawn(flows: Sequence[Passage], title: str) -> tuple[float, float, str]:
    """Draw how calls go from attempt to attempt, and to their outcomes."""
    nodes = nodes_of(flows)
    w = PITCH * max(node.layer for node in nodes) + GAP
    h = lay_out(nodes)
    values = {"title": title, "nodes": nodes, "pitch": PITCH, "top": TOP, "cut": CUT}
    return w, h, document(w, h, title, [render("flows", **values, label=label, ordinal=ordinal)])


def curves_drawn(
    title: str, written: Callable[[float], str], spreads: Sequence[Spread]
) -> tuple[float, float, str]:
    """Draw what share of the calls needs at most so much; a second distribution is the one
    before.
    """
    reaches = [
        bisect_left([share for _, share in spread.curve], 1 - 10**-ENDS) + 1 for spread in spreads
    ]
    curves = [spread.curve[:reach] for spread, reach in zip(spreads, reaches, strict=True)]
    most = max([value for curve in curves for value, _ in curve]) or 1.0
    least = 10 ** floor(log10(most / 4))
    step = next(least * times for times in (1, 2, 5, 10) if least * times * 4 >= most)
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
        "curves", **values, quantiles=[*QUANTILES.values()], across=_across, written=written
    )
    return w, h, document(w, h, title, [marks])


def _across(share: float) -> float:
    return round(NINE * min(-log10(max(1 - share, 1e-9)), ENDS), 1)
