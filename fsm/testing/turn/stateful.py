"""A ready stateful test: several turns at once under one shared budget, in whatever order Hypothesis likes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from attrs import define, evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.call.run.chain import Chain
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.testing.backend import links
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.clock import VirtualClock
from rungwise.fsm.testing.turn.honesty import assert_turn_honest
from rungwise.fsm.testing.turn.player import TurnPlayer
from rungwise.fsm.testing.turn.script import TurnScript
from rungwise.fsm.testing.turn.strategies import scripts_of_turns
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy
from rungwise.fsm.values.checks import is_whole
from rungwise.fsm.values.label import short

SHARED = "turns never pass the budget that they share"
MOVES = "a turn whose budget is free goes on"
DEFAULT_SHARED = Budget(attempts=40, output_tokens=100_000)


@define(eq=False)
class OngoingTurn:
    """Follow one turn.

    Arguments:
        player: plays it.
        moments: what is still to come.
        is_over: whether nothing is.
    """

    player: TurnPlayer
    moments: Iterator[str]
    is_over: bool = False

    def go_on(self) -> None:
        """Let the next thing happen."""
        self.is_over = next(self.moments, None) is None
        self.player.run.seen.append(self.player.run.turn.messages)

    def cancel(self) -> None:
        """End it from outside."""
        self.player.stop("cancel")
        self.is_over = True
        self.moments = iter(())
        self.player.run.seen.append(self.player.run.turn.messages)


class TurnMachine(RuleBasedStateMachine):
    """Interleave turns that share a budget: begin, go on, cancel; they never pass it, and all stay honest.

    Derive from it, or call `turns_of`, to set what the turns are made of.
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
        self.turns: list[OngoingTurn] = []
        self.sent = 0
        self.tokens = 0

    @property
    def able(self) -> list[OngoingTurn]:
        """List the turns that can go on now."""
        return [each for each in self.turns if not each.is_over and not each.player.is_waiting]

    @precondition(lambda self: len(self.turns) < self.most)
    @rule(script=scripts_of_turns(stops=False))
    def begin(self, script: TurnScript) -> None:
        """Begin a turn, at providers that keep to what they are asked for."""
        player = TurnPlayer.of(
            self.policy, evolve(script, is_fair=True), chain=self.chain, within=self.within, clock=self.clock
        )
        player.run.is_interleaved = True
        going = OngoingTurn(player, player.moments())
        self.turns.append(going)
        going.go_on()

    @precondition(lambda self: self.able)
    @rule(which=st.integers(0, 2), times=st.integers(1, 10))
    def go_on(self, which: int, times: int) -> None:
        """Let a turn go on for a while."""
        going = self.able[which % len(self.able)]
        while times and not going.is_over and not going.player.is_waiting:
            going.go_on()
            times -= 1

    @precondition(lambda self: any(not each.is_over for each in self.turns))
    @rule(which=st.integers(0, 2))
    def cancel(self, which: int) -> None:
        """End a turn from outside."""
        ongoing = [each for each in self.turns if not each.is_over]
        ongoing[which % len(ongoing)].cancel()

    @precondition(lambda self: any(each.is_over for each in self.turns))
    @rule(which=st.integers(0, 2))
    def take_away(self, which: int) -> None:
        """Check a turn that is over, and make room for another."""
        over = [each for each in self.turns if each.is_over]
        self._check(over[which % len(over)])
        self.turns.remove(over[which % len(over)])

    @invariant()
    def the_budget_is_never_passed(self) -> None:
        """Count what has gone out and what was used, and compare with the budget."""
        spent = [spent_by(going) for going in self.turns]
        sent, tokens = self.sent + sum(each for each, _ in spent), self.tokens + sum(each for _, each in spent)
        budget = self.shared
        if sent > budget.attempts:
            raise Dishonest(SHARED, f"{sent} requests went out, and it has {budget.attempts} attempts")
        if budget.output_tokens is not None and tokens > budget.output_tokens:
            raise Dishonest(SHARED, f"{tokens} output tokens were used, and it has {budget.output_tokens}")

    @invariant()
    def somebody_can_go_on(self) -> None:
        """Check that not all turns wait for each other."""
        ongoing = [each for each in self.turns if not each.is_over]
        if ongoing and not self.able:
            raise Dishonest(MOVES, f"{len(ongoing)} turns wait, and none of them holds anything that comes back")

    def _check(self, going: OngoingTurn) -> None:
        sent, tokens = spent_by(going)
        self.sent, self.tokens = self.sent + sent, self.tokens + tokens
        self.check(going)

    def check(self, going: OngoingTurn) -> None:
        """Check a turn that is over; derive to pass a certificate."""
        assert_turn_honest(going.player.run)

    def teardown(self) -> None:
        """End what still goes on, and check every turn."""
        for going in self.turns:
            if not going.is_over:
                going.cancel()
            self.check(going)


def spent_by(going: OngoingTurn) -> tuple[int, int]:
    """Return the requests of a turn, and the output tokens that its providers have reported, within the caps."""
    calls = going.player.run.calls
    # What a caller broke off is counted by its words, which nobody has held to the cap.
    steps = [step for each in calls for step in each.call.journal.steps if step.event != "cancelled"]
    return sum(len(each.sent_at) for each in calls), sum(step.usage.output_tokens for step in steps)


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
        ConfigurationError: the policy is none, no backend can be used, prices are missing, or there is no turn.
    """
    if not isinstance(policy, TurnPolicy):
        raise ConfigurationError(f"policy must be a TurnPolicy, not {type(policy).__name__}")
    if not isinstance(shared, Budget):
        raise ConfigurationError(f"shared must be a Budget, not {type(shared).__name__}")
    budgets = (policy.budget, policy.of_calls.budget, shared)
    Chain.of(links(chain), needs_prices=any(each.money is not None for each in budgets))
    if not is_whole(most, 1):
        raise ConfigurationError(f"most must be a whole number of turns, 1 or more, not {short(most)}")
    return type("TurnMachine", (TurnMachine,), {"policy": policy, "chain": chain, "shared": shared, "most": most})
