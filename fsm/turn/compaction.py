"""Shortening a conversation that does not fit: the rule for compactors, and a simple compactor."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import Factory, define, evolve, field, frozen

from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import Message, ToolResult
from rungwise.fsm.turn.validity import (
    Messages,
    ReadMessage,
    answers_behind,
    blocks_of,
    is_result,
    problems_of,
    read,
)
from rungwise.fsm.values.checks import is_whole, must, or_none


@frozen
class ToolExchange:
    """Hold the places of an assistant's message and of the results of its tools."""

    places: range
    is_whole: bool


@define
class Round:
    """Hold user messages and the exchanges that answer them."""

    users: list[int] = Factory(list)  # their places; none if the assistant begins
    exchanges: list[ToolExchange] = Factory(list)


def rounds_of(messages: Sequence[ReadMessage]) -> list[Round]:
    """Return the rounds of a conversation; system messages and messages of unknown roles belong to
    none.
    """
    rounds: list[Round] = []
    index = 0
    while index < len(messages):
        role = messages[index].role
        start = index
        index += 1
        if role == "user":
            if not rounds or rounds[-1].exchanges:
                rounds.append(Round())
            rounds[-1].users.append(start)
        elif role in ("assistant", "tool"):
            if not rounds:
                rounds.append(Round())
            index = answers_behind(messages, start)
            is_whole = _is_whole(messages[start:index])
            rounds[-1].exchanges.append(ToolExchange(range(start, index), is_whole))
    return rounds


def _is_whole(messages: Sequence[ReadMessage]) -> bool:
    calls = [call.key for call in messages[0].calls]
    results = [key for message in messages[1:] for key in message.results]
    is_clean = not messages[0].results and all(message.results for message in messages[1:])
    return is_clean and len(set(calls)) == len(calls) and sorted(calls) == sorted(results)


Counter = Callable[[Any], int]
"""Counts the tokens of a tuple of messages."""

Conversation = tuple[PlainMessage | Message, ...]

STUB: Final = "(This result was left out to make room.)"
"""Replaces the text of an old tool result."""

LEAST_GAIN: Final = 20
"""A compaction must remove at least 1/20 of the tokens. The next answer uses less up again, and the
estimate of the tokens may be off by that much."""

LEAST_ROOM: Final = 4
"""A compactor is asked to remove at least 1/4: the provider's own count is unknown, and less soon
overflows again.
"""


def helps(before: Messages, after: Messages, counter: Counter = estimate_tokens) -> bool:
    """Tell whether a compaction shortened a conversation by at least 5 %."""
    tokens = counter(tuple(before))
    gained = tokens - counter(tuple(after))
    return gained > 0 and gained * LEAST_GAIN >= tokens


def room_for(
    messages: Messages,
    window: int | None = None,
    cap: int | None = None,
    counter: Counter = estimate_tokens,
) -> int:
    """Return by how many tokens a conversation should shrink to fit a window with its answer: by a
    quarter or more.

    Arguments:
        messages: the conversation.
        window: the tokens of the model's context; None if it is not known.
        cap: the output cap of the answer, in tokens; None for none.
        counter: counts the tokens of a tuple of messages.
    """
    tokens = counter(tuple(messages))
    beyond = 0
    if window is not None:
        beyond = tokens - (window - (cap or 0))
    return max(beyond, -(-tokens // LEAST_ROOM), 1)


class NoHelp(Exception):
    """Say why what a compactor returned does not replace the conversation."""


def accepted(
    returned: Messages | Exception,
    before: Messages,
    callers: Messages,
    counter: Counter = estimate_tokens,
) -> Conversation:
    """Return the conversation that a compactor left.

    Arguments:
        returned: the conversation, or the exception that the compactor raised.
        before: the conversation before it.
        callers: the messages of the caller, whose system messages may stand anywhere.
        counter: counts the tokens of a tuple of messages.

    Raises:
        NoHelp: it is hardly shorter, or not as valid as before.
    """
    if isinstance(returned, Exception):
        raise NoHelp(f"the compactor raised {type(returned).__name__}")
    try:
        shorter = Request(() if isinstance(returned, str) else returned).messages
    except ConfigurationError:
        raise NoHelp("what the compactor returned is no conversation") from None
    follows = Message.saying("assistant", "An answer.")
    if not problems_of((*before, follows), callers=callers):
        for fault in problems_of((*shorter, follows), callers=shorter):
            raise NoHelp(f"what the compactor returned is not valid: {fault}")
    if not helps(before, shorter, counter):
        raise NoHelp("the conversation is hardly shorter")
    return shorter


@frozen
class OldestFirst:
    """Shorten a conversation from its oldest end, as a compactor.

    First it replaces the texts of the oldest tool results by a short note, one message after the
    other. Then it removes the oldest exchanges, each an assistant's message with the results of its
    tools. A user's message goes with the last exchange that answers it.

    System messages, the first message of the user and the last messages stay. So does the last
    answer to that first message, so that no two user messages follow each other, and the last
    message of the user. A call without its result and a result without its call stay as well. The
    messages that you pass in never change; if nothing can go, you get them back.

    Arguments:
        keep: how many messages at the end stay; more if a tool call would lose its results.
        counter: counts the tokens of a tuple of messages; None estimates them from their bytes.

    Raises:
        ConfigurationError: a field is invalid.
    """

    keep: int = field(
        default=6,
        validator=must(
            "a whole number of 1 or more", lambda value: is_whole(value, 1), names_class=True
        ),
    )
    counter: Counter | None = field(
        default=None,
        validator=must(
            "a function that counts tokens, or None", or_none(callable), names_class=True
        ),
    )

    def __call__(self, messages: Messages, room: int | None = None) -> Conversation:
        """Return the conversation, shorter by `room` tokens or as much as can go.

        Arguments:
            messages: the conversation.
            room: by how many tokens it should shrink; None for a quarter.
        """
        whole = tuple(messages)
        count = self.counter or estimate_tokens
        tokens = count(whole)
        to_free = room_for(whole, counter=count) if room is None else room
        if to_free <= 0:
            return whole
        steps = _Steps.of(whole, self.keep, count)

        def frees_enough(taken: int) -> bool:
            return tokens - count(steps.taking(taken)) >= to_free

        # Each step leaves fewer tokens than the one before, so bisection finds the fewest steps
        # that are enough.
        enough = bisect_left(range(len(steps)), True, key=frees_enough)
        shorter = steps.taking(enough)
        if count(shorter) < tokens:
            return shorter
        return whole


@frozen
class _Steps:
    messages: Conversation
    # the first steps: places, and what replaces the messages
    stubs: tuple[tuple[int, PlainMessage | Message], ...]
    drops: tuple[tuple[int, ...], ...]  # the steps after them: places of messages that go together

    @classmethod
    def of(cls, messages: Conversation, keep: int, count: Counter) -> _Steps:
        rounds = rounds_of([read(message) for message in messages])
        # an exchange that reaches beyond it stays, so no call loses its results
        end = len(messages) - keep
        free = []
        for round in rounds:
            for exchange in round.exchanges:
                if exchange.is_whole and exchange.places.stop <= end:
                    free.append(exchange)
        stubs = []
        for exchange in free:
            for index in exchange.places[1:]:
                stub = _stubbed(messages[index])
                if stub is not None and count((stub,)) < count((messages[index],)):
                    stubs.append((index, stub))
        return cls(messages, tuple(stubs), tuple(_drops(rounds, frozenset(free))))

    def __len__(self) -> int:
        return len(self.stubs) + len(self.drops)

    def taking(self, steps: int) -> Conversation:
        if not steps:
            return self.messages
        stubs = dict(self.stubs[:steps])
        dropped: set[int] = set()
        for places in self.drops[: max(0, steps - len(self.stubs))]:
            dropped.update(places)
        left = []
        for place, message in enumerate(self.messages):
            if place not in dropped:
                left.append(stubs.get(place, message))
        return tuple(left)


def _drops(rounds: Sequence[Round], free: frozenset[ToolExchange]) -> Iterator[tuple[int, ...]]:
    """Yield the places of messages that go together, the oldest first; the answer of a round goes
    last.
    """
    first = next((round for round in rounds if round.users), None)
    for round in rounds:
        going = [each for each in round.exchanges[:-1] if each in free]
        for exchange in going:
            yield tuple(exchange.places)
        may_go = round is not first and round is not rounds[-1]
        have_gone = len(going) == len(round.exchanges) - 1  # all but the last
        if may_go and have_gone and round.exchanges[-1] in free:
            yield (*round.users, *round.exchanges[-1].places)


def _stubbed(message: PlainMessage | Message) -> PlainMessage | Message | None:
    """Return a message of tool results with a note instead of their texts; None if there are no
    texts.
    """
    if isinstance(message, Message):
        parts = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                part = evolve(part, text=STUB)
            parts.append(part)
        return Message(message.role, tuple(parts))
    if message.get("role") != "user":
        return _with_stub(message)
    blocks = []
    for block in blocks_of(message):
        if is_result(block):
            block = _with_stub(block) or block
        blocks.append(block)
    return {**message, "content": blocks}


def _with_stub(holder: Mapping[str, Any]) -> dict[str, Any] | None:
    content = holder.get("content")
    if isinstance(content, str):
        return {**holder, "content": STUB}
    if isinstance(content, list | tuple):
        return {**holder, "content": [{"type": "text", "text": STUB}]}
    return None
