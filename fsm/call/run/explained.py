"""The page of a recorded call: its path through the table, and what was left of its budget after each step."""

from __future__ import annotations

from attrs import asdict

from rungwise.fsm.call.conversation.link import most_keys
from rungwise.fsm.call.run.digest import digest_of_call, money_of
from rungwise.fsm.call.run.journal import Journal, Setting
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram.page import Page, Setup, explain_page
from rungwise.fsm.journal.path import Path, read_path
from rungwise.fsm.machine.table import Table


def read_call(text: str | bytes, table: Table = CALL) -> Path:
    """Read the journal of a call, or raise a ConfigurationError; find the rows that its steps took in its table."""
    return read_path(text, table, Journal)


def explain_call(path: Path) -> str:
    """Write the page of a recorded call: its path on the diagram, its timeline, and all its steps, escaped."""
    return page_of_call(path).html


def page_of_call(path: Path) -> Page:
    """Make the page of a recorded call in parts, to be embedded in the page of a turn."""
    setting: Setting = path.record.setting
    limits = setting.policy.limits.bounded(path.table.limits, len(setting.chain), most_keys(setting.chain))
    setup = Setup(limits=limits, budget=asdict(setting.policy.budget))
    return explain_page(path, setup, digest=digest_of_call(path), money=tuple(money_of(path)))
