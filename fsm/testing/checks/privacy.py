"""Whether privacy holds: no journal and no text about a call or turn has a secret or a message.

Journals, errors and reprs end in logs and bug reports. They may name states, counters, models and
codes, but nothing that a user or a model wrote. So every text about a call is written down here and
searched for what was said in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import attrs
import orjson

from rungwise.fsm.call.run.result import SUCCESSES, error_of
from rungwise.fsm.call.table import UNSENT
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.turn.result import TurnError

PRIVATE = "no secret and no message leaks"

SHORTEST = 12
"""Texts of fewer characters, and single words, can stand in a journal by chance."""


def check_privacy(ended: EndedCall) -> None:
    """Look for secrets everywhere, and for messages unless contents were asked for."""
    journal = ended.journal
    of_journal = repr(journal)
    about = "\n".join([of_journal, *_sentences(ended)])
    written = journal.to_json()
    _check_secrets(ended.secrets, f"{about}\n{written}", "the call")
    if not journal.contents:
        quotes: list[str] = []
        for step in ended.steps:
            if step.content is not None:
                raise Dishonest(PRIVATE, "the journal holds contents that nobody asked for", step)
            quotes += _quoted(step)
        about = "\n".join([about, *quotes])
        of_journal = "\n".join([of_journal, *quotes])
    _check_texts(_private(ended), about, "the call")
    # errors may quote what a provider says of a failure
    said = {failure.message for _, failure in ended.result.failures}
    _check_texts(said, of_journal, "the call")


def _check_secrets(secrets: Iterable[str], about: str, what: str) -> None:
    if any(secret and secret in about for secret in secrets):
        raise Dishonest(PRIVATE, f"a secret appears in the journal or in a text about {what}")


def _check_texts(texts: Iterable[str], about: str, what: str) -> None:
    for text in texts:
        words = text.strip()
        if len(words) < SHORTEST or " " not in words:
            continue
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        if text in about or escaped in about:
            raise Dishonest(PRIVATE, f"{text[:40]!r} appears in a text about {what}")


def _sentences(ended: EndedCall) -> Iterator[str]:
    """Yield every text about a call.

    The repr of a result shows the beginning of its text on purpose, so that is left out.
    """
    yield repr(attrs.evolve(ended.result, cause=None, text=""))
    if ended.result.outcome not in SUCCESSES:
        error = error_of(attrs.evolve(ended.result, cause=None))
        yield str(error)
        yield repr(error)


def _quoted(step: Step) -> Iterator[str]:
    """Yield what a step quotes of a provider."""
    quotes = [step.stop_raw, step.code, step.reason]
    if step.event not in (SKIPPED, *UNSENT):  # the note of these is our own
        quotes.append(step.note)
    yield from filter(None, quotes)


def _private(ended: EndedCall) -> set[str]:
    """Return what was said in a call, by either side."""
    result = ended.result
    texts = {result.text, result.final_text, result.reasoning, *result.parts}
    texts |= {call.arguments for call in result.tool_calls}
    if result.reply is not None:
        texts |= {result.reply.text, result.reply.reasoning, result.reply.refusal or ""}
    if ended.request is not None:
        for each in ended.request.messages:
            content = each.text if isinstance(each, Message) else each.get("content")
            if isinstance(content, str):
                texts.add(content)
    if ended.turn is not None:
        texts.add(ended.turn.prior_answer or "")
    return texts


def check_turn_privacy(seen: SeenTurn) -> None:
    """Look for secrets everywhere, and for messages unless contents were asked for."""
    document = orjson.loads(seen.journal.to_json())
    document.pop("policy")
    for call in document["calls"]:
        call.pop("policy", None)
    written = json.dumps(document, ensure_ascii=False)
    about = "\n".join(_texts_about_turn(seen))
    _check_secrets(seen.secrets, f"{about}\n{written}", "the turn")
    if not seen.journal.contents:
        about += written
    _check_texts(_private_of_turn(seen), about, "the turn")


def _texts_about_turn(seen: SeenTurn) -> Iterator[str]:
    """Yield every text about a turn; of the result, without the beginning of its text."""
    yield repr(seen.run.turn)
    yield repr(seen.journal)
    if seen.result is not None:
        yield repr(attrs.evolve(seen.result, text=""))
        try:
            seen.result.raise_for_outcome()
        except TurnError as error:
            yield str(error)
            yield repr(error)


def _private_of_turn(seen: SeenTurn) -> set[str]:
    """Return what was said in a turn, apart from the policy's own words."""
    texts: set[str] = set()
    messages = seen.run.seen[-1] if seen.run.seen else ()
    for each in messages:
        if not isinstance(each, Message):
            continue
        texts.add(each.text)
        texts |= {result.text for result in each.tool_results if not result.is_fault}
        texts |= {call.arguments for call in each.tool_calls}
    hints = seen.policy.hints
    return texts - {hints.handed_off, hints.not_run, hints.too_many}
