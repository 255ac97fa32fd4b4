"""Traces and metrics of calls and turns for OpenTelemetry: `pip install 'rungwise[otel]'`.

    client = rungwise.otel.instrument(rungwise.Client(chain))

or for every client of the process, by whomever it is made, `rungwise.otel.instrument_all()`.
"""

from typing import TYPE_CHECKING

from rungwise.lazy import lazy_names

if TYPE_CHECKING:  # the list of public names; each is imported when it is first used
    from rungwise.adapters.telemetry.otel import instrument as instrument
    from rungwise.adapters.telemetry.otel import instrument_all as instrument_all
    from rungwise.adapters.telemetry.otel import observer as observer
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, others=("rungwise", "rungwise.core", "rungwise.testing")
    )
