"""Many calls at once under one budget, over HTTP: by the provider's own count they never pass it
together.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import pytest

import rungwise
from rungwise import (
    Budget,
    Cancellation,
    Client,
    ConfigurationError,
    Limits,
    Policy,
    Prices,
    SharedBudget,
    Usage,
    replay,
)
from rungwise.core import Call, Request
from rungwise.fsm.call.budget.costs import price_of
from rungwise.fsm.call.budget.metering import COUNTED_BESIDE, most_counted
from rungwise.fsm.testing.scripted import VirtualClock
from rungwise.fsm.values.money import as_money
from rungwise.testing import Clocks, EmbeddedProvider, ReceivedRequest, ScriptedReply
from support import modes
from support.sampling import sampled
from support.sharing import answer, sent
from support.waiting import auntil, patience, until
from support.ways import ALL, Asked, Either, aclose, ask, at_once, backend, client_for

PRICES = Prices(2.0, 10.0, cache_creation=3.0)
PROMPT = 40
FIFTY = 50
RECOVERING = Policy(limits=Limits(retries=20, reasks=20, continuations=20), base_cap=150)


class Meter:
    """A provider that counts what it was asked and what it wrote: all that a cap allows, or some of
    it.
    """

    def __init__(self, share: float | None = None, **reply: Any) -> None:
        self.lock = threading.Lock()
        self.counted: list[Usage] = []
        self.share = share
        self.reply = reply

    def answer(self, request: ReceivedRequest) -> ScriptedReply:
        cap = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or 0
        with self.lock:
            number = len(self.counted)
            share = (number * 37 % 11) / 10 if self.share is None else self.share
            kind = (
                "done"
                if self.share is not None
                else ("done", "empty", "busy", "cut", "done")[number % 5]
            )
            tokens = 0 if kind == "busy" else max(1, int(share * most_counted(cap)))
            self.counted.append(
                Usage() if kind == "busy" else Usage(PROMPT, tokens, cache_creation_tokens=PROMPT)
            )
        if kind == "busy":
            return ScriptedReply(status=429)
        usage = {
            "prompt_tokens": PROMPT,
            "completion_tokens": tokens,
            "prompt_tokens_details": {"cache_write_tokens": PROMPT},
        }
        text = "" if kind == "empty" else " ".join(["Herons", "nest", "in", "reeds."][:tokens])
        finish = "length" if kind == "cut" else "stop"
        return ScriptedReply(text, finish=finish, usage=usage, **{"delay": 0.003, **self.reply})

    @property
    def tokens(self) -> int:
        return sum(each.output_tokens for each in self.counted)

    @property
    def cost(self) -> float:
        return as_money(sum(price_of(each, PRICES) for each in self.counted))


@contextmanager
def asking(way: str, answer: Any, **options: Any) -> Iterator[tuple[EmbeddedProvider, Client]]:
    """Start a provider, and a client that goes a way to it without waiting between its attempts."""
    with EmbeddedProvider(answer) as provider:
        chain = backend(provider.base_url, prices=PRICES)
        yield (
            provider,
            client_for(
                way,
                chain,
                **{
                    **modes.waits_into([]),
                    "policy": RECOVERING,
                    **options,
                },
            ),
        )


def of_shared(
    shared: SharedBudget, streams: bool = False, count: int = FIFTY
) -> list[dict[str, Any]]:
    """Return the options of many calls under one budget, with caps of several sizes and with
    none.
    """
    caps = (None, 60, 200, 90)
    return [
        {
            "within": shared,
            "streams": streams,
            "max_tokens": caps[number % 4],
            "input_tokens": PROMPT,
        }
        for number in range(count)
    ]


BUDGETS = {
    "attempts": Budget(attempts=23),
    "tokens": Budget(attempts=1000, output_tokens=2500),
    "money": Budget(attempts=1000, money=0.03),
    "all": Budget(attempts=40, output_tokens=3000, money=0.03),
}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streams"])
@pytest.mark.parametrize("kind", sampled(BUDGETS, one_in=3))
def test_fifty_calls_at_once_never_pass_it(way: str, kind: str, streams: bool) -> None:
    meter = Meter()
    budget = BUDGETS[kind]
    shared = SharedBudget(budget)
    with asking(way, meter.answer, max_connections=20) as (provider, client):
        ended = at_once(way, client, of_shared(shared, streams))
    assert len(ended) == FIFTY
    assert len(provider.requests) <= budget.attempts
    assert meter.tokens <= (budget.output_tokens or meter.tokens)
    assert meter.cost <= (budget.money or meter.cost)
    outcomes = Counter(each.outcome for each in ended)
    assert outcomes.keys() == {"done", "over_budget"}
    settled(shared, ended, meter)
    for each in ended:
        replayed = replay(rungwise.Journal.from_json(each.result.journal.to_json()))
        assert replayed.journal.steps == each.result.journal.steps


def settled(shared: SharedBudget, ended: list[Asked], meter: Meter) -> None:
    """Check that what was settled is what the calls were told, and what the provider counted."""
    assert shared.attempts == len(meter.counted) == sum(each.result.attempts for each in ended)
    assert shared.usage.output_tokens == meter.tokens
    assert shared.usage.output_tokens == sum(each.result.usage.output_tokens for each in ended)
    assert shared.cost == meter.cost
    assert shared._ledger.holders == shared._ledger.held_tokens == 0


@pytest.mark.parametrize(
    "budget", [Budget(attempts=60, output_tokens=1200), Budget(attempts=60, money=0.0185)]
)
@pytest.mark.parametrize("way", ALL)
def test_all_end_done_where_what_they_use_fits_and_what_they_reserve_does_not(
    way: str, budget: Budget
) -> None:
    meter = Meter(share=0.2)  # 21 tokens of each 108 that are reserved
    shared = SharedBudget(budget)
    options = [
        {
            "within": shared,
            "streams": False,
            "max_tokens": 100,
            "input_tokens": PROMPT,
        }
    ] * FIFTY
    with asking(way, meter.answer) as (provider, client):
        ended = at_once(way, client, options)
    assert Counter(each.outcome for each in ended) == {"done": FIFTY}
    # nobody was given less
    assert {request.body["max_tokens"] for request in provider.requests} == {100}
    settled(shared, ended, meter)


def test_threads_and_event_loops_share_one_budget() -> None:
    meter = Meter(share=1.0)
    shared = SharedBudget(Budget(attempts=1000, output_tokens=2000))
    with (
        asking("own sync", meter.answer) as (_, one),
        asking("own async", meter.answer) as (_, other),
        ThreadPoolExecutor(3) as threads,
    ):
        groups = [("own async", other), ("own async", other), ("own sync", one)]
        made = threads.map(lambda group: at_once(*group, of_shared(shared, count=15)), groups)
        ended = [each for group in made for each in group]
    assert len(ended) == 45
    assert {each.outcome for each in ended} == {"done", "over_budget"}
    assert meter.tokens <= 2000
    settled(shared, ended, meter)


def test_the_seconds_hold_for_all_of_them(way: str) -> None:
    shared = SharedBudget(Budget(seconds=0.4, attempts=1000, output_tokens=5000))
    began = time.monotonic()
    with asking(
        way, lambda request: ScriptedReply(hang=True), policy=Policy(), max_connections=10
    ) as (
        provider,
        client,
    ):
        ended = at_once(way, client, of_shared(shared, count=30))
    assert {each.outcome for each in ended} <= {"over_budget", "failed"}
    assert max(each.seconds for each in ended) < 3
    sent = [step.at for each in ended for step in each.result.journal.steps if step.event == "sent"]
    assert len(provider.requests) <= len(sent)
    assert max(sent) <= 0.4  # a busy server may note the request later
    assert shared.deadline == pytest.approx(began + 0.4, abs=2)
    causes = {each.result.cause for each in ended if each.result.attempts == 0}
    assert causes == {"the next attempt would begin after the 0.4 s of the shared budget"}


def test_nested_budgets_hold_on_every_level(way: str) -> None:
    meter = Meter()
    session = SharedBudget(Budget(attempts=30, output_tokens=3000))
    turns = [
        SharedBudget(Budget(attempts=20, output_tokens=1500), within=session) for _ in range(3)
    ]
    with asking(way, meter.answer) as (provider, client):
        ended = at_once(way, client, [each for turn in turns for each in of_shared(turn, count=16)])
    assert len(provider.requests) <= 30
    assert meter.tokens <= 3000
    assert all(turn.attempts <= 20 and turn.usage.output_tokens <= 1500 for turn in turns)
    assert session.usage.output_tokens == sum(turn.usage.output_tokens for turn in turns)
    settled(session, ended, meter)


# waiting


def test_a_stream_holds_its_share_until_it_ends_and_who_waits_holds_no_connection(
    serve: Any, mode: str
) -> None:
    first = ScriptedReply("Herons nest in the reeds.", chunk_size=5, usage={"completion_tokens": 6})
    provider = serve(first, ScriptedReply("In dead trees.", usage={"completion_tokens": 5}))
    shared = SharedBudget(Budget(output_tokens=200))
    with Client(backend(provider.base_url), max_connections=2) as client:
        other = Client(backend(provider.base_url), max_connections=1)
        stream = client.stream("Where?", within=shared, max_tokens=150)
        next(event for event in stream if isinstance(event, rungwise.Text))
        ended: list[Any] = []
        waits = threading.Thread(
            target=lambda: ended.append(
                modes.ask(other, mode, "And?", within=shared, max_tokens=150)
            )
        )
        waits.start()
        until(lambda: shared._queue._waiting)
        assert other.call("Nobody shares this.").text == "In dead trees."  # the only place is free
        assert len(provider.requests) == 2
        for _ in stream:
            pass
        waits.join(30)
        other.close()
    assert (ended[0].text, ended[0].outcome) == ("In dead trees.", "done")
    assert provider.requests[2].body["max_tokens"] == 150
    assert shared.attempts == 2


def test_a_cancellation_ends_the_wait_for_a_budget(serve: Any) -> None:
    provider = serve(ScriptedReply("Yes.", hang=True))
    shared = SharedBudget(Budget(output_tokens=108))
    holder = Cancellation()
    waiter = Cancellation()
    client = client_for("own sync", backend(provider.base_url))
    with ThreadPoolExecutor(2) as threads:
        asking = partial(threads.submit, ask, "own sync", client, within=shared, max_tokens=100)
        holds = asking(cancellation=holder)
        until(lambda: provider.requests)
        waits = asking(cancellation=waiter)
        until(lambda: shared._queue._waiting)
        at = time.monotonic()
        waiter.cancel()
        ended = waits.result(5)
        assert time.monotonic() - at < 1
        assert (ended.outcome, ended.result.attempts, shared.attempts) == ("cancelled", 0, 1)
        assert not shared._queue._waiting
        holder.cancel()
        assert (holds.result(5).outcome, shared.usage.output_tokens) == ("cancelled", 100)


def test_a_task_that_is_cancelled_leaves_the_queue(serve: Any) -> None:
    provider = serve(ScriptedReply("Yes.", hang=True))
    shared = SharedBudget(Budget(output_tokens=150))

    async def main() -> None:
        client = client_for("own async", backend(provider.base_url))
        holder = asyncio.create_task(client.acall("Where?", within=shared, max_tokens=100))
        await auntil(lambda: provider.requests)
        large, small = (
            asyncio.create_task(client.acall("Where?", within=shared, max_tokens=cap))
            for cap in (100, 20)
        )
        await auntil(lambda: len(shared._queue._waiting) == 2)
        large.cancel()
        await auntil(lambda: len(provider.requests) == 2)  # the small one, which stood behind it
        with pytest.raises(asyncio.CancelledError) as raised:
            await large
        result = raised.value.result  # type: ignore[attr-defined]
        assert (result.outcome, result.attempts) == ("cancelled", 0)
        for task in (holder, small):
            task.cancel()
        await asyncio.wait([holder, small])
        await aclose(client)

    asyncio.run(main())
    assert (shared.attempts, shared.usage.output_tokens) == (2, 120)
    assert not shared._ledger.holders


def test_tasks_of_another_kind_of_event_loop_wait_as_well() -> None:
    meter = Meter(share=0.2)
    shared = SharedBudget(Budget(attempts=20, output_tokens=330))
    texts: list[str] = []

    async def main() -> None:
        async def one() -> None:
            texts.append((await client.acall("Where?", within=shared, max_tokens=100)).text)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
        await client.aclose()

    with EmbeddedProvider(meter.answer) as provider:
        client = Client(backend(provider.base_url, prices=PRICES))
        anyio.run(main, backend="trio")
    assert texts == ["Herons nest in reeds."] * 10
    assert shared.usage.output_tokens == meter.tokens == 210


def held(tokens: int) -> tuple[SharedBudget, Call]:
    """Return a budget of output tokens, and the call that holds all of them until it is dropped."""
    shared = SharedBudget(Budget(output_tokens=tokens))
    holder = Call(Request("Where?", max_tokens=tokens - COUNTED_BESIDE), within=shared)
    holder.begin(time.monotonic())
    assert holder.sending() is not None
    return shared, holder


def test_a_wait_lasts_no_longer_than_the_time_of_the_call(way: str) -> None:
    shared, _holder = held(108)
    with asking(way, Meter().answer, policy=Policy(budget=Budget(seconds=0.3))) as (
        provider,
        client,
    ):
        [ended] = at_once(
            way,
            client,
            [
                {
                    "within": shared,
                    "streams": False,
                    "max_tokens": 100,
                }
            ],
        )
    assert (ended.outcome, ended.result.cause) == (
        "over_budget",
        "the next attempt would begin after the 0.3 s of the budget",
    )
    assert 0.2 < ended.seconds < 3
    assert provider.requests == []
    assert not shared._queue._waiting


@pytest.mark.parametrize(("settles", "asked"), [(70.0, "first"), (75.0, "second")])
def test_who_waits_into_the_time_kept_for_the_next_backend_leaves_it_the_attempt(
    serve: Any,
    mode: str,
    settles: float,
    asked: str,
) -> None:
    servers = {name: serve(ScriptedReply("In reeds.")) for name in ("first", "second")}
    chain = [backend(server.base_url, name=name) for name, server in servers.items()]
    shared = SharedBudget(Budget(seconds=100.0, output_tokens=700))
    clock = VirtualClock()
    holder = sent(shared, 600)
    with (
        Client(chain, testing=Clocks(clock=lambda: clock.now)) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        waits = thread.submit(modes.ask, client, mode, "Where?", within=shared, max_tokens=500)
        until(lambda: shared._queue._waiting)
        clock.advance(settles)
        holder.receive(answer(10), settles)
        result = waits.result(patience())
    assert (result.outcome, result.attempts, result.backend) == ("done", 1, asked)
    assert [name for name, server in servers.items() if server.requests] == [asked]
    assert replay(result.journal).outcome == "done"


def test_closing_a_client_ends_the_wait(serve: Any) -> None:
    shared, _holder = held(108)
    client = client_for("own sync", backend(serve(ScriptedReply("Yes.")).base_url))
    with ThreadPoolExecutor(1) as thread:
        waits = thread.submit(ask, "own sync", client, within=shared, max_tokens=100)
        until(lambda: shared._queue._waiting)
        client.close()
        assert waits.result(5).outcome == "cancelled"


# other ends


def test_a_stream_that_is_left_or_forgotten_gives_back_what_it_held(serve: Any, way: str) -> None:
    provider = serve(
        ScriptedReply("Herons nest in the reeds. " * 20, chunk_size=5, chunk_delay=0.01)
    )
    shared = SharedBudget(Budget(output_tokens=1000))

    async def main() -> None:
        async with Either(way, backend(provider.base_url)) as one:
            left = one.stream(within=shared, max_tokens=800)
            await left.text()
            await left.leave()
            forgotten = one.stream(within=shared, max_tokens=800)
            await forgotten.text()
            del forgotten
            await auntil(lambda: not shared._ledger.holders)

    asyncio.run(main())
    assert (shared.attempts, shared._ledger.holders) == (2, 0)
    assert 0 < shared.usage.output_tokens < 800


def test_it_holds_one_call_after_another(serve: Any, mode: str) -> None:
    provider = serve(
        ScriptedReply("In reeds.", usage={"prompt_tokens": 10, "completion_tokens": 40})
    )
    shared = SharedBudget(Budget(attempts=3))
    with modes.Caller(mode, backend(provider.base_url)) as caller:
        for _ in range(3):
            assert caller.ask(within=shared).text == "In reeds."
        assert shared.shortfall() == "all 3 attempts of the shared budget are used"
        with pytest.raises(
            rungwise.OverBudget, match="all 3 attempts of the shared budget are used"
        ):
            caller.ask(within=shared)
    assert (len(provider.requests), shared.usage) == (3, Usage(30, 120))


def test_what_it_needs_is_checked_at_the_call(serve: Any) -> None:
    provider = serve(ScriptedReply("In reeds."))
    with Client(backend(provider.base_url)) as client:
        with pytest.raises(
            ConfigurationError, match="needs prices on every backend; 'primary' has none"
        ):
            client.call("Where?", within=SharedBudget(Budget(money=1.0)))
        with pytest.raises(ConfigurationError, match="within must be a SharedBudget, not Budget"):
            client.acall("Where?", within=Budget())
        with pytest.raises(
            ConfigurationError, match=r"unknown option 'withn'; did you mean 'within'"
        ):
            client.call("Where?", withn=SharedBudget(Budget()))
        assert client.call(Request("Where?"), within=SharedBudget(Budget())).text == "In reeds."
    assert len(provider.requests) == 1
