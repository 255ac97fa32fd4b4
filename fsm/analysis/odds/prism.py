"""The Markov chain of a policy against rates, as a program that PRISM and Storm read.

A state of the program is a configuration (`c`) and the number of the attempt (`n`). The rates of a
configuration do not change from attempt to attempt, but where it leads does: the last attempts have
no budget left for another one. So each configuration has one command for each span of attempts that
lead to the same. Those of the same backend and position stand together, as they earn the same
rewards.

The tests compare the odds with what a model checker computes from this program.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from attrs import frozen

from rungwise.fsm.analysis.odds.configurations import Configuration, Configurations, End
from rungwise.fsm.analysis.odds.grid import Flow
from rungwise.fsm.analysis.odds.rates import POSITIONS, Rates, mean
from rungwise.fsm.analysis.odds.walk import NoClock, walk_all_but
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import note

# lighter states are left out; with more of them, Storm takes minutes
LIGHTEST = 1e-10
MOST_STATES = 25_000
LEFT_OUT = "left_out"
HEAD = """// Calls under a policy: c is the configuration, n the attempt. Time, tokens and money are taken to suffice.
// Ask P=? [F "done"], or for a mean R{"seconds"}=? [F "ended"].
dtmc\nmodule call\n  c : [0..%d] init 0;\n  n : [1..%d] init 1;
"""  # noqa: E501

Target = int | str
"""A configuration, by its number in the chain, or an outcome."""


class Leads(NamedTuple):
    """Hold where an attempt leads: the share of each target, and the mean seconds of the wait."""

    shares: Mapping[Target, float]
    wait: float


@frozen(kw_only=True)
class Command:
    """Hold where some attempts of a state lead.

    Arguments:
        place: the value of `c` in the state.
        first, last: the attempts for which the command holds.
        leads: where they lead.
        places: the value of `c` of each target.
    """

    place: int
    first: int
    last: int
    leads: Leads
    places: Mapping[Target, int]

    @property
    def when(self) -> str:
        """Write the guard."""
        return f"c={self.place} & n>={self.first} & n<={self.last}"

    def __str__(self) -> str:
        updates = []
        for target, share in self.leads.shares.items():
            update = f"{share:.15g}:(c'={self.places[target]})"
            if isinstance(target, int):  # another attempt
                update += "&(n'=n+1)"
            updates.append(update)
        return f"  [] {self.when} -> {' + '.join(updates)};\n"


@frozen(kw_only=True)
class State:
    """Hold a configuration with its commands."""

    place: int
    configuration: Configuration
    backend: str
    counters: tuple[str, ...]
    commands: tuple[Command, ...]

    @property
    def comment(self) -> str:
        """Describe the configuration."""
        here = self.configuration
        spent = dict(zip(self.counters, here.spent, strict=True))
        spent = {name: units for name, units in spent.items() if units}
        words = f"spent {spent}, failures {dict(here.failures)}"
        if here.has_text:
            words += ", has text"
        return f"  // {self.place}: {note(self.backend)}, {here.position}, {words}\n"

    def __str__(self) -> str:
        return self.comment + "".join(map(str, self.commands))


def prism_of(policy: Policy, rates: Rates) -> str:
    """Write what calls may come to as a PRISM program.

    Raises:
        ConfigurationError: the arguments are no policy and rates, the rates do not fit the policy,
            or the program would have too many states.
    """
    if not isinstance(policy, Policy) or not isinstance(rates, Rates):
        raise ConfigurationError(
            "prism_of takes a Policy and Rates; see Policy.load and Rates.load"
        )
    chain = Configurations(policy, rates)
    outcomes = [*policy.table.outcomes, LEFT_OUT]
    leads = _leads_of(chain)
    targets: list[Target] = [*leads, *outcomes]
    places = {target: place for place, target in enumerate(targets)}
    states = [_state(chain, number, leads[number], places) for number in leads]
    ended = f"c>={len(states)}"
    lines = [HEAD % (len(places) - 1, policy.budget.attempts)]
    lines += map(str, states)
    lines.append(f'  [] {ended} -> true;\nendmodule\nlabel "ended" = {ended};\n')
    lines += [f'label "{name}" = c={places[name]};\n' for name in outcomes]
    for name, rewards in _rewards(chain, states).items():
        lines.append(f'rewards "{name}"\n{"".join(rewards)}endrewards\n')
    return "".join(lines)


def _state(
    chain: Configurations,
    number: int,
    leads: Mapping[int, Leads],
    places: Mapping[Target, int],
) -> State:
    """Make the state of a configuration.

    Arguments:
        chain: the chain.
        number: that of the configuration in the chain.
        leads: where each attempt leads, by its number.
        places: the value of `c` of each target.
    """
    configuration = chain.known[number]
    commands = []
    for led, span in groupby(leads, lambda attempt: leads[attempt]):
        attempts = [*span]
        command = Command(
            place=places[number],
            first=attempts[0],
            last=attempts[-1],
            leads=led,
            places=places,
        )
        commands.append(command)
    backend = chain.rates.backend[configuration.backend]
    return State(
        place=places[number],
        configuration=configuration,
        backend=backend.name,
        counters=tuple(chain.table.limits),
        commands=tuple(commands),
    )


def _rewards(chain: Configurations, states: list[State]) -> Mapping[str, list[str]]:
    """Return the lines of each reward: the means of an attempt, and those of the waits."""
    rewards = defaultdict[str, list[str]](list)
    for (backend, position), group in groupby(states, lambda state: state.configuration[:2]):
        alike = [*group]
        span = f"c>={alike[0].place} & c<={alike[-1].place}"
        for name, value in _means(chain, backend, position):
            rewards[name].append(f"  {span} : {value:.15g};\n")
        for state in alike:
            for command in state.commands:
                wait = command.leads.wait
                if wait:
                    rewards["seconds"].append(f"  {command.when} : {wait:.15g};\n")
    return rewards


def _means(
    chain: Configurations,
    backend: int,
    position: str,
) -> Iterator[tuple[str, float]]:
    """Yield what an attempt takes on average."""
    events = chain.events[backend, position]
    seconds = sum(each.share * mean(each.seconds) for each in events)
    read = sum(each.share * mean(each.input_tokens) for each in events)
    written = sum(each.share * mean(each.output_tokens) for each in events)
    yield "attempts", 1
    yield "seconds", seconds
    yield "tokens", read + written
    prices = chain.rates.backend[backend].prices
    if prices is not None and all(each.prices for each in chain.rates.backend):
        yield "money", (read * prices.input + written * prices.output) / 1e6


def _leads_of(chain: Configurations) -> dict[int, dict[int, Leads]]:
    """Return where each attempt of each configuration leads; those with the same rates together.

    A configuration that is too light to be followed becomes the outcome `left_out`.
    """
    leads = defaultdict[int, dict[int, Leads]](dict)
    layers = walk_all_but(NoClock(chain), LIGHTEST).layers
    for attempt, (flows, next_flows) in enumerate(zip(layers, [*layers[1:], []], strict=True), 1):
        followed = {flow.source for flow in next_flows}
        for flow in flows:
            shares, wait = leads[flow.source].get(attempt, Leads({}, 0.0))
            target = _target(flow, followed)
            added = {**shares, target: shares.get(target, 0.0) + flow.share}
            mean_wait = sum(flow.wait) / 2
            leads[flow.source][attempt] = Leads(added, wait + flow.share * mean_wait)
    if sum(map(len, leads.values())) > MOST_STATES:
        raise ConfigurationError(
            f"the chain has more than {MOST_STATES:,} states: allow fewer attempts or events"
        )

    def order(number: int) -> tuple[int, int]:
        here = chain.known[number]
        return here.backend, POSITIONS.index(here.position)

    return {number: leads[number] for number in sorted(leads, key=order)}


def _target(flow: Flow, followed: set[int]) -> Target:
    """Return where a flow leads, given the configurations that are followed further."""
    if isinstance(flow.target, End):
        return flow.target.outcome
    return flow.target if flow.target in followed else LEFT_OUT
