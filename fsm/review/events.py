"""What each event leads to under two policies: the ladders side by side, with limits, waits and other numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import EMPTY_REPLY, Policy
from rungwise.fsm.call.run.causes import BROUGHT_BY
from rungwise.fsm.call.table import MAY_ASK
from rungwise.fsm.certificate.shown.settings import settings_of, table_of
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.merge import merged
from rungwise.fsm.diagram.model import Decision, Kind, Picture
from rungwise.fsm.failures.failure import Failure, event_of_failure
from rungwise.fsm.machine.table import Table
from rungwise.fsm.review.words import counted, duration, kept_for_others, retries_after_malformed
from rungwise.fsm.turn.policy import TurnPolicy


@frozen
class Rank:
    """Hold one line of a ladder.

    Arguments:
        guard: what must hold, by name, or `otherwise`.
        says: the same in words.
        target, kind: where it leads.
        detail: the limit and the waits of a rung.
        off: why it can never be taken; None where it can.
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
        ranks: its lines, in the order in which they are tried.
        remarks: the numbers of the policy that bear on this event besides.
        where: the states in which it comes, unless it comes at the hub or everywhere.
    """

    ranks: tuple[Rank, ...]
    remarks: tuple[str, ...] = ()
    where: str = ""

    @property
    def taken(self) -> tuple[Rank, ...]:
        """List the lines that can be taken."""
        return tuple(rank for rank in self.ranks if rank.off is None)

    def __str__(self) -> str:
        return ", ".join(map(str, self.taken))


@frozen
class EventChange:
    """Hold one event with its ladders before and now.

    Arguments:
        event: its name.
        says: its sentence.
        brought_by: what brings it about, in the words of HTTP; "" where nothing does.
        where: the states in which it comes, unless it comes at the hub or everywhere.
        old, new: its ladders; None where the table has none.
    """

    event: str
    says: str
    brought_by: str
    where: str
    old: Ladder | None
    new: Ladder | None

    @property
    def is_change(self) -> bool:
        """Tell whether anything changes in effect."""
        if self.old is None or self.new is None:
            return True
        return self.leads_elsewhere or self.old.remarks != self.new.remarks

    @property
    def leads_elsewhere(self) -> bool:
        """Tell whether its ladder changes: a line, a limit, a wait or their order, not a number besides alone."""
        if self.old is None or self.new is None:
            return True
        return self.old.taken != self.new.taken


def event_groups(events: Iterable[EventChange]) -> Iterator[tuple[str, list[EventChange]]]:
    """Yield the events that change, those of which only a number besides the ladder does apart, with their titles."""
    changed = [each for each in events if each.is_change]
    elsewhere = [each for each in changed if each.leads_elsewhere]
    beside = [each for each in changed if not each.leads_elsewhere]
    if elsewhere:
        yield "Events that lead to something else", elsewhere
    if beside:
        yield "Events that lead to the same, with other numbers", beside


def events_of(old: Policy | TurnPolicy, new: Policy | TurnPolicy) -> tuple[EventChange, ...]:
    """List every event that something decides on, with what it leads to under both policies."""
    before, after = _ladders(old), _ladders(new)
    table = table_of(new)
    told = BROUGHT_BY if isinstance(new, Policy) else {}
    return tuple(
        EventChange(
            event,
            table.says(event) if event in table.events else table_of(old).says(event),
            told.get(event, ""),
            (after.get((event, number)) or before[event, number]).where,
            before.get((event, number)),
            after.get((event, number)),
        )
        for event, number in merged(list(before), list(after))
    )


def _ladders(policy: Policy | TurnPolicy) -> dict[tuple[str, int], Ladder]:
    """Return the ladders of each event, numbered where it has several in different states."""
    table = table_of(policy)
    picture = picture_of(table, settings=settings_of(policy))
    found: dict[tuple[str, int], Ladder] = {}
    for each in picture.decisions:
        if each.event != "sent":
            number = sum(event == each.event for event, _ in found)
            remarks = remarks_on(policy, each.event) if isinstance(policy, Policy) else ()
            ranks = tuple(_ranks(table, picture, each))
            found[each.event, number] = Ladder(ranks, tuple(remarks), _where(table, each))
    return found


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


def remarks_on(policy: Policy, event: str) -> Iterator[str]:
    """Say which numbers of a policy bear on an event besides the limits and waits of its rungs."""
    clocks = policy.timeouts
    if event == "fell_silent":
        yield f"after {_limit(clocks.first_token)} before the first content, {_limit(clocks.stall)} between two pieces"
    if event == "failed_transiently":
        yield f"timeouts: {_limit(clocks.connect)} to connect, {_limit(clocks.total)} for a whole attempt"
    if event in MAY_ASK:
        yield f"a wait that the service asks for is kept up to {duration(policy.waits.longest_asked)}"
    if event == "malformed":
        yield f"a retry waits here as a reask does: {retries_after_malformed(policy)}"
    left = ", ".join(f"{count} of `{reason}`" for reason, count in _leaving(policy, event))
    if left:
        yield f"the backend is left for the next one after {left}"
    if event == "truncated" and policy.handful:
        yield f"an answer cut at a cap of {policy.handful} tokens or fewer is what was asked for"
    if event in ("truncated", "paused", "tools_truncated", "json_truncated", "reasoning_truncated"):
        yield f"raised caps start from {policy.base_cap:,} tokens and end at {policy.largest_cap:,}"
    nudges = policy.nudge_window and "nudge" in policy.table.rungs and policy.limits.get("nudges")
    if event in ("came_empty", "only_reasoned") and nudges:
        yield f"a nudge needs a tool result among the last {counted(policy.nudge_window, 'message')}"
    if event == "ran_out" and policy.reserve.is_on:
        yield kept_for_others(policy)


def _leaving(policy: Policy, event: str) -> Iterator[tuple[str, int]]:
    for reason, count in sorted(policy.switch_after.items()):
        if reason == EMPTY_REPLY:
            is_here = event in ("came_empty", "only_reasoned")
        else:
            is_here = event_of_failure(Failure(reason)) == event  # type: ignore[arg-type]
        if is_here and count < LARGEST_LIMIT:
            yield reason, count


def _limit(seconds: float | None) -> str:
    return "no limit" if seconds is None else duration(seconds)
