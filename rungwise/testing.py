"""Scripted providers, tests that never wait, and the fuzz kit.

    def test_a_busy_provider_is_asked_again():
        busy = rungwise.testing.ScriptedReply(status=429)
        script = rungwise.testing.Script([busy, rungwise.testing.ScriptedReply("Yes.")])
        with rungwise.testing.testing(), rungwise.testing.EmbeddedProvider(script) as provider:
            url = provider.base_url
            client = rungwise.Client([rungwise.OpenAIChat("model", base_url=url, api_key="key")])
            assert client.call("Is it?").text == "Yes."

    @given(rungwise.testing.scripts_of_replies())
    def test_our_policy(script):
        call = rungwise.testing.run(POLICY, script, chain=2)
        rungwise.testing.assert_call_honest(call, certificate=CERTIFICATE)

    @given(rungwise.testing.scripts_of_turns())
    def test_our_turn_policy(script):
        turn = rungwise.testing.run_turn(TURN_POLICY, script)
        rungwise.testing.assert_turn_honest(turn)

* An `EmbeddedProvider` serves a `Script` of `ScriptedReply`s over HTTP and keeps each
  `ReceivedRequest`. `set_testing` and `testing` turn waits off.
  `Clocks` give a client the clocks, waits and draws of a test, such as a `VirtualClock`.
* Strategies draw replies (`replies`, `failures`, `scripts_of_replies`), turns (`scripts_of_turns`),
  callers (`requests`, `policies`, `turn_policies`), compactors (`compactors`), conversations
  (`conversations`), hostile bytes (`hostile_responses`) and what servers say otherwise (`manners`).
* `run` and `run_turn` play a script in memory; `assert_call_honest` and `assert_turn_honest` check
  how it ended. `calls_of` and `turns_of` are Hypothesis state machines of many calls or turns at
  once.
* `assert_survives` plays raw bytes to a client over a real socket. `read_responses` and
  `read_turn_script` read what `rungwise fuzz` printed. `events_of` and `assert_run_holds` test a
  table of your own.

The fuzz kit needs Hypothesis: `pip install 'rungwise[testing]'`. `EmbeddedProvider`, its scripts,
`Clocks`, `set_testing` and `testing` do not.
"""

from typing import TYPE_CHECKING

from rungwise.lazy import lazy_names

if TYPE_CHECKING:  # the list of public names; each is imported when it is first used
    from rungwise.adapters.client_clocks import Clocks as Clocks
    from rungwise.adapters.provider.script import Script as Script
    from rungwise.adapters.provider.script import ScriptedReply as ScriptedReply
    from rungwise.adapters.provider.server import EmbeddedProvider as EmbeddedProvider
    from rungwise.adapters.provider.server import ReceivedRequest as ReceivedRequest
    from rungwise.adapters.testing.scripts import manners as manners
    from rungwise.adapters.testing.survival import assert_survives as assert_survives
    from rungwise.fsm.call.overrides import set_testing as set_testing
    from rungwise.fsm.call.overrides import testing as testing
    from rungwise.fsm.testing.checks.honesty import Dishonest as Dishonest
    from rungwise.fsm.testing.checks.honesty import assert_call_honest as assert_call_honest
    from rungwise.fsm.testing.checks.honesty import assert_turn_honest as assert_turn_honest
    from rungwise.fsm.testing.checks.path import assert_run_holds as assert_run_holds
    from rungwise.fsm.testing.checks.path import events_of as events_of
    from rungwise.fsm.testing.compactors import compactors as compactors
    from rungwise.fsm.testing.conversations import conversations as conversations
    from rungwise.fsm.testing.hostile.raw import read_responses as read_responses
    from rungwise.fsm.testing.hostile.responses import hostile_responses as hostile_responses
    from rungwise.fsm.testing.policy_strategies import policies as policies
    from rungwise.fsm.testing.scripted import ScriptedBackend as ScriptedBackend
    from rungwise.fsm.testing.scripted import VirtualClock as VirtualClock
    from rungwise.fsm.testing.scripted import run as run
    from rungwise.fsm.testing.stateful import calls_of as calls_of
    from rungwise.fsm.testing.strategies import failures as failures
    from rungwise.fsm.testing.strategies import replies as replies
    from rungwise.fsm.testing.strategies import requests as requests
    from rungwise.fsm.testing.strategies import scripts_of_replies as scripts_of_replies
    from rungwise.fsm.testing.turn_player import run_turn as run_turn
    from rungwise.fsm.testing.turn_script import TurnScript as TurnScript
    from rungwise.fsm.testing.turn_script import read_turn_script as read_turn_script
    from rungwise.fsm.testing.turn_strategies import scripts_of_turns as scripts_of_turns
    from rungwise.fsm.testing.turn_strategies import turn_policies as turn_policies
    from rungwise.fsm.testing.turn_strategies import turns_of as turns_of
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, others=("rungwise", "rungwise.core", "rungwise.ui")
    )
