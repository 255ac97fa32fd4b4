"""The page of a recorded turn: its path through the table, and the pages of its calls inside the same file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from attrs import asdict

from rungwise.fsm.call.run.digest import money_of
from rungwise.fsm.call.run.explained import page_of_call
from rungwise.fsm.diagram.page import RunDetails, Setup, page_of
from rungwise.fsm.diagram.page.steps import Used
from rungwise.fsm.diagram.page.timeline import bars_of
from rungwise.fsm.journal.path import Path
from rungwise.fsm.turn.digest import KINDS, digest_of_turn
from rungwise.fsm.turn.explained import TurnPath
from rungwise.fsm.turn.table import TURN

LEGEND: Final = {"attempt": "call", "tools": "tools", "compaction": "compaction", "wait": "wait"}


def explain_turn(turn: TurnPath) -> str:
    """Write the page of a recorded turn: its path on the diagram, its timeline, every step, and every call's own page.

    Arguments:
        turn: its path; everything that a stranger wrote into it is escaped.
    """
    policy = turn.journal.setting.policy
    setup = Setup(limits=policy.limits, budget=asdict(policy.budget))
    digest = digest_of_turn(turn)
    shown = (*digest.lines, *(each for line in digest.lines if line.within for each in line.within.lines))
    kinds = {bar.kind for line in shown for bar in bars_of(line)}
    details = RunDetails(
        used=tuple(_used(turn)),
        digest=digest,
        unit="action",
        legend={kind: means for kind, means in LEGEND.items() if kind in kinds},
        asides=dict(_asides(turn)),
        pages=[None if call is None else page_of_call(call) for call in turn.calls],
        inner=turn.call_of,
    )
    return page_of(turn.path, setup, details).html


def _asides(turn: TurnPath) -> Iterator[tuple[int, str]]:
    """Yield what stands beside a step: what came back after how long, and how often that may go on."""
    limits = turn.journal.setting.policy.limits
    for before, step in pairwise(turn.path.steps):
        parts = []
        if before.event == "sent":
            kind = KINDS.get(before.source)
            what = f"call {turn.call_of[before.number]}" if kind is None else kind
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
