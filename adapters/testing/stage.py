"""Where the calls of a fuzz run are made: one provider, in memory or on loopback, and the real client."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import anyio
import httpx
from attrs import define, field

from adapters.capabilities import LEARNED
from adapters.client import Client
from adapters.openai_chat import OpenAIChat
from adapters.provider import EmbeddedProvider, ReceivedRequest
from adapters.script import Script, ScriptedReply
from adapters.testing.case import Case
from adapters.testing.memory import MemoryProvider, MemoryTransport
from fsm.errors import CallError
from fsm.policy import Policy
from fsm.request import Prices
from fsm.result import Result
from fsm.testing.clock import VirtualClock

KEY = "sk-d41f8cd98f00b204"
PRICES = Prices(input=1.0, output=10.0)


@define(eq=False)
class Stage:
    """Make the calls of cases; use it in a `with` block.

    Arguments:
        policy: how the calls recover.
        backends: how many backends the chain has; all of them are the same provider.
        over_http: whether the provider is a server on loopback and not in memory.
        received: the requests of the last case.
    """

    policy: Policy
    backends: int
    over_http: bool
    received: list[ReceivedRequest] = field(factory=list, init=False)
    _clock: VirtualClock = field(factory=VirtualClock, init=False)
    _stack: ExitStack = field(factory=ExitStack, init=False)
    _provider: Any = field(default=None, init=False)
    _http: Any = field(default=None, init=False)
    _script: Script | None = field(default=None, init=False)

    def __enter__(self) -> Stage:
        if self.over_http:
            self._provider = self._stack.enter_context(EmbeddedProvider(self._answer))
        else:
            self._provider = MemoryProvider(self._answer, self._clock)
            transport = MemoryTransport(self._provider)
            self._http = self._stack.enter_context(httpx.Client(transport=transport, trust_env=False))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def chain(self, prefill: Any = "no") -> list[OpenAIChat]:
        """Return the backends.

        Arguments:
            prefill: how they continue a trailing assistant turn.
        """
        return [
            OpenAIChat(
                f"model-{number}",
                name=f"backend-{number}",
                base_url=self._provider.base_url,
                api_key=KEY,
                prefill=prefill,
                prices=PRICES,
            )
            for number in range(1, self.backends + 1)
        ]

    def make(self, case: Case, events: list[object]) -> Result:
        """Make a call, and return how it ended.

        Arguments:
            events: is filled with what a consumer of the stream was given.
        """
        LEARNED.forget()
        self._script, self.received = case.script, []
        try:
            if case.is_async:
                return anyio.run(self._ask_async, case, events)
            with self._client(case, http=self._http) as client:
                return _ask(client, case, events)
        except CallError as error:
            return error.result

    def _answer(self, request: ReceivedRequest) -> ScriptedReply:
        assert self._script is not None
        self.received.append(request)
        return self._script.reply(len(self.received) - 1)

    async def _ask_async(self, case: Case, events: list[object]) -> Result:
        if self.over_http:
            async with self._client(case) as client:
                return await _ask_async(client, case, events)
        async with httpx.AsyncClient(transport=MemoryTransport(self._provider), trust_env=False) as http:
            return await _ask_async(self._client(case, async_http=http), case, events)

    def _client(self, case: Case, **http: Any) -> Client:
        clock = self._clock
        return Client(
            self.chain(case.prefill),
            policy=self.policy,
            compactor=_keep_last if case.compacts else None,
            contents=case.contents,
            clock=clock,
            sleep=clock.sleep,
            async_sleep=clock.asleep,
            jitter=lambda: 1.0,
            **http,
        )


def _ask(client: Client, case: Case, events: list[object]) -> Result:
    if case.mode == "call":
        return client.call(case.request, turn=case.turn)
    with client.stream(case.request, turn=case.turn) as stream:
        while _stays(case, events):
            event = next(stream, None)
            if event is None:
                break
            events.append(event)
    return stream.result


async def _ask_async(client: Client, case: Case, events: list[object]) -> Result:
    if case.mode == "acall":
        return await client.acall(case.request, turn=case.turn)
    async with client.astream(case.request, turn=case.turn) as stream:
        while _stays(case, events):
            event = await anext(stream, None)
            if event is None:
                break
            events.append(event)
    return stream.result


def _stays(case: Case, events: Sequence[object]) -> bool:
    return case.leaves_after is None or len(events) < case.leaves_after


def _keep_last(messages: Sequence[Any]) -> Sequence[Any]:
    return messages[-1:]
