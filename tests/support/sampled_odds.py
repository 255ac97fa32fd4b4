"""Calls through the real core whose replies are drawn from rates, and random policies and rates to
draw with.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from attrs import define, field

from rungwise import Policy, Prices, Usage
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.analysis.certificate.troubles import EVENTS, reply_of
from rungwise.fsm.analysis.odds.rates import BackendRates, EventRate, Histogram, Rates, position_of
from rungwise.fsm.analysis.odds.settings import TIMED_OUT
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget, Reserve, Timeouts, Waits
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.run.recording import silent

PRICES = (Prices(1.25, 10), Prices(3, 15), Prices(0.1, 0.4))

FAILURES: dict[str, dict[str, Any]] = {
    "overloaded": {"status": 529},
    "server_error": {"status": 500},
    "rate_limit": {"status": 429},
    "timeout": {"status": 504},
    "auth": {"status": 401},
    "model_not_found": {"status": 404},
    "context_overflow": {"status": 400},
    "silence": {},
}

TROUBLES: tuple[dict[str, Any], ...] = (
    *(
        {"event": "failed_transiently", "reason": name}
        for name in ("overloaded", "server_error", "rate_limit")
    ),
    {"event": "failed_transiently", "reason": "timeout"},
    {
        "event": "failed_transiently",
        "reason": "rate_limit",
        "asked_wait": 4.0,
    },
    {
        "event": "failed_transiently",
        "reason": "rate_limit",
        "asked_wait": 500.0,
    },
    {
        "event": "failed_transiently",
        "reason": "connection",
        "facts": ("connection_was_stale",),
    },
    {"event": "failed_permanently", "reason": "auth"},
    {"event": "failed_permanently", "reason": "model_not_found"},
    {"event": "overflowed", "reason": "context_overflow"},
    {"event": "fell_silent", "reason": "silence"},
    {"event": "interrupted", "reason": "connection"},
    {
        "event": "interrupted",
        "reason": "connection",
        "facts": ("added_text",),
    },
    {"event": "truncated", "facts": ("added_text",)},
    {"event": "paused", "facts": ("added_text",)},
    *(
        {"event": name}
        for name in ("came_empty", "only_reasoned", "reasoning_truncated", "tools_truncated")
    ),
    *({"event": name} for name in ("malformed", "refused")),
)


def came(rate: EventRate, number: int, chance: random.Random) -> tuple[Reply | Failure, Usage]:
    """Return what a backend sends for an event, with its usage."""
    usage = Usage(int(drawn(rate.input_tokens, chance)), int(drawn(rate.output_tokens, chance)))
    if rate.event == "interrupted":
        text = reply_of("answered", number).text if "added_text" in rate.facts else ""
        return Reply(
            text,
            interrupted=True,
            failure=Failure("connection"),
            usage=usage,
        ), usage
    if rate.event in EVENTS:
        reply = reply_of(rate.event, number)
        return Reply(
            reply.text,
            reasoning=reply.reasoning,
            tool_calls=reply.tool_calls,
            stop_reason=reply.stop_reason,
            stop_raw=reply.stop_raw,
            usage=usage,
        ), usage
    reason: Any = rate.reason
    is_stale = "connection_was_stale" in rate.facts
    more = FAILURES.get(reason, {})
    return Failure(
        reason,
        asked_wait=rate.asked_wait,
        is_stale=is_stale,
        **more,
    ), usage


def drawn(histogram: Histogram, chance: random.Random) -> float:
    values, weights = zip(*histogram, strict=True)
    return float(chance.choices(values, weights)[0])


@define
class Sample:
    """Hold what many calls came to."""

    calls: int = 0
    outcomes: Counter[str] = field(factory=Counter)
    attempts: list[int] = field(factory=list)
    seconds: list[float] = field(factory=list)
    tokens: list[float] = field(factory=list)
    money: list[float] = field(factory=list)
    waited: list[float] = field(factory=list)
    reached: Counter[str] = field(factory=Counter)
    rows: Counter[Any] = field(factory=Counter)


@define
class Taken:
    """Hold what one call took."""

    now: float = 0.0
    waited: float = 0.0
    tokens: float = 0.0
    money: float = 0.0
    reached: set[str] = field(factory=set)


Comes = Callable[[EventRate, int, random.Random], tuple[Reply | Failure, Usage]]


def make(
    call: Call,
    rates: Rates,
    chance: random.Random,
    *,
    comes: Comes = came,
    numbers: Iterator[int],
) -> Taken:
    """Make a call, whose replies are drawn from the rates."""
    taken = Taken()
    send = call.begin(taken.now)
    while send is not None:
        taken.now = taken.now + send.wait
        taken.waited = taken.waited + send.wait
        sent = call.sending(taken.now)
        assert sent is not None
        backend = rates.backend[sent.backend]
        taken.reached.add(backend.name)
        every = backend.at(position_of(sent.rung, sent.wait))
        rate = chance.choices(every, [each.share for each in every])[0]
        reply, usage = comes(rate, next(numbers), chance)
        total = call.policy.timeouts.total
        end = call.clocks().ends_by
        ends = [total, None if end is None else end - taken.now]
        seconds = drawn(rate.seconds, chance)
        longest = min(each for each in ends if each is not None)
        if seconds > longest:
            reply = Failure("timeout")
            usage = Usage()
            rate = TIMED_OUT
        taken.now += min(seconds, longest)
        taken.tokens += usage.total_tokens
        if backend.prices is not None:
            prices = backend.prices
            taken.money += (
                usage.input_tokens * prices.input + usage.output_tokens * prices.output
            ) / 1e6
        send = call.receive(reply, taken.now)
        step = next(each for each in reversed(call.journal.steps) if each.source == "await")
        assert step.event == rate.event, f"{rate} came as {step}"
    return taken


def play(
    policy: Policy,
    rates: Rates,
    chance: random.Random,
    sample: Sample,
) -> Journal:
    """Play one call and count it."""
    links = [PlainLink(each.name, prices=each.prices) for each in rates.backend]
    call = Call(Request("say"), policy, links, jitter=chance.random, observer=silent)
    taken = make(call, rates, chance, numbers=count(1))
    sample.calls += 1
    sample.outcomes[call.result.outcome] += 1
    sample.attempts.append(call.position.attempts)
    for values, value in (
        (sample.seconds, taken.now),
        (sample.tokens, taken.tokens),
        (sample.money, taken.money),
        (sample.waited, taken.waited),
    ):
        values.append(value)
    sample.reached.update(taken.reached)
    return call.journal


def histogram(chance: random.Random, scale: float, *, whole: bool = False) -> Histogram:
    values = {
        round(scale * chance.lognormvariate(0, 0.8), 0 if whole else 2)
        for _ in range(chance.randint(1, 6))
    }
    return tuple((value, chance.randint(1, 9)) for value in sorted(values))


def random_events(chance: random.Random, troubles: list[dict[str, Any]]) -> tuple[EventRate, ...]:
    weights = [chance.uniform(1, 4) for _ in troubles]
    well = chance.uniform(0.3, 0.8)
    shares = [(1 - well) * weight / sum(weights) for weight in weights]
    events = [({"event": "answered"}, well), *zip(troubles, shares, strict=True)]
    return tuple(
        EventRate(
            **each,
            share=share,
            seconds=histogram(chance, 3),
            input_tokens=histogram(chance, 400, whole=True),
            output_tokens=histogram(chance, 200, whole=True),
        )
        for each, share in events
    )


def random_rates(chance: random.Random, backends: int, *, is_played: bool = False) -> Rates:
    """Return random rates; those that are played bring no empty reply beside text, which a call
    takes for the end.
    """
    found = []
    has_text = is_played and chance.random() < 0.5
    left_out = (
        ("came_empty",) if has_text else ("truncated", "paused", "interrupted") if is_played else ()
    )
    pool = [each for each in TROUBLES if each["event"] not in left_out]
    for place in range(backends):
        troubles = chance.sample(pool, chance.randint(2, 7))
        later = [random_events(chance, troubles) if chance.random() < 0.5 else () for _ in range(2)]
        fresh = random_events(chance, troubles)
        found.append(
            BackendRates(
                name=f"backend {place}",
                prices=PRICES[place % len(PRICES)],
                fresh=fresh,
                after_wait=later[0],
                after_continuation=later[1],
            )
        )
    return Rates(tuple(found))


def random_policy(chance: random.Random, *, is_timed: bool = False) -> Policy:
    seconds = chance.choice((5.0, 12.0, 30.0)) if is_timed else None
    names = ("retries", "reasks", "prefills", "continuations", "enlargements", "nudges", "resends")
    limits = {name: chance.randint(0, 3) for name in names}
    switch = {
        name: chance.choice((1, 2, 3, 1000))
        for name in ("overloaded", "empty", "broken_stream", "timeout")
    }
    return Policy(
        limits=Limits(**limits),
        budget=Budget(attempts=chance.choice((3, 5, 8, 24)), seconds=seconds),
        timeouts=Timeouts(total=chance.choice((600.0, 4.0)) if is_timed else 600.0),
        waits=Waits(
            retry_base=chance.choice((0.0, 1.0, 2.0)), longest_asked=chance.choice((1.0, 60.0))
        ),
        reserve=Reserve(share=chance.choice((0.0, 0.25))),
        switch_after=switch,
        after_refusal=chance.choice(("fall_back", "end")),
    )
