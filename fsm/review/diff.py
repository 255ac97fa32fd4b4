"""What a change of policy does, for review: fields, rows, events, and the worst cases before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
from attrs import field, frozen

from rungwise.fsm.call.conversation.link import Link, PlainLink, Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.shown.settings import off_rows, settings_of, table_of
from rungwise.fsm.certificate.troubles import TroubleChange, trouble_changes
from rungwise.fsm.certificate.verified import WorstCase
from rungwise.fsm.certificate.verify import calls_of, verify, worst_by_fallbacks
from rungwise.fsm.checker.counterexample import Property
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.merge import change_of
from rungwise.fsm.diagram.model import Picture
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.machine.table import Row, Table
from rungwise.fsm.replay.what_if import WhatIf
from rungwise.fsm.review.events import EventChange, events_of
from rungwise.fsm.review.markdown import as_markdown
from rungwise.fsm.review.page import as_page
from rungwise.fsm.review.rows import RowGroup, grouped, redeclared
from rungwise.fsm.review.setting import Setting
from rungwise.fsm.review.text import as_text
from rungwise.fsm.review.words import WaitChange, waits_of
from rungwise.fsm.turn.policy import TurnPolicy

CHAINS = (1, 2, 3)
"""The numbers of backends for which the worst cases are told where nothing else is asked for."""

SPOKEN_OF = 2
"""The number of backends that the first sentence is about, where it is among them."""


Certificates = Mapping[int, Certificate]
"""The certificates of a policy, by how many backends they are for."""

Play = Callable[[Policy, Policy], tuple[TroubleChange, ...]]
"""Plays what goes wrong under two policies."""


@frozen
class FieldChange:
    """Hold one field of the policy that changes; a reason that is only in one `switch_after` is None in the other."""

    name: str
    old: Any
    new: Any


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
        """Return how many times the old worst case the new one is; None where either is unknown or the old one is 0."""
        old, new = self.old.value, self.new.value
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
class PropertyChange:
    """Hold one property that was looked at, with its verdict before and now; None where it was not looked at."""

    old: Property | None
    new: Property | None

    @property
    def name(self) -> str:
        """Name the property."""
        found = self.new or self.old
        assert found is not None
        return found.name

    @property
    def is_change(self) -> bool:
        """Tell whether the verdict changes."""
        return self.old is None or self.new is None or self.old.verdict != self.new.verdict


@frozen(kw_only=True)
class PolicyDiff:
    """Hold what a change of policy does.

    Arguments:
        fields: the fields that differ.
        appear, vanish: the rows that only the new table has, and those that only the old one had.
        reordered: the events whose rows are tried in another order, each with its state.
        die, revive: the rows of both tables that can no longer be taken, and those that can be again, each with the
            reason: a limit of 0, or another field of the policy.
        fall, come_back: the same rows, those with one cause together.
        redeclared: what stands in both tables and means something else now, in words.
        chains: the worst cases, by how many backends there are.
        backends: the number of them that is spoken of first.
        events: what each event leads to before and now.
        troubles: what calls do about each thing that goes wrong, before and now.
        waits: the series of waits that differ.
        properties: what was proved, before and now.
        kept: what the last of so many backends has at least, before and now; None where nothing is kept for it.
        picture: both machines as one picture.
        table: the name of the machine, `call` or `turn`.
        policies: the policies themselves.
        calls: for a turn, what changes for its calls.
        journals: what past calls or turns would have done.
        setting: what the comparison was asked for.
    """

    fields: tuple[FieldChange, ...]
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
    waits: tuple[WaitChange, ...]
    properties: tuple[PropertyChange, ...] = field(repr=False)
    kept: tuple[Mapping[str, float] | None, Mapping[str, float] | None] = field(hash=False)
    picture: Picture = field(repr=False)
    table: str
    policies: tuple[Policy | TurnPolicy, Policy | TurnPolicy] = field(repr=False)
    troubles: tuple[TroubleChange, ...] = field(default=(), repr=False)
    calls: PolicyDiff | None = None
    journals: tuple[WhatIf, ...] = ()
    setting: Setting = field(factory=Setting)

    @property
    def worst(self) -> tuple[WorstChange, ...]:
        """Return the worst cases for the number of backends that is spoken of first."""
        return self.chains[self.backends]

    @property
    def is_empty(self) -> bool:
        """Tell whether the two policies are the same."""
        return not self.fields and not self.is_effective

    @property
    def is_effective(self) -> bool:
        """Tell whether anything changes but words: rows, limits, waits, what is counted, or a worst case."""
        rows = (self.appear, self.vanish, self.reordered, self.die, self.revive, self.redeclared)
        worst = any(each.is_change for chain in self.chains.values() for each in chain)
        fields = any("hints." not in each.name for each in self.fields)
        return fields or worst or any(rows) or (self.calls is not None and not self.calls.is_empty)

    def to_text(self) -> str:
        """Write the difference for a terminal."""
        return as_text(self)

    def to_markdown(self) -> str:
        """Write the difference as Markdown that fits a comment on a pull request."""
        return as_markdown(self)

    def to_html(self) -> str:
        """Write the difference as one page that loads nothing."""
        return as_page(self)


def diff_policies(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    backends: int | Sequence[Link] | None = None,
    *,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
    prices: Prices | None = None,
    journals: Iterable[WhatIf] = (),
    names: tuple[str, str] | None = None,
) -> PolicyDiff:
    """Compare two policies, with their tables and their worst cases; those of turns with those of their calls.

    Arguments:
        old, new: both of calls, or both of turns.
        backends: the chain, or how many backends it has; None compares the worst cases for one, two and three.
        max_tokens: the output cap that the caller will give; without it the output of a call is unbounded.
        input_tokens: the tokens of the prompt, which the worst case in money needs.
        prices: of every backend, where they are told by their number.
        journals: what past calls would have done, as `what_if` finds it.
        names: what the policies are called, for the reader.

    Raises:
        ConfigurationError: no backend is usable, a counter of a table has no limit, one policy is of a call and the
            other of a turn, or one cannot be proved.
    """
    if isinstance(old, TurnPolicy) != isinstance(new, TurnPolicy):
        kinds = f"the old is a {type(old).__name__}, the new a {type(new).__name__}"
        raise ConfigurationError(f"a call's policy and a turn's cannot be compared: {kinds}")
    asked: Mapping[str, Any] = {"max_tokens": max_tokens, "input_tokens": input_tokens}
    before = _certified("old", old, backends, prices, asked)
    after = before if old == new else _certified("new", new, backends, prices, asked)
    number = SPOKEN_OF if backends is None else next(iter(after))
    play = partial(trouble_changes, chains=sorted({1, number}), prices=prices, **asked)
    found = _side_by_side(old, new, before, after, number, play)
    setting = Setting(names, max_tokens, input_tokens, prices)
    return attrs.evolve(found, journals=tuple(journals), setting=setting)


def _certified(
    name: str,
    policy: Policy | TurnPolicy,
    backends: int | Sequence[Link] | None,
    prices: Prices | None,
    asked: Mapping[str, Any],
) -> Certificates:
    """Return the certificate of a policy for each chain; what is proved of calls is proved for any chain, once."""
    chain = _links(SPOKEN_OF if backends is None else backends, prices)
    certificate = verify(policy, chain, **asked)
    found = certificate.properties + (certificate.call.properties if certificate.call is not None else ())
    failed = [each.name for each in found if not each.holds and each.is_required]
    if failed:
        raise ConfigurationError(f"the {name} policy cannot be proved, so nothing of it can be compared: {failed[0]}")
    if backends is not None:
        return {len(certificate.chain): certificate}
    if isinstance(policy, TurnPolicy):
        others = {count: verify(policy, _links(count, prices), **asked) for count in CHAINS if count != SPOKEN_OF}
    else:
        worst = worst_by_fallbacks(policy, max(CHAINS) - 1, prices=prices, **asked)
        others = {count: attrs.evolve(certificate, worst=worst[count - 1]) for count in CHAINS}
    return {count: others.get(count, certificate) for count in CHAINS}


def _links(chain: int | Sequence[Link], prices: Prices | None) -> int | Sequence[Link]:
    if prices is None or not isinstance(chain, int):
        return chain
    return [PlainLink(f"backend {place}", prices=prices) for place in range(1, chain + 1)]


def _side_by_side(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    before: Certificates,
    after: Certificates,
    backends: int,
    play: Play,
) -> PolicyDiff:
    calls = None
    if isinstance(old, TurnPolicy) and isinstance(new, TurnPolicy):
        was, now = (
            {count: each.call for count, each in side.items() if each.call is not None} for side in (before, after)
        )
        calls = _side_by_side(calls_of(old), calls_of(new), was, now, backends, play)
        plain = [_plain(policy.of_calls) for policy in (old, new)]
        calls = attrs.evolve(calls, fields=tuple(_changes("", *plain)))
    found = _compared(old, new, before, after, backends, calls)
    if isinstance(old, Policy) and isinstance(new, Policy):
        return attrs.evolve(found, troubles=play(old, new))
    return found


def _compared(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    before: Certificates,
    after: Certificates,
    backends: int,
    calls: PolicyDiff | None,
) -> PolicyDiff:
    tables = table_of(old), table_of(new)
    off, now_off = off_rows(old), off_rows(new)
    shared = [row for row in tables[0].rows if row in tables[1].rows]
    die = {row: now_off[row] for row in shared if row in now_off and row not in off}
    revive = {row: off[row] for row in shared if row in off and row not in now_off}
    pictures = [picture_of(table_of(policy), settings=settings_of(policy)) for policy in (old, new)]
    is_call = isinstance(old, Policy) and isinstance(new, Policy)
    return PolicyDiff(
        fields=tuple(_changes("", _plain(old), _plain(new))),
        appear=tuple(row for row in tables[1].rows if row not in shared),
        vanish=tuple(row for row in tables[0].rows if row not in shared),
        reordered=tuple(_reordered(*tables)),
        die=die,
        revive=revive,
        fall=grouped(die, now_off),
        come_back=grouped(revive, off),
        redeclared=tuple(redeclared(*tables)),
        chains={
            count: tuple(WorstChange(*pair) for pair in zip(before[count].worst, after[count].worst, strict=False))
            for count in after
        },
        backends=backends,
        events=events_of(old, new),
        waits=tuple(waits_of(old, new)) if isinstance(old, Policy) and isinstance(new, Policy) else (),
        properties=tuple(_properties(before[backends], after[backends])),
        kept=(before[backends].kept, after[backends].kept) if is_call else (None, None),
        picture=change_of(*pictures),
        table=after[backends].table,
        policies=(old, new),
        calls=calls,
    )


def _properties(before: Certificate, after: Certificate) -> Iterator[PropertyChange]:
    was, now = ({each.name: each for each in side.properties} for side in (before, after))
    for name in dict.fromkeys((*was, *now)):
        yield PropertyChange(was.get(name), now.get(name))


def _plain(policy: Policy | TurnPolicy) -> dict[str, Any]:
    if isinstance(policy, TurnPolicy):
        return attrs.asdict(policy, filter=attrs.filters.exclude("call"))
    return attrs.asdict(policy, filter=attrs.filters.exclude("table")) | {"switch_after": dict(policy.switch_after)}


def _changes(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldChange]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _changes(f"{prefix}{name}.", before, after)
        elif before != after:
            yield FieldChange(f"{prefix}{name}", before, after)


def _reordered(old: Table, new: Table) -> Iterator[tuple[str, str]]:
    """List the events whose shared rows stand in another order."""
    for event, source in dict.fromkeys((row.event, row.source) for row in old.rows):
        before, after = old.ladder(event, source), new.ladder(event, source)
        if [row for row in before if row in after] != [row for row in after if row in before]:
            yield event, source
