"""The fuzz kit: strategies, a virtual clock, a scripted backend, and the one assertion that every call must pass.

    @given(rungwise.fsm.testing.scripts_of_replies())
    def test_our_policy(script):
        call = rungwise.fsm.testing.run(POLICY, script, chain=2)
        rungwise.fsm.testing.assert_call_honest(call, certificate=CERTIFICATE)

It needs Hypothesis: `pip install 'rungwise[testing]'`.
"""

try:
    import hypothesis as _hypothesis  # noqa: F401  (only to say what is missing)
except ImportError as error:
    raise ImportError("rungwise.fsm.testing needs Hypothesis: pip install 'rungwise[testing]'") from error

from rungwise.fsm.testing.backend import Played, ScriptedBackend, run
from rungwise.fsm.testing.callers import chains, limits, policies, requests, turns
from rungwise.fsm.testing.checks.honesty import Dishonest, assert_call_honest
from rungwise.fsm.testing.clock import VirtualClock
from rungwise.fsm.testing.compactors import COMPACTORS, Compactor, CompactorFailed, compactors
from rungwise.fsm.testing.conversations import FORMS, conversations
from rungwise.fsm.testing.coverage import RECORDER, Coverage
from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep, read_responses, write_responses
from rungwise.fsm.testing.hostile.responses import HOSTILITIES, hostile_responses, raw_responses
from rungwise.fsm.testing.hostile.valid import healthy_response
from rungwise.fsm.testing.profiles import register_profiles
from rungwise.fsm.testing.stateful import CallMachine, calls_of
from rungwise.fsm.testing.strategies import (
    chunkings,
    failures,
    headers,
    plays,
    replies,
    scripts_of_replies,
    texts,
    tool_calls,
    usages,
)
from rungwise.fsm.testing.switch import set_testing, testing
from rungwise.fsm.testing.tables import assert_run_holds, events_of

__all__ = [
    "COMPACTORS",
    "FORMS",
    "HOSTILITIES",
    "RECORDER",
    "CallMachine",
    "Compactor",
    "CompactorFailed",
    "Coverage",
    "Dishonest",
    "Played",
    "RawResponse",
    "RawStep",
    "ScriptedBackend",
    "VirtualClock",
    "assert_call_honest",
    "assert_run_holds",
    "calls_of",
    "chains",
    "chunkings",
    "compactors",
    "conversations",
    "events_of",
    "failures",
    "headers",
    "healthy_response",
    "hostile_responses",
    "limits",
    "plays",
    "policies",
    "raw_responses",
    "read_responses",
    "register_profiles",
    "replies",
    "requests",
    "run",
    "scripts_of_replies",
    "set_testing",
    "testing",
    "texts",
    "tool_calls",
    "turns",
    "usages",
    "write_responses",
]

register_profiles()
