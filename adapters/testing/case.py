"""One call of a fuzz run: its request, the client's method, the provider's script, and what leaves
it little room.
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
from rungwise.fsm.testing.scripted import PROMPT, VirtualClock
from rungwise.fsm.testing.strategies import requests, seldom, turns
from rungwise.fsm.testing.tokenizers import TOKENIZERS

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.fsm.call.run.result import Result

CHEAP, DEAR = Prices(1.0, 10.0), Prices(1e12, 1e12)
MONEY = 1.0
CHAINS = (
    (CHEAP, DEAR),
    (DEAR, CHEAP),
    (DEAR, DEAR, DEAR),
    (DEAR, DEAR, CHEAP),
    (CHEAP, DEAR, CHEAP),
    (CHEAP,) * 3,
)
PATIENT = Waits(retry_base=0.0, reask_base=10.0, jitter=0.0, longest_asked=0.0)
"""Waits that differ most between a retry and what is asked again."""


@frozen
class Squeeze:
    """Narrow a policy, and set prices and a shared budget for the call that runs under it."""

    prices: tuple[Prices, ...] = ()  # of each backend; empty for those of the case
    attempts: int | None = None  # of the call; None for those of the policy
    left: frozenset[str] | None = None  # the counters that keep a unit; None leaves all as they are
    waits: Waits | None = None
    money: float | None = None
    shared: Budget | None = None
    held: float = 0.0  # seconds for which other calls hold the shared budget before each attempt

    def policy(self, policy: Policy) -> Policy:
        """Return what remains of a policy."""
        narrowed = {
            name: getattr(self, name)
            for name in ("attempts", "money")
            if getattr(self, name) is not None
        }
        kept = self.left or ()
        others = policy.limits.keys() - {"fallbacks"}
        limits = {name: min(1, policy.limits[name] or 0) if name in kept else 0 for name in others}
        return attrs.evolve(
            policy,
            budget=attrs.evolve(policy.budget, **narrowed),
            limits=policy.limits if self.left is None else Limits(**{**policy.limits, **limits}),
            waits=self.waits or policy.waits,
        )

    def options(self, clock: VirtualClock, seconds: float | None) -> dict[str, Any]:
        """Return what the call is given besides; it begins now, with a budget of so many
        seconds.
        """
        if self.shared is None:
            return {}
        ends = math.inf if seconds is None else clock.now + seconds
        return {"within": HeldBudget(self.shared, clock=clock, held=self.held, ends=ends)}


@define(eq=False, repr=False)
class HeldBudget(SharedBudget):
    """Let other calls hold the budget before each attempt, for as long as a call would wait for
    them at most.
    """

    clock: VirtualClock = field(kw_only=True)
    held: float = field(kw_only=True)
    ends: float = field(kw_only=True)  # when the call must have ended by its own budget

    def share(self) -> Share:
        """Return a share for a new call."""
        return self.share_by(_HeldShare)


@define(eq=False, repr=False)
class _HeldShare(Share):
    def reserve(self, *asked: Any, **options: Any) -> bool:
        if self._reservation.state == "idle":
            budget: Any = self.shared
            ends = min(budget.ends, math.inf if budget.deadline is None else budget.deadline)
            budget.clock.advance(min(budget.held, max(0.0, ends - budget.clock.now)))
        return super().reserve(*asked, **options)


def squeezes() -> SearchStrategy[Squeeze]:
    """Generate calls with little room."""
    shared = st.sampled_from(
        (Budget(money=MONEY), Budget(money=MONEY, seconds=60.0), Budget(attempts=3))
    )
    return st.builds(
        Squeeze,
        prices=st.sampled_from(CHAINS),
        attempts=st.sampled_from((2, 3, None)),
        left=st.sampled_from((frozenset({"retries"}), frozenset({"retries", "continuations"}))),
        waits=st.just(PATIENT),
        money=st.sampled_from((MONEY, None)),
        shared=st.none() | shared,
        held=st.sampled_from((0.0, 20.0, 40.0, 100.0)),
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
    """Make a call, collect the events of its stream, and leave the stream after `most` of them;
    None stays.
    """
    if not is_streaming(mode):
        return client.call(request, **options)
    with client.stream(request, **options) as stream:
        while len(events) != most and (event := next(stream, None)) is not None:
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
    """Do what `ask` does on an event loop."""
    if not is_streaming(mode):
        return await client.acall(request, **options)
    async with client.astream(request, **options) as stream:
        while len(events) != most and (event := await anext(stream, None)) is not None:
            events.append(event)
    return stream.result


CAPS = ("max_tokens", "max_completion_tokens")
"""The names of the output cap on the wire."""

PREFILLS = ("no", "trailing", "prefix", "partial", "continue_final_message")
LATEST = 12
PRICES = Prices(input=1.0, output=10.0)

NESTS: Final = {
    "type": "object",
    "properties": {"nests": {"type": "integer"}, "bank": {"type": "string"}},
    "required": ["nests"],
}

LONGEST_READ: Final = 30
"""Characters of an answer that the verdict reads; at a longer one it raises, as a verdict of a
caller's may.
"""


def names_no_river(reply: Reply) -> str | None:
    """Judge a reply, unless it is long."""
    if len(reply.text) > LONGEST_READ:
        raise ValueError("who should read all this?")
    return "Do not mention the river." if "river" in reply.text else None


@frozen
class Case(Shrinkable):
    """One call to a provider that answers by script."""

    is_served: ClassVar[bool] = True
    script: Script
    mode: str = "call"
    request: Request = field(factory=lambda: Request(PROMPT))
    turn: TurnContext = field(factory=TurnContext)
    prefill: Any = "no"
    contents: bool = False  # whether the journal may hold texts
    returns: Any = None  # what the answer must be, as a JSON schema
    has_verdict: bool = False
    compactor: Compactor | None = None
    prices: Prices = PRICES
    is_fair: bool = False  # whether the provider keeps to the caps, and counts prompts as they are
    tokenizer: str = "prose"  # of a fair provider
    opens: int = 0  # how many backends, from the first on, earlier calls have found down
    # events after which the consumer of a stream goes away; None stays
    leaves_after: int | None = None
    squeeze: Squeeze = field(factory=Squeeze)

    def to_toml(self) -> str:
        """Write the script as `rungwise serve` takes it."""
        return self.script.to_toml()

    def describe(self) -> Iterator[str]:
        """Describe what the script does not show."""
        request = self.request
        turn = self.turn
        context = f"prior_answer={turn.prior_answer!r}, only_housekeeping={turn.only_housekeeping}"
        verdict = f"no answer may mention a river; raises above {LONGEST_READ} characters"
        yield f"mode: {self.mode}"
        yield f"messages: {', '.join(map(NEUTRAL.role_of, request.messages))}"
        facts = {
            "tools": len(request.tools),
            "max_tokens": request.max_tokens,
            "input_tokens": request.input_tokens,
            "turn": context if turn != TurnContext() else None,
            "prefill": self.prefill if self.prefill != "no" else None,
            "contents": self.contents,
            "parameters": dict(request.parameters),
            "returns": None if self.returns is None else json.dumps(self.returns),
            "verdict": verdict if self.has_verdict else None,
            "compactor": self.compactor,
            "prices": self.prices if self.prices != PRICES else None,
            "usage": f"as a fair provider counts {self.tokenizer}" if self.is_fair else None,
            "backends that are down": self.opens,
            "the consumer leaves after": f"{self.leaves_after} events"
            if self.leaves_after is not None
            else None,
            "squeeze": self.squeeze if self.squeeze != Squeeze() else None,
        }
        yield from (f"{name}: {value}" for name, value in facts.items() if value)

    @property
    def wants(self) -> dict[str, Any]:
        """Return the options of the call that say what the answer must be."""
        returns = None if "response_format" in self.request.parameters else self.returns
        return {"returns": returns, "verdict": names_no_river if self.has_verdict else None}

    def smaller(self) -> Iterator[Case]:
        """Generate cases with one reply less, one field of a reply less, or one field at its
        default.
        """
        replies = self.script.replies
        for index, reply in enumerate(replies):
            before = replies[:index]
            after = replies[index + 1 :]
            if before or after:
                yield attrs.evolve(self, script=Script([*before, *after]))
            for name in reply.given:
                less = ScriptedReply(
                    **{field: value for field, value in reply.given.items() if field != name}
                )
                yield attrs.evolve(self, script=Script([*before, less, *after]))
        yield from with_defaults(self, Case(self.script))


def cases(replies: SearchStrategy[ScriptedReply], prices: Prices = PRICES) -> SearchStrategy[Case]:
    """Generate calls, at these prices, with dear caches and with dear input."""
    dear = attrs.evolve(prices, cache_read=prices.input / 10, cache_creation=2 * prices.output)
    dear_input = attrs.evolve(prices, input=prices.output, output=prices.input)
    return st.builds(
        Case,
        script=scripts(items=replies),
        mode=st.sampled_from(MODES),
        request=requests(),
        turn=seldom(turns()).map(lambda turn: turn or TurnContext()),
        prefill=st.sampled_from(PREFILLS),
        contents=st.booleans(),
        returns=seldom(st.just(NESTS)),
        has_verdict=st.booleans(),
        compactor=st.none() | compactors(),
        prices=st.sampled_from((prices, dear, dear_input)),
        is_fair=st.booleans(),
        tokenizer=st.sampled_from(tuple(TOKENIZERS)),
        opens=st.sampled_from((0, 0, 1, 2)),
        leaves_after=seldom(st.integers(0, LATEST)),
    )
