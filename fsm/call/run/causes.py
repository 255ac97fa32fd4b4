"""What brings about each event of a call, and why a call did not simply succeed, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.engine.machine.table import Row, Table

CAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "answered": "200 with text and a clean stop",
        "called_tools": "200 with well-formed tool calls",
        "answered_wrongly": "200 with JSON that does not fit, or an answer that a verdict rejects",
        "called_wrongly": "200 with a call of an unknown tool, or with arguments that do not fit",
        "answered_uncertainly": "200 with a decision below the policy's `confidence`",
        "verdict_raised": "a verdict that raises",
        "came_empty": "200 with no text, no reasoning and no tool call",
        "only_reasoned": "200 with reasoning, but no text",
        "truncated": "finish reason `length` behind visible text",
        "paused": "finish reason `pause_turn`",
        "tools_truncated": "a tool call that is cut",
        "json_truncated": "finish reason `length` inside the JSON that was asked for",
        "reasoning_truncated": "finish reason `length` before any text",
        "ended_unclearly": "text, and then a finish reason that nobody knows",
        "interrupted": "a stream that breaks off before its end",
        "fell_silent": "a stream that says nothing for too long",
        "malformed": "200 with no usable shape, or without text behind an unknown finish reason",
        "refused": "a content filter, a safety refusal",
        "failed_transiently": "429, 408, 500 to 599, a timeout, no connection",
        "failed_permanently": "401, 402, 403, 404, any other 400 or 422, a bad certificate",
        "rejected_fixably": "400 that names one thing: a parameter, the output cap, a prefill, a "
        "signature",
        "overflowed": "413, or 400 because the prompt exceeds the context",
        "cancelled": "the caller",
        "ran_out": "the budget",
        "found_open": "what earlier calls have met at the backend",
    }
)
"""What brings about each event of the shipped table, in a few words. A bare status stands for its
usual meaning.
"""


def cause_of(
    table: Table,
    row: Row,
    evidence: Evidence,
    facts: tuple[str, ...] = (),
    found: str | None = None,
    words: str = "",
) -> str | None:
    """Return why a call did not simply succeed; None for one that is done.

    Arguments:
        table: the machine.
        row: the last row.
        evidence: what came back last.
        facts: the facts that held.
        found: what came in place of a usable reply, if that is known.
        words: what is known of the last failure, in words.
    """
    if row.target == "done":
        return None
    cause = sentence_of(table, row, facts, found)
    if words and row.event != "malformed":
        cause += f": {words}"
    if evidence.asked_wait is not None and "wait_fits" not in facts:
        cause += f"; the wait of {evidence.asked_wait:g} s that it asked for does not fit"
    if "repeats_itself" in facts:
        cause += "; the text ran in circles"
    if "asks_for_little" in facts and evidence.event == "truncated":
        cause += "; no more tokens were asked for"
    if "throttled" in facts:
        cause += "; the calls of this client have no retry left together"
    if "overran" in facts:
        cause += "; the provider took no notice of the output cap"
    return cause


def sentence_of(table: Table, row: Row, facts: tuple[str, ...], found: str | None) -> str:
    """Return the sentence of the last event, with its ending if nothing but a counter kept the call
    from going on.

    Arguments:
        table: the machine.
        row: the last row.
        facts: the facts that held.
        found: what came in place of a usable reply, if that is known.
    """
    if found is not None and row.event == "malformed":
        return f"the reply had no usable shape: it was {found}"
    at_last = False
    for each in table.ladder(row.event, row.source):
        if each.target in table.rungs and each.target != "fallback":
            guard = table.guard(each.guard)
            fits = {*guard.holds} <= {*facts} and {*guard.lacks}.isdisjoint(facts)
            at_last = at_last or fits
    return table.says(row.event, at_last=at_last)
