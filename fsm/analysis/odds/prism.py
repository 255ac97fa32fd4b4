"""The Markov chain of a policy against rates, as a program that PRISM and Storm read."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby

from rungwise.fsm.analysis.odds.configurations import Configurations, End
from rungwise.fsm.analysis.odds.rates import POSITIONS, Rates, mean
from rungwise.fsm.analysis.odds.walk import NoClock, walk_all_but
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import note

# lighter states are left out; with more of them, Storm takes minutes
LIGHTEST = 1e-10
MOST_STATES = 25_000
HEAD = """// Calls under a policy: c is the configuration, n the attempt. Time, tokens and money are taken to suffice.
// Ask P=? [F "done"], or for a mean R{"seconds"}=? [F "ended"].
dtmc\nmodule call\n  c : [0..%d] init 0;\n  n : [1..%d] init 1;
"""  # noqa: E501
# to a configuration or outcome with which share, and the mean wait
_Led = tuple[dict[int | str, float], float]


def prism_of(policy: Policy, rates: Rates) -> str:
    """Write what calls may come to as a PRISM program; a ConfigurationError says why there is
    none.
    """
    if not isinstance(policy, Policy) or not isinstance(rates, Rates):
        raise ConfigurationError(
            "prism_of takes a Policy and Rates; see Policy.load and Rates.load"
        )
    chain = Configurations(policy, rates)
    ends = [*policy.table.outcomes, "left_out"]
    found = _followed(chain)
    rewards = defaultdict[str, list[str]](list)
    places = {key: place for place, key in enumerate([*found, *ends])}
    lines = [HEAD % (len(places) - 1, policy.budget.attempts)]
    for (backend, position), group in groupby(found, lambda number: chain.known[number][:2]):
        alike = [*group]
        for name, value in _means(chain, backend, position):
            rewards[name].append(
                f"  c>={places[alike[0]]} & c<={places[alike[-1]]} : {value:.15g};\n"
            )
        for number in alike:
            c = places[number]
            here = chain.known[number]
            spent = {
                name: units
                for name, units in zip(policy.table.limits, here.spent, strict=True)
                if units
            }
            words = f"spent {spent}, failures {dict(here.failures)}" + ", has text" * here.has_text
            lines.append(f"  // {c}: {note(rates.backend[backend].name)}, {position}, {words}\n")
            for (led, wait), attempts in groupby(found[number].items(), lambda item: item[1]):
                span = [attempt for attempt, _ in attempts]
                when = f"c={c} & n>={span[0]} & n<={span[-1]}"
                to = [
                    f"{led[key]:.15g}:(c'={places[key]})" + "&(n'=n+1)" * isinstance(key, int)
                    for key in led
                ]
                lines.append(f"  [] {when} -> {' + '.join(to)};\n")
                rewards["seconds"] += [f"  {when} : {wait:.15g};\n"] if wait else []
    lines.append(f'  [] c>={len(found)} -> true;\nendmodule\nlabel "ended" = c>={len(found)};\n')
    lines += [f'label "{name}" = c={places[name]};\n' for name in ends]
    return "".join(
        lines + [f'rewards "{name}"\n{"".join(each)}endrewards\n' for name, each in rewards.items()]
    )


def _means(chain: Configurations, backend: int, position: str) -> Iterator[tuple[str, float]]:
    events = chain.events[backend, position]
    prices = chain.rates.backend[backend].prices
    names = ("seconds", "input_tokens", "output_tokens")
    seconds, read, written = (
        sum(each.share * mean(getattr(each, name)) for each in events) for name in names
    )
    yield from (("attempts", 1), ("seconds", seconds), ("tokens", read + written))
    if prices is not None and all(each.prices for each in chain.rates.backend):
        yield "money", (read * prices.input + written * prices.output) / 1e6


def _followed(chain: Configurations) -> dict[int, dict[int, _Led]]:
    """Return where the attempts of each configuration lead, by their numbers; those with the same
    rates together.
    """
    found = defaultdict[int, dict[int, _Led]](dict)
    layers = walk_all_but(NoClock(chain), LIGHTEST).layers
    for attempt, (flows, then) in enumerate(zip(layers, [*layers[1:], []], strict=True), 1):
        followed = {flow.source for flow in then}
        for flow in flows:
            shares, wait = found[flow.source].get(
                attempt, (defaultdict[int | str, float](float), 0.0)
            )
            to = flow.target
            target = to.outcome if isinstance(to, End) else to if to in followed else "left_out"
            shares[target] += flow.share
            found[flow.source][attempt] = shares, wait + flow.share * sum(flow.wait) / 2
    if sum(map(len, found.values())) > MOST_STATES:
        raise ConfigurationError(
            f"the chain has more than {MOST_STATES:,} states: allow fewer attempts or events"
        )

    def order(number: int) -> tuple[int, int]:
        return chain.known[number].backend, POSITIONS.index(chain.known[number].position)

    return {number: found[number] for number in sorted(found, key=order)}
