"""The odds of a policy as tables, alone or beside those of another one.

They are written as text, as a picture with the flows and curves, or as a page with both.

A comparison must not report noise. So a figure changes only if it moves by more than its error, and
an amount by more than 0.05 %: the error of a share is what the walks left out, and that of a
quantile what the grid may have moved it by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import inf
from textwrap import fill
from typing import Final, NamedTuple

from attrs import frozen

from rungwise.fsm.analysis.odds.calls import QUANTILES, Odds, Spread
from rungwise.fsm.analysis.odds.odds import TurnOdds
from rungwise.fsm.analysis.odds.picture import pictures_of
from rungwise.fsm.analysis.stats.shown import StatsRow, text_of
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page.templates import html, render
from rungwise.fsm.diagram.svg.document import document, number
from rungwise.fsm.engine.journal.amounts import money_text, plain
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.values.label import label

AnyOdds = Odds | TurnOdds
TITLE: Final = "What calls will probably come to"
WIDTH: Final = 120  # of the remarks, in characters
ROWS: Final = 12
"""Rows of the policy's table that are listed."""

ASSUMED: Final = """\
What comes of an attempt is taken to depend on its backend and position alone. A fact of a reply that the rates do not
name does not hold; text stays once it is gathered. Time, tokens and money are taken to suffice, each backend to have
one key, and nobody to cancel beyond the rates. The backends and their prices are those of the rates.
"""  # noqa: E501

DIGITS: Final = range(4, 10)
"""How many digits of two figures may be shown; as few are as tell them apart."""

LEAST_SHARE: Final = 1e-9
"""A smaller share, which may have a hundred zeros, is only said to be smaller."""

SEEN: Final = 0.0005
"""A change of an amount by a smaller part than this counts as none."""


@frozen
class Figure:
    """Hold a figure of the calls under the old policy and under the new one.

    Arguments:
        of, name: its table, and its name in there.
        form: `share` of the calls, `number`, or `money`.
        old, new: infinite for a quantile beyond the grid.
        error: how far they may differ though nothing has changed.
    """

    of: str
    name: str
    form: str
    old: float
    new: float
    error: float

    @property
    def is_change(self) -> bool:
        """Tell whether the figure changes by more than its error.

        An amount must also change by enough to be seen.
        """
        seen = 0.0 if self.form == "share" else SEEN * abs(self.old)
        if self.old == self.new:
            return False
        return abs(self.new - self.old) > max(self.error, seen)

    @property
    def texts(self) -> tuple[str, str, str]:
        """Return the old figure, the new one, and the change in words."""
        old, new = self._sides(DIGITS[0])
        if not self.is_change:
            return old, new, "="
        for digits in DIGITS:
            longer_old, longer_new = self._sides(digits)
            if longer_old != longer_new:
                old = longer_old
                new = longer_new
                break
        return old, new, self._change

    def _sides(self, digits: int) -> tuple[str, str]:
        """Write the old and the new figure with so many digits."""
        old = _text(self.form, self.old, digits)
        new = _text(self.form, self.new, digits)
        return old, new

    @property
    def _change(self) -> str:
        """Describe the change: in points of a share, in percent, or as a factor of a large one."""
        if self.form == "share":
            return f"{100 * (self.new - self.old):+.2g} points"
        factor = self.new / self.old if self.old else inf
        if factor == inf:
            return "more"
        if 0.5 < factor < 2:
            return f"{100 * (factor - 1):+.2g} %"
        return f"x {factor:.3g}"


def _text(
    form: str,
    value: float | None,
    digits: int = DIGITS[0],
) -> str:
    """Write a figure; a quantile beyond the grid is `more`."""
    if form == "share":
        return f"{100 * (value or 0):.{digits - 2}f} %"
    if value is None or value == inf:
        return "more"
    if form == "money":
        return money_text(value)
    return f"{value:.{digits}g}"


@frozen
class Comparison:
    """Hold every figure of two policies side by side, and a line that sums them up."""

    summary: str
    figures: tuple[Figure, ...]

    @property
    def tables(self) -> list[list[StatsRow]]:
        """Return a table for each group of figures; its first row has the title and headings."""
        tables: dict[str, list[StatsRow]] = {}
        for each in self.figures:
            head = (each.of, ("before", "now", "change"), ())
            rows = tables.setdefault(each.of, [head])
            rows.append((label(each.name), each.texts, ()))
        return [*tables.values()]


def compare(old: AnyOdds, new: AnyOdds) -> Comparison:
    """Put the odds of two policies against the same rates side by side.

    A figure that only one of them has is 0 in the other.
    """
    before = {(each.of, each.name): each for each in _amounts_of(old)}
    after = {(each.of, each.name): each for each in _amounts_of(new)}
    error = old.left_out + new.left_out
    figures = []
    for of, name in {**before, **after}:
        nothing = _Amount(of, name, "share", 0.0, error)
        was = before.get((of, name), nothing)
        now = after.get((of, name), nothing)
        figure = Figure(
            of=of,
            name=name,
            form=was.form,
            old=was.value,
            new=now.value,
            error=max(was.error, now.error),
        )
        figures.append(figure)
    return Comparison(_summary_of(figures, new), tuple(figures))


def _summary_of(figures: Sequence[Figure], new: AnyOdds) -> str:
    """Write the change of the three figures that matter most on one line."""
    changed = {(each.of, each.name): each.texts for each in figures if each.is_change}
    if not changed:
        return "no change"
    well = "done" if isinstance(new, Odds) else "finished"
    parts = []
    for of, name, unit in (("outcome", well, " %"), ("seconds", "P99", " s")):
        if (of, name) in changed:
            was, now, _ = changed[of, name]
            was = was.removesuffix(unit)
            parts.append(f"{name} {was} -> {now.removesuffix(unit)}{unit}")
    word = "cost" if new.money else "tokens"
    key = ("money", "mean") if new.money else ("on average", "tokens")
    if key in changed:
        _, _, change = changed[key]
        parts.append(f"{word} {change}")
    return ", ".join(parts) or f"other figures change, but not {well}, P99 and {word}"


class _Amount(NamedTuple):
    """Hold a figure of one policy, with its table, name, form and error as in `Figure`."""

    of: str
    name: str
    form: str
    value: float
    error: float


def _amounts_of(odds: AnyOdds) -> Iterator[_Amount]:
    """Yield every figure of some odds."""
    for name, share in _outcomes(odds):
        yield _Amount("outcome", plain(name), "share", share, odds.left_out)
    for name, form, spread in _spreads(odds):
        if not spread.quantiles:
            yield _Amount("on average", name, form, spread.mean, 0.0)
            continue
        yield _Amount(name, "mean", form, spread.mean, 0.0)
        for quantile, value in spread.quantiles.items():
            value = inf if value is None else value
            yield _Amount(name, quantile.upper(), form, value, spread.error)
    for name, share in getattr(odds, "reached", {}).items():
        yield _Amount("backends reached", name, "share", share, odds.left_out)
    for name, share in _over(odds).items():
        yield _Amount("over the budget of", name, "share", share, odds.left_out)


def _outcomes(odds: AnyOdds) -> list[tuple[str, float]]:
    """Return the outcomes that can happen, with their probabilities."""
    return [(name, share) for name, share in odds.outcomes.items() if share]


def _spreads(odds: AnyOdds) -> Iterator[tuple[str, str, Spread]]:
    """Yield each quantity with its name and form; one known only on average has no quantiles."""
    for name in ("calls", "rounds", "attempts", "seconds", "money"):
        spread = getattr(odds, name, None)
        if spread is not None:
            form = "money" if name == "money" else "number"
            yield "rounds of tools" if name == "rounds" else name, form, spread
    yield "tokens", "number", Spread(odds.tokens, {})
    if isinstance(odds, Odds):
        yield "waited seconds", "number", Spread(odds.waited, {})


def _over(odds: AnyOdds) -> dict[str, float]:
    """Return the shares that would exceed a budget, by what it limits."""
    shares = {}
    for name in ("attempts", "seconds", "money"):
        share = getattr(odds, f"over_{name}", None)
        if share is not None:
            shares[name] = share
    return shares


def tables_of(found: AnyOdds) -> list[list[StatsRow]]:
    """Return the tables of the odds; the first row of each holds its title and its headings."""
    if isinstance(found, TurnOdds):
        return [_outcome_rows(found, TURN), _spread_rows(found, "a turn")]
    reached: list[StatsRow] = [("backends reached", ["calls"], ())]
    for name, share in found.reached.items():
        bar = [(share, "rung")]
        reached.append((label(name), [_percent(share)], bar))
    rows: list[StatsRow] = [("rows taken", ["per call", "share"], ())]
    in_all = sum(found.rows.values())
    for name, times in [*found.rows.items()][:ROWS]:
        rows.append((label(name), [f"{times:.3g}", f"{times / in_all:.2%}"], ()))
    return [_outcome_rows(found, CALL), reached, _spread_rows(found, "a call"), rows]


def _outcome_rows(odds: AnyOdds, table: Table) -> list[StatsRow]:
    """Return a row for each outcome, with a bar in the colour of its kind."""
    rows: list[StatsRow] = [("outcome", ["probability"], ())]
    for name, share in _outcomes(odds):
        bar = [(share, table.kind_of_end(name))]
        rows.append((plain(name), [_percent(share)], bar))
    return rows


def _spread_rows(odds: AnyOdds, what: str) -> list[StatsRow]:
    """Return a row for each quantity: its mean, its quantiles, and how far those may be off."""
    headings = ["mean", *map(str.upper, QUANTILES), "±"]
    rows: list[StatsRow] = [(what, headings, ())]
    for name, form, spread in _spreads(odds):
        cells = [_text(form, spread.mean)]
        if spread.quantiles:
            cells += [_text(form, each) for each in spread.quantiles.values()]
            cells.append(_text(form, spread.error) if spread.error else "exact")
        cells += [""] * (len(headings) - len(cells))
        rows.append((name, cells, ()))
    return rows


def _percent(share: float) -> str:
    """Write a share in percent, never in exponential form."""
    if 0 < share < LEAST_SHARE:
        return f"< {_percent(LEAST_SHARE)}"
    digits = f"{share:.6g}" if share > 0.5 else f"{share:.3g}"
    return f"{(Decimal(digits) * 100).normalize():f} %"


def remarks_of(found: AnyOdds) -> Iterator[str]:
    """Yield what else there is to say of the odds, a line each."""
    what = "calls" if isinstance(found, Odds) else "turns"
    for name, over in _over(found).items():
        yield f"{_percent(over)} of the {what} would exceed the budget of {name}."
    yield f"{found.configurations} configurations were followed; {found.left_out:.1g} is left out."
    for each in getattr(found, "dependence", ()):
        yield f"{each}."


def _tables(found: AnyOdds, old: AnyOdds | None) -> tuple[str, list[list[StatsRow]]]:
    """Return the line that sums up a comparison, if there is one, and the tables."""
    if old is None:
        return "", tables_of(found)
    comparison = compare(old, found)
    return comparison.summary, comparison.tables


def _plain(found: AnyOdds, old: AnyOdds | None) -> str:
    """Write odds as text."""
    summary, tables = _tables(found, old)
    parts = [text_of(tables)]
    if summary:
        parts.insert(0, f"{summary}\n")
    parts += [fill(remark, WIDTH) for remark in remarks_of(found)]
    return "\n".join([*parts, ASSUMED])


def _picture(found: AnyOdds, old: AnyOdds | None) -> str:
    """Write odds as one SVG, with the pictures below each other."""
    y = 0.0
    widest = 0.0
    parts = []
    for w, h, svg in pictures_of(found, old):
        parts.append(f'<g transform="translate(0 {number(y)})">{svg}</g>')
        y += h
        widest = max(widest, w)
    return document(widest, y, TITLE, parts)


def _page(found: AnyOdds, old: AnyOdds | None) -> str:
    """Write odds as a page of HTML."""
    summary, tables = _tables(found, old)
    return render(
        "odds",
        title=TITLE,
        summary=summary,
        tables=tables,
        pictures=[html(svg) for *_, svg in pictures_of(found, old)],
        remarks=[*remarks_of(found), ASSUMED],
    )


FORMS: Final[Mapping[str, Callable[[AnyOdds, AnyOdds | None], str]]] = {
    "": _plain,
    ".svg": _picture,
    ".html": _page,
}
"""How odds are written, perhaps beside older ones.

The key is the end of a file's name; it is empty for a terminal.
"""
