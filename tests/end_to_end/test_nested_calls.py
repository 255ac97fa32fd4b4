"""Functions of the caller's that make calls themselves: nothing that such a call may need is held
while they run.
"""

from __future__ import annotations

import contextvars
import json
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import anyio
import pytest
import redis
from attrs import define, field
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator

from rungwise import (
    Budget,
    Client,
    Failed,
    Limits,
    OpenAIChat,
    OverBudget,
    Policy,
    Prices,
    Quota,
    SharedBudget,
    Step,
    Tool,
)
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support import turn_modes
from support.modes import MODES, aask, ask
from support.remembering import Clock
from support.sampling import examples
from support.waiting import patience

USAGE = {"prompt_tokens": 10, "completion_tokens": 5}
OVERFLOW = ScriptedReply(
    status=400, error={"message": "too long", "code": "context_length_exceeded"}
)
TOO_LONG = "A story that is too long."
NESTED = "And storks?"
CAP = 600
ROOM = 1000  # for one attempt at its cap, and for many that use what they use

PLACES = ("verdict", "returns", "key", "observer", "compactor", "tool")
RESOURCES = ("quota", "budget", "connections")

# whether a nested call runs here, which nests no further
inside = contextvars.ContextVar("inside", default=False)


def answer(request: ReceivedRequest) -> ScriptedReply:
    """Refuse the long story, call the tool once, and answer everything else."""
    messages = request.body["messages"]
    if any(message["content"] == TOO_LONG for message in messages):
        return OVERFLOW
    has_run = any(message["role"] == "tool" for message in messages)
    if request.body.get("tools") and not has_run:
        return turn_modes.calling(("look", "{}"))
    return ScriptedReply('"In reeds."', usage=USAGE)


@contextmanager
def is_nested() -> Iterator[bool]:
    """Note that a nested call runs; say whether one runs already."""
    before = inside.set(True)
    try:
        yield before.old_value is True
    finally:
        inside.reset(before)


@define
class Nest:
    """Make calls in some places of a call, all of which need what the call needs.

    Arguments:
        mode: of the outer call.
        places: where calls are made.
        resource: what there is room of for one attempt.
        store: a server that keeps it; None for this process.
    """

    mode: str
    places: frozenset[str]
    resource: str
    store: str | None
    client: Client = field(init=False)
    budget: SharedBudget | None = field(default=None, init=False)
    begun: list[str] = field(factory=list, init=False)  # where a call was made
    ends: list[str] = field(factory=list, init=False)  # the outcomes of these calls

    def open(self, url: str) -> None:
        """Make the client."""
        budget = Budget(seconds=patience(20.0))
        options: dict[str, Any] = {"policy": Policy(budget=budget), "store": self.store}
        of_backend: dict[str, Any] = {"prices": Prices(1, 1)}
        if self.resource == "quota":
            of_backend["quota"] = Quota(concurrent=1)
        if self.resource == "connections":
            options["max_connections"] = 1
        if self.resource == "budget":
            ceilings = Budget(attempts=1000, seconds=None, output_tokens=ROOM)
            self.budget = SharedBudget(ceilings, name=secrets.token_hex(4) if self.store else "")
        of_backend["api_key"] = "key"
        if "key" in self.places:
            of_backend["api_key"] = self.key if self.blocks else self.later_key
        if "observer" in self.places:
            options["observer"] = self.observe
        if "compactor" in self.places:
            options["compactor"] = self.compact if self.blocks else self.later_compact
        self.client = Client(OpenAIChat("model", base_url=url, **of_backend), **options)

    @property
    def is_async(self) -> bool:
        return self.mode.startswith("a")

    @property
    def blocks(self) -> bool:
        """Tell whether calls are made in threads: nobody awaits an observer or a validator."""
        return not self.is_async or not self.places.isdisjoint(("observer", "returns"))

    @property
    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"max_tokens": CAP}
        if self.budget is not None:
            options["within"] = self.budget
        return options

    def nest(self, place: str) -> None:
        """Make a call in a thread of its own, as the event loop may run here."""
        with is_nested() as already:
            if already:
                return
            self.begun.append(place)
            context = contextvars.copy_context()
            with ThreadPoolExecutor(1) as pool:
                call = partial(self.client.call, NESTED, **self.options)
                self.ends.append(pool.submit(context.run, call).result().outcome)

    async def later_nest(self, place: str) -> None:
        """Make a call in this event loop."""
        with is_nested() as already:
            if already:
                return
            self.begun.append(place)
            self.ends.append((await self.client.acall(NESTED, **self.options)).outcome)

    def key(self) -> str:
        self.nest("key")
        return "key"

    async def later_key(self) -> str:
        await self.later_nest("key")
        return "key"

    def observe(self, step: Step) -> None:
        self.nest("observer")

    def compact(self, *asked: Any) -> list[Any]:
        self.nest("compactor")
        return [{"role": "user", "content": "A story."}]

    async def later_compact(self, *asked: Any) -> list[Any]:
        await self.later_nest("compactor")
        return [{"role": "user", "content": "A story."}]

    def judge(self, reply: Any) -> None:
        self.nest("verdict")

    async def later_judge(self, reply: Any) -> None:
        await self.later_nest("verdict")

    def look(self) -> str:
        """Look for birds."""
        self.nest("tool")
        return "Two."

    async def later_look(self) -> str:
        """Look for birds."""
        await self.later_nest("tool")
        return "Two."

    def read(self, value: str) -> str:
        self.nest("returns")
        return value

    @property
    def asked(self) -> dict[str, Any]:
        """Return the options of the outer call."""
        options = self.options
        if "verdict" in self.places:
            options["verdict"] = self.later_judge if self.is_async else self.judge
        if "returns" in self.places:
            options["returns"] = Annotated[str, AfterValidator(self.read)]
        if "turn" in self.mode and "tool" in self.places:
            look = self.later_look if self.is_async else self.look
            options["tools"] = [Tool(look, name="look")]
        return options

    def ask(self, many: int) -> list[str]:
        """Make calls at once, and return their outcomes."""
        if not self.is_async:
            with ThreadPoolExecutor(many) as pool:
                return list(pool.map(lambda _: self.ask_once(), range(many)))
        loop = "trio" if self.mode.endswith("trio") else "asyncio"
        return anyio.run(self.later_ask, 1 if self.blocks else many, backend=loop)

    def ask_once(self) -> str:
        if self.mode in MODES:
            return ask(self.client, self.mode, self.messages, **self.asked).outcome
        turned = getattr(self.client, self.mode)(self.messages, **self.asked)
        if self.mode == "turn":
            return str(turned.outcome)
        with turned:
            return str(list(turned)[-1].outcome)

    async def later_ask(self, many: int) -> list[str]:
        outcomes = []

        async def once() -> None:
            mode = self.mode.removesuffix(" on trio")
            if mode in MODES:
                result = await aask(self.client, mode, self.messages, **self.asked)
                outcomes.append(result.outcome)
            elif mode == "aturn":
                outcomes.append((await self.client.aturn(self.messages, **self.asked)).outcome)
            else:
                async with self.client.astream_turn(self.messages, **self.asked) as stream:
                    outcomes.append([event async for event in stream][-1].outcome)

        async with self.client, anyio.create_task_group() as group:
            for _ in range(many):
                group.start_soon(once)
        return outcomes

    @property
    def messages(self) -> list[Any]:
        if "compactor" in self.places:
            said = {"role": "assistant", "content": "Yes."}
            return [{"role": "user", "content": TOO_LONG}, said, {"role": "user", "content": "So?"}]
        return [{"role": "user", "content": "Where do herons nest?"}]


def nothing_is_held(url: str) -> bool:
    """Look into the server that keeps what calls share."""
    with redis.Redis.from_url(url) as server:
        values = [json.loads(server.get(name)) for name in server.scan_iter()]
    return not any(value.get("leases") or value.get("holds") for value in values)


def case(mode: str, places: Iterable[str], resource: str, **others: Any) -> dict[str, Any]:
    """Return the arguments of the test."""
    return {"mode": mode, "places": frozenset(places), "resource": resource, **others}


ALL_MODES = (*MODES, *turn_modes.MODES, "acall on trio", "aturn on trio")


@pytest.mark.full
@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    mode=st.sampled_from(ALL_MODES),
    places=st.frozensets(st.sampled_from(PLACES), min_size=1),
    resource=st.sampled_from(RESOURCES),
    in_redis=st.booleans(),
    many=st.integers(1, 3),
)
@example(**case("call", PLACES, "quota", in_redis=False, many=3))
@example(**case("acall", ("verdict", "key"), "quota", in_redis=True, many=3))
@example(**case("stream", PLACES, "budget", in_redis=True, many=2))
@example(**case("acall on trio", ("verdict", "compactor"), "budget", in_redis=False, many=3))
@example(**case("turn", PLACES, "quota", in_redis=True, many=2))
@example(**case("aturn", PLACES, "budget", in_redis=False, many=1))
@example(**case("aturn on trio", ("verdict", "tool"), "quota", in_redis=False, many=1))
@example(**case("astream_turn", ("verdict", "tool"), "connections", in_redis=False, many=2))
def test_a_call_within_a_call_finds_free_what_its_parent_held(
    redis_url: str,
    mode: str,
    places: frozenset[str],
    resource: str,
    in_redis: bool,
    many: int,
) -> None:
    if resource == "connections":
        # an attempt is reported as it goes out, and by then it has its connection
        places -= {"observer"}
    with EmbeddedProvider(answer) as provider:
        nest = Nest(mode, places, resource, redis_url if in_redis else None)
        nest.open(provider.base_url)
        outcomes = nest.ask(many)
        requests = len(provider.requests)
    assert set(outcomes) <= {"done", "finished"}
    expected = places if "turn" in mode else places - {"tool"}
    assert set(nest.begun) == expected
    assert nest.ends == ["done"] * len(nest.begun)
    budget = nest.budget
    if budget is not None:
        assert budget.attempts == requests
        assert budget.committed.tokens == budget.usage.output_tokens <= ROOM
    assert nothing_is_held(redis_url)


def test_a_backend_that_answers_is_back_before_the_answer_is_judged(
    serve: Any, backend_of: Any
) -> None:
    clock = Clock()
    down = ScriptedReply(status=503)
    server = serve(down, down, ScriptedReply("In reeds."))
    once = Policy(limits=Limits(retries=0))
    with Client(backend_of(server), policy=once, **clock.options) as client:
        for _ in range(2):
            with pytest.raises(Failed):
                client.call("Where?")
        clock.advance(60.0)
        client.call("Where?", verdict=lambda reply: client.call(NESTED) and None)
    assert len(server.requests) == 4


def test_a_key_is_asked_for_once_where_its_attempt_waits_for_the_quota(
    serve: Any, backend_of: Any
) -> None:
    asked: list[str] = []

    def key() -> str:
        asked.append("key")
        return "key"

    clock = Clock()
    server = serve(ScriptedReply("In reeds."))
    backend = backend_of(server, api_key=key, quota=Quota(requests_per_minute=1))
    with Client(backend, **clock.options) as client:
        for _ in range(2):
            client.call("Where?")
    assert len(asked) == len(server.requests) == 2


def test_the_key_that_has_room_is_asked_for(serve: Any, backend_of: Any) -> None:
    server = serve(ScriptedReply("In reeds."))
    keys = [lambda: "one", lambda: "two"]
    backend = backend_of(server, api_key=keys, quota=Quota(requests_per_minute=1))
    with Client(backend, **Clock().options) as client:
        for _ in range(2):
            client.call("Where?")
    assert [each.headers["authorization"] for each in server.requests] == [
        "Bearer one",
        "Bearer two",
    ]


def test_an_observer_gets_every_step_of_a_call_that_shares_in_turn(
    serve: Any, backend_of: Any
) -> None:
    steps: list[Step] = []
    server = serve(ScriptedReply(status=503), ScriptedReply("In reeds."))
    chain = [backend_of(server, quota=Quota(concurrent=1))]
    budget = SharedBudget(Budget(attempts=1))
    clock = Clock()
    with Client(chain, observer=steps.append, **clock.options) as client:
        result = client.call("Where?")
        assert steps == list(result.journal.steps)
        steps.clear()
        client.call("Where?", within=budget)
        steps.clear()
        with pytest.raises(OverBudget) as over:
            client.call("Where?", within=budget)
        assert steps == list(over.value.result.journal.steps)
