"""The methods of a client that run turns."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Unpack, overload

from rungwise.adapters.client_options import Messages, check_sync
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.adapters.runtime import Runtime
from rungwise.adapters.turn.turn_options import AsyncTurnStream, TurnOptions, TurnStream
from rungwise.fsm.call.run.result import V
from rungwise.fsm.turn.result import TurnResult


class Turns:
    """Run turns: calls with tools, until the model is done. `Client` has these methods.

    Attributes:
        runtime: what the calls run with: the seam for those who build on a client. It is not part
            of the everyday API.
    """

    runtime: Runtime

    @overload
    def turn(
        self,
        messages: Messages,
        *,
        returns: type[V],
        cancellation: Cancellation | None = ...,
        **options: Unpack[TurnOptions],
    ) -> TurnResult[V]: ...
    @overload
    def turn(
        self,
        messages: Messages,
        *,
        returns: Any = ...,
        cancellation: Cancellation | None = ...,
        **options: Unpack[TurnOptions],
    ) -> TurnResult: ...
    def turn(
        self,
        messages: Messages,
        *,
        cancellation: Cancellation | None = None,
        returns: Any = None,
        **options: Unpack[TurnOptions],
    ) -> TurnResult:
        """Run a turn and return its result: call the model, run the tools it asks for, and repeat
        until it is done.

        Arguments:
            messages: a prompt, messages in the form of chat completions or of another provider, or
                a `rungwise.core.Request`.
            cancellation: ends the turn from another thread.
            options: `tools`, the tools by name or a list of them: functions, or a `Tool` that says
                more; `executor`, which runs those that have no function, given the name and the
                arguments; `policy`, a `TurnPolicy`, whose calls have the client's policy where it
                names none; `compactor`, which makes a conversation shorter, given its messages and
                by how many tokens; `within`, a `SharedBudget`; `deadline`, when the turn must have
                ended, as in `call`; and what else a `rungwise.core.Request` takes.

        Raises:
            TurnError: the outcome is `failed`, `cancelled` or `over_budget`.
            TurnWrongAnswer: `returns` was given, and the turn ended without a value.
            ConfigurationError: something is not of its form.
        """
        check_sync("turn", cancellation, options.get("compactor") or self.runtime.compactor)
        planned = self.runtime.new_turn(messages, options, returns, is_streaming=False).in_threads()
        with either(self.runtime.connections.in_threads.cancellation, cancellation) as ending:
            return self.runtime.turn_driver(planned, ending).run(planned.turn).raise_for_outcome()

    @overload
    def stream_turn(
        self,
        messages: Messages,
        *,
        returns: type[V],
        cancellation: Cancellation | None = ...,
        **options: Unpack[TurnOptions],
    ) -> TurnStream[V]: ...
    @overload
    def stream_turn(
        self,
        messages: Messages,
        *,
        returns: Any = ...,
        cancellation: Cancellation | None = ...,
        **options: Unpack[TurnOptions],
    ) -> TurnStream: ...
    def stream_turn(
        self,
        messages: Messages,
        *,
        cancellation: Cancellation | None = None,
        returns: Any = None,
        **options: Unpack[TurnOptions],
    ) -> TurnStream:
        """Run a turn and yield what its calls say and its tools do, as it happens; the last event
        is the result.

        Takes and raises what `turn` does; an error comes after the last event.
        """
        check_sync("stream_turn", cancellation, options.get("compactor") or self.runtime.compactor)
        planned = self.runtime.new_turn(messages, options, returns, is_streaming=True).in_threads()
        own = Cancellation()
        stream = TurnStream(planned.turn, self.runtime.stream_turn(planned, own, cancellation), own)
        self.runtime.connections.add(stream)
        return stream

    @overload
    def aturn(
        self, messages: Messages, *, returns: type[V], **options: Unpack[TurnOptions]
    ) -> Coroutine[Any, Any, TurnResult[V]]: ...
    @overload
    def aturn(
        self, messages: Messages, *, returns: Any = ..., **options: Unpack[TurnOptions]
    ) -> Coroutine[Any, Any, TurnResult]: ...
    def aturn(
        self, messages: Messages, *, returns: Any = None, **options: Unpack[TurnOptions]
    ) -> Coroutine[Any, Any, TurnResult]:
        """Run a turn asynchronously; takes and raises what `turn` does."""
        return self.runtime.run_turn(
            self.runtime.new_turn(messages, options, returns, is_streaming=False)
        )

    @overload
    def astream_turn(
        self, messages: Messages, *, returns: type[V], **options: Unpack[TurnOptions]
    ) -> AsyncTurnStream[V]: ...
    @overload
    def astream_turn(
        self, messages: Messages, *, returns: Any = ..., **options: Unpack[TurnOptions]
    ) -> AsyncTurnStream: ...
    def astream_turn(
        self, messages: Messages, *, returns: Any = None, **options: Unpack[TurnOptions]
    ) -> AsyncTurnStream:
        """Run a turn asynchronously and yield its events; takes and raises what `stream_turn`
        does.
        """
        planned = self.runtime.new_turn(messages, options, returns, is_streaming=True)
        running = self.runtime.connections.in_this_loop()
        own = Cancellation()
        events = self.runtime.async_turn_driver(planned, running, own).stream(planned.turn)
        stream = AsyncTurnStream(planned.turn, events, own)
        running.streams.add(stream)
        return stream
