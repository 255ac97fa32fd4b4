"""What a script of a worst case is made from: what was played, and what no server can bring about."""

import pytest
from attrs import evolve

from rungwise import CALL, Budget, ConfigurationError, Limits, Policy, Prices
from rungwise.adapters.provider.enacted import script_of
from rungwise.core import Failure, Reply
from rungwise.fsm.call.table import RESEND
from rungwise.fsm.certificate.shown.scripts import WorstScript
from rungwise.fsm.certificate.worst import worst_cases
from support.tables import limits

pytestmark = pytest.mark.sampled(4)


def scripts_of(policy: Policy, backends: int = 1) -> dict[str, WorstScript]:
    bounded = policy.limits.bounded(policy.table.limits, backends)
    found = worst_cases(policy, bounded, [Prices(1, 2)] * backends, 100, 10)
    return {case.name: WorstScript(case, policy, backends) for case in found}


@pytest.mark.parametrize("backends", [1, 2])
def test_the_attempts_are_those_that_were_counted(backends: int) -> None:
    for name, worst in scripts_of(Policy.interactive(), backends).items():
        spent = worst.case.enacted.spent
        assert len(worst.attempts) == sum(worst.requests) == spent["attempts"] == len(worst.rungs)
        assert sum(each.wait for each in worst.attempts) == pytest.approx(spent["waiting seconds"])
        assert worst.takes == pytest.approx(spent["seconds"])
        replies = [each.came for each in worst.attempts if isinstance(each.came, Reply)]
        assert sum(reply.usage.output_tokens for reply in replies) == spent["output tokens"]
        assert (worst.closing > 0) == (name == "seconds")
        assert worst.unseen is None


def test_waits_that_nobody_asks_for_are_drawn() -> None:
    own = Policy(limits=Limits(continuations=0), waits=evolve(Policy().waits, longest_asked=0.0))
    worst = scripts_of(own)["waiting seconds"]
    assert worst.drawn == worst.case.attained
    still = evolve(own, waits=evolve(own.waits, jitter=0.0))
    assert scripts_of(still)["waiting seconds"].drawn == 0.0


@pytest.mark.full
def test_a_connection_that_must_be_lost_is_no_servers_to_lose() -> None:
    table = CALL.without("retry").with_rung(RESEND, failed_transiently="must_switch")
    policy = Policy(table=table, budget=Budget(seconds=None), limits=Limits(**limits(retries=2, continuations=1)))
    worst = scripts_of(policy)["waiting seconds"]
    assert any(isinstance(each.came, Failure) and each.came.is_stale for each in worst.attempts)
    with pytest.raises(ConfigurationError, match="no script can play waiting seconds at worst: it needs a connection"):
        script_of(worst)
