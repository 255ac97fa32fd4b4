"""Why a recorded reply may not have come under another policy."""

from __future__ import annotations

from collections.abc import Iterator

from rungwise.fsm.call.policy import Policy, Timeouts
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.journal.record import Step

CUT_AT_CAP = frozenset({"truncated", "tools_truncated", "json_truncated", "reasoning_truncated"})
"""The events of a reply that its cap has cut."""

HINTS = {"nudge": ("nudge", "placeholder"), "continuation": ("continuation",), "prefill": ("seed",)}
"""The hints that the requests of a rung hold."""


def unclear_reply(journal: Journal, policy: Policy, was_sent: Step, sent: Step, reply: Step) -> str | None:
    """Say why the reply to an attempt may be another one under a policy; None where nothing speaks for that.

    Arguments:
        journal: what was recorded, with the policy that the call had.
        policy: the other policy.
        was_sent, sent: the attempt then, and that of the other policy.
        reply: what came back then.
    """
    return next(_reasons(journal, policy, was_sent, sent, reply), None)


def _reasons(journal: Journal, policy: Policy, was_sent: Step, sent: Step, reply: Step) -> Iterator[str]:
    old = journal.setting.policy
    rung = was_sent.source
    for name in HINTS.get(rung, ()):
        if getattr(old.hints, name) != getattr(policy.hints, name):
            yield f"hints.{name} is worded otherwise, so the reply to {rung} is not known"
    if _own_hint(journal, rung) != policy.hints.rungs.get(rung) and rung in policy.table.rungs:
        yield f"the hint of {rung} is worded otherwise, so the reply to it is not known"
    used = reply.usage.output_tokens
    if was_sent.cap != sent.cap:
        before, now = ("none" if step.cap is None else f"{step.cap:,} tokens" for step in (was_sent, sent))
        if reply.event in CUT_AT_CAP:
            yield f"the reply was cut, and its cap was {before} then and is {now} now"
        elif sent.cap is not None and used > sent.cap:
            yield f"the reply had {used:,} output tokens, and the cap is {now} now"
    link = next((each for each in journal.setting.chain if each.name == reply.backend), None)
    own = {name for name in ("first_token", "stall") if getattr(link, name, None) is not None}
    yield from _clocks(old.timeouts, policy.timeouts, own, reply, reply.at - was_sent.at)


def _own_hint(journal: Journal, rung: str) -> str | None:
    """Return what a rung of one's own said then; a journal that was read has it beside its policy."""
    recorded = journal.setting.recorded
    rungs = journal.setting.policy.hints.rungs if recorded is None else recorded.get("hints", {}).get("rungs", {})
    hint: str | None = rungs.get(rung)
    return hint


def _clocks(old: Timeouts, new: Timeouts, own: set[str], reply: Step, lasted: float) -> Iterator[str]:
    """Yield what the clocks of one attempt would have made of it; those that a backend has of its own stay."""
    for name, what in (("total", "an attempt"), ("first_token", "the first content"), ("stall", "a silence")):
        if name in own:
            continue
        before, now = _endless(getattr(old, name)), _endless(getattr(new, name))
        is_silence = name != "total"
        ended = reply.event == "fell_silent" if is_silence else reply.reason == "timeout"
        if ended and now > before and lasted >= before:
            yield f"the attempt was given up after {lasted:.3g} s, and {what} may take longer now"
        elif not ended and now < before and lasted > now:
            sure = "" if not is_silence else "; when its pieces came is not in the journal"
            yield f"the attempt took {lasted:.3g} s, and {what} may take {now:g} s at most now{sure}"


def _endless(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds
