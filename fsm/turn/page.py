"""The page of a recorded turn: its path through the table, and the pages of its calls inside the same file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from attrs import asdict

from rungwise.fsm.call.explained import money_of, page_of_call
from rungwise.fsm.diagram.page import Setup, Told, page_of, summary_of
from rungwise.fsm.diagram.page.steps import Used
from rungwise.fsm.diagram.page.timeline import Bar, drawn
from rungwise.fsm.journal.path import Path
from rungwise.fsm.turn.explained import TurnPath
from rungwise.fsm.turn.table import CALLS, TURN

LANES: Final = {"attempt": "calls", "tools": "tools", "compaction": "compaction"}
"""The lane of each kind of bar."""

LEGEND: Final = {"attempt": "call", "end": "what ended the turn", "tools": "tools", "compaction": "compaction"}


def explain_turn(turn: TurnPath) -> str:
    """Write the page of a recorded turn: its path on the diagram, its timeline, every step, and every call's own page.

    Arguments:
        turn: its path; everything that a stranger wrote into it is escaped.
    """
    policy = turn.journal.setting.policy
    setup = Setup(limits=policy.limits, budget=asdict(policy.budget))
    used = tuple(_used(turn))
    lanes = lanes_of_turn(turn)
    kinds = {bar.kind for bars in lanes.values() for bar in bars}
    legend = {kind: means for kind, means in LEGEND.items() if kind in kinds}
    told = Told(
        used=used,
        summary={"calls": len(turn.calls), **summary_of(used[-1], setup)},
        timeline=drawn(lanes, turn.path, _summary(turn), legend),
        asides=dict(_asides(turn)),
        pages=[None if call is None else page_of_call(call) for call in turn.calls],
        inner=turn.call_of,
    )
    return page_of(turn.path, setup, told).html


def lanes_of_turn(turn: TurnPath) -> dict[str, list[Bar]]:
    """Sort what a turn did into lanes: its calls, its rounds of tools, its compactions."""
    lanes: dict[str, list[Bar]] = {}
    for kind, bar in _bars(turn):
        lanes.setdefault(LANES[kind], []).append(bar)
    return {name: lanes[name] for name in LANES.values() if name in lanes}


def _bars(turn: TurnPath) -> Iterator[tuple[str, Bar]]:
    table, steps = turn.path.table, turn.path.steps
    for step, after in pairwise(steps):
        if step.target != table.hub:
            continue
        kind, seconds = _kind(step.source), after.at - step.at
        what = f"call {turn.call_of[step.number]}" if kind == "attempt" else kind
        is_end = after.target in table.outcomes and kind == "attempt"
        says = f"{what}, {seconds:.3g} s: {after.event}"
        yield kind, Bar("end" if is_end else kind, after.number, step.at, seconds, says)
    if (last := steps[-1]).target == table.hub:
        kind = _kind(last.source)
        yield kind, Bar(kind, last.number, last.at, 0.0, f"{LANES[kind]}, not ended")


def _kind(source: str) -> str:
    return "attempt" if source in CALLS else "tools" if source == "use_tools" else "compaction"


def _asides(turn: TurnPath) -> Iterator[tuple[int, str]]:
    """Yield what stands beside a step: what came back after how long, and how often that may go on."""
    limits = turn.journal.setting.policy.limits
    for before, step in pairwise(turn.path.steps):
        parts = []
        if before.event == "sent":
            kind = _kind(before.source)
            what = f"call {turn.call_of[before.number]}" if kind == "attempt" else kind
            parts.append(f"{what}, {step.at - before.at:.3g} s")
        rung = TURN.rung(step.target)
        if rung is not None and rung.name != "use_tools" and step.spent:
            parts.append(f"{rung.unit.replace('_', '-')} {step.spent[rung.counter]}/{limits[rung.counter]}")
        if parts:
            yield step.number, "; ".join(parts)


def _used(turn: TurnPath) -> Iterator[Used]:
    """Yield what was used up after each step of the turn, as the journals of its calls tell it."""
    attempts, tokens, money, settled = 0, 0, 0.0 if turn.calls else None, 0
    for step in turn.path.steps:
        number = turn.call_of.get(step.number)
        if number is not None and number > settled and step.event != "sent":
            settled = number
            call = turn.calls[number - 1]
            if call is not None:
                attempts += call.steps[-1].attempts
                tokens += sum(each.usage.output_tokens for each in call.steps)
                money = _sum(money, call)
        yield Used(attempts, step.at, tokens, money)


def _sum(money: float | None, call: Path) -> float | None:
    paid = list(money_of(call))[-1]
    return None if money is None or paid is None else money + paid


def _summary(turn: TurnPath) -> str:
    bars = [bar for _, bar in _bars(turn)]
    tools = sum(bar.seconds for bar in bars if bar.kind == "tools")
    calls = f"{len(turn.calls)} call{'' if len(turn.calls) == 1 else 's'}"
    return f"{calls} in {turn.path.steps[-1].at:.3g} s, of which {tools:.3g} s were tools"
