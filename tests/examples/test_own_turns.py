"""Fuzz our turns: whatever models and tools do, a turn ends within its certificate and can be gone
on from.
"""

import pytest
from hypothesis import given

import rungwise
from rungwise import testing

TURNS = rungwise.TurnPolicy(auto_continues=6, budget=rungwise.Budget(attempts=20))


@pytest.fixture(scope="module")
def certificate():
    return rungwise.verify(TURNS, chain=2)


@given(script=testing.scripts_of_turns())
def test_our_turns_are_honest(certificate, script):
    testing.assert_turn_honest(testing.run_turn(TURNS, script, chain=2), certificate=certificate)


TestManyTurnsAtOnce = testing.turns_of(TURNS, shared=rungwise.Budget(attempts=30)).TestCase
