"""What a reviewer may quote of a change of policy: one sentence, and a verdict for each thing that matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from attrs import evolve, frozen

from rungwise.fsm.call.policy import Policy
from rungwise.fsm.certificate.shown.settings import table_of
from rungwise.fsm.certificate.verified import WorstCase, number_text
from rungwise.fsm.machine.table import Row
from rungwise.fsm.review.rows import RowGroup
from rungwise.fsm.review.setting import conflicts_of
from rungwise.fsm.review.words import counted, duration, kept_for_others, value_text
from rungwise.fsm.turn.policy import TurnPolicy

if TYPE_CHECKING:
    from rungwise.fsm.replay.what_if import WhatIf
    from rungwise.fsm.review.diff import FieldChange, PolicyDiff, WorstChange

NOTHING = "Nothing changes: the two policies are the same."
NUMBERS = {1: "one backend", 2: "two backends", 3: "three backends"}
COSTS = ("money", "output tokens", "attempts")
"""What a cost is told in: the first of them that is known before and after."""
UNITS = {
    "money": ("cost", "as much"),
    "output tokens": ("write", "as many output tokens"),
    "attempts": ("make", "as many attempts"),
    "seconds": ("take", "as long"),
}
"""For what is spent, the verb and what a factor is of."""

FIRST = ("budget", "limits", "switch_after", "after_refusal", "waits", "timeouts", "reserve")
"""The groups of fields that a verdict tells first: what they change weighs most."""
MOST_NAMED = 3
"""Rows or events that a sentence names one by one."""

Tone = Literal["more", "less", "same", "added", "removed", "note"]
"""What a finding is: a worst case that costs more or less, or what is new, gone, or otherwise, which nobody judges."""


@frozen
class Verdict:
    """Hold one finding: what kind it is, and the sentence."""

    tone: Tone
    text: str


def backends_text(count: int) -> str:
    """Write a number of backends."""
    return NUMBERS.get(count, f"{count} backends")


def headline(diff: PolicyDiff) -> str:
    """Say in one sentence what a change does."""
    if diff.is_empty and (diff.calls is None or diff.calls.is_empty):
        return NOTHING
    if not diff.is_effective:
        names = ", ".join(change.name for change in diff.fields)
        return f"Only words change ({names}): what is done, when and how often stays as it is, and so does every bound."
    what = f"With {backends_text(diff.backends)}, this change lets a {diff.table} {_bounds(diff)}"
    said = list(_rows_in_short(diff))
    if diff.calls is not None:
        said += [f"{each} in its calls" for each in _rows_in_short(diff.calls)]
    return "; ".join([what, *said]) + "."


def _bounds(diff: PolicyDiff) -> str:
    worst = {change.name: change for change in diff.worst if change.factor is not None}
    cost = next((worst[name] for name in COSTS if name in worst), None)
    told = [each for each in (cost, worst.get("seconds")) if each is not None]
    return " and ".join(map(_bound, told)) or "do what no number bounds"


def _bound(change: WorstChange) -> str:
    assert change.factor is not None
    verb, what = UNITS[change.name]
    if change.factor == 1:
        return f"{verb} at most {what} as before"
    return f"{verb} at most {factor_text(change.factor)} × {what}"


def _rows_in_short(diff: PolicyDiff) -> Iterator[str]:
    fallen, back = sum(each.count for each in diff.fall), sum(each.count for each in diff.come_back)
    if diff.appear:
        yield f"{counted(len(diff.appear), 'row')} {_is(len(diff.appear))} new"
    if diff.vanish:
        yield f"{counted(len(diff.vanish), 'row')} {_is(len(diff.vanish))} gone"
    if fallen:
        yield f"{counted(fallen, 'row')} can no longer be taken"
    if back:
        yield f"{counted(back, 'row')} can be taken again"
    if diff.reordered:
        names = list(dict.fromkeys(event for event, _ in diff.reordered))
        more = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
        yield f"the order of {', '.join(names[:MOST_NAMED])}{more} changes"
    events = sum(each.leads_elsewhere for each in diff.events)
    if events:
        yield f"{counted(events, 'event')} {'leads' if events == 1 else 'lead'} to something else"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def verdicts(diff: PolicyDiff) -> Iterator[Verdict]:
    """Yield what a reviewer is to know first, one finding each."""
    if not diff.is_effective:
        yield Verdict("same", "The machine, its limits and waits, and every worst case stay as they are.")
        return
    for change in diff.worst:
        if change.is_change and change.factor != 1:
            yield Verdict(_tone(change), worst_text(change))
    yield from (Verdict("note", text) for text in _fields_in_short(diff))
    if not any(change.is_change and change.factor != 1 for change in diff.worst):
        yield Verdict("same", f"Every worst case stays as it is, with {backends_text(diff.backends)}.")
    for falls, groups in ((True, diff.fall), (False, diff.come_back)):
        yield from (Verdict("removed" if falls else "added", group_text(group, falls=falls)) for group in groups)
    yield from _rows_that_differ(diff)
    old, new = diff.policies
    if isinstance(old, Policy) and isinstance(new, Policy):
        before = {*conflicts_of(old)}
        yield from (Verdict("note", f"Now {each}.") for each in conflicts_of(new) if each not in before)
    for event, _ in diff.reordered:
        yield Verdict("note", f"After {event} the ladder is tried in another order.")
    yield from _proofs(diff)


def _fields_in_short(diff: PolicyDiff) -> Iterator[str]:
    """Yield every field that changes, those of one group in one sentence."""
    groups: dict[str, list[str]] = {}
    for each in diff.fields:
        group, _, name = each.name.partition(".")
        groups.setdefault(group, []).append(f"{name} {_change(each)}" if name else _change(each))
    known = {name: place for place, name in enumerate(FIRST)}
    for group in sorted(groups, key=lambda name: (name == "hints", known.get(name, len(FIRST)))):
        yield f"{group}: {', '.join(groups[group])}."


def _change(change: FieldChange) -> str:
    if "hints." in change.name:
        return "is new" if change.old is None else "is gone" if change.new is None else "is worded otherwise"
    return f"{value_text(change.name, change.old)} → {value_text(change.name, change.new)}"


def _rows_that_differ(diff: PolicyDiff) -> Iterator[Verdict]:
    added, removed = _rungs(diff, "added"), _rungs(diff, "removed")
    if added:
        yield Verdict("added", f"New: {', '.join(added)}, with {counted(len(diff.appear), 'row')}.")
    elif diff.appear:
        yield Verdict("added", f"{counted(len(diff.appear), 'row')} more: {named_rows(diff.appear)}.")
    if removed:
        yield Verdict("removed", f"Gone: {', '.join(removed)}, with {counted(len(diff.vanish), 'row')}.")
    elif diff.vanish:
        yield Verdict("removed", f"{counted(len(diff.vanish), 'row')} fewer: {named_rows(diff.vanish)}.")
    for name in diff.redeclared:
        yield Verdict("note", f"{name[0].upper()}{name[1:]}.")


def _rungs(diff: PolicyDiff, change: str) -> list[str]:
    return [node.name for node in diff.picture.nodes if node.change == change]


def _proofs(diff: PolicyDiff) -> Iterator[Verdict]:
    changed = [each for each in diff.properties if each.is_change]
    for each in changed:
        was, now = (side.verdict if side is not None else "not looked at" for side in (each.old, each.new))
        yield Verdict("note", f"“{each.name}”: {was} before, {now} now.")
    if not changed:
        held = sum(each.new is not None and each.new.holds for each in diff.properties)
        yield Verdict(
            "same", f"What was proved of the table before, for all limits, is proved now: {held} properties hold."
        )


def _tone(change: WorstChange) -> Tone:
    if change.factor is None:
        return "note"
    return "more" if change.factor > 1 else "less"


def worst_text(change: WorstChange) -> str:
    """Write one worst case before and now, as a sentence."""
    name = f"{change.name[0].upper()}{change.name[1:]}"
    factor = f" ({factor_text(change.factor)} ×)" if change.factor is not None else ""
    ends = "; more calls may end over_budget" if _ends_more(change) else ""
    return f"{name}: at most {amount(change.new)}, before {amount(change.old)}{factor}{ends}."


def _ends_more(change: WorstChange) -> bool:
    by = change.new.ended_by
    return by.startswith("budget.") and by.endswith(change.name.replace(" ", "_")) and (change.factor or 1) < 1


def figure(worst: WorstCase) -> str:
    """Write a worst case with its unit, and say where it is but an upper bound."""
    if worst.value is None:
        return "not known"
    return amount(worst) if is_attained(worst) else f"no more than {amount(worst)}"


def amount(worst: WorstCase) -> str:
    """Write a worst case with its unit."""
    if worst.value is None:
        return "not known"
    if worst.name == "money":
        return f"{worst.value:,.4g}" if abs(worst.value) < 1000 else f"{worst.value:,.2f}"
    return duration(worst.value) if "seconds" in worst.name else number_text(worst.value)


def factor_text(factor: float) -> str:
    """Write a factor in two digits, one above 1 in three; one that is nearly 1 is told as that."""
    if factor != 1 and 0.995 <= factor < 1.005:
        return "just over 1" if factor > 1 else "just under 1"
    return f"{factor:.3g}" if factor >= 1 else f"{factor:.2g}"


def is_attained(worst: WorstCase) -> bool:
    """Tell whether some path comes to the figure, as far as is known."""
    return worst.is_exact or (worst.ended_by.startswith("budget.") and worst.ended_by != "budget.attempts")


def ending(worst: WorstCase) -> str:
    """Say what ends the worst path."""
    return "the ladder ends it" if worst.ended_by == "ladder" else f"{worst.ended_by} ends it"


def path_end(worst: WorstCase) -> str:
    """Say what ends a worst path, and how far the longest that was played comes where the figure is but a bound."""
    if is_attained(worst):
        return ending(worst)
    if worst.attained is None:
        return f"{ending(worst)}; an upper bound"
    played = amount(evolve(worst, value=worst.attained))
    return f"{ending(worst)}; an upper bound, the longest that was played: {played}"


def refills(diff: PolicyDiff) -> Iterator[str]:
    """Say why a rung may stand in a path more often than its limit: what refills its counter."""
    table = table_of(diff.policies[1])
    told = []
    for rung in table.declared_rungs:
        if rung.refills and rung.name in table.rungs:
            when = f" where {table.fact(rung.refills_on).says}" if rung.refills_on else ""
            told.append(f"{rung.name}{when} ({', '.join(rung.refills)})")
    if told:
        yield f"A limit counts anew behind what refills its counter: {'; '.join(told)}."


def row_short(row: Row) -> str:
    """Write a row as a review has room for: `came_empty [may_nudge] → nudge`."""
    guard = f" [{row.guard}]" if row.guard else ""
    return f"{row.event}{guard} → {row.target}"


def named_rows(rows: Sequence[Row], most: int = 6) -> str:
    """Name some rows, and count the others."""
    names = list(dict.fromkeys(map(row_short, rows)))
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def group_text(group: RowGroup, *, falls: bool) -> str:
    """Write the rows of one cause as one line."""
    means, because = group.means(falls=falls), group.reason if falls else f"before, {group.reason}"
    reason = f"{means} ({because})" if means else because
    can = "can no longer be taken" if falls else "can be taken now"
    rows = f"{counted(len(group.rows), 'row')} {can}: {named_rows(group.rows)}" if group.rows else ""
    behind = ""
    if group.behind:
        states = ", ".join(dict.fromkeys(row.source for row in group.behind))
        leads = "nothing leads to any more" if falls else "is entered again"
        behind = f"{'and ' if rows else ''}{counted(len(group.behind), 'row')} from {states}, which {leads}"
    text = f"{reason}: {', '.join(filter(None, (rows, behind)))}."
    return f"{text[0].upper()}{text[1:]}"


def chances(diff: PolicyDiff) -> Iterator[tuple[str, str, str]]:
    """Yield what decides on which backends get a chance, before and now."""
    old, new = diff.policies
    if isinstance(old, TurnPolicy) or isinstance(new, TurnPolicy):
        return
    one, other = (policy.limits.get("fallbacks") for policy in (old, new))
    yield "backends that can follow the first", _followers(one), _followers(other)
    yield "what is kept for them", kept_for_others(old), kept_for_others(new)
    if diff.backends > 1:
        yield f"the last of {diff.backends} has at least", _kept(diff.kept[0]), _kept(diff.kept[1])
    refusal = {"fall_back": "the next backend is asked", "end": "nobody else is asked"}
    yield "after a refusal", refusal[old.after_refusal], refusal[new.after_refusal]


def _followers(limit: int | None) -> str:
    return "all of the chain" if limit is None else counted(limit, "backend")


def _kept(kept: Mapping[str, float] | None) -> str:
    if kept is None:
        return "nothing that is kept for it"
    seconds = f" and {duration(kept['seconds'])}" if "seconds" in kept else ""
    return f"{counted(kept['attempts'], 'attempt')}{seconds}"


def journals_text(found: Iterable[WhatIf]) -> str:
    """Count what past calls would have done."""
    found = list(found)
    kinds: Counter[str] = Counter(each.kind for each in found)
    total = len(found)
    parts = [
        ("same", "takes the same path to the end", "take the same path to the end"),
        ("ends earlier", "ends earlier", "end earlier"),
        ("differs", "differs from a step on", "differ from a step on"),
        ("unclear", "cannot be told to the end", "cannot be told to the end"),
        ("not replayed", "could not be replayed", "could not be replayed"),
    ]
    said = [f"{kinds[kind]} {one if kinds[kind] == 1 else many}" for kind, one, many in parts if kinds[kind]]
    return f"Of {counted(total, 'past journal')}: {', '.join(said)}."


def journal_text(found: WhatIf) -> str:
    """Say what one past call would have done, and what of that is not known."""
    more = found.attempts[1] - found.attempts[0]
    waits = found.waits[1] - found.waits[0]
    cost = f"{_more(more, 'attempt')} and {_more_seconds(waits)}"
    if found.kind == "same":
        return f"the same path to the end ({found.outcome or 'not ended'}), with {cost}"
    if found.kind == "not replayed":
        return f"not replayed: {found.why}"
    if found.kind == "unclear":
        return f"the same up to {found.where}, with {cost}; from there it cannot be told: {found.why}"
    why = f" ({found.why})" if found.why else ""
    rest = "" if found.kind == "ends earlier" else "; what would follow is in no journal"
    return f"{found.where}: before: {found.before}; now: {found.now}{why}; up to there {cost}{rest}"


def _more(count: int, what: str) -> str:
    if not count:
        return f"as many {what}s"
    return f"{counted(abs(count), what)} {'more' if count > 0 else 'fewer'}"


def _more_seconds(seconds: float) -> str:
    return (
        "the same waits"
        if abs(seconds) < 0.05
        else f"{abs(seconds):,.1f} s {'more' if seconds > 0 else 'less'} of waits"
    )
