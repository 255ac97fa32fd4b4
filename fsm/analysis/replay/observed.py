"""What a call observed at a recorded step, read back from its journal.

A journal without contents has no texts, so the observation has none either: the replay of a call
then takes the same path, with empty texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rungwise.fsm.call.conversation.changes import GOES_ON
from rungwise.fsm.call.conversation.observation import (
    RAISED,
    UNCERTAIN,
    WRONG,
    Finding,
    Observation,
)
from rungwise.fsm.engine.journal.record import OF_EVIDENCE, Evidence, Step
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply


def observation_of(step: Step, backend: int) -> Observation:
    """Return what the call observed at a step; texts are there only if the journal has contents."""
    content = step.content or {}
    delivered = content.get("delivered", "")
    # what a cancelled attempt had brought is all delivered
    remaining = delivered if step.event == "cancelled" else ""
    part = content.get("part", remaining)
    new = content.get("new", remaining)
    spare = content.get("spare", "")
    unsays = content.get("unsays", False)
    reasoning = content.get("reasoning", "")
    reply = None
    failure = None
    finding = None
    if "tool_calls" in content:
        reply = _reply_of(step, content)
    if step.reason is not None:
        failure = _failure_of(step, step.reason, content.get("provider", ""))
    if step.event in (RAISED, *WRONG.values()):
        reasons = tuple(content.get("reasons", ()))
        finding = Finding(note=step.note or "wrong", reasons=reasons)
    thinks_inline = "thinks_inline" in step.facts
    return Observation(
        evidence=_evidence_of(step),
        part=part,
        new=new,
        spare=spare,
        unsays=unsays,
        reasoning=reasoning,
        thinks_inline=thinks_inline,
        backend=backend,
        delivered=delivered,
        reply=reply,
        failure=failure,
        found=_found(step),
        finding=finding,
    )


def _found(step: Step) -> str | None:
    """Return what came in place of a reply, or what is known of why none came, in words."""
    if step.event == UNCERTAIN:
        return step.note
    is_failure = step.event == "malformed" or step.reason is not None
    return step.note if is_failure and "repair_known" not in step.facts else None


def _evidence_of(step: Step) -> Evidence:
    """Return what the journal records of what came back."""
    parts = {name: getattr(step, name) for name in ("event", *OF_EVIDENCE)}
    is_repair = "repair_known" in step.facts or step.note == GOES_ON
    repair = step.note if is_repair else None
    return Evidence(**parts, repair=repair)


def _failure_of(step: Step, reason: str, quote: str) -> Failure:
    """Return the failure of a step, as far as the provider described it."""
    generation = None
    if "keeps_running" in step.facts:
        generation = "kept"
    return Failure(
        reason,  # type: ignore[arg-type] # the journal holds what a Failure held
        status=step.status,
        code=step.code,
        asked_wait=step.asked_wait,
        is_stale="connection_was_stale" in step.facts,
        found=_found(step),
        quote=quote,
        generation=generation,
    )


def _reply_of(step: Step, content: Mapping[str, Any]) -> Reply:
    """Return the reply of a step whose contents were recorded."""
    text = content["part"] or content.get("delivered", "")
    calls = [ToolCall(*call) for call in content["tool_calls"]]
    return Reply(
        text,
        final_text=content.get("final_text"),
        tool_calls=tuple(calls),
        usage=step.usage,
        reasoning=content.get("reasoning", ""),
        stop_raw=step.stop_raw,
    )
