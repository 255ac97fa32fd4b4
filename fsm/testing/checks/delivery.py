"""Whether the text of a call is that of its replies and its stream: nothing lost, nothing
repeated.
"""

from __future__ import annotations

from itertools import dropwhile

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
"""Characters of parts that are tried at every place where they may be joined, which is quadratic
work.
"""


def check_stream(ended: EndedCall) -> None:
    """Follow the events as a consumer does, and compare the text with the result."""
    if ended.events is None:
        return
    numbers: list[int] = []
    kept = shown = thought = ""
    for event in ended.events:
        if isinstance(event, Text):
            shown += event.text
        elif isinstance(event, Discard):
            if not event.text or not shown.endswith(event.text):
                text = (
                    f"a Discard takes back {event.text!r}, which is not the end of what was shown"
                )
                raise Dishonest(KEPT, text)
            shown = shown.removesuffix(event.text)
        elif isinstance(event, Reasoning):
            thought = event.text
        elif isinstance(event, Step):
            numbers.append(event.number)
            # then a wrong answer goes, with all its parts
            was_corrected = event.source == "correct"
            if (
                kept.strip()
                and not shown.startswith(kept)
                and thought != kept
                and not was_corrected
            ):
                raise Dishonest(
                    KEPT, "text of an earlier part was taken back, and not for reasoning", event
                )
            kept = shown if event.event == "sent" else kept
        elif isinstance(event, Result):
            if event is not ended.result:
                raise Dishonest(KEPT, "the last event is another result")
        elif not isinstance(event, PartialValue):
            raise Dishonest(KEPT, f"a stream hands out no {type(event).__name__}")
    if numbers != [step.number for step in ended.steps]:
        raise Dishonest(
            KEPT, f"the steps handed out are {numbers}, and the journal has {len(ended.steps)}"
        )
    was_shown = (
        ended.turn is not None
        and ended.turn.is_shown
        and ended.steps[-1].effect == KEEP_PRIOR.effect
    )
    if was_shown and is_blank(shown):  # an earlier call has handed out what stands as the answer
        return
    if shown != ended.result.text:
        raise Dishonest(
            KEPT, f"a consumer shows {shown[:80]!r}, and the text is {ended.result.text[:80]!r}"
        )


def check_parts(ended: EndedCall) -> None:
    """Check that the text consists of its parts, each minus only what it repeats of the text before
    it.
    """
    result = ended.result
    parts = result.parts
    text = result.text
    if result.outcome == "salvaged":
        if parts[-1:] != (text,):
            raise Dishonest(STITCHED, "the last part is not what was salvaged")
        return
    if sum(map(len, parts)) > LONGEST_JUDGED:
        if len(parts) == 1 and parts[0] != text:
            raise Dishonest(STITCHED, "the only part is not the text")
        return
    delivered = result.outcome == "cancelled" and _was_shown(ended)
    ends = {0}
    for index, part in enumerate(parts):
        is_judged = not (delivered and index == len(parts) - 1)
        ends = {end for start in ends for end in _ends(text, start, part, is_judged)}
    if len(text) not in ends:
        size = sum(map(len, parts))
        raise Dishonest(
            STITCHED, f"{len(parts)} parts of {size} characters do not make {len(text)} characters"
        )


def _ends(text: str, start: int, part: str, is_judged: bool) -> list[int]:
    """Return where a part that begins at `start` may end, after what may be dropped of it."""
    gathered = text[:start]
    least = _must_drop(gathered, part) if is_judged else 0
    return [
        start + len(part) - dropped
        for dropped in range(least, len(part) + 1)
        if text.startswith(part[dropped:], start) and _may_drop(gathered, part, dropped)
    ]


def _may_drop(gathered: str, part: str, dropped: int) -> bool:
    """Tell whether the beginning of a part is a repeat: of the end of the text, of all of it, or a
    restart.
    """
    beginning = part[:dropped]
    if gathered.endswith(beginning) or gathered.strip() == beginning.strip():
        return True
    return dropped == len(part) and (
        gathered.startswith(part) or gathered.lstrip().startswith(part)
    )


def _must_drop(gathered: str, part: str) -> int:
    """Return how much of a part certainly repeats everything before it; text that repeats itself is
    uncertain.
    """
    for before in (gathered, gathered.strip()):
        if any(before.startswith(before[period:]) for period in range(1, len(before) // 2 + 1)):
            return 0
        if len(before) >= SHORTEST_ECHO and part.startswith(before):
            return len(before)
    # A restart that stands in the text only once, even in part, is no turn of something that recurs
    # in it.
    restarts = len(part) >= SHORTEST_RESTART and gathered.startswith(part)
    return len(part) if restarts and gathered.count(part[: len(part) // 2]) == 1 else 0


def _was_shown(ended: EndedCall) -> bool:
    """Tell whether the text of a cancelled call had all been streamed by then, so that it holds no
    echo.
    """
    behind = dropwhile(
        lambda each: not (isinstance(each, Step) and each.event == "cancelled"), ended.events or ()
    )
    return not any(isinstance(event, Text) for event in behind)
