"""Policy changes that several tests use; each is compared once."""

from functools import lru_cache

import rungwise
from rungwise import CALL, Rung, diff_policies
from rungwise.core import Call, Failure, PlainLink, PolicyDiff, Reply, Request, Table
from rungwise.fsm.analysis.replay.what_if import WhatIf, what_if
from support.played import play
from support.tables import of_known_rungs

PRICES = rungwise.Prices(2.5, 10)
APOLOGIZE = Rung(
    "apologize",
    limit=2,
    hint="Sorry; say it again.",
    does="apologizing",
    says="an empty reply may be apologized for",
)


def other_table() -> Table:
    """Return a table with one rung added, one removed, and one ladder reordered."""
    order = [row.guard for row in CALL.ladder("malformed", "await")]
    order[:2] = order[1::-1]
    return (
        CALL.without("prefill")
        .with_rung(APOLOGIZE, came_empty="may_reask")
        .reordered("malformed", order)
    )


def recorded(*replies: Reply | Failure, policy: rungwise.Policy | None = None) -> rungwise.Journal:
    """Return the journal of a call with two backends that received these replies, 2 seconds
    apart.
    """
    call = Call(
        Request("hi", max_tokens=500),
        of_known_rungs(policy),
        [PlainLink("one"), PlainLink("two")],
        jitter=lambda: 0.2,
    )
    play(call, [(reply, 2.0) for reply in replies])
    return rungwise.Journal.from_json(call.journal.to_json())


@lru_cache
def last_week() -> tuple[WhatIf, ...]:
    """Return what three past calls would have done under the interactive preset."""
    slow = Failure("server_error")
    answer = Reply("hello", stop_reason="stop")
    journals = {
        "monday.json": recorded(slow, answer),
        "tuesday.json": recorded(slow, slow, slow, answer),
        "friday.json": recorded(Failure("content_policy"), answer),
    }
    new = of_known_rungs(rungwise.Policy.interactive())
    return tuple(what_if(journal, new, name=name) for name, journal in journals.items())


@lru_cache
def to_interactive() -> PolicyDiff:
    """Compare the default policy with the interactive preset, for two backends and a few past
    calls.
    """
    asked = {"max_tokens": 1000, "input_tokens": 2000}
    old = of_known_rungs()
    new = of_known_rungs(rungwise.Policy.interactive())
    return diff_policies(old, new, 2, prices=PRICES, journals=last_week(), **asked)


@lru_cache
def to_other_table() -> PolicyDiff:
    """Compare the shipped table with a user's own, which has another hint."""
    hints = rungwise.Hints(
        nudge="That answer had no content. Read the tool results above and go on from them."
    )
    return diff_policies(rungwise.Policy(), rungwise.Policy(table=other_table(), hints=hints), 1)


@lru_cache
def of_turns() -> PolicyDiff:
    """Compare two turn policies whose calls differ, too."""
    calls = rungwise.Policy(limits=rungwise.Limits(retries=1))
    return diff_policies(
        rungwise.TurnPolicy(), rungwise.TurnPolicy(summary=False, auto_continues=5, call=calls), 1
    )


@lru_cache
def of_nothing() -> PolicyDiff:
    """Compare the default policy with itself."""
    return diff_policies(rungwise.Policy(), rungwise.Policy(), 1)
