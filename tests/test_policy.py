from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fsm
from fsm.policy import from_mapping


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (lambda: fsm.Limits(retries=-1), ["Limits.retries", "0 to 1000", "-1"]),
        (lambda: fsm.Limits(retries=True), ["Limits.retries", "True"]),
        (lambda: fsm.Limits(retries=2.5), ["Limits.retries", "2.5"]),
        (lambda: fsm.Limits(retries=10**9), ["Limits.retries", "1000"]),
        (lambda: fsm.Budget(attempts=0), ["Budget.attempts", "1 to"]),
        (lambda: fsm.Budget(seconds=0), ["Budget.seconds", "above 0"]),
        (lambda: fsm.Budget(seconds=float("inf")), ["Budget.seconds", "finite"]),
        (lambda: fsm.Budget(money=float("nan")), ["Budget.money", "finite"]),
        (lambda: fsm.Budget(output_tokens=0), ["Budget.output_tokens"]),
        (lambda: fsm.Waits(retry_base=-1), ["Waits.retry_base"]),
        (lambda: fsm.Timeouts(idle=0), ["Timeouts.idle"]),
        (lambda: fsm.Hints(nudge=" "), ["Hints.nudge", "blank"]),
        (lambda: fsm.Hints(seed="no place"), ["Hints.seed", "{reasoning}"]),
        (lambda: fsm.Policy(budget=3), ["Policy.budget", "Budget", "int"]),
        (lambda: fsm.Policy(switch_after={"overload": 1}), ["switch_after", "'overload'", "did you mean 'overloaded'"]),
        (lambda: fsm.Policy(switch_after={"overloaded": 0}), ["switch_after.overloaded", "1 or more"]),
        (lambda: fsm.Policy(skip_identical_empties="yes"), ["skip_identical_empties", "true or false"]),
        (lambda: fsm.Policy(base_cap=0), ["Policy.base_cap"]),
    ],
)
def test_a_wrong_field_is_named_with_what_would_be_right(build, names):
    with pytest.raises(fsm.ConfigurationError) as caught:
        build()
    assert all(name in str(caught.value) for name in names), str(caught.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[limits]\nretrys = 3", ["mine.toml", "'retrys'", "did you mean 'retries'"]),
        ("[limit]\nretries = 3", ["'limit'", "did you mean 'limits'"]),
        ("limits = 3", ["Policy.limits", "[limits]"]),
        ("[budget]\nattempts = -3", ["Budget.attempts", "-3"]),
        ("table = 1", ["'table'"]),
        ("[limits\nretries = 3", ["mine.toml", "line 1"]),
    ],
)
def test_a_wrong_file_is_named_with_what_would_be_right(text, names):
    with pytest.raises(fsm.ConfigurationError) as caught:
        fsm.Policy.from_toml(text, source="mine.toml")
    assert all(name in str(caught.value) for name in names), str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(fsm.ConfigurationError, match=r"missing\.toml"):
        fsm.Policy.load(tmp_path / "missing.toml")


def test_toml_sets_what_it_names_and_nothing_else(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("base_cap = 100\n[limits]\nretries = 7\n[budget]\nseconds = 30\n[switch_after]\nrate_limit = 1\n")
    policy = fsm.Policy.load(path)
    assert policy.limits == fsm.Limits(retries=7)
    assert policy.budget == fsm.Budget(seconds=30)
    assert (policy.base_cap, dict(policy.switch_after)) == (100, {"overloaded": 2, "timeout": 2, "rate_limit": 1})
    assert policy.waits == fsm.Waits()


def test_a_policy_cannot_be_changed():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        fsm.Policy().base_cap = 5
    with pytest.raises(TypeError):
        fsm.Policy().switch_after["timeout"] = 9


limits = st.builds(
    fsm.Limits, retries=st.integers(0, 1000), nudges=st.integers(0, 9), fallbacks=st.none() | st.integers(0, 9)
)
budgets = st.builds(fsm.Budget, attempts=st.integers(1, 1000), seconds=st.none() | st.floats(0.1, 1e6))


@given(st.builds(fsm.Policy, limits=limits, budget=budgets))
def test_a_policy_survives_the_way_to_plain_values_and_back(policy):
    assert from_mapping(fsm.Policy, policy.to_mapping()) == policy
