"""What a reviewer reads first: the headline in one sentence, a finding for each thing that matters,
and past calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from rungwise.fsm.analysis.certificate.certificate import (
    amount,
    backends_text,
    counted,
    duration,
    number_text,
)
from rungwise.fsm.analysis.certificate.courses import PROMPT
from rungwise.fsm.analysis.certificate.shown.settings import limits_of, table_of, value_text
from rungwise.fsm.analysis.replay.what_if import WhatIf
from rungwise.fsm.analysis.review import words
from rungwise.fsm.analysis.review.findings import (
    Assumptions,
    Change,
    Findings,
    Highlight,
    Tone,
    WorstChange,
)
from rungwise.fsm.call.clocks.waiting import longest_wait
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.turn.policy import TurnPolicy

PROBABLY = (
    "Computed from rates, with the backends and prices of the rates. = is no change "
    "beyond the error."
)
NOTHING = "Nothing changes: the two policies are the same."
COSTS = ("money", "output tokens", "attempts")
"""What the headline calls the cost: the first of these that is known before and after."""
UNITS = {
    "money": ("cost", "as much"),
    "output tokens": ("write", "as many output tokens"),
    "attempts": ("make", "as many attempts"),
    "seconds": ("take", "as long"),
}
"""The verb for what is spent, and the unit of a factor."""

PLAYED = (
    "Each trouble is a real response, played to the real core. Waits are shown without their "
    "random part; the seconds "
    "are from start to end, with the shortest and the longest random waits. An attempt takes no "
    "time, unless it is "
    f"silent or runs into its timeout. A whole reply reports its prompt ({PROMPT} tokens if "
    f"unknown) and its words, or "
    "the whole cap if it is cut there; a stream that breaks off reports nothing."
)
FIRST = ("budget", "limits", "switch_after", "after_refusal", "waits", "timeouts", "reserve")
"""The groups of fields in order of weight; others follow."""
MOST_EVENTS = 3  # how many events the headline names
LONGEST_NAME = 120  # characters of the name of a policy

KINDS = {
    "same": ("takes the same path to the end", "take the same path to the end"),
    "ends earlier": ("ends earlier", "end earlier"),
    "differs": ("differs from a step on", "differ from a step on"),
    "unclear": ("is unclear from a step on", "are unclear from a step on"),
    "not replayed": ("could not be replayed", "could not be replayed"),
}
"""The kinds of past calls, for one of them and for several."""


def headline(findings: Findings) -> str:
    """Say in one sentence what a change does."""
    if findings.is_empty and (findings.calls is None or findings.calls.is_empty):
        return NOTHING
    if not findings.is_effective:
        names = ", ".join(change.name for change in findings.fields)
        return (
            f"Only wording changes ({names}): what a {findings.table} does stays the same, "
            f"and so does every bound."
        )
    worst = {change.name: change for change in findings.worst if change.factor is not None}
    cost = next((worst[name] for name in COSTS if name in worst), None)
    bounds = []
    for each in filter(None, (cost, worst.get("seconds"))):
        verb, unit = UNITS[each.name]
        much = f"{unit} as before" if each.factor == 1 else f"{words.factor_text(each)} × {unit}"
        bounds.append(f"{verb} at most {much}")
    effect = " and ".join(bounds) or "spend without bounds"
    parts = [
        f"With {backends_text(findings.backends)}, this change lets a {findings.table} {effect}"
    ]
    parts += _rows_in_short(findings)
    if findings.calls is not None:
        parts += [f"{each} in its calls" for each in _rows_in_short(findings.calls)]
    return "; ".join(parts) + "."


def _rows_in_short(findings: Findings) -> Iterator[str]:
    fallen, back = (
        sum(each.count for each in groups) for groups in (findings.fall, findings.come_back)
    )
    for count, one, many in (
        (len(findings.appear), "is new", "are new"),
        (len(findings.vanish), "is gone", "are gone"),
        (fallen, "can no longer be taken", "can no longer be taken"),
        (back, "can be taken now", "can be taken now"),
    ):
        if count:
            yield f"{counted(count, 'row')} {one if count == 1 else many}"
    if findings.reordered:
        names = list(dict.fromkeys(event for event, _ in findings.reordered))
        more = f" and {len(names) - MOST_EVENTS} others" if len(names) > MOST_EVENTS else ""
        yield f"the order of {', '.join(names[:MOST_EVENTS])}{more} changes"
    events = sum(each.leads_elsewhere for each in findings.events)
    if events:
        yield f"{counted(events, 'event')} {'leads' if events == 1 else 'lead'} to something else"


def highlights(findings: Findings) -> Iterator[Highlight]:
    """Yield what a reviewer must know first, one sentence each."""
    if findings.odds is not None:
        what = "Calls" if findings.calls is None else "Turns"
        yield Highlight("note", f"{what}, probably: {findings.odds.summary.replace('->', 'to')}.")
    if not findings.is_effective:
        yield Highlight(
            "same", "The machine, its limits and waits, and every worst case stay the same."
        )
        return
    changed = [change for change in findings.worst if change.is_change and change.factor != 1]
    for change in changed:
        tone: Tone = "note" if change.factor is None else "more" if change.factor > 1 else "less"
        yield Highlight(tone, _worst_text(change))
    yield from (Highlight("note", text) for text in _fields_in_short(findings.fields))
    if not changed:
        yield Highlight(
            "same", f"Every worst case stays the same with {backends_text(findings.backends)}."
        )
    yield from (
        Highlight("removed", words.group_text(group, falls=True)) for group in findings.fall
    )
    yield from (
        Highlight("added", words.group_text(group, falls=False)) for group in findings.come_back
    )
    yield from _row_findings(findings, "added", "New", findings.appear)
    yield from _row_findings(findings, "removed", "Gone", findings.vanish)
    yield from (Highlight("note", f"{words.capitalized(text)}.") for text in findings.redeclared)
    old, new = findings.policies
    if isinstance(old, Policy) and isinstance(new, Policy):
        before = {*conflicts_of(old)}
        yield from (
            Highlight("note", f"Now {each}.") for each in conflicts_of(new) if each not in before
        )
    for event, state in findings.reordered:
        yield Highlight("note", f"The order of guards changes for `{event}` in `{state}`.")
    for each in findings.properties:
        if each.is_change:
            yield Highlight("note", f"“{each.name}”: {each.old} before, {each.new} now.")
    if not any(each.is_change for each in findings.properties):
        count = sum(each.new == "holds" for each in findings.properties)
        yield Highlight(
            "same",
            f"The proof of the table stays the same for all limits: {count} properties hold.",
        )


def _row_findings(
    findings: Findings, tone: Tone, word: str, rows: Sequence[Row]
) -> Iterator[Highlight]:
    rungs = ", ".join(node.name for node in findings.picture.nodes if node.change == tone)
    if rungs:
        yield Highlight(tone, f"{word}: {rungs}, with {counted(len(rows), 'row')}.")
    elif rows:
        yield Highlight(tone, f"{word}: {words.named_rows(rows)}.")


def _fields_in_short(fields: Iterable[Change]) -> Iterator[str]:
    """Yield every field that changes, with one sentence for each group."""
    groups: dict[str, list[str]] = {}
    for each in fields:
        group, _, name = each.name.partition(".")
        groups.setdefault(group, []).append(f"{name} {_change(each)}".strip())
    weights = {name: place for place, name in enumerate(FIRST)}
    for group in sorted(groups, key=lambda name: (name == "hints", weights.get(name, len(FIRST)))):
        yield f"{group}: {', '.join(groups[group])}."


def _change(change: Change) -> str:
    if "hints." in change.name:
        return (
            "is new"
            if change.old is None
            else "is gone"
            if change.new is None
            else "has another wording"
        )
    return f"{value_text(change.name, change.old)} → {value_text(change.name, change.new)}"


def _worst_text(change: WorstChange) -> str:
    factor = f" ({words.factor_text(change)} ×)" if change.factor is not None else ""
    by = change.new.ended_by
    is_lower_budget = by == f"budget.{change.name.replace(' ', '_')}" and (change.factor or 1) < 1
    ends = "; more calls may end over_budget" if is_lower_budget else ""
    return (
        f"{words.capitalized(change.name)}: at most {amount(change.new)}, before "
        f"{amount(change.old)}{factor}{ends}."
    )


def conflicts_of(policy: Policy) -> Iterator[str]:
    """Yield where one limit of a policy cuts off what another one allows."""
    seconds = policy.budget.seconds
    total = policy.timeouts.total
    if seconds is None:
        return
    if total is None or total > seconds:
        allowed = "any time" if total is None else duration(total)
        yield (
            f"an attempt may take {allowed} (timeouts.total), but the call ends at "
            f"{duration(seconds)}"
        )
    limit = limits_of(policy).get("retries") or 0
    rung = policy.table.rung("retry")
    reserved = policy.reserve.seconds or policy.reserve.share * seconds
    if rung is None or not policy.reserve.is_on:
        return
    waits = sum(
        longest_wait(policy.waits, rung, number, "fell_silent") for number in range(1, limit + 1)
    )
    if waits > reserved:
        all_of_it = f"all retries of one backend may wait {duration(waits)}"
        yield f"{all_of_it}, more than the {duration(reserved)} reserved for the next"


def refills(findings: Findings) -> str:
    """Say why a rung may occur in a path more often than its limit: what refills its counter; "" if
    nothing does.
    """
    table = table_of(findings.policies[1])
    parts = []
    for rung in table.declared_rungs:
        if rung.refills and rung.name in table.rungs:
            when = f" if {table.fact(rung.refills_on).says}" if rung.refills_on else ""
            parts.append(f"{rung.name}{when} ({', '.join(rung.refills)})")
    return f"A counter starts again after what refills it: {'; '.join(parts)}." if parts else ""


def chances(findings: Findings) -> Iterator[Change]:
    """Yield what decides which backends get a chance, before and now."""
    old, new = findings.policies
    if isinstance(old, TurnPolicy) or isinstance(new, TurnPolicy):
        return
    one, other = (policy.limits.get("fallbacks") for policy in (old, new))
    followers = (
        "all of the chain" if limit is None else counted(limit, "backend") for limit in (one, other)
    )
    yield Change("backends that can follow the first", *followers)
    yield Change("reserve", words.reserve_text(old), words.reserve_text(new))
    if findings.backends > 1:
        yield Change(f"minimum for the last of {findings.backends}", *map(_reserved, findings.kept))
    refusal = {"fall_back": "the next backend is asked", "end": "no other backend is asked"}
    yield Change("after a refusal", refusal[old.after_refusal], refusal[new.after_refusal])


def _reserved(reserve: Mapping[str, float] | None) -> str:
    if reserve is None:
        return "nothing"
    seconds = f" and {duration(reserve['seconds'])}" if "seconds" in reserve else ""
    return f"{counted(reserve['attempts'], 'attempt')}{seconds}"


def journals_text(journals: Iterable[WhatIf]) -> str:
    """Count what past calls would have done."""
    count: Counter[str] = Counter(each.kind for each in journals)
    parts = [
        f"{count[kind]} {one if count[kind] == 1 else many}"
        for kind, (one, many) in KINDS.items()
        if count[kind]
    ]
    return f"Of {counted(count.total(), 'past journal')}: {', '.join(parts)}."


def journal_text(past: WhatIf) -> str:
    """Say what one past call would have done, and what of that is unknown."""
    more = past.attempts[1] - past.attempts[0]
    waits = past.waits[1] - past.waits[0]
    attempts = (
        f"{counted(abs(more), 'attempt')} {'more' if more > 0 else 'fewer'}"
        if more
        else "as many attempts"
    )
    how = "more" if waits > 0 else "less"
    seconds = f"{abs(waits):,.1f} s {how} of waits" if abs(waits) >= 0.05 else "the same waits"
    cost = f"{attempts} and {seconds}"
    if past.kind == "same":
        return f"the same path to the end ({past.outcome or 'not ended'}), with {cost}"
    if past.kind == "not replayed":
        return f"not replayed: {past.why}"
    if past.kind == "unclear":
        return f"the same up to {past.where}, with {cost}; unclear from there: {past.why}"
    why = f" ({past.why})" if past.why else ""
    rest = "" if past.kind == "ends earlier" else "; no journal holds what would follow"
    return f"{past.where}: before: {past.before}; now: {past.now}{why}; until then {cost}{rest}"


def assumptions_text(setting: Assumptions) -> str:
    """Say what was compared, and what the figures assume."""
    parts = []
    for what, number in (("an output cap", setting.max_tokens), ("a prompt", setting.input_tokens)):
        parts.append(
            f"{what} of {number_text(number)} tokens"
            if number is not None
            else f"{what} of unknown size"
        )
    if setting.prices is not None:
        paid = (
            f"{number_text(setting.prices.input)} for input and "
            f"{number_text(setting.prices.output)} for output"
        )
        parts.append(f"prices for a million tokens of {paid}, at every backend")
    names = (
        "OLD is {}, NEW is {}. ".format(*map(_short, setting.names))
        if setting.names is not None
        else ""
    )
    try:
        by = f"rungwise {version('rungwise')}"
    except PackageNotFoundError:  # run from its sources
        by = "rungwise"
    return f"{names}The figures assume {'; '.join(parts)}. Compared by {by}."


def _short(name: str) -> str:
    plain = " ".join("".join(each if each.isprintable() else "?" for each in name).split())
    return plain if len(plain) <= LONGEST_NAME else f"...{plain[-LONGEST_NAME:]}"
