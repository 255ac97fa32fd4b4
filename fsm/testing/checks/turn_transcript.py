"""Whether a turn leaves a conversation to continue from: valid, complete, without repeats and
hints.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import orjson

from rungwise.fsm.call.conversation.plain import plain_messages
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.testing.turn_player import CallInTurn, Messages, PlayedCompaction, PlayedRound
from rungwise.fsm.turn.validity import problems_of

VALID = "the conversation is valid for any provider at every moment"
CLEAN = "nothing that only steered the turn stays in the conversation"
WHOLE = "what was shown stands in the conversation, once and in order"
ANSWERED = "each tool call has one result, in the order of the calls"
LAST = "the text of a turn is the last that was shown"

Said = tuple[str, str, tuple[str, ...]]
"""The role, the text, and the arguments of the tool calls or the ids of the results."""


def check_valid(seen: SeenTurn) -> None:
    """Check the conversation at every moment, and as plain messages at the end."""
    asked = seen.run.request.messages
    # what a compactor says by itself counts as the caller's own
    given = (*asked, *_expected(seen)[0])
    known = set(problems_of(asked, callers=given))
    for number, messages in enumerate(seen.run.seen):
        problems = [each for each in problems_of(messages, callers=given) if each not in known]
        if problems:
            raise Dishonest(VALID, f"at moment {number}: {problems[0]}")
    if seen.result is None or known:
        return
    plain = seen.result.plain_messages
    problems = [*problems_of(plain, callers=given)]
    if problems:
        raise Dishonest(VALID, f"as plain messages: {problems[0]}")
    try:
        orjson.dumps(plain)
    except TypeError as error:
        raise Dishonest(VALID, f"as plain messages it is no JSON: {error}") from None


def check_clean(seen: SeenTurn) -> None:
    """Look for hints of the policy in what the turn added; its own tool results may stay."""
    hints = seen.policy.of_calls.hints
    given = (*seen.run.request.messages, *_expected(seen)[0])
    seed = hints.seed.split("{reasoning}")
    ours = {
        seen.policy.hints.summary,
        hints.placeholder,
        hints.nudge,
        hints.continuation,
        *hints.rungs.values(),
        *seed,
    }
    for message in seen.run.seen[-1]:
        if message in given or not isinstance(message, Message):
            continue
        text = message.text
        if any(each.strip() and each.strip() in text for each in ours):
            raise Dishonest(CLEAN, f"a message of the {message.role} holds a hint of the policy")
        if message.role == "user":
            raise Dishonest(CLEAN, "the turn has added a message of the user")


def check_whole(seen: SeenTurn) -> None:
    """Derive the conversation from the calls and tools, and compare."""
    base, expected = _expected(seen)
    messages = seen.run.seen[-1]
    start = _behind(base, messages)
    if plain_messages(messages[:start]) != plain_messages(base):
        raise Dishonest(WHOLE, "it does not begin with what the caller gave, or the compactor left")
    found = [_said(each) for each in messages[start:]]
    for number, (is_, wanted) in enumerate(zip(found, expected, strict=False)):
        if is_ != wanted:
            place = ANSWERED if "tool" in (is_[0], wanted[0]) else WHOLE
            raise Dishonest(
                place,
                f"message {number} of the turn is {_short(is_)}, and should be {_short(wanted)}",
            )
    if len(found) != len(expected):
        raise Dishonest(
            WHOLE,
            f"the turn has added {len(found)} messages, and should have added {len(expected)}",
        )


def _short(said: Said) -> str:
    return f"of the {said[0]}, with {len(said[1])} characters and {said[2]!r:.200}"


def _said(message: Any) -> Said:
    if not isinstance(message, Message):
        return "", "", ()
    behind = [call.arguments for call in message.tool_calls] or [
        each.id for each in message.tool_results
    ]
    return message.role, message.text, tuple(behind)


def _expected(seen: SeenTurn) -> tuple[Messages, list[Said]]:
    """Return the beginning of the conversation, and what the turn must have added."""
    base: Messages = seen.run.request.messages
    said: list[Said] = []
    pending = ""
    doings = seen.run.doings
    shortened = iter(
        [
            step.event == "compacted"
            for step in seen.steps
            if step.event in ("compacted", "stayed_long")
        ]
    )
    for doing in doings:
        if isinstance(doing, PlayedCompaction) and next(shortened, False):
            base = Request(doing.made).messages
            said = []
        if not isinstance(doing, CallInTurn) or not seen.is_settled(doing):
            continue
        _check_goes_on(doing, pending)
        pending = ""
        asked = seen.asked_by(doing)
        text = doing.call.result.text
        last = doing.call.result.journal.last
        if asked:
            arguments = tuple(
                ["{}" if is_blank(call.arguments) else call.arguments for call in asked]
            )
            said.append(("assistant", text, arguments))
            said.append(("tool", "", _ids(seen, len(said), base)))
        elif doing.call.result.outcome != "salvaged" or last.effect != "keep_prior_answer":
            pending = text  # and no earlier answer, given beside tools
    if not is_blank(pending):
        said.append(("assistant", pending, ()))
    return base, said


def _behind(base: Messages, messages: Messages) -> int:
    """Return where the turn's own messages begin.

    A compactor gets plain messages. Where it leaves them alone, the originals stand, of which one
    may be several.
    """
    at = 0
    left = len(plain_messages(base))
    while left > 0 and at < len(messages):
        left -= len(plain_messages(messages[at : at + 1]))
        at += 1
    return at


def _ids(seen: SeenTurn, place: int, base: Messages) -> tuple[str, ...]:
    """Return the unique ids of the tool calls of a message."""
    messages = seen.run.seen[-1]
    at = _behind(base, messages) + place - 1
    asked = messages[at] if at < len(messages) else None
    calls = asked.tool_calls if isinstance(asked, Message) else ()
    return tuple([call.id for call in calls])


def _check_goes_on(played: CallInTurn, pending: str) -> None:
    gathered = played.call.turn.gathered
    if gathered != pending:
        raise Dishonest(
            WHOLE,
            f"a call goes on from {len(gathered)} characters, and {len(pending)} were said before",
        )
    if not played.call.result.text.startswith(gathered):
        raise Dishonest(WHOLE, "a call that goes on from a text has lost it")


def check_text(seen: SeenTurn) -> None:
    """Check that the text of the result is the last text shown."""
    if seen.result is None:
        return
    shown = [each.call.result.text for each in seen.run.calls if each.call.is_over]
    last = next((text for text in reversed(shown) if not is_blank(text)), "")
    if seen.result.text != last:
        raise Dishonest(
            LAST, f"it has {len(seen.result.text)} characters, and {len(last)} were shown last"
        )


def results_of(seen: SeenTurn) -> Iterator[tuple[PlayedRound, Message, Message]]:
    """Yield each round of tools with the messages of its calls and results, unless a compaction
    removed them.
    """
    messages = seen.run.seen[-1]
    base, _ = _expected(seen)
    own = [each for each in messages[_behind(base, messages) :] if isinstance(each, Message)]
    pairs = [(asked, told) for asked, told in pairwise(own) if asked.tool_calls]
    last = seen.run.doings[-1] if seen.run.doings else None
    if isinstance(last, CallInTurn) and seen.is_settled(last) and seen.asked_by(last):
        pairs.pop()  # the turn ended before its tools began
    rounds = [round for _, round in seen.rounds()]
    yield from (
        (round, asked, told)
        for round, (asked, told) in zip(reversed(rounds), reversed(pairs), strict=False)
    )
