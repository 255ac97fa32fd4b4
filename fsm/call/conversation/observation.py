"""What came back from one attempt, as the rest of a call must know it, and what verdicts found of
it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.values.label import short

LONGEST_REASONS: Final = 2_000
"""Bytes of the reasons that go back to the model, in UTF-8. Each may be a token."""

Verdict = Callable[..., str | None] | Callable[..., Awaitable[str | None]]
"""Judge a reply: given the `Reply` with the whole text, and the value if it takes two arguments.

It returns None, or one sentence for the model; it may be async.
"""


class BadVerdict(TypeError):
    """Say that a verdict returned something else than None or a sentence."""


@frozen(kw_only=True)
class Finding:
    """Hold what was found of a reply.

    Arguments:
        value: what the caller wanted back, if the reply is right.
        reasons: why it is wrong, in sentences for the model; they may quote it.
        note: that it is wrong, and where, for a journal: it quotes nothing of the reply. "" if it
            is right.
        of_calls: what is wrong with each of its tool calls, or "".
        raised: what a verdict has raised.
    """

    value: Any = field(default=None, repr=False)
    reasons: tuple[str, ...] = field(default=(), repr=False)
    note: str = ""
    of_calls: tuple[str, ...] = field(default=(), repr=False)
    raised: Exception | None = None

    @classmethod
    def wrong(
        cls, reasons: Iterable[str], places: Iterable[str] = (), of_calls: Iterable[str] = ()
    ) -> Finding:
        """Say why a reply is wrong, and where."""
        note = "wrong"
        where = ", ".join(dict.fromkeys(places))
        if where:
            note = f"wrong: {where}"
        return cls(reasons=tuple(reasons), note=note, of_calls=tuple(of_calls))

    @classmethod
    def raising(cls, error: Exception) -> Finding:
        """Say that a verdict has raised."""
        note = f"a verdict raised {type(error).__name__}"
        if isinstance(error, BadVerdict):
            note = str(error)
        return cls(raised=error, note=note)

    @property
    def is_right(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.note

    @property
    def in_words(self) -> str:
        """Join the reasons, cut to `LONGEST_REASONS`."""
        return cut_reasons("\n".join(self.reasons))


def cut_reasons(text: str, most: int = LONGEST_REASONS) -> str:
    """Cut reasons that are too long for a correction."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    return f"{data[: most - 3].decode('utf-8', 'ignore')}…"


@frozen
class Judged:
    """Hold a reply for verdicts to judge, and what they have said of it so far."""

    reply: Any  # with the whole text of the answer
    finding: Finding  # of the schemas, which found nothing wrong
    verdicts: tuple[Verdict, ...]

    def asked(self) -> Iterable[Callable[[], Any]]:
        """Return each verdict, ready to be called."""
        both = (self.reply, self.finding.value)
        return [partial(verdict, *both[: _takes(verdict)]) for verdict in self.verdicts]

    def run(self) -> Finding:
        """Call the verdicts in this thread and return what they found; for what has no async
        ones.
        """
        sentences = []
        for ask in self.asked():
            try:
                sentences.append(ask())
            except Exception as error:
                return Finding.raising(error)
        return self.found(sentences)

    def found(self, sentences: Iterable[Any]) -> Finding:
        """Return the finding with what the verdicts returned."""
        reasons = [sentence for sentence in sentences if sentence is not None]
        for reason in reasons:
            if isinstance(reason, str) and reason.strip():
                continue
            # its type alone is named: it may hold the reply
            what = "an empty text" if isinstance(reason, str) else type(reason).__name__
            error = BadVerdict(f"a verdict must return None or a sentence, not {what}")
            return Finding.raising(error)
        if reasons:
            return Finding.wrong(reasons)
        return self.finding


def verdicts_of(verdict: Any) -> tuple[Verdict, ...]:
    """Return one verdict or several as a tuple, or refuse what is no function of a reply, or of it
    and its value.
    """
    if verdict is None:
        return ()
    verdicts = (verdict,)
    if isinstance(verdict, Iterable) and not callable(verdict):
        verdicts = tuple(verdict)
    for each in verdicts:
        if not callable(each) or not 1 <= _takes(each) <= 2:
            name = getattr(each, "__name__", type(each).__name__)
            raise ConfigurationError(
                "verdict must be a function that takes the reply, or the reply and its value, or "
                f"a list of such functions, which {short(name)} is not"
            )
    return verdicts


def _takes(verdict: Verdict) -> int:
    """Count the arguments that a function needs; one if nobody can tell, three if one of them can
    only be given by name.
    """
    try:
        parameters = inspect.signature(verdict).parameters.values()
    except (TypeError, ValueError):
        return 1
    needed = 0
    takes_any = False
    for each in parameters:
        is_needed = each.default is each.empty
        if each.kind is each.KEYWORD_ONLY and is_needed:
            return 3
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            takes_any = True
            needed += is_needed
        elif each.kind is each.VAR_POSITIONAL:
            takes_any = True
    return max(needed, takes_any)


ANSWERS: Final = frozenset({"answered", "called_tools"})
"""The events that are a success, and the only ones."""

WRONG: Final[Mapping[str, str]] = MappingProxyType(
    {"answered": "answered_wrongly", "called_tools": "called_wrongly"}
)
"""What each of them becomes where the reply is wrong."""

UNCERTAIN: Final = "answered_uncertainly"
"""The event of a decision with an answer that is less certain than the policy asks for."""

UNCLEAR: Final = "ended_unclearly"
"""The event of a text with a finish reason that nobody knows: it may be whole, or cut, or called
off. It is never continued, and stands only if nothing better comes.
"""

RAISED: Final = "verdict_raised"
"""What it becomes if a verdict raises: the call fails, whatever was gathered."""


@frozen(kw_only=True)
class Observation:
    """Hold one reply or failure as the machine and the answer take it; a journal may keep its
    `evidence`.
    """

    evidence: Evidence
    part: str = field(default="", repr=False)
    new: str = field(default="", repr=False)  # what of that was not in the answer yet
    # text that is not continued, kept in case nothing else comes: it is cut too short, or wrong, or
    # its end is unclear
    spare: str = field(default="", repr=False)
    unsays: bool = False  # whether it shows the text gathered so far to be reasoning
    reasoning: str = field(default="", repr=False)
    thinks_inline: bool = False
    cap: int | None = None
    overran: bool = False  # whether the reply is longer than that cap, where a budget rests on it
    backend: int = 0
    # the text that the attempt handed to the consumer
    delivered: str = field(default="", repr=False)
    reply: Reply | None = None
    failure: Failure | None = None
    # what came in place of a usable reply, or what is known of why none came
    found: str | None = None
    finding: Finding | None = None  # of the reply, if it was judged
    answered_by: ToolCall | None = None  # the tool call that was the answer, where one was forced

    @property
    def event(self) -> str:
        """Return the event of the machine."""
        return self.evidence.event

    @property
    def is_answer(self) -> bool:
        """Tell whether it is a success."""
        return self.evidence.event in ANSWERS

    @property
    def note(self) -> str | None:
        """Say what is wrong with it, as a journal does; None for nothing, or if nobody knows."""
        if self.finding is not None and not self.finding.is_right:
            return self.finding.note
        return self.found

    @property
    def is_wrong(self) -> bool:
        """Tell whether it would be a success if it were right."""
        return self.evidence.event in WRONG.values()

    @property
    def adds_text(self) -> bool:
        """Tell whether it brought text that is kept, was not there yet, and shows anything."""
        return not is_blank(self.new)
