"""Walks: sequences of faults that are made from Rungwise's own machine.

Theory: the table of a call says what a client can meet: an event of the reply, and facts that guard
each row. A fault of the catalogue is a letter; a walk is a word of one or two letters, after which
all is well, or the last one lasts. Each word is played in memory to the real table, through the
real wire, and what it covers is noted: the rows that were taken, the rows that were passed over
because their guard did not hold, and each pair of rows that follow one another. To choose the
fewest words that cover all of that is set cover, which is hard; the greedy choice is never worse
than by the logarithm of what is covered, and takes no time. Longer words were tried: they add
nothing but counters that run out sooner, which the lasting faults reach as well. Of letters that
cover the same by themselves one is enough, which makes the pairs few: all of them take two seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any, Final

from attrs import frozen

from rungwise.adapters.exam.answer import PROMPT
from rungwise.adapters.exam.cases import LIMIT, ExamCase, Then, catalogue, healthy
from rungwise.adapters.exam.wanted import Wanted
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import render
from rungwise.adapters.wires.chat.backend import OpenAIChat
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.play import Answers, Arrival, PlayClock, play
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.engine.machine.row import Row
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply

PATH: Final = "/v1/chat/completions"
ENDS: Final = {"answer": "then well", "repeat": "the last for ever"}
Covered = tuple[Any, ...]
"""A row that was taken or passed over, or two rows that follow one another."""


@frozen
class _Chain(Answers):
    """Answer a call as the stage of a case does.

    Arguments:
        case: what goes wrong at the first backend.
        backends: the chain.
        asked: the number of each request to the first backend.
    """

    case: ExamCase
    backends: tuple[OpenAIChat, ...]
    asked: list[int]

    def answer(self, call: Call, sent: Send, now: float) -> Arrival:
        """Read what the backend answers."""
        backend = self.backends[sent.backend]
        wanted = _wanted(sent, backend)
        reply = healthy(wanted)
        if sent.backend == 0:
            reply = self.case.reply(len(self.asked), wanted)
            self.asked.append(len(self.asked))
        return Arrival(_read(reply, wanted, backend), now)


def _wanted(sent: Send, backend: OpenAIChat) -> Wanted:
    messages = [message for message in sent.messages if isinstance(message, dict)]
    body = {"model": backend.model, "messages": messages, "stream": True}
    return Wanted(
        api="openai",
        path=PATH,
        body=body,
        number=1,
        model=backend.model,
        streams=True,
    )


def _read(reply: ScriptedReply, wanted: Wanted, backend: OpenAIChat) -> Reply | Failure:
    """Read a scripted reply as a client does that hears every byte of it."""
    if reply.hang and reply.cut_after is None:
        return Failure("timeout")
    rendered = render(reply, wanted.body, 1, PATH)
    headers = {"content-type": rendered.content_type, **reply.headers}
    if not rendered.is_stream:
        return backend.decode(reply.status, headers, rendered.body)
    decoder = backend.decoder(headers)
    decoder.feed(rendered.body[: reply.cut_after])
    if reply.cut_after is None:
        return decoder.close()
    return decoder.close(Failure("silence" if reply.hang else "connection"))


def covered_by(case: ExamCase) -> frozenset[Covered]:
    """Return what of the default table a case covers."""
    backends = (OpenAIChat("primary", api_key="exam"), OpenAIChat("second", api_key="exam"))
    policy = Policy()
    call = Call(Request(PROMPT), policy, backends, jitter=lambda: 0.0, observer=silent)
    play(call, _Chain(case, backends, []), PlayClock())
    table = policy.table
    covered: set[Covered] = set()
    before: Row | None = None
    for step in call.result.journal.steps:
        if step.source != table.hub:
            continue
        for row in table.ladder(step.event, step.source):
            is_taken = (row.guard, row.target) == (step.guard, step.target)
            covered.add((row, is_taken))
            if is_taken:
                covered.add((before, row))
                before = row
                break
    return frozenset(covered)


def words() -> Iterator[ExamCase]:
    """Yield every walk: one or two faults, and what follows."""
    letters = _letters()
    single = [(letter,) for letter in letters]
    double = [pair for pair in product(letters, letters) if pair[0] is not pair[1]]
    for word in [*single, *double]:
        yield from _both(word)


def _letters() -> list[ExamCase]:
    """Return the faults that the machine can tell apart: of those that cover the same, once and for
    ever, the first.
    """
    letters: dict[Covered, ExamCase] = {}
    for case in catalogue().values():
        if not case.needs and case.is_fault:
            alone = tuple(covered_by(walk) for walk in _both((case,)))
            letters.setdefault(alone, case)
    return list(letters.values())


def _both(word: tuple[ExamCase, ...]) -> list[ExamCase]:
    return [_walk(word, "answer"), _walk(word, "repeat")]


def _walk(word: tuple[ExamCase, ...], then: Then) -> ExamCase:
    """Put faults one after the other."""
    titles: list[str] = []
    names: list[str] = []
    replies: list[Mapping[str, Any]] = []
    for letter in word:
        titles.append(letter.words)
        names.append(letter.name)
        replies.append(letter.replies[0])
    limit = max(LIMIT, sum(letter.limit for letter in word))
    titles.append(ENDS[then])
    return ExamCase(
        name="+".join([*names, then]),
        title="; ".join(titles),
        replies=tuple(replies),
        then=then,
        limit=limit,
    )


@cache
def walks() -> tuple[ExamCase, ...]:
    """Return few walks that cover all that any walk covers, the one that covers most first."""
    covers = {case: covered_by(case) for case in words()}
    missing = frozenset[Covered]().union(*covers.values())
    chosen = []
    while missing:
        best = max(covers, key=lambda case: len(covers[case] & missing))
        missing -= covers[best]
        chosen.append(best)
    return tuple(chosen)
