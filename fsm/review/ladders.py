"""What each event leads to, before and now, side by side in a page: what changes first, the rest folded away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rungwise.fsm.diagram.model import Node
from rungwise.fsm.diagram.page.ladder import state_chip
from rungwise.fsm.review.events import EventChange, Ladder, Rank


def event_parts(events: Iterable[EventChange]) -> str:
    """Write every event, with what brings it about and its ladders."""
    changed: list[EventChange] = []
    same: list[EventChange] = []
    for each in events:
        (changed if each.is_change else same).append(each)
    first = "".join(_event(each) for each in changed) or "<p>No event leads to anything else than before.</p>"
    rest = "".join(_event(each) for each in same)
    folded = f"<details><summary>The {len(same)} events that lead to the same as before</summary>{rest}</details>"
    return first + (folded if same else "")


def _event(change: EventChange) -> str:
    by = f" <b>{_coded(change.brought_by)}</b>" if change.brought_by else ""
    where = f" {escape(change.where)}" if change.where else ""
    head = f"<h3><code>{escape(change.event)}</code>{by}</h3><p class=faint>{escape(change.says)}{where}</p>"
    if change.is_change:
        body = _side("before", change.old, change.new) + _side("now", change.new, change.old)
    else:
        body = _side("before and now", change.new, change.new)
    return f'<article class="df-event">{head}<div class="df-sides">{body}</div></article>'


def _coded(text: str) -> str:
    """Write what stands between backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))


def _side(name: str, ladder: Ladder | None, other: Ladder | None) -> str:
    if ladder is None:
        return f"<div><h4>{name}</h4><p>nothing: there is no such event</p></div>"
    known = other.ranks if other is not None else ()
    remarks = {*other.remarks} if other is not None else set()
    moved = _moved(ladder.ranks, known)
    ranks = "".join(
        _rank(
            rank,
            is_same=rank in known,
            moved=f"({'was' if name == 'now' else 'now'} {moved[rank]}.)" if rank in moved else "",
        )
        for rank in ladder.ranks
    )
    notes = "".join(
        f"<li{'' if text in remarks else ' class=df-changed'}>{_coded(text)}</li>" for text in ladder.remarks
    )
    notes = f'<ul class="df-remarks">{notes}</ul>' if notes else ""
    return f"<div><h4>{name}</h4><ol class=df-ladder>{ranks}</ol>{notes}</div>"


def _moved(ranks: Sequence[Rank], others: Sequence[Rank]) -> dict[Rank, int]:
    """Return the lines that both have in another order, each with its place in the other one."""
    keys = {(rank.guard, rank.target): place for place, rank in enumerate(others, 1)}
    shared = [rank for rank in ranks if (rank.guard, rank.target) in keys]
    places = [keys[rank.guard, rank.target] for rank in shared]
    return {
        rank: place
        for rank, place, sorted_place in zip(shared, places, sorted(places), strict=True)
        if place != sorted_place
    }


def _rank(rank: Rank, *, is_same: bool, moved: str) -> str:
    names = " ".join([*(["df-off"] if rank.off else []), *([] if is_same and not moved else ["df-changed"])])
    marked = f' class="{names}"' if names else ""
    chip = state_chip(Node(rank.target, rank.kind))
    detail = f" <span>{escape(rank.detail)}</span>" if rank.detail else ""
    detail += f" <b>{moved}</b>" if moved else ""
    says = rank.off or rank.says
    off = "cannot be taken: " if rank.off else ""
    told = f"<small><code>{escape(rank.guard)}</code> {escape(off + says)}</small>"
    return f"<li{marked}>{chip}{detail}{told}</li>"
