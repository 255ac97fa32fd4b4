"""Play a path of the search to a real call and see what it spends, so that every worst case has
happened once.

Theory
------

The search (`engine/checker/longest.py`) knows rows and counters. It does not know which facts can
hold together, how a call splits its reserve among backends, or when it leaves one. So its heaviest
path is a bound, and whether a call can reach it is an experiment: the path is played to a real
`Call` on a virtual clock (`call/play.py`), and what the call spent is read off its journal. A worst
case that is reached is exact, without an argument: it has happened. The certificate shows the path
that the call took, and `rungwise verify --scripts` writes its replies for a server.

*How a move becomes a reply* (`path_answers.py`). Each event and its facts are caused by a reply or
a failure as a provider might send it, and at its dearest: its usage fills the cap, at the dearest
of the prices for input; its text is as long as the cap allows; its failure requests the longest
wait that the policy allows. Replies differ from each other, because a call treats the same one
twice in a row as no progress. If the call takes a later move of the path first, the two are
exchanged. After the path, one reply ends the call, at its dearest too.

*Ways.* What is dearest is not always known beforehand: a prompt that ends with a tool result allows
nudges, an overload has other waits than a server error, a requested wait may not fit the time. So a
path is played in every combination of these, and the dearest counts.

*Why it is sound.* Nothing is played that a provider could not cause, and the call under test is the
one that runs in production. A play that misses the bound proves nothing: the bound stands then, and
the certificate says "no more than".

*Cost.* Four or eight plays of a path. Their texts are the expensive part, so only plays for money,
where text counts as input later, have long ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from rungwise.fsm.analysis.certificate.path_answers import (
    SHORTEST_TEXT,
    EnactedAttempt,
    PathAnswers,
)
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import PlainLink
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.play import PlayClock, play
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.engine.checker.moves import Move
from rungwise.fsm.engine.journal.record import Record, Step
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.values.money import as_money

AnyPolicy = TypeVar("AnyPolicy", Policy, TurnPolicy)

PASSING: tuple[Reason, ...] = ("server_error", "overloaded")
"""The transient failures that have a series of waits of their own."""

PLAIN: tuple[Mapping[str, Any], ...] = ({"role": "user", "content": "say"},)
AFTER_A_TOOL: tuple[Mapping[str, Any], ...] = (
    {"role": "user", "content": "look it up"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "found"},
)
LONGEST_TEXT = 400_000
"""Bytes of text that one path gathers at most; longer paths get shorter parts than their caps
allow.
"""

ANSWER = Reply("An answer.", stop_reason="stop")


@frozen
class Enacted:
    """Hold what a call did when a path was played to it.

    Arguments:
        steps: those that led to a rung.
        rungs: of each attempt.
        spent: what was spent, by the names of the worst cases.
        moves: the path of the search.
        attempts: what was sent and came back.
        messages: the prompt.
    """

    steps: tuple[Step, ...] = ()
    rungs: tuple[str, ...] = ()
    spent: Mapping[str, float] = field(factory=dict, hash=False)
    moves: tuple[Move, ...] = field(default=(), hash=False)
    attempts: tuple[EnactedAttempt, ...] = field(default=(), hash=False, repr=False)
    messages: tuple[Mapping[str, Any], ...] = field(default=(), hash=False, repr=False)


def enact(
    policy: Policy,
    prices: Sequence[Prices | None],
    moves: Sequence[Move],
    name: str,
    *,
    keys: int,
    max_tokens: int | None,
    input_tokens: int | None,
) -> Enacted:
    """Play a path to a call in every way that might be dearest, and return the dearest.

    Arguments:
        policy: of the call.
        prices: of each backend; None where they are unknown.
        moves: the path.
        name: of the worst case, which says what is dear.
        keys: of each backend.
        max_tokens: the caller's output cap.
        input_tokens: the tokens of the prompt.
    """
    if None in prices:
        policy = without_money(policy)
    longest = SHORTEST_TEXT
    if name == "money":
        longest = LONGEST_TEXT // (len(moves) + 1)
    asking: tuple[bool, ...] = (True,)
    if policy.budget.seconds is not None:  # with a requested wait the path may not fit the time
        asking = (True, False)
    links = links_of(prices, keys)
    ways = []
    for messages, reason, asks in product((PLAIN, AFTER_A_TOOL), PASSING, asking):
        request = Request(messages, max_tokens=max_tokens, input_tokens=input_tokens)
        call = Call(request, policy, links, jitter=lambda: 1.0, has_compactor=True, observer=silent)
        answers = PathAnswers(
            policy,
            prices,
            input_tokens=request.input_tokens or 0,
            passing=reason,
            name=name,
            longest=longest,
            asks=asks,
        )
        play(call, answers.along(moves, ANSWER), PlayClock())
        enacted = _enacted(call, moves)
        ways.append(evolve(enacted, attempts=tuple(answers.attempts), messages=messages))
    return max(ways, key=lambda each: each.spent[name])


def without_money(policy: AnyPolicy) -> AnyPolicy:
    """Drop a budget of money, against which nothing counts without prices."""
    if policy.budget.money is None:
        return policy
    return evolve(policy, budget=evolve(policy.budget, money=None))


def links_of(prices: Sequence[Prices | None], keys: int = 1) -> list[PlainLink]:
    """Return backends with these prices, and so many keys each."""
    numbered = enumerate(prices, 1)
    return [PlainLink(f"backend {number}", prices=price, keys=keys) for number, price in numbered]


def waited(journal: Record) -> float:
    """Return the seconds that a call waited before its attempts."""
    path = [step for step in journal.steps if step.event != "skipped"]
    return sum(step.wait for step, after in pairwise(path) if after.event == "sent")


def _enacted(call: Call, moves: Sequence[Move]) -> Enacted:
    """Return what a call did that has ended."""
    path = [step for step in call.journal.steps if step.event != "skipped"]
    spent = {
        "attempts": call.position.attempts,
        "waiting seconds": waited(call.journal),
        "seconds": call.spending.elapsed,
        "output tokens": call.spending.usage.output_tokens,
        "money": as_money(call.spending.cost or 0),
    }
    led = [
        step
        for step, after in pairwise(path)
        if step.event != "sent" and after.event in ("sent", "ran_out")
    ]
    return Enacted(
        steps=tuple(led),
        rungs=tuple(step.source for step in path if step.event == "sent"),
        spent=spent,
        moves=tuple(moves),
    )
