"""Whether the journal of a call can be written, read back and replayed to the same result."""

from __future__ import annotations

from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import RungwiseError
from rungwise.fsm.replay.replay import replay
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall

REPLAYS = "the journal replays to the same result"

SAME = ("outcome", "usage", "attempts", "backend", "cause", "seconds", "cost")
SAME_WITH_CONTENTS = ("text", "final_text", "parts", "tool_calls", "reasoning")


def check_replay(ended: EndedCall) -> None:
    """Write the journal, read it back, run it again, and compare."""
    journal, result = ended.journal, ended.result
    policy = ended.policy if ended.table != CALL else None
    try:
        read = Journal.from_json(journal.to_json())
        again = replay(read, policy)
    except (RungwiseError, TypeError, ValueError) as error:
        raise Dishonest(REPLAYS, f"{type(error).__name__}: {error}") from error
    for was, now in zip(ended.steps, again.journal.steps, strict=False):
        if was != now:
            raise Dishonest(REPLAYS, f"the replay took another step: {now}", was)
    if len(again.journal.steps) != len(ended.steps):
        raise Dishonest(REPLAYS, f"the replay took {len(again.journal.steps)} steps, the call {len(ended.steps)}")
    for name in (*SAME, *(SAME_WITH_CONTENTS if journal.contents else ())):
        before, after = getattr(result, name), getattr(again, name)
        if before != after:
            raise Dishonest(REPLAYS, f"{name} is {before!r}, and {after!r} in the replay")
