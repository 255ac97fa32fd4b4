"""The Markov chain as a PRISM program: a small reader of ours solves it in every build, and Storm
in the full run.
"""

import random
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from attrs import define, evolve

from benchmarks.environments import python_of
from rungwise import ConfigurationError, Policy
from rungwise.fsm.analysis.odds import prism
from rungwise.fsm.analysis.odds.calls import Odds
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.prism import prism_of
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.call.policy import Budget
from support.missing import missing
from support.sampled_odds import random_policy, random_rates

SEEDS = range(12)
NEAR = 1e-6
REWARDS = ("attempts", "seconds", "tokens", "money")
COMMAND = re.compile(r"  \[\] c=(\d+) & n>=(\d+) & n<=(\d+) -> (.+);")
UPDATE = re.compile(r"(\S+):\(c'=(\d+)\)(&\(n'=n\+1\))?")
REWARD = re.compile(r"  c=(\d+) & n>=(\d+) & n<=(\d+) : (\S+);|  c>=(\d+) & c<=(\d+) : (\S+);")
LABEL = re.compile(r'label "(\w+)" = c(>?)=(\d+);')

STORM = """
import json, sys, stormpy
found = {}
for path, wanted in json.load(sys.stdin).items():
    program = stormpy.parse_prism_program(path)
    properties = stormpy.parse_properties(";".join(wanted), program)
    model = stormpy.build_model(program, properties)
    results = [stormpy.model_checking(model, each).get_value(model.initial_states[0]) for each in properties]
    found[path] = dict(zip(wanted, results))
print("found", json.dumps(found))
"""  # noqa: E501

State = tuple[int, int]


@define
class Program:
    """Hold what the reader finds: where each state leads with which share, labels, and rewards."""

    moves: dict[State, dict[State, float]]
    labels: dict[str, int]
    first_end: int
    rewards: dict[str, list[tuple[str, ...]]]

    @classmethod
    def read(cls, text: str) -> "Program":
        moves: dict[State, dict[State, float]] = {}
        labels = dict[str, int]()
        rewards = dict[str, list[tuple[str, ...]]]()
        first_end = 0
        now: list[tuple[str, ...]] = []
        for line in text.splitlines():
            if found := COMMAND.fullmatch(line):
                c, low, high = map(int, found.groups()[:3])
                updates = UPDATE.findall(found[4])
                assert len(updates) == found[4].count("c'=")
                for n in range(low, high + 1):
                    assert (c, n) not in moves, "two commands for one state"
                    move = moves[c, n] = {}
                    for share, target, steps in updates:
                        key = int(target), n + bool(steps)
                        move[key] = move.get(key, 0.0) + float(share)
            elif found := REWARD.fullmatch(line):
                now.append(found.groups())
            elif found := LABEL.fullmatch(line):
                first_end = int(found[3]) if found[2] else first_end
                labels |= {} if found[2] else {found[1]: int(found[3])}
            elif line.startswith("rewards"):
                now = rewards.setdefault(line.split('"')[1], [])
        return cls(moves, labels, first_end, rewards)

    def reward(
        self,
        name: str,
        c: int,
        n: int,
    ) -> float:
        """Add up the rewards of a state."""
        found = 0.0
        for one, low, high, value, first, last, of_all in self.rewards[name]:
            if one is None:
                found += float(of_all) * (int(first) <= c <= int(last))
            else:
                found += float(value) * (int(one) == c and int(low) <= n <= int(high))
        return found

    def solve(self) -> dict[str, float]:
        """Return the probability of each label and the mean of each reward, from the start."""
        numbers: dict[State, int] = {(0, 1): 0}
        todo = list(numbers)
        for state in todo:
            new = [
                key for key in self.moves[state] if key[0] < self.first_end and key not in numbers
            ]
            numbers |= {key: len(numbers) + place for place, key in enumerate(new)}
            todo += new
        inner = np.eye(len(numbers))
        names = [*self.labels, *self.rewards]
        gains = np.zeros((len(numbers), len(names)))
        for state, at in numbers.items():
            for target, share in self.moves[state].items():
                if target[0] < self.first_end:
                    inner[at, numbers[target]] -= share
                else:
                    gains[
                        at, [self.labels[name] == target[0] for name in self.labels].index(True)
                    ] += share
            gains[at, len(self.labels) :] = [self.reward(name, *state) for name in self.rewards]
        return dict(zip(names, np.linalg.solve(inner, gains)[0].tolist(), strict=True))


def case_of(seed: int) -> tuple[Policy, Rates]:
    chance = random.Random(seed)
    return random_policy(chance), random_rates(chance, chance.randint(1, 3))


def assert_agree(found: dict[str, float], exact: Odds, policy: Policy) -> None:
    """Assert that the figures are those of the odds; each may have left out other paths."""
    left_out = exact.left_out + found["left_out"]
    assert found["left_out"] < NEAR
    for name in policy.table.outcomes:
        assert found[name] == pytest.approx(
            exact.outcomes.get(name, 0.0), rel=NEAR, abs=1e-12 + left_out
        )
    money = {} if exact.money is None else {"money": exact.money.mean}
    means = {
        "attempts": exact.attempts.mean,
        "seconds": exact.seconds.mean,
        "tokens": exact.tokens,
        **money,
    }
    assert money.keys() == found.keys() & {"money"}
    for name, mean in means.items():
        assert found[name] == pytest.approx(mean, rel=NEAR + left_out * policy.budget.attempts)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_program_says_what_the_odds_say(seed: int) -> None:
    policy, rates = case_of(seed)
    text = prism_of(policy, rates)
    program = Program.read(text)
    for move in program.moves.values():
        assert sum(move.values()) == pytest.approx(1.0, abs=1e-12)
    assert_agree(program.solve(), odds(policy, rates), policy)
    assert prism_of(policy, rates) == text


def test_each_configuration_has_its_comment() -> None:
    policy, rates = case_of(3)
    text = prism_of(policy, rates)
    commented = [
        int(number)
        for number in re.findall(r"^  // (\d+): backend \d, \w+, spent", text, re.MULTILINE)
    ]
    assert commented == list(range(Program.read(text).first_end))


def test_only_priced_backends_cost_money() -> None:
    policy, rates = case_of(0)
    unpriced = Rates([evolve(rates.backend[0], prices=None), *rates.backend[1:]])
    assert 'rewards "money"' not in prism_of(policy, unpriced)
    assert_agree(Program.read(prism_of(policy, unpriced)).solve(), odds(policy, unpriced), policy)


def test_a_name_cannot_leave_its_comment() -> None:
    policy, rates = case_of(0)
    named = Rates(
        [evolve(each, name=f"a\nendmodule {place}") for place, each in enumerate(rates.backend)]
    )
    assert prism_of(policy, named).count("\n") == prism_of(policy, rates).count("\n")


def test_what_is_too_light_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, rates = case_of(3)
    monkeypatch.setattr(prism, "LIGHTEST", 1e-3)
    found = Program.read(prism_of(policy, rates)).solve()
    assert 1e-3 < found["left_out"] < 0.5
    assert sum(found[name] for name in (*policy.table.outcomes, "left_out")) == pytest.approx(1.0)


def test_anything_but_a_policy_and_rates_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="prism_of takes a Policy and Rates"):
        prism_of(Policy(), "rates.toml")  # type: ignore[arg-type]


def test_too_many_states_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, rates = case_of(3)
    monkeypatch.setattr(prism, "MOST_STATES", 20)
    with pytest.raises(ConfigurationError, match="more than 20 states"):
        prism_of(policy, rates)
    assert prism_of(evolve(policy, budget=Budget(attempts=2)), rates)


@pytest.mark.full
@pytest.mark.slowest
def test_storm_says_what_the_odds_say(tmp_path: Path) -> None:
    try:
        python = python_of("storm", tmp_path, ["stormpy==2.0.0"])
    except subprocess.CalledProcessError as error:
        missing(f"pip cannot bring stormpy: {error}")
    wanted: dict[str, Any] = {}
    for seed in SEEDS:
        policy, rates = case_of(seed)
        path = tmp_path / f"{seed}.prism"
        path.write_text(prism_of(policy, rates), encoding="utf-8")
        ends = {name: f'P=? [F "{name}"]' for name in (*policy.table.outcomes, "left_out")}
        wanted[str(path)] = ends | {name: f'R{{"{name}"}}=? [F "ended"]' for name in REWARDS}
    asked = orjson.dumps({path: list(each.values()) for path, each in wanted.items()})
    done = subprocess.run(
        [str(python), "-c", STORM],
        input=asked,
        capture_output=True,
        check=True,
    )
    found = orjson.loads(done.stdout.rpartition(b"found ")[2])
    for seed, (path, each) in zip(SEEDS, wanted.items(), strict=True):
        policy, rates = case_of(seed)
        assert_agree(
            {name: found[path][asks] for name, asks in each.items()}, odds(policy, rates), policy
        )
