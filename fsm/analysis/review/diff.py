"""Compare two policies before a change is merged: fields, rows, events, waits, worst cases, and
past calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import frozen

from rungwise.fsm.analysis.certificate.certificate import Certificate, counted, duration
from rungwise.fsm.analysis.certificate.courses import trouble_changes
from rungwise.fsm.analysis.certificate.enactment import links_of
from rungwise.fsm.analysis.certificate.shown.settings import (
    fields_of,
    off_rows,
    settings_of,
    span,
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
    EventChange,
    Findings,
    Ladder,
    Rank,
    RowGroup,
    WorstChange,
)
from rungwise.fsm.analysis.review.words import reserve_text
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.clocks.waiting import BROKEN
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import SWITCH_EVENTS, Policy
from rungwise.fsm.call.run.causes import CAUSES
from rungwise.fsm.call.table import MAY_ASK
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.merge import change_of, merged
from rungwise.fsm.diagram.model import Decision, Picture
from rungwise.fsm.engine.machine.declare import Fact
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure, event_of_failure
from rungwise.fsm.turn.policy import TurnPolicy


def events_of(old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> Iterator[EventChange]:
    """Yield every event that has a ladder, with what it leads to under both policies."""
    before = _ladders(old)
    after = _ladders(new)
    causes = CAUSES if isinstance(new, Policy) else {}
    for event, number in merged(list(before), list(after)):
        table = table_of(new if event in table_of(new).events else old)
        ladders = before.get((event, number)), after.get((event, number))
        yield EventChange(event, table.says(event), causes.get(event, ""), *ladders)


def _ladders(policy: Policy | TurnPolicy) -> dict[tuple[str, int], Ladder]:
    """Return the ladders of each event, numbered if it has several in different states."""
    table = table_of(policy)
    picture = picture_of(table, settings=settings_of(policy))
    ladders: dict[tuple[str, int], Ladder] = {}
    for each in picture.decisions:
        if each.event != "sent":
            number = sum(event == each.event for event, _ in ladders)
            remarks = tuple(_remarks(policy, each.event)) if isinstance(policy, Policy) else ()
            ladders[each.event, number] = Ladder(
                tuple(_ranks(table, picture, each)), remarks, _where(table, each)
            )
    return ladders


def _where(table: Table, decision: Decision) -> str:
    if decision.sources == (table.hub,) or {*decision.sources} >= {*table.rungs}:
        return ""
    missing = [rung for rung in table.rungs if rung not in decision.sources]
    if len(missing) < len(decision.sources):
        return f"in every rung but {', '.join(missing)}"
    return f"in {', '.join(decision.sources)}"


def _ranks(table: Table, picture: Picture, decision: Decision) -> Iterator[Rank]:
    for line in decision.lines:
        node = picture.node(line.row.target)
        says = table.guard(line.row.guard).says if line.row.guard else ""
        detail = node.detail if node.kind == "rung" else ""
        yield Rank(decision.guard(line), says, node.name, node.kind, detail, line.off)


def _remarks(policy: Policy, event: str) -> Iterator[str]:
    """Describe the numbers of a policy that matter for an event, besides the limits and waits of
    its rungs.
    """
    clocks = policy.timeouts
    waits = policy.waits
    if event == "fell_silent":
        yield (
            f"after {_limit(clocks.first_token)} before the first content, "
            f"{_limit(clocks.stall)} between two pieces"
        )
    if event == "failed_transiently":
        yield (
            f"timeouts: {_limit(clocks.connect)} to connect, {_limit(clocks.total)} for a "
            f"whole attempt"
        )
    if event in MAY_ASK:
        yield f"a Retry-After of up to {duration(waits.longest_asked)} is waited for"
    if event in BROKEN:
        yield f"a retry waits as long as a reask: {span(waits.reask_base, waits.reask_cap)}"
    limits = sorted(policy.switch_after.items())
    switches = [
        f"{count} of `{reason}`"
        for reason, count in limits
        if count < LARGEST_LIMIT and _is_by(reason, event)
    ]
    if switches:
        yield f"the next backend is asked after {', '.join(switches)}"
    if event == "truncated" and policy.handful:
        yield f"an answer cut at a cap of {policy.handful} tokens or fewer is accepted"
    if event in ("truncated", "paused", "tools_truncated", "json_truncated", "reasoning_truncated"):
        yield f"raised caps start at {policy.base_cap:,} tokens and end at {policy.largest_cap:,}"
    nudges = policy.nudge_window and "nudge" in policy.table.rungs and policy.limits.get("nudges")
    if event in ("came_empty", "only_reasoned") and nudges:
        yield (
            f"a nudge needs a tool result among the last {counted(policy.nudge_window, 'message')}"
        )
    if event == "ran_out" and policy.reserve.is_on:
        yield reserve_text(policy)


def _is_by(reason: str, event: str) -> bool:
    return event in (SWITCH_EVENTS.get(reason) or (event_of_failure(Failure(reason)),))  # type: ignore[arg-type]


def _limit(seconds: float | None) -> str:
    return "no limit" if seconds is None else duration(seconds)


def waits_of(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the waits of each rung that differ, with how often it is taken."""
    before, after = (settings_of(policy).says for policy in (old, new))
    for rung in dict.fromkeys((*old.table.declared_rungs, *new.table.declared_rungs)):
        change = Change(rung.name, before.get(rung.name, "never"), after.get(rung.name, "never"))
        if rung.wait is not None and change.is_change:
            yield change


CHAINS = (1, 2, 3)
"""The numbers of backends for the worst cases by default."""

IN_HEADLINE = 2  # the number of backends in the headline by default
BEHIND = "nothing leads to "  # the reason of a row begins with this if its state is never entered
UNSEEN = "not checked"  # the verdict on a property that a proof leaves out

SAME_CAUSE: Mapping[str, str] = {"no summary is asked for": "the limit of summaries is 0"}
"""Reasons that restate another one."""

Certificates = Mapping[int, Certificate]
"""The certificates of a policy, by the number of backends."""


@frozen(kw_only=True)
class PolicyDiff(Findings):
    """Hold what a change of policy does.

    Arguments:
        fields: the fields that differ; in `switch_after`, None is a reason that the policy does not
        name. appear, vanish: the rows that only the new table has, and those that only the old one
        had. reordered: the events whose rows are tried in another order, each with its state.
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
    """Compare two policies with their tables and worst cases; two policies of turns with those of
    their calls.

    Arguments:
        old, new: both of calls, or both of turns.
        backends: the chain, or its length; None compares the worst cases for one, two and three
        backends. max_tokens: the output cap that the caller will give; without it the output of a
        call is unbounded. input_tokens: the tokens of the prompt, which the worst case in money
        needs.
        prices: of every backend, if `backends` is not a chain.
        journals: what past calls would have done, as `what_if` finds it.
        names: the names of the policies, for the reader.
        rates: of the backends of calls; from them alone the odds take the backends and their
            prices.

    Raises:
        ConfigurationError: no backend is usable, a counter of a table has no limit, one policy is
            of a call and the other of a turn, or one cannot be proved.
    """
    if isinstance(old, TurnPolicy) != isinstance(new, TurnPolicy):
        kinds = f"the old is a {type(old).__name__}, the new a {type(new).__name__}"
        raise ConfigurationError(f"a call's policy and a turn's cannot be compared: {kinds}")
    request: Mapping[str, Any] = {"max_tokens": max_tokens, "input_tokens": input_tokens}
    before = _certified("old", old, backends, prices, **request)
    after = before if old == new else _certified("new", new, backends, prices, **request)
    count = IN_HEADLINE if backends is None else next(iter(after))
    if isinstance(old, TurnPolicy) and isinstance(new, TurnPolicy):
        calls = calls_of(old), calls_of(new)
        was, now = (
            {size: each.call for size, each in side.items() if each.call}
            for side in (before, after)
        )
        of_calls = _compared(*calls, was, now, count)
        # The certificate of the calls has no compactions, which the turn makes; the policy may well
        # have.
        of_calls["fields"] = tuple(_field_changes(old.of_calls, new.of_calls))
    else:
        assert isinstance(old, Policy)
        assert isinstance(new, Policy)
        calls = old, new
        of_calls = _compared(old, new, before, after, count)
    of_calls["troubles"] = trouble_changes(*calls, count, prices=prices, **request)
    parts = of_calls
    if isinstance(old, TurnPolicy):
        parts = _compared(old, new, before, after, count) | {"calls": PolicyDiff(**of_calls)}
    setting = Assumptions(names, max_tokens, input_tokens, prices)
    probably = None if rates is None else compare(odds(old, rates), odds(new, rates))
    return PolicyDiff(**parts, journals=tuple(journals), setting=setting, odds=probably)


def _certified(
    name: str,
    policy: Policy | TurnPolicy,
    backends: int | Sequence[Link] | None,
    prices: Prices | None,
    **request: Any,
) -> Certificates:
    """Return the certificates of a policy; the proof of a call is the same for any chain, and made
    once.
    """
    certificate = verify(
        policy, _links(IN_HEADLINE if backends is None else backends, prices), **request
    )
    if not certificate.ok:
        failed = [
            *certificate.failed,
            *(certificate.call.failed if certificate.call is not None else ()),
        ]
        raise ConfigurationError(
            f"the {name} policy cannot be proved, so it cannot be compared: {failed[0].name}"
        )
    if backends is not None:
        return {len(certificate.chain): certificate}
    if isinstance(policy, TurnPolicy):
        others = {
            count: verify(policy, _links(count, prices), **request)
            for count in CHAINS
            if count != IN_HEADLINE
        }
        return {count: others.get(count, certificate) for count in CHAINS}
    worst = worst_by_fallbacks(policy, max(CHAINS) - 1, prices=prices, **request)
    return {count: attrs.evolve(certificate, worst=worst[count - 1]) for count in CHAINS}


def _links(chain: int | Sequence[Link], prices: Prices | None) -> int | Sequence[Link]:
    return chain if prices is None or not isinstance(chain, int) else links_of([prices] * chain)


def _compared(
    old: Policy | TurnPolicy,
    new: Policy | TurnPolicy,
    before: Certificates,
    after: Certificates,
    backends: int,
) -> dict[str, Any]:
    tables = table_of(old), table_of(new)
    off = off_rows(old)
    now_off = off_rows(new)
    shared = [row for row in tables[0].rows if row in tables[1].rows]
    die = {row: now_off[row] for row in shared if row in now_off and row not in off}
    revive = {row: off[row] for row in shared if row in off and row not in now_off}
    was, now = (
        {each.name: each.verdict for each in side[backends].properties} for side in (before, after)
    )
    return {
        "fields": tuple(_field_changes(old, new)),
        "appear": tuple(row for row in tables[1].rows if row not in shared),
        "vanish": tuple(row for row in tables[0].rows if row not in shared),
        "reordered": tuple(_reordered(*tables)),
        "die": die,
        "revive": revive,
        "fall": grouped(die, now_off),
        "come_back": grouped(revive, off),
        "redeclared": tuple(redeclared(*tables)),
        "chains": {
            count: tuple(map(WorstChange, before[count].worst, after[count].worst))
            for count in after
        },
        "backends": backends,
        "events": tuple(events_of(old, new)),
        "waits": tuple(waits_of(old, new))
        if isinstance(old, Policy) and isinstance(new, Policy)
        else (),
        "properties": tuple(
            Change(name, was.get(name, UNSEEN), now.get(name, UNSEEN)) for name in {**was, **now}
        ),
        "kept": (before[backends].kept, after[backends].kept),
        "picture": change_of(
            *(picture_of(table_of(each), settings=settings_of(each)) for each in (old, new))
        ),
        "table": after[backends].table,
        "policies": (old, new),
    }


def _field_changes(old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> Iterator[Change]:
    before = fields_of(old)
    after = fields_of(new)
    changes = (
        Change(name, before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after))
    )
    return (each for each in changes if each.is_change)


def _reordered(old: Table, new: Table) -> Iterator[tuple[str, str]]:
    """List the events whose shared rows stand in another order."""
    for event, source in dict.fromkeys((row.event, row.source) for row in old.rows):
        before = old.ladder(event, source)
        after = new.ladder(event, source)
        if [row for row in before if row in after] != [row for row in after if row in before]:
            yield event, source


def grouped(off: Mapping[Row, str], all_off: Mapping[Row, str]) -> tuple[RowGroup, ...]:
    """Group rows by their cause; those that both policies turn off may explain why a state is never
    entered.
    """
    direct: dict[str, list[Row]] = {}
    behind: dict[str, list[Row]] = {}
    for row, reason in off.items():
        cause = next(_causes(row, reason, all_off, set()), reason)
        cause = SAME_CAUSE.get(cause, cause)
        (behind if reason.startswith(BEHIND) and cause != reason else direct).setdefault(
            cause, []
        ).append(row)
    return tuple(
        RowGroup(reason, tuple(direct.get(reason, ())), tuple(behind.get(reason, ())))
        for reason in dict.fromkeys((*direct, *behind))
    )


def _causes(row: Row, reason: str, off: Mapping[Row, str], seen: set[str]) -> Iterator[str]:
    """Follow a state that is never entered back to the reasons that turn off the rows to it."""
    if not reason.startswith(BEHIND):
        yield reason
        return
    seen.add(row.source)
    for other, why in off.items():
        if other.target == row.source and other.source not in seen:
            yield from _causes(other, why, off, seen)


def redeclared(old: Table, new: Table) -> Iterator[str]:
    """Describe the names of both tables that mean something else now: facts, guards, effects, and
    rungs.
    """
    facts = {fact.name: fact for fact in old.facts}
    for fact in new.facts:
        if fact.name in facts:
            yield from _fact_changes(facts[fact.name], fact)
    guards = {row.guard for row in old.rows}
    effects = {row.effect for row in old.rows}
    for name in dict.fromkeys(row.guard for row in new.rows if row.guard in guards):
        if name and _needs(old, name) != _needs(new, name):
            yield f"the guard `{name}` needs {_needs(new, name)}; before, {_needs(old, name)}"
    for name in dict.fromkeys(row.effect for row in new.rows if row.effect in effects):
        if name and _counts(old, name) != _counts(new, name):
            yield f"the effect `{name}` {_counts(new, name)}; before, it {_counts(old, name)}"
    for name in new.rungs:
        for what in ("wait", "change"):
            before = old.rung(name)
            after = new.rung(name)
            if before and after and getattr(before, what) != getattr(after, what):
                yield f"the rung `{name}` has another {what}"


def _fact_changes(old: Fact, new: Fact) -> Iterator[str]:
    if old.of != new.of:
        yield f"another function decides the fact `{new.name}`"
    if (old.any_holds, old.any_lacks) != (new.any_holds, new.any_lacks):
        yield f"the fact `{new.name}` follows from {_follows(new)}; before, {_follows(old)}"
    if old.lasts != new.lasts:
        yield f"the fact `{new.name}` holds {_lasts(new)}; before, {_lasts(old)}"


def _follows(fact: Fact) -> str:
    return ", ".join([*fact.any_holds, *(f"not {each}" for each in fact.any_lacks)]) or "nothing"


def _lasts(fact: Fact) -> str:
    return f"while {fact.lasts} has a unit left" if fact.lasts else "for one reply"


def _needs(table: Table, name: str) -> str:
    guard = table.guard(name)
    counter = [f"a unit of {guard.counter}"] if guard.counter else []
    return (
        ", ".join([*counter, *guard.holds, *(f"not {each}" for each in guard.lacks)]) or "nothing"
    )


def _counts(table: Table, name: str) -> str:
    effect = table.effect(name)
    refills = f" and refills {', '.join(effect.refills)}" if effect.refills else ""
    when = f" on {effect.refills_on}" if effect.refills and effect.refills_on else ""
    return f"takes a unit of {effect.spends}{refills}{when}" if effect.spends else "counts nothing"
