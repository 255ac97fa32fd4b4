"""The calls, turns and drivers of a client, made from its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from attrs import evolve

from rungwise.adapters.client_options import (
    OF_CALLS,
    CallOptions,
    Messages,
    check_policy,
    request_of,
)
from rungwise.adapters.http.async_driver import AsyncCompactor, AsyncDriver
from rungwise.adapters.http.cancellation import Cancellation, either
from rungwise.adapters.http.deadline import Deadlines
from rungwise.adapters.http.running import Connections, LoopCalls
from rungwise.adapters.http.streams import growing
from rungwise.adapters.http.sync_driver import Compactor, SyncDriver
from rungwise.adapters.stores.sharing import Shared
from rungwise.adapters.tools.judging import Verdicts, found_async
from rungwise.adapters.turn.turn_options import OF_TURNS, Planned, TurnOptions
from rungwise.adapters.wires.backend import Backend
from rungwise.adapters.wires.chat.discovery import Server
from rungwise.fsm.call.budget.throttle import RetryThrottle
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import TurnContext
from rungwise.fsm.call.overrides import with_overrides
from rungwise.fsm.call.policy import Policy, Timeouts
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.health.health import BackendHealth
from rungwise.fsm.turn.actions import TurnEvent
from rungwise.fsm.turn.result import TurnResult

if TYPE_CHECKING:
    from rungwise.adapters.turn.drivers import AsyncTurnDriver, SyncTurnDriver


class Drivers:
    """Hold the settings of a client, which fills them in, and make what runs its calls and
    turns.
    """

    chain: tuple[Backend, ...]
    policy: Policy
    _options: dict[str, Any]
    _connections: Connections
    _compactor: Compactor | AsyncCompactor | None
    _deadlines: Deadlines
    _clock: Callable[[], float]
    _sleep: Callable[[float], object] | None
    _async_sleep: Callable[[float], Awaitable[object]]
    _largest_reply: int
    _stream_calls: bool
    _shared: Shared | None
    _throttle: RetryThrottle | None

    def health(self) -> dict[str, BackendHealth]:
        """Return what the calls of this client remember of each backend, by its name; nothing
        without `health=`.
        """
        watch = None if self._shared is None else self._shared.watch
        return {} if watch is None else watch.seen(self.chain)

    def _new(
        self, messages: Messages, options: CallOptions, returns: Any, *, is_streaming: bool
    ) -> Call:
        request = request_of(messages, options, OF_CALLS)
        turn = options.get("turn") or TurnContext()
        policy = options.get("policy")
        policy = self.policy if policy is None else check_policy(policy)
        deadline = self._deadlines.of(options.get("deadline"), request.headers)
        settings: dict[str, Any] = {name: options.get(name) for name in ("within", "verdict")}
        settings |= {"deadline": deadline, "returns": returns, **self._options}
        return Call(
            request, with_overrides(policy), self.chain, turn, is_streaming=is_streaming, **settings
        )

    def _planned(
        self, messages: Messages, options: TurnOptions, returns: Any, *, is_streaming: bool
    ) -> Planned:
        request = request_of(messages, options, OF_TURNS)
        deadline = self._deadlines.of(options.get("deadline"), request.headers)
        settings = {
            **self._options,
            "is_streaming": is_streaming,
            "deadline": deadline,
            "returns": returns,
        }
        return Planned.of(request, options, self.chain, self.policy, self._compactor, **settings)

    def _stream(
        self, call: Call, own: Cancellation, cancellation: Cancellation | None
    ) -> Generator[StreamEvent]:
        with either(own, cancellation) as ending:
            yield from growing(
                self._driver(ending, call.policy.timeouts).stream(call), call.returns, self._clock
            )

    def _driver(self, ending: Cancellation, timeouts: Timeouts) -> SyncDriver:
        http = self._connections.http
        sleep = self._sleep
        return SyncDriver(
            http=http, sleep=sleep, verdicts=Verdicts(), **self._settings(ending, timeouts)
        )

    def _async_driver(
        self, running: LoopCalls, ending: Cancellation, timeouts: Timeouts
    ) -> AsyncDriver:
        return AsyncDriver(**self._async_settings(running, ending, timeouts))

    def _async_settings(
        self, running: LoopCalls, ending: Cancellation, timeouts: Timeouts
    ) -> dict[str, Any]:
        http = self._connections.http_of(running)
        sleep = self._async_sleep
        return {
            "http": http,
            "sleep": sleep,
            "found": found_async,
            **self._settings(ending, timeouts),
        }

    def _stream_turn(
        self, planned: Planned, own: Cancellation, cancellation: Cancellation | None
    ) -> Generator[TurnEvent]:
        with either(own, cancellation) as ending:
            yield from self._turn_driver(planned, ending).stream(planned.turn)

    def _turn_driver(self, planned: Planned, ending: Cancellation) -> SyncTurnDriver:
        calls = self._driver(ending, planned.turn.policy.of_calls.timeouts)
        # tools bring asyncio, which calls do without
        from rungwise.adapters.turn.drivers import SyncTurnDriver

        return SyncTurnDriver(calls, planned.compactor)

    def _async_turn_driver(
        self, planned: Planned, running: LoopCalls, ending: Cancellation
    ) -> AsyncTurnDriver:
        calls = self._async_driver(running, ending, planned.turn.policy.of_calls.timeouts)
        from rungwise.adapters.turn.drivers import AsyncTurnDriver  # likewise

        return AsyncTurnDriver(calls, planned.compactor)

    async def _acall(self, call: Call) -> Result:
        running = self._connections.in_this_loop()
        driver = self._async_driver(running, running.cancellation, call.policy.timeouts)
        return (await driver.run(call)).raise_for_outcome()

    async def _aturn(self, planned: Planned) -> TurnResult:
        running = self._connections.in_this_loop()
        driver = self._async_turn_driver(planned, running, running.cancellation)
        return (await driver.run(planned.turn)).raise_for_outcome()

    def _settings(self, ending: Cancellation, timeouts: Timeouts) -> dict[str, Any]:
        return {
            "chain": self.chain,
            "timeouts": timeouts,
            "clock": self._clock,
            "compactor": self._compactor,
            "cancellation": ending,
            "largest_reply": self._largest_reply,
            "deadlines": self._deadlines,
            "stream_calls": self._stream_calls,
            "shared": self._shared,
            "throttle": self._throttle,
        }

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
        from rungwise.adapters.discovery import ask, to_ask

        http = self._connections.http
        ending = self._connections.in_threads.cancellation
        return self._remember(
            [
                (each, ask(backend, http, ending) if (backend := to_ask(each)) else None)
                for each in self.chain
            ]
        )

    async def adiscover(self) -> dict[str, str]:
        """Ask the servers asynchronously; see `discover`."""
        from rungwise.adapters.discovery import aask, to_ask

        running = self._connections.in_this_loop()
        http = self._connections.http_of(running)
        servers = []
        for each in self.chain:
            backend = to_ask(each)
            servers.append(
                (each, None if backend is None else await aask(backend, http, running.cancellation))
            )
        return self._remember(servers)

    def _remember(self, servers: Iterable[tuple[Any, Server | None]]) -> dict[str, str]:
        """Replace the backends whose servers are known now."""
        self.chain = tuple(
            [evolve(each, server=one) if one and one.name else each for each, one in servers]
        )
        servers = ((backend.name, getattr(backend, "server", None)) for backend in self.chain)
        return {name: server.name for name, server in servers if server is not None}
