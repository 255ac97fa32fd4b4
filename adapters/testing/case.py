"""One call of a fuzz run: its request, the client's method, and the provider's script.

Theory. Most calls that are drawn at random have plenty of everything, so the rows that decide when
something runs out are hardly ever taken. A `Squeeze` leaves a call little room on purpose: one or
two counters, prices at which a second request cannot be afforded, a shared budget that others hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
from attrs import define, field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.adapters.testing.scripts import scripts
from rungwise.adapters.testing.search import Shrinkable, with_defaults
from rungwise.fsm.call.budget.shared import Share, SharedBudget
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.call.conversation.shapes import NEUTRAL
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget, Policy, Waits
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.testing.compactors import Compactor, compactors
from rungwise.fsm.testing.scripted import PROMPT, TOKENIZERS, VirtualClock
from rungwise.fsm.testing.strategies import requests, seldom, turns

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.fsm.call.run.result import Result

CHEAP = Prices(1.0, 10.0)  # dollars for a million tokens of input and of output
DEAR = Prices(1e12, 1e12)
MONEY = 1.0  # dollars: enough for cheap requests, and for no dear one
CHAINS = (
    (CHEAP, DEAR),
    (DEAR, CHEAP),
    (DEAR, DEAR, DEAR),
    (DEAR, DEAR, CHEAP),
    (CHEAP, DEAR, CHEAP),
    (CHEAP,) * 3,
)
SHARED = (Budget(money=MONEY), Budget(money=MONEY, seconds=60.0), Budget(attempts=3))
PATIENT = Waits(retry_base=0.0, reask_base=10.0, jitter=0.0, longest_asked=0.0)
"""Waits that differ most between a retry and what is asked again."""


@frozen
class Squeeze:
    """Narrow a policy, and set prices and a shared budget for the call that runs under it.

    Arguments:
        prices: of each backend; empty for those of the case.
        attempts: of the call; None for those of the policy.
        left: the counters that keep a unit; None leaves all as they are.
        waits: instead of the policy's.
        money: dollars of the call; None for those of the policy.
        shared: a budget that other calls use, too.
        held: seconds for which others hold the shared budget before each attempt.
    """

    prices: tuple[Prices, ...] = ()
    attempts: int | None = None
    left: frozenset[str] | None = None
    waits: Waits | None = None
    money: float | None = None
    shared: Budget | None = None
    held: float = 0.0

    def policy(self, policy: Policy) -> Policy:
        """Return what remains of a policy."""
        budget = policy.budget
        if self.attempts is not None:
            budget = attrs.evolve(budget, attempts=self.attempts)
        if self.money is not None:
            budget = attrs.evolve(budget, money=self.money)
        limits = self._limits(policy.limits)
        waits = self.waits or policy.waits
        return attrs.evolve(policy, budget=budget, limits=limits, waits=waits)

    def _limits(self, limits: Limits) -> Limits:
        """Return limits with one unit at most in the counters that keep one; fallbacks stay."""
        if self.left is None:
            return limits
        narrowed = dict(limits)
        for name in limits:
            if name in self.left:
                narrowed[name] = min(1, limits[name] or 0)
            elif name != "fallbacks":
                narrowed[name] = 0
        return Limits(**narrowed)

    def options(self, clock: VirtualClock, seconds: float | None) -> dict[str, Any]:
        """Return further options of the call.

        Arguments:
            clock: says when the call begins.
            seconds: of its own budget; None for no ceiling.
        """
        if self.shared is None:
            return {}
        ends = math.inf if seconds is None else clock.now + seconds
        return {"within": HeldBudget(self.shared, clock=clock, held=self.held, ends=ends)}


@define(eq=False, repr=False)
class HeldBudget(SharedBudget):
    """A shared budget that other calls hold before each attempt.

    The clock moves on by the seconds for which they hold it, or as far as the call would wait.
    """

    clock: VirtualClock = field(kw_only=True)
    held: float = field(kw_only=True)
    ends: float = field(kw_only=True)  # when the call must have ended by its own budget

    def share(self) -> Share:
        """Return a share for a new call."""
        plain = SharedBudget.share(self)
        return _HeldShare(self, plain._queue, plain._reservation)


@define(eq=False, repr=False)
class _HeldShare(Share):
    def reserve(self, *asked: Any, **options: Any) -> bool:
        if self._reservation.state == "idle":
            budget: Any = self.shared
            ends = budget.ends
            if budget.deadline is not None:
                ends = min(ends, budget.deadline)
            left = max(0.0, ends - budget.clock.now)
            budget.clock.advance(min(budget.held, left))
        return super().reserve(*asked, **options)


def squeezes() -> SearchStrategy[Squeeze]:
    """Generate calls with little room."""
    attempts = st.sampled_from((2, 3, None))
    left = st.sampled_from((frozenset({"retries"}), frozenset({"retries", "continuations"})))
    money = st.sampled_from((MONEY, None))
    shared = st.sampled_from(SHARED)
    held = st.sampled_from((0.0, 20.0, 40.0, 100.0))
    return st.builds(
        Squeeze,
        prices=st.sampled_from(CHAINS),
        attempts=attempts,
        left=left,
        waits=st.just(PATIENT),
        money=money,
        shared=st.none() | shared,
        held=held,
    )


MODES: Final = ("call", "stream", "acall", "astream")


def is_streaming(mode: str) -> bool:
    """Tell whether a method streams."""
    return mode in ("stream", "astream")


def is_async(mode: str) -> bool:
    """Tell whether an event loop runs the call."""
    return mode in ("acall", "astream")


def ask(
    client: Client,
    mode: str,
    request: Request,
    events: list[object],
    most: int | None = None,
    **options: Any,
) -> Result:
    """Make a call, and collect the events of its stream.

    Arguments:
        client: makes it.
        mode: the method, of `MODES`.
        request: what is asked.
        events: takes the events.
        most: how many events are read before the stream is left; None reads all.
        options: of the call.
    """
    if not is_streaming(mode):
        return client.call(request, **options)
    with client.stream(request, **options) as stream:
        while len(events) != most:
            event = next(stream, None)
            if event is None:
                break
            events.append(event)
    return stream.result


async def ask_async(
    client: Client,
    mode: str,
    request: Request,
    events: list[object],
    most: int | None = None,
    **options: Any,
) -> Result:
    """Do what `ask` does on an event loop.

    Arguments:
        client: as of `ask`, like all of them.
        mode: the method.
        request: what is asked.
        events: takes the events.
        most: how many events are read.
        options: of the call.
    """
    if not is_streaming(mode):
        return await client.acall(request, **options)
    async with client.astream(request, **options) as stream:
        while len(events) != most:
            event = await anext(stream, None)
            if event is None:
                break
            events.append(event)
    return stream.result


CAPS = ("max_tokens", "max_completion_tokens")
"""The names of the output cap on the wire."""

PREFILLS = ("no", "trailing", "prefix", "partial", "continue_final_message")
LATEST = 12  # events that a consumer reads at most before it leaves
PRICES = Prices(input=1.0, output=10.0)

NESTS: Final = {
    "type": "object",
    "properties": {"nests": {"type": "integer"}, "bank": {"type": "string"}},
    "required": ["nests"],
}

LONGEST_READ: Final = 30
"""Characters of an answer that the verdict reads.

At a longer one it raises, as a caller's own verdict may.
"""


def names_no_river(reply: Reply) -> str | None:
    """Judge a reply, unless it is long."""
    if len(reply.text) > LONGEST_READ:
        raise ValueError("who should read all this?")
    return "Do not mention the river." if "river" in reply.text else None


@frozen
class Case(Shrinkable):
    """One call to a provider that answers by script.

    Arguments:
        script: what the provider answers.
        mode: the client's method, of `MODES`.
        request: what is asked.
        turn: what the call knows of its turn.
        prefill: how the backends take a prefill.
        contents: whether the journal may hold texts.
        returns: what the answer must be, as a JSON schema.
        has_verdict: whether `names_no_river` judges it.
        compactor: shortens a conversation that does not fit.
        prices: of every backend.
        is_fair: whether the provider keeps to the caps, and counts prompts as they are.
        tokenizer: how a fair provider counts, of `TOKENIZERS`.
        opens: how many backends, from the first on, earlier calls have found down.
        leaves_after: events after which the consumer of a stream goes away; None stays.
        squeeze: what leaves the call little room.
    """

    is_served: ClassVar[bool] = True
    script: Script
    mode: str = "call"
    request: Request = field(factory=lambda: Request(PROMPT))
    turn: TurnContext = field(factory=TurnContext)
    prefill: Any = "no"
    contents: bool = False
    returns: Any = None
    has_verdict: bool = False
    compactor: Compactor | None = None
    prices: Prices = PRICES
    is_fair: bool = False
    tokenizer: str = "prose"
    opens: int = 0
    leaves_after: int | None = None
    squeeze: Squeeze = field(factory=Squeeze)

    def to_toml(self) -> str:
        """Write the script as `rungwise serve` takes it."""
        return self.script.to_toml()

    def describe(self) -> Iterator[str]:
        """Describe what the script does not show."""
        yield f"mode: {self.mode}"
        yield f"messages: {', '.join(map(NEUTRAL.role_of, self.request.messages))}"
        for name, value in self._facts():
            if value:
                yield f"{name}: {value}"

    def _facts(self) -> Iterator[tuple[str, object]]:
        """Yield what else is known of the call; None, 0 and what is empty go without saying."""
        request = self.request
        turn = self.turn
        yield "tools", len(request.tools)
        yield "max_tokens", request.max_tokens
        yield "input_tokens", request.input_tokens
        if turn != TurnContext():
            prior = f"prior_answer={turn.prior_answer!r}"
            yield "turn", f"{prior}, only_housekeeping={turn.only_housekeeping}"
        if self.prefill != "no":
            yield "prefill", self.prefill
        yield "contents", self.contents
        yield "parameters", dict(request.parameters)
        if self.returns is not None:
            yield "returns", json.dumps(self.returns)
        if self.has_verdict:
            yield (
                "verdict",
                f"no answer may mention a river; raises above {LONGEST_READ} characters",
            )
        yield "compactor", self.compactor
        if self.prices != PRICES:
            yield "prices", self.prices
        if self.is_fair:
            yield "usage", f"as a fair provider counts {self.tokenizer}"
        yield "backends that are down", self.opens
        if self.leaves_after is not None:
            yield "the consumer leaves after", f"{self.leaves_after} events"
        if self.squeeze != Squeeze():
            yield "squeeze", self.squeeze

    @property
    def wants(self) -> dict[str, Any]:
        """Return the options of the call that say what the answer must be."""
        returns = None if "response_format" in self.request.parameters else self.returns
        return {"returns": returns, "verdict": names_no_river if self.has_verdict else None}

    def smaller(self) -> Iterator[Case]:
        """Generate cases that are smaller by one thing.

        By a reply, by a field of a reply, or by a field of the case, which gets its default.
        """
        replies = self.script.replies
        for index, reply in enumerate(replies):
            before = replies[:index]
            after = replies[index + 1 :]
            if before or after:
                yield attrs.evolve(self, script=Script([*before, *after]))
            for name in reply.given:
                fields = dict(reply.given)
                del fields[name]
                less = ScriptedReply(**fields)
                yield attrs.evolve(self, script=Script([*before, less, *after]))
        yield from with_defaults(self, Case(self.script))


def cases(replies: SearchStrategy[ScriptedReply], prices: Prices = PRICES) -> SearchStrategy[Case]:
    """Generate calls.

    Arguments:
        replies: generates what the provider answers.
        prices: of the backends; some calls have dear caches, others dear input.
    """
    dear = attrs.evolve(prices, cache_read=prices.input / 10, cache_creation=2 * prices.output)
    dear_input = attrs.evolve(prices, input=prices.output, output=prices.input)
    turn = seldom(turns()).map(lambda turn: turn or TurnContext())
    compactor = st.none() | compactors()
    opens = st.sampled_from((0, 0, 1, 2))
    return st.builds(
        Case,
        script=scripts(items=replies),
        mode=st.sampled_from(MODES),
        request=requests(),
        turn=turn,
        prefill=st.sampled_from(PREFILLS),
        contents=st.booleans(),
        returns=seldom(st.just(NESTS)),
        has_verdict=st.booleans(),
        compactor=compactor,
        prices=st.sampled_from((prices, dear, dear_input)),
        is_fair=st.booleans(),
        tokenizer=st.sampled_from(tuple(TOKENIZERS)),
        opens=opens,
        leaves_after=seldom(st.integers(0, LATEST)),
    )
