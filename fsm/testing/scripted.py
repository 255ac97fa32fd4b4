"""A backend without HTTP: it answers by a script, on a virtual clock, and counts as one of several
tokenizers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from rungwise.fsm.call.budget.metering import bytes_of, least_tokens, most_counted, texts_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.lessons import NO_LESSONS, Lessons
from rungwise.fsm.call.chain.link import Link, PlainLink
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.overrides import with_overrides
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.sending import OPEN
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.frozen_map import thawed
from rungwise.fsm.values.usage import Usage

PROSE_BYTES: Final = 4  # UTF-8 bytes of a token of English prose
OVERHEAD: Final = 4  # tokens of a message besides its text: the usual number in chat templates

_FIRST_IDEOGRAPH: Final = "\u2e80"
# tokens of a CJK character: the usual number where a vocabulary has few of them
_IDEOGRAPH_TOKENS: Final = 2


def _prose(text: str) -> int:
    return -(-bytes_of(text) // PROSE_BYTES)


def _digits(text: str) -> int:
    digits = sum(map(str.isdecimal, text))
    return digits + _prose("".join(letter for letter in text if not letter.isdecimal()))


def _cjk(text: str) -> int:
    dense = sum(letter >= _FIRST_IDEOGRAPH for letter in text)
    return _IDEOGRAPH_TOKENS * dense + _prose(
        "".join(letter for letter in text if letter < _FIRST_IDEOGRAPH)
    )


TOKENIZERS: Final = {"prose": _prose, "digits": _digits, "bytes": bytes_of, "CJK": _cjk}
"""How a provider counts a text, by what takes many tokens: nothing, each digit, each byte, each CJK
character.
"""


def fitting(text: str, tokenizer: str, most: int) -> str:
    """Return the longest beginning of a text that counts at most so many tokens."""
    count = TOKENIZERS[tokenizer]
    if count(text) <= most:
        return text
    return text[: bisect_right(range(len(text)), most, key=lambda size: count(text[:size])) - 1]


@define(eq=False)
class VirtualClock:
    """Replace a client's clock and waits: `Client(..., testing=Clocks(clock=clock,
    sleep=clock.sleep, async_sleep=clock.asleep))`.

    Arguments:
        now: seconds; only `sleep`, `asleep` and `advance` move it.
        waits: every wait, in seconds, in order.
    """

    now: float = 0.0
    waits: list[float] = field(factory=list)

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock on without a wait, as a request does.

        Raises:
            ValueError: the time would go backward.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock cannot advance by {seconds!r} seconds")
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        """Wait, and record the wait."""
        self.advance(seconds)
        self.waits.append(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait asynchronously, and record the wait."""
        self.sleep(seconds)


def fair_reply(reply: Reply, send: Send) -> Reply:
    """Return a reply with the usage of a fair provider; one cut at its cap has used it, and counts
    its end as well.
    """
    usage = reply.usage
    # Zero would be no report at all: the call then counts the words that came, which no cap has
    # limited.
    output = max(usage.output_tokens, least_tokens(*texts_of(reply)))
    if send.max_tokens is not None:
        output = (
            most_counted(send.max_tokens)
            if reply.stop_reason == "length"
            else min(output, send.max_tokens)
        )
    prompt = prompt_tokens(send.messages, send.request)
    fair = Usage(
        prompt,
        output,
        cache_read_tokens=prompt // 2 if usage.cache_read_tokens else 0,
        cache_creation_tokens=prompt - prompt // 2 if usage.cache_creation_tokens else 0,
        reasoning_tokens=min(usage.reasoning_tokens, output),
    )
    return attrs.evolve(reply, usage=fair)


def prompt_tokens(
    messages: Sequence[PlainMessage | Message], request: Request, tokenizer: str = "prose"
) -> int:
    """Count the tokens of a prompt as a provider does; the caller's own count, if any, holds for
    its messages.
    """
    own = request.messages
    size = len(request.messages)
    if list(messages[:size]) != list(own):  # compacted, or with an instruction of ours in front
        return _tokens_of(messages, "prose") + _tokens_of(request.tools, "prose")
    given = request.input_tokens
    base = _tokens_of(own, "prose") + _tokens_of(request.tools, "prose") if given is None else given
    return base + _tokens_of(messages[size:], tokenizer)


def _tokens_of(value: Any, tokenizer: str) -> int:
    """Count all texts, without what no model reads as text (pictures, roles, ids), and each
    message.
    """
    if isinstance(value, str):
        return TOKENIZERS[tokenizer](value)
    if isinstance(value, Message):
        texts = [value.text, [each.text for each in value.tool_results]]
        return OVERHEAD + _tokens_of(
            [texts, [(call.name, call.arguments) for call in value.tool_calls]], tokenizer
        )
    if isinstance(value, Mapping):
        read = [
            part for name, part in value.items() if name not in ("role", "type", "id", "image_url")
        ]
        return (OVERHEAD if "role" in value else 0) + _tokens_of(read, tokenizer)
    return sum(_tokens_of(each, tokenizer) for each in value) if isinstance(value, Iterable) else 0


PROMPT = "Where do the kingfishers nest in winter?"


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
        reasoning, text = (
            (self.reply.reasoning, self.reply.text) if isinstance(self.reply, Reply) else ("", "")
        )
        if self.streamed is not None:
            text = self.streamed
        for kind, whole in ((Reasoning, reasoning), (Text, text)):
            yield from map(kind, _cut(whole, self.sizes))


Scripted = Reply | Failure | Played


@define(eq=False)
class ScriptedBackend:
    """Answer for every backend of a chain from one script, and drive calls.

    Arguments:
        script: what comes back, in the order of the requests; the last is repeated for ever.
        clock: the time; waits move it.
        latency: seconds that each request takes; a request that may not take that long times out.
        sizes: the code points of successive deltas of a stream, for items without sizes of their
        own. cancel_at: the number of steps after which the caller ends the call: before the first
        request with 0, in an
            attempt when its deltas have come, or before the next one goes out.
        compactor: shortens messages that do not fit, and takes the time in its `seconds`, if it has
            any. None keeps the last message, if the call `has_compactor`.
        is_fair: whether usage is that of a provider that keeps to caps and counts prompts as they
        are. opens: for each arrival at a backend that others follow, whether it is not asked now;
        False behind the last. sends, events: every request as it went out, and what a consumer of
        the streams received.
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
        send = call.begin(self.clock.now)
        opens = iter(self.opens)
        while send is not None and not self._cancels(call, None):
            if can_leave(call) and next(opens, False):
                send = call.found_open(f"{OPEN}later", self.clock.now)
                continue
            if (sent := self._goes_out(call, send)) is None:
                break
            played = item_of(
                self.script, len(self.sends), sent, is_fair=self.is_fair, sizes=self.sizes
            )
            self.sends.append(sent)
            deltas = list(played.deltas()) if call.is_streaming else []
            for delta in deltas:
                self.events += call.hear(delta)
            reply = self._in_time(call, played.reply)
            if self._cancels(call, partial_reply(deltas)):
                break
            judged = call.judging(reply)
            send = call.receive(reply, self.clock.now, None if judged is None else judged.run())
            self.events += call.drain()
        self.events += call.drain()
        return call

    def _in_time(self, call: Call, reply: Reply | Failure) -> Reply | Failure:
        """Let the time of an attempt pass; return the reply, or a timeout if it may not take that
        long.
        """
        if self.latency == 0:
            return reply
        total = call.journal.setting.policy.timeouts.total
        ends_by = call.clocks().ends_by
        remaining = math.inf if ends_by is None else max(0.0, ends_by - self.clock.now)
        longest = remaining if total is None else min(remaining, total)
        self.clock.advance(min(self.latency, longest))
        return reply if self.latency <= longest else Failure("timeout")

    def _goes_out(self, call: Call, send: Send) -> Send | None:
        if send.wait > 0:
            self.clock.sleep(send.wait)
        if send.needs_compaction and not self._compact(call, send):
            return None
        sent = call.sending(self.clock.now)
        self.events += call.drain()
        return sent

    def _compact(self, call: Call, send: Send) -> bool:
        """Run the compactor; an exception ends the call and is recorded."""
        try:
            made = (
                send.messages[-1:]
                if self.compactor is None
                else self.compactor(thawed(send.messages))
            )
            self.clock.advance(getattr(self.compactor, "seconds", 0.0))
        except Exception as error:
            self.raised = error
        else:
            try:
                call.compacted(made, self.clock.now)
            except ConfigurationError as error:
                self.raised = error
        if self.raised is not None:
            call.cancel(self.clock.now)
        return self.raised is None

    def _cancels(self, call: Call, partial: Reply | None) -> bool:
        if self.cancel_at is None or len(call.journal.steps) < self.cancel_at:
            return False
        call.cancel(self.clock.now, partial)
        return True


def item_of(
    script: Sequence[Scripted],
    number: int,
    send: Send,
    *,
    is_fair: bool,
    sizes: tuple[int, ...] = (),
) -> Played:
    """Return a script's answer to a request after `number` others; the last item repeats for
    ever.
    """
    item = script[min(number, len(script) - 1)]
    played = item if isinstance(item, Played) else Played(item, sizes)
    if not is_fair:
        return played
    # Nothing arrives before a failure: it would be counted by its length, which no cap has limited.
    reply = played.reply
    return Played(fair_reply(reply, send) if isinstance(reply, Reply) else reply, played.sizes)


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


def links(chain: int | Sequence[Link]) -> Sequence[Link]:
    """Return a chain of so many links, or the chain that was given."""
    return (
        [ScriptedLink(f"backend-{number}") for number in range(1, chain + 1)]
        if isinstance(chain, int)
        else chain
    )


def partial_reply(deltas: Sequence[Text | Reasoning]) -> Reply | None:
    """Return what had arrived of a reply when the caller cancelled, as a driver does."""
    if not deltas:
        return None
    text = "".join(delta.text for delta in deltas if isinstance(delta, Text))
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, Reasoning))
    return Reply(text, reasoning=reasoning, interrupted=True)


def _cut(text: str, sizes: tuple[int, ...]) -> Iterator[str]:
    start = 0
    for size in cycle(sizes or (max(len(text), 1),)):
        if start >= len(text):
            return
        yield text[start : start + max(size, 1)]
        start += max(size, 1)
