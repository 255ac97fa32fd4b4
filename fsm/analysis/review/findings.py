"""What a change of policy does, as data.

Each kind of finding is a class, and `Findings` holds them all. Nothing here is written for a
reader; `summary.py`, `markdown.py` and `page.py` do that.
"""

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from rungwise.fsm.analysis.certificate.certificate import WorstCase
from rungwise.fsm.analysis.certificate.courses import TroubleChange
from rungwise.fsm.analysis.odds.shown import Comparison
from rungwise.fsm.analysis.replay.what_if import WhatIf
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.diagram.model import Kind, Picture
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.turn.policy import TurnPolicy

AnyPolicy = Policy | TurnPolicy
Kept = Mapping[str, float] | None
"""What a budget reserves for the last backend, by the name of what is spent; None for nothing."""


@frozen
class Change:
    """Hold one named thing before and now.

    It is a field of the policy, the waits of a rung, or the verdict on a property.
    """

    name: str
    old: Any
    new: Any

    @property
    def is_change(self) -> bool:
        """Tell whether it differs."""
        return bool(self.old != self.new)


@frozen
class WorstChange:
    """Hold the worst case of one thing that is spent, before and after."""

    old: WorstCase
    new: WorstCase

    @property
    def name(self) -> str:
        """Name what is spent."""
        return self.new.name

    @property
    def factor(self) -> float | None:
        """Return the new worst case divided by the old one.

        It is None if either is unknown, or if the old one is 0.
        """
        old = self.old.value
        new = self.new.value
        if old is None or new is None or old == 0:
            return None
        return new / old

    @property
    def is_known(self) -> bool:
        """Tell whether either figure is known."""
        return self.old.value is not None or self.new.value is not None

    @property
    def is_change(self) -> bool:
        """Tell whether the figure changes, or what ends the worst path."""
        is_other_figure = self.old.value != self.new.value
        return is_other_figure or self.old.ended_by != self.new.ended_by

    @property
    def is_dearer(self) -> bool:
        """Tell whether the figure is higher now, or no longer bounded."""
        old = self.old.value
        new = self.new.value
        return old is not None and (new is None or new > old)


@frozen
class RowGroup:
    """Hold the rows that one cause turns off, or on again.

    Arguments:
        reason: the cause.
        rows: the rows that it turns off itself.
        behind: the rows of states that nothing else leads to.
    """

    reason: str
    rows: tuple[Row, ...]
    behind: tuple[Row, ...] = ()

    @property
    def count(self) -> int:
        """Count all of them."""
        return len(self.rows) + len(self.behind)


@frozen
class Rank:
    """Hold one line of a ladder.

    Arguments:
        guard: its guard.
        says: what must hold, in words.
        target: where it leads.
        kind: the kind of that state.
        detail: the limit and waits of a rung.
        off: why it can never be taken; None if it can be.
    """

    guard: str
    says: str
    target: str
    kind: Kind
    detail: str
    off: str | None

    def __str__(self) -> str:
        return " ".join(filter(None, (f"[{self.guard}]", self.target, self.detail)))


@frozen
class Ladder:
    """Hold what one event leads to under one policy.

    Arguments:
        ranks: the lines, in order.
        remarks: other numbers of the policy that matter, in words.
        where: the states in which the event occurs; empty for the hub and for every state.
    """

    ranks: tuple[Rank, ...]
    remarks: tuple[str, ...]
    where: str

    @property
    def taken(self) -> tuple[Rank, ...]:
        """List the lines that can be taken."""
        return tuple(rank for rank in self.ranks if rank.off is None)


@frozen
class EventChange:
    """Hold one event with its ladders before and now.

    Arguments:
        event: the event.
        says: what it means.
        causes: what causes it, in terms of HTTP.
        old, new: its ladders; None if a table has none.
    """

    event: str
    says: str
    causes: str
    old: Ladder | None
    new: Ladder | None

    @property
    def where(self) -> str:
        """Name the states in which it occurs; empty for the hub and for every state."""
        ladder = self.new or self.old
        return "" if ladder is None else ladder.where

    @property
    def is_change(self) -> bool:
        """Tell whether anything changes in effect."""
        if self.old is None or self.new is None:
            return True
        return self.leads_elsewhere or self.old.remarks != self.new.remarks

    @property
    def leads_elsewhere(self) -> bool:
        """Tell whether the ladder itself changes: a line, a limit, a wait or their order."""
        return self.old is None or self.new is None or self.old.taken != self.new.taken


Tone = Literal["more", "less", "same", "added", "removed", "note"]
"""The kind of a finding: a worst case that rises or falls, or an outcome that got worse; something
the same, new, gone, or other than before.
"""


@frozen
class Highlight:
    """Hold one sentence for the reviewer, with code between backticks."""

    tone: Tone
    text: str


@frozen
class Assumptions:
    """Hold what the figures of a comparison assume.

    Arguments:
        names: the names of the policies, for the reader; None if they have none.
        max_tokens: the output cap of a request; None if it is unknown.
        input_tokens: the tokens of its prompt; None if that is unknown.
        prices: of every backend, if the chain is only a number.
    """

    names: tuple[str, str] | None = None
    max_tokens: int | None = None
    input_tokens: int | None = None
    prices: Prices | None = None


@frozen(kw_only=True)
class Findings:
    """Hold what a change of policy does; `PolicyDiff` documents the fields."""

    fields: tuple[Change, ...]
    appear: tuple[Row, ...]
    vanish: tuple[Row, ...]
    reordered: tuple[tuple[str, str], ...]
    die: Mapping[Row, str] = field(hash=False)
    revive: Mapping[Row, str] = field(hash=False)
    fall: tuple[RowGroup, ...]
    come_back: tuple[RowGroup, ...]
    redeclared: tuple[str, ...]
    chains: Mapping[int, tuple[WorstChange, ...]] = field(hash=False)
    backends: int
    events: tuple[EventChange, ...] = field(repr=False)
    waits: tuple[Change, ...]
    properties: tuple[Change, ...] = field(repr=False)
    kept: tuple[Kept, Kept] = field(hash=False)
    picture: Picture = field(repr=False)
    table: str
    policies: tuple[AnyPolicy, AnyPolicy] = field(repr=False)
    troubles: tuple[TroubleChange, ...] = field(default=(), repr=False)
    calls: "Findings | None" = None
    journals: tuple[WhatIf, ...] = ()
    setting: Assumptions = field(factory=Assumptions)
    odds: Comparison | None = None

    @property
    def worst(self) -> tuple[WorstChange, ...]:
        """Return the worst cases for the number of backends in the headline."""
        return self.chains[self.backends]

    @property
    def worse(self) -> tuple[TroubleChange, ...]:
        """Return the troubles that end worse now, for a turn those of its calls."""
        troubles = self.troubles if self.calls is None else self.calls.troubles
        return tuple(each for each in troubles if each.is_worse)

    @property
    def is_empty(self) -> bool:
        """Tell whether the two policies are the same."""
        return not self.fields and not self.is_effective

    @property
    def is_effective(self) -> bool:
        """Tell whether anything but wording changes.

        That is a row, a limit, a wait, a counter or a worst case, also of the calls of a turn.
        """
        rows = (self.appear, self.vanish, self.reordered, self.die, self.revive, self.redeclared)
        if any(rows):
            return True
        if any("hints." not in each.name for each in self.fields):
            return True
        if any(each.is_change for chain in self.chains.values() for each in chain):
            return True
        return self.calls is not None and not self.calls.is_empty
