"""Output caps, what goes on behind them, stops, and what is reported of tokens."""

from collections.abc import Iterable
from typing import Any, Final

import rungwise
from real.checking import ASKED, LAST, WHOLE, Servers, asking, check, counted, expect
from real.server import ModelServer
from support.modes import EVERY

HANDFUL: Final = rungwise.Policy().handful

WAYS: Final[dict[str, dict[str, Any]]] = {
    "no": {"prefill": "no"},
    "trailing": {"prefill": "trailing"},
    "trailing, declared to echo": {"prefill": "trailing", "echoes": True},
    "continue_final_message": {"prefill": "continue_final_message"},
}

NO_CONTINUATION: Final = rungwise.Policy(limits=rungwise.Limits(continuations=0))


@check("a text within its cap is whole")
def whole(servers: Servers) -> None:
    for mode in EVERY:
        with asking(servers.plain, mode) as ask:
            for options in ({}, {"max_tokens": LAST + 1}, {"max_tokens": 4 * LAST}):
                said = ask(**options)
                expect(
                    f"{mode}, {options}", (said.result.outcome, said.result.text), ("done", WHOLE)
                )
                expect(f"{mode}, {options}: events", said.events, ["answered"])


@check("a cap of a handful of tokens cuts exactly there, at each length")
def handful(servers: Servers) -> None:
    for mode in EVERY:
        with asking(servers.plain, mode) as ask:
            for cap in range(1, HANDFUL + 1):
                said = ask(max_tokens=cap)
                expect(
                    f"{mode}, cap {cap}",
                    (said.result.outcome, said.result.text),
                    ("partial", counted(cap)),
                )
                expect(f"{mode}, cap {cap}: events", said.events, ["truncated"])


@check("every cap cuts exactly there, where nothing may go on")
def cut(servers: Servers) -> None:
    for mode in EVERY:
        with asking(servers.plain, mode, policy=NO_CONTINUATION) as ask:
            for cap in range(1, LAST + 1):
                said = ask(max_tokens=cap)
                expect(
                    f"{mode}, cap {cap}",
                    (said.result.outcome, said.result.text),
                    ("partial", counted(cap)),
                )
                expect(f"{mode}, cap {cap}: tokens", said.result.usage.output_tokens, cap)


def goes_on(server: ModelServer, way: str, *, says_nothing_more: bool = False) -> str:
    """Check that what a cap has cut is stitched to the whole, at every cap above a handful.

    Arguments:
        server: who is asked.
        way: of `WAYS`.
        says_nothing_more: whether a turn that is asked to go on from the whole is empty. Nobody can
            tell that from a failure, so the whole text is `partial` then.
    """
    replies: set[int] = set()
    for mode in EVERY:
        with asking(server, mode, **WAYS[way]) as ask:
            for cap in range(HANDFUL + 1, LAST + 1):
                said = ask(max_tokens=cap)
                where = f"{way}, {mode}, cap {cap}"
                outcome = "partial" if says_nothing_more and cap == LAST else "done"
                expect(where, (said.result.outcome, said.result.text), (outcome, WHOLE))
                expect(f"{where}: first event", said.events[0], "truncated")
                replies.add(len(said.events))
    return f"in {min(replies)} to {max(replies)} replies"


for _way in WAYS:

    @check(f"a cut text goes on, prefill {_way}")
    def on(servers: Servers, way: str = _way) -> str:
        return goes_on(servers.plain, way)

    @check(f"a cut text goes on, prefill {_way}, where a turn goes on from the one before")
    def mindful(servers: Servers, way: str = _way) -> str:
        return goes_on(servers.mindful, way, says_nothing_more=way == "no")

    @check(f"a cut text goes on, prefill {_way}, where no trailing turn is filled")
    def unfilled(servers: Servers, way: str = _way) -> str:
        return goes_on(servers.unfilled, way)


def stops_before(server: ModelServer, ways: Iterable[dict[str, Any]]) -> None:
    """Check that a stop ends the text before it, whatever the cap and the way in which a cut text
    goes on.
    """
    for mode in EVERY:
        for way in ways:
            with asking(server, mode, **way) as ask:
                for stop in (" 031", "1 03", "40"):
                    for cap in (None, 20):
                        said = ask(parameters={"stop": [stop]}, max_tokens=cap)
                        found = (said.result.outcome, said.result.text)
                        expect(
                            f"{mode}, {way}, stop {stop!r}, cap {cap}",
                            found,
                            ("done", WHOLE[: WHOLE.index(stop)]),
                        )


@check("a stop ends the text before it, also behind a continuation and within a token")
def stops(servers: Servers) -> None:
    stops_before(servers.mindful, WAYS.values())


@check("the tokens that are reported are those that were sent and said")
def usage(servers: Servers) -> None:
    sent = servers.plain.tokens_of_prompt(ASKED)
    for mode in EVERY:
        with asking(servers.plain, mode) as ask:
            for cap in (1, 5, HANDFUL, LAST + 1, None):
                found = ask(max_tokens=cap).result.usage
                wanted = (sent, min(cap or LAST + 1, LAST + 1), False)
                expect(
                    f"{mode}, cap {cap}",
                    (found.input_tokens, found.output_tokens, found.estimated),
                    wanted,
                )
        with asking(servers.plain, mode, prefill="continue_final_message") as ask:
            for cap in range(HANDFUL + 1, LAST + 1):
                found = ask(max_tokens=cap).result.usage
                expect(
                    f"{mode}, cap {cap}, both parts",
                    (found.output_tokens, found.estimated),
                    (LAST + 1, False),
                )


@check("a model that never stops ends within its budget of tokens")
def budgets(servers: Servers) -> str:
    most = 0
    for mode in EVERY:
        for way in WAYS.values():
            for tokens in (9, 30, 100, 150, 500):
                policy = rungwise.Policy(budget=rungwise.Budget(output_tokens=tokens))
                with asking(servers.mindful, mode, policy=policy, **way) as ask:
                    said = ask(parameters={"ignore_eos": True})
                where = f"{mode}, {way}, {tokens} tokens"
                used = said.result.usage.output_tokens
                if used > tokens:
                    expect(where, used, f"at most {tokens}")
                most = max(most, used)
                expect(f"{where}: text", said.result.text, counted(len(said.result.text) // 4))
    return f"of 500 tokens at most {most} were used"
