"""Play faults to a policy, many at once, and note what is seen of them."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal

from attrs import frozen

from failover.faults import FAULTS, HEALTHY, Fault
from failover.provider import UNKNOWN, Families, FaultyProvider, Scene
from failover.scaling import scaled, scaled_health
from failover.scoring import score
from failover.seen import Asked, Seen
from rungwise import CallError, Cancellation, Client, Journal, OpenAIChat, Policy, Result
from rungwise.adapters.exam.answer import ANSWER, PROMPT
from rungwise.adapters.exam.grades import Mark
from rungwise.testing import Clocks
from support.modes import aask, follow

Way = Literal["stream", "call", "astream", "acall"]
NOTHING: Final = Fault("S00", "nothing goes wrong", (HEALTHY,), 60)
ALIVE_SECONDS: Final = 10.0
APART: Final = 0.025
"""Real seconds between the beginnings of two faults, so that they do not keep each other waiting.
"""

SECONDS_TO_END: Final = 1.0
"""Real ones, for a call that hangs and is cancelled."""


@frozen
class Played:
    """Hold a fault, what was seen of it, and what that is worth."""

    fault: Fault
    seen: Seen
    score: Mark


def play_all(
    policy: Policy,
    faults: Iterable[Fault] = FAULTS.values(),
    *,
    scale: float = 1.0,
    way: Way = "stream",
    families: Families = UNKNOWN,
    jitter: Callable[[], float] = random.random,
) -> list[Played]:
    """Play faults to a policy, side by side; those that last begin first.

    Arguments:
        scale: by how much every time is multiplied, of the faults and of the policy.
        way: how the calls are made.
        families: what the names of the models begin with.
        jitter: returns a number from 0 to 1 that places each wait.
    """
    with FaultyProvider(scale) as provider:

        def play_one(fault: Fault) -> Played:
            return play(provider, policy, fault, way, families, jitter)

        # the first call of a process loads what calls are made with
        play(provider, policy, NOTHING, way)
        return side_by_side(play_one, faults)


def side_by_side(play_one: Callable[[Fault], Played], faults: Iterable[Fault]) -> list[Played]:
    """Play faults at once, in the order of how long they last."""
    faults = list(faults)
    with ThreadPoolExecutor(len(FAULTS)) as threads:
        begun = {}
        for fault in sorted(faults, key=_longest, reverse=True):
            begun[fault.name] = threads.submit(play_one, fault)
            time.sleep(APART)
        return [begun[fault.name].result() for fault in faults]


def _longest(fault: Fault) -> float:
    return fault.limit + fault.calls * fault.every


def play(
    provider: FaultyProvider,
    policy: Policy,
    fault: Fault,
    way: Way = "stream",
    families: Families = UNKNOWN,
    jitter: Callable[[], float] = random.random,
) -> Played:
    """Play one fault to a policy, then ask once more whether all is well."""
    scene = provider.play(fault, families)
    primary_url = provider.dead_url if fault.primary[0].refuses else provider.base_url
    places = ((scene.primary, primary_url), (scene.fallback, provider.base_url))
    chain = [OpenAIChat(model, name=model, base_url=url) for model, url in places]
    health = scaled_health(provider.scale)
    with Client(
        chain, policy=scaled(policy, provider.scale), health=health, testing=Clocks(jitter=jitter)
    ) as client:
        return watched(
            scene, lambda limit, begins_at: _Caller(client, scene, limit, way, begins_at)
        )


def watched(scene: Scene, caller: Callable[[float, float], Caller]) -> Played:
    """Make the calls of a scene, and one more afterwards.

    Arguments:
        caller: begins a call, with its limit and the second in which it begins.
    """
    fault = scene.fault
    scene.begin()
    calls = [caller(fault.limit, number * fault.every) for number in range(fault.calls)]
    asked = tuple([call.asked() for call in calls])
    attempts = scene.recover()
    alive = caller(ALIVE_SECONDS, 0.0).asked()
    seen = Seen(
        asked=asked,
        attempts=attempts,
        alive=alive,
        answer=ANSWER,
        fallback=scene.fallback,
        dead_for=fault.dead_for,
    )
    return Played(fault, seen, score(fault, seen))


class Caller(ABC):
    """Make one call in a thread of its own, from which it can be told when it hangs.

    Arguments:
        scene: what is played.
        limit: seconds after which it is given up.
        begins_at: when it begins, in seconds since the scene did.
    """

    def __init__(
        self,
        scene: Scene,
        limit: float,
        begins_at: float,
    ) -> None:
        self.scene = scene
        self.limit = limit
        self.begins_at = begins_at
        self._ended: Any = None
        self._began = self._over = begins_at
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def asked(self) -> Asked:
        """Wait for its end, or for the moment in which it is given up, and say what its caller
        got.
        """
        scene = self.scene
        self._thread.join(
            max(0.0, self.begins_at - scene.now) * scene.scale + self.limit * scene.scale
        )
        if self._thread.is_alive():
            now = scene.now
            self.cancel()
            self._thread.join(SECONDS_TO_END)
            return Asked(at=self._began, seconds=now - self._began, steps=self.steps(self._ended))
        return self.came(self._ended, at=self._began, seconds=self._over - self._began)

    def _run(self) -> None:
        time.sleep(max(0.0, self.begins_at - self.scene.now) * self.scene.scale)
        self._began = self.scene.now
        try:
            self._ended = self.ask()
        except Exception as error:  # whatever it is: that is what the caller got
            self._ended = error
        self._over = self.scene.now

    @abstractmethod
    def ask(self) -> Any:
        """Make the call, and return or raise what its caller gets."""

    @abstractmethod
    def came(self, ended: Any, **when: float) -> Asked:
        """Say what its caller got."""

    @abstractmethod
    def cancel(self) -> None:
        """Give it up."""

    def steps(self, ended: Any) -> tuple[str, ...]:
        """Return how far a call came that was given up, where it can still be ended."""
        return ()


class _Caller(Caller):
    """Call a client, in one of its ways."""

    def __init__(
        self,
        client: Client,
        scene: Scene,
        limit: float,
        way: Way,
        begins_at: float,
    ) -> None:
        self.client = client
        self.way = way
        self._events: list[Any] = []
        self._cancellation = Cancellation()
        super().__init__(scene, limit, begins_at)

    def came(self, ended: Any, **when: float) -> Asked:
        if isinstance(ended, Result):
            return _asked(ended, text=follow(self._events) if self._events else ended.text, **when)
        if isinstance(ended, CallError):
            return _asked(
                ended.result,
                error=type(ended).__name__,
                is_clean=True,
                **when,
            )
        return Asked(error=type(ended).__name__, **when)

    def cancel(self) -> None:
        self._cancellation.cancel()

    def steps(self, ended: Any) -> tuple[str, ...]:
        return steps_of(ended.result.journal) if isinstance(ended, CallError) else ()

    def ask(self) -> Result:
        if self.way == "call":
            return self.client.call(PROMPT, cancellation=self._cancellation)
        if self.way == "stream":
            self._events.extend(self.client.stream(PROMPT, cancellation=self._cancellation))
            return self._events[-1]  # type: ignore[no-any-return]
        return asyncio.run(self._in_a_loop())

    async def _in_a_loop(self) -> Result:
        try:
            return await aask(self.client, self.way, PROMPT, events=self._events)
        finally:
            await self.client.aclose()


def _asked(result: Result, **told: Any) -> Asked:
    failures = [failure for _, failure in result.failures]
    usage = result.reply.usage if result.reply else None
    return Asked(
        reasons=tuple(
            text for failure in failures for text in (failure.code, failure.message) if text
        ),
        model=result.model,
        has_usage=usage is not None and usage.output_tokens > 0 and not usage.estimated,
        steps=steps_of(result.journal),
        **told,
    )


def steps_of(journal: Journal) -> tuple[str, ...]:
    """Return the steps of a journal, each with its time."""
    return tuple(f"{step.at:7.2f} s  {step}" for step in journal.steps)
