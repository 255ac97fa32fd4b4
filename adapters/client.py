"""The client: a chain of backends, a policy, and the methods that run calls and turns."""

from __future__ import annotations

import random
import time
from collections.abc import Coroutine, Iterable
from typing import Any, Unpack, overload

import anyio

from rungwise.adapters.check import Check, check_request
from rungwise.adapters.client_options import (
    AsyncSleep,
    CallOptions,
    Clock,
    Draws,
    Messages,
    Sleep,
    check_chain,
    check_flag,
    check_functions,
    check_http,
    check_policy,
    check_sizes,
    check_sync,
    checked_clock,
    checked_number,
    checked_sleep,
    checked_waits,
    shared_of,
    throttle_of,
)
from rungwise.adapters.drivers import Drivers
from rungwise.adapters.http.async_driver import AsyncCompactor
from rungwise.adapters.http.borrowed import AsyncHttpClient, HttpClient
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.adapters.http.closing import AsyncClosing, Closing
from rungwise.adapters.http.deadline import Deadlines, header_name
from rungwise.adapters.http.exchange import LARGEST_REPLY
from rungwise.adapters.http.running import Connections
from rungwise.adapters.http.streams import AsyncStream, Stream, agrowing
from rungwise.adapters.http.sync_driver import Compactor
from rungwise.adapters.turn.turn_options import AsyncTurnStream, TurnOptions, TurnStream
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.chain.chain import Chain
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.run.recording import Observer
from rungwise.fsm.call.run.result import Result, V
from rungwise.fsm.health.health import DEFAULT_HEALTH, Health
from rungwise.fsm.turn.result import TurnResult


class Client(Drivers, Closing, AsyncClosing):
    """Run model calls over a chain of backends. One client serves any number of calls, in any
    number of threads.

    Arguments:
        chain: the backends in order, or a single one; every call starts at the first.
        policy: how calls recover, and the budget of each, unless a call is given its own.
        http: an `httpx.Client` (or one of its shape) for `call` and `stream`; it is neither closed
        nor changed. async_http: an `httpx.AsyncClient` for `acall` and `astream`, likewise.
        max_connections: how many connections may be open at once, for threads and for each event
            loop. Further calls wait in turn, within their own time. A client that you pass in keeps
            its own limits.
        stream_calls: whether `call` and `acall` stream the reply, too, if the backend can, so that
            they notice silence early. False asks for whole replies.
        observer: called with each step as it happens.
        compactor: shortens messages that do not fit; may be a coroutine function for asynchronous
        calls. contents: whether journals may hold texts and tool calls.
        largest_reply: the most bytes to read of one reply, after decompression. A whole reply that
            is larger is malformed; a stream is cut. Of a stream, text counts in full and the
            framing around it by a sixteenth. A reply takes up to 32 times as much memory while it
            is read.
        clock: returns seconds on a monotonic clock.
        sleep: called with seconds instead of a real wait; None waits.
        async_sleep: the same for asynchronous calls.
        jitter: returns a number from 0 to 1 for each wait.
        wall_clock: returns the seconds since 1970; deadlines and the dates of providers are
        compared with it. health: when calls stop asking a backend that fails, and for how long; all
        calls of the client remember it. None
            remembers nothing: every call asks the first backend first.
        store: the URL of a Redis or Valkey server, by which many processes remember it together
        (extra `redis`). retry_share: the most retries and reasks of the last 1,000 calls together,
        as a share of these calls, from the
            100th call on. Fallbacks do not count, nor do retries that wait for what a 429 asked.
            None sets no limit.
        deadline_header: the name of a header. Each request carries the deadline of the call in it,
            in RFC 3339. If you pass a header of that name to a call, it is the deadline of the
            call.

    Raises:
        ConfigurationError: the chain is empty or none of its backends can be used, or prices are
            missing for a budget.
    """

    def __init__(
        self,
        chain: Backend | Iterable[Backend],
        *,
        policy: Policy = DEFAULT_POLICY,
        http: HttpClient | None = None,
        async_http: AsyncHttpClient | None = None,
        max_connections: int = 100,
        stream_calls: bool = True,
        observer: Observer | None = None,
        compactor: Compactor | AsyncCompactor | None = None,
        contents: bool = False,
        largest_reply: int = LARGEST_REPLY,
        clock: Clock = time.monotonic,
        sleep: Sleep | None = None,
        async_sleep: AsyncSleep = anyio.sleep,
        jitter: Draws = random.random,
        wall_clock: Clock = time.time,
        health: Health | None = DEFAULT_HEALTH,
        store: str | None = None,
        retry_share: float | None = 0.2,
        deadline_header: str | None = None,
    ) -> None:
        self.chain = tuple(chain) if isinstance(chain, Iterable) else (chain,)
        check_sizes(max_connections, largest_reply)
        check_flag("stream_calls", stream_calls)
        self.policy = check_policy(policy)
        clocks = {
            "clock": clock,
            "wall_clock": wall_clock,
            "sleep": sleep,
            "async_sleep": async_sleep,
        }
        check_functions(observer=observer, compactor=compactor, jitter=jitter, **clocks)
        check_http(http, async_http)
        self._largest_reply = largest_reply
        self._stream_calls = stream_calls
        self._connections = Connections(http, async_http, max_connections)
        self._options = {
            "observer": observer,
            "contents": contents,
            "jitter": checked_number(jitter, 0, 1, "jitter must return a number from 0 to 1"),
            "has_compactor": compactor is not None,
        }
        self._compactor = compactor
        self._deadlines = Deadlines(clock, checked_clock(wall_clock), header_name(deadline_header))
        self._clock, self._async_sleep = clock, checked_waits(async_sleep)
        self._sleep = None if sleep is None else checked_sleep(sleep)
        self._shared = shared_of(health, store, clock, checked_clock(wall_clock), self.chain)
        self._throttle = throttle_of(retry_share)
        check_chain(self.chain)
        Chain.of(self.chain, needs_prices=policy.budget.money is not None)

    @overload
    def call(
        self,
        messages: Messages,
        *,
        returns: type[V],
        cancellation: Cancellation | None = ...,
        **options: Unpack[CallOptions],
    ) -> Result[V]: ...
    @overload
    def call(
        self,
        messages: Messages,
        *,
        returns: Any = ...,
        cancellation: Cancellation | None = ...,
        **options: Unpack[CallOptions],
    ) -> Result: ...
    def call(
        self,
        messages: Messages,
        *,
        cancellation: Cancellation | None = None,
        returns: Any = None,
        **options: Unpack[CallOptions],
    ) -> Result:
        """Run a call and return its result.

        Arguments:
            messages: a prompt, messages in the form of chat completions or of another provider, or
                a `rungwise.core.Request`.
            cancellation: ends the call from another thread.
            returns: what the answer must be: a type that pydantic can read, such as a model or
                `list[str]`, or a JSON schema as a mapping. The `value` of the result holds it.
            options: what a `rungwise.core.Request` takes beside its messages (`tools`,
                `max_tokens`, `temperature`, ...); `policy`, in place of the client's; `turn`, a
                `rungwise.core.TurnContext`; `within`, a `SharedBudget`; and `deadline`, the point
                in time at which the call must have ended: a `datetime` with a time zone, or seconds
                since 1970, as `time.time()` counts them.

        Raises:
            CallError: the outcome is `refused`, `exhausted`, `failed`, `cancelled` or
            `over_budget`. ConfigurationError: the messages or options are not of their form, or
            prices are missing for a budget.
        """
        check_sync("call", cancellation, self._compactor)
        call = self._new(messages, options, returns, is_streaming=False)
        with either(self._connections.in_threads.cancellation, cancellation) as ending:
            return self._driver(ending, call.policy.timeouts).run(call).raise_for_outcome()

    @overload
    def stream(
        self,
        messages: Messages,
        *,
        returns: type[V],
        cancellation: Cancellation | None = ...,
        **options: Unpack[CallOptions],
    ) -> Stream[V]: ...
    @overload
    def stream(
        self,
        messages: Messages,
        *,
        returns: Any = ...,
        cancellation: Cancellation | None = ...,
        **options: Unpack[CallOptions],
    ) -> Stream: ...
    def stream(
        self,
        messages: Messages,
        *,
        cancellation: Cancellation | None = None,
        returns: Any = None,
        **options: Unpack[CallOptions],
    ) -> Stream:
        """Run a call and yield its text as it arrives; the last event is the result.

        Takes and raises what `call` does; an error comes after the last event.
        """
        check_sync("stream", cancellation, self._compactor)
        call = self._new(messages, options, returns, is_streaming=True)
        own = Cancellation()
        stream = Stream(call, self._stream(call, own, cancellation), own)
        self._connections.add(stream)
        return stream

    @overload
    def acall(
        self, messages: Messages, *, returns: type[V], **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, Result[V]]: ...
    @overload
    def acall(
        self, messages: Messages, *, returns: Any = ..., **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, Result]: ...
    def acall(
        self, messages: Messages, *, returns: Any = None, **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, Result]:
        """Run a call asynchronously; takes and raises what `call` does.

        The messages are copied now, not when the coroutine is first awaited: a task may begin much
        later.
        """
        return self._acall(self._new(messages, options, returns, is_streaming=False))

    @overload
    def astream(
        self, messages: Messages, *, returns: type[V], **options: Unpack[CallOptions]
    ) -> AsyncStream[V]: ...
    @overload
    def astream(
        self, messages: Messages, *, returns: Any = ..., **options: Unpack[CallOptions]
    ) -> AsyncStream: ...
    def astream(
        self, messages: Messages, *, returns: Any = None, **options: Unpack[CallOptions]
    ) -> AsyncStream:
        """Run a call asynchronously and yield its text as it arrives; takes and raises what
        `stream` does.
        """
        call = self._new(messages, options, returns, is_streaming=True)
        running = self._connections.in_this_loop()
        own = Cancellation()
        events = self._async_driver(running, own, call.policy.timeouts).stream(call)
        stream = AsyncStream(call, agrowing(events, call.returns, self._clock), own)
        running.streams.add(stream)
        return stream

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
            ConfigurationError: something is not of its form.
        """
        check_sync("turn", cancellation, options.get("compactor") or self._compactor)
        planned = self._planned(messages, options, returns, is_streaming=False).in_threads()
        with either(self._connections.in_threads.cancellation, cancellation) as ending:
            return self._turn_driver(planned, ending).run(planned.turn).raise_for_outcome()

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
        check_sync("stream_turn", cancellation, options.get("compactor") or self._compactor)
        planned = self._planned(messages, options, returns, is_streaming=True).in_threads()
        own = Cancellation()
        stream = TurnStream(planned.turn, self._stream_turn(planned, own, cancellation), own)
        self._connections.add(stream)
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
        return self._aturn(self._planned(messages, options, returns, is_streaming=False))

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
        planned = self._planned(messages, options, returns, is_streaming=True)
        running = self._connections.in_this_loop()
        own = Cancellation()
        events = self._async_turn_driver(planned, running, own).stream(planned.turn)
        stream = AsyncTurnStream(planned.turn, events, own)
        running.streams.add(stream)
        return stream

    def check(
        self, messages: Messages, *, returns: Any = None, **options: Unpack[CallOptions]
    ) -> Check:
        """List what each backend of the chain would lose of a request, and what is unknown. It
        sends nothing.

        Takes what `call` does. Whether the request fits a window is estimated.

        Raises:
            ConfigurationError: the messages or options are not of their form, or prices are missing
                for a budget.
        """
        return check_request(
            self._new(messages, options, returns, is_streaming=False).request, self.chain
        )

    def close(self) -> None:
        """End the calls that run in threads and close their connections. A client that you passed
        in stays open.

        Each of these calls ends `cancelled` and keeps what was delivered in its result.
        """
        self._connections.close()

    async def aclose(self) -> None:
        """End the calls of this event loop and close its connections. A client that you passed in
        stays open.
        """
        await self._connections.aclose()
