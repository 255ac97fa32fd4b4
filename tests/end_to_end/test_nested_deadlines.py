"""Calls and turns that tools and compactors make: they end by the deadline of the turn around,
without being told.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from attrs import define, field

import rungwise
from rungwise import (
    Budget,
    Client,
    Policy,
    Result,
    ToolCall,
    ToolEnded,
    ToolStarted,
    TurnPolicy,
    TurnResult,
)
from rungwise.testing import Clocks, EmbeddedProvider, ScriptedReply, VirtualClock
from support import modes, turn_modes, ways
from support.plain import user
from support.runs import Serve
from support.ways import WALL

ANSWER = ScriptedReply("By the lake.")
CALLS = turn_modes.calling(("look", "{}"))
OVERFLOW = ScriptedReply(
    status=400, error={"message": "too long", "code": "context_length_exceeded"}
)
UNLIMITED = Policy(budget=Budget(seconds=None))
FREE = TurnPolicy(call=UNLIMITED, budget=Budget(seconds=None))
LONG = [
    user("Reeds. " * 400),
    {"role": "assistant", "content": "Yes."},
    user("So?"),
]

SYNC = ("turn", "stream_turn")


@pytest.fixture(params=turn_modes.MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Run each test that takes it in every mode."""
    return str(request.param)


@define
class Nest:
    """A client whose turns go around calls of another one, on a clock of its own."""

    outer: Client
    inner: Client
    clock: VirtualClock
    provider: EmbeddedProvider
    deadlines: list[float | None] = field(factory=list)

    def ask(self, **options: Any) -> str:
        """Make a call in this thread, and note by when it has to end."""
        return self.note(self.inner.call("Where?", **options))

    async def aask(self, **options: Any) -> str:
        """Make a call in this task, likewise."""
        async with self.inner:
            return self.note(await self.inner.acall("Where?", **options))

    def note(self, result: Result) -> str:
        self.deadlines.append(result.journal.setting.deadline)
        return result.text

    def turn(self, mode: str, tool: Any = None, **options: Any) -> TurnResult:
        """Run a turn whose only tool this is."""
        tools = {"tools": {"look": tool}} if tool is not None else {}
        return turn_modes.ask(
            self.outer,
            mode,
            **{
                "policy": FREE,
                "deadline": WALL + 60,
                **tools,
                **options,
            },
        )

    def shorten(self, messages: Any, *room: int) -> Any:
        """Compact messages after 20 seconds and a call in this thread."""
        self.clock.advance(20)
        self.ask()
        return messages[-1:]

    async def ashorten(self, messages: Any, *room: int) -> Any:
        """Compact messages likewise, with a call in this task."""
        self.clock.advance(20)
        await self.aask()
        return messages[-1:]


@pytest.fixture
def nest(serve: Serve) -> Nest:
    """Return one whose outer clock stands at 50 and whose inner one at 7000, at the same time of
    day.
    """
    asked = serve(ANSWER)
    outer, clock = ways.virtual(serve(CALLS, ANSWER), now=50.0, policy=UNLIMITED)
    inner, _ = ways.virtual(asked, now=7000.0, policy=UNLIMITED)
    return Nest(outer, inner, clock, asked)


@pytest.mark.parametrize("kind", ["in its thread", "in its task", "returned to be awaited"])
def test_a_call_that_a_tool_makes_ends_by_it(nest: Nest, mode: str, kind: str) -> None:
    def look() -> str | Awaitable[str]:
        nest.clock.advance(20)
        return nest.ask() if kind == "in its thread" else nest.aask()

    async def alook() -> str:
        nest.clock.advance(20)
        return await nest.aask()

    assert nest.turn(mode, alook if kind == "in its task" else look).outcome == "finished"
    assert nest.deadlines == [40.0]


def test_so_does_one_that_an_executor_makes(nest: Nest, mode: str) -> None:
    options = {"executor": lambda name, arguments: nest.ask(), "tools": [{"name": "look"}]}
    assert nest.turn(mode, **options).outcome == "finished"
    assert nest.deadlines == [60.0]


def test_the_tightest_counts(nest: Nest, mode: str) -> None:
    def look() -> str:
        nest.ask(deadline=WALL + 15)
        return nest.ask(deadline=WALL + 3600)

    nest.turn(mode, look)
    assert nest.deadlines == [15.0, 60.0]


@pytest.mark.parametrize(
    ("options", "deadline"),
    [
        ({"policy": TurnPolicy(call=UNLIMITED, budget=Budget(seconds=30))}, 30.0),
        ({"deadline": None}, None),
    ],
    ids=["seconds of the budget", "no limit"],
)
def test_the_limits_of_the_turn_are_those_of_the_call(
    nest: Nest,
    mode: str,
    options: Any,
    deadline: float | None,
) -> None:
    nest.turn(mode, lambda: nest.ask(), **options)
    assert nest.deadlines == [deadline]


def test_nothing_is_sent_once_it_has_passed(nest: Nest, mode: str) -> None:
    found: list[Result] = []

    def look() -> str:
        nest.clock.advance(61)
        with pytest.raises(rungwise.OverBudget) as raised:
            nest.ask()
        found.append(raised.value.result)
        return "nothing"

    assert nest.turn(mode, look).outcome == "over_budget"
    assert (found[0].attempts, nest.provider.requests) == (0, [])


def test_turns_within_turns_pass_it_on(nest: Nest, serve: Serve, mode: str) -> None:
    between = serve(turn_modes.calling(("ask", "{}")), ANSWER)
    middle, _ = ways.virtual(between, now=300.0, policy=UNLIMITED)
    deadlines: list[float | None] = []

    def look() -> str:
        nest.clock.advance(20)
        with middle:
            result = middle.turn("Where?", tools={"ask": lambda: nest.ask()}, policy=FREE)
        deadlines.append(result.journal.setting.deadline)
        return result.text

    nest.turn(mode, look)
    assert (deadlines, nest.deadlines) == ([40.0], [40.0])


def test_a_looser_turn_within_passes_on_the_tighter_deadline(nest: Nest, serve: Serve) -> None:
    """The stream is made before, so that the turn itself knows nothing of the one around, and read
    in a tool.
    """
    between = serve(turn_modes.calling(("ask", "{}")), ANSWER)
    clocks = Clocks(
        clock=nest.clock,
        sleep=nest.clock.sleep,
        wall_clock=lambda: WALL - 50 + nest.clock(),
    )
    middle = Client(ways.backend(between.base_url), policy=UNLIMITED, testing=clocks)
    stream = middle.stream_turn(
        "Where?", tools={"ask": lambda: nest.ask()}, policy=FREE, deadline=WALL + 3600
    )
    with middle:
        nest.turn(
            "turn", lambda: [event.text for event in stream if isinstance(event, rungwise.Text)]
        )
    assert nest.deadlines == [60.0]


@pytest.mark.parametrize("mode", ["stream_turn", "astream_turn"])
def test_what_reads_the_stream_is_not_bound_by_it(nest: Nest, mode: str) -> None:
    """Only what runs within the turn is: its reader goes on after it."""
    tools = {"look": lambda: nest.ask()}
    options = {"policy": FREE, "deadline": WALL + 60}
    if mode == "stream_turn":
        for event in nest.outer.stream_turn("Where?", tools=tools, **options):
            if isinstance(event, ToolStarted | ToolEnded | TurnResult):
                nest.ask()
    else:

        async def read() -> None:
            async for event in nest.outer.astream_turn("Where?", tools=tools, **options):
                if isinstance(event, ToolStarted | ToolEnded | TurnResult):
                    await nest.aask()
            await nest.outer.aclose()

        anyio.run(read)
    assert sorted(nest.deadlines, key=str) == [60.0, None, None, None]
    nest.ask()
    assert nest.deadlines[-1] is None


# compactors


@pytest.fixture
def overflowing(nest: Nest, serve: Serve) -> Callable[..., Client]:
    """Return `client(compactor=None)`, whose provider says once that the prompt does not fit."""

    def client(**options: Any) -> Client:
        clocks = Clocks(clock=nest.clock, wall_clock=lambda: WALL - 50 + nest.clock())
        return Client(
            ways.backend(serve(OVERFLOW, ANSWER).base_url),
            **{"policy": UNLIMITED, "testing": clocks, **options},
        )

    return client


@pytest.mark.parametrize("kind", ["sync", "async", "awaitable"])
def test_a_compactor_of_a_turn_makes_its_calls_within_it(
    nest: Nest,
    overflowing: Callable[..., Client],
    mode: str,
    kind: str,
) -> None:
    if kind != "sync" and mode in SYNC:
        pytest.skip("only what is asynchronous can await a compactor")

    compactor = {
        "sync": nest.shorten,
        "async": nest.ashorten,
        "awaitable": lambda *given: nest.ashorten(*given),
    }[kind]
    nest.outer = overflowing()
    result = nest.turn(mode, messages=LONG, compactor=compactor)
    assert result.outcome == "finished"
    assert nest.deadlines == [40.0]


@pytest.mark.parametrize("mode", modes.MODES)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_compactor_of_a_call_makes_its_calls_within_it(
    nest: Nest,
    overflowing: Callable[..., Client],
    mode: str,
    kind: str,
) -> None:
    if kind == "async" and not modes.is_async(mode):
        pytest.skip("only what is asynchronous can await a compactor")

    client = overflowing(compactor=nest.shorten if kind == "sync" else nest.ashorten)
    assert modes.ask(client, mode, LONG, deadline=WALL + 60).text == "By the lake."
    assert nest.deadlines == [40.0]
    nest.ask()
    assert nest.deadlines[-1] is None


def test_tools_side_by_side_and_turns_side_by_side_keep_their_own(serve: Serve) -> None:
    both = ScriptedReply(
        tool_calls=[ToolCall("1", "look", '{"by": 1}'), ToolCall("2", "look", '{"by": 2}')]
    )
    first = serve(both, ANSWER)
    second = serve(both, ANSWER)
    clock = VirtualClock(now=50.0)
    inner = Client(
        ways.backend(serve(ANSWER).base_url),
        policy=UNLIMITED,
        testing=Clocks(clock=clock),
    )
    deadlines: dict[str, list[float | None]] = {"first": [], "second": []}

    async def turn(name: str, provider: EmbeddedProvider, seconds: float) -> None:
        async def look(by: int) -> str:
            await anyio.sleep(0.01 * by)
            result = await inner.acall("Where?")
            deadlines[name].append(result.journal.setting.deadline)
            return result.text

        async with Client(
            ways.backend(provider.base_url),
            policy=UNLIMITED,
            testing=Clocks(clock=clock),
        ) as client:
            policy = TurnPolicy(call=UNLIMITED, budget=Budget(seconds=seconds))
            await client.aturn("Where?", tools=[look], policy=policy)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(turn, "first", first, 30.0)
            group.start_soon(turn, "second", second, 90.0)
        await inner.aclose()

    anyio.run(main)
    assert deadlines == {"first": [30.0, 30.0], "second": [90.0, 90.0]}
