"""What `Client.stream_turn` and `Client.astream_turn` return: the events of a turn, one after another, and its end."""

from __future__ import annotations

from rungwise.adapters.http.streams import LoopStream, SyncStream
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.turn.actions import TurnEvent
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn


def _messages_of(stream: TurnStream | AsyncTurnStream) -> tuple[PlainMessage | Message, ...]:
    turn = stream._run
    assert isinstance(turn, Turn)
    return turn.messages


class TurnStream(SyncStream[TurnEvent, TurnResult]):
    """Iterate over the events of a turn; close it, or leave its `with` block, to end the turn early."""

    @property
    def messages(self) -> tuple[PlainMessage | Message, ...]:
        """Return the conversation so far, which can be gone on from at any moment."""
        return _messages_of(self)


class AsyncTurnStream(LoopStream[TurnEvent, TurnResult]):
    """Iterate asynchronously over the events of a turn; use it in an `async with` block to end the turn early."""

    @property
    def messages(self) -> tuple[PlainMessage | Message, ...]:
        """Return the conversation so far, which can be gone on from at any moment."""
        return _messages_of(self)
