"""Traces and metrics of calls and turns for OpenTelemetry: `pip install 'rungwise[otel]'`.

    client = rungwise.otel.instrument(rungwise.Client(chain))

or, where a client is made by somebody else, `rungwise.Client(chain,
observer=rungwise.otel.observer())`.
"""

from typing import TYPE_CHECKING

from rungwise.lazy import lazy_names

if TYPE_CHECKING:  # the list of public names; each is imported when it is first used
    from rungwise.adapters.telemetry.otel import instrument as instrument
    from rungwise.adapters.telemetry.otel import observer as observer
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, others=("rungwise", "rungwise.core", "rungwise.testing")
    )
