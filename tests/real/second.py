"""A second opinion: llama-cpp-python's own server, which continues no turn and reports no tokens of
a stream.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import rungwise
from real.breaks import long, survives_cuts
from real.caps import NO_CONTINUATION, WAYS, goes_on, stops_before
from real.checking import ASKED, LAST, WHOLE, Said, Servers, asking, check, counted, expect
from support.modes import EVERY, MODES, asks_for_streams, follow, waits_into

NEVER_ENDS: Final[dict[str, Any]] = {"logit_bias": {"0": -100}}
"""Takes so much from the weight of the end of a turn that the first number outweighs it."""

TRIES: Final = 20


@check(
    "second server: every cap cuts exactly there, and its tokens are counted where they are not "
    "reported"
)
def cut(servers: Servers) -> None:
    sent = servers.plain.tokens_of_prompt(ASKED)
    for mode in EVERY:
        with asking(servers.second, mode, policy=NO_CONTINUATION) as ask:
            for cap in range(1, LAST + 1):
                said = ask(max_tokens=cap)
                expect(
                    f"{mode}, cap {cap}",
                    (said.result.outcome, said.result.text),
                    ("partial", counted(cap)),
                )
                found = said.result.usage
                expect(f"{mode}, cap {cap}: output", found.output_tokens, cap)
                expect(f"{mode}, cap {cap}: is estimated", found.estimated, asks_for_streams(mode))
                if not found.estimated:
                    expect(f"{mode}, cap {cap}: input", found.input_tokens, sent)


for _way in WAYS:

    @check(f"second server: a cut text goes on, prefill {_way}")
    def on(servers: Servers, way: str = _way) -> str:
        return goes_on(servers.second, way)

    @check(f"second server: a stream that is cut goes on, prefill {_way}")
    def cuts(servers: Servers, way: str = _way) -> str:
        return survives_cuts(servers.second_relay, way)


@check("second server: a stop ends the text before it, also behind a continuation")
def stops(servers: Servers) -> None:
    stops_before(servers.second, [{}])


@check("second server: a model that never stops ends within its budget of tokens")
def budgets(servers: Servers) -> None:
    for mode in EVERY:
        for tokens in (9, 30, 100, 300):
            policy = rungwise.Policy(budget=rungwise.Budget(output_tokens=tokens))
            with asking(servers.second, mode, policy=policy) as ask:
                said = ask(parameters=NEVER_ENDS)
            where = f"{mode}, {tokens} tokens"
            numbers = len(said.result.text) // 4
            expect(f"{where}: text", said.result.text, counted(numbers))
            if numbers > tokens:
                expect(where, numbers, f"at most {tokens}")


@check(
    "second server: a prompt that does not fit is an overflow where no stream is asked for, and "
    "else a failure"
)
def overflows(servers: Servers) -> None:
    """Ask with and without a stream: for what does not fit, this server sends a stream without an
    event.
    """
    for mode in MODES:
        with asking(servers.second_small, mode) as ask:
            said = ask(long(30))
            expect(
                f"{mode}, streamed",
                (said.result.outcome, set(said.events)),
                ("failed", {"interrupted"}),
            )
        with asking(servers.second_small, mode, streams=False) as ask:
            said = ask(long(30))
            expect(mode, (said.result.outcome, said.events), ("failed", ["overflowed"]))
        with asking(
            servers.second_small, mode, compactor=rungwise.OldestFirst(keep=1), streams=False
        ) as ask:
            said = ask(long(30))
            expect(f"{mode}, compacted", (said.result.outcome, said.result.text), ("done", WHOLE))


@check("second server: a stream that it ends for another call's sake goes on")
def interrupts(servers: Servers) -> str:
    """Ask in the middle of a stream: this server then ends it, without a finish reason."""
    interrupted = 0
    with asking(servers.second, "whole") as ask_between, ThreadPoolExecutor(1) as thread:
        for number in range(TRIES):
            interrupted += _is_interrupted(
                servers, number, lambda: thread.submit(ask_between, max_tokens=1)
            )
    expect("streams that were ended early", interrupted > 0, True)
    return f"{interrupted} of {TRIES} streams were ended early"


def _is_interrupted(servers: Servers, number: int, disturb: Callable[[], Future[Said]]) -> bool:
    """Stream a text while another call disturbs it, and tell whether the server ended the stream
    for that.
    """
    backend = rungwise.OpenAIChat("counter", base_url=f"{servers.second.root}/v1")
    other = None
    events = list[Any]()
    with rungwise.Client(backend, **waits_into([])) as client, client.stream(ASKED) as stream:
        for event in stream:
            events.append(event)
            if other is None and isinstance(event, rungwise.Text):
                other = disturb()
    result = events[-1]
    expect(
        f"stream {number}", (result.outcome, result.text, follow(events)), ("done", WHOLE, WHOLE)
    )
    expect(f"beside stream {number}", other is not None and other.result().result.text, counted(1))
    return any(step.event == "interrupted" for step in result.journal.steps)
