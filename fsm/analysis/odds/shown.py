"""The odds of a policy as tables, alone or beside those of another one: plain data, text, a
picture, a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from math import inf
from textwrap import fill
from typing import Final

from attrs import frozen

from rungwise.fsm.analysis.odds.calls import QUANTILES, Odds, Spread
from rungwise.fsm.analysis.odds.odds import TurnOdds
from rungwise.fsm.analysis.odds.picture import pictures_of
from rungwise.fsm.analysis.stats import StatsRow, text_of
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page.templates import html, render
from rungwise.fsm.diagram.svg.document import document, number
from rungwise.fsm.engine.journal.digest import money_text, plain
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.values.label import label

AnyOdds = Odds | TurnOdds
TITLE: Final = "What calls will probably come to"
WIDTH: Final = 120
ROWS: Final = 12
"""Rows of the policy's table that are listed."""

ASSUMED: Final = """\
What comes of an attempt is taken to depend on its backend and position alone. A fact of a reply that the rates do not
name does not hold; text stays once it is gathered. Time, tokens and money are taken to suffice, each backend to have
one key, and nobody to cancel beyond the rates. The backends and their prices are those of the rates.
"""  # noqa: E501

DIGITS: Final = range(4, 10)
"""How many digits of two figures are shown: as few of these as tell them apart."""

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
        """Tell whether the figure changes by more than its error, and an amount by enough to be
        seen.
        """
        seen = 0.0 if self.form == "share" else SEEN * abs(self.old)
        return self.old != self.new and abs(self.new - self.old) > max(self.error, seen)

    @property
    def texts(self) -> tuple[str, str, str]:
        """Return the old figure, the new one, and the change, with as many digits as tell them
        apart.
        """
        pairs = [
            (_text(self.form, self.old, digits), _text(self.form, self.new, digits))
            for digits in DIGITS
        ]
        old, new = next((pair for pair in pairs if self.is_change and pair[0] != pair[1]), pairs[0])
        if not self.is_change:
            return old, new, "="
        if self.form == "share":
            return old, new, f"{100 * (self.new - self.old):+.2g} points"
        factor = self.new / self.old if self.old else inf
        times = "more" if factor == inf else f"x {factor:.3g}"
        return old, new, f"{100 * (factor - 1):+.2g} %" if 0.5 < factor < 2 else times


def _text(form: str, value: float | None, digits: int = DIGITS[0]) -> str:
    if form == "share":
        return f"{100 * (value or 0):.{digits - 2}f} %"
    if value is None or value == inf:
        return "more"
    return money_text(value) if form == "money" else f"{value:.{digits}g}"


@frozen
class Comparison:
    """Hold every figure of two policies side by side, and a line that sums them up."""

    summary: str
    figures: tuple[Figure, ...]

    @property
    def tables(self) -> list[list[StatsRow]]:
        """Return a table for each group of figures; its first row holds its title and its
        headings.
        """
        tables: dict[str, list[StatsRow]] = {}
        for each in self.figures:
            rows = tables.setdefault(each.of, [(each.of, ("before", "now", "change"), ())])
            rows.append((label(each.name), each.texts, ()))
        return [*tables.values()]


def compare(old: AnyOdds, new: AnyOdds) -> Comparison:
    """Put the odds of two policies against the same rates side by side."""
    before = dict(_figures(old))
    after = dict(_figures(new))
    figures = []
    nothing = ("share", 0.0, old.left_out + new.left_out)
    for key in {**before, **after}:
        (form, was, error), (_, now, error_now) = before.get(key, nothing), after.get(key, nothing)
        figures.append(Figure(*key, form, was, now, max(error, error_now)))
    changed = {(each.of, each.name): each.texts for each in figures if each.is_change}
    parts = []
    well = "done" if isinstance(new, Odds) else "finished"
    for key, word, unit in ((("outcome", well), well, " %"), (("seconds", "P99"), "P99", " s")):
        if key in changed:
            was_text, now_text, _ = changed[key]
            parts.append(
                f"{word} {was_text.removesuffix(unit)} -> {now_text.removesuffix(unit)}{unit}"
            )
    key, word = (("money", "mean"), "cost") if new.money else (("on average", "tokens"), "tokens")
    if key in changed:
        parts.append(f"{word} {changed[key][2]}")
    some = f"other figures change, but not {well}, P99 and {word}" if changed else "no change"
    return Comparison(", ".join(parts) or some, tuple(figures))


def _figures(found: AnyOdds) -> Iterator[tuple[tuple[str, str], tuple[str, float, float]]]:
    """Yield each figure by its table and its name: its form, itself, and its error."""
    for name, share in _outcomes(found):
        yield ("outcome", plain(name)), ("share", share, found.left_out)
    for name, form, spread in _amounts(found):
        of, mean = (name, "mean") if spread.quantiles else ("on average", name)
        yield (of, mean), (form, spread.mean, 0.0)
        for quantile, value in spread.quantiles.items():
            yield (of, quantile.upper()), (form, inf if value is None else value, spread.error)
    for of, shares in (
        ("backends reached", getattr(found, "reached", {})),
        ("over the budget of", _over(found)),
    ):
        for name, share in shares.items():
            yield (of, name), ("share", share, found.left_out)


def _outcomes(found: AnyOdds) -> list[tuple[str, float]]:
    return [(name, share) for name, share in found.outcomes.items() if share]


def _amounts(found: AnyOdds) -> Iterator[tuple[str, str, Spread]]:
    """Yield each amount with its name and its form; of one that is known on average only there are
    no quantiles.
    """
    for name in ("calls", "rounds", "attempts", "seconds", "money"):
        spread = getattr(found, name, None)
        if spread is not None:
            yield (
                "rounds of tools" if name == "rounds" else name,
                "money" if name == "money" else "number",
                spread,
            )
    yield "tokens", "number", Spread(found.tokens, {})
    if isinstance(found, Odds):
        yield "waited seconds", "number", Spread(found.waited, {})


def _over(found: AnyOdds) -> dict[str, float]:
    shares = {
        name: getattr(found, f"over_{name}", None) for name in ("attempts", "seconds", "money")
    }
    return {name: share for name, share in shares.items() if share is not None}


def tables_of(found: AnyOdds) -> list[list[StatsRow]]:
    """Return the tables of the odds; the first row of each holds its title and its headings."""
    what, table = ("a call", CALL) if isinstance(found, Odds) else ("a turn", TURN)
    outcomes: list[StatsRow] = [("outcome", ["probability"], ())]
    for name, share in _outcomes(found):
        outcomes.append((plain(name), [_percent(share)], [(share, table.kind_of_end(name))]))
    amounts: list[StatsRow] = [(what, ["mean", *(name.upper() for name in QUANTILES), "±"], ())]
    for name, form, spread in _amounts(found):
        values = [_text(form, each) for each in (spread.mean, *spread.quantiles.values())]
        error = _text(form, spread.error) if spread.error else "exact"
        amounts.append(
            (
                name,
                [*values, error] if spread.quantiles else [*values, *[""] * (len(QUANTILES) + 1)],
                (),
            )
        )
    if isinstance(found, TurnOdds):
        return [outcomes, amounts]
    reached: list[StatsRow] = [("backends reached", ["calls"], ())]
    reached += [
        (label(name), [_percent(share)], [(share, "rung")]) for name, share in found.reached.items()
    ]
    taken = [*found.rows.items()][:ROWS]
    in_all = sum(found.rows.values())
    rows: list[StatsRow] = [("rows taken", ["per call", "share"], ())]
    rows += [(label(name), [f"{times:.3g}", f"{times / in_all:.2%}"], ()) for name, times in taken]
    return [outcomes, reached, amounts, rows]


def _percent(share: float) -> str:
    digits = f"{share:.6g}" if share > 0.5 else f"{share:.3g}"
    return f"{(Decimal(digits) * 100).normalize():f} %"


def remarks_of(found: AnyOdds) -> Iterator[str]:
    """Yield what else there is to say of the odds, a line each."""
    for name, over in _over(found).items():
        what = "calls" if isinstance(found, Odds) else "turns"
        yield f"{_percent(over)} of the {what} would exceed the budget of {name}."
    yield f"{found.configurations} configurations were followed; {found.left_out:.1g} is left out."
    yield from (f"{each}." for each in getattr(found, "dependence", ()))


def _tables(found: AnyOdds, old: AnyOdds | None) -> tuple[str, list[list[StatsRow]]]:
    """Return the line that sums up a comparison, if there is one, and the tables."""
    comparison = None if old is None else compare(old, found)
    return (comparison.summary, comparison.tables) if comparison else ("", tables_of(found))


def _plain(found: AnyOdds, old: AnyOdds | None) -> str:
    summary, tables = _tables(found, old)
    remarks = [fill(remark, WIDTH) for remark in remarks_of(found)]
    return "\n".join([*([f"{summary}\n"] if summary else []), text_of(tables), *remarks, ASSUMED])


def _picture(found: AnyOdds, old: AnyOdds | None) -> str:
    y = 0.0
    widest = 0.0
    parts = []
    for w, h, svg in pictures_of(found, old):
        parts.append(f'<g transform="translate(0 {number(y)})">{svg}</g>')
        y = y + h
        widest = max(widest, w)
    return document(widest, y, TITLE, parts)


def _page(found: AnyOdds, old: AnyOdds | None) -> str:
    summary, tables = _tables(found, old)
    shown = {"tables": tables, "pictures": [html(svg) for *_, svg in pictures_of(found, old)]}
    return render(
        "odds", title=TITLE, summary=summary, **shown, remarks=[*remarks_of(found), ASSUMED]
    )


FORMS: Final[Mapping[str, Callable[[AnyOdds, AnyOdds | None], str]]] = {
    "": _plain,
    ".svg": _picture,
    ".html": _page,
}
"""How odds are written, perhaps beside older ones: to a terminal, and to a file by the end of its
name.
"""
