"""The fuzz kit's outside: a provider without sockets, strategies for its scripts, and what `rungwise fuzz` runs.

It needs Hypothesis: `pip install 'rungwise[testing]'`.
"""

try:
    import hypothesis as _hypothesis  # noqa: F401  (only to say what is missing)
except ImportError as error:
    raise ImportError("rungwise.adapters.testing needs Hypothesis: pip install 'rungwise[testing]'") from error

from rungwise.adapters.testing.case import Case, cases
from rungwise.adapters.testing.fuzzing import Fuzzer
from rungwise.adapters.testing.hostile_case import HostileCase, hostile_cases
from rungwise.adapters.testing.memory import MemoryProvider, MemoryTransport
from rungwise.adapters.testing.raw_server import RawServer
from rungwise.adapters.testing.scripts import scripted_replies, scripts
from rungwise.adapters.testing.search import Finding
from rungwise.adapters.testing.survival import assert_survives
from rungwise.adapters.testing.turn_fuzzing import TurnCase, TurnFuzzer

__all__ = [
    "Case",
    "Finding",
    "Fuzzer",
    "HostileCase",
    "MemoryProvider",
    "MemoryTransport",
    "RawServer",
    "TurnCase",
    "TurnFuzzer",
    "assert_survives",
    "cases",
    "hostile_cases",
    "scripted_replies",
    "scripts",
]
