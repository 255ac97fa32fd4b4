"""A backend without HTTP: it answers by a script, on a virtual clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import attrs
from attrs import define, field, frozen

from rungwise.fsm.call.budget.metering import least_tokens, most_counted, texts_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.lessons import NO_LESSONS, Lessons
from rungwise.fsm.call.chain.link import Link, PlainLink
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.overrides import with_overrides
from rungwise.fsm.call.play import Answers, CameBack, PlayClock, play
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.sending import OPEN
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.testing.tokenizers import prompt_tokens
from rungwise.fsm.values.frozen_map import thawed
from rungwise.fsm.values.usage import Usage

PROMPT = "Where do the kingfishers nest in winter?"


@define(eq=False)
class VirtualClock(PlayClock):
    """Replace a client's clock and sleep: `Client(..., clock=clock, sleep=clock.sleep,
    async_sleep=clock.asleep)`.

    Arguments:
        now: seconds; only `sleep`, `asleep` and `advance` move it.
        waits: every wait, in seconds, in order.
    """

    waits: list[float] = field(factory=list)

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Wait, and record the wait."""
        self.advance(seconds)
        self.waits.append(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait asynchronously, and record the wait."""
        self.sleep(seconds)


class _Shapes(Shapes):
    """Read the requests that `strategies.py` generates."""

    __slots__ = ()

    def asks_for_json(self, parameters: Mapping[str, Any]) -> bool | None:
        return True if "response_format" in parameters else None

    def _definition_of(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        definition: Mapping[str, Any] = tool.get("function", tool)
        return definition


_SHAPES = _Shapes()


@frozen
class ScriptedLink(PlainLink):
    """A link to a backend that gets the requests of this kit."""

    lessons: Lessons = NO_LESSONS

    @property
    def shapes(self) -> Shapes:
        """Return the form of those requests."""
        return _SHAPES


def links(chain: int | Sequence[Link]) -> Sequence[Link]:
    """Return a chain of so many links, or the chain itself."""
    if not isinstance(chain, int):
        return chain
    return [ScriptedLink(f"backend-{number}") for number in range(1, chain + 1)]


def can_leave(call: Call) -> bool:
    """Tell whether a call that arrives at a backend could turn to another instead."""
    return any(backend != call.backend for backend, _ in call.arrivals)


@frozen
class Played:
    """A reply, and how it streams."""

    reply: Reply | Failure
    # the code points of successive deltas, over and over; empty for one piece
    sizes: tuple[int, ...] = ()
    streamed: str | None = None  # the text of the deltas, where it is not that of the reply

    def deltas(self) -> Iterator[Text | Reasoning]:
        """Yield the deltas of this reply as a stream."""
        reply = self.reply if isinstance(self.reply, Reply) else Reply()
        text = reply.text if self.streamed is None else self.streamed
        yield from map(Reasoning, _cut(reply.reasoning, self.sizes))
        yield from map(Text, _cut(text, self.sizes))


Scripted = Reply | Failure | Played


def _cut(text: str, sizes: tuple[int, ...]) -> Iterator[str]:
    """Cut a text into pieces of these sizes, over and over; without sizes, into one."""
    whole = max(len(text), 1)
    start = 0
    for size in cycle(sizes or (whole,)):
        if start >= len(text):
            return
        end = start + max(size, 1)
        yield text[start:end]
        start = end


@define(eq=False)
class ScriptedBackend:
    """Answer for every backend of a chain from one script, and drive calls.

    Arguments:
        script: what comes back, in the order of the requests; the last is repeated for ever.
        clock: the time; waits move it.
        latency: seconds that each request takes; a request that may not take that long times out.
        sizes: the code points of successive deltas of a stream, for items without sizes of their
            own.
        cancel_at: the number of steps after which the caller ends the call: before the first
            request with 0, in an attempt when its deltas have come, or before the next one goes
            out.
        compactor: shortens messages that do not fit, and takes the time in its `seconds`, if it has
            any. None keeps the last message, if the call `has_compactor`.
        is_fair: whether usage is that of a provider that keeps to caps and counts prompts as they
            are.
        opens: for each arrival at a backend that others follow, whether it is not asked now; False
            behind the last.
        sends, events: every request as it went out, and what a consumer of the streams received.
        raised: the exception of the compactor, or of the call about its result; it ends the call,
            as in a driver.
    """

    script: Sequence[Scripted]
    clock: VirtualClock = field(factory=VirtualClock)
    latency: float = 0.0
    sizes: tuple[int, ...] = ()
    cancel_at: int | None = None
    compactor: Callable[[Sequence[PlainMessage]], Any] | None = None
    is_fair: bool = False
    opens: Sequence[bool] = ()
    sends: list[Send] = field(factory=list, init=False)
    events: list[StreamEvent] = field(factory=list, init=False)
    raised: Exception | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if not self.script:
            raise ConfigurationError("the script is empty; give at least one reply")

    def run(
        self,
        policy: Policy = DEFAULT_POLICY,
        *,
        chain: int | Sequence[Link] = 1,
        request: str | Sequence[PlainMessage] | Request = PROMPT,
        **options: Any,
    ) -> Call:
        """Run a call to its end and return it.

        Arguments:
            policy: how it recovers.
            chain: the backends, or how many there are.
            request: a prompt, messages, or a `rungwise.core.Request`.
            options: the other arguments of `rungwise.core.Call`: `turn`, `jitter`, `is_streaming`,
                `has_compactor`, ...

        Raises:
            ConfigurationError: what `rungwise.core.Call` or `rungwise.core.Request` raise.
        """
        first = request if isinstance(request, Request) else Request(request)
        options.setdefault("has_compactor", self.compactor is not None)
        return self.drive(Call(first, with_overrides(policy), links(chain), **options))

    def drive(self, call: Call) -> Call:
        """Run a call that has not begun to its end, and return it."""
        return play(call, _ScriptAnswers(self), self.clock)


class _ScriptAnswers(Answers):
    """Answer one call from the script of a backend."""

    def __init__(self, backend: ScriptedBackend) -> None:
        self.backend = backend
        self.opens = iter(backend.opens)

    def proposed(self, call: Call, send: Send) -> Send | None:
        """Leave backends that are not asked now; cancel the call where the script says so."""
        now = self.backend.clock.now
        proposal: Send | None = send
        while proposal is not None:
            if self._is_cancelled(call):
                call.cancel(now)
                return None
            if not (can_leave(call) and next(self.opens, False)):
                return proposal
            proposal = call.found_open(f"{OPEN}later", now)
        return None

    def compact(self, call: Call, send: Send, clock: PlayClock) -> bool:
        """Run the compactor; an exception ends the call and is recorded."""
        backend = self.backend
        compactor = backend.compactor
        try:
            messages: Any = send.messages[-1:]
            if compactor is not None:
                messages = compactor(thawed(send.messages))
            clock.advance(getattr(compactor, "seconds", 0.0))
        except Exception as error:
            backend.raised = error
        else:
            try:
                call.compacted(messages, clock.now)
            except ConfigurationError as error:
                backend.raised = error
        if backend.raised is not None:
            call.cancel(clock.now)
            return False
        return True

    def answer(self, call: Call, sent: Send, now: float) -> CameBack:
        """Return the next item of the script, or a timeout if it takes too long."""
        backend = self.backend
        item = item_of(
            backend.script,
            len(backend.sends),
            sent,
            is_fair=backend.is_fair,
            sizes=backend.sizes,
        )
        backend.sends.append(sent)
        deltas = list(item.deltas()) if call.is_streaming else []
        reply: Reply | Failure | None = item.reply
        seconds = backend.latency
        if seconds:
            longest = _longest_attempt(call, now)
            if seconds > longest:
                seconds = longest
                reply = Failure("timeout")
        if self._is_cancelled(call):
            reply = None
        return CameBack(reply, now + seconds, deltas)

    def deliver(self, events: Iterable[StreamEvent]) -> None:
        """Record what a consumer of the stream receives."""
        self.backend.events += events

    def _is_cancelled(self, call: Call) -> bool:
        cancel_at = self.backend.cancel_at
        return cancel_at is not None and len(call.journal.steps) >= cancel_at


def _longest_attempt(call: Call, now: float) -> float:
    """Return the seconds that the attempt in flight may take."""
    total = call.journal.setting.policy.timeouts.total
    ends_by = call.clocks().ends_by
    longest = math.inf if total is None else total
    if ends_by is not None:
        longest = min(longest, max(0.0, ends_by - now))
    return longest


def item_of(
    script: Sequence[Scripted],
    number: int,
    send: Send,
    *,
    is_fair: bool,
    sizes: tuple[int, ...] = (),
) -> Played:
    """Return a script's answer to a request.

    Arguments:
        script: what comes back; the last item repeats for ever.
        number: how many requests went out before this one.
        send: the request.
        is_fair: whether the usage is that of a fair provider.
        sizes: those of the deltas, for an item without sizes of its own.
    """
    item = script[min(number, len(script) - 1)]
    played = item if isinstance(item, Played) else Played(item, sizes)
    if not is_fair:
        return played
    # Nothing arrives before a failure: it would be counted by its length, which no cap has limited.
    reply = played.reply
    return Played(fair_reply(reply, send) if isinstance(reply, Reply) else reply, played.sizes)


def fair_reply(reply: Reply, send: Send) -> Reply:
    """Return a reply with the usage of a fair provider.

    A reply that is cut at its cap has used it all, and counts its end as well.
    """
    usage = reply.usage
    # Zero would be no report at all: the call then counts the words that came, which no cap has
    # limited.
    output = max(usage.output_tokens, least_tokens(*texts_of(reply)))
    if send.max_tokens is not None and reply.stop_reason == "length":
        output = most_counted(send.max_tokens)
    elif send.max_tokens is not None:
        output = min(output, send.max_tokens)
    prompt = prompt_tokens(send.messages, send.request)
    half = prompt // 2
    fair = Usage(
        prompt,
        output,
        cache_read_tokens=half if usage.cache_read_tokens else 0,
        cache_creation_tokens=prompt - half if usage.cache_creation_tokens else 0,
        reasoning_tokens=min(usage.reasoning_tokens, output),
    )
    return attrs.evolve(reply, usage=fair)


def run(
    policy: Policy,
    script: Sequence[Scripted],
    *,
    chain: int | Sequence[Link] = 1,
    events: list[StreamEvent] | None = None,
    latency: float = 0.0,
    sizes: tuple[int, ...] = (),
    cancel_at: int | None = None,
    compactor: Callable[[Sequence[PlainMessage]], Any] | None = None,
    is_fair: bool = False,
    opens: Sequence[bool] = (),
    **options: Any,
) -> Call:
    """Run one call over a script, without HTTP and without waiting, and return it.

    Arguments:
        events: filled with what a consumer of the stream receives.
        policy, script, chain, options: as in `ScriptedBackend` and its `run`.
        latency, sizes, cancel_at, compactor, is_fair, opens: as in `ScriptedBackend`.

    Raises:
        ConfigurationError: the script is empty, or what `rungwise.core.Call` raises.
    """
    backend = ScriptedBackend(
        script,
        latency=latency,
        sizes=sizes,
        cancel_at=cancel_at,
        compactor=compactor,
        is_fair=is_fair,
        opens=opens,
    )
    call = backend.run(policy, chain=chain, **options)
    if events is not None:
        events += backend.events
    return call
