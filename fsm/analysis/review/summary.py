"""What a reviewer reads first: a headline, a sentence for each finding, and past calls."""

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
    "random part; the seconds are from start to end, with the shortest and the longest random "
    "waits. An attempt takes no time, unless it is silent or runs into its timeout. A whole reply "
    f"reports its prompt ({PROMPT} tokens if unknown) and its words, or the whole cap if it is cut "
    "there; a stream that breaks off reports nothing."
)
FIRST = ("budget", "limits", "switch_after", "after_refusal", "waits", "timeouts", "reserve")
"""The groups of fields in order of weight; others follow."""
LONGEST_NAME = 120  # characters of the name of a policy
LEAST_WAIT = 0.05  # seconds; anything less would be shown as 0.0 s

KINDS = {
    "same": ("takes the same path to the end", "take the same path to the end"),
    "ends earlier": ("ends earlier", "end earlier"),
    "differs": ("differs from a step on", "differ from a step on"),
    "unclear": ("is unclear from a step on", "are unclear from a step on"),
    "not replayed": ("could not be replayed", "could not be replayed"),
}
"""The kinds of past calls, for one of them and for several."""


def headline(findings: Findings) -> str:
    """Say in short what a change does: first which outcomes got worse, then all else."""
    if findings.is_empty and (findings.calls is None or findings.calls.is_empty):
        return NOTHING
    if not findings.is_effective:
        names = ", ".join(change.name for change in findings.fields)
        return (
            f"Only wording changes ({names}): what a {findings.table} does stays the same, "
            f"and so does every bound."
        )
    chain = backends_text(findings.backends)
    parts = [f"With {chain}, this change lets a {findings.table} {_bounds_in_short(findings)}"]
    parts += _rows_in_short(findings)
    if findings.calls is not None:
        parts += [f"{each} in its calls" for each in _rows_in_short(findings.calls)]
    text = "; ".join(parts) + "."
    if findings.worse:
        return f"Outcomes got worse. {words.worse_in_short(findings.worse)}. {text}"
    return text


def _bounds_in_short(findings: Findings) -> str:
    """Say how the bounds of cost and time change."""
    worst = {change.name: change for change in findings.worst if change.factor is not None}
    costs = [name for name in COSTS if name in worst]
    bounds = []
    for name in (*costs[:1], "seconds"):  # the first cost that is known
        if name in worst:
            verb, unit = UNITS[name]
            much = f"{words.factor_text(worst[name])} × {unit}"
            if worst[name].factor == 1:
                much = f"{unit} as before"
            bounds.append(f"{verb} at most {much}")
    return " and ".join(bounds) or "spend without bounds"


def _rows_in_short(findings: Findings) -> Iterator[str]:
    """Yield how many rows and events a change concerns."""
    for what, rows in (("new", findings.appear), ("gone", findings.vanish)):
        if rows:
            verb = "is" if len(rows) == 1 else "are"
            yield f"{counted(len(rows), 'row')} {verb} {what}"
    fallen = sum(each.count for each in findings.fall)
    if fallen:
        yield f"{counted(fallen, 'row')} can no longer be taken"
    back = sum(each.count for each in findings.come_back)
    if back:
        yield f"{counted(back, 'row')} can be taken now"
    if findings.reordered:
        yield f"the order of {words.listed(event for event, _ in findings.reordered)} changes"
    events = sum(each.leads_elsewhere for each in findings.events)
    if events:
        verb = "leads" if events == 1 else "lead"
        yield f"{counted(events, 'event')} {verb} to something else"


def highlights(findings: Findings) -> Iterator[Highlight]:
    """Yield what a reviewer must know first, one sentence each."""
    for text in words.worse_texts(findings.worse):
        yield Highlight("more", text)
    if findings.odds is not None:
        what = "Calls" if findings.calls is None else "Turns"
        yield Highlight("note", f"{what}, probably: {findings.odds.summary.replace('->', 'to')}.")
    if not findings.is_effective:
        yield Highlight(
            "same", "The machine, its limits and waits, and every worst case stay the same."
        )
        return
    yield from _worst_findings(findings)
    for group in findings.fall:
        yield Highlight("removed", words.group_text(group, falls=True))
    for group in findings.come_back:
        yield Highlight("added", words.group_text(group, falls=False))
    yield from _row_findings(findings, "added", "New", findings.appear)
    yield from _row_findings(findings, "removed", "Gone", findings.vanish)
    for text in findings.redeclared:
        yield Highlight("note", f"{words.capitalized(text)}.")
    yield from _conflict_findings(findings)
    for event, state in findings.reordered:
        yield Highlight("note", f"The order of guards changes for `{event}` in `{state}`.")
    yield from _property_findings(findings)


def _worst_findings(findings: Findings) -> Iterator[Highlight]:
    """Yield the worst cases that change, and the fields of the policy."""
    changed = [change for change in findings.worst if change.is_change and change.factor != 1]
    for change in changed:
        tone: Tone = "note"
        if change.factor is not None:
            tone = "more" if change.factor > 1 else "less"
        yield Highlight(tone, worst_text(change))
    for text in _fields_in_short(findings.fields):
        yield Highlight("note", text)
    if not changed:
        chain = backends_text(findings.backends)
        yield Highlight("same", f"Every worst case stays the same with {chain}.")


def _conflict_findings(findings: Findings) -> Iterator[Highlight]:
    """Yield where one limit of the new policy cuts off what another one allows."""
    old, new = findings.policies
    if isinstance(old, Policy) and isinstance(new, Policy):
        before = set(conflicts_of(old))
        for conflict in conflicts_of(new):
            if conflict not in before:
                yield Highlight("note", f"Now {conflict}.")


def _property_findings(findings: Findings) -> Iterator[Highlight]:
    """Yield the properties whose verdict changes, or that none does."""
    changed = [each for each in findings.properties if each.is_change]
    for each in changed:
        yield Highlight("note", f"“{each.name}”: {each.old} before, {each.new} now.")
    if not changed:
        count = sum(each.new == "holds" for each in findings.properties)
        yield Highlight(
            "same",
            f"The proof of the table stays the same for all limits: {count} properties hold.",
        )


def _row_findings(
    findings: Findings, tone: Tone, word: str, rows: Sequence[Row]
) -> Iterator[Highlight]:
    """Yield the rows that are new, or those that are gone, by their rungs if they have any.

    Arguments:
        findings: the change.
        tone: `added` or `removed`.
        word: the word for it.
        rows: the rows.
    """
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

    def weight(group: str) -> tuple[bool, int]:
        place = FIRST.index(group) if group in FIRST else len(FIRST)
        return group == "hints", place

    for group in sorted(groups, key=weight):
        yield f"{group}: {', '.join(groups[group])}."


def _change(change: Change) -> str:
    """Say how a field changes; a hint is too long to be quoted."""
    if "hints." not in change.name:
        old = value_text(change.name, change.old)
        return f"{old} → {value_text(change.name, change.new)}"
    if change.old is None:
        return "is new"
    if change.new is None:
        return "is gone"
    return "has another wording"


def worst_text(change: WorstChange) -> str:
    """Say how a worst case changes, and whether a lower budget may end more calls."""
    now = amount(change.new)
    if change.new.value is not None:
        now = f"at most {now}"
    text = f"{words.capitalized(change.name)}: {now}, before {amount(change.old)}"
    if change.factor is not None:
        text += f" ({words.factor_text(change)} ×)"
    budget = f"budget.{change.name.replace(' ', '_')}"
    if change.new.ended_by == budget and (change.factor or 1) < 1:
        text += "; more calls may end over_budget"
    return f"{text}."


def conflicts_of(policy: Policy) -> Iterator[str]:
    """Yield where one limit of a policy cuts off what another one allows."""
    seconds = policy.budget.seconds
    if seconds is None:
        return
    total = policy.timeouts.total
    if total is None or total > seconds:
        allowed = "any time" if total is None else duration(total)
        end = duration(seconds)
        yield f"an attempt may take {allowed} (timeouts.total), but the call ends at {end}"
    rung = policy.table.rung("retry")
    if rung is None or not policy.reserve.is_on:
        return
    retries = limits_of(policy).get("retries") or 0
    reserved = policy.reserve.seconds or policy.reserve.share * seconds
    waits = 0.0
    for number in range(1, retries + 1):
        waits += longest_wait(policy.waits, rung, number, "fell_silent")
    if waits > reserved:
        all_of_it = f"all retries of one backend may wait {duration(waits)}"
        yield f"{all_of_it}, more than the {duration(reserved)} reserved for the next"


def refills(findings: Findings) -> str:
    """Say why a rung may occur in a path more often than its limit: what refills its counter.

    It is empty if nothing does.
    """
    table = table_of(findings.policies[1])
    parts = []
    for rung in table.declared_rungs:
        if rung.refills and rung.name in table.rungs:
            part = rung.name
            if rung.refills_on:
                part += f" if {table.fact(rung.refills_on).says}"
            parts.append(f"{part} ({', '.join(rung.refills)})")
    if not parts:
        return ""
    return f"A counter starts again after what refills it: {'; '.join(parts)}."


def chances(findings: Findings) -> Iterator[Change]:
    """Yield what decides which backends get a chance, before and now."""
    old, new = findings.policies
    if isinstance(old, TurnPolicy) or isinstance(new, TurnPolicy):
        return
    yield Change("backends that can follow the first", _followers(old), _followers(new))
    yield Change("reserve", words.reserve_text(old), words.reserve_text(new))
    if findings.backends > 1:
        before, now = findings.kept
        name = f"minimum for the last of {findings.backends}"
        yield Change(name, _reserved(before), _reserved(now))
    refusal = {"fall_back": "the next backend is asked", "end": "no other backend is asked"}
    yield Change("after a refusal", refusal[old.after_refusal], refusal[new.after_refusal])


def _followers(policy: Policy) -> str:
    """Say how many backends can follow the first."""
    limit = policy.limits.get("fallbacks")
    return "all of the chain" if limit is None else counted(limit, "backend")


def _reserved(reserve: Mapping[str, float] | None) -> str:
    """Say what is reserved for the last backend."""
    if reserve is None:
        return "nothing"
    attempts = counted(reserve["attempts"], "attempt")
    if "seconds" not in reserve:
        return attempts
    return f"{attempts} and {duration(reserve['seconds'])}"


def journals_text(journals: Iterable[WhatIf]) -> str:
    """Count what past calls would have done."""
    count: Counter[str] = Counter(each.kind for each in journals)
    parts = []
    for kind, (one, many) in KINDS.items():
        if count[kind]:
            parts.append(f"{count[kind]} {one if count[kind] == 1 else many}")
    return f"Of {counted(count.total(), 'past journal')}: {', '.join(parts)}."


def journal_text(past: WhatIf) -> str:
    """Say what one past call would have done, and what of that is unknown."""
    cost = _cost_text(past)
    if past.kind == "same":
        return f"the same path to the end ({past.outcome or 'not ended'}), with {cost}"
    if past.kind == "not replayed":
        return f"not replayed: {past.why}"
    if past.kind == "unclear":
        return f"the same up to {past.where}, with {cost}; unclear from there: {past.why}"
    text = f"{past.where}: before: {past.before}; now: {past.now}"
    if past.why:
        text += f" ({past.why})"
    text += f"; until then {cost}"
    if past.kind == "ends earlier":
        return text
    return f"{text}; no journal holds what would follow"


def _cost_text(past: WhatIf) -> str:
    """Say how many more or fewer attempts and seconds of waits a past call would have taken."""
    more_attempts = past.attempts[1] - past.attempts[0]
    attempts = "as many attempts"
    if more_attempts:
        how = "more" if more_attempts > 0 else "fewer"
        attempts = f"{counted(abs(more_attempts), 'attempt')} {how}"
    more_waits = past.waits[1] - past.waits[0]
    waits = "the same waits"
    if abs(more_waits) >= LEAST_WAIT:
        how = "more" if more_waits > 0 else "less"
        waits = f"{abs(more_waits):,.1f} s {how} of waits"
    return f"{attempts} and {waits}"


def assumptions_text(setting: Assumptions) -> str:
    """Say what was compared, and what the figures assume."""
    sizes = {"an output cap": setting.max_tokens, "a prompt": setting.input_tokens}
    assumed = []
    for what, tokens in sizes.items():
        if tokens is None:
            assumed.append(f"{what} of unknown size")
        else:
            assumed.append(f"{what} of {number_text(tokens)} tokens")
    prices = setting.prices
    if prices is not None:
        paid = f"{number_text(prices.input)} for input and {number_text(prices.output)} for output"
        assumed.append(f"prices for a million tokens of {paid}, at every backend")
    text = f"The figures assume {'; '.join(assumed)}. Compared by {_compared_by()}."
    if setting.names is None:
        return text
    old, new = map(_short, setting.names)
    return f"OLD is {old}, NEW is {new}. {text}"


def _compared_by() -> str:
    """Name this library, with its version if it is installed."""
    try:
        return f"rungwise {version('rungwise')}"
    except PackageNotFoundError:  # run from its sources
        return "rungwise"


def _short(name: str) -> str:
    """Write the name of a policy on one line; of a long one, its end, which tells files apart."""
    printable = "".join(each if each.isprintable() else "?" for each in name)
    plain = " ".join(printable.split())
    if len(plain) <= LONGEST_NAME:
        return plain
    return f"...{plain[-LONGEST_NAME:]}"
