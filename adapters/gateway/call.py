"""Run the call of one request, in a thread or in an event loop, and write its answer in the
request's protocol.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import aclosing, suppress
from typing import Any, Final

from attrs import define, evolve

from rungwise.adapters.gateway.answers import HttpResponse
from rungwise.adapters.gateway.fields import Asked
from rungwise.adapters.gateway.forwarded import Forward
from rungwise.adapters.gateway.pump import Pump
from rungwise.adapters.gateway.writing import AnswerWriter
from rungwise.adapters.tools.beats import Beat, abeating
from rungwise.fsm.call.chain.for_backend import QUESTIONS
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.errors import IllegalEvent

BYTES_PER_TOKEN: Final = 3
"""A cautious guess: English has about four bytes a token, so the prompt is rather overestimated."""


@define(eq=False)
class GatewayCall(AnswerWriter):
    """Run the call of one request, in a thread or in an event loop, and write its answer."""

    def forwarded(
        self, forward: Forward, body: bytes, *, counters: Collection[str] = ()
    ) -> GatewayCall:
        """Return the call that goes word for word to one backend.

        Nothing is tried again but by the rungs of these counters: what the request asks for beyond
        the chain, nobody here understands.
        """
        # A client with the same connections and clocks, whose chain is this one backend.
        client = copy.copy(self.client)
        client.runtime = self.client.runtime.with_chain((forward,), stream_calls=forward.streams)
        policy = self.options.get("policy") or client.policy
        limits = {name: each if name in counters else 0 for name, each in policy.limits.items()}
        options: dict[str, Any] = {
            "policy": evolve(policy, limits=Limits(**limits)),
            "input_tokens": max(1, len(body) // BYTES_PER_TOKEN),
        }
        for name in ("deadline", "headers", "within"):
            if name in self.options:
                options[name] = self.options[name]
        if self.language.api == "decisions":
            options["parameters"] = {QUESTIONS: {}}  # the body itself asks them
        if forward.cap is not None:
            options["max_tokens"] = forward.cap
        asked = Asked("forwarded")  # the body itself says what
        return evolve(
            self,
            forward=forward,
            client=client,
            asked=asked,
            options=options,
        )

    def run(self) -> HttpResponse:
        """Run the call in this thread; a streamed answer begins with its first piece."""
        asked = self.asked
        if self.request.streams:
            pump = Pump(self)
            pieces = self._pieces(pump)
            return pump.response(pieces, next(pieces, None))
        try:
            result = self.client.call(asked.messages, returns=asked.returns, **self.options)
            return self.whole(result)
        except Exception as error:
            return self.failed(error)

    def _pieces(self, pump: Pump) -> Iterator[bytes]:
        """Run the call in this thread, and yield the bytes of its answer."""
        asked = self.asked
        stream = None
        try:
            stream = self.client.stream(asked.messages, returns=asked.returns, **self.options)
            with stream:
                for event in stream:
                    if piece := pump.take(event):
                        yield piece
                    if pump.is_over:
                        return
        except Exception as error:
            if piece := pump.fail(error):
                yield piece
        finally:
            self._keep_end_of(stream)

    async def arun(self) -> HttpResponse:
        """Run the call in this event loop."""
        asked = self.asked
        if self.request.streams:
            pump = Pump(self)
            pieces = self._apieces(pump)
            if self.ping is not None:
                pieces = _with_pings(pump, abeating(pieces, self.ping))
            return pump.response(pieces, await anext(pieces, None))
        try:
            result = await self.client.acall(asked.messages, returns=asked.returns, **self.options)
            return self.whole(result)
        except Exception as error:
            return self.failed(error)
        except BaseException as error:  # the program went away
            self._keep_once(getattr(error, "result", None))
            raise

    async def _apieces(self, pump: Pump) -> AsyncIterator[bytes]:
        """Run the call in this event loop, and yield the bytes of its answer."""
        asked = self.asked
        stream = None
        try:
            stream = self.client.astream(asked.messages, returns=asked.returns, **self.options)
            async with stream:
                async for event in stream:
                    if piece := pump.take(event):
                        yield piece
                    if pump.is_over:
                        return
        except Exception as error:
            if piece := pump.fail(error):
                yield piece
        finally:
            self._keep_end_of(stream)

    def _keep_end_of(self, stream: Any) -> None:
        """Keep the result of a stream that was left before its end."""
        if stream is not None and not self._is_kept:
            with suppress(IllegalEvent):
                self._keep_once(stream.result)


async def _with_pings(pump: Pump, pieces: AsyncGenerator[bytes | Beat]) -> AsyncGenerator[bytes]:
    """Yield the bytes of a stream, and what says that it lives where nothing came."""
    async with aclosing(pieces):
        async for piece in pieces:
            written = pump.ping() if isinstance(piece, Beat) else piece
            if written:
                yield written
