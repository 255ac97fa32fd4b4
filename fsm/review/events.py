"""What each event leads to under two policies: ladders with limits and waits, and other numbers that matter."""

from __future__ import annotations

from collections.abc import Iterator

from rungwise.fsm.call.clocks.waiting import BROKEN
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import SWITCH_EVENTS, Policy
from rungwise.fsm.call.run.causes import CAUSES
from rungwise.fsm.call.table import MAY_ASK
from rungwise.fsm.certificate.shown.settings import settings_of, span, table_of
from rungwise.fsm.certificate.verified import counted, duration
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.merge import merged
from rungwise.fsm.diagram.model import Decision, Picture
from rungwise.fsm.failures.failure import Failure, event_of_failure
from rungwise.fsm.machine.table import Table
from rungwise.fsm.review.findings import Change, EventChange, Ladder, Rank
from rungwise.fsm.review.words import reserve_text
from rungwise.fsm.turn.policy import TurnPolicy


def events_of(old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> tuple[EventChange, ...]:
    """List every event that has a ladder, with what it leads to under both policies."""
    before, after = _ladders(old), _ladders(new)
    table = table_of(new)
    causes = CAUSES if isinstance(new, Policy) else {}
    return tuple(
        EventChange(
            event,
            table.says(event) if event in table.events else table_of(old).says(event),
            causes.get(event, ""),
            before.get((event, number)),
            after.get((event, number)),
        )
        for event, number in merged(list(before), list(after))
    )


def _ladders(policy: Policy | TurnPolicy) -> dict[tuple[str, int], Ladder]:
    """Return the ladders of each event, numbered if it has several in different states."""
    table = table_of(policy)
    picture = picture_of(table, settings=settings_of(policy))
    ladders: dict[tuple[str, int], Ladder] = {}
    for each in picture.decisions:
        if each.event != "sent":
            number = sum(event == each.event for event, _ in ladders)
            remarks = tuple(_remarks(policy, each.event)) if isinstance(policy, Policy) else ()
            ladders[each.event, number] = Ladder(tuple(_ranks(table, picture, each)), remarks, _where(table, each))
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
    """Describe the numbers of a policy that matter for an event, besides the limits and waits of its rungs."""
    clocks, waits = policy.timeouts, policy.waits
    if event == "fell_silent":
        yield f"after {_limit(clocks.first_token)} before the first content, {_limit(clocks.stall)} between two pieces"
    if event == "failed_transiently":
        yield f"timeouts: {_limit(clocks.connect)} to connect, {_limit(clocks.total)} for a whole attempt"
    if event in MAY_ASK:
        yield f"a Retry-After of up to {duration(waits.longest_asked)} is waited for"
    if event in BROKEN:
        yield f"a retry waits as long as a reask: {span(waits.reask_base, waits.reask_cap)}"
    switches = ", ".join(f"{count} of `{reason}`" for reason, count in _switches(policy, event))
    if switches:
        yield f"the next backend is asked after {switches}"
    if event == "truncated" and policy.handful:
        yield f"an answer cut at a cap of {policy.handful} tokens or fewer is accepted"
    if event in ("truncated", "paused", "tools_truncated", "json_truncated", "reasoning_truncated"):
        yield f"raised caps start at {policy.base_cap:,} tokens and end at {policy.largest_cap:,}"
    nudges = policy.nudge_window and "nudge" in policy.table.rungs and policy.limits.get("nudges")
    if event in ("came_empty", "only_reasoned") and nudges:
        yield f"a nudge needs a tool result among the last {counted(policy.nudge_window, 'message')}"
    if event == "ran_out" and policy.reserve.is_on:
        yield reserve_text(policy)


def _switches(policy: Policy, event: str) -> Iterator[tuple[str, int]]:
    for reason, count in sorted(policy.switch_after.items()):
        if reason in SWITCH_EVENTS:
            is_here = event in SWITCH_EVENTS[reason]
        else:
            is_here = event_of_failure(Failure(reason)) == event  # type: ignore[arg-type]
        if is_here and count < LARGEST_LIMIT:
            yield reason, count


def _limit(seconds: float | None) -> str:
    return "no limit" if seconds is None else duration(seconds)


def waits_of(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the waits of each rung that differ, with how often it is taken."""
    before, after = (settings_of(policy).says for policy in (old, new))
    for rung in dict.fromkeys((*old.table.declared_rungs, *new.table.declared_rungs)):
        change = Change(rung.name, before.get(rung.name, "never"), after.get(rung.name, "never"))
        if rung.wait is not None and change.is_change:
            yield change
