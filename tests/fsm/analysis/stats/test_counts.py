"""What journals come to: the counts are those of a naive recount, and bounded whatever the journals
hold.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from rungwise import Journal, Policy, Prices, TurnJournal, TurnPolicy, Usage
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.analysis.stats import counts as module
from rungwise.fsm.analysis.stats.counts import Stats
from rungwise.fsm.call.run.call_digest import digest_of_journal
from rungwise.fsm.turn.turn_journal import TurnSetting
from rungwise.testing import run, run_turn, scripts_of_replies, scripts_of_turns

PRICED = PlainLink("dear", model="big", prices=Prices(3, 15))
CHAIN = [PRICED, PlainLink("free", model="small"), PlainLink("old")]
DAYS = (None, 0.0, 1_795_000_000.0, 1_795_100_000.5, -5.0, 1e15)


def day_of(started: float | None) -> str:
    if started is None or not 0 <= started < 1e11:
        return "-"
    return datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d")


def recounted(
    journals: list[tuple[Journal, float | None]],
) -> Iterator[tuple[tuple[str, str], str, Any]]:
    """Yield the group, the kind and the name of everything that happened in some calls."""
    for journal, started in journals:
        models = {link.name: link.model or "-" for link in CHAIN}
        last = day_of(started), models[journal.steps[-1].backend]
        yield last, "outcomes", journal.outcome or "not ended"
        for step in journal.steps:
            group = day_of(started), models[step.backend]
            if step.event == "sent":
                yield group, "rungs", step.source
                yield group, "backends_reached", step.backend
            elif step.event in ("skipped", "found_open"):
                yield group, "backends_skipped", step.backend
            if step.event not in ("sent", "skipped", "answered", "called_tools"):
                yield group, "causes", step.event + (f" ({step.reason})" if step.reason else "")


def assert_counted(stats: Stats, journals: list[tuple[Journal, float | None]]) -> None:
    """Assert that counts are those of a recount."""
    shown = stats.as_mapping()
    found = Counter(recounted(journals))
    steps = [step for journal, _ in journals for step in journal.steps]
    for each in shown["groups"]:
        for kind in ("outcomes", "rungs", "causes", "backends_reached", "backends_skipped"):
            own = {
                name: n
                for (group, of, name), n in found.items()
                if (group, of) == ((each["day"], each["model"]), kind)
            }
            assert each[kind] == own
            assert [*each[kind].values()] == sorted(own.values(), reverse=True)
    total = shown["total"]
    assert total["calls"] == len(journals)
    assert total["attempts"] == sum(step.event == "sent" for step in steps)
    assert total["waits"]["count"] == sum(step.wait > 0 for step in steps)
    assert total["waited"] == pytest.approx(sum(step.wait for step in steps), abs=1e-3)
    assert total["input_tokens"] == sum(step.usage.input_tokens for step in steps)
    assert total["output_tokens"] == sum(step.usage.output_tokens for step in steps)
    digests = [digest_of_journal(journal) for journal, _ in journals]
    costs = [digest.spent.cost or 0 for digest in digests if digest]
    assert (total["cost"] or 0) == pytest.approx(sum(costs))
    assert bool(total["unpriced_replies"]) == any(
        digest.spent.is_least for digest in digests if digest
    )
    for share, name in ((0.5, "p50"), (0.95, "p95")):
        took = sorted(journal.steps[-1].at for journal, _ in journals)
        assert total["seconds"][name] == pytest.approx(
            took[-int(-share * len(took) // 1) - 1], rel=0.051
        )


@given(st.lists(st.tuples(scripts_of_replies(), st.sampled_from(DAYS)), min_size=1, max_size=4))
def test_the_counts_of_calls_are_those_of_a_recount(scripts: list[Any]) -> None:
    stats = Stats()
    journals = []
    for script, started in scripts:
        journal = run(Policy(), script, chain=CHAIN, latency=0.7).journal
        journal.started = started
        journals.append((journal, started))
        stats.add(Journal.from_json(journal.to_json()))
    assert_counted(stats, journals)


@given(scripts_of_turns(), st.sampled_from(DAYS))
def test_a_turn_counts_with_its_calls(script: Any, started: float | None) -> None:
    journal = run_turn(TurnPolicy(), script, chain=CHAIN).turn.journal
    journal.started = started
    stats = Stats()
    stats.add(TurnJournal.from_json(journal.to_json()))
    calls = [(call, started) for call in journal.calls if call.size]
    if len(calls) == len(journal.calls) and calls:
        assert_counted(stats, calls)
    assert stats.as_mapping()["total"]["turns"] == {journal.outcome or "not ended": 1}


def answered(outcome: str = "done") -> Journal:
    call = Call(Request("?"), Policy(), [PRICED, CHAIN[1]])
    call.begin(0.0)
    call.receive(Failure("overloaded", status=529), 1.0)
    call.receive(Reply("Yes.", stop_reason="stop", usage=Usage(1_000_000, 100_000)), 4.0)
    journal = Journal.from_json(call.journal.to_json())
    journal.outcome = outcome
    return journal


def test_every_number_of_one_call() -> None:
    stats = Stats()
    journal = answered()
    journal.started = 1_795_000_000.0
    last = evolve(journal.last, first_token=0.456)
    journal._rows[-1] = last
    stats.add(journal)
    shown = stats.as_mapping()
    wait = journal.steps[1].wait
    assert shown["total"] == {
        "calls": 1,
        "attempts": 2,
        "outcomes": {"done": 1},
        "turns": {},
        "rungs": {"ask": 1, "retry": 1},
        "causes": {"failed_transiently (overloaded)": 1},
        "backends_reached": {"dear": 2},
        "backends_skipped": {},
        "waits": {
            "count": 1,
            "p50": pytest.approx(wait, rel=0.05),
            "p95": pytest.approx(wait, rel=0.05),
        },
        "first_token": {"count": 1, "p50": 0.46, "p95": 0.46},
        "seconds": {"count": 1, "p50": 4.0, "p95": 4.0},
        "waited": pytest.approx(wait),
        "input_tokens": 1_000_000,
        "output_tokens": 100_000,
        "unpriced_replies": 0,
        "cost": 4.5,
    }
    assert [(each["day"], each["model"], each["calls"]) for each in shown["groups"]] == [
        ("2026-11-18", "big", 1)
    ]


def test_a_call_that_changes_the_backend_counts_where_it_ends_and_its_attempts_where_they_went() -> (  # noqa: E501
    None
):
    call = Call(Request("?"), Policy(), CHAIN)
    call.begin(0.0)
    call.receive(Failure("auth", status=401), 1.0)
    call.receive(Reply("Yes.", stop_reason="stop", usage=Usage(9, 9)), 2.0)
    stats = Stats()
    stats.add(call.journal)
    big, small = stats.as_mapping()["groups"]
    assert (big["model"], big["calls"], big["attempts"], big["causes"]) == (
        "big",
        0,
        1,
        {"failed_permanently (auth)": 1},
    )
    assert (small["model"], small["calls"], small["attempts"], small["cost"]) == (
        "small",
        1,
        1,
        None,
    )
    assert stats.as_mapping()["total"]["cost"] is None


def test_a_journal_without_steps_counts_as_not_ended() -> None:
    stats = Stats()
    stats.add(Call(Request("?"), Policy(), CHAIN).journal)
    assert stats.as_mapping()["groups"][0]["outcomes"] == {"not ended": 1}
    assert Stats().as_mapping()["total"]["calls"] == 0


def test_a_turn_without_calls_counts_as_a_turn() -> None:
    journal = TurnJournal(
        table="turn", counters=(), outcome="cancelled", setting=TurnSetting(TurnPolicy())
    )
    stats = Stats()
    stats.add(journal)
    [group] = stats.as_mapping()["groups"]
    assert (group["day"], group["model"], group["calls"], group["turns"]) == (
        "-",
        "-",
        0,
        {"cancelled": 1},
    )


@pytest.mark.full
def test_what_strangers_name_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 50)
    stats = Stats()
    for number in range(500):
        journal = answered(f"outcome {number}" + "\x1b[31m" * 100)
        journal.started = 86_400.0 * number
        stats.add(journal)
    assert len(stats.counts) < 100
    shown = stats.as_mapping()
    assert shown["total"]["calls"] == 500
    assert all(len(name) <= 80 and name.isprintable() for name in shown["total"]["outcomes"])


@given(st.lists(st.floats(0, 1e15), min_size=1))
def test_times_are_right_to_two_digits_and_few(times: list[float]) -> None:
    stats = Stats()
    for each in times:
        stats._count(("-", "-"), "seconds", each)
    exact = sorted(times)[(len(times) + 1) // 2 - 1]
    assert stats.as_mapping()["total"]["seconds"]["p50"] == pytest.approx(
        exact, rel=0.051, abs=1e-6
    )
    assert len(stats.counts) <= 90 * 22
