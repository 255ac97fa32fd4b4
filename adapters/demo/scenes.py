"""The demo from start to end: its introduction, its scenarios, and their summary."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from typing import Any, Final

import httpx
from attrs import frozen
from rich.text import Text

from rungwise.adapters.cli.output import counted
from rungwise.adapters.client import Client
from rungwise.adapters.client_clocks import Clocks
from rungwise.adapters.demo.crash import show_crash
from rungwise.adapters.demo.scenarios import SCENARIOS, Scenario
from rungwise.adapters.demo.servers import PIPED, PRICES, WATCHED, DemoClock, Pace, started_servers
from rungwise.adapters.demo.view import STYLES, ScenarioView, Screen
from rungwise.adapters.http.streams import SyncStream
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.call.policy import Budget, Policy, Timeouts
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.engine.journal.amounts import plain
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnError, TurnResult
from rungwise.fsm.turn.table import CALLS

POLICY: Final = Policy(
    budget=Budget(seconds=120.0, output_tokens=4000, money=0.25),
    timeouts=Timeouts(stall=1.0),  # the default would be boring to watch
)
SEED: Final = 7  # the seed of the jitter, so that each run of the demo is the same


@frozen
class ScenarioEnd:
    """How a scenario ended.

    Arguments:
        scenario: the scenario.
        result: of its call, or of its turn.
        arrived: how many requests the servers received.
        was_followed: whether the streamed text, minus what was taken back, is that of the result.
    """

    scenario: Scenario
    result: Result | TurnResult
    arrived: int
    was_followed: bool


def run_demo(scenarios: Sequence[Scenario], api: str, *, is_watched: bool) -> None:
    """Run scenarios and show them on stdout.

    Arguments:
        scenarios: in order.
        api: the protocol in which the providers are asked.
        is_watched: whether somebody looks on, so that the demo takes its time.
    """
    screen = Screen()
    pace = WATCHED if is_watched else PIPED
    _open(screen, pace, _counted(scenarios))
    # The environment, such as a proxy, must not come between the demo and its own servers.
    with httpx.Client(timeout=None, trust_env=False) as http:
        ends: list[ScenarioEnd] = []
        for number, scenario in enumerate(scenarios, start=1):
            _introduce(screen, number, scenario)
            ends.append(_run(screen, pace, http, scenario, api))
    if len(scenarios) == len(SCENARIOS):
        show_crash(screen)
    _close(screen, ends)


def _counted(scenarios: Sequence[Scenario]) -> str:
    """Count the calls and the turns among scenarios."""
    turns = sum(scenario.auto_continues is not None for scenario in scenarios)
    calls = len(scenarios) - turns
    counts: list[str] = []
    if calls:
        counts.append(counted(calls, "call"))
    if turns:
        counts.append(counted(turns, "turn"))
    return " and ".join(counts)


def _open(screen: Screen, pace: Pace, what: str) -> None:
    """Write the introduction."""
    screen.print(f"Rungwise: {what} with providers that misbehave on purpose", "bold")
    screen.print()
    shorter = f"{pace.shorten:.0%} and at most {pace.longest:g} s"
    prices = f"${PRICES.input:g} per million tokens in, ${PRICES.output:g} per million out"
    screen.paragraph(
        "Real HTTP servers on 127.0.0.1 play the providers, and the real client calls them: no "
        f"key, no network. Waits are shortened to {shorter}; the clock of a call counts them in "
        f"full. Prices are made up: {prices}."
    )
    screen.print()
    budget = POLICY.budget
    amounts = (
        f"{budget.attempts} attempts, {budget.seconds:g} s, {budget.output_tokens} tokens out, "
        f"${budget.money:g}"
    )
    screen.paragraph(
        f"The policy is the default, with a budget for each call or turn: {amounts}. A stream that "
        f"stalls is abandoned after {POLICY.timeouts.stall:g} s. The left column names the rungs, "
        "where something is sent or tools run. A line such as"
    )
    came = ("came_empty", "magenta")
    guard = (" [may_nudge]", "yellow")
    screen.print(Text.assemble("    ", came, guard, f" {screen.arrow} nudge"))
    screen.paragraph("means: this came back, this guard was the first to hold, so this comes next.")


def _introduce(screen: Screen, number: int, scenario: Scenario) -> None:
    screen.print()
    screen.print(Text.assemble((f"{number:2}  ", "bold cyan"), (scenario.title, "bold")))
    screen.paragraph(scenario.says, "italic", indent=4)
    screen.print()


def _run(
    screen: Screen, pace: Pace, http: httpx.Client, scenario: Scenario, api: str
) -> ScenarioEnd:
    """Run a scenario and show it.

    Arguments:
        screen: where it is shown.
        pace: how fast it goes.
        http: sends the requests.
        scenario: what the providers do.
        api: the protocol in which they are asked.
    """
    clock = DemoClock(pace)
    with started_servers(scenario, pace, api) as servers:
        view = ScenarioView(screen, clock, servers)
        client = Client(
            servers.chain,
            policy=POLICY,
            http=http,
            testing=Clocks(clock=clock.now, sleep=clock.sleep, jitter=random.Random(SEED).random),
        )
        for _ in range(scenario.calls_before):
            client.call(scenario.messages)
        error = None
        arrived_before = servers.arrived
        with _stream(client, scenario) as stream:
            try:
                for event in stream:
                    view.follow(event)
            except (CallError, TurnError) as raised:
                error = raised
        was_followed = view.end(stream.result, error)
        _show_cost(screen, stream.result)
        clock.pause(pace.scenario)
        return ScenarioEnd(scenario, stream.result, servers.arrived - arrived_before, was_followed)


def _stream(client: Client, scenario: Scenario) -> SyncStream[Any, Any]:
    options: dict[str, Any] = {"tools": scenario.tools, "max_tokens": scenario.max_tokens}
    if scenario.auto_continues is None:
        return client.stream(scenario.messages, **options)
    return client.stream_turn(scenario.messages, policy=_turn_policy(scenario), **options)


def _turn_policy(scenario: Scenario) -> TurnPolicy:
    return TurnPolicy(
        call=POLICY, budget=POLICY.budget, auto_continues=scenario.auto_continues or 0
    )


def _show_cost(screen: Screen, result: Result | TurnResult) -> None:
    """Write what was spent of the budget; a tilde stands before what was estimated."""
    budget = POLICY.budget
    usage = result.usage
    about = "~" if usage.estimated else ""
    attempts = f"{result.attempts}/{budget.attempts} attempts"
    seconds = f"{result.seconds:.1f}/{budget.seconds:g} s"
    tokens = f"{about}{usage.output_tokens}/{budget.output_tokens} tokens out"
    money = f"{about}${result.cost or 0:.4f}/${budget.money:g}"
    screen.label("spent", "dim")
    screen.say(f"{attempts}, {seconds}, {tokens}, {money}", "dim")


def path_of(result: Result | TurnResult) -> str:
    """Return the rungs in which something was sent, in order; repeats are counted.

    Of a turn, only those that made a call.
    """
    rungs = [step.source for step in result.journal.steps if step.event == "sent"]
    if isinstance(result, TurnResult):
        rungs = [rung for rung in rungs if rung in CALLS]
    path: list[str] = []
    for rung, run in groupby(rungs):
        times = len(list(run))
        path.append(f"{rung} x{times}" if times > 1 else rung)
    return " > ".join(path)


def _close(screen: Screen, ends: Sequence[ScenarioEnd]) -> None:
    """Write the summary: a table of the scenarios, what came of them, and proofs and odds."""
    screen.print()
    rows: list[tuple[str | Text, ...]] = []
    for one in ends:
        outcome = Text(plain(one.result.outcome), STYLES[one.result.outcome])
        rows.append((one.scenario.name, path_of(one.result), outcome, str(one.result.attempts)))
    screen.table(("scenario", "path", "outcome", "sent"), rows)
    screen.print()
    screen.paragraph(_summed(ends))
    _compare(screen, ends)
    screen.print()
    left = len(SCENARIOS) - len(ends)
    if left:
        screen.print(f"{left} more: rungwise demo --all")
    screen.print("Next: rungwise ask --help, rungwise diagram, rungwise verify, rungwise odds")
    if find_spec("numpy"):
        screen.print()
        screen.paragraph(_odds())


def _summed(ends: Sequence[ScenarioEnd]) -> str:
    answered = sum(one.result.is_success for one in ends)
    failed = len(ends) - answered
    answers = f"{answered} of {len(ends)} ended with an answer"
    if failed == 1:
        answers += "; the other raised an error that says why"
    elif failed:
        answers += f"; the other {failed} raised errors that say why"
    arrived = sum(one.arrived for one in ends)
    sent = counted(sum(one.result.attempts for one in ends), "request")
    followed = sum(one.was_followed for one in ends)
    return (
        f"{answers}. {arrived} of {sent} arrived. In {followed} of {len(ends)}, the text that was "
        "streamed, minus what was taken back, is exactly the text of the result."
    )


def _odds() -> str:
    """Describe the odds of the policy, at the rates that ship."""
    figures = odds(POLICY, Rates.example())
    assert figures.money is not None  # the example has prices
    good = f"{figures.outcomes['done']:.3%}"
    longest = f"{figures.seconds.quantiles['p99']:.0f} s"
    return (
        f"rungwise odds on this policy, with the rates that ship: {good} of the calls end well, "
        f"99 of 100 within {longest}, at ${figures.money.mean:.4f} each."
    )


def _compare(screen: Screen, ends: Sequence[ScenarioEnd]) -> None:
    """Compare what calls and limited turns took with the proved worst cases."""
    calls = [one.result for one in ends if isinstance(one.result, Result)]
    if calls:
        _compare_calls(screen, calls)
    for one in ends:
        result = one.result
        if isinstance(result, TurnResult) and result.outcome == "limit_reached":
            worst = _worst(screen, _turn_policy(one.scenario))
            if worst:
                screen.paragraph(
                    f"rungwise verify on the turn {one.scenario.name}: every property holds, and "
                    f"it makes at most {worst['calls']} calls. It made {result.calls}."
                )


def _compare_calls(screen: Screen, calls: Sequence[Result]) -> None:
    worst = _worst(screen, POLICY)
    if not worst:
        return
    attempts = counted(max(call.attempts for call in calls), "attempt")
    seconds = max(call.seconds for call in calls)
    screen.paragraph(
        "rungwise verify on this policy with two backends: every property holds, and a call takes "
        f"at most {worst['attempts']} attempts and {worst['seconds']:g} s. Most seen here: "
        f"{attempts} and {seconds:.1f} s."
    )


def _worst(screen: Screen, policy: Policy | TurnPolicy) -> Mapping[str, Any]:
    """Return the worst cases of a policy by name.

    If a property does not hold, report it, and return none.
    """
    certificate = verify(policy, 2)
    screen.print()
    if certificate.ok:
        return {case.name: case.value for case in certificate.worst}
    screen.paragraph(
        "rungwise verify: a property does not hold for this policy; run it to see which."
    )
    return {}
