"""Run the cases of a fuzz run: a provider in memory or on loopback, and the real client."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from copy import deepcopy
from typing import Any

import anyio
import attrs
import httpx
import orjson
from attrs import define, field

from rungwise.adapters.client import Client
from rungwise.adapters.client_clocks import Clocks
from rungwise.adapters.http.limits import GRACE
from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.adapters.provider.server import EmbeddedProvider, ReceivedRequest, Responder, render
from rungwise.adapters.testing.case import CAPS, PRICES, Case, ask, ask_async, is_async
from rungwise.adapters.wires.chat.backend import OpenAIChat
from rungwise.adapters.wires.learned import LEARNED
from rungwise.fsm.call.budget.metering import least_tokens, most_counted
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.health import Symptom
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.testing.compactors import CompactorFailed
from rungwise.fsm.testing.scripted import VirtualClock
from rungwise.fsm.testing.tokenizers import TOKENIZERS, fitting, prompt_tokens
from rungwise.fsm.values.usage import NO_USAGE, Usage


@define(eq=False)
class MemoryProvider:
    """Answer from a script as a `rungwise.testing.EmbeddedProvider` does, without sockets.

    Pass `respond` to `httpx.MockTransport`. Delays move the clock, up to where the driver would
    give the attempt up; a reply that hangs is a timeout at once.

    Arguments:
        script: what it answers.
        clock: the clock of the client.
    """

    script: Script | Responder
    clock: VirtualClock = field(factory=VirtualClock)
    base_url: str = field(default="http://provider.test/v1", init=False)  # no server listens there
    requests: list[ReceivedRequest] = field(factory=list, init=False)

    def respond(self, request: httpx.Request) -> httpx.Response:
        """Answer one request.

        Raises:
            httpx.TransportError: the connection breaks, or hangs.
        """
        body = orjson.loads(request.content)
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = ReceivedRequest(request.url.raw_path.decode(), headers, body, self.clock.now)
        self.requests.append(received)
        if isinstance(self.script, Script):
            reply = self.script.reply(len(self.requests) - 1)
        else:
            reply = self.script(received)
        ends_at = self._end_of(request)
        if reply.hang and reply.cut_after is None:
            raise httpx.ReadTimeout("the provider is silent")
        _pass(self.clock, reply.delay, ends_at)
        rendered = render(reply, body, len(self.requests))
        is_chunked = rendered.content_type == "text/event-stream"
        sent = {"content-type": rendered.content_type, **rendered.headers}
        sent.update({name.lower(): value for name, value in reply.headers.items()})
        if is_chunked:
            sent["transfer-encoding"] = "chunked"
        else:
            sent["content-length"] = str(len(rendered.body))
        stream = _Body(rendered.pieces, reply, self.clock, ends_at, is_chunked)
        return httpx.Response(reply.status, headers=list(sent.items()), stream=stream)

    def _end_of(self, request: httpx.Request) -> float:
        """Return when an attempt is given up.

        Our drivers, which trace what they send, set the timeout of a read to what is left of the
        attempt. With other clients it bounds one read alone, so the attempt never ends.
        """
        if "trace" not in request.extensions:
            return math.inf
        allowed: float | None = request.extensions["timeout"]["read"]
        if allowed is None:
            return math.inf
        return self.clock.now + max(0.0, allowed - GRACE)


def _pass(clock: VirtualClock, seconds: float, ends_at: float) -> None:
    """Let time pass, up to the timeout."""
    if clock.now + seconds > ends_at:
        clock.advance(max(0.0, ends_at - clock.now))
        raise httpx.ReadTimeout("the time is up")
    clock.advance(seconds)


@define(eq=False)
class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Yield a body in the pieces, at the pace and with the failure of the script."""

    pieces: tuple[bytes, ...]
    reply: ScriptedReply
    clock: VirtualClock
    ends_at: float
    is_chunked: bool

    def __iter__(self) -> Iterator[bytes]:
        cut = self.reply.cut_after
        remaining = sum(map(len, self.pieces)) if cut is None else cut
        pauses = self.reply.pauses(len(self.pieces))
        for piece, pause in zip(self.pieces, pauses, strict=True):
            _pass(self.clock, pause, self.ends_at)
            if remaining <= 0:
                break
            yield piece[:remaining]
            remaining -= len(piece)
        if cut is not None and self.reply.hang:
            raise httpx.ReadTimeout("the provider fell silent")
        # a chunked body has an end, which is missing
        if cut is not None and (remaining < 0 or self.is_chunked):
            raise httpx.RemoteProtocolError(
                "peer closed connection without sending complete message body"
            )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


DOWN = Symptom("limited", 60.0, "429")
"""What an earlier call has met at a backend that is not asked."""

KEY = "sk-d41f8cd98f00b204"
RUN = "x-run"
"""The header that says for which run a request is.

A request that ran out of time may arrive when the next run has begun.
"""


@define(eq=False)
class CaseRunner:
    """Run cases, in a `with` block.

    Arguments:
        policy: of the calls.
        backends: how many a chain has.
        over_http: whether the provider listens on loopback, instead of answering in memory.
    """

    policy: Policy
    backends: int
    over_http: bool
    received: list[ReceivedRequest] = field(factory=list, init=False)
    replies: list[ScriptedReply] = field(factory=list, init=False)
    billed: list[tuple[Usage, Prices]] = field(factory=list, init=False)  # by a fair provider
    compactor_raised: bool = field(default=False, init=False)
    _clock: VirtualClock = field(factory=VirtualClock, init=False)
    _stack: ExitStack = field(factory=ExitStack, init=False)
    _provider: Any = field(default=None, init=False)
    _http: Any = field(default=None, init=False)
    _case: Case | None = field(default=None, init=False)
    _run: int = field(default=0, init=False)

    def __enter__(self) -> CaseRunner:
        if self.over_http:
            self._provider = self._stack.enter_context(EmbeddedProvider(self._answer))
        else:
            self._provider = MemoryProvider(self._answer, self._clock)
            transport = httpx.MockTransport(self._provider.respond)
            self._http = self._stack.enter_context(
                httpx.Client(transport=transport, trust_env=False)
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def chain(self, prefill: Any = "no", prices: Sequence[Prices] = ()) -> list[OpenAIChat]:
        """Return the backends, one for each price; the second has two keys."""
        chain: list[OpenAIChat] = []
        for number, price in enumerate(prices or (PRICES,) * self.backends, 1):
            keys: str | list[str] = KEY
            if number == 2:
                keys = [KEY, f"{KEY}-second"]
            backend = OpenAIChat(
                f"model-{number}",
                name=f"backend-{number}",
                base_url=self._provider.base_url,
                api_key=keys,
                prefill=prefill,
                prices=price,
                headers={RUN: str(self._run)},
            )
            chain.append(backend)
        return chain

    def run(self, case: Case, events: list[object]) -> Result:
        """Make the call of a case, and return its result."""
        LEARNED.forget()
        # A compactor may change the messages that it is given, and a case is run more than once.
        messages = deepcopy(case.request.messages)
        case = attrs.evolve(case, request=attrs.evolve(case.request, messages=messages))
        self._case = case
        self.received = []
        self.replies = []
        self.billed = []
        self.compactor_raised = False
        self._run += 1
        try:
            if is_async(case.mode):
                return anyio.run(self._ask_async, case, events)
            options = self._options(case)
            with self._client(case, http=self._http) as client:
                return ask(client, case.mode, case.request, events, case.leaves_after, **options)
        except CallError as error:
            return error.result
        except (CompactorFailed, ConfigurationError) as error:
            if case.compactor is None:
                raise
            self.compactor_raised = True
            result: Result = error.result  # type: ignore[union-attr] # drivers put it there
            return result

    def _answer(self, request: ReceivedRequest) -> ScriptedReply:
        case = self._case
        if case is None or request.headers.get(RUN) != str(self._run):
            return ScriptedReply(status=503)
        self.received.append(request)
        reply = case.script.reply(len(self.received) - 1)
        if case.is_fair:
            reply, billed = _fair(reply, request, case)
            backend = int(request.body["model"].removeprefix("model-"))
            self.billed.append((billed, case.prices_of(self.backends)[backend - 1]))
        self.replies.append(reply)
        return reply

    async def _ask_async(self, case: Case, events: list[object]) -> Result:
        http = None
        if not self.over_http:
            transport = httpx.MockTransport(self._provider.respond)
            http = httpx.AsyncClient(transport=transport, trust_env=False)
        options = self._options(case)
        async with http or nullcontext(), self._client(case, async_http=http) as client:
            return await ask_async(
                client, case.mode, case.request, events, case.leaves_after, **options
            )

    def _options(self, case: Case) -> dict[str, Any]:
        squeezed = case.squeeze.options(self._clock, self.policy.budget.seconds)
        return {"turn": case.turn, **case.wants, **squeezed}

    def _client(self, case: Case, **http: Any) -> Client:
        clock = self._clock
        compactor = case.compactor

        def compact(messages: tuple[Any, ...]) -> Any:
            assert compactor is not None
            clock.advance(compactor.seconds)
            return compactor(messages)

        client = Client(
            self.chain(case.prefill, case.prices_of(self.backends)),
            policy=case.squeeze.policy(self.policy),
            compactor=None if compactor is None else compact,
            contents=case.contents,
            testing=Clocks(
                clock=clock, sleep=clock.sleep, async_sleep=clock.asleep, jitter=lambda: 1.0
            ),
            **http,
        )
        shared: Any = client.runtime.shared
        for backend in client.chain[: case.opens]:
            shared.watch.remember(backend, DOWN)
        return client


def _fair(
    reply: ScriptedReply, request: ReceivedRequest, case: Case
) -> tuple[ScriptedReply, Usage]:
    """Return the reply of a provider that keeps to the cap and counts correctly, and its bill.

    It bills for what breaks off as well, and reports that only with the end of the reply.
    """
    if reply.status != 200 or reply.error is not None or reply.error_event is not None:
        return attrs.evolve(reply, body=None, usage=None), NO_USAGE
    usage = reply.usage or {}
    cap = _cap_in(request)
    tokens = _Written(case.tokenizer, math.inf if cap is None else cap)
    # a model writes in this order
    reasoning = tokens.fitting(reply.reasoning)
    text = tokens.fitting(reply.text)
    refusal = tokens.fitting(reply.refusal)
    calls = tokens.fitting_calls(reply.tool_calls)
    finish = "length" if tokens.is_cut else reply.finish
    output = max(1, int(usage.get("completion_tokens", 9)), tokens.count)
    if cap is not None:
        # a model writes on behind a cut
        uses_cap = finish == "length" or reply.cut_after is not None or reply.hang
        output = most_counted(cap) if uses_cap else min(output, cap)
    prompt = prompt_tokens(request.body["messages"], case.request, case.tokenizer)
    reported: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output}
    created = 0  # tokens of the prompt that are written to a cache
    if usage.get("prompt_tokens_details") and prompt:
        created = prompt
        reported["prompt_tokens_details"] = {"cache_creation_tokens": created}
    fair = attrs.evolve(
        reply,
        reasoning=reasoning,
        text=text,
        refusal=refusal,
        tool_calls=calls,
        finish=finish,
        usage=reported,
        body=None,
        final_message=None,
        manner=(),
    )
    return fair, Usage(prompt, output, cache_creation_tokens=created)


@define
class _Written:
    """Count what a model writes, and cut it where its cap ends.

    Arguments:
        tokenizer: counts it, of `TOKENIZERS`; each word is a token at least.
        cap: the most tokens.
    """

    tokenizer: str
    cap: float
    count: int = 0
    is_cut: bool = False

    def fitting(self, text: str) -> str:
        """Return as much of the next text as is written."""

        def count(text: str) -> int:
            return max(TOKENIZERS[self.tokenizer](text), least_tokens(text))

        left = 0 if self.is_cut else self.cap - self.count
        written = fitting(text, count, left)
        self.count += count(written)
        self.is_cut |= written != text
        return written

    def fitting_calls(self, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        """Return the next calls, the last one cut, and none whose name is."""
        written = []
        for call in calls:
            if self.fitting(call.name) != call.name:
                break
            written.append(attrs.evolve(call, arguments=self.fitting(call.arguments)))
        return tuple(written)


def _cap_in(request: ReceivedRequest) -> int | None:
    """Return the output cap of a request, by either name."""
    for name in CAPS:
        if name in request.body:
            return int(request.body[name])
    return None
