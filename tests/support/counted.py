"""Journals of several days, models and outcomes, for what is counted of them."""

from collections.abc import Iterator

import orjson

from rungwise import Policy, Prices, Usage
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.analysis.stats.counts import Stats
from support.turns import BUSY, calling, played, said

BEGAN = 1_795_000_000.0
"""The 18th of November 2026, in seconds since 1970."""

DAY = 86_400.0
ANSWER = Reply("Yes.", stop_reason="stop", usage=Usage(1_000_000, 100_000))
SCRIPTS = (
    (ANSWER,),
    (Failure("overloaded", status=529), ANSWER),
    (Failure("auth", status=401), ANSWER),
    (Failure("auth", status=401), Failure("auth", status=403)),
)


def journals(model: str = "gpt-5") -> Iterator[bytes]:
    """Yield the journals of four calls on each of two days, and of a turn with two calls that has
    no date.
    """
    for day in range(2):
        for script in SCRIPTS:
            chain = [
                PlainLink("openai", model=model, prices=Prices(1, 10)),
                PlainLink("claude", model="sonnet", prices=Prices(3, 15)),
            ]
            call = Call(Request("?"), Policy(), chain, jitter=lambda: 0.5)
            call.begin(0.0)
            for place, reply in enumerate(script, start=1):
                call.receive(reply, 3.0 * place)
            document = orjson.loads(call.journal.to_json())
            document["started"] = BEGAN + day * DAY
            document["steps"][-1]["first_token"] = 0.456
            yield orjson.dumps(document)
    yield orjson.dumps(
        orjson.loads(played(calling("look"), BUSY, said("By the lake."), seed=2).journal.to_json())
    )


def stats_of(model: str = "gpt-5") -> Stats:
    """Count these journals."""
    from rungwise.adapters.cli.journals.stats import _read

    stats = Stats()
    for text in journals(model):
        journal = _read(text)
        assert not isinstance(journal, str)
        stats.add(journal)
    return stats
