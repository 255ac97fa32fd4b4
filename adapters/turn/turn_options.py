"""The options of a turn, the turn that they make, and the streams of its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from attrs import evolve, frozen

from rungwise.adapters.client_options import RunOptions, check_functions, check_kind
from rungwise.adapters.http.streams import LoopStream, SyncStream
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.conversation.plain import stored
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.call.overrides import with_overrides
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.result import V
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.turn.actions import TurnEvent
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.resumed import Approvals
from rungwise.fsm.turn.tools import Executor, Toolbox, Tools
from rungwise.fsm.turn.turn import Turn

TurnCompactor = Callable[[Sequence[PlainMessage], int], Sequence[PlainMessage | Message]]
AsyncTurnCompactor = Callable[
    [Sequence[PlainMessage], int], Awaitable[Sequence[PlainMessage | Message]]
]


class TurnOptions(RunOptions, total=False):
    """The options of a turn. Those not listed here are as in `rungwise.core.CallOptions`.

    Arguments:
        tools: the tools by name, or a list of them: functions, or a `rungwise.Tool` that says more.
        executor: called with name and arguments for tools that have no function.
        policy: the policy of the turn; its calls use the client's policy unless it names one.
        compactor: shortens a conversation; called with its plain messages and by how many tokens.
        approvals: to go on after `awaiting_approval`: for the id of each call in `awaiting`, True,
            or the reason why not.
    """

    tools: Tools | Toolbox
    executor: Executor | None
    policy: TurnPolicy | None
    compactor: TurnCompactor | AsyncTurnCompactor | None
    approvals: Approvals | None


OF_TURNS = frozenset(
    {
        "tools",
        "executor",
        "policy",
        "compactor",
        "within",
        "deadline",
        "verdict",
        "approvals",
        "system",
    }
)
"""The options of a turn that are no fields of a `Request`."""


@frozen
class Planned:
    """A turn that has not begun, and its compactor."""

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
        new: Callable[..., Turn] = Turn,
        **call_options: Any,
    ) -> Planned:
        """Make a turn from the client's settings and the options of the turn.

        Arguments:
            request: the conversation. If the options name no tools, the request's own are for the
                executor; otherwise the provider runs them.
            options: those of the turn.
            chain: the backends of the client.
            policy: the client's policy for calls, if the turn's names none.
            compactor: the client's compactor, which is called with the messages alone.
            new: makes the turn; takes the arguments of `Turn`.
            call_options: what the client passes to its calls; `deadline`, when the turn must have
                ended, on the client's clock; and `within`, the budget that it shares.

        Raises:
            ConfigurationError: an option is malformed.
        """
        own = options.get("policy")
        if own is None:
            own = TurnPolicy()
        check_kind(own, TurnPolicy)
        tools = options.get("tools")
        executor = options.get("executor")
        if tools is None and executor is not None:  # the request's tools are for it
            tools = request.tools
            request = evolve(request, tools=())
        shorten = options.get("compactor")
        check_functions(compactor=shorten)
        if shorten is None and compactor is not None:
            of_client = compactor

            def shorten(messages: Sequence[PlainMessage], room: int) -> Any:
                return of_client(messages)  # which may be a coroutine

        call_options["has_compactor"] = shorten is not None
        own = evolve(own, call=with_overrides(own.call or policy))
        turn = new(
            request,
            own,
            tuple(chain),
            tools=Toolbox.of(tools, executor),
            verdict=options.get("verdict"),
            approvals=options.get("approvals"),
            **call_options,
        )
        return cls(turn, shorten)

    def in_threads(self) -> Planned:
        """Return this turn, to be run without an event loop; refuse tools that need one."""
        for name, tool in self.turn.tools.tools.items():
            if getattr(tool.function, "needs_loop", False):
                raise ConfigurationError(
                    f"the tool {name!r} belongs to an event loop: use aturn or astream_turn there"
                )
        return self


class _OfTurn:
    """What the streams of a turn have beside those of a call."""

    _run: Any

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """Return the conversation so far, as plain mappings.

        You can store it at any moment, and go on from it later.
        """
        return tuple(map(stored, self._run.messages))


class TurnStream(_OfTurn, SyncStream[TurnEvent, TurnResult[V]]):
    """Iterate over the events of a turn.

    Close it, or leave its `with` block, to end the turn early.
    """


class AsyncTurnStream(_OfTurn, LoopStream[TurnEvent, TurnResult[V]]):
    """Iterate asynchronously over the events of a turn.

    Use it in an `async with` block to end the turn early.
    """
