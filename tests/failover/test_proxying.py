"""The sixteen faults through `rungwise proxy`, and the chains with which it stands in the public
benchmark.
"""

import httpx
import pytest

from failover.endpoint import chains, models_of
from failover.faults import FAULTS, Fault
from failover.proxying import ROW, play_through_proxy
from failover.run import FAST, told
from rungwise.adapters.exam.grades import total
from support.proxies import proxy

SLOWER = 4.0
"""How much slower a fault is played again where the machine may have been late."""


def played(scale: float) -> str:
    """Play all faults, and return the sums."""
    row = {each.fault.name: each for each in play_through_proxy(scale=scale)}
    again: list[Fault] = [FAULTS[name] for name, each in row.items() if each.score.grade != "pass"]
    if again and scale != 1.0:
        row |= {each.fault.name: each for each in play_through_proxy(again, scale=scale * SLOWER)}
    assert not (failed := [each for each in row.values() if each.score.grade != "pass"]), "\n".join(
        told(ROW, failed, with_journal=True)
    )
    return total(each.score.grade for each in row.values())


@pytest.mark.full
def test_callers_of_the_proxy_get_every_fault_rescued():
    assert played(FAST) == "16-0-0-0"


@pytest.mark.slowest
@pytest.mark.full
def test_callers_of_the_proxy_get_every_fault_rescued_in_the_published_times():
    assert played(1.0) == "16-0-0-0"


CATALOGUE = {
    "default_fallback": "fb-ok",
    "scenarios": [{"model": "fb-s01"}, {"model": "fb-s14", "fallback_model": "fb-ok-noprefill"}],
}


@pytest.mark.full
def test_every_scenario_of_a_catalogue_has_a_chain_that_the_proxy_serves(tmp_path):
    models = models_of(CATALOGUE)
    assert models == {
        "fb-s01": ["fb-s01", "fb-ok"],
        "fb-ok": ["fb-ok"],
        "fb-s14": ["fb-s14", "fb-ok-noprefill"],
        "fb-ok-noprefill": ["fb-ok-noprefill"],
    }
    with proxy(chains(models, "http://127.0.0.1:9/v1"), tmp_path) as served:
        listed = httpx.get(f"{served.base_url}/models").json()
    assert {each["id"] for each in listed["data"]} == {*models}
