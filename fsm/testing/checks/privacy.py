"""Whether a call keeps what is private: neither its journal nor any text about it holds a secret or a message."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.run.result import SUCCESSES, error_of
from rungwise.fsm.journal.path import SKIPPED
from rungwise.fsm.journal.record import Step
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall

PRIVATE = "no secret and no message is told"

SHORTEST = 12
"""Texts of fewer characters, and single words, can stand in a journal by chance."""


def check_privacy(ended: EndedCall) -> None:
    """Look for secrets everywhere, and for texts wherever nobody asked for them."""
    journal = ended.journal
    told = "\n".join([repr(journal), *_sentences(ended)])
    written = journal.to_json()
    for secret in ended.secrets:
        if secret and (secret in told or secret in written):
            raise Dishonest(PRIVATE, "a secret stands in the journal or in what is told of the call")
    if not journal.contents:
        for step in ended.steps:
            if step.content is not None:
                raise Dishonest(PRIVATE, "the journal holds contents that nobody asked for", step)
        told = "\n".join([told, *(text for step in ended.steps for text in _quoted(step))])
    for text in _private(ended):
        if text in told:
            raise Dishonest(PRIVATE, f"{text[:40]!r} is told of the call")


def _sentences(ended: EndedCall) -> Iterator[str]:
    """Yield what is told of a call; the repr of a result shows the first words of its text, and no other."""
    yield repr(attrs.evolve(ended.result, cause=None, text=""))
    if ended.result.outcome not in SUCCESSES:
        error = error_of(attrs.evolve(ended.result, cause=None))
        yield from (str(error), repr(error))


def _quoted(step: Step) -> Iterator[str]:
    """Yield what a step quotes of a provider."""
    note = None if step.event in (SKIPPED, "ran_out") else step.note
    yield from (value for value in (step.stop_raw, step.code, step.reason, note) if value)


def _private(ended: EndedCall) -> set[str]:
    result = ended.result
    texts = {result.text, result.final_text, result.reasoning, *result.parts}
    texts |= {call.arguments for call in result.tool_calls}
    texts |= {failure.message for _, failure in result.failures}
    if result.reply is not None:
        texts |= {result.reply.text, result.reply.reasoning, result.reply.refusal or ""}
    if ended.request is not None:
        said = (
            message.text if isinstance(message, Message) else message.get("content")
            for message in ended.request.messages
        )
        texts |= {text for text in said if isinstance(text, str)}
    if ended.turn is not None:
        texts.add(ended.turn.prior_answer or "")
    return {text for text in texts if len(text.strip()) >= SHORTEST and " " in text.strip()}
