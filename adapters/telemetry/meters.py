"""The metrics of calls and turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from attrs import define, field
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

from rungwise.adapters.client import Client
from rungwise.adapters.telemetry.names import OTHER, Attributes
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.values.usage import Usage

SECONDS: Final = [0.01 * 2**power for power in range(14)]
TOKENS: Final = [4**power for power in range(14)]
"""The bounds of the buckets that the conventions name."""
COUNTS: Final = list(range(1, 25))
"""A bucket for each number of attempts up to the default budget."""

_SHARED: Final = (
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.operation.name",
    "gen_ai.response.model",
    "server.address",
    "server.port",
    "error.type",
)
"""The attributes of a span that its metrics have, too."""
MOST_MODELS: Final = 100
"""How many models that replies name are told apart."""
_KINDS: Final = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read.input_tokens": "cache_read_tokens",
    "cache_write.input_tokens": "cache_creation_tokens",
    "reasoning.output_tokens": "reasoning_tokens",
}


_WATCHED: Final[WeakKeyDictionary[Meter, WeakSet[Client]]] = WeakKeyDictionary()


@define(eq=False)
class Meters:
    """Hold the instruments, each made when it is first used."""

    meter: Meter
    _made: dict[str, Counter | Histogram] = field(factory=dict, init=False)
    _models: set[str] = field(factory=set, init=False)  # that replies have named

    def watch_health(self, client: Client) -> None:
        """Report the health of each backend whenever the metrics are read: 1 if it may be asked,
        else 0.
        """
        if self.meter in _WATCHED:  # a meter takes an instrument of one name once
            _WATCHED[self.meter].add(client)
            return
        clients = _WATCHED[self.meter] = WeakSet([client])

        def observed(_: CallbackOptions) -> Iterator[Observation]:
            # Called whenever metrics are exported: 1 for a backend that is closed, else 0.
            for each in list(clients):
                for name, health in each.health().items():
                    state = {"rungwise.backend": name, "rungwise.health": health.state}
                    yield Observation(int(health.state == "closed"), state)

        self.meter.create_observable_gauge(
            "rungwise.backend.closed", [observed], "1", "Whether a backend may be asked"
        )

    def attempted(
        self,
        usage: Usage,
        cost: float | None,
        attributes: Attributes,
        own: Attributes,
    ) -> None:
        """Count the tokens and the cost of an attempt.

        Arguments:
            usage: its tokens.
            cost: in the currency of the prices; None if it is not known.
            attributes: of the backend that was asked, and of its reply.
            own: the caller's own attributes.
        """
        of_attempt = {**own, **self._shared(attributes)}
        modality = {"gen_ai.token.modality": "text" if usage.total_tokens else "unknown"}
        for name, kind in _KINDS.items():
            count = getattr(usage, kind)
            if count or kind in ("input_tokens", "output_tokens"):
                metric = f"gen_ai.client.inference.usage.{name}"
                self._count(metric, count, {**of_attempt, **modality}, "{token}")
        if cost is not None:
            self._count("rungwise.cost", cost, of_attempt, "1")

    def ended(
        self,
        result: Result,
        attributes: Attributes,
        first_chunk: float | None,
        own: Attributes,
    ) -> None:
        """Count a call that has ended.

        Arguments:
            result: of the call.
            attributes: of its span.
            first_chunk: the seconds until a stream brought content; None if it is no stream.
            own: the caller's own attributes.
        """
        of_call = {**own, **self._shared(attributes)}
        self._seconds("gen_ai.client.inference.duration", result.seconds, of_call)
        if first_chunk is not None:
            self._seconds("gen_ai.client.inference.time_to_first_chunk", first_chunk, of_call)
        for name in ("input_tokens", "output_tokens"):
            operation = f"gen_ai.client.inference.operation.{name}"
            count = getattr(result.usage, name)
            self._histogram(operation, "{token}", TOKENS).record(count, of_call)
        outcome = {**of_call, "rungwise.outcome": result.outcome}
        attempts = self._histogram("rungwise.attempts", "{attempt}", COUNTS)
        attempts.record(result.attempts, outcome)

    def took(self, step: Step, own: Attributes) -> None:
        """Count a rung that a call has taken."""
        rung = {
            **own,
            "rungwise.rung": step.target,
            "rungwise.event": step.event,
        }
        self._count("rungwise.rungs", 1, rung, "{rung}")
        if step.target == "fallback":
            left = {**own, "rungwise.backend": step.backend}
            self._count("rungwise.fallbacks", 1, left, "{fallback}")

    def of_turn(
        self,
        seconds: float,
        calls: int,
        tools: int,
        own: Attributes,
    ) -> None:
        """Count a turn that has ended.

        Arguments:
            seconds: how long it took.
            calls, tools: how many it ran.
            own: the caller's own attributes.
        """
        self._seconds("gen_ai.invoke_agent.duration", seconds, own)
        for name, count in (("inference_calls", calls), ("tool_calls", tools)):
            self._histogram(f"gen_ai.invoke_agent.{name}", "{call}", COUNTS).record(count, own)

    def of_tool(self, seconds: float, attributes: Attributes, own: Attributes) -> None:
        """Count a tool that has ended."""
        of_tool = {**own, **_chosen(attributes, ("gen_ai.tool.name", "error.type"))}
        self._seconds("gen_ai.execute_tool.duration", seconds, of_tool)

    def _shared(self, attributes: Attributes) -> Attributes:
        """Return the attributes of a span that its metrics have, too."""
        shared = _chosen(attributes, _SHARED)
        model = shared.get("gen_ai.response.model")
        if model is not None and model not in self._models:
            if len(self._models) >= MOST_MODELS:  # each is a series of its own
                shared["gen_ai.response.model"] = OTHER
            else:
                self._models.add(model)
        return shared

    def _seconds(
        self,
        name: str,
        seconds: float,
        attributes: Attributes,
    ) -> None:
        """Record a duration.

        Arguments:
            name: of the histogram.
            seconds: how long it took.
            attributes: of what.
        """
        self._histogram(name, "s", SECONDS).record(seconds, attributes)

    def _histogram(
        self,
        name: str,
        unit: str,
        bounds: list[Any],
    ) -> Any:
        """Return a histogram, which is made when it is first used."""
        if name not in self._made:
            self._made[name] = self.meter.create_histogram(
                name, unit, explicit_bucket_boundaries_advisory=bounds
            )
        return self._made[name]

    def _count(
        self,
        name: str,
        amount: float,
        attributes: Attributes,
        unit: str,
    ) -> None:
        """Add to a counter.

        Arguments:
            name, unit: of the counter, which is made when it is first used.
            amount: what is added.
            attributes: what it is counted by.
        """
        counter: Any = self._made.get(name)
        if counter is None:
            counter = self._made[name] = self.meter.create_counter(name, unit)
        counter.add(amount, attributes)


def _chosen(attributes: Attributes, names: Iterable[str]) -> Attributes:
    """Return the attributes of these names that are there."""
    return {name: attributes[name] for name in names if name in attributes}
