"""Compare two policies before a change is merged.

The comparison finds what differs in fields, rows, events, waits and worst cases, and what past
calls would have done. `findings.py` holds what it finds; `markdown.py` and `page.py` write it.

Theory. Both policies are proved first: a bound means something only if the machine keeps it. The
worst cases come from the certificates, and both belong to the same chain and the same request, so
their quotient shows the change of policy alone.

A limit of 0 turns off the rows to its rung, and then every row that leaves that rung, and so on. A
reviewer wants the one cause and not twenty rows. So each row that is off is followed back, along
rows that are off themselves, to a reason that is not "nothing leads to it", and the rows are
grouped by that reason (`grouped`). This visits each state once at most for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.analysis.certificate.courses import trouble_changes
from rungwise.fsm.analysis.certificate.enactment import links_of
from rungwise.fsm.analysis.certificate.shown.settings import (
    fields_of,
    off_rows,
    settings_of,
    table_of,
)
from rungwise.fsm.analysis.certificate.verify import calls_of, verify, worst_by_fallbacks
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.analysis.odds.shown import compare
from rungwise.fsm.analysis.replay.what_if import WhatIf
from rungwise.fsm.analysis.review import markdown, page
from rungwise.fsm.analysis.review.findings import (
    Assumptions,
    Change,
    Findings,
    RowGroup,
    WorstChange,
)
from rungwise.fsm.analysis.review.ladders import events_of, waits_of
from rungwise.fsm.analysis.review.redeclared import redeclared
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.merge import change_of
from rungwise.fsm.diagram.model import Picture
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.policy import TurnPolicy

CHAINS = (1, 2, 3)
"""The numbers of backends for which worst cases are compared by default."""

IN_HEADLINE = 2
"""The number of backends in the headline by default."""

BEHIND = "nothing leads to "
"""How the reason of a row begins that is off because its state is never entered."""

UNSEEN = "not checked"
"""The verdict on a property that a proof leaves out."""

SAME_CAUSE: Mapping[str, str] = {"no summary is asked for": "the limit of summaries is 0"}
"""Reasons that restate another one."""

Certificates = Mapping[int, Certificate]
"""The certificates of a policy, by the number of backends."""


@frozen(kw_only=True)
class PolicyDiff(Findings):
    """Hold what a change of policy does.

    Arguments:
        fields: the fields that differ; in `switch_after`, None is a reason that the policy does not
            name.
        appear, vanish: the rows that only the new table has, and those that only the old one had.
        reordered: the events whose rows are tried in another order, each with its state.
        die, revive: the rows of both tables that can no longer be taken, and those that can be now,
            each with the reason: a limit of 0, or another field of the policy.
        fall, come_back: the same rows, grouped by their cause.
        redeclared: the names in both tables that mean something else now, in words.
        chains: the worst cases, by the number of backends.
        backends: the number of backends in the headline.
        events: what each event leads to before and now.
        waits: the waits of rungs that differ, in words.
        properties: the verdict on each property, before and now.
        kept: what is reserved for the last backend before and now; None if nothing is.
        picture: both machines as one picture.
        table: the name of the machine, `call` or `turn`.
        policies: the policies themselves.
        troubles: what calls do about each trouble in each scene, before and now.
        calls: for a turn, what changes for its calls.
        journals: what past calls or turns would have done.
        setting: what the figures assume.
        odds: what calls will probably come to before and now, if there are rates.
    """

    calls: PolicyDiff | None = None

    def to_text(self) -> str:
        """Write the difference as Markdown without limits, folds and pictures, for a terminal."""
        return markdown.as_markdown(self, is_comment=False)

    def to_markdown(self) -> str:
        """Write the difference as Markdown that fits a comment on a pull request."""
        return markdown.as_markdown(self)

    def to_html(self) -> str:
        """Write the difference as one page that loads nothing."""
        return page.as_page(self)


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
    rates: Rates | None = None,
) -> PolicyDiff:
    """Compare two policies with their tables and worst cases.

    Two policies of turns are compared with those of their calls.

    Arguments:
        old, new: both of calls, or both of turns.
        backends: the chain, or its length; None compares the worst cases for one, two and three
            backends.
        max_tokens: the output cap that the caller will give; without it the output of a call is
            unbounded.
        input_tokens: the tokens of the prompt, which the worst case in money needs.
        prices: of every backend, if `backends` is not a chain.
        journals: what past calls would have done, as `what_if` finds it.
        names: the names of the policies, for the reader.
        rates: of the backends of calls. The odds take the backends and their prices from the rates
            alone.

    Raises:
        ConfigurationError: no backend is usable, a counter of a table has no limit, one policy is
            of a call and the other of a turn, or one cannot be proved.
    """
    if isinstance(old, TurnPolicy) != isinstance(new, TurnPolicy):
        kinds = f"the old is a {type(old).__name__}, the new a {type(new).__name__}"
        raise ConfigurationError(f"a call's policy and a turn's cannot be compared: {kinds}")
    request: Mapping[str, Any] = {"max_tokens": max_tokens, "input_tokens": input_tokens}
    before = _certified("old", old, backends, prices, **request)
    after = before
    if old != new:
        after = _certified("new", new, backends, prices, **request)
    count = IN_HEADLINE if backends is None else next(iter(after))
    of_calls = _calls_compared(old, new, before, after, count)
    of_calls["troubles"] = trouble_changes(
        _calls(old), _calls(new), count, prices=prices, **request
    )
    parts = of_calls
    if isinstance(old, TurnPolicy):
        parts = _compared(old, new, before, after, count)
        parts["calls"] = PolicyDiff(**of_calls)
    parts["setting"] = Assumptions(names, max_tokens, input_tokens, prices)
    if rates is not None:
        parts["odds"] = compare(odds(old, rates), odds(new, rates))
    parts["journals"] = tuple(journals)
    return PolicyDiff(**parts)


def _calls(policy: Policy | TurnPolicy) -> Policy:
    """Return the policy of the calls: of a turn, that under which its own run."""
    return policy if isinstance(policy, Policy) else calls_of(policy)


def _calls_compared(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    before: Certificates,
    after: Certificates,
    backends: int,
) -> dict[str, Any]:
    """Compare the policies of calls, or those of the calls of turns, as `_compared` does.

    Arguments:
        old, new: the policies.
        before, after: their certificates.
        backends: the number of backends in the headline.
    """
    if isinstance(old, Policy) or isinstance(new, Policy):
        return _compared(old, new, before, after, backends)
    before = _of_calls(before)
    after = _of_calls(after)
    findings = _compared(_calls(old), _calls(new), before, after, backends)
    # The certificate of the calls has no compactions, which the turn makes; the policy may well
    # have.
    findings["fields"] = tuple(_field_changes(old.of_calls, new.of_calls))
    return findings


def _of_calls(certificates: Certificates) -> Certificates:
    """Return the certificates of the calls of a turn."""
    return {count: each.call for count, each in certificates.items() if each.call}


def _certified(
    name: str,
    policy: Policy | TurnPolicy,
    backends: int | Sequence[Link] | None,
    prices: Prices | None,
    **request: Any,
) -> Certificates:
    """Prove a policy.

    The proof of a call is the same for any chain. So it is made once, and only the worst cases are
    computed again for each number of backends.

    Arguments:
        name: what a message calls the policy, `old` or `new`.
        policy: the policy.
        backends: the chain, or its length; None is each of `CHAINS`.
        prices: of every backend, if `backends` is not a chain.
        request: the tokens of the request, as `verify` takes them.

    Raises:
        ConfigurationError: the policy cannot be proved.
    """
    chain = _links(IN_HEADLINE if backends is None else backends, prices)
    certificate = verify(policy, chain, **request)
    if not certificate.ok:
        failed = list(certificate.failed)
        if certificate.call is not None:
            failed += certificate.call.failed
        raise ConfigurationError(
            f"the {name} policy cannot be proved, so it cannot be compared: {failed[0].name}"
        )
    if backends is not None:
        return {len(certificate.chain): certificate}
    certificates = {}
    if isinstance(policy, TurnPolicy):
        for count in CHAINS:
            if count == IN_HEADLINE:
                certificates[count] = certificate
            else:
                certificates[count] = verify(policy, _links(count, prices), **request)
        return certificates
    worst = worst_by_fallbacks(policy, max(CHAINS) - 1, prices=prices, **request)
    for count in CHAINS:
        certificates[count] = attrs.evolve(certificate, worst=worst[count - 1])
    return certificates


def _links(chain: int | Sequence[Link], prices: Prices | None) -> int | Sequence[Link]:
    """Return a chain with prices, if it is only a number and there are prices."""
    if prices is None or not isinstance(chain, int):
        return chain
    return links_of([prices] * chain)


def _compared(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    before: Certificates,
    after: Certificates,
    backends: int,
) -> dict[str, Any]:
    """Compare two policies of one kind; the result has the fields of a `PolicyDiff` by name.

    Arguments:
        old, new: the policies.
        before, after: their certificates.
        backends: the number of backends in the headline.
    """
    findings = _row_changes(old, new)
    findings["fields"] = tuple(_field_changes(old, new))
    findings["reordered"] = tuple(_reordered(table_of(old), table_of(new)))
    findings["redeclared"] = tuple(redeclared(table_of(old), table_of(new)))
    findings["events"] = tuple(events_of(old, new))
    findings["waits"] = ()
    if isinstance(old, Policy) and isinstance(new, Policy):
        findings["waits"] = tuple(waits_of(old, new))
    findings["picture"] = change_of(_picture(old), _picture(new))
    findings["policies"] = (old, new)
    findings["table"] = after[backends].table
    findings["backends"] = backends
    findings["kept"] = (before[backends].kept, after[backends].kept)
    findings["properties"] = tuple(_property_changes(before[backends], after[backends]))
    findings["chains"] = {
        count: tuple(map(WorstChange, before[count].worst, after[count].worst)) for count in after
    }
    return findings


def _row_changes(old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> dict[str, Any]:
    """Compare the rows of two tables, and which of them the policies turn off."""
    old_rows = table_of(old).rows
    new_rows = table_of(new).rows
    off_before = off_rows(old)
    off_now = off_rows(new)
    shared = [row for row in old_rows if row in new_rows]
    die = {row: off_now[row] for row in shared if row in off_now and row not in off_before}
    revive = {row: off_before[row] for row in shared if row in off_before and row not in off_now}
    return {
        "appear": tuple(row for row in new_rows if row not in shared),
        "vanish": tuple(row for row in old_rows if row not in shared),
        "die": die,
        "revive": revive,
        "fall": grouped(die, off_now),
        "come_back": grouped(revive, off_before),
    }


def _picture(policy: Policy | TurnPolicy) -> Picture:
    return picture_of(table_of(policy), settings=settings_of(policy))


def _property_changes(old: Certificate, new: Certificate) -> Iterator[Change]:
    """Yield the verdict on each property of either certificate, before and now."""
    before = {each.name: each.verdict for each in old.properties}
    after = {each.name: each.verdict for each in new.properties}
    for name in dict.fromkeys((*before, *after)):
        yield Change(name, before.get(name, UNSEEN), after.get(name, UNSEEN))


def _field_changes(old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> Iterator[Change]:
    """Yield the fields that differ."""
    before = fields_of(old)
    after = fields_of(new)
    for name in dict.fromkeys((*before, *after)):
        change = Change(name, before.get(name), after.get(name))
        if change.is_change:
            yield change


def _reordered(old: Table, new: Table) -> Iterator[tuple[str, str]]:
    """Yield the events whose shared rows stand in another order, each with its state."""
    for event, source in dict.fromkeys((row.event, row.source) for row in old.rows):
        before = old.ladder(event, source)
        after = new.ladder(event, source)
        shared_before = [row for row in before if row in after]
        shared_after = [row for row in after if row in before]
        if shared_before != shared_after:
            yield event, source


def grouped(off: Mapping[Row, str], all_off: Mapping[Row, str]) -> tuple[RowGroup, ...]:
    """Group rows by their cause.

    Arguments:
        off: the rows, each with the reason why it is off.
        all_off: all rows that are off under the same policy. Those that both policies turn off may
            explain why a state is never entered.
    """
    direct: dict[str, list[Row]] = {}
    behind: dict[str, list[Row]] = {}
    for row, reason in off.items():
        cause = next(_causes(row, reason, all_off, set()), reason)
        cause = SAME_CAUSE.get(cause, cause)
        is_behind = reason.startswith(BEHIND) and cause != reason
        groups = behind if is_behind else direct
        groups.setdefault(cause, []).append(row)
    row_groups = []
    for cause in dict.fromkeys((*direct, *behind)):
        own = tuple(direct.get(cause, ()))
        row_groups.append(RowGroup(cause, own, tuple(behind.get(cause, ()))))
    return tuple(row_groups)


def _causes(row: Row, reason: str, off: Mapping[Row, str], seen: set[str]) -> Iterator[str]:
    """Follow a state that is never entered back to the reasons that turn off the rows to it.

    Arguments:
        row: a row that leaves the state.
        reason: why it is off.
        off: all rows that are off, each with its reason.
        seen: the states that were followed already; it grows.
    """
    if not reason.startswith(BEHIND):
        yield reason
        return
    seen.add(row.source)
    for other, why in off.items():
        if other.target == row.source and other.source not in seen:
            yield from _causes(other, why, off, seen)
