"""The client: a chain of backends, a policy, and the methods that run calls and turns."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, Never, Self, Unpack, overload

from rungwise.adapters.check import Check, check_request, with_stand_ins
from rungwise.adapters.client_clocks import Clocks, checked_clocks
from rungwise.adapters.client_decisions import Deciding
from rungwise.adapters.client_options import (
    ATTRIBUTES,
    CallOptions,
    Messages,
    check_chain,
    check_flag,
    check_functions,
    check_http,
    check_policy,
    check_sizes,
    check_sync,
    shared_of,
    throttle_of,
    warn_of_problems,
)
from rungwise.adapters.client_turns import Turns
from rungwise.adapters.every_client import is_made
from rungwise.adapters.http.async_driver import AsyncCompactor
from rungwise.adapters.http.borrowed import AsyncHttpClient, HttpClient
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.adapters.http.closing import AsyncClosing, Closing
from rungwise.adapters.http.deadline import Deadlines, header_name
from rungwise.adapters.http.exchange import LARGEST_REPLY
from rungwise.adapters.http.running import Connections
from rungwise.adapters.http.streams import AsyncStream, Stream, agrowing
from rungwise.adapters.http.sync_driver import Compactor
from rungwise.adapters.runtime import Runtime
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.chain.chain import Chain
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.run.recording import Observer
from rungwise.fsm.call.run.result import Result, V
from rungwise.fsm.health.health import DEFAULT_HEALTH, BackendHealth, Health
from rungwise.fsm.values.checks import Called


class Client(Turns, Deciding, Closing, AsyncClosing, Called):
    """Run model calls over a chain of backends. One client serves any number of calls, in any
    number of threads.

    Arguments:
        chain: the backends in order, or a single one; every call starts at the first.
        policy: how calls recover, and the budget of each, unless a call is given its own.
        http: an `httpx.Client` (or one of its shape) for `call` and `stream`; it is neither closed
            nor changed.
        async_http: an `httpx.AsyncClient` for `acall` and `astream`, likewise.
        max_connections: how many connections may be open at once, for threads and for each event
            loop. Further calls wait in turn, within their own time. A client that you pass in keeps
            its own limits.
        stream_calls: whether `call` and `acall` stream the reply, too, if the backend can, so that
            they notice silence early. False asks for whole replies.
        observer: called with each step as it happens.
        compactor: shortens messages that do not fit; may be a coroutine function for asynchronous
            calls.
        contents: whether journals may hold texts and tool calls.
        largest_reply: the most bytes to read of one reply, after decompression. A whole reply that
            is larger is malformed; a stream is cut. Of a stream, text counts in full and the
            framing around it by a sixteenth. A reply takes up to 32 times as much memory while it
            is read.
        health: when calls stop asking a backend that fails, and for how long; all calls of the
            client remember it. None remembers nothing: every call asks the first backend first.
        store: the URL of a Redis or Valkey server, by which many processes remember it together
            (extra `redis`).
        retry_share: the most retries, reasks and rechecks of the last 1,000 calls together, as
            a share of these calls, from the 100th call on. Fallbacks do not count, nor do retries
            that wait for what a 429 asked. None sets no limit.
        deadline_header: the name of a header. Each request carries the deadline of the call in it,
            in RFC 3339. If you pass a header of that name to a call, it is the deadline of the
            call.
        testing: the clocks, waits and draws of a test, a `rungwise.testing.Clocks`; None for real
            ones.

    Attributes:
        runtime: what the calls run with: the seam for those who build on a client, such as durable
            calls and telemetry. It is not part of the everyday API.

    Raises:
        ConfigurationError: the chain is empty or none of its backends can be used, or prices are
            missing for a budget.
        TypeError: there is no such argument. `clock`, `sleep`, `async_sleep`, `wall_clock` and
            `jitter` are now those of `testing`.
    """

    _INSTEAD = ATTRIBUTES

    def __init__(
        self,
        chain: Backend | Iterable[Backend] = (),
        *more: Never,
        policy: Policy = DEFAULT_POLICY,
        http: HttpClient | None = None,
        async_http: AsyncHttpClient | None = None,
        max_connections: int = 100,
        stream_calls: bool = True,
        observer: Observer | None = None,
        compactor: Compactor | AsyncCompactor | None = None,
        contents: bool = False,
        largest_reply: int = LARGEST_REPLY,
        health: Health | None = DEFAULT_HEALTH,
        store: str | None = None,
        retry_share: float | None = 0.2,
        deadline_header: str | None = None,
        testing: Clocks | None = None,
        **removed: Never,
    ) -> None:
        if more:
            raise TypeError("Client() takes one chain: put its backends into a list")
        clocks = checked_clocks(testing, removed)
        chain = tuple(chain) if isinstance(chain, Iterable) else (chain,)
        check_chain(chain)
        chain = with_stand_ins(chain)
        check_sizes(max_connections, largest_reply)
        check_flag("stream_calls", stream_calls)
        check_flag("contents", contents)
        check_policy(policy)
        check_functions(observer=observer, compactor=compactor)
        check_http(http, async_http)
        call_options = {
            "observer": observer,
            "contents": contents,
            "jitter": clocks.jitter,
            "has_compactor": compactor is not None,
        }
        connections = Connections(http, async_http, max_connections)
        deadlines = Deadlines(clocks.clock, clocks.wall_clock, header_name(deadline_header))
        shared = shared_of(health, store, clocks.clock, clocks.wall_clock, chain, policy)
        throttle = throttle_of(retry_share)
        self.runtime = Runtime(
            chain=chain,
            policy=policy,
            call_options=call_options,
            compactor=compactor,
            connections=connections,
            deadlines=deadlines,
            clock=clocks.clock,
            sleep=clocks.sleep,
            async_sleep=clocks.async_sleep,
            largest_reply=largest_reply,
            stream_calls=stream_calls,
            shared=shared,
            throttle=throttle,
        )
        Chain.of(chain, needs_prices=policy.budget.money is not None)
        warn_of_problems(chain)
        is_made(self)

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __reduce__(self) -> Never:
        raise TypeError("a Client is not pickled: build it where you use it")

    @property
    def chain(self) -> tuple[Backend, ...]:
        """Return the backends in order."""
        return self.runtime.chain

    @property
    def policy(self) -> Policy:
        """Return the policy of every call that is not given its own."""
        return self.runtime.policy

    def health(self) -> dict[str, BackendHealth]:
        """Return what the calls of this client remember of each backend, by its name; nothing
        without `health=`.
        """
        shared = self.runtime.shared
        if shared is None or shared.watch is None:
            return {}
        return shared.watch.seen(self.runtime.chain)

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
            `over_budget`.
            WrongAnswer: `returns` was given, and no answer has brought a value.
            ConfigurationError: the messages or options are not of their form, or
            prices are missing for a budget.
        """
        check_sync("call", cancellation, self.runtime.compactor)
        call = self.runtime.new_call(messages, options, returns, is_streaming=False)
        with either(self.runtime.connections.in_threads.cancellation, cancellation) as ending:
            return self.runtime.driver(ending, call.policy.timeouts).run(call).raise_for_outcome()

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
        check_sync("stream", cancellation, self.runtime.compactor)
        call = self.runtime.new_call(messages, options, returns, is_streaming=True)
        own = Cancellation()
        stream = Stream(call, self.runtime.stream(call, own, cancellation), own)
        self.runtime.connections.add(stream)
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
        return self.runtime.run(
            self.runtime.new_call(messages, options, returns, is_streaming=False)
        )

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
        call = self.runtime.new_call(messages, options, returns, is_streaming=True)
        running = self.runtime.connections.in_this_loop()
        own = Cancellation()
        events = self.runtime.async_driver(running, own, call.policy.timeouts).stream(call)
        stream = AsyncStream(call, agrowing(events, call.returns, self.runtime.clock), own)
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
            self.runtime.new_call(messages, options, returns, is_streaming=False).request,
            self.chain,
        )

    def close(self) -> None:
        """End the calls that run in threads and close their connections. A client that you passed
        in stays open.

        Each of these calls ends `cancelled` and keeps what was delivered in its result.
        """
        self.runtime.connections.close()

    async def aclose(self) -> None:
        """End the calls of this event loop and close its connections. A client that you passed in
        stays open.
        """
        await self.runtime.connections.aclose()

    def discover(self) -> dict[str, str]:
        """Ask each local server in the chain what it is, and use that in the calls that begin from
        now on.

        It requests a few pages of each backend for chat completions or Responses at a local host,
        with two seconds for each page, and remembers the answers for the life of the process. In
        chat completions, llama.cpp, vLLM and SGLang then continue a cut text natively, without
        `prefill=`. Their window is known, and that llama.cpp hides cuts. The journal lists what was
        `discovered`. A server that does not answer stays unknown; that is no error.

        Returns:
            The kinds of the servers that are known now, by the names of their backends.
        """
        from rungwise.adapters.discovery import discovered  # which most programs do without

        connections = self.runtime.connections
        ending = connections.in_threads.cancellation
        self.runtime.chain = discovered(self.runtime.chain, connections.http, ending)
        return self._servers()

    async def adiscover(self) -> dict[str, str]:
        """Ask the servers asynchronously; see `discover`."""
        from rungwise.adapters.discovery import adiscovered  # likewise

        connections = self.runtime.connections
        running = connections.in_this_loop()
        http = connections.http_of(running)
        self.runtime.chain = await adiscovered(self.runtime.chain, http, running.cancellation)
        return self._servers()

    def _servers(self) -> dict[str, str]:
        servers = {}
        for backend in self.runtime.chain:
            server = getattr(backend, "server", None)
            if server is not None:
                servers[backend.name] = server.name
        return servers
