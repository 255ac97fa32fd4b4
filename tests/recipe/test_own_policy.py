"""Fuzz our own policy: whatever a provider does, a call ends honestly and costs no more than was proved."""

from hypothesis import given

import fsm
from fsm import testing

POLICY = fsm.Policy(limits=fsm.Limits(retries=2, reasks=1), budget=fsm.Budget(attempts=12))
CERTIFICATE = fsm.verify(POLICY, chain=2)


@given(testing.scripts_of_replies())
def test_our_policy_is_honest(script):
    testing.assert_call_honest(testing.run(POLICY, script, chain=2), certificate=CERTIFICATE)


TestManyCallsAtOnce = testing.calls_of(POLICY, chain=2).TestCase
