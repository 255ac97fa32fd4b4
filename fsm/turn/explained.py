"""Reading a recorded turn, or a recorded call, as it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import orjson
from attrs import asdict

from rungwise.fsm.call.chain.link import any_background, most_keys
from rungwise.fsm.call.run.call_digest import digest_of_call, money_of
from rungwise.fsm.call.run.call_journal import Journal, Setting
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page import Page, RunDetails, Setup, explain_page, page_of
from rungwise.fsm.diagram.page.run_page import Used, bars_of
from rungwise.fsm.engine.journal.path import Path, read_path
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.observe import counts_of
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.turn.turn_digest import KINDS, TurnPath, digest_of_turn, turn_path_of
from rungwise.fsm.turn.turn_journal import TurnJournal


def read_call(text: str | bytes, table: Table = CALL) -> Path:
    """Read the journal of a call, or raise a ConfigurationError; find the rows that its steps took
    in its table.
    """
    return read_path(text, table, Journal)


def explain_call(path: Path) -> str:
    """Write the page of a recorded call: its path on the diagram, its timeline, and all its steps,
    escaped.
    """
    return page_of_call(path).html


def page_of_call(path: Path) -> Page:
    """Make the page of a recorded call in parts, to be embedded in the page of a turn."""
    setting: Setting = path.record.setting
    chain = setting.chain
    limits = setting.policy.limits.bounded(
        path.table.limits,
        len(chain),
        most_keys(chain),
        any_background(chain),
    )
    setup = Setup(limits=limits, budget=asdict(setting.policy.budget))
    return explain_page(path, setup, digest=digest_of_call(path), money=tuple(money_of(path)))


def read_turn(text: str | bytes, table: Table = CALL) -> TurnPath:
    """Read the journal of a turn, or raise a ConfigurationError; find the rows that its steps and
    its calls took.
    """
    path = read_path(text, TURN, TurnJournal)
    assert isinstance(path.record, TurnJournal)
    return turn_path_of(path, path.record.calls, table)


def read_recorded(text: str | bytes, table: Table = CALL) -> Path | TurnPath:
    """Read the journal of a call or of a turn; see `read_call` and `read_turn`."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"journal: no JSON ({error})") from None
    if isinstance(document, dict) and document.get("table") == TURN.name:
        return read_turn(text, table)
    return read_call(text, table)


LEGEND: Final = {"attempt": "call", "tools": "tools", "compaction": "compaction", "wait": "wait"}


def explain_turn(turn: TurnPath) -> str:
    """Write the page of a recorded turn, with its diagram, its timeline, every step, and the page
    of every call.
    """
    policy = turn.policy
    setup = Setup(limits=policy.limits, budget=asdict(policy.budget))
    digest = digest_of_turn(turn)
    lines = list(digest.lines)
    for line in digest.lines:
        if line.within:
            lines += line.within.lines
    kinds = {bar.kind for line in lines for bar in bars_of(line)}
    legend = {kind: means for kind, means in LEGEND.items() if kind in kinds}
    pages = [None if call is None else page_of_call(call) for call in turn.calls]
    details = RunDetails(
        used=tuple(_used(turn)),
        digest=digest,
        unit="action",
        legend=legend,
        asides=dict(_asides(turn)),
        pages=pages,
        inner=turn.call_of,
    )
    return page_of(turn.path, setup, details).html


def _asides(turn: TurnPath) -> Iterator[tuple[int, str]]:
    """Yield the remark beside a step: what came back after how long, and the units spent of how
    many.
    """
    for before, step in pairwise(turn.path.steps):
        parts = []
        if before.event == "sent":
            what = KINDS.get(before.source)
            if what is None:
                what = f"call {turn.call_of[before.number]}"
            parts.append(f"{what}, {step.at - before.at:.3g} s")
        if step.spent:
            counts = counts_of(step.target, step.spent.__getitem__, turn.policy)
            if counts:
                parts.append(counts)
        if parts:
            yield step.number, "; ".join(parts)


def _used(turn: TurnPath) -> Iterator[Used]:
    attempts = 0
    tokens = 0
    money = 0.0 if turn.calls else None
    settled = 0
    for step in turn.path.steps:
        number = turn.call_of.get(step.number)
        if number is not None and number > settled and step.event != "sent":
            settled = number
            call = turn.calls[number - 1]
            if call is not None:
                attempts += call.steps[-1].attempts
                tokens += sum(each.usage.output_tokens for each in call.steps)
                *_, paid = money_of(call)
                if money is not None:
                    money = None if paid is None else money + paid
        yield Used(attempts, step.at, tokens, money)
