"""Whether a turn leaves a conversation to continue from: valid, complete, without repeats or hints.

Theory. What a turn must have added to its conversation follows from what was done in it: each call
that was answered by tools adds a reply and its results, the last text that was shown adds an
answer, a compaction replaces what stood before. `_expected` derives that from the calls alone,
without a look at the code that writes the conversation, and `check_whole` compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import orjson

from rungwise.fsm.call.conversation.plain import plain_messages
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.replies.parts import Message, ToolCall
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

COMPACTIONS = ("compacted", "stayed_long")
"""The events in which a compaction ends."""

Said = tuple[str, str, tuple[str, ...]]
"""What is compared of a message: its role, its text, and the arguments of its tool calls or the
ids of its results.
"""


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
    problems = list(problems_of(plain, callers=given))
    if problems:
        raise Dishonest(VALID, f"as plain messages: {problems[0]}")
    try:
        orjson.dumps(plain)
    except TypeError as error:
        raise Dishonest(VALID, f"as plain messages it is no JSON: {error}") from None


def check_clean(seen: SeenTurn) -> None:
    """Look for hints of the policy in what the turn added; its own tool results may stay."""
    given = (*seen.run.request.messages, *_expected(seen)[0])
    ours = [each.strip() for each in _hints(seen) if each.strip()]
    for message in seen.run.seen[-1]:
        if message in given or not isinstance(message, Message):
            continue
        text = message.text
        if any(each in text for each in ours):
            raise Dishonest(CLEAN, f"a message of the {message.role} holds a hint of the policy")
        if message.role == "user":
            raise Dishonest(CLEAN, "the turn has added a message of the user")


def _hints(seen: SeenTurn) -> set[str]:
    """Return the words by which the policy steers models."""
    hints = seen.policy.of_calls.hints
    words = {seen.policy.hints.summary, hints.placeholder, hints.nudge, hints.continuation}
    words.update(hints.rungs.values())
    words.update(hints.seed.split("{reasoning}"))
    return words


def check_whole(seen: SeenTurn) -> None:
    """Derive the conversation from the calls and tools, and compare."""
    base, expected = _expected(seen)
    messages = seen.run.seen[-1]
    start = _behind(base, messages)
    if plain_messages(messages[:start]) != plain_messages(base):
        raise Dishonest(WHOLE, "it does not begin with what the caller gave, or the compactor left")
    added = [_said(each) for each in messages[start:]]
    for number, (actual, wanted) in enumerate(zip(added, expected, strict=False)):
        if actual != wanted:
            broken = ANSWERED if "tool" in (actual[0], wanted[0]) else WHOLE
            wrong = f"message {number} of the turn is {_short(actual)}"
            raise Dishonest(broken, f"{wrong}, and should be {_short(wanted)}")
    if len(added) != len(expected):
        wrong = f"the turn has added {len(added)} messages, and should have added {len(expected)}"
        raise Dishonest(WHOLE, wrong)


def _short(said: Said) -> str:
    role, text, tools = said
    return f"of the {role}, with {len(text)} characters and {tools!r:.200}"


def _said(message: Any) -> Said:
    if not isinstance(message, Message):
        return "", "", ()
    tools = [call.arguments for call in message.tool_calls]
    if not tools:
        tools = [each.id for each in message.tool_results]
    return message.role, message.text, tuple(tools)


def _expected(seen: SeenTurn) -> tuple[Messages, list[Said]]:
    """Return the beginning of the conversation, and what the turn must have added."""
    base: Messages = seen.run.request.messages
    said: list[Said] = []
    pending = ""
    compactions = [step.event for step in seen.steps if step.event in COMPACTIONS]
    events = iter(compactions)
    for doing in seen.run.doings:
        if isinstance(doing, PlayedCompaction) and next(events, "") == "compacted":
            base = Request(doing.made).messages
            said = []
        if not isinstance(doing, CallInTurn) or not seen.is_settled(doing):
            continue
        _check_goes_on(doing, pending)
        pending = ""
        asked = seen.asked_by(doing)
        result = doing.call.result
        is_prior = result.outcome == "salvaged" and (
            result.journal.last.effect == "keep_prior_answer"
        )
        if asked:
            said.append(("assistant", result.text, tuple(map(arguments_of, asked))))
            said.append(("tool", "", _ids(seen, len(said), base)))
        elif not is_prior:  # an earlier answer stands in the conversation already, beside tools
            pending = result.text
    if not is_blank(pending):
        said.append(("assistant", pending, ()))
    return base, said


def arguments_of(call: ToolCall) -> str:
    """Return the arguments of a tool call as the conversation has them."""
    return "{}" if is_blank(call.arguments) else call.arguments


def _behind(base: Messages, messages: Messages) -> int:
    """Return where the turn's own messages begin.

    A compactor gets plain messages. Where it leaves them alone, the originals stand, and one of
    these may be several plain ones.
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
        wrong = f"a call goes on from {len(gathered)} characters"
        raise Dishonest(WHOLE, f"{wrong}, and {len(pending)} were said before")
    if not played.call.result.text.startswith(gathered):
        raise Dishonest(WHOLE, "a call that goes on from a text has lost it")


def check_text(seen: SeenTurn) -> None:
    """Check that the text of the result is the last text shown."""
    if seen.result is None:
        return
    shown = [each.call.result.text for each in seen.run.calls if each.call.is_over]
    last = next((text for text in reversed(shown) if not is_blank(text)), "")
    text = seen.result.text
    if text != last:
        raise Dishonest(LAST, f"it has {len(text)} characters, and {len(last)} were shown last")


def results_of(seen: SeenTurn) -> Iterator[tuple[PlayedRound, Message, Message]]:
    """Yield each round of tools with the messages of its calls and results, the last one first.

    Rounds whose messages a compaction has removed are left out.
    """
    messages = seen.run.seen[-1]
    base, _ = _expected(seen)
    own = [each for each in messages[_behind(base, messages) :] if isinstance(each, Message)]
    pairs = [(calling, results) for calling, results in pairwise(own) if calling.tool_calls]
    last = seen.run.doings[-1] if seen.run.doings else None
    if isinstance(last, CallInTurn) and seen.is_settled(last) and seen.asked_by(last):
        pairs.pop()  # the turn ended before its tools began
    rounds = [round for _, round in seen.rounds()]
    for round, (calling, results) in zip(reversed(rounds), reversed(pairs), strict=False):
        yield round, calling, results
