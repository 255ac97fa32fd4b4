"""Make the calls of a client visible to OpenTelemetry."""

from __future__ import annotations

from functools import partial
from typing import Final

from rungwise.adapters.client import Client
from rungwise.adapters.every_client import attach_to_all
from rungwise.fsm.call.run.recording import Observer
from rungwise.fsm.errors import ConfigurationError

try:
    from opentelemetry.metrics import MeterProvider, get_meter
    from opentelemetry.trace import TracerProvider, get_tracer
except ModuleNotFoundError:
    raise ConfigurationError("traces need OpenTelemetry: pip install 'rungwise[otel]'") from None

from rungwise.adapters.telemetry.meters import Meters
from rungwise.adapters.telemetry.tracing import OwnAttributes, Tracing

SCHEMA: Final = "https://opentelemetry.io/schemas/1.45.0"
"""The version of the conventions that GenAI's v0.1.0 rests on."""


def observer(
    *,
    contents: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    attributes: OwnAttributes | None = None,
    also: Observer | None = None,
) -> Tracing:
    """Return an observer for a `Client` that makes spans and metrics of its calls and turns.

    Arguments:
        contents: whether spans may hold messages; the environment variable
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` must agree (`true`, `SPAN_ONLY` or
            `SPAN_AND_EVENT`).
        tracer_provider, meter_provider: where they go; None for the global ones.
        attributes: your own, such as a tenant, for each span and metric; or a function that returns
            them, called where a call or turn is made, so that it can read context variables.
        also: another observer, which is called with each step as well.
    """
    tracer = get_tracer("rungwise", tracer_provider=tracer_provider, schema_url=SCHEMA)
    meter = get_meter("rungwise", meter_provider=meter_provider, schema_url=SCHEMA)
    return Tracing(tracer, Meters(meter), contents, also, attributes or {})


def instrument(
    client: Client,
    *,
    contents: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    attributes: OwnAttributes | None = None,
) -> Client:
    """Make spans and metrics of the calls and turns that a client begins from now on, and return
    the client.

    Each call is one span, each attempt a child of it, each rung an event. Each request carries a
    `traceparent`. Without an SDK of OpenTelemetry, nothing is recorded. An instrumented client
    stays as it is.

    Arguments:
        client: keeps the observer that it has.
        contents, tracer_provider, meter_provider, attributes: see `observer`.

    Raises:
        ConfigurationError: this is no client.
    """
    if not isinstance(client, Client):
        raise ConfigurationError(f"client must be a Client, not {type(client).__name__}")
    present = client.runtime.observer
    if isinstance(present, Tracing):
        return client
    tracing = observer(
        contents=contents,
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        attributes=attributes,
        also=present,
    )
    client.runtime.attach(tracing)
    tracing.meters.watch_health(client)
    return client


def instrument_all(
    *,
    contents: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    attributes: OwnAttributes | None = None,
) -> None:
    """Instrument every client of this process: those that there are, and each that is made from now
    on, by whomever.

    Arguments:
        contents, tracer_provider, meter_provider, attributes: see `observer`.
    """
    attach_to_all(
        partial(
            instrument,
            contents=contents,
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            attributes=attributes,
        )
    )
