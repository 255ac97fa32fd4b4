import copy
import pickle

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rungwise
from rungwise import CALL, Budget, ConfigurationError, Hints, Limits, Policy, Reserve, Waits
from rungwise.fsm.call.policy import SWITCH_AFTER
from rungwise.fsm.call.policy_values import from_mapping


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (lambda: Limits(retries=-1), ["Limits.retries", "0 to 1000", "-1"]),
        (lambda: Limits(retries=True), ["Limits.retries", "True"]),
        (lambda: Limits(retries=2.5), ["Limits.retries", "2.5"]),
        (lambda: Limits(retries=10**9), ["Limits.retries", "1000"]),
        (lambda: Budget(attempts=0), ["Budget.attempts", "1 to"]),
        (lambda: Budget(attempts=10**10), ["Budget.attempts", "1 to"]),
        (
            lambda: Policy(budget=Budget(attempts=1001)),
            ["Budget.attempts", "1 to 1000", "1001"],
        ),
        (lambda: Budget(seconds=0), ["Budget.seconds", "above 0"]),
        (lambda: Budget(seconds=float("inf")), ["Budget.seconds", "finite"]),
        (lambda: Budget(money=float("nan")), ["Budget.money", "finite"]),
        (lambda: Budget(output_tokens=0), ["Budget.output_tokens"]),
        (lambda: Waits(retry_base=-1), ["Waits.retry_base"]),
        (lambda: rungwise.Timeouts(stall=0), ["Timeouts.stall"]),
        (lambda: Reserve(share=1.5), ["Reserve.share", "at most 1"]),
        (lambda: Reserve(seconds=0), ["Reserve.seconds", "above 0"]),
        (
            lambda: Policy(after_refusal="stop"),
            ["Policy.after_refusal", "'fall_back'", "'end'", "'stop'"],
        ),
        (lambda: Hints(nudge=" "), ["Hints.nudge", "blank"]),
        (lambda: Hints(seed="no place"), ["Hints.seed", "{reasoning}"]),
        (lambda: Policy(budget=3), ["Policy.budget", "Budget", "int"]),
        (
            lambda: Policy(switch_after={"overload": 1}),
            ["switch_after", "'overload'", "did you mean 'overloaded'"],
        ),
        (
            lambda: Policy(switch_after={"overloaded": 0}),
            ["switch_after.overloaded", "1 or more"],
        ),
        (
            lambda: Policy(skip_identical_empties="yes"),
            ["skip_identical_empties", "true or false"],
        ),
        (lambda: Policy(base_cap=0), ["Policy.base_cap"]),
    ],
)
def test_a_wrong_field_is_named_with_what_would_be_right(build, names):
    with pytest.raises(ConfigurationError) as caught:
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
    with pytest.raises(ConfigurationError) as caught:
        Policy.from_toml(text, source="mine.toml")
    assert all(name in str(caught.value) for name in names), str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"missing\.toml"):
        Policy.load(tmp_path / "missing.toml")


def test_toml_sets_what_it_names_and_nothing_else(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        "base_cap = 100\n[limits]\nretries = 7\n[budget]\nseconds = "
        "30\n[switch_after]\nrate_limit = 1\n"
    )
    policy = Policy.load(path)
    assert policy.limits == Limits(retries=7)
    assert policy.budget == Budget(seconds=30)
    assert (policy.base_cap, dict(policy.switch_after)) == (
        100,
        {**SWITCH_AFTER, "rate_limit": 1, "rate_limit_without_wait": 1},
    )
    assert policy.waits == Waits()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"rate_limit_without_wait": 2}),
        ({"rate_limit": 5}, {"rate_limit": 5, "rate_limit_without_wait": 5}),
        (
            {"rate_limit": 5, "rate_limit_without_wait": 1},
            {"rate_limit": 5, "rate_limit_without_wait": 1},
        ),
        ({"empty": 1000, "unreachable": 3}, {"empty": 1000, "unreachable": 3}),
    ],
)
def test_what_switch_after_does_not_name_keeps_its_default(given, expected):
    assert dict(Policy(switch_after=given).switch_after) == {**SWITCH_AFTER, **expected}


def test_a_policy_cannot_be_changed():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Policy().base_cap = 5
    with pytest.raises(TypeError):
        Policy().switch_after["timeout"] = 9


limits = st.builds(
    Limits,
    retries=st.integers(0, 1000),
    nudges=st.integers(0, 9),
    fallbacks=st.none() | st.integers(0, 9),
)
budgets = st.builds(Budget, attempts=st.integers(1, 1000), seconds=st.none() | st.floats(0.1, 1e6))


@given(st.builds(Policy, limits=limits, budget=budgets))
def test_a_policy_survives_the_way_to_plain_values_and_back(policy):
    assert from_mapping(Policy, policy.to_mapping()) == policy


def test_limits_are_a_mapping_that_cannot_be_changed():
    few = Limits(retries=1, fallbacks=2)
    assert dict(few) == {**CALL.limits, "retries": 1, "fallbacks": 2}
    assert (few.retries, few["reasks"], "pleas" in few) == (1, 3, False)
    assert len(few) == len(CALL.limits)
    assert Limits(**{**few, "retries": 3, "fallbacks": None}) == Limits()
    assert {few: 1}[Limits(fallbacks=2, retries=1)] == 1
    assert pickle.loads(pickle.dumps(few)) == copy.deepcopy(few) == few
    with pytest.raises(AttributeError, match="cannot be changed"):
        few.retries = 5
    with pytest.raises(AttributeError, match="there is no limit 'retires'"):
        _ = few.retires


def test_a_preset_is_one_line_of_toml_and_other_keys_win():
    assert Policy.from_toml('preset = "interactive"') == Policy.interactive()
    policy = Policy.from_toml('preset = "interactive"\nbase_cap = 7\n[timeouts]\nstall = 3\n')
    assert (policy.timeouts.stall, policy.timeouts.first_token, policy.base_cap) == (3, 10.0, 7)
    changed = Policy.interactive(after_refusal="fall_back")
    assert (changed.after_refusal, changed.timeouts) == (
        "fall_back",
        Policy.interactive().timeouts,
    )


@pytest.mark.parametrize("named", ['"interactiv"', "3", "[]", "{}"])
def test_an_unknown_preset_is_named_with_those_that_there_are(named):
    with pytest.raises(ConfigurationError, match="unknown preset"):
        Policy.from_toml(f"preset = {named}")
