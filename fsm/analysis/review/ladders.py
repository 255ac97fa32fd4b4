"""What each event leads to under two policies, and the waits of their rungs.

A reviewer asks "what happens on a 429 now?". The answer is a ladder: the lines that can be taken,
in the order in which they are tried, each with the limit and the waits of its rung. The numbers of
a policy that stand in no rung, such as timeouts and the cap of a retry after silence, are remarks
beside it. So an event counts as changed also if only such a number differs.
"""

from __future__ import annotations

from collections.abc import Iterator

from rungwise.fsm.analysis.certificate.certificate import counted, duration
from rungwise.fsm.analysis.certificate.shown.settings import settings_of, span, table_of
from rungwise.fsm.analysis.review.findings import Change, EventChange, Ladder, Rank
from rungwise.fsm.analysis.review.words import reserve_text
from rungwise.fsm.call.clocks.waiting import BROKEN
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import SWITCH_EVENTS, Policy
from rungwise.fsm.call.run.causes import CAUSES
from rungwise.fsm.call.table import MAY_ASK
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.merge import merged
from rungwise.fsm.diagram.model import DecisionList, Picture
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.replies.failures.failure import Failure, event_of_failure
from rungwise.fsm.turn.policy import TurnPolicy

RAISES_CAP = frozenset(
    {"truncated", "paused", "tools_truncated", "json_truncated", "reasoning_truncated"}
)
"""The events after which a call asks with a larger output cap."""

EMPTY = frozenset({"came_empty", "only_reasoned"})
"""The events after which a call may nudge."""


def events_of(old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> Iterator[EventChange]:
    """Yield every event that has a ladder, with what it leads to under both policies."""
    before = _ladders(old)
    after = _ladders(new)
    causes = CAUSES if isinstance(new, Policy) else {}
    for event, number in merged(list(before), list(after)):
        table = table_of(new)
        if event not in table.events:
            table = table_of(old)
        yield EventChange(
            event,
            says=table.says(event),
            causes=causes.get(event, ""),
            old=before.get((event, number)),
            new=after.get((event, number)),
        )


def _ladders(policy: Policy | TurnPolicy) -> dict[tuple[str, int], Ladder]:
    """Return the ladders of each event, numbered from 0 if it has several in different states."""
    table = table_of(policy)
    picture = picture_of(table, settings=settings_of(policy))
    ladders: dict[tuple[str, int], Ladder] = {}
    for decision in picture.decisions:
        event = decision.event
        if event == "sent":
            continue
        number = 0
        while (event, number) in ladders:
            number += 1
        ranks = tuple(_ranks(table, picture, decision))
        remarks: tuple[str, ...] = ()
        if isinstance(policy, Policy):
            remarks = tuple(_remarks(policy, event))
        ladders[event, number] = Ladder(ranks, remarks, _where(table, decision))
    return ladders


def _where(table: Table, decision: DecisionList) -> str:
    """Name the states in which an event occurs; empty for the hub, and for every rung."""
    sources = decision.sources
    if sources == (table.hub,):
        return ""
    missing = [rung for rung in table.rungs if rung not in sources]
    if not missing:
        return ""
    if len(missing) < len(sources):
        return f"in every rung but {', '.join(missing)}"
    return f"in {', '.join(sources)}"


def _ranks(table: Table, picture: Picture, decision: DecisionList) -> Iterator[Rank]:
    """Yield the lines of a ladder, also those that can never be taken."""
    for line in decision.lines:
        node = picture.node(line.row.target)
        says = ""
        if line.row.guard:
            says = table.guard(line.row.guard).says
        detail = ""
        if node.kind == "rung":
            detail = node.detail
        yield Rank(
            guard=decision.guard(line),
            says=says,
            target=node.name,
            kind=node.kind,
            detail=detail,
            off=line.off,
        )


def _remarks(policy: Policy, event: str) -> Iterator[str]:
    """Describe the numbers of a policy that matter for an event.

    The limits and waits of its rungs are not among them: they stand in the ladder itself.
    """
    yield from _waiting_remarks(policy, event)
    reasons = _switch_reasons(policy, event)
    if reasons:
        yield f"the next backend is asked after {', '.join(reasons)}"
    if event == "truncated" and policy.handful:
        yield f"an answer cut at a cap of {policy.handful} tokens or fewer is accepted"
    if event in RAISES_CAP:
        yield f"raised caps start at {policy.base_cap:,} tokens and end at {policy.largest_cap:,}"
    if event in EMPTY and _may_nudge(policy):
        messages = counted(policy.nudge_window, "message")
        yield f"a nudge needs a tool result among the last {messages}"
    if event == "ran_out" and policy.reserve.is_on:
        yield reserve_text(policy)


def _waiting_remarks(policy: Policy, event: str) -> Iterator[str]:
    """Describe the timeouts and waits that matter for an event."""
    clocks = policy.timeouts
    waits = policy.waits
    if event == "fell_silent":
        first = _limit(clocks.first_token)
        yield f"after {first} before the first content, {_limit(clocks.stall)} between two pieces"
    if event == "failed_transiently":
        connect = _limit(clocks.connect)
        yield f"timeouts: {connect} to connect, {_limit(clocks.total)} for a whole attempt"
    if event in MAY_ASK:
        yield f"a Retry-After of up to {duration(waits.longest_asked)} is waited for"
    if event in BROKEN:
        yield f"a retry waits as long as a reask: {span(waits.reask_base, waits.reask_cap)}"


def _switch_reasons(policy: Policy, event: str) -> list[str]:
    """List after how many replies of which kind the policy leaves a backend on an event."""
    reasons = []
    for reason, count in sorted(policy.switch_after.items()):
        if count < LARGEST_LIMIT and _is_by(reason, event):
            reasons.append(f"{count} of `{reason}`")
    return reasons


def _may_nudge(policy: Policy) -> bool:
    """Tell whether a policy allows a nudge at all."""
    has_rung = "nudge" in policy.table.rungs
    return has_rung and bool(policy.nudge_window and policy.limits.get("nudges"))


def _is_by(reason: str, event: str) -> bool:
    """Tell whether an event is one that a reason of `switch_after` counts."""
    events = SWITCH_EVENTS.get(reason)
    if events:
        return event in events
    return event == event_of_failure(Failure(reason))  # type: ignore[arg-type]


def _limit(seconds: float | None) -> str:
    return "no limit" if seconds is None else duration(seconds)


def waits_of(old: Policy, new: Policy) -> Iterator[Change]:
    """Yield the waits of each rung that differ, with how often it is taken."""
    before = settings_of(old).says
    after = settings_of(new).says
    for rung in dict.fromkeys((*old.table.declared_rungs, *new.table.declared_rungs)):
        name = rung.name
        change = Change(name, before.get(name, "never"), after.get(name, "never"))
        if rung.wait is not None and change.is_change:
            yield change
