"""Whether a call keeps quiet: its journal replays, and neither it nor any text about it holds what is private."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from rungwise.fsm.call.journal import Journal
from rungwise.fsm.call.result import SUCCESSES, error_of
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import RungwiseError
from rungwise.fsm.replay.replay import replay
from rungwise.fsm.testing.checks.seen import SKIPPED, Dishonest, Seen

REPLAYS = "the journal replays to the same result"
QUIET = "no secret and no message is told"

SHORTEST = 12
"""Texts of fewer characters, and single words, can stand in a journal by chance."""

SAME = ("outcome", "usage", "attempts", "backend", "cause", "seconds", "cost")
SAME_WITH_CONTENTS = ("text", "final_text", "parts", "tool_calls", "reasoning")


def check_replay(seen: Seen) -> None:
    """Write the journal, read it back, run it again, and compare."""
    journal, result = seen.journal, seen.result
    policy = seen.policy if seen.table != CALL else None
    try:
        read = Journal.from_json(journal.to_json())
        again = replay(read, policy)
    except (RungwiseError, TypeError, ValueError) as error:
        raise Dishonest(REPLAYS, f"{type(error).__name__}: {error}") from error
    for was, now in zip(seen.steps, again.journal.steps, strict=False):
        if was != now:
            raise Dishonest(REPLAYS, f"the replay took another step: {now}", was)
    if len(again.journal.steps) != len(seen.steps):
        raise Dishonest(REPLAYS, f"the replay took {len(again.journal.steps)} steps, the call {len(seen.steps)}")
    for name in (*SAME, *(SAME_WITH_CONTENTS if journal.contents else ())):
        before, after = getattr(result, name), getattr(again, name)
        if before != after:
            raise Dishonest(REPLAYS, f"{name} is {before!r}, and {after!r} in the replay")


def check_quiet(seen: Seen) -> None:
    """Look for secrets everywhere, and for texts wherever nobody asked for them."""
    journal = seen.journal
    told = "\n".join([repr(journal), *_sentences(seen)])
    written = journal.to_json()
    for secret in seen.secrets:
        if secret and (secret in told or secret in written):
            raise Dishonest(QUIET, "a secret stands in the journal or in what is told of the call")
    if not journal.contents:
        for step in seen.steps:
            if step.content is not None:
                raise Dishonest(QUIET, "the journal holds contents that nobody asked for", step)
        told = "\n".join([told, *(field for step in seen.steps for field in _fields(seen, step.number - 1))])
    for text in _private(seen):
        if text in told:
            raise Dishonest(QUIET, f"{text[:40]!r} is told of the call")


def _sentences(seen: Seen) -> Iterator[str]:
    yield repr(attrs.evolve(seen.result, cause=None))
    if seen.result.outcome not in SUCCESSES:
        yield str(error_of(attrs.evolve(seen.result, cause=None)))


def _fields(seen: Seen, index: int) -> Iterator[str]:
    """Yield what a step quotes of a provider."""
    step = seen.steps[index]
    note = None if step.event in (SKIPPED, "ran_out") else step.note
    yield from (value for value in (step.stop_raw, step.code, step.reason, note) if value)


def _private(seen: Seen) -> set[str]:
    result = seen.result
    texts = {result.text, result.final_text, result.reasoning, *result.parts}
    texts |= {call.arguments for call in result.tool_calls}
    texts |= {failure.message for _, failure in result.failures}
    if result.reply is not None:
        texts |= {result.reply.text, result.reply.reasoning, result.reply.refusal or ""}
    if seen.request is not None:
        texts |= {text for message in seen.request.messages if isinstance(text := message.get("content"), str)}
    if seen.turn is not None:
        texts.add(seen.turn.prior_answer or "")
    return {text for text in texts if len(text.strip()) >= SHORTEST and " " in text.strip()}
