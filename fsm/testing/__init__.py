"""The fuzz kit: strategies, a virtual clock, a scripted backend, and the one assertion that every call must pass.

    @given(rungwise.fsm.testing.scripts_of_replies())
    def test_our_policy(script):
        call = rungwise.fsm.testing.run(POLICY, script, chain=2)
        rungwise.fsm.testing.assert_call_honest(call, certificate=CERTIFICATE)

    @given(rungwise.fsm.testing.scripts_of_turns())
    def test_our_turn_policy(script):
        turn = rungwise.fsm.testing.run_turn(TURN_POLICY, script)
        rungwise.fsm.testing.assert_turn_honest(turn)

The strategies draw replies (`replies`, `failures`, `scripts_of_replies`), turns (`scripts_of_turns`, `tool_plays`),
callers (`requests`, `policies`, `limits`, `chains`) and hostile bytes (`hostile_responses`); `compactors` draws
ones that shorten, lengthen, raise or return nonsense, and `conversations` what a compactor of yours may be given.
`run` and `run_turn` play a script in memory; `calls_of` and `turns_of` are Hypothesis state machines of many calls
or turns at once. `read_turn_script` reads what `rungwise fuzz --turn` printed. `set_testing` makes every other test
run without waits.

What they draw from is listed in `COMPACTORS`, `TURN_COMPACTORS`, `TOOL_WAYS`, `TOOLS`, `CONVERSATIONS`, `FORMS` (in
which tools are called) and `HOSTILITIES`, by names in plain words; `RECORDER` counts what was covered, which the
pytest plugin tells at the end of a run.

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
from rungwise.fsm.testing.turn.compactors import TURN_COMPACTORS, TurnCompactor, turn_compactors
from rungwise.fsm.testing.turn.honesty import assert_turn_honest
from rungwise.fsm.testing.turn.player import RunOfTurn, TurnPlayer, run_turn
from rungwise.fsm.testing.turn.script import CONVERSATIONS, Stop, TurnScript
from rungwise.fsm.testing.turn.stateful import TurnMachine, turns_of
from rungwise.fsm.testing.turn.strategies import called_tools, scripts_of_turns, turn_policies
from rungwise.fsm.testing.turn.tools import TOOL_WAYS, TOOLS, ToolPlay, tool_plays
from rungwise.fsm.testing.turn.written import read_turn_script, write_turn_script

__all__ = [
    "COMPACTORS",
    "CONVERSATIONS",
    "FORMS",
    "HOSTILITIES",
    "RECORDER",
    "TOOLS",
    "TOOL_WAYS",
    "TURN_COMPACTORS",
    "CallMachine",
    "Compactor",
    "CompactorFailed",
    "Coverage",
    "Dishonest",
    "Played",
    "RawResponse",
    "RawStep",
    "RunOfTurn",
    "ScriptedBackend",
    "Stop",
    "ToolPlay",
    "TurnCompactor",
    "TurnMachine",
    "TurnPlayer",
    "TurnScript",
    "VirtualClock",
    "assert_call_honest",
    "assert_run_holds",
    "assert_turn_honest",
    "called_tools",
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
    "read_turn_script",
    "register_profiles",
    "replies",
    "requests",
    "run",
    "run_turn",
    "scripts_of_replies",
    "scripts_of_turns",
    "set_testing",
    "testing",
    "texts",
    "tool_calls",
    "tool_plays",
    "turn_compactors",
    "turn_policies",
    "turns",
    "turns_of",
    "usages",
    "write_responses",
    "write_turn_script",
]

register_profiles()
