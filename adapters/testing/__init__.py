"""The fuzz kit's outside: a provider without sockets, strategies for its scripts, and what `rungwise fuzz` runs.

It needs Hypothesis: `pip install 'rungwise[testing]'`.
"""

try:
    import hypothesis as _hypothesis  # noqa: F401  (only to say what is missing)
except ImportError as error:
    raise ImportError("adapters.testing needs Hypothesis: pip install 'rungwise[testing]'") from error

from adapters.testing.case import Case, cases
from adapters.testing.fuzzing import Finding, Fuzzer
from adapters.testing.hostile_case import HostileCase, hostile_cases
from adapters.testing.memory import MemoryProvider, MemoryTransport
from adapters.testing.raw_server import RawServer
from adapters.testing.scripts import scripted_replies, scripts
from adapters.testing.survival import assert_survives

__all__ = [
    "Case",
    "Finding",
    "Fuzzer",
    "HostileCase",
    "MemoryProvider",
    "MemoryTransport",
    "RawServer",
    "assert_survives",
    "cases",
    "hostile_cases",
    "scripted_replies",
    "scripts",
]
