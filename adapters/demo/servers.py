"""The servers of the demo, which misbehave by script, and the clock that shortens its waits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Final

import attrs
from attrs import define, frozen

from rungwise.adapters.cli.serve import summary_of
from rungwise.adapters.demo.scenarios import Scenario
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import EmbeddedProvider, ReceivedRequest, Responder, render
from rungwise.adapters.wires.capabilities.capability import Capabilities
from rungwise.adapters.wires.classes import backend_class
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.call.chain.prices import Prices

PRICES: Final = Prices(input=15.0, output=75.0)
"""Made up, for a million tokens."""


@frozen
class Pace:
    """How fast the demo goes."""

    shorten: float  # what a wait is multiplied by
    longest: float  # seconds that no wait exceeds
    chunk: float  # seconds between two pieces of a reply
    step: float  # seconds to look at a step
    scenario: float  # seconds to look at the end of a scenario

    def shortened(self, seconds: float) -> float:
        """Return how long a wait is in the demo."""
        return min(seconds * self.shorten, self.longest)


WATCHED: Final = Pace(shorten=0.05, longest=0.3, chunk=0.02, step=0.05, scenario=0.25)
PIPED: Final = Pace(shorten=0.01, longest=0.05, chunk=0.0, step=0.0, scenario=0.0)


@define
class DemoClock:
    """Count a shortened wait in full, and a pause for the reader not at all."""

    pace: Pace
    _ahead: float = 0.0

    def now(self) -> float:
        """Return the seconds on it."""
        return time.monotonic() + self._ahead

    def sleep(self, seconds: float) -> None:
        """Wait, for a shorter time."""
        short = self.pace.shortened(seconds)
        time.sleep(short)
        self._ahead += seconds - short

    def pause(self, seconds: float) -> None:
        """Let the reader look."""
        if seconds:
            time.sleep(seconds)
            self._ahead -= seconds


@define
class Servers:
    """The backends of a scenario, and the servers behind them by the backend's name."""

    chain: tuple[HttpBackend, ...]
    by_name: dict[str, EmbeddedProvider]

    @property
    def arrived(self) -> int:
        """Count the requests that arrived anywhere."""
        return sum(len(server.requests) for server in self.by_name.values())


def _playing(replies: Sequence[ScriptedReply], pace: Pace) -> Responder:
    """Return a responder that gives one reply after another, and the last one for ever."""
    requests = count()

    def answer(request: ReceivedRequest) -> ScriptedReply:
        reply = replies[min(next(requests), len(replies) - 1)]
        return attrs.evolve(reply, chunk_delay=pace.chunk, cut_after=_cut(reply, request))

    return answer


def _cut(reply: ScriptedReply, request: ReceivedRequest) -> int | None:
    """Return after how many bytes a reply is cut.

    The scenarios count bytes of chat completions; in another protocol, the same share is cut.
    """
    if reply.cut_after is None or request.path.endswith("/chat/completions"):
        return reply.cut_after
    chat = {
        "model": summary_of(request).model,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    whole = render(reply, request.body, path=request.path).body
    counted = render(reply, chat).body
    return reply.cut_after * len(whole) // len(counted)


@contextmanager
def started_servers(scenario: Scenario, pace: Pace, api: str) -> Iterator[Servers]:
    """Start the servers of a scenario, and stop them at its end.

    Arguments:
        scenario: what they do.
        pace: how fast they write.
        api: the protocol in which they are asked.
    """
    scripts = {"primary": scenario.primary}
    if scenario.second:
        scripts["second"] = scenario.second
    chain: list[HttpBackend] = []
    servers: dict[str, EmbeddedProvider] = {}
    kind = backend_class(api)
    with ExitStack() as stack:
        for name, replies in scripts.items():
            server = stack.enter_context(EmbeddedProvider(_playing(replies, pace)))
            if replies:
                servers[name] = server
            else:
                server.close()  # its port stays known, and nothing listens there
            capabilities = Capabilities(prefill=scenario.prefill and name == "primary")
            backend = kind(
                "demo",
                name=name,
                base_url=server.base_url,
                prices=PRICES,
                capabilities=capabilities,
            )
            chain.append(backend)
        yield Servers(tuple(chain), servers)
