"""The metrics of calls and turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from attrs import define, field
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

from rungwise.adapters.client import Client
from rungwise.adapters.telemetry.names import Attributes
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.record import Step

SECONDS: Final = [0.01 * 2**power for power in range(14)]
TOKENS: Final = [4**power for power in range(14)]
"""The bounds of the buckets that the conventions name."""

_SHARED: Final = ("provider.name", "request.model", "operation.name", "response.model")
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

    def watch_health(self, client: Client) -> None:
        """Report the health of each backend whenever the metrics are read: 1 if it may be asked,
        else 0.
        """
        if self.meter in _WATCHED:  # a meter takes an instrument of one name once
            _WATCHED[self.meter].add(client)
            return
        clients = _WATCHED[self.meter] = WeakSet([client])

        def observed(_: CallbackOptions) -> Iterator[Observation]:
            for name, each in (
                (name, each) for one in list(clients) for name, each in one.health().items()
            ):
                state = {"rungwise.backend": name, "rungwise.health": each.state}
                yield Observation(int(each.state == "closed"), state)

        said = "Whether a backend may be asked"
        self.meter.create_observable_gauge("rungwise.backend.closed", [observed], "1", said)

    def ended(self, result: Result, attributes: Attributes, first_chunk: float | None) -> None:
        """Count a call that has ended, by the attributes of its span and the seconds until a stream
        brought content.
        """
        of_call = _chosen(
            attributes, (*(f"gen_ai.{name}" for name in _SHARED), "server.address", "server.port")
        )
        if "error.type" in attributes:
            of_call["error.type"] = attributes["error.type"]
        self._seconds("gen_ai.client.inference.duration", result.seconds, of_call)
        if first_chunk is not None:
            self._seconds("gen_ai.client.inference.time_to_first_chunk", first_chunk, of_call)
        modality = {"gen_ai.token.modality": "text" if result.usage.total_tokens else "unknown"}
        for name, kind in _KINDS.items():
            count = getattr(result.usage, kind)
            if count or kind in ("input_tokens", "output_tokens"):
                self._count(
                    f"gen_ai.client.inference.usage.{name}",
                    count,
                    {**of_call, **modality},
                    "{token}",
                )
        for name in ("input_tokens", "output_tokens"):
            histogram = self._histogram(
                f"gen_ai.client.inference.operation.{name}", "{token}", TOKENS
            )
            histogram.record(getattr(result.usage, name), of_call)
        outcome = {**of_call, "rungwise.outcome": result.outcome}
        self._histogram("rungwise.attempts", "{attempt}", list(range(1, 25))).record(
            result.attempts, outcome
        )
        if result.cost is not None:
            self._count("rungwise.cost", result.cost, outcome, "1")

    def took(self, step: Step) -> None:
        """Count a rung that a call has taken."""
        self._count(
            "rungwise.rungs",
            1,
            {"rungwise.rung": step.target, "rungwise.event": step.event},
            "{rung}",
        )
        if step.target == "fallback":
            self._count("rungwise.fallbacks", 1, {"rungwise.backend": step.backend}, "{fallback}")

    def of_turn(self, seconds: float, calls: int, tools: int) -> None:
        """Count a turn that has ended."""
        self._seconds("gen_ai.invoke_agent.duration", seconds, {})
        for name, count in (("inference_calls", calls), ("tool_calls", tools)):
            self._histogram(f"gen_ai.invoke_agent.{name}", "{call}", list(range(1, 25))).record(
                count, {}
            )

    def of_tool(self, seconds: float, attributes: Attributes) -> None:
        """Count a tool that has ended."""
        self._seconds(
            "gen_ai.execute_tool.duration",
            seconds,
            _chosen(attributes, ("gen_ai.tool.name", "error.type")),
        )

    def _seconds(self, name: str, seconds: float, attributes: Attributes) -> None:
        self._histogram(name, "s", SECONDS).record(seconds, attributes)

    def _histogram(self, name: str, unit: str, bounds: list[Any]) -> Any:
        if name not in self._made:
            self._made[name] = self.meter.create_histogram(
                name, unit, explicit_bucket_boundaries_advisory=bounds
            )
        return self._made[name]

    def _count(self, name: str, amount: float, attributes: Attributes, unit: str) -> None:
        counter: Any = self._made.get(name)
        if counter is None:
            counter = self._made[name] = self.meter.create_counter(name, unit)
        counter.add(amount, attributes)


def _chosen(attributes: Attributes, names: Iterable[str]) -> Attributes:
    return {name: attributes[name] for name in names if name in attributes}
