"""Whether the text of a call is that of its replies and its stream.

Theory. A call that continues after a cut joins parts, and drops from each what it repeats of the
text before it. The check must not trust the joining (`replies/text/stitching.py`), so it does not
join: it asks which ends are possible. A set holds every place in the result at which the parts so
far may end. A part that begins at such a place may have dropped any beginning that repeats the end
of the text, all of it, or its start; a part that certainly repeats everything must have dropped it.
If the end of the text is among the places after the last part, nothing was lost and nothing
repeated. That is one dynamic program over (part, place), quadratic in characters, so long texts
are checked by their length alone.
"""

from __future__ import annotations

from attrs import define, field

from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.table import KEEP_PRIOR
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.reply import Discard, PartialValue, Reasoning, Text
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall

KEPT = "what a stream handed out is the text of the result"
STITCHED = "the parts make up the text, nothing lost and nothing repeated"

SHORTEST_ECHO = 6
SHORTEST_RESTART = 12
"""Repeats of fewer code points come by chance, and dropping them would lose text."""

LONGEST_JUDGED = 20_000
"""Characters of parts, beyond which the places where they may be joined are not tried."""


@define(eq=False)
class Consumer:
    """Follow the events of a stream as a user interface does."""

    shown: str = ""  # on the screen
    sent: str = ""  # what was on the screen when the last request went out
    thought: str = ""  # the last piece of reasoning
    numbers: list[int] = field(factory=list)  # of the steps

    def take(self, event: object) -> None:
        """Take an event; a result is left to the caller.

        Raises:
            Dishonest: the event takes back what was not shown, or may not be, or is none.
        """
        if isinstance(event, Text):
            self.shown += event.text
        elif isinstance(event, Discard):
            if not event.text or not self.shown.endswith(event.text):
                wrong = (
                    f"a Discard takes back {event.text!r}, which is not the end of what was shown"
                )
                raise Dishonest(KEPT, wrong)
            self.shown = self.shown.removesuffix(event.text)
        elif isinstance(event, Reasoning):
            self.thought = event.text
        elif isinstance(event, Step):
            self._take_step(event)
        elif not isinstance(event, Result | PartialValue):
            raise Dishonest(KEPT, f"a stream hands out no {type(event).__name__}")

    def _take_step(self, step: Step) -> None:
        """Check that the text of earlier parts is still there.

        It may have turned out to be reasoning. A wrong answer goes with all its parts.
        """
        self.numbers.append(step.number)
        is_gone = self.sent.strip() != "" and not self.shown.startswith(self.sent)
        was_corrected = step.source == "correct"
        if is_gone and self.thought != self.sent and not was_corrected:
            wrong = "text of an earlier part was taken back, and not for reasoning"
            raise Dishonest(KEPT, wrong, step)
        if step.event == "sent":
            self.sent = self.shown


def check_stream(ended: EndedCall) -> None:
    """Follow the events as a consumer does, and compare the text with the result."""
    if ended.events is None:
        return
    consumer = Consumer()
    for event in ended.events:
        if isinstance(event, Result) and event is not ended.result:
            raise Dishonest(KEPT, "the last event is another result")
        consumer.take(event)
    shown = consumer.shown
    numbers = consumer.numbers
    if numbers != [step.number for step in ended.steps]:
        wrong = f"the steps handed out are {numbers}, and the journal has {len(ended.steps)}"
        raise Dishonest(KEPT, wrong)
    keeps_prior = ended.steps[-1].effect == KEEP_PRIOR.effect
    was_shown = ended.turn is not None and ended.turn.is_shown and keeps_prior
    if was_shown and is_blank(shown):  # an earlier call has handed out what stands as the answer
        return
    text = ended.result.text
    if shown != text:
        raise Dishonest(KEPT, f"a consumer shows {shown[:80]!r}, and the text is {text[:80]!r}")


def check_parts(ended: EndedCall) -> None:
    """Check that the parts make up the text, each without what it repeats of the text before."""
    result = ended.result
    parts = result.parts
    text = result.text
    if result.outcome == "salvaged":
        if parts[-1:] != (text,):
            raise Dishonest(STITCHED, "the last part is not what was salvaged")
        return
    size = sum(map(len, parts))
    if size > LONGEST_JUDGED:
        if len(parts) == 1 and parts[0] != text:
            raise Dishonest(STITCHED, "the only part is not the text")
        return
    was_streamed = result.outcome == "cancelled" and _was_shown(ended)
    ends = {0}
    for number, part in enumerate(parts, 1):
        # What was on the screen when a call was cancelled stays there, even an echo.
        may_echo = was_streamed and number == len(parts)
        later: set[int] = set()
        for start in ends:
            later |= _ends(text, start, part, may_echo=may_echo)
        ends = later
    if len(text) not in ends:
        wrong = f"{len(parts)} parts of {size} characters do not make {len(text)} characters"
        raise Dishonest(STITCHED, wrong)


def _ends(
    text: str,
    start: int,
    part: str,
    *,
    may_echo: bool,
) -> set[int]:
    """Return the places in the text at which a part may end.

    Arguments:
        text: the whole text.
        start: the place at which the part begins.
        part: the part, from which a beginning may have been dropped.
        may_echo: whether it may repeat everything before it.
    """
    gathered = text[:start]
    least = 0 if may_echo else _must_drop(gathered, part)
    places: set[int] = set()
    for dropped in range(least, len(part) + 1):
        if text.startswith(part[dropped:], start) and _may_drop(gathered, part, dropped):
            places.add(start + len(part) - dropped)
    return places


def _may_drop(gathered: str, part: str, dropped: int) -> bool:
    """Tell whether the beginning of a part is a repeat.

    It may repeat the end of the text, all of it, or, if nothing of the part remains, its start.
    """
    beginning = part[:dropped]
    if gathered.endswith(beginning) or gathered.strip() == beginning.strip():
        return True
    if dropped < len(part):
        return False
    return gathered.startswith(part) or gathered.lstrip().startswith(part)


def _must_drop(gathered: str, part: str) -> int:
    """Return how many characters of a part certainly repeat everything before it.

    Where the text repeats itself, nothing is certain.
    """
    for before in (gathered, gathered.strip()):
        periods = range(1, len(before) // 2 + 1)
        if any(before.startswith(before[period:]) for period in periods):
            return 0
        if len(before) >= SHORTEST_ECHO and part.startswith(before):
            return len(before)
    if len(part) < SHORTEST_RESTART or not gathered.startswith(part):
        return 0
    # A restart whose first half stands in the text only once is none of several equal passages.
    half = part[: len(part) // 2]
    return len(part) if gathered.count(half) == 1 else 0


def _was_shown(ended: EndedCall) -> bool:
    """Tell whether the text of a cancelled call had all been streamed by then."""
    was_cancelled = False
    for event in ended.events or ():
        if isinstance(event, Step) and event.event == "cancelled":
            was_cancelled = True
        if was_cancelled and isinstance(event, Text):
            return False
    return True
