"""What a client runs its calls with: the settings, and the drivers made from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from attrs import define, evolve

from rungwise.adapters.client_options import (
    OF_CALLS,
    CallOptions,
    Messages,
    RunOptions,
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
from rungwise.fsm.call.budget.shared import SharedBudget, check_within
from rungwise.fsm.call.budget.throttle import RetryThrottle
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import TurnContext
from rungwise.fsm.call.overrides import with_overrides
from rungwise.fsm.call.policy import Policy, Timeouts
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.recording import Observer
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.turn.actions import TurnEvent
from rungwise.fsm.turn.result import TurnResult

if TYPE_CHECKING:
    from rungwise.adapters.turn.drivers import AsyncTurnDriver, SyncTurnDriver


@define(eq=False)
class Runtime:
    """What a `Client` runs its calls with: the seam for those who build on a client.

    Durable calls, the gateway and telemetry use it, and so may you. It is not part of the everyday
    API: to call models, use the methods of the client. The client has checked all of it, and
    nothing is checked again here.

    Arguments:
        chain: the backends in order. `Client.discover` replaces those of which it learns something.
        policy: how calls recover, unless a call is given its own.
        call_options: the arguments of every `rungwise.core.Call` and every turn: `observer`,
            `contents`, `jitter` and `has_compactor`. Use `attach` to change the observer.
        compactor: shortens messages that do not fit.
        connections: the connections of threads and of each event loop, and the calls that use them.
        deadlines: reads the deadlines of calls. Its `wall_clock` returns the seconds since 1970.
        clock: returns seconds on a monotonic clock.
        sleep: waits for so many seconds in a thread; None for a wait that cancelling ends.
        async_sleep: the same in an event loop.
        largest_reply: the most bytes to read of one reply.
        stream_calls: whether `call` and `acall` stream the reply, too.
        shared: what calls share (health, quotas, budgets in a store); None if they share nothing.
        throttle: limits the retries of all calls together; None sets no limit.
    """

    chain: tuple[Backend, ...]
    policy: Policy
    call_options: dict[str, Any]
    compactor: Compactor | AsyncCompactor | None
    connections: Connections
    deadlines: Deadlines
    clock: Callable[[], float]
    sleep: Callable[[float], object] | None
    async_sleep: Callable[[float], Awaitable[object]]
    largest_reply: int
    stream_calls: bool
    shared: Shared | None
    throttle: RetryThrottle | None

    @property
    def observer(self) -> Observer | None:
        """Return what is called with each step."""
        observer: Observer | None = self.call_options["observer"]
        return observer

    def attach(self, observer: Observer) -> None:
        """Call an observer with each step of the calls and turns that begin from now on.

        It takes the place of the present one, so pass the steps on to that.
        """
        self.call_options = {**self.call_options, "observer": observer}

    def with_chain(self, chain: Iterable[Any], *, stream_calls: bool) -> Runtime:
        """Return one with another chain, which shares connections, clocks and all else.

        Arguments:
            chain: backends, or what stands for them.
            stream_calls: whether `call` and `acall` stream the reply, too.
        """
        return evolve(self, chain=tuple(chain), stream_calls=stream_calls)

    def share(self, others: Iterable[Runtime]) -> None:
        """Use the connections of the first of some clients, and the health, quotas and stored
        budgets of the first that remembers any.
        """
        others = tuple(others)
        self.connections = others[0].connections
        remembered = [each.shared for each in others if each.shared is not None]
        if self.shared is not None and remembered:
            self.shared = self.shared.at(remembered[0])

    def for_decisions(self) -> Runtime:
        """Return one that asks each backend at its endpoint for decisions, if it has one."""
        # decisions are for those who ask for them
        from rungwise.adapters.wires.decisions.backend import Decisions

        return self.with_chain(map(Decisions.beside, self.chain), stream_calls=self.stream_calls)

    def new_call(
        self, messages: Messages, options: CallOptions, returns: Any, *, is_streaming: bool
    ) -> Call:
        """Return a call that has not begun.

        Arguments:
            messages, options, returns: as `Client.call` takes them.
            is_streaming: whether its text is handed out as it arrives.

        Raises:
            ConfigurationError: the messages or options are not of their form, or prices are missing
                for a budget.
        """
        request = request_of(messages, options, OF_CALLS)
        turn = options.get("turn") or TurnContext()
        policy = options.get("policy")
        policy = self.policy if policy is None else check_policy(policy)
        deadline = self.deadlines.of(options.get("deadline"), request.headers)
        policy = with_overrides(policy)
        return Call(
            request,
            policy,
            self.chain,
            turn,
            within=self._within(options),
            verdict=options.get("verdict"),
            deadline=deadline,
            returns=returns,
            is_streaming=is_streaming,
            **self.call_options,
        )

    def new_turn(
        self, messages: Messages, options: TurnOptions, returns: Any, *, is_streaming: bool
    ) -> Planned:
        """Return a turn that has not begun, with its compactor; raises what `new_call` does.

        Arguments:
            messages, options, returns: as `Client.turn` takes them.
            is_streaming: as for `new_call`.
        """
        request = request_of(messages, options, OF_TURNS)
        deadline = self.deadlines.of(options.get("deadline"), request.headers)
        return Planned.of(
            request,
            options,
            self.chain,
            self.policy,
            self.compactor,
            within=self._within(options),
            deadline=deadline,
            returns=returns,
            is_streaming=is_streaming,
            **self.call_options,
        )

    def _within(self, options: RunOptions) -> SharedBudget | None:
        """Return the budget that a call or a turn shares which begins now."""
        within = options.get("within")
        if within is None:
            return None
        check_within(within)
        return within.at(self.deadlines.wall_clock())

    def driver(self, ending: Cancellation, timeouts: Timeouts) -> SyncDriver:
        """Return a driver of calls for this thread.

        Arguments:
            ending: ends the calls.
            timeouts: the limits of each attempt, in seconds.
        """
        http = self.connections.http
        settings = self._settings(ending, timeouts)
        return SyncDriver(http=http, sleep=self.sleep, verdicts=Verdicts(), **settings)

    def async_driver(
        self, running: LoopCalls, ending: Cancellation, timeouts: Timeouts
    ) -> AsyncDriver:
        """Return a driver of calls for an event loop.

        Arguments:
            running: the calls of this loop, as `connections.in_this_loop()` returns them.
            ending, timeouts: as for `driver`.
        """
        return AsyncDriver(**self.async_settings(running, ending, timeouts))

    def async_settings(
        self, running: LoopCalls, ending: Cancellation, timeouts: Timeouts
    ) -> dict[str, Any]:
        """Return the arguments of an `AsyncDriver`, for a driver of your own; takes what
        `async_driver` does.
        """
        http = self.connections.http_of(running)
        settings = self._settings(ending, timeouts)
        return {"http": http, "sleep": self.async_sleep, "found": found_async, **settings}

    def turn_driver(self, planned: Planned, ending: Cancellation) -> SyncTurnDriver:
        """Return a driver of a turn for this thread."""
        calls = self.driver(ending, planned.turn.policy.of_calls.timeouts)
        # tools bring asyncio, which calls do without
        from rungwise.adapters.turn.drivers import SyncTurnDriver

        return SyncTurnDriver(calls, planned.compactor)

    def async_turn_driver(
        self, planned: Planned, running: LoopCalls, ending: Cancellation
    ) -> AsyncTurnDriver:
        """Return a driver of a turn for an event loop."""
        calls = self.async_driver(running, ending, planned.turn.policy.of_calls.timeouts)
        from rungwise.adapters.turn.drivers import AsyncTurnDriver  # likewise

        return AsyncTurnDriver(calls, planned.compactor)

    def stream(
        self, call: Call, own: Cancellation, cancellation: Cancellation | None
    ) -> Generator[StreamEvent]:
        """Run a call in this thread, and yield its events.

        Arguments:
            call: a new call.
            own: ends the stream.
            cancellation: the caller's, which ends it as well.
        """
        with either(own, cancellation) as ending:
            events = self.driver(ending, call.policy.timeouts).stream(call)
            yield from growing(events, call.returns, self.clock)

    def stream_turn(
        self, planned: Planned, own: Cancellation, cancellation: Cancellation | None
    ) -> Generator[TurnEvent]:
        """Run a turn in this thread, and yield its events; takes what `stream` does."""
        with either(own, cancellation) as ending:
            yield from self.turn_driver(planned, ending).stream(planned.turn)

    async def run(self, call: Call) -> Result:
        """Run a call in this event loop, and return its result or raise its error."""
        running = self.connections.in_this_loop()
        driver = self.async_driver(running, running.cancellation, call.policy.timeouts)
        return (await driver.run(call)).raise_for_outcome()

    run.__qualname__ = "Client.acall"  # Python names it where nobody awaits it

    async def run_turn(self, planned: Planned) -> TurnResult:
        """Run a turn in this event loop, and return its result or raise its error."""
        running = self.connections.in_this_loop()
        driver = self.async_turn_driver(planned, running, running.cancellation)
        return (await driver.run(planned.turn)).raise_for_outcome()

    run_turn.__qualname__ = "Client.aturn"  # likewise

    def _settings(self, ending: Cancellation, timeouts: Timeouts) -> dict[str, Any]:
        """Return the arguments that drivers of threads and of event loops share."""
        return {
            "chain": self.chain,
            "timeouts": timeouts,
            "clock": self.clock,
            "compactor": self.compactor,
            "cancellation": ending,
            "largest_reply": self.largest_reply,
            "deadlines": self.deadlines,
            "stream_calls": self.stream_calls,
            "shared": self.shared,
            "throttle": self.throttle,
        }
