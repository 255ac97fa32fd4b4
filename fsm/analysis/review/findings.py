"""What a change of policy does, as data: each kind of finding is a class, and `Findings` holds them
all.
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


@frozen
class Change:
    """Hold one named thing before and now: a field of the policy, the waits of a rung, or the
    verdict on a property.
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
        """Return the new worst case divided by the old one; None if either is unknown or the old
        one is 0.
        """
        old = self.old.value
        new = self.new.value
        return None if old is None or new is None or old == 0 else new / old

    @property
    def is_known(self) -> bool:
        """Tell whether either figure is known."""
        return self.old.value is not None or self.new.value is not None

    @property
    def is_change(self) -> bool:
        """Tell whether the figure changes, or what ends the worst path."""
        return (self.old.value, self.old.ended_by) != (self.new.value, self.new.ended_by)


@frozen
class RowGroup:
    """Hold the rows that one cause turns off, or on again."""

    reason: str
    rows: tuple[Row, ...]
    behind: tuple[Row, ...] = ()  # in states that nothing else leads to

    @property
    def count(self) -> int:
        """Count all of them."""
        return len(self.rows) + len(self.behind)


@frozen
class Rank:
    """Hold one line of a ladder: its guard, where it leads, and for a rung its limit and waits."""

    guard: str
    says: str  # what must hold, in words
    target: str
    kind: Kind
    detail: str
    off: str | None  # why it can never be taken

    def __str__(self) -> str:
        return " ".join(filter(None, (f"[{self.guard}]", self.target, self.detail)))


@frozen
class Ladder:
    """Hold what one event leads to under one policy: lines in order, and other numbers that
    matter.
    """

    ranks: tuple[Rank, ...]
    remarks: tuple[str, ...]
    where: str  # the states in which the event occurs, unless it is the hub or every state

    @property
    def taken(self) -> tuple[Rank, ...]:
        """List the lines that can be taken."""
        return tuple(rank for rank in self.ranks if rank.off is None)


@frozen
class EventChange:
    """Hold one event with its ladders before and now; None if the table has none."""

    event: str
    says: str
    causes: str  # in terms of HTTP
    old: Ladder | None
    new: Ladder | None

    @property
    def where(self) -> str:
        """Name the states in which it occurs, unless it is the hub or every state."""
        ladder = self.new or self.old
        return ladder.where if ladder is not None else ""

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
"""The kind of a finding: a worst case that rises or falls, or something that is the same, new, gone
or different.
"""


@frozen
class Highlight:
    """Hold one sentence for the reviewer, with code between backticks."""

    tone: Tone
    text: str


@frozen
class Assumptions:
    """Hold what the figures of a comparison assume."""

    names: tuple[str, str] | None = None  # of the policies, for the reader; None if they have none
    max_tokens: int | None = None
    input_tokens: int | None = None
    prices: Prices | None = None  # of every backend, if the chain is only a number


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
    kept: tuple[Mapping[str, float] | None, Mapping[str, float] | None] = field(hash=False)
    picture: Picture = field(repr=False)
    table: str
    policies: tuple[Policy | TurnPolicy, Policy | TurnPolicy] = field(repr=False)
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
    def is_empty(self) -> bool:
        """Tell whether the two policies are the same."""
        return not self.fields and not self.is_effective

    @property
    def is_effective(self) -> bool:
        """Tell whether anything but wording changes: rows, limits, waits, counters, or a worst
        case.
        """
        rows = (self.appear, self.vanish, self.reordered, self.die, self.revive, self.redeclared)
        worst = any(each.is_change for chain in self.chains.values() for each in chain)
        fields = any("hints." not in each.name for each in self.fields)
        return fields or worst or any(rows) or (self.calls is not None and not self.calls.is_empty)
