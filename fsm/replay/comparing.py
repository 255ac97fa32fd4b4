"""Say in what a replayed step differs from the recorded one."""

from __future__ import annotations

import attrs

from rungwise.fsm.errors import JournalMismatch
from rungwise.fsm.journal.record import Step
from rungwise.fsm.values.label import short


def check_alike(was: Step, now: Step) -> None:
    """Refuse a step that is not what was recorded.

    Arguments:
        was: the recorded step.
        now: that of the replay.

    Raises:
        JournalMismatch: they differ; the message names the step and the first difference.
    """
    if was == now:
        return
    for attribute in attrs.fields(Step):
        before, after = getattr(was, attribute.name), getattr(now, attribute.name)
        if before != after and attribute.name != "content":
            told = f"{attribute.name} is {short(before)} in the journal and {short(after)} in the replay"
            raise JournalMismatch(f"step {was.number}: {told}")
    raise JournalMismatch(f"step {was.number}: the contents differ")
