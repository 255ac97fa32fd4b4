"""Why a recorded reply need not be the reply to a request that is sent under another policy.

It need not if the request would differ: by a hint, by its output cap, or by what its rung changes.
Nor if the attempt would end at another time: by a time limit that is shorter or longer now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import evolve

from rungwise.fsm.call.policy import FIRST_TOKEN, Policy, Timeouts
from rungwise.fsm.call.run.call_journal import Setting
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.table import Table

CUT_AT_CAP: Final = frozenset(
    {"truncated", "tools_truncated", "json_truncated", "reasoning_truncated"}
)
"""The events of a reply that was cut at its cap."""

HINTS: Final = {
    "nudge": ("nudge", "placeholder"),
    "continuation": ("continuation",),
    "prefill": ("seed",),
}
"""The hints in the requests of each rung."""

_CLOCKS: Final = {
    "total": "an attempt",
    "first_token": "the first content",
    "stall": "a silence",
}
"""The time limits of an attempt, each with what it limits."""


def doubts_of(
    setting: Setting,
    policy: Policy,
    old_table: Table,
    *,
    was_sent: Step,
    sent: Step,
    reply: Step,
) -> Iterator[str]:
    """Yield each reason why a reply is unknown, in words.

    Arguments:
        setting: that of the recorded call.
        policy: the new policy.
        old_table: the table that the recorded call ran on.
        was_sent, sent: the step that sent the request, then and now.
        reply: the recorded step that its reply or failure caused.
    """
    rung = was_sent.source
    yield from _changed_hints(setting, policy, rung)
    yield from _changed_cap(was_sent, sent, reply)
    yield from _changed_clocks(setting, policy, was_sent, reply)
    declared = old_table.rung(rung)
    redeclared = policy.table.rung(rung)
    if declared and redeclared and declared.change != redeclared.change:
        yield f"{rung} changes the request in another way, so the reply to it is unknown"


def _changed_hints(setting: Setting, policy: Policy, rung: str) -> Iterator[str]:
    """Yield which hints in the requests of a rung have changed."""
    old = setting.policy.hints
    new = policy.hints
    for name in HINTS.get(rung, ()):
        if getattr(old, name) != getattr(new, name):
            yield f"hints.{name} has changed, so the reply to {rung} is unknown"
    rung_hints = old.rungs
    # A journal that was read has the hints of rungs of your own beside its policy.
    if setting.recorded is not None:
        rung_hints = setting.recorded.get("hints", {}).get("rungs", {})
    if rung_hints.get(rung) != new.rungs.get(rung) and rung in policy.table.rungs:
        yield f"the hint of {rung} has changed, so the reply to it is unknown"


def _changed_clocks(setting: Setting, policy: Policy, was_sent: Step, reply: Step) -> Iterator[str]:
    """Yield how other time limits would have changed an attempt.

    Arguments:
        setting, policy, was_sent, reply: as in `doubts_of`.
    """
    link = next((each for each in setting.chain if each.name == reply.backend), None)
    own = set()
    thinks_for = None
    if link is not None:
        own = {name for name in ("first_token", "stall") if getattr(link, name) is not None}
        thinks_for = link.thinks_for
    old = _with_thinking(setting.policy.timeouts, thinks_for)
    new = _with_thinking(policy.timeouts, thinks_for)
    yield from _clocks(old, new, own, reply, reply.at - was_sent.at)


def _changed_cap(was_sent: Step, sent: Step, reply: Step) -> Iterator[str]:
    """Yield why another output cap would have changed a reply."""
    if was_sent.cap == sent.cap:
        return
    before = _cap_text(was_sent)
    now = _cap_text(sent)
    used = reply.usage.output_tokens
    if reply.event in CUT_AT_CAP:
        yield f"the reply was cut, and its cap was {before} then and is {now} now"
    elif sent.cap is not None and used > sent.cap:
        yield f"the reply had {used:,} output tokens, and the cap is {now} now"


def _cap_text(step: Step) -> str:
    return "none" if step.cap is None else f"{step.cap:,} tokens"


def _with_thinking(timeouts: Timeouts, thinks_for: float | None) -> Timeouts:
    """Return the longest clocks of a backend that thinks for so many seconds.

    A recorded policy does not say whether its `first_token` was the default, so its value decides.
    """
    if thinks_for is None or timeouts.first_token != FIRST_TOKEN:
        return timeouts
    return evolve(timeouts, first_token=max(FIRST_TOKEN, thinks_for))


def _clocks(
    old: Timeouts, new: Timeouts, own: set[str], reply: Step, lasted: float
) -> Iterator[str]:
    """Yield how the time limits of an attempt would change it.

    Arguments:
        old, new: the time limits then and now.
        own: the limits that the backend sets itself; those stay.
        reply: what came back.
        lasted: the seconds that the attempt took.
    """
    for name, what in _CLOCKS.items():
        if name in own:
            continue
        before = _endless(getattr(old, name))
        now = _endless(getattr(new, name))
        if name == "total":
            has_ended = reply.reason == "timeout"
            doubt = ""
        else:
            has_ended = reply.event == "fell_silent"
            doubt = "; the journal does not say when its pieces arrived"
        if has_ended and now > before and lasted >= before:
            yield f"the attempt was given up after {lasted:.3g} s, and {what} may take longer now"
        elif not has_ended and now < before and lasted > now:
            yield (
                f"the attempt took {lasted:.3g} s, and {what} may take {now:g} s at most now{doubt}"
            )


def _endless(seconds: float | None) -> float:
    """Return a time limit as a number: None sets none."""
    return float("inf") if seconds is None else seconds
