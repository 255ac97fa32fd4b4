"""Play what a call does about a trouble to the real core: one that passes, and one that comes back
from every attempt.

Waits are random, so each trouble is played twice: with the shortest waits and with the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby, product
from typing import Literal

from attrs import evolve, frozen

from rungwise.fsm.analysis.certificate.certificate import backends_text, counted, number_text
from rungwise.fsm.analysis.certificate.enactment import ANSWER, links_of, without_money
from rungwise.fsm.analysis.certificate.troubles import Response, Trouble, marked, troubles_of
from rungwise.fsm.call.budget.metering import least_tokens, texts_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.play import Answers, Arrival, PlayClock, play
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import Usage

MOST_PLAYED = 200  # attempts of one call, even if the budget allows more
# how a call ends that is not played to its end
MORE = f"more than the {MOST_PLAYED} attempts that are played"
MOST_RUNS = 16  # different rungs in a row that a path lists
MOST_WAITS = 5  # waits of one rung that a path lists
PROMPT = 20  # input tokens that a reply reports, if those of the request are unknown

GRADES = ("answer", "outcome", "lesser", "error")
"""The kinds of outcomes, the best first; a call that is not played to its end is an error."""


@frozen
class Scene:
    """Say which attempts of a call fail; the others are answered."""

    fails: Literal["the first backend", "the first attempt", "every attempt"]
    backends: int

    def takes(self, number: int, backend: int) -> bool:
        """Tell whether the attempt of this number, at this backend, fails."""
        if self.fails == "the first backend":
            return backend == 0
        if self.fails == "the first attempt":
            return number == 1
        return True

    def __str__(self) -> str:
        """Name the scene for a reader."""
        if self.fails == "the first backend":
            return "the first backend fails each time, the next one answers"
        return f"with {backends_text(self.backends)}, {self.fails} fails"


@frozen
class PlayedTrouble:
    """Hold what a call did about a trouble.

    Arguments:
        rungs: each with the seconds of the wait before it.
        outcome: how it ended; None if it took more attempts than are played.
        cause: the field of the budget that ended it.
        seconds: that it took.
        grade: the place of the outcome's kind in `GRADES`.
    """

    rungs: tuple[tuple[str, float], ...]
    outcome: str | None
    cause: str
    seconds: float
    grade: int = len(GRADES) - 1

    @property
    def way(self) -> tuple[list[str], str | None]:
        """Return the rungs without their waits, and the outcome."""
        return [name for name, _ in self.rungs], self.outcome


@frozen
class Course:
    """Hold what a call does about a trouble with the shortest and with the longest waits."""

    least: PlayedTrouble
    most: PlayedTrouble

    @property
    def outcomes(self) -> tuple[str, ...]:
        """List how the calls end; empty if they are not played to their ends."""
        outcomes = (self.least.outcome, self.most.outcome)
        return tuple(dict.fromkeys(each for each in outcomes if each is not None))

    @property
    def path(self) -> str:
        """Write the rungs with the shortest waits: `retry x3 (2, 4, 8 s), fallback`."""
        if len(self.least.rungs) == 1:
            return "not asked again"
        parts = []
        for name, run in groupby(self.least.rungs[1:], lambda each: each[0]):
            waits = [wait for _, wait in run]
            times = f" x{len(waits)}" if len(waits) > 1 else ""
            parts.append(f"{name}{times}{_waits(waits)}")
        if len(parts) > MOST_RUNS:
            parts[MOST_RUNS:] = ["..."]
        return ", ".join(parts)

    @property
    def spent(self) -> str:
        """Write the attempts and the seconds, least to most."""
        attempts = sorted({len(self.least.rungs), len(self.most.rungs)})
        text = counted(attempts[-1], "attempt")
        if len(attempts) > 1:
            text = f"{attempts[0]} to {text}"
        seconds = sorted({round(self.least.seconds, 1), round(self.most.seconds, 1)})
        if seconds != [0.0]:
            text += f", {' to '.join(map(number_text, seconds))} s"
        if self.least.way != self.most.way:
            text += "; the path is that with the shortest waits"
        return text

    def __str__(self) -> str:
        ends = " or ".join(self.outcomes) or MORE
        return f"{self.path} → {ends}; {self.spent}"


def _waits(waits: Sequence[float]) -> str:
    """Write the waits of a run of rungs; nothing if there are none."""
    if not any(waits):
        return ""
    if len(waits) > 1 and len(set(waits)) == 1:
        return f" ({number_text(waits[0])} s each)"
    more = f", ... {number_text(waits[-1])}" if len(waits) > MOST_WAITS else ""
    return f" ({', '.join(map(number_text, waits[:MOST_WAITS]))}{more} s)"


@frozen
class TroubleChange:
    """Hold what a call does about troubles in a scene before and now.

    A course is None if the table lacks the events of these troubles.
    """

    names: tuple[str, ...]
    scene: Scene
    old: Course | None
    new: Course | None

    @property
    def is_change(self) -> bool:
        """Tell whether anything differs: the path, its waits, or its end."""
        return self.old != self.new

    @property
    def is_worse(self) -> bool:
        """Tell whether calls end worse now, with the shortest or with the longest waits: with less
        than an answer, with an error, or with an event that the table lacks.
        """
        if self.old is None or self.new is None:
            return self.new is None
        is_worse = self.new.least.grade > self.old.least.grade
        return is_worse or self.new.most.grade > self.old.most.grade

    @property
    def ends(self) -> str:
        """Write how calls end now and how before: `exhausted instead of done`."""
        now, before = (
            " or ".join(each.outcomes) or MORE if each else "no such event"
            for each in (self.new, self.old)
        )
        return f"{now} instead of {before}"


def scenes_of(backends: int) -> tuple[Scene, ...]:
    """List the scenes for a chain: those that end well come first."""
    scenes = [Scene("the first attempt", 1), Scene("every attempt", 1)]
    if backends > 1:
        scenes.insert(0, Scene("the first backend", backends))
        scenes.append(Scene("every attempt", backends))
    return tuple(scenes)


def trouble_changes(
    old: Policy,
    new: Policy,
    backends: int = 2,
    *,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
) -> tuple[TroubleChange, ...]:
    """Play every trouble under two policies in each scene.

    Troubles with the same courses are grouped.

    Arguments:
        old: the policy before.
        new: the policy now.
        backends: how many there are.
        prices: of every backend.
        max_tokens: the caller's output cap.
        input_tokens: the tokens of the prompt.
    """
    before = _playable(old, prices)
    after = _playable(new, prices)
    course = partial(course_of, prices=prices, max_tokens=max_tokens, input_tokens=input_tokens)
    groups: dict[TroubleChange, list[str]] = {}
    for scene, trouble in product(scenes_of(backends), troubles_of(before, after)):
        was = course(before, trouble, scene)
        now = was if before == after else course(after, trouble, scene)
        if was is not None or now is not None:
            groups.setdefault(TroubleChange((), scene, was, now), []).append(trouble.name)
    return tuple(evolve(each, names=tuple(names)) for each, names in groups.items())


def _playable(policy: Policy, prices: Prices | None) -> Policy:
    """Drop a budget of money without prices, and let own facts hold if a reply says so."""
    if prices is None:
        policy = without_money(policy)
    table = policy.table
    if not table.own_facts:
        return policy
    facts = []
    for fact in table.facts:
        facts.append(fact if fact.of is None else evolve(fact, of=_Holds(fact.name)))
    return evolve(policy, table=evolve(table, facts=tuple(facts)))


@frozen
class _Holds:
    """Tell whether a made-up reply is one on which a fact holds."""

    name: str

    def __call__(self, reply: Reply) -> bool:
        return reply.stop_raw == marked(self.name)


def course_of(
    policy: Policy,
    trouble: Trouble,
    scene: Scene,
    *,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
) -> Course | None:
    """Play a trouble to calls until they end; None if the table lacks the event.

    Arguments:
        policy: how the calls recover.
        trouble: what comes back from each attempt that fails.
        scene: which attempts fail, and how many backends there are.
        prices: of every backend.
        max_tokens: the caller's output cap.
        input_tokens: the tokens of the prompt.
    """
    request = Request(trouble.messages, max_tokens=max_tokens, input_tokens=input_tokens)
    draws = (0.0, 1.0) if policy.waits.jitter else (0.0,)
    links = links_of([prices] * scene.backends)
    played = []
    try:
        for draw in draws:
            call = Call(request, policy, links, jitter=partial(float, draw), observer=silent)
            played.append(_play(call, trouble, scene))
    except (IllegalEvent, ConfigurationError):  # a user's table may lack this event
        return None
    return Course(played[0], played[-1])


def _play(call: Call, trouble: Trouble, scene: Scene) -> PlayedTrouble:
    """Play a trouble to a call that has not begun."""
    clock = PlayClock()
    answers = _TroubleAnswers(trouble, scene)
    play(call, answers, clock)
    rungs = tuple(answers.rungs)
    if not call.is_over:
        return PlayedTrouble(rungs, None, "", clock.now)
    last = call.journal.last
    cause = (last.note or "") if last.event == "ran_out" else ""
    outcome = call.result.outcome
    grade = GRADES.index(call.policy.table.kind_of_end(outcome))
    return PlayedTrouble(rungs, outcome, cause, call.spending.elapsed, grade)


class _TroubleAnswers(Answers):
    """Answer one call with a trouble, and with an answer where the scene says so."""

    def __init__(self, trouble: Trouble, scene: Scene) -> None:
        self.trouble = trouble
        self.scene = scene
        self.rungs: list[tuple[str, float]] = []  # each with the seconds of the wait before it
        self.proposal = ("", 0.0)  # the rung of what goes out next, and its wait

    def proposed(self, call: Call, send: Send) -> Send | None:
        """Note the rung, which the budget may change by the end of the wait; stop after many."""
        if len(self.rungs) == MOST_PLAYED:
            return None
        self.proposal = (call.position.state, send.wait)
        return send

    def answer(
        self,
        call: Call,
        sent: Send,
        now: float,
    ) -> Arrival:
        """Return the trouble, or an answer."""
        self.rungs.append(self.proposal)
        number = len(self.rungs)
        reply: Reply | Failure = ANSWER
        end = now
        if self.scene.takes(number, sent.backend):
            reply, end = _comes_back(call, self.trouble, number, now)
        if isinstance(reply, Reply):
            reply = reported(reply, sent.max_tokens, call.request.input_tokens)
        return Arrival(reply, end)


def reported(reply: Reply, cap: int | None, prompt: int | None) -> Reply:
    """Add the usage that a provider reports.

    Arguments:
        reply: what comes back. If it is cut at its cap, it has used all of it.
        cap: the output tokens that the request allows; None for no cap.
        prompt: its input tokens; None if they are unknown.
    """
    if reply.interrupted:
        return reply  # usage comes last
    output = least_tokens(*texts_of(reply))
    if reply.stop_reason == "length" and cap:
        output = cap
    return evolve(reply, usage=Usage(prompt or PROMPT, output))


def _comes_back(
    call: Call, trouble: Trouble, number: int, now: float
) -> tuple[Reply | Failure, float]:
    """Return what comes back, and when, as with a driver that keeps the clocks of the call.

    Arguments:
        call: the call, with an attempt in flight.
        trouble: what goes wrong.
        number: of the attempt, from 1.
        now: when the attempt went out, in seconds on the clock.
    """
    came = trouble.comes(number)
    if isinstance(came, Response):
        came = came.failure
    if trouble.lasts == "no time":
        return came, now
    clocks = call.clocks()
    latest = clocks.before_text
    if trouble.lasts == "silence" and clocks.first_token is not None and latest is not None:
        end = now + clocks.first_token
        if end <= latest and (clocks.ends_by is None or end <= clocks.ends_by):
            return came, end
    ends = []
    total = call.policy.timeouts.total
    if total is not None:
        ends.append(now + total)
    if clocks.ends_by is not None:
        ends.append(clocks.ends_by)
    return Failure("timeout"), min(ends, default=now)
