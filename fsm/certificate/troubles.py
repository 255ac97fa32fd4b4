"""Play what a call does about a trouble that comes back from every attempt, to the real core.

Waits are random, so each trouble is played twice: with the shortest waits and with the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Literal

from attrs import evolve, field, frozen

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.causes import CAUSES
from rungwise.fsm.certificate.enactment import AFTER_A_TOOL, PLAIN, links_of
from rungwise.fsm.certificate.verified import counted, number_text
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.failures.failure import Failure, Reason
from rungwise.fsm.machine.table import Table

MOST_PLAYED = 200
"""Attempts of one call that are played, even if the budget allows more."""

MORE = f"more than the {MOST_PLAYED} attempts that are played"
"""How a call ends that is not played to its end."""

MOST_RUNS = 16
"""How many different rungs in a row a path lists."""

MOST_WAITS = 5
"""How many waits of one rung a path lists."""

SOON = 10.0
"""The shortest wait that a service requests here, in seconds."""

LONGEST_ASKED = 86_400.0
"""The longest wait that a service requests here, in seconds, even if a policy allows more."""

Comes = Callable[[int], "Reply | Failure"]
"""Makes what the attempt of this number returns."""


@frozen
class Trouble:
    """Hold one thing that goes wrong at every attempt."""

    name: str  # what an operator sees
    comes: Comes = field(eq=False, repr=False)
    lasts: Literal["no time", "silence", "all its time"] = "no time"  # of an attempt
    messages: tuple[Mapping[str, Any], ...] = field(default=PLAIN, eq=False, repr=False)


@frozen
class PlayedTrouble:
    """Hold what a call did about a trouble."""

    rungs: tuple[tuple[str, float], ...]  # each with the seconds of the wait before it
    outcome: str | None  # None if it took more attempts than are played
    cause: str  # the field of the budget that ended it
    seconds: float

    @property
    def attempts(self) -> int:
        """Count the requests."""
        return len(self.rungs)


@frozen
class Course:
    """Hold what a call does about a trouble with the shortest random waits, and with the longest."""

    least: PlayedTrouble
    most: PlayedTrouble

    @property
    def is_one_path(self) -> bool:
        """Tell whether both calls take the same path."""
        paths = [[name for name, _ in each.rungs] for each in (self.least, self.most)]
        return paths[0] == paths[1] and self.least.outcome == self.most.outcome

    @property
    def outcomes(self) -> tuple[str, ...]:
        """List how the calls end; empty if they are not played to their ends."""
        return tuple(dict.fromkeys(each.outcome for each in (self.least, self.most) if each.outcome is not None))

    @property
    def path(self) -> str:
        """Write the rungs with the shortest waits: `retry x3 (2, 4, 8 s), fallback`."""
        if len(self.least.rungs) == 1:
            return "not asked again"
        runs = [(name, [wait for _, wait in run]) for name, run in groupby(self.least.rungs[1:], lambda each: each[0])]
        parts = [f"{name}{f' x{len(waits)}' if len(waits) > 1 else ''}{_waits(waits)}" for name, waits in runs]
        return ", ".join(parts[:MOST_RUNS] + (["..."] if len(runs) > MOST_RUNS else []))

    @property
    def spent(self) -> str:
        """Write the attempts and the seconds, least to most."""
        attempts = sorted({self.least.attempts, self.most.attempts})
        seconds = sorted({round(self.least.seconds, 1), round(self.most.seconds, 1)})
        text = f"{attempts[0]} to " * (len(attempts) > 1) + counted(attempts[-1], "attempt")
        if seconds != [0.0]:
            text += f", {' to '.join(map(number_text, seconds))} s"
        return text if self.is_one_path else f"{text}; the path is that with the shortest waits"

    def __str__(self) -> str:
        ends = " or ".join(self.outcomes) or MORE
        return f"{self.path} → {ends}; {self.spent}"


def _waits(waits: Sequence[float]) -> str:
    if not any(waits):
        return ""
    if len(waits) > 1 and len(set(waits)) == 1:
        return f" ({number_text(waits[0])} s each)"
    more = f", ... {number_text(waits[-1])}" if len(waits) > MOST_WAITS else ""
    return f" ({', '.join(map(number_text, waits[:MOST_WAITS]))}{more} s)"


@frozen
class TroubleChange:
    """Hold what a call does about troubles before and now; None if the table lacks their events."""

    names: tuple[str, ...]
    backends: tuple[int, ...]
    old: Course | None
    new: Course | None

    @property
    def is_change(self) -> bool:
        """Tell whether anything differs: the path, its waits, or its end."""
        return self.old != self.new


def trouble_changes(
    old: Policy,
    new: Policy,
    chains: Sequence[int] = (1, 2),
    *,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
) -> tuple[TroubleChange, ...]:
    """Play every trouble under two policies, and group the troubles with the same courses."""
    before, after = _playable(old, prices), _playable(new, prices)
    play = partial(course_of, prices=prices, max_tokens=max_tokens, input_tokens=input_tokens)
    groups: dict[tuple[TroubleChange, ...], list[str]] = {}
    for trouble in troubles_of(before, after):
        of_this: list[TroubleChange] = []
        for count in chains:
            was = play(before, trouble, count)
            now = was if before == after else play(after, trouble, count)
            same = next((each for each in of_this if (each.old, each.new) == (was, now)), None)
            if same is not None:
                of_this[of_this.index(same)] = evolve(same, backends=(*same.backends, count))
            elif was is not None or now is not None:
                of_this.append(TroubleChange((), (count,), was, now))
        groups.setdefault(tuple(of_this), []).append(trouble.name)
    return tuple(evolve(each, names=tuple(names)) for of_these, names in groups.items() for each in of_these)


def _playable(policy: Policy, prices: Prices | None) -> Policy:
    """Drop a budget of money without prices, and let own facts hold if a reply says so."""
    if policy.budget.money is not None and prices is None:
        policy = evolve(policy, budget=evolve(policy.budget, money=None))
    table = policy.table
    if not table.own_facts:
        return policy
    facts = [evolve(fact, of=_Holds(fact.name)) if fact.of is not None else fact for fact in table.facts]
    return evolve(policy, table=evolve(table, facts=tuple(facts)))


@frozen
class _Holds:
    """Tell whether a made-up reply is one on which a fact holds."""

    name: str

    def __call__(self, reply: Reply) -> bool:
        return reply.stop_raw == _marked(self.name)


def _marked(fact: str) -> str:
    return f"on which {fact} holds"


def troubles_of(old: Policy, new: Policy) -> Iterator[Trouble]:
    """Yield what may go wrong; requested waits lie on either side of what each policy allows."""
    yield Trouble("429", _fails("rate_limit", 429))
    waits = {SOON, *(min(policy.waits.longest_asked, LONGEST_ASKED) for policy in (old, new))} - {0.0}
    for seconds in sorted({*waits, max(waits) + 1}):
        name = f"429 with a Retry-After of {seconds:,.10g} s"
        yield Trouble(name, _fails("rate_limit", 429, asked_wait=seconds))
    yield Trouble("503, or another server error", _fails("server_error", 503))
    yield Trouble("529, overloaded", _fails("overloaded", 529))
    yield Trouble("no connection", _fails("unreachable"))
    yield Trouble("an attempt that runs into its timeout", _fails("timeout"), "all its time")
    yield Trouble("silence before any text", _fails("silence"), "silence")
    yield Trouble("a stream that breaks off before any text", _cut(text=False))
    yield Trouble("a stream that breaks off after some text", _cut(text=True))
    yield Trouble("an empty reply", _made("came_empty"))
    yield Trouble("an empty reply to a tool result", _made("came_empty"), messages=AFTER_A_TOOL)
    for name, event in NAMES.items():
        yield Trouble(name, _made(event))
    yield Trouble("401, or another permanent error", _fails("auth", 401))
    yield Trouble("400 that names a different parameter each time", _rejected)
    yield Trouble("a prompt that is too long, without a compactor", _fails("context_overflow", 400))
    yield from _where_facts_hold((old.table, new.table))


def _where_facts_hold(tables: Iterable[Table]) -> Iterator[Trouble]:
    """Yield for each of the table's own facts the replies on which a guard depends on it."""
    seen: set[tuple[str, str]] = set()
    for table in tables:
        for fact in table.own_facts:
            for event in table.events:
                guards = [table.guard(row.guard) for row in table.ladder(event, table.hub)]
                looks = any(fact.name in (*guard.holds, *guard.lacks) for guard in guards)
                if looks and event in EVENTS and (fact.name, event) not in seen:
                    seen.add((fact.name, event))
                    cause = CAUSES[event].replace("`", "")
                    yield Trouble(f"{cause}, on which {fact.name} holds", _made(event, _marked(fact.name)))


def _made(event: str, stop_raw: str | None = None) -> Comes:
    return lambda number: reply_of(event, number, stop_raw)


def reply_of(event: str, number: int, stop_raw: str | None) -> Reply:
    """Return a reply that causes an event, with its own text for each attempt."""
    fields = dict(EVENTS[event])
    if "text" in fields:
        fields["text"] = _text(number)
    return Reply(**fields, stop_raw=stop_raw)


def _fails(reason: Reason, status: int | None = None, *, asked_wait: float | None = None) -> Comes:
    failure = Failure(reason, status=status, asked_wait=asked_wait)
    return lambda number: failure


def _rejected(number: int) -> Failure:
    return Failure("parameter_unsupported", status=400, parameter=f"parameter_{number}")


def _cut(*, text: bool) -> Comes:
    failure = Failure("connection")
    return lambda number: Reply(_text(number) if text else "", interrupted=True, failure=failure)


def _text(number: int) -> str:
    """Return text with no part twice."""
    return " ".join(f"part {number} word {count}" for count in range(6)) + "."


EVENTS: Mapping[str, Mapping[str, Any]] = {
    "answered": {"text": "", "stop_reason": "stop"},
    "called_tools": {"tool_calls": (ToolCall("1", "look_up", "{}"),), "stop_reason": "tool_calls"},
    "came_empty": {"stop_reason": "stop"},
    "only_reasoned": {"reasoning": "thoughts", "stop_reason": "stop"},
    "truncated": {"text": "", "stop_reason": "length"},
    "paused": {"text": "", "stop_reason": "paused"},
    "tools_truncated": {"tool_calls": (ToolCall("1", "look_up", "{"),), "stop_reason": "length"},
    "reasoning_truncated": {"reasoning": "thoughts", "stop_reason": "length"},
    "malformed": {"text": "", "stop_reason": "unknown"},
    "refused": {"stop_reason": "content_filter"},
}
"""The fields of a reply by the event that it causes; each attempt fills in its own text."""

NAMES: Mapping[str, str] = {
    "reasoning without text": "only_reasoned",
    "text cut at the output cap": "truncated",
    "reasoning that fills the output cap": "reasoning_truncated",
    "a cut tool call": "tools_truncated",
    "a reply without a usable shape": "malformed",
    "a refusal": "refused",
    "a turn that the provider pauses": "paused",
}


def course_of(
    policy: Policy,
    trouble: Trouble,
    backends: int,
    *,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
) -> Course | None:
    """Play a trouble to calls until they end; None if the table lacks the event."""
    request = Request(trouble.messages, max_tokens=max_tokens, input_tokens=input_tokens)
    draws = (0.0, 1.0) if policy.waits.jitter else (0.0,)
    try:
        played = [
            _play(Call(request, policy, links_of([prices] * backends), jitter=partial(float, draw)), trouble)
            for draw in draws
        ]
    except (IllegalEvent, ConfigurationError):  # a user's table may lack this event
        return None
    return Course(played[0], played[-1])


def _play(call: Call, trouble: Trouble) -> PlayedTrouble:
    rungs: list[tuple[str, float]] = []
    now, number = 0.0, 0
    send = call.begin(now)
    while send is not None and number < MOST_PLAYED:
        rung, wait = call.position.state, send.wait
        now += wait
        send = call.sending(now)
        if send is None:
            break
        number += 1
        # The budget may have led elsewhere by the end of the wait.
        rungs.append((rung, wait))
        now, came = _comes_back(call, send, trouble, number, now)
        send = call.receive(came, now)
    if not call.is_over:
        return PlayedTrouble(tuple(rungs), None, "", now)
    last = call.journal.last
    cause = (last.note or "") if last.event == "ran_out" else ""
    return PlayedTrouble(tuple(rungs), call.result.outcome, cause, call.spending.elapsed)


def _comes_back(call: Call, send: Send, trouble: Trouble, number: int, now: float) -> tuple[float, Reply | Failure]:
    """Return when something comes back, and what, as a driver would."""
    came = trouble.comes(number)
    if trouble.lasts == "no time":
        return now, came
    clocks, total = call.clocks(), call.policy.timeouts.total
    latest = clocks.before_text
    if trouble.lasts == "silence" and clocks.first_token is not None and latest is not None:
        ends = now + clocks.first_token
        if ends <= latest and (clocks.ends_by is None or ends <= clocks.ends_by):
            return ends, came
    ends_at = [*([] if total is None else [now + total]), *([] if clocks.ends_by is None else [clocks.ends_by])]
    return (min(ends_at) if ends_at else now), Failure("timeout")
