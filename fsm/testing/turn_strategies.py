"""Hypothesis strategies for turns and their policies, and a ready stateful test of several turns.

Theory. What a turn can go wrong at lies deep: a ceiling of rounds, a compaction when nothing is
left, a run of equal calls. Uniform draws almost never get there. So `scripts_of_turns` draws three
shapes of script apart: anything at all, some rounds of tools and then one ending, and overflows
first. `evenly` says how often each comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.policy import Budget, Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.checks.honesty import assert_turn_honest
from rungwise.fsm.testing.compactors import turn_compactors
from rungwise.fsm.testing.policy_strategies import limits, policies
from rungwise.fsm.testing.samples import ANSWER
from rungwise.fsm.testing.scripted import Scripted, VirtualClock
from rungwise.fsm.testing.stateful import check_settings
from rungwise.fsm.testing.strategies import (
    evenly,
    failures,
    in_runs,
    plays,
    replies,
    scripts_of_replies,
    seldom,
    texts,
    usages,
)
from rungwise.fsm.testing.turn_player import TurnPlayer
from rungwise.fsm.testing.turn_script import CONVERSATIONS, TOOLS, Stop, TurnScript, tool_plays
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy
from rungwise.fsm.turn.tools import Toolbox

UNKNOWN: Final = ("nowhere", "functions.look_up", "look up", "Grüße", "x" * 100)
"""What models call that nobody gave them; some of these can be sent back to no provider."""
IDS: Final = ("call_1", "call_2", "call_1", "", "call 3!")
FITTING: Final = ('{"path": "x"}', '{"path": "y", "n": 2}', ' { "path" : "x" } ')
UNFITTING: Final = (
    "{}",
    "",
    '{"n": "many"}',
    '{"path": 5}',
    '{"path": "' + "z" * 3000 + '"}',
    '{"path": "x", "q": {}}',
)
MANY: Final = 40  # tool calls of a reply that went out of hand
LATEST: Final = 30
LONG: Final = ("a turn of ours", "a turn of another provider", "a turn of ours")
"""What a compactor can shorten comes more often."""
OVERFLOW: Final = Failure("context_overflow")


def called_tools(*, tools: Toolbox = TOOLS) -> SearchStrategy[Reply]:
    """Generate replies that call tools, several at once, with arguments of every kind.

    Arguments:
        tools: what is mostly called; one call in six is of an unknown tool.
    """
    name = st.sampled_from(tuple(tools.tools) or UNKNOWN)
    names = st.one_of(name, name, name, name, name, st.sampled_from(UNKNOWN))
    arguments = st.sampled_from(FITTING) | st.sampled_from(FITTING + UNFITTING)
    call = st.builds(ToolCall, st.sampled_from(IDS), names, arguments)
    some = st.lists(call, min_size=1, max_size=4)
    note_names = st.sampled_from(("note", "title"))
    note = st.builds(ToolCall, st.just("n1"), note_names, st.just("{}"))
    notes = st.lists(note, min_size=1)
    many = call.map(lambda one: [one] * MANY)
    calls = evenly(some, some, some, some, some, some, some, notes, notes, many)
    text = st.one_of(st.just(""), st.just(ANSWER), texts())
    stop = st.just("tool_calls")
    return st.builds(
        Reply,
        text,
        tool_calls=calls.map(tuple),
        stop_reason=stop,
        stop_raw=stop,
        usage=usages(most=500),
    )


def _turning() -> SearchStrategy[Scripted]:
    """Generate trouble for turns, beyond that of their calls."""
    overflow = st.just(OVERFLOW)
    few = usages(most=500)
    length = st.just("length")
    beginnings = st.sampled_from((ANSWER, "They nest in ", "and in the bank, "))
    cut = st.builds(
        Reply,
        beginnings,
        stop_reason=length,
        stop_raw=length,
        usage=few,
    )
    stop = st.just("stop")
    empty = st.builds(
        Reply,
        stop_reason=stop,
        stop_raw=stop,
        usage=few,
    )
    filtered = st.just("content_filter")
    refused = st.builds(Reply, stop_reason=filtered, stop_raw=filtered)
    halves = st.sampled_from((ANSWER, "They nest in the "))
    broken = st.builds(Reply, halves, interrupted=st.just(True))
    return evenly(overflow, cut, empty, overflow, refused, broken)


def scripts_of_turns(*, tools: Toolbox = TOOLS, stops: bool = True) -> SearchStrategy[TurnScript]:
    """Generate everything that may happen to a turn.

    Arguments:
        tools: what the model may call; it calls others, too.
        stops: whether some turns are cancelled, or dropped half-way.
    """
    troubles: SearchStrategy[Scripted] = evenly(failures(), plays())  # of calls
    calling = called_tools(tools=tools)
    rest = evenly(replies(), _turning(), troubles)
    each: SearchStrategy[Scripted] = evenly(rest, calling, calling)
    anything = scripts_of_replies(items=each, longest=6, longest_run=4)
    # Ceilings are reached by rounds of tools in a row; what comes then matters most.
    some = st.lists(calling, min_size=1, max_size=5)
    rounds = st.builds(_rounds, some, rest, st.integers(1, 3))
    # What does not fit is compacted, at a time when there may be none left.
    long = st.builds(_overflowing, st.integers(1, 3), anything)
    stop: SearchStrategy[Stop | None] = st.none()
    if stops:
        kinds = st.sampled_from(("cancel", "kill"))
        stop = seldom(st.builds(Stop, kinds, st.integers(0, LATEST)))
    runs = st.lists(st.tuples(tool_plays(), st.integers(1, 4)), min_size=1, max_size=4)
    asked = st.sampled_from((*CONVERSATIONS, *LONG))
    max_tokens = st.sampled_from((None, None, None, 4096, 50, 1))
    latency = st.sampled_from((0.0, 0.5, 20.0, 20.0))
    return st.builds(
        TurnScript,
        replies=evenly(anything, rounds, anything, rounds, long),
        tools=runs.map(in_runs),
        asked=asked,
        max_tokens=max_tokens,
        compactor=turn_compactors() | st.none(),
        stop=stop,
        latency=latency,
        streams=st.booleans(),
        contents=st.booleans(),
        is_fair=st.booleans(),
    )


def _rounds(calling: list[Reply], end: Scripted, times: int) -> list[Scripted]:
    """Write rounds of tools, and how they end, so many times."""
    return [*calling, *[end] * times]


def _overflowing(times: int, rest: list[Scripted]) -> list[Scripted]:
    """Write requests that do not fit, so many times, and what comes then."""
    return [OVERFLOW] * times + rest


_FIELDS: Final[Mapping[str, SearchStrategy[Any]]] = {
    "auto_continues": st.sampled_from((3, 2, 1, 0, 25)),
    "faults": st.sampled_from((3, 2, 1)),
    "compactions": st.integers(0, 3),
    "summary": st.sampled_from((True, True, False)),
    "same_calls": st.sampled_from((5, 5, 2, 1)),
    "calls_per_reply": st.sampled_from((32, 32, 32, 2, 1)),
    "calls_at_once": st.sampled_from((8, 1, 2)),
    "tool_seconds": st.sampled_from((60.0, 10.0)),
    "window": st.sampled_from((128_000, 2_000, 100, 1)),
    "results_share": st.sampled_from((0.25, 1.0)),
}
"""The values of the plain fields of a policy of turns, the default first."""


def turn_policies(
    *, calls: SearchStrategy[Policy] | None = None, money: bool = False
) -> SearchStrategy[TurnPolicy]:
    """Generate policies of turns.

    Arguments:
        calls: generates the policies of their calls; those with small limits where None.
        money: whether some have a budget of money, which needs prices on every backend.
    """
    if calls is None:
        calls = policies(limits=limits(most=2), money=money)
    return st.builds(
        TurnPolicy,
        call=calls,
        budget=_budgets(money=money),
        **_FIELDS,
    )


def _budgets(*, money: bool) -> SearchStrategy[Budget]:
    amounts: SearchStrategy[float | None] = st.none()
    if money:
        amounts = seldom(st.floats(0.001, 1.0))
    attempts = st.sampled_from((100, 24)) | st.integers(1, 30)
    seconds = seldom(st.sampled_from((600.0, 60.0, 5.0, 5.0)))
    tokens = seldom(st.integers(1, 50_000))
    return st.builds(
        Budget, attempts=attempts, seconds=seconds, output_tokens=tokens, money=amounts
    )


SHARED = "turns never pass the budget that they share"
MOVES = "a turn whose budget is free goes on"
DEFAULT_SHARED = Budget(attempts=40, output_tokens=100_000)


class TurnMachine(RuleBasedStateMachine):
    """Interleave turns that share a budget.

    The rules begin, continue, cancel and take away turns. The invariants say that together they
    never pass the budget, and that some turn can always go on. Subclass it, or call `turns_of`, to
    configure the turns.
    """

    policy: ClassVar[TurnPolicy] = DEFAULT_TURN_POLICY
    """How the turns go on."""
    chain: ClassVar[int | Sequence[Link]] = 2
    """The backends of their calls, or how many there are."""
    shared: ClassVar[Budget] = DEFAULT_SHARED
    """What all of them may spend together."""
    most: ClassVar[int] = 3
    """How many turns there are at once."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.within = SharedBudget(self.shared)
        self.turns: list[TurnPlayer] = []
        self.sent = 0
        self.tokens = 0

    @property
    def able(self) -> list[TurnPlayer]:
        """List the turns that can go on now."""
        return [each for each in self.turns if not each.is_over and not each.is_waiting]

    @precondition(lambda self: len(self.turns) < self.most)
    @rule(script=scripts_of_turns(stops=False))
    def begin(self, script: TurnScript) -> None:
        """Begin a turn, with fair providers."""
        player = TurnPlayer.of(
            self.policy,
            evolve(script, is_fair=True),
            chain=self.chain,
            within=self.within,
            clock=self.clock,
        )
        player.run.is_interleaved = True
        self.turns.append(player)
        player.go_on()

    @precondition(lambda self: self.able)
    @rule(which=st.integers(0, 2), times=st.integers(1, 10))
    def go_on(self, which: int, times: int) -> None:
        """Play some moments of a turn."""
        going = self.able[which % len(self.able)]
        while times and not going.is_over and not going.is_waiting:
            going.go_on()
            times -= 1

    @precondition(lambda self: any(not each.is_over for each in self.turns))
    @rule(which=st.integers(0, 2))
    def cancel(self, which: int) -> None:
        """End a turn from outside."""
        ongoing = [each for each in self.turns if not each.is_over]
        ongoing[which % len(ongoing)].stop("cancel")

    @precondition(lambda self: any(each.is_over for each in self.turns))
    @rule(which=st.integers(0, 2))
    def take_away(self, which: int) -> None:
        """Check an ended turn, and make room for another."""
        over = [each for each in self.turns if each.is_over]
        going = over[which % len(over)]
        sent, tokens = spent_by(going)
        self.sent += sent
        self.tokens += tokens
        self.check(going)
        self.turns.remove(going)

    @invariant()
    def the_budget_is_never_passed(self) -> None:
        """Compare requests and tokens with the budget."""
        spent = [spent_by(going) for going in self.turns]
        sent = self.sent + sum(each for each, _ in spent)
        tokens = self.tokens + sum(each for _, each in spent)
        budget = self.shared
        if sent > budget.attempts:
            raise Dishonest(
                SHARED, f"{sent} requests went out, and it has {budget.attempts} attempts"
            )
        if budget.output_tokens is not None and tokens > budget.output_tokens:
            raise Dishonest(
                SHARED, f"{tokens} output tokens were used, and it has {budget.output_tokens}"
            )

    @invariant()
    def somebody_can_go_on(self) -> None:
        """Check that not all turns wait for each other."""
        ongoing = [each for each in self.turns if not each.is_over]
        if ongoing and not self.able:
            raise Dishonest(
                MOVES, f"{len(ongoing)} turns wait, and none of them holds anything that comes back"
            )

    def check(self, going: TurnPlayer) -> None:
        """Check an ended turn; override to pass a certificate."""
        assert_turn_honest(going.run)

    def teardown(self) -> None:
        """Cancel the running turns, and check every turn."""
        for going in self.turns:
            if not going.is_over:
                going.stop("cancel")
            self.check(going)


def spent_by(going: TurnPlayer) -> tuple[int, int]:
    """Return the requests of a turn, and the output tokens that its providers reported."""
    sent = 0
    tokens = 0
    for each in going.run.calls:
        sent += len(each.sent_at)
        for step in each.call.journal.steps:
            # What a caller broke off is counted by its words, which nobody has held to the cap.
            if step.event != "cancelled":
                tokens += step.usage.output_tokens
    return sent, tokens


def turns_of(
    policy: TurnPolicy,
    *,
    chain: int | Sequence[Link] = 2,
    shared: Budget = DEFAULT_SHARED,
    most: int = 3,
) -> type[TurnMachine]:
    """Return the stateful test of a policy: `TestMine = turns_of(policy).TestCase`.

    Arguments:
        policy: how the turns go on.
        chain: the backends of their calls, or how many there are.
        shared: what all of them may spend together.
        most: how many turns there are at once.

    Raises:
        ConfigurationError: the policy is none, no backend can be used, prices are missing, or there
            is no turn.
    """
    if not isinstance(shared, Budget):
        raise ConfigurationError(f"shared must be a Budget, not {type(shared).__name__}")
    budgets: list[Budget] = []
    if isinstance(policy, TurnPolicy):
        budgets = [policy.budget, policy.of_calls.budget, shared]
    check_settings(policy, TurnPolicy, chain, budgets, most, "turns")
    settings = {
        "policy": policy,
        "chain": chain,
        "shared": shared,
        "most": most,
    }
    return type("TurnMachine", (TurnMachine,), settings)
