"""What a client is given for a turn, and the turn that it makes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from attrs import evolve, frozen

from rungwise.adapters.http.streams import LoopStream, SyncStream
from rungwise.adapters.options import RunOptions, check_functions
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.overrides import with_overrides
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.actions import TurnEvent
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.tools import Executor, Toolbox, Tools
from rungwise.fsm.turn.turn import Turn

TurnCompactor = Callable[[Sequence[PlainMessage | Message], int], Sequence[PlainMessage | Message]]
AsyncTurnCompactor = Callable[[Sequence[PlainMessage | Message], int], Awaitable[Sequence[PlainMessage | Message]]]


class TurnOptions(RunOptions, total=False):
    """Name what a turn may be given beside its messages; what is not named here is as in `rungwise.core.CallOptions`.

    Arguments:
        tools: the tools by name, or a list of them: functions, or a `rungwise.Tool` that says more.
        executor: runs the tools that have no function, given the name and the arguments.
        policy: how the turn goes on; its calls have the client's policy where it names none.
        compactor: makes a conversation shorter, given its messages and by how many tokens.
    """

    tools: Tools | Toolbox
    executor: Executor | None
    policy: TurnPolicy | None
    compactor: TurnCompactor | AsyncTurnCompactor | None


OF_TURNS = frozenset({"tools", "executor", "policy", "compactor", "within", "deadline"})
"""The options that are none of a request."""


@frozen
class Planned:
    """Hold a turn that has not begun, and what shortens its conversation."""

    turn: Turn
    compactor: TurnCompactor | AsyncTurnCompactor | None

    @classmethod
    def of(
        cls,
        request: Request,
        options: TurnOptions,
        chain: Iterable[Backend],
        policy: Policy,
        compactor: Callable[[Any], Any] | None,
        **call_options: Any,
    ) -> Planned:
        """Make a turn of what a client has and was given.

        Arguments:
            request: what is asked; the tools in it are for the executor where no others are given, and otherwise what
                the provider runs itself.
            options: those of the turn.
            chain: the client's backends.
            policy: the client's policy of calls.
            compactor: the client's own, which is given the messages alone.
            call_options: what the client passes to its calls, and when the turn must have ended, on its clock.

        Raises:
            ConfigurationError: one of the options is not of its form.
        """
        own = options.get("policy")
        own = TurnPolicy() if own is None else own
        if not isinstance(own, TurnPolicy):
            hint = "; that of its calls goes into one, as in TurnPolicy(call=...)" if isinstance(own, Policy) else ""
            raise ConfigurationError(f"policy must be a TurnPolicy, not {type(own).__name__}{hint}")
        tools, executor = options.get("tools"), options.get("executor")
        if tools is None and executor is not None:  # whom the request's own are for
            tools, request = request.tools, evolve(request, tools=())
        shorten = options.get("compactor")
        check_functions(compactor=shorten)
        if shorten is None and compactor is not None:
            whole = compactor
            shorten = lambda messages, room: whole(messages)  # noqa: E731 # what awaits it sees what it returns
        turn = Turn(
            request,
            evolve(own, call=with_overrides(own.call or policy)),
            tuple(chain),
            tools=Toolbox.of(tools, executor),
            within=options.get("within"),
            **{**call_options, "has_compactor": shorten is not None},
        )
        return cls(turn, shorten)


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
