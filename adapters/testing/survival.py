"""The check that a client survives a hostile server: in its time, budget and memory.

Theory. A survivor ends its call, and says the truth about it; and it still works afterwards, since
a poisoned connection or a leaked lock shows only in the next call. Time and memory are measured
from outside the client. A busy machine would blur both, so the seconds that the thread waited for a
core are taken off (Linux counts them in `schedstat`), and memory is the peak of the process while
the call ran (`VmHWM`, reset through `clear_refs`), which holds buffers of C libraries as well;
elsewhere `tracemalloc` counts what Python allocates.
"""

from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
from attrs import define, evolve, field

from rungwise.adapters.client import Client
from rungwise.adapters.provider.server import ReceivedRequest
from rungwise.adapters.testing.case import CAPS, MODES, ask, ask_async, is_async, is_streaming
from rungwise.adapters.testing.raw_server import RawServer
from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.text.thinking import split_thinking
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall
from rungwise.fsm.testing.checks.honesty import check_all
from rungwise.fsm.testing.coverage import RECORDER
from rungwise.fsm.testing.hostile.raw import RawResponse, healthy_response
from rungwise.fsm.testing.scripted import PROMPT

STATUS: Final = Path("/proc/self/status")
CLEAR: Final = Path("/proc/self/clear_refs")
RESET_PEAK: Final = "5"
SCHEDULE: Final = Path("/proc/thread-self/schedstat")


def waited_for_a_core() -> float:
    """Return the seconds that this thread waited for a core; 0 if the system does not tell."""
    try:
        return int(SCHEDULE.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """Measure the memory of a `with` block.

    After it, the function that it gives returns the most bytes held beyond those before.
    """
    try:
        CLEAR.write_text(RESET_PEAK)
        before = _kibibytes("VmRSS")
        peak = before
    except (OSError, LookupError):
        with _traced() as held:
            yield held
        return
    try:
        yield lambda: max(0, peak - before) * 1024
    finally:
        peak = _kibibytes("VmHWM")


def _kibibytes(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    if match is None:
        raise LookupError(name)
    return int(match[1])


@contextmanager
def _traced() -> Iterator[Callable[[], int]]:
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    peak = before
    try:
        yield lambda: max(0, peak - before)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        if not was_tracing:
            tracemalloc.stop()


IN_TIME: Final = "a call ends within its seconds"
IN_MEMORY: Final = "memory is not a provider's to fill"
DOCUMENTED: Final = "nothing is raised but what is documented"
GOES_ON: Final = "the next call on the same client works"
UNTOUCHED: Final = "what is done is what the server wrote, whole"
ASKED: Final = "what goes over the wire is what the journal says"

GRACE: Final = 2.0  # seconds beyond its budget that a call may take on a busy machine
MEMORY: Final = 256 * 2**20
"""Bytes that a call may hold at its worst.

A reply of the largest size is held a few times over while it is read.
"""
LONGEST: Final = 10.0  # seconds of a budget with which waiting for its end makes sense in a test
HEALTHY_TRIES: Final = 3
"""Healthy calls of which one must succeed.

On a busy machine, the little time that the policy gives may not suffice.
"""
HEALTHY_TEXT: Final = "All is well on the river again."


@define(eq=False)
class _Measured:
    """The measurements of one call."""

    result: Result | None = None
    error: BaseException | None = None
    seconds: float = 0.0  # without the time in which other work had the machine
    waited: float = 0.0  # the seconds of that time
    memory: int = 0  # the most bytes beyond those held before
    events: list[object] = field(factory=list)
    requests: list[ReceivedRequest] = field(factory=list)  # that reached the server
    played: list[RawResponse] = field(factory=list)  # to each of them


def assert_survives(
    client_factory: Callable[[str], Client],
    responses: Sequence[RawResponse],
    *,
    mode: str = "call",
    request: str | Request = PROMPT,
    certificate: Certificate | None = None,
    secrets: Sequence[str] = (),
    grace: float = GRACE,
    memory: int = MEMORY,
) -> Result:
    """Play raw responses to a client over a real socket, and check its call and the next one.

    The call must end within its budget of seconds and the grace; be honest; spend no more than its
    certificate, whose seconds get the same grace; raise nothing but a `rungwise.CallError`; hold no
    more memory than this; and leave a client on which the next call works. Its result is returned.

    Arguments:
        client_factory: makes the client, from the base URL of the server.
        responses: what the server writes, request by request; the last one repeats.
        mode: the method of the client: `call`, `stream`, `acall` or `astream`.
        request: what is asked.
        certificate: the certificate of the client's policy.
        secrets: texts that must not appear anywhere, such as API keys.
        grace: seconds beyond the budget that are tolerated.
        memory: the most bytes.

    Raises:
        Dishonest: an `AssertionError` that says what broke.
        ConfigurationError: the mode is unknown, or the client's budget of seconds none or too long.
    """
    if mode not in MODES:
        raise ConfigurationError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    with RawServer(responses) as server:
        client = client_factory(server.base_url)
        seconds = _seconds_of(client) + grace
        server.seconds = seconds + 1.0
        if not isinstance(request, Request):
            request = Request(request)
        made: list[_Measured] = []
        measured = _measured(server, mode, made)
        if is_async(mode):
            anyio.run(_ask_all_async, client, mode, request, measured)
        else:
            _ask_all(client, mode, request, measured)
    hostile = made[0]
    result = _check_end(hostile, seconds, memory)
    ended = EndedCall(
        result,
        request=request,
        events=hostile.events if is_streaming(mode) else None,
        certificate=certificate,
        secrets=tuple(secrets),
    )
    check_all(evolve(ended, certificate=_with_grace(certificate, grace + hostile.waited)))
    check_requests(result, hostile.requests)
    _check_untouched(result, hostile.played)
    _check_healthy(made[-1])
    RECORDER.record(ended)
    return result


def _seconds_of(client: Client) -> float:
    """Return the budget of a client's calls in seconds.

    Raises:
        ConfigurationError: there is none, or one that a test should not wait for.
    """
    seconds = client.policy.budget.seconds
    if seconds is None or seconds > LONGEST:
        raise ConfigurationError(
            f"the client's policy needs a budget of seconds, of at most {LONGEST:g}"
        )
    return seconds


def _ask_all(
    client: Client,
    mode: str,
    request: Request,
    measured: Iterator[_Measured],
) -> None:
    """Make calls for as long as there is something to measure them.

    Arguments:
        client: makes the calls.
        mode: its method.
        request: what is asked.
        measured: what measures each call, in turn.
    """
    with client:
        for each in measured:
            with _measure(each):
                each.result = ask(client, mode, request, each.events)


async def _ask_all_async(
    client: Client,
    mode: str,
    request: Request,
    measured: Iterator[_Measured],
) -> None:
    """Do what `_ask_all` does on an event loop.

    Arguments:
        client: as of `_ask_all`, like all of them.
        mode: its method.
        request: what is asked.
        measured: what measures each call.
    """
    async with client:
        for each in measured:
            with _measure(each):
                each.result = await ask_async(client, mode, request, each.events)


def _measured(server: RawServer, mode: str, made: list[_Measured]) -> Iterator[_Measured]:
    """Yield what measures the hostile call, and the healthy one until it has had enough time."""
    hostile = _Measured()
    made.append(hostile)
    yield hostile
    hostile.requests = server.requests
    hostile.played = server.played
    server.play([healthy_response(streams=is_streaming(mode), text=HEALTHY_TEXT)])
    for _ in range(HEALTHY_TRIES):
        healthy = _Measured()
        made.append(healthy)
        yield healthy
        if not _ran_out(healthy.result):
            return


def _ran_out(result: Result | None) -> bool:
    """Tell whether a healthy call may have had too little time."""
    return result is not None and result.outcome in ("over_budget", "failed") and not result.text


@contextmanager
def _measure(made: _Measured) -> Iterator[None]:
    """Measure the time and memory of a call, and catch what it raises."""
    with peak_memory() as held:
        started = time.monotonic()
        waited = waited_for_a_core()
        try:
            yield
        except CallError as error:
            made.result = error.result
        except Exception as error:
            made.error = error
        finally:
            made.waited = waited_for_a_core() - waited
            made.seconds = time.monotonic() - started - made.waited
    made.memory = held()


def _with_grace(certificate: Certificate | None, seconds: float) -> Certificate | None:
    """Return a certificate that allows more seconds.

    It proves how long a call waits, and not how fast a machine reads.
    """
    if certificate is None:
        return None
    worst = []
    for case in certificate.worst:
        if case.name == "seconds" and case.value is not None:
            case = evolve(case, value=case.value + seconds)
        worst.append(case)
    return evolve(certificate, worst=tuple(worst))


def _check_end(made: _Measured, seconds: float, memory: int) -> Result:
    """Check the end of a call from outside."""
    if made.error is not None or made.result is None:
        raise Dishonest(DOCUMENTED, f"{type(made.error).__name__}: {made.error}") from made.error
    if made.seconds > seconds:
        wrong = f"it took {made.seconds:.1f} s, and had {seconds:.1f} s with the grace"
        raise Dishonest(IN_TIME, wrong)
    if made.memory > memory:
        wrong = f"it held {_mebibytes(made.memory)} MiB, and {_mebibytes(memory)} MiB are allowed"
        raise Dishonest(IN_MEMORY, wrong)
    return made.result


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f}"


def check_requests(result: Result, requests: Sequence[ReceivedRequest]) -> None:
    """Check that every attempt was one request, and that its output cap reached the wire."""
    steps = result.journal.steps
    sent = [step.cap for step in steps if step.event == "sent"]
    # A connection that the server had closed breaks before the request arrives, and one whose time
    # was up may not bring it either. A consumer that leaves at the step of a request ends the call
    # before that request goes out.
    lost = sum(step.reason in ("connection", "timeout") for step in steps)
    if result.outcome == "cancelled":
        lost += 1
    if not 0 <= len(sent) - len(requests) <= lost:
        raise Dishonest(ASKED, f"{len(requests)} requests arrived, and the journal has {len(sent)}")
    remaining = iter(sent)
    for request in requests:
        caps = [request.body[name] for name in CAPS if name in request.body]
        arrived = caps[0] if caps else None
        # `in` moves the iterator on, so that the requests must come in the order of the journal
        if len(caps) > 1 or arrived not in remaining:
            wrong = f"a request carried {caps or 'no cap'}, and the journal says {sent}"
            raise Dishonest(ASKED, wrong)


def _check_untouched(result: Result, played: Sequence[RawResponse]) -> None:
    """Check that only a whole reply makes a call done, and that its text is unchanged."""
    if result.outcome != "done" or not played:
        return
    last = played[-1]
    if not last.is_whole:
        raise Dishonest(UNTOUCHED, f"the last reply was not whole ({last.kind})")
    part = result.parts[-1] if result.parts else ""
    if last.says is not None and part != split_thinking(last.says)[0]:
        wrong = f"the server wrote {last.says[:40]!r}, and the last part is {part[:40]!r}"
        raise Dishonest(UNTOUCHED, wrong)


def _check_healthy(made: _Measured) -> None:
    """Check the end of the last healthy call."""
    if made.error is not None or made.result is None:
        wrong = f"it raised {type(made.error).__name__}: {made.error}"
        raise Dishonest(GOES_ON, wrong) from made.error
    outcome = made.result.outcome
    text = made.result.text
    if outcome != "done" or text != HEALTHY_TEXT:
        raise Dishonest(GOES_ON, f"it ended {outcome}, with the text {text[:60]!r}")
