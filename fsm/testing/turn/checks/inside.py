"""Whether each call of a turn is honest by itself, and what the turn tells of them is: journals, steps, streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import orjson

from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.reply import Text
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import RungwiseError, TurnError
from rungwise.fsm.replay.replay import replay
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.testing.checks.honesty import check_all
from rungwise.fsm.testing.checks.privacy import PRIVATE, SHORTEST
from rungwise.fsm.testing.checks.replays import REPLAYS
from rungwise.fsm.testing.turn.checks.seen import SeenTurn
from rungwise.fsm.turn.journal import TurnJournal


def check_calls(seen: SeenTurn) -> None:
    """Make every check of a call; the text that one goes on from was shown by the one before."""
    for played in seen.run.calls:
        if not played.call.is_over:
            continue
        gathered = played.call.turn.gathered
        events = [*([Text(gathered)] if gathered else []), *played.events] if played.call.is_streaming else None
        others: dict[str, Any] = {"events": events, "secrets": seen.secrets, "is_fair": seen.run.script.is_fair}
        check_all(EndedCall.of(played.call, **others))


def check_journal(seen: SeenTurn) -> None:
    """Check that the journal can be written and read, with those of its calls."""
    text = seen.journal.to_json()
    try:
        again = TurnJournal.from_json(text)
    except (RungwiseError, TypeError, ValueError) as error:
        raise Dishonest(REPLAYS, f"the journal cannot be read: {type(error).__name__}: {error}") from error
    if again.to_json() != text or again.steps != seen.steps:
        raise Dishonest(REPLAYS, "the journal that was read is another one")
    _check_replay(seen, again)
    made = [each.call.journal for each in seen.run.calls]
    if [id(each) for each in made] != [id(each) for each in seen.journal.calls][: len(made)]:
        raise Dishonest(REPLAYS, "the journal holds other calls than were made")


SAME = ("outcome", "usage", "cost", "seconds", "calls", "attempts", "cause")
SAME_WITH_CONTENTS = ("text", "handed_off")


def _check_replay(seen: SeenTurn, read: TurnJournal) -> None:
    try:
        replayed = replay(read, seen.policy if seen.policy.of_calls.table != CALL else None)
    except RungwiseError as error:
        raise Dishonest(REPLAYS, f"{type(error).__name__}: {error}") from error
    result = seen.result
    if result is None:
        return
    for name in (*SAME, *(SAME_WITH_CONTENTS if seen.journal.contents else ())):
        before, after = getattr(result, name), getattr(replayed, name)
        if before != after:
            raise Dishonest(REPLAYS, f"{name} is {before!r}, and {after!r} in the replay")


def check_privacy(seen: SeenTurn) -> None:
    """Look for texts in the journal and in what is told of the turn, where nobody asked for them."""
    document = orjson.loads(seen.journal.to_json())
    document.pop("policy")
    for call in document["calls"]:
        call.pop("policy", None)
    written = json.dumps(document, ensure_ascii=False)
    told = "\n".join(_told(seen))
    for secret in seen.secrets:
        if secret in written or secret in told:
            raise Dishonest(PRIVATE, "a secret stands in the journal or in what is told of the turn")
    if not seen.journal.contents:
        told += written
    for text in _private(seen):
        if text in told or json.dumps(text, ensure_ascii=False)[1:-1] in told:
            raise Dishonest(PRIVATE, f"{text[:40]!r} is told of the turn")


def _told(seen: SeenTurn) -> Iterator[str]:
    yield from (repr(seen.run.turn), repr(seen.journal))
    if seen.result is not None:
        yield repr(attrs.evolve(seen.result, text=""))  # its first words are what a repr is asked for
        try:
            seen.result.raise_for_outcome()
        except TurnError as error:
            yield from (str(error), repr(error))


def _private(seen: SeenTurn) -> set[str]:
    said = [each for messages in seen.run.seen[-1:] for each in messages if isinstance(each, Message)]
    texts = {each.text for each in said}
    texts |= {result.text for each in said for result in each.tool_results if not result.is_fault}
    texts |= {call.arguments for each in said for call in each.tool_calls}
    hints = seen.policy.hints
    texts -= {hints.handed_off, hints.not_run, hints.too_many}
    return {text for text in texts if len(text.strip()) >= SHORTEST and " " in text.strip()}
