"""Counters rank above what they refill, or are refused."""

import pytest

from rungwise import Rung
from rungwise.core import TableError
from rungwise.fsm.machine.ranks import ranks_of


def test_counters_rank_above_what_they_refill() -> None:
    low, other, middle = Rung("low"), Rung("other"), Rung("middle", refills="lows")
    high = Rung("high", refills=("middles", "others"))
    for rungs in ((low, other, middle, high), (high, middle, low, other), (middle, low, high, other)):
        assert ranks_of(rungs) == (("highs",), ("middles",), ("lows", "others"))
    assert ranks_of([high, middle]) == (("highs",), ("middles",))
    assert ranks_of([low]) == (("lows",),)
    assert ranks_of([]) == ()


@pytest.mark.parametrize("refills", [{"a": "as"}, {"a": "bs", "b": "as"}, {"a": "bs", "b": "cs", "c": "as"}])
def test_counters_that_refill_each_other_or_themselves_have_no_rank(refills: dict[str, str]) -> None:
    names = " and ".join(f"'{name}s'" for name in refills)
    with pytest.raises(TableError, match=f"no counter can rank above what it refills where {names} refill each other"):
        ranks_of([Rung("free"), *(Rung(name, refills=refilled) for name, refilled in refills.items())])
