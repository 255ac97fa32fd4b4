"""Fuzz our own policy: whatever a provider does, a call ends honestly and costs no more than was
proved.
"""

import pytest
from hypothesis import given

import rungwise
from rungwise import testing

POLICY = rungwise.Policy(
    limits=rungwise.Limits(retries=2, reasks=1), budget=rungwise.Budget(attempts=12)
)


@pytest.fixture(scope="module")
def certificate():
    return rungwise.verify(POLICY, chain=2)


@given(script=testing.scripts_of_replies())
def test_our_policy_is_honest(certificate, script):
    testing.assert_call_honest(testing.run(POLICY, script, chain=2), certificate=certificate)


TestManyCallsAtOnce = testing.calls_of(POLICY, chain=2).TestCase
