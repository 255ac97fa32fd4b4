"""Whether the journals of calls and turns can be written, read back and replayed.

A journal is the only record of a call. If a replay of it takes the same steps to the same result,
nothing that mattered was left out of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rungwise.fsm.analysis.replay.replay import replay
from rungwise.fsm.call.conversation.observation import WRONG
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.journal.record import Step
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
    # A journal does not contain a table of one's own, so the replay needs the policy with it.
    policy = ended.policy if ended.table != CALL else None
    try:
        again = replay(Journal.from_json(journal.to_json()), policy)
    except (RungwiseError, TypeError, ValueError) as error:
        raise Dishonest(REPLAYS, f"{type(error).__name__}: {error}") from error
    for was, now in zip(ended.steps, again.journal.steps, strict=False):
        if was != now:
            raise Dishonest(REPLAYS, f"the replay took another step: {now}", was)
    steps = len(again.journal.steps)
    if steps != len(ended.steps):
        raise Dishonest(REPLAYS, f"the replay took {steps} steps, the call {len(ended.steps)}")
    names = list(SAME)
    if _quotes(journal, journal.steps[-1:]):
        names.remove("cause")
    if journal.contents:
        names += SAME_WITH_CONTENTS
    _compare(ended.result, again, names)


def _quotes(journal: Journal, steps: Iterable[Step]) -> bool:
    """Tell whether a cause gives reasons, or words of a provider, that its journal leaves out.

    Arguments:
        journal: of a call.
        steps: those that the cause speaks of.
    """
    said = any(step.event in WRONG.values() or step.reason is not None for step in steps)
    return said and not journal.contents


def check_turn_replay(seen: SeenTurn) -> None:
    """Check that the journal of a turn can be written and read, with those of its calls."""
    text = seen.journal.to_json()
    try:
        again = TurnJournal.from_json(text)
    except (RungwiseError, TypeError, ValueError) as error:
        wrong = f"the journal cannot be read: {type(error).__name__}: {error}"
        raise Dishonest(REPLAYS, wrong) from error
    if again.to_json() != text or again.steps != seen.steps:
        raise Dishonest(REPLAYS, "the journal that was read is another one")
    policy = seen.policy if seen.policy.of_calls.table != CALL else None
    try:
        replayed = replay(again, policy)
    except RungwiseError as error:
        raise Dishonest(REPLAYS, f"{type(error).__name__}: {error}") from error
    if seen.result is not None:
        names = list(SAME_OF_TURNS)
        last = seen.journal.calls[-1] if seen.journal.calls else None
        if last is not None and _quotes(last, last.steps):  # it names every failure
            names.remove("cause")
        if seen.journal.contents:
            names += SAME_OF_TURNS_WITH_CONTENTS
        _compare(seen.result, replayed, names)
    made = [id(each.call.journal) for each in seen.run.calls]
    recorded = [id(each) for each in seen.journal.calls]
    if made != recorded[: len(made)]:
        raise Dishonest(REPLAYS, "the journal holds other calls than were made")


def _compare(result: object, replayed: object, names: Iterable[str]) -> None:
    for name in names:
        before = getattr(result, name)
        after = getattr(replayed, name)
        if before != after:
            raise Dishonest(REPLAYS, f"{name} is {before!r}, and {after!r} in the replay")
