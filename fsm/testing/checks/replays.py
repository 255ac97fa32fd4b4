"""Whether the journals of calls and turns can be written, read back and replayed to the same
result.
"""

from __future__ import annotations

from collections.abc import Iterable

from rungwise.fsm.analysis.replay.replay import replay
from rungwise.fsm.call.conversation.observation import WRONG
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import RungwiseError
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.turn.turn_journal import TurnJournal

REPLAYS = "the journal replays to the same result"

SAME = ("outcome", "usage", "attempts", "backend", "cause", "seconds", "cost")
SAME_WITH_CONTENTS = ("text", "final_text", "parts", "tool_calls", "reasoning")
SAME_OF_TURNS = ("outcome", "usage", "cost", "seconds", "calls", "attempts", "cause")
SAME_OF_TURNS_WITH_CONTENTS = ("text", "handed_off")


def check_replay(ended: EndedCall) -> None:
    """Write the journal, read it back, run it again, and compare."""
    journal = ended.journal
    result = ended.result
    policy = ended.policy if ended.table != CALL else None
    try:
        again = replay(Journal.from_json(journal.to_json()), policy)
    except (RungwiseError, TypeError, ValueError) as error:
        raise Dishonest(REPLAYS, f"{type(error).__name__}: {error}") from error
    for was, now in zip(ended.steps, again.journal.steps, strict=False):
        if was != now:
            raise Dishonest(REPLAYS, f"the replay took another step: {now}", was)
    if len(again.journal.steps) != len(ended.steps):
        raise Dishonest(
            REPLAYS,
            f"the replay took {len(again.journal.steps)} steps, the call {len(ended.steps)}",
        )
    same = [name for name in SAME if name != "cause" or not _quotes(journal)]
    _compare(result, again, (*same, *(SAME_WITH_CONTENTS if journal.contents else ())))


def _quotes(journal: Journal) -> bool:
    """Tell whether the cause of a call gives reasons that its journal leaves out."""
    return not journal.contents and journal.last.event in WRONG.values()


def check_turn_replay(seen: SeenTurn) -> None:
    """Check that the journal of a turn can be written and read, with those of its calls."""
    text = seen.journal.to_json()
    try:
        again = TurnJournal.from_json(text)
    except (RungwiseError, TypeError, ValueError) as error:
        raise Dishonest(
            REPLAYS, f"the journal cannot be read: {type(error).__name__}: {error}"
        ) from error
    if again.to_json() != text or again.steps != seen.steps:
        raise Dishonest(REPLAYS, "the journal that was read is another one")
    try:
        replayed = replay(again, seen.policy if seen.policy.of_calls.table != CALL else None)
    except RungwiseError as error:
        raise Dishonest(REPLAYS, f"{type(error).__name__}: {error}") from error
    if seen.result is not None:
        more = SAME_OF_TURNS_WITH_CONTENTS if seen.journal.contents else ()
        quotes = any(_quotes(call) for call in seen.journal.calls[-1:])
        same = [name for name in SAME_OF_TURNS if name != "cause" or not quotes]
        _compare(seen.result, replayed, (*same, *more))
    made = [each.call.journal for each in seen.run.calls]
    if [id(each) for each in made] != [id(each) for each in seen.journal.calls][: len(made)]:
        raise Dishonest(REPLAYS, "the journal holds other calls than were made")


def _compare(result: object, replayed: object, names: Iterable[str]) -> None:
    for name in names:
        before = getattr(result, name)
        after = getattr(replayed, name)
        if before != after:
            raise Dishonest(REPLAYS, f"{name} is {before!r}, and {after!r} in the replay")
