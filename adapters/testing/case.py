"""One call of a fuzz run: its request, the client's method, and the provider's script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
from attrs import field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.adapters.testing.scripts import scripts
from rungwise.adapters.testing.search import Shrinkable, with_defaults
from rungwise.adapters.testing.squeeze import Squeeze
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.call.conversation.shapes import NEUTRAL
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.testing.compactors import Compactor, compactors
from rungwise.fsm.testing.scripted import PROMPT
from rungwise.fsm.testing.strategies import requests, seldom, turns
from rungwise.fsm.testing.tokenizers import TOKENIZERS

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.fsm.call.run.result import Result

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

    def prices_of(self, backends: int) -> tuple[Prices, ...]:
        """Return the prices of each backend of a chain."""
        return self.squeeze.prices or (self.prices,) * backends

    @property
    def wants(self) -> dict[str, Any]:
        """Return the options of the call that say what the answer must be."""
        returns = None if "response_format" in self.request.parameters else self.returns
        return {"returns": returns, "verdict": names_no_river if self.has_verdict else None}

    def crossed(
        self,
        other: Case,
        place: int,
        names: Iterable[str],
    ) -> Case:
        """Return this case with things of another one.

        Arguments:
            other: the other one.
            place: the number of replies after which its script begins.
            names: the further fields that come from it.
        """
        replies = [*self.script.replies[:place], *other.script.replies]
        changes = {name: getattr(other, name) for name in names}
        return attrs.evolve(self, script=Script(replies), **changes)

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


def prices_like(prices: Prices) -> tuple[Prices, ...]:
    """Return prices: these ones, with dear caches, and with dear input."""
    dear = attrs.evolve(prices, cache_read=prices.input / 10, cache_creation=2 * prices.output)
    dear_input = attrs.evolve(prices, input=prices.output, output=prices.input)
    return prices, dear, dear_input


def cases(replies: SearchStrategy[ScriptedReply], prices: Prices = PRICES) -> SearchStrategy[Case]:
    """Generate calls.

    Arguments:
        replies: generates what the provider answers.
        prices: of the backends; some calls have dear caches, others dear input.
    """
    mode = st.sampled_from(MODES)
    turn = seldom(turns()).map(lambda turn: turn or TurnContext())
    prefill = st.sampled_from(PREFILLS)
    returns = seldom(st.just(NESTS))
    compactor = st.none() | compactors()
    tokenizer = st.sampled_from(tuple(TOKENIZERS))
    opens = st.sampled_from((0, 0, 1, 2))
    leaves_after = seldom(st.integers(0, LATEST))
    flags = st.booleans()
    return st.builds(
        Case,
        script=scripts(items=replies),
        mode=mode,
        request=requests(),
        turn=turn,
        prefill=prefill,
        contents=flags,
        returns=returns,
        has_verdict=flags,
        compactor=compactor,
        prices=st.sampled_from(prices_like(prices)),
        is_fair=flags,
        tokenizer=tokenizer,
        opens=opens,
        leaves_after=leaves_after,
    )
