"""What `rungwise fuzz --turn` runs: turns in memory, over providers, tools, compactors and callers that do anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from attrs import define, evolve, field, fields, frozen
from hypothesis import Phase

from rungwise.adapters.testing.search import Finding, Search
from rungwise.fsm.call.conversation.link import PlainLink, Prices
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.testing.backend import ScriptedLink
from rungwise.fsm.testing.checks.honesty import check_turn, record_turn
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.testing.turn_player import run_turn
from rungwise.fsm.testing.turn_script import TurnScript, write_turn_script
from rungwise.fsm.testing.turn_strategies import scripts_of_turns
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy

PRICES = Prices(input=1.0, output=10.0)


@frozen
class TurnCase:
    """Hold one turn to be played.

    Arguments:
        script: what happens to it.
    """

    is_served: ClassVar[bool] = False
    """Whether `rungwise serve` takes what is written down."""

    script: TurnScript

    def describe(self) -> Iterator[str]:
        """Say how the script is played again."""
        yield "play it again: rungwise.testing.run_turn(POLICY, rungwise.testing.read_turn_script(text))"

    def to_toml(self) -> str:
        """Write the script as `read_turn_script` takes it."""
        return write_turn_script(self.script)

    def shrunk(self, fails: Callable[[TurnCase], bool]) -> TurnCase:
        """Return the smallest case to be found that fails.

        Arguments:
            fails: tells whether another case fails in the same way as this one.
        """
        case = self
        while smaller := next(filter(fails, case._smaller()), None):
            case = smaller
        return case

    def _smaller(self) -> Iterator[TurnCase]:
        """Generate cases with a reply or a run of a tool less, or a field of their own at its default."""
        script = self.script
        for name in ("replies", "tools"):
            items = getattr(script, name)
            for index in range(len(items) if len(items) > 1 else 0):
                less: dict[str, Any] = {name: (*items[:index], *items[index + 1 :])}
                yield TurnCase(evolve(script, **less))
        plain = TurnScript(script.replies)
        for attribute in fields(TurnScript):
            change: dict[str, Any] = {attribute.name: getattr(plain, attribute.name)}
            if getattr(script, attribute.name) != change[attribute.name]:
                yield TurnCase(evolve(script, **change))


@define(eq=False)
class TurnFuzzer(Search):
    """Play turns until one is dishonest, or time is up.

    Arguments:
        policy: how the turns go on.
        backends: how many backends the chain has.
        seed: what the examples follow from.
        progress: is called after each example.
        coverage: what was covered.
        examples: how many were played.
    """

    policy: TurnPolicy = DEFAULT_TURN_POLICY
    _certificates: dict[int | None, Certificate] = field(factory=dict, init=False)

    def _run_numbered(self, number: int, count: int) -> Finding | None:
        drawn = scripts_of_turns().map(TurnCase)
        return self._run_batch(drawn, f"{self.seed}/{number}/turns", count, (Phase.generate, Phase.shrink))

    def check(self, case: TurnCase) -> None:
        """Play one turn and check that it is honest.

        Raises:
            Dishonest: it is not.
        """
        chain = [ScriptedLink(f"backend-{number}", prices=PRICES) for number in range(1, self.backends + 1)]
        run = run_turn(self.policy, case.script, chain=chain)
        seen = SeenTurn(run, self._certify(case.script.max_tokens))
        check_turn(seen)
        record_turn(self.coverage, seen)

    @property
    def certificate(self) -> Certificate:
        """Return what is proved of the policy, for a request of which nothing is known."""
        return self._certify(None)

    def _certify(self, max_tokens: int | None) -> Certificate:
        if max_tokens not in self._certificates:
            chain = [PlainLink(f"backend-{number}", prices=PRICES) for number in range(1, self.backends + 1)]
            self._certificates[max_tokens] = verify(self.policy, chain, max_tokens=max_tokens)
        return self._certificates[max_tokens]
