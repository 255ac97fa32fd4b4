"""The rounds of a conversation: what the user said, and the exchanges that answer it."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import Factory, define, frozen

from rungwise.fsm.turn.reading import ReadMessage, answers_behind


@frozen
class Exchange:
    """Hold the places of an assistant's message and of the results of its tools.

    Arguments:
        start: the place of the first of them.
        stop: the place behind the last of them.
        is_whole: whether each call has its result and each result its call.
    """

    start: int
    stop: int
    is_whole: bool

    @property
    def places(self) -> range:
        """Return the places of its messages."""
        return range(self.start, self.stop)


@define
class Round:
    """Hold a part of a conversation.

    Arguments:
        users: the places of the user's messages that it begins with; none where the assistant begins.
        exchanges: what answers them.
    """

    users: list[int] = Factory(list)
    exchanges: list[Exchange] = Factory(list)


def rounds_of(messages: Sequence[ReadMessage]) -> list[Round]:
    """Return the rounds of a conversation; system messages, and messages of no known role, are in none of them.

    Arguments:
        messages: the conversation.
    """
    rounds: list[Round] = []
    index = 0
    while index < len(messages):
        role, start = messages[index].role, index
        index = answers_behind(messages, start) if role in ("assistant", "tool") else start + 1
        if role == "user" and (not rounds or rounds[-1].exchanges):
            rounds.append(Round())
        if role == "user":
            rounds[-1].users.append(start)
        elif role in ("assistant", "tool"):
            if not rounds:
                rounds.append(Round())
            rounds[-1].exchanges.append(Exchange(start, index, _is_whole(messages[start:index])))
    return rounds


def _is_whole(messages: Sequence[ReadMessage]) -> bool:
    calls = [call.key for call in messages[0].calls]
    results = [key for message in messages[1:] for key in message.results]
    is_clean = not messages[0].results and all(message.results for message in messages[1:])
    return is_clean and len(set(calls)) == len(calls) and sorted(calls) == sorted(results)
