"""Play faults to a policy, many at once, and note what is seen of them."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal

from attrs import frozen

from failover.faults import ANSWER, FAULTS, HEALTHY, PROMPT, Fault
from failover.provider import UNKNOWN, Families, FaultyProvider, Scene
from failover.scaling import scaled
from failover.scoring import Score, score
from failover.seen import Asked, Seen
from rungwise import CallError, Cancellation, Client, OpenAIChat, Policy, Result
from support.modes import aask, follow

Way = Literal["stream", "call", "astream", "acall"]
NOTHING: Final = Fault("S00", "nothing goes wrong", (HEALTHY,), 60)
ALIVE_SECONDS: Final = 10.0
APART: Final = 0.025
"""Real seconds between the beginnings of two faults, so that they do not keep each other waiting."""

SECONDS_TO_END: Final = 1.0
"""Real ones, for a call that hangs and is cancelled."""


@frozen
class Played:
    """Hold a fault, what was seen of it, and what that is worth."""

    fault: Fault
    seen: Seen
    score: Score


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
    faults = list(faults)
    with FaultyProvider(scale) as provider, ThreadPoolExecutor(len(FAULTS)) as threads:
        play(provider, policy, NOTHING, way)  # the first call of a process loads what calls are made with
        begun = {}
        for fault in sorted(faults, key=_longest, reverse=True):
            begun[fault.name] = threads.submit(play, provider, policy, fault, way, families, jitter)
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
    with Client(chain, policy=scaled(policy, provider.scale), jitter=jitter) as client:
        scene.begin()
        calls = [_Caller(client, scene, fault.limit, way, number * fault.every) for number in range(fault.calls)]
        asked = tuple([call.asked() for call in calls])
        attempts = scene.recover()
        alive = _Caller(client, scene, ALIVE_SECONDS, way, 0.0).asked()
    seen = Seen(
        asked=asked, attempts=attempts, alive=alive, answer=ANSWER, fallback=scene.fallback, dead_for=fault.dead_for
    )
    return Played(fault, seen, score(fault, seen))


class _Caller:
    """Make one call in a thread of its own, from which it can be told when it hangs.

    Arguments:
        limit: seconds after which it is given up.
        way: how it is made.
        begins_at: when it begins, in seconds since the scene did.
    """

    def __init__(self, client: Client, scene: Scene, limit: float, way: Way, begins_at: float) -> None:
        self.client, self.scene, self.limit, self.way, self.begins_at = client, scene, limit, way, begins_at
        self._events: list[Any] = []
        self._cancellation = Cancellation()
        self._ended: Result | Exception | None = None
        self._began = self._over = begins_at
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def asked(self) -> Asked:
        """Wait for its end, or for the moment in which it is given up, and say what its caller got."""
        scene = self.scene
        self._thread.join(max(0.0, self.begins_at - scene.now) * scene.scale + self.limit * scene.scale)
        if self._thread.is_alive():
            return self._given_up(scene.now)
        ended = self._ended
        told: dict[str, Any] = {"at": self._began, "seconds": self._over - self._began}
        if isinstance(ended, Result):
            return _asked(ended, text=follow(self._events) if self._events else ended.text, **told)
        if isinstance(ended, CallError):
            return _asked(ended.result, error=type(ended).__name__, is_clean=True, **told)
        return Asked(error=type(ended).__name__, **told)

    def _given_up(self, now: float) -> Asked:
        """Say of a call that hangs how far it had come, where it can still be ended."""
        self._cancellation.cancel()
        self._thread.join(SECONDS_TO_END)
        steps = _steps(self._ended.result) if isinstance(self._ended, CallError) else ()
        return Asked(at=self._began, seconds=now - self._began, steps=steps)

    def _run(self) -> None:
        time.sleep(max(0.0, self.begins_at - self.scene.now) * self.scene.scale)
        self._began = self.scene.now
        try:
            self._ended = self._ask()
        except Exception as error:  # whatever it is: that is what the caller got
            self._ended = error
        self._over = self.scene.now

    def _ask(self) -> Result:
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
        reasons=tuple(text for failure in failures for text in (failure.code, failure.message) if text),
        model=result.model,
        has_usage=usage is not None and usage.output_tokens > 0 and not usage.estimated,
        steps=_steps(result),
        **told,
    )


def _steps(result: Result) -> tuple[str, ...]:
    return tuple(f"{step.at:7.2f} s  {step}" for step in result.journal.steps)
