"""What `rungwise fuzz` runs for a policy of turns: turns in memory, on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, evolve, field, frozen
from hypothesis import Phase

from rungwise.adapters.testing.case import PRICES
from rungwise.adapters.testing.search import FuzzFinding, Search, Shrinkable, with_defaults
from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.call.chain.link import PlainLink
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.testing.checks.honesty import check_turn, record_turn
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.testing.scripted import ScriptedLink
from rungwise.fsm.testing.turn_player import run_turn
from rungwise.fsm.testing.turn_script import TurnScript, write_turn_script
from rungwise.fsm.testing.turn_strategies import scripts_of_turns
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy


@frozen
class TurnCase(Shrinkable):
    """One turn of a fuzz run."""

    script: TurnScript

    def describe(self) -> Iterator[str]:
        """Describe how to play the script again."""
        yield (
            "play it again: rungwise.testing.run_turn(POLICY, "
            "rungwise.testing.read_turn_script(text))"
        )

    def to_toml(self) -> str:
        """Write the script as `read_turn_script` takes it."""
        return write_turn_script(self.script)

    def smaller(self) -> Iterator[TurnCase]:
        """Generate cases with one reply or tool run less, or one field at its default."""
        script = self.script
        for name in ("replies", "tools"):
            items = getattr(script, name)
            if len(items) == 1:
                continue
            for index in range(len(items)):
                less = items[:index] + items[index + 1 :]
                yield TurnCase(evolve(script, **{name: less}))
        yield from map(TurnCase, with_defaults(script, TurnScript(script.replies)))


@define(eq=False)
class TurnFuzzer(Search):
    """Play turns until one is dishonest or time is up."""

    policy: TurnPolicy = DEFAULT_TURN_POLICY
    prices: Prices = PRICES  # of every backend
    _certificates: dict[int | None, Certificate] = field(factory=dict, init=False)

    def _run_numbered(self, number: int, count: int) -> FuzzFinding | None:
        drawn = scripts_of_turns().map(TurnCase)
        name = f"{self.seed}/{number}/turns"
        return self._run_batch(drawn, name, count, (Phase.generate, Phase.shrink))

    def check(self, case: TurnCase) -> None:
        """Play one turn and check that it is honest."""
        chain = [ScriptedLink(name, prices=self.prices) for name in self._names]
        run = run_turn(self.policy, case.script, chain=chain)
        seen = SeenTurn(run, self._certify(case.script.max_tokens))
        check_turn(seen)
        record_turn(self.coverage, seen)

    @property
    def _names(self) -> list[str]:
        return [f"backend-{number}" for number in range(1, self.backends + 1)]

    @property
    def certificate(self) -> Certificate:
        """Return the certificate of the policy for an unknown request."""
        return self._certify(None)

    def _certify(self, max_tokens: int | None) -> Certificate:
        if max_tokens not in self._certificates:
            chain = [PlainLink(name, prices=self.prices) for name in self._names]
            self._certificates[max_tokens] = verify(self.policy, chain, max_tokens=max_tokens)
        return self._certificates[max_tokens]
