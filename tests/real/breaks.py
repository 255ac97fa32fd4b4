"""Streams that are cut on their way, callers that leave, windows that are full, and what the server
says of itself.
"""

import time
from typing import Any, Final

import rungwise
from real.caps import WAYS
from real.checking import ASKED, WHOLE, Servers, asking, check, counted, expect
from real.relay import Relay
from real.server import ModelServer
from support.modes import MODES

STEP: Final = 97
"""Bytes between two places at which a reply is cut: a prime, so that each part of a chunk is met.
"""

IDLE_WITHIN: Final = 20.0
"""Seconds."""


def survives_cuts(relay: Relay, way: str, *, says_nothing_more: bool = False) -> str:
    """Cut the reply at many places, one for each call, the modes in turn, and tell how many cuts
    there were.

    The arguments are those of `caps.goes_on`.
    """
    relay.cut_after(None)
    with asking(relay, "stream", **WAYS[way]) as ask:
        expect(f"{way}, uncut", ask().result.text, WHOLE)
    size = relay.passed
    before = relay.cuts
    for number, place in enumerate(range(0, size, STEP)):
        mode = MODES[number % len(MODES)]
        is_hard = number % 3 == 0
        relay.cut_after(place, is_hard=is_hard)
        with asking(relay, mode, **WAYS[way]) as ask:
            said = ask()
        where = f"{way}, {mode}, {'reset' if is_hard else 'cut'} after {place} bytes of {size}"
        outcome = "partial" if says_nothing_more and said.events[-1] == "came_empty" else "done"
        expect(where, (said.result.outcome, said.result.text), (outcome, WHOLE))
        expect(f"{where}: cuts", relay.cuts - before, number + 1)
    return f"{relay.cuts - before} cuts"


for _way in WAYS:

    @check(f"a stream that is cut goes on without a letter lost or doubled, prefill {_way}")
    def cut(servers: Servers, way: str = _way) -> str:
        return survives_cuts(servers.relay, way)

    @check(
        f"a stream that is cut goes on, prefill {_way}, where a turn goes on from the one before"
    )
    def mindful_cut(servers: Servers, way: str = _way) -> str:
        return survives_cuts(servers.mindful_relay, way, says_nothing_more=way == "no")


def _is_idle(server: ModelServer) -> bool:
    return not any(slot["is_processing"] for slot in server.get("/slots"))


@check("a caller who leaves a stream that would not end leaves the server idle")
def leaves(servers: Servers) -> None:
    backend = rungwise.OpenAIChat("counter", base_url=f"{servers.plain.root}/v1")
    with rungwise.Client(backend) as client:
        with client.stream(ASKED, parameters={"ignore_eos": True}) as stream:
            shown = ""
            for event in stream:
                if isinstance(event, rungwise.Text):
                    shown += event.text
                if len(shown) >= 40:
                    break
            expect("was working", _is_idle(servers.plain), False)
        expect("text", shown, counted(len(shown) // 4))
        deadline = time.monotonic() + IDLE_WITHIN
        while not _is_idle(servers.plain):
            if time.monotonic() > deadline:
                expect("the server", "still works", "idle")
            time.sleep(0.02)


def long(exchanges: int) -> list[dict[str, Any]]:
    """Return a conversation of so many exchanges, and then the usual question."""
    turns = [
        (
            {"role": "user", "content": f"Say it for the {number}th time."},
            {"role": "assistant", "content": " Yes."},
        )
        for number in range(exchanges)
    ]
    return [message for turn in turns for message in turn] + ASKED


@check("a prompt that does not fit is an overflow, and a compactor makes it fit")
def overflows(servers: Servers) -> None:
    asked = long(30)  # three times a quarter less, and it fits
    for mode in MODES:
        with asking(servers.small, mode) as ask:
            said = ask(asked)
            expect(f"{mode}", (said.result.outcome, said.events), ("failed", ["overflowed"]))
            failures = [failure.reason for _, failure in said.result.failures]
            expect(f"{mode}: failures", failures, ["context_overflow"])
        with asking(servers.small, mode, compactor=rungwise.OldestFirst(keep=1)) as ask:
            said = ask(asked)
            expect(f"{mode}, compacted", (said.result.outcome, said.result.text), ("done", WHOLE))
            expect(
                f"{mode}, compacted: events",
                (said.events[0], said.events[-1]),
                ("overflowed", "answered"),
            )


@check("a window that is full in mid-answer is a cut, and nothing of it is lost")
def fills(servers: Servers) -> None:
    room = servers.small.context - servers.small.tokens_of_prompt(ASKED)
    for mode in MODES:
        for way in WAYS.values():
            with asking(servers.small, mode, **way) as ask:
                said = ask(parameters={"ignore_eos": True})
                expect(f"{mode}, {way}: outcome", said.result.outcome, "partial")
                expect(f"{mode}, {way}: first event", said.events[0], "truncated")
                numbers = len(said.result.text) // 4
                expect(f"{mode}, {way}: text", said.result.text, counted(numbers))
                if numbers < room - 8:
                    expect(f"{mode}, {way}: numbers", numbers, f"some {room}")


@check("what the server says of itself can be read")
def props(servers: Servers) -> str:
    found = servers.plain.get("/props")
    expect("window", found["default_generation_settings"]["n_ctx"], servers.plain.context)
    models = servers.plain.get("/v1/models")["data"]
    expect("models", len(models), 1)
    return f"build {found.get('build_info', 'unknown')}"


@check("what the official form of a reply has, this server's has")
def form(servers: Servers) -> None:
    body = {"messages": ASKED, "max_tokens": 3}
    found = servers.plain.post("/v1/chat/completions", body)
    [choice] = found["choices"]
    expect("reply", (choice["finish_reason"], choice["message"]["content"]), ("length", counted(3)))
