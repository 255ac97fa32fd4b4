"""The client: a chain, a policy, and the four ways to run a call."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakSet

import anyio

from rungwise.adapters.backend import Backend
from rungwise.adapters.deadline import Deadlines, header_name
from rungwise.adapters.functions import (
    check_functions,
    check_http,
    checked_clock,
    checked_draws,
    checked_sleep,
    checked_waits,
)
from rungwise.adapters.http.async_driver import AsyncCompactor, AsyncDriver
from rungwise.adapters.http.borrowed import AsyncHttpClient, BorrowedAsyncHttp, BorrowedHttp, HttpClient
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.adapters.http.exchange import LARGEST_REPLY
from rungwise.adapters.http.own import OwnAsyncHttp, OwnHttp
from rungwise.adapters.http.streams import AsyncStream, LoopStream, RunningCalls, Stream, SyncStream
from rungwise.adapters.http.sync_driver import Compactor, SyncDriver
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain import Chain
from rungwise.fsm.call.delivery import StreamEvent
from rungwise.fsm.call.overrides import with_overrides
from rungwise.fsm.call.parts import Message
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy, Timeouts
from rungwise.fsm.call.recording import Observer
from rungwise.fsm.call.request import PlainMessage, Request, TurnContext
from rungwise.fsm.call.result import Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.tracebacks import built_without_locals, without_locals
from rungwise.fsm.values.checks import is_flag, is_whole
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from rungwise.adapters.turn.async_driver import AsyncTurnDriver
    from rungwise.adapters.turn.options import Planned, TurnOptions
    from rungwise.adapters.turn.streams import AsyncTurnStream, TurnStream
    from rungwise.adapters.turn.sync_driver import SyncTurnDriver
    from rungwise.fsm.turn.events import TurnEvent
    from rungwise.fsm.turn.result import TurnResult

Messages = str | Iterable[PlainMessage | Message] | Request
ThreadCalls = RunningCalls[SyncStream[Any, Any], OwnHttp]
LoopCalls = RunningCalls[LoopStream[Any, Any], OwnAsyncHttp]


@built_without_locals
class Client:
    """Run model calls over a chain of backends. One client serves any number of calls, in any number of threads.

    Arguments:
        chain: the backends in order, or a single one; every call starts at the first.
        policy: how calls recover, and the budget of each.
        http: an `httpx.Client` (or one of its shape) for `call` and `stream`; it is neither closed nor changed.
        async_http: an `httpx.AsyncClient` for `acall` and `astream`, likewise.
        max_connections: how many connections there may be at once, of threads and of each event loop; further calls
            wait in turn, within their own time. A client that was passed in has limits of its own.
        stream_calls: whether `call` and `acall` have the reply streamed too, where the backend can, so that silence
            shows before the whole reply was waited for; nothing is handed out. False asks them for a whole one.
        observer: is given each step as it happens.
        compactor: makes messages shorter when they do not fit; may be a coroutine function for asynchronous calls.
        contents: whether journals may hold texts and tool calls.
        largest_reply: bytes of a reply, its encoding taken off, after which no more of it is read: what is not streamed
            is then malformed, and a stream is cut. It counts what a stream says, and a sixteenth of what comes with
            it. While a reply is read it takes up to some 32 times as much memory.
        clock: returns seconds on a clock that only goes forward.
        sleep: waits for seconds, in place of a real wait; None waits.
        async_sleep: the same for asynchronous calls.
        jitter: returns a number from 0 to 1 for each wait.
        wall_clock: returns the seconds since 1970, which deadlines and the dates of providers are read against.
        deadline_header: the name of a header. Each request to each backend then says in it when the call must have
            ended, in RFC 3339; and one that stands among the headers of a request is read as its deadline.

    Raises:
        ConfigurationError: the chain is empty or none of its backends can be used, or prices are missing for a budget.
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
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        async_sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
        jitter: Callable[[], float] = random.random,
        wall_clock: Callable[[], float] = time.time,
        deadline_header: str | None = None,
    ) -> None:
        self.chain: tuple[Backend, ...] = tuple(chain) if isinstance(chain, Iterable) else (chain,)
        if not isinstance(policy, Policy):
            raise ConfigurationError(f"policy must be a Policy, not {type(policy).__name__}")
        if not is_whole(largest_reply, 1):
            raise ConfigurationError("largest_reply must be a whole number of bytes, 1 or more")
        self.policy = policy
        clocks = {"clock": clock, "wall_clock": wall_clock, "sleep": sleep, "async_sleep": async_sleep}
        check_functions(observer=observer, compactor=compactor, jitter=jitter, **clocks)
        check_http(http, async_http)
        if not is_whole(max_connections, 1):
            raise ConfigurationError(
                f"max_connections must be a whole number of 1 or more, not {short(max_connections)}"
            )
        if not is_flag(stream_calls):
            raise ConfigurationError(f"stream_calls must be True or False, not {short(stream_calls)}")
        self._largest_reply, self._max_connections, self._stream_calls = largest_reply, max_connections, stream_calls
        self._http = None if http is None else BorrowedHttp(http)
        self._async_http = None if async_http is None else BorrowedAsyncHttp(async_http)
        self._running = ThreadCalls()
        # Tasks wait for a place among the connections within their event loop, so each loop has a pool of its own.
        self._running_in: dict[object, LoopCalls] = {}
        self._lock = threading.Lock()
        _clients.add(self)
        self._options: dict[str, Any] = {
            "observer": observer,
            "contents": contents,
            "jitter": checked_draws(jitter),
            "has_compactor": compactor is not None,
        }
        self._compactor = compactor
        self._deadlines = Deadlines(clock, checked_clock(wall_clock), header_name(deadline_header))
        self._clock, self._async_sleep = clock, checked_waits(async_sleep)
        self._sleep = None if sleep is None else checked_sleep(sleep)
        for backend in self.chain:
            # A text and a class have some of what a backend has.
            is_backend = callable(getattr(backend, "encode", None)) and hasattr(backend, "identities")
            if not is_backend or isinstance(backend, type):
                raise ConfigurationError(
                    f"the chain must hold backends such as OpenAIChat, not {type(backend).__name__}"
                )
        Chain.of(self.chain, needs_prices=policy.budget.money is not None)

    # calls

    @without_locals
    def call(self, messages: Messages, *, cancellation: Cancellation | None = None, **options: Any) -> Result:
        """Run a call and return its result.

        Arguments:
            messages: a prompt, messages in the form of chat completions, or a `Request`.
            cancellation: ends the call from another thread.
            options: the other fields of `Request` (`tools`, `max_tokens`, `parameters`, ...), `turn`, a `TurnContext`,
                `within`, a `SharedBudget`, and `deadline`, the point in time at which the call must have ended: a
                `datetime` with a time zone, or seconds since 1970, as `time.time()` counts them.

        Raises:
            CallError: the outcome is `refused`, `exhausted`, `failed`, `cancelled` or `over_budget`.
            ConfigurationError: the messages or options are not of their form.
        """
        self._check_sync(cancellation)
        call = self._new(messages, options, is_streaming=False)
        with either(self._running.cancellation, cancellation) as ending:
            return self._driver(ending).run(call).raise_for_outcome()

    @without_locals
    def stream(self, messages: Messages, *, cancellation: Cancellation | None = None, **options: Any) -> Stream:
        """Run a call and hand out its text as it arrives; the last event is the result.

        Takes and raises what `call` does; an error comes after the last event.
        """
        self._check_sync(cancellation)
        call = self._new(messages, options, is_streaming=True)
        own = Cancellation()
        stream = Stream(call, self._stream(call, own, cancellation), own)
        with self._lock:
            self._running.streams.add(stream)
        return stream

    @without_locals
    def acall(self, messages: Messages, **options: Any) -> Coroutine[Any, Any, Result]:
        """Run a call asynchronously; takes and raises what `call` does.

        What is asked is copied here, not when the coroutine is first awaited: a task may begin much later.
        """
        return self._acall(self._new(messages, options, is_streaming=False))

    @without_locals
    async def _acall(self, call: Call) -> Result:
        running = self._running_here()
        return (await self._async_driver(running, running.cancellation).run(call)).raise_for_outcome()

    @without_locals
    def astream(self, messages: Messages, **options: Any) -> AsyncStream:
        """Run a call asynchronously and hand out its text as it arrives; takes and raises what `stream` does."""
        call = self._new(messages, options, is_streaming=True)
        running, own = self._running_here(), Cancellation()
        stream = AsyncStream(call, self._async_driver(running, own).stream(call), own)
        running.streams.add(stream)
        return stream

    # turns

    @without_locals
    def turn(
        self, messages: Messages, *, cancellation: Cancellation | None = None, **options: Unpack[TurnOptions]
    ) -> TurnResult:
        """Run a turn and return its result: calls, the tools that they ask for, and calls again until there is an end.

        Arguments:
            messages: a prompt, messages in the form of chat completions, or a `Request`.
            cancellation: ends the turn from another thread.
            options: `tools`, the tools by name or a list of them: functions, or a `Tool` that says more; `executor`,
                which runs those that have no function, given the name and the arguments; `policy`, a `TurnPolicy`,
                whose calls have the client's policy where it names none; `compactor`, which makes a conversation
                shorter, given its messages and by how many tokens; `within`, a `SharedBudget`; `deadline`, when the
                turn must have ended, as in `call`; and the fields of `Request`.

        Raises:
            TurnError: the outcome is `failed`, `cancelled` or `over_budget`.
            ConfigurationError: something is not of its form.
        """
        self._check_sync(cancellation, options.get("compactor"))
        planned = self._planned(messages, options, is_streaming=False)
        with either(self._running.cancellation, cancellation) as ending:
            return self._turn_driver(planned, ending).run(planned.turn).raise_for_outcome()

    @without_locals
    def stream_turn(
        self, messages: Messages, *, cancellation: Cancellation | None = None, **options: Unpack[TurnOptions]
    ) -> TurnStream:
        """Run a turn and hand out what its calls say and its tools do, as it happens; the last event is the result.

        Takes and raises what `turn` does; an error comes after the last event.
        """
        self._check_sync(cancellation, options.get("compactor"))
        planned = self._planned(messages, options, is_streaming=True)
        own = Cancellation()
        from rungwise.adapters.turn.running import TurnStream

        stream = TurnStream(planned.turn, self._stream_turn(planned, own, cancellation), own)
        with self._lock:
            self._running.streams.add(stream)
        return stream

    @without_locals
    def aturn(self, messages: Messages, **options: Unpack[TurnOptions]) -> Coroutine[Any, Any, TurnResult]:
        """Run a turn asynchronously; takes and raises what `turn` does."""
        return self._aturn(self._planned(messages, options, is_streaming=False))

    @without_locals
    async def _aturn(self, planned: Planned) -> TurnResult:
        running = self._running_here()
        driver = self._async_turn_driver(planned, running, running.cancellation)
        return (await driver.run(planned.turn)).raise_for_outcome()

    @without_locals
    def astream_turn(self, messages: Messages, **options: Unpack[TurnOptions]) -> AsyncTurnStream:
        """Run a turn asynchronously and hand out what happens; takes and raises what `stream_turn` does."""
        planned = self._planned(messages, options, is_streaming=True)
        running, own = self._running_here(), Cancellation()
        events = self._async_turn_driver(planned, running, own).stream(planned.turn)
        from rungwise.adapters.turn.running import AsyncTurnStream

        stream = AsyncTurnStream(planned.turn, events, own)
        running.streams.add(stream)
        return stream

    # what they have in common

    def _new(self, messages: Messages, options: dict[str, Any], *, is_streaming: bool) -> Call:
        turn, within = options.pop("turn", None) or TurnContext(), options.pop("within", None)
        deadline = options.pop("deadline", None)
        request = _request(messages, options, {"turn", "within", "deadline"})
        given = {"within": within, "deadline": self._deadlines.of(deadline, request.headers), **self._options}
        return Call(request, with_overrides(self.policy), self.chain, turn, is_streaming=is_streaming, **given)

    def _planned(
        self,
        messages: Messages,
        options: TurnOptions,
        *,
        is_streaming: bool,
    ) -> Planned:
        from rungwise.adapters.turn.running import OF_TURNS, Planned

        asked = {name: value for name, value in options.items() if name not in OF_TURNS}
        request = _request(messages, asked, OF_TURNS)
        deadline = self._deadlines.of(options.get("deadline"), request.headers)
        given = {**self._options, "is_streaming": is_streaming, "deadline": deadline}
        return Planned.of(request, options, self.chain, self.policy, self._compactor, **given)

    def _stream(self, call: Call, own: Cancellation, cancellation: Cancellation | None) -> Generator[StreamEvent]:
        with either(own, cancellation) as ending:
            yield from self._driver(ending).stream(call)

    def _driver(self, ending: Cancellation, timeouts: Timeouts | None = None) -> SyncDriver:
        http: BorrowedHttp | OwnHttp | None = self._http
        if http is None:
            with self._lock:
                http = self._running.http = self._running.http or OwnHttp(self._max_connections)
        return SyncDriver(http=http, sleep=self._sleep, **self._settings(ending, timeouts))

    def _async_driver(self, running: LoopCalls, ending: Cancellation, timeouts: Timeouts | None = None) -> AsyncDriver:
        http: BorrowedAsyncHttp | OwnAsyncHttp | None = self._async_http
        if http is None:
            http = running.http = running.http or OwnAsyncHttp(self._max_connections)
        return AsyncDriver(http=http, sleep=self._async_sleep, **self._settings(ending, timeouts))

    def _stream_turn(
        self, planned: Planned, own: Cancellation, cancellation: Cancellation | None
    ) -> Generator[TurnEvent]:
        with either(own, cancellation) as ending:
            yield from self._turn_driver(planned, ending).stream(planned.turn)

    def _turn_driver(self, planned: Planned, ending: Cancellation) -> SyncTurnDriver:
        calls = self._driver(ending, planned.turn.policy.of_calls.timeouts)
        from rungwise.adapters.turn.running import SyncTurnDriver

        return SyncTurnDriver(calls, planned.compactor)

    def _async_turn_driver(self, planned: Planned, running: LoopCalls, ending: Cancellation) -> AsyncTurnDriver:
        calls = self._async_driver(running, ending, planned.turn.policy.of_calls.timeouts)
        from rungwise.adapters.turn.running import AsyncTurnDriver

        return AsyncTurnDriver(calls, planned.compactor)

    def _settings(self, ending: Cancellation, timeouts: Timeouts | None) -> dict[str, Any]:
        return {
            "chain": self.chain,
            "timeouts": timeouts or self.policy.timeouts,
            "clock": self._clock,
            "compactor": self._compactor,
            "cancellation": ending,
            "largest_reply": self._largest_reply,
            "deadlines": self._deadlines,
            "stream_calls": self._stream_calls,
        }

    def _running_here(self) -> LoopCalls:
        """Return what ends the calls of this event loop, and holds its connections."""
        loop = _event_loop(self)
        with self._lock:
            if loop not in self._running_in:
                self._forget_closed_loops()
                self._running_in[loop] = LoopCalls()
            return self._running_in[loop]

    def _forget_closed_loops(self) -> None:
        """Let go of event loops that are closed, and close the connections that they left."""
        for loop in [loop for loop in self._running_in if isinstance(loop, AbstractEventLoop) and loop.is_closed()]:
            http = self._running_in.pop(loop).http
            if http is not None:
                http.pool.close()

    def _check_sync(self, cancellation: Cancellation | None, compactor: object = None) -> None:
        if cancellation is not None and not isinstance(cancellation, Cancellation):
            raise ConfigurationError(f"cancellation must be a Cancellation, not {type(cancellation).__name__}")
        if inspect.iscoroutinefunction(compactor or self._compactor):
            raise ConfigurationError("the compactor is a coroutine function; only what is asynchronous can await it")

    def close(self) -> None:
        """End the calls that run in threads, and close their connections; a client that was passed in stays open.

        Each of these calls ends `cancelled`, with what was delivered in its result.
        """
        with self._lock:
            self._forget_closed_loops()
            running, self._running = self._running, ThreadCalls()
        running.cancel()
        for stream in list(running.streams):
            stream.end()
        if running.http is not None:
            running.http.close()

    async def aclose(self) -> None:
        """End the calls of this event loop and close its connections; a client that was passed in stays open."""
        loop = _event_loop(self)
        with self._lock:
            running = self._running_in.pop(loop, None)
        if running is None:
            return
        running.cancel()
        for stream in list(running.streams):
            await stream.end()
        if running.http is not None:
            await running.http.aclose()

    def _begin_anew(self) -> None:
        """Forget, in a forked child, what the threads of the parent were doing."""
        self._lock = threading.Lock()
        self._running, self._running_in = ThreadCalls(), {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _event_loop(otherwise: object) -> object:
    """Return the running asyncio loop; on another kind of loop there is only one to a client."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return otherwise


def _request(messages: Messages, options: dict[str, Any], others: Iterable[str]) -> Request:
    """Return what is asked; others are the options that are none of a request."""
    if isinstance(messages, Request):
        if options:
            raise ConfigurationError(f"a Request holds its own options; do not pass {', '.join(options)} beside it")
        return messages
    if unknown := options.keys() - _REQUEST_OPTIONS:
        known = ", ".join(sorted({*_REQUEST_OPTIONS, *others}))
        raise ConfigurationError(f"unknown option {sorted(unknown)[0]!r}; there are: {known}")
    return Request(messages, **options)


_REQUEST_OPTIONS = frozenset({"tools", "max_tokens", "parameters", "headers", "input_tokens"})

_clients: WeakSet[Client] = WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client._begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
