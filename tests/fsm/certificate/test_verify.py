"""The certificate, and the tables that are refused when they are built."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable

import pytest
from attrs import define, evolve, field

from rungwise import CALL, Budget, ConfigurationError, Ladder, Limits, PlainLink, Policy, Prices, Row, Table, TableError
from rungwise.fsm.certificate.verify import TERMINATES, WELL_FORMED, check_table, verify
from rungwise.fsm.checker.structure import problems
from rungwise.fsm.checker.walk import BOUNDED, ENDS, FALLS

# the certificate


@pytest.mark.parametrize(("chain", "configurations"), [(1, 1289), (2, 2573), (3, 2573)])
def test_the_default_policy_is_proved(chain: int, configurations: int) -> None:
    certificate = verify(chain=chain)
    assert certificate.ok
    assert certificate.configurations == configurations
    assert certificate.limits["fallbacks"] == chain - 1
    assert set(certificate.walked.values()) <= {0, 1}
    assert [each.name for each in certificate.properties] == [
        "well-formed table",
        "honest endings",
        "terminates for all limits",
        "total",
        "deterministic by order",
        "no dead row",
        "no unreachable state",
        "finals absorb",
        "illegal events change nothing",
        "guards pure",
        "effects only count",
        "counters within limits",
        "the variant falls on every step",
        "every path ends",
        "every configuration can still reach done",
    ]
    assert len(certificate.overlaps) == 71
    assert [each.row for each in certificate.rows] == list(CALL.rows)


def test_json_states_everything_as_plain_values() -> None:
    plain = json.loads(json.dumps(verify(chain=2, max_tokens=4096).to_json()))
    assert plain["ok"] is True
    assert plain["chain"] == ["backend 1", "backend 2"]
    assert plain["configurations"] == 2573
    assert {each["verdict"] for each in plain["properties"]} == {"holds"}
    attempts = plain["worst"][0]
    assert (attempts["name"], attempts["value"], attempts["ladder"]) == ("attempts", 24, 62)
    assert attempts["ended_by"] == "budget.attempts"
    assert attempts["path"].startswith("ask, fallback")
    assert len(attempts["events"]) == 23
    row = next(each for each in plain["rows"] if each["takes"] == "continuations")
    assert row["refills"] == ["retries", "reasks", "prefills"]


def test_text_fits_80_columns_and_names_the_figures() -> None:
    text = verify(chain=2, max_tokens=4096).to_text()
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("call: everything holds\n")
    assert "attempts: 24; budget.attempts ends the path (the ladder alone: 62)" in text
    assert "[may_prefill] -> prefill on only_reasoned: finds prefills < limit, takes one" in text


def test_text_and_markdown_are_the_same_each_time() -> None:
    one, other = verify(max_tokens=100), verify(max_tokens=100)
    assert one.to_text() == other.to_text()
    assert one.to_markdown() == other.to_markdown()
    assert "| holds | every path ends |" in one.to_markdown()


def test_a_chain_of_links_is_taken_as_a_call_takes_it() -> None:
    prices = Prices(1.0, 2.0)
    chain = [
        PlainLink("broken", problem="no key"),
        PlainLink("first", prices=prices),
        PlainLink("first", prices=prices),
        PlainLink("second", prices=prices),
    ]
    certificate = verify(chain=chain, max_tokens=1000, input_tokens=500)
    assert certificate.chain == ("first", "second")
    assert certificate.limits["fallbacks"] == 1
    assert certificate.worst[3].value is not None
    assert "money: " in certificate.to_text()


@pytest.mark.parametrize("chain", [0, -1, True, [], [PlainLink(problem="no key")]])
def test_a_chain_without_a_backend_is_an_error(chain: object) -> None:
    with pytest.raises(ConfigurationError, match="backend"):
        verify(chain=chain)  # type: ignore[arg-type]


def test_the_policy_bounds_the_fallbacks_too() -> None:
    assert verify(Policy(limits=Limits(fallbacks=1)), 4).limits["fallbacks"] == 1
    assert verify(Policy(limits=Limits(fallbacks=9)), 4).limits["fallbacks"] == 3


def test_an_exhaustive_walk_takes_the_limits_of_the_policy() -> None:
    names = ("reasks", "nudges", "prefills", "enlargements", "repairs", "compactions")
    policy = Policy(limits=Limits(**dict.fromkeys(names, 0), retries=12, continuations=40))
    seen: list[int] = []
    certificate = verify(policy, exhaustive=True, progress=seen.append)
    assert certificate.ok
    assert certificate.walked == certificate.limits
    assert certificate.configurations == 1 + 13 * 41 + 12 * 41 + 13 * 40 + 8
    assert seen == [1000]


def test_the_assistant_turns_of_the_request_are_stated() -> None:
    chain = [PlainLink(prices=Prices(1.0, 2.0))]
    known = verify(chain=chain, max_tokens=1000, input_tokens=500, assistant_turns=4)
    assert known.to_json()["assistant_turns"] == 4
    assert "request  max_tokens 1000, input_tokens 500, assistant_turns 4\n" in known.to_text()
    unknown = verify(chain=chain, max_tokens=1000, input_tokens=500)
    assert "assistant_turns" not in unknown.to_text().partition("Properties")[0]
    assert "to each of 166 assistant turns" in " ".join(unknown.to_text().split())


def test_an_unknown_figure_says_what_is_missing() -> None:
    text = verify().to_text()
    assert "output tokens: not known" in text
    assert "money: not known" in text


# tables of one's own


def test_tables_without_some_rungs_are_accepted() -> None:
    table = CALL.without("prefill", "repair")
    certificate = verify(Policy(table=table), 2, max_tokens=100)
    assert certificate.ok
    assert certificate.worst[0].ladder == 1 + 1 + 3 + 5 * (3 + 3) + 2 * (1 + 3) + 3


def test_a_table_in_another_order_is_accepted() -> None:
    table = CALL.reordered("malformed", ["may_retry", "may_fall_back", "has_text", None])
    assert verify(Policy(table=table)).ok


@define(eq=False)
class Begging(Ladder):
    pleas: int = counter()

    @property
    def may_beg(self) -> bool:
        return self.pleas < self.limits.pleas  # type: ignore[attr-defined, no-any-return]

    def spend_plea(self) -> None:
        self.pleas += 1


BEG = Row("refused", "await", "may_beg", "beg", "spend_plea")


class BeggingLimits(Limits):
    pleas = 2


def test_a_rung_with_its_own_counter_is_accepted_and_counted() -> None:
    table = evolve(CALL, model=Begging, ranks=(*CALL.ranks, ("pleas",))).with_rows(BEG)
    certificate = verify(Policy(table=table, limits=BeggingLimits()), max_tokens=4096)
    assert certificate.ok
    assert certificate.worst[0].ladder == 46 + 2


def test_a_counter_without_a_limit_is_an_error() -> None:
    table = evolve(CALL, model=Begging, ranks=(*CALL.ranks, ("pleas",)))
    with pytest.raises(ConfigurationError, match="Limits has no limit 'pleas'"):
        verify(Policy(table=table))


@define(eq=False)
class Machine:
    """A model that is no ladder of a model call: the checker takes any."""

    limits: object
    rung: str = "work"
    row: Row | None = None
    attempts: int = 0
    rounds: int = counter()
    is_asked: bool = field(default=False, metadata={"kind": "fact"})

    @property
    def may_go_on(self) -> bool:
        return self.is_asked and self.rounds < self.limits.rounds  # type: ignore[attr-defined, no-any-return]

    def spend_round(self) -> None:
        self.rounds += 1

    def start(self) -> None:
        self.attempts += 1


ROUNDS = Table(
    name="rounds",
    rows=(
        Row("started", "work", None, "busy", "start"),
        Row("finished", "busy", "may_go_on", "work", "spend_round"),
        Row("finished", "busy", None, "over"),
    ),
    start="work",
    hub="busy",
    outcomes=("over",),
    ranks=(("rounds",),),
    model=Machine,  # type: ignore[arg-type]
)


def test_any_machine_can_be_checked() -> None:
    check_table(ROUNDS)


# tables that are refused


def refused(change: Callable[[list[Row]], object]) -> str:
    rows = list(CALL.rows)
    change(rows)
    with pytest.raises(TableError) as caught:
        check_table(evolve(CALL, rows=tuple(rows)))
    return str(caught.value)


def at(event: str, guard: str | None, source: str = "await") -> int:
    (index,) = [i for i, row in enumerate(CALL.rows) if (row.event, row.guard, row.source) == (event, guard, source)]
    return index


def change(old_event: str, old_guard: str | None, /, **changes: object) -> Callable[[list[Row]], object]:
    index = at(old_event, old_guard)
    return lambda rows: rows.__setitem__(index, evolve(rows[index], **changes))


def dropped(event: str, guard: str | None, source: str = "await") -> Callable[[list[Row]], object]:
    index = at(event, guard, source)
    return lambda rows: rows.pop(index)


def swapped(event: str, one: str | None, other: str | None) -> Callable[[list[Row]], object]:
    first, second = at(event, one), at(event, other)
    return lambda rows: rows.__setitem__(slice(None), _swap(rows, first, second))


def _swap(rows: list[Row], first: int, second: int) -> list[Row]:
    rows[first], rows[second] = rows[second], rows[first]
    return list(rows)


FAULTS = [
    (change("refused", "may_fall_back", guard="may_fall_bak"), "unknown guard 'may_fall_bak'", "mean 'may_fall_back'?"),
    (change("refused", "may_fall_back", effect="spend_falback"), "unknown effect 'spend_falback'", "'spend_fallback'?"),
    (change("refused", "may_fall_back", effect="retries"), "the effect 'retries' is no method of Ladder", ""),
    (change("refused", "may_fall_back", target="falback"), "unknown target 'falback'", "mean 'fallback'?"),
    (change("refused", None, target="refusd"), "unknown target 'refusd'", "mean 'refused'?"),
    (change("refused", None, source="awiat"), "nothing leads to 'awiat'", "mean 'await'?"),
    (change("refused", None, source="done"), "leaves 'done', which is an outcome and final", ""),
    (change("answered", None, event="an swered"), "the event 'an swered' is no name", ""),
    (change("refused", None, guard="has_text"), "no last resort follows", ""),
    (change("came_empty", "may_reask", event="came_emtpy"), "no last resort follows", "mean 'came_empty'?"),
    (dropped("refused", None), "no last resort follows: the last row of 'refused' has a guard", ""),
    (swapped("refused", "may_fall_back", None), "is never tried, because this row before it always wins", ""),
    (change("came_empty", "may_reask", guard="may_nudge"), "is never tried", "[may_nudge] / spend_nudge"),
    (lambda rows: rows.append(rows[0]), "stands 2 times in the table", ""),
    (dropped("sent", None, "nudge"), "the rung 'nudge' is never sent", ""),
    (lambda rows: rows.__delitem__(at("refused", None)), "no last resort", ""),
    (change("answered", None, guard="retries"), "no last resort", ""),
    (change("came_empty", "has_delivered", guard="reasks"), "'reasks' returns a number, which is no bool", ""),
    (change("came_empty", "has_delivered", guard="kept"), "reads 'kept', which is neither a counter nor a fact", ""),
    (change("came_empty", "may_reask", effect="spend_nudge"), "takes one of 'nudges', but its guard did not find", ""),
    (change("came_empty", "may_reask", effect=None), "takes nothing", "it goes round for ever"),
    (change("came_empty", "may_reask", effect="count_attempt"), "changes the count of attempts", ""),
]


@pytest.mark.parametrize(("fault", "message", "also"), FAULTS, ids=[f"{m} {a}" for _, m, a in FAULTS])
def test_a_fault_in_a_row_is_refused(fault: Callable[[list[Row]], object], message: str, also: str) -> None:
    text = refused(fault)
    assert text.startswith("the table 'call' is refused:\n- ")
    assert message in text
    assert also in text


def test_an_unreachable_rung_is_refused() -> None:
    text = refused(lambda rows: [rows.remove(row) for row in CALL.rows if row.target == "nudge"])
    assert "nothing leads to 'nudge'" in text


def test_an_island_of_states_is_refused() -> None:
    island = [
        Row("sent", "isle", None, "shore", "count_attempt"),
        Row("wait", "shore", "may_retry", "isle", "spend_retry"),
    ]
    text = refused(lambda rows: rows.extend([*island, Row("wait", "shore", None, "done")]))
    assert "the state 'isle' cannot be reached from 'ask'" in text
    assert "the state 'shore' cannot be reached" in text


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (CALL.ranks[1:], "the counter 'fallbacks' stands 0 times in the ranks"),
        ((*CALL.ranks, ("retries",)), "the counter 'retries' stands 2 times in the ranks"),
        (
            (*CALL.ranks, ("retires",)),
            "the ranks name 'retires', which is no counter of Ladder; did you mean 'retries'?",
        ),
        (CALL.ranks[::-1], "refills 'retries' and 'reasks'" if False else "does not rank below 'continuations'"),
    ],
)
def test_faulty_ranks_are_refused(ranks: tuple[tuple[str, ...], ...], message: str) -> None:
    with pytest.raises(TableError) as caught:
        check_table(evolve(CALL, ranks=ranks))
    assert message in str(caught.value)


def test_a_model_that_is_no_attrs_class_is_named() -> None:
    class Plain(Ladder):
        pleas: int = counter()

    text = "\n".join(problems(evolve(CALL, model=Plain)))
    assert "Plain.pleas is no field yet: decorate the class with attrs.define(eq=False)" in text


def test_a_start_or_hub_that_nothing_leaves_is_named() -> None:
    assert "the start 'done' is left by no row" in "\n".join(problems(evolve(CALL, start="done")))
    assert "the hub 'awiat' is left by no row; did you mean 'await'?" in "\n".join(problems(evolve(CALL, hub="awiat")))


@define(eq=False)
class Careless(Ladder):
    @property
    def may_reask(self) -> bool:
        return not self.same_empty_again


def test_the_message_shows_the_shortest_path() -> None:
    with pytest.raises(TableError) as caught:
        check_table(evolve(CALL, model=Careless))
    assert str(caught.value).endswith(
        "the shortest path to it, with every limit 1:\n"
        "  1. ask --sent--> await\n"
        "  2. await --came_empty [may_reask]--> reask; reasks 0 -> 1\n"
        "  3. reask --sent--> await\n"
        "  4. await --came_empty [may_reask]--> reask; reasks 1 -> 2"
    )


def around(table: Table) -> Policy:
    """Put a table into a policy behind the back of its constructor, which refuses what is faulty."""
    policy = Policy()
    object.__setattr__(policy, "table", table)
    return policy


def test_a_policy_refuses_a_faulty_table_with_the_path_to_the_fault() -> None:
    with pytest.raises(TableError, match=r"takes one of 'reasks'") as caught:
        Policy(table=evolve(CALL, model=Careless))
    assert [step.to_json()["event"] for step in caught.value.path] == ["sent", "came_empty", "sent", "came_empty"]
    picture = render_error(caught.value, "rows")
    assert [line for line in picture.splitlines() if "may_reask" in line and "came_empty" in line and "2, 4" in line]
    assert render_error(caught.value, "svg").startswith("<svg")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (CALL.rows[:-1], "no row takes 'ran_out' in 'fallback'"),
        ([row for row in CALL.rows if row != Row("cancelled", "nudge", None, "cancelled")], "'cancelled' in 'nudge'"),
        ([row for row in CALL.rows if row.event != "answered"], "no row takes 'answered' in 'await'"),
        ([row for row in CALL.rows if (row.event, row.guard) != ("came_empty", "has_text")], "has_text -> partial"),
        ([evolve(row, target="done") if row.guard == "has_delivered" else row for row in CALL.rows], "are done"),
        ([evolve(row, effect=None) if row.target == "salvaged" else row for row in CALL.rows], "stands as the answer"),
        (
            [evolve(row, target="done") if str(row) == "ask --cancelled--> cancelled" else row for row in CALL.rows],
            "leads to cancelled",
        ),
    ],
)
def test_a_policy_refuses_a_table_on_which_a_call_would_not_be_honest(rows: list[Row], says: str) -> None:
    with pytest.raises(TableError, match="refused") as caught:
        Policy(table=evolve(CALL, rows=rows))
    assert says in str(caught.value)


def test_a_row_that_ends_the_call_counts_nothing() -> None:
    rows = [
        evolve(row, effect="spend_retry") if str(row) == "await --failed_transiently--> failed" else row
        for row in CALL.rows
    ]
    with pytest.raises(TableError, match="changes 'retries', and a row that ends the call has nothing to pay for"):
        check_table(evolve(CALL, rows=rows))


def test_a_policy_around_a_faulty_table_has_a_certificate_that_fails() -> None:
    certificate = verify(around(evolve(CALL, model=Careless)))
    assert not certificate.ok
    assert {each.name for each in certificate.properties if not each.holds} == {TERMINATES, BOUNDED}
    assert certificate.worst == ()
    text = " ".join(certificate.to_text().split())
    assert "call: fails: terminates for all limits; counters within limits" in text
    assert "REFUSED, takes one of 'reasks', but its guard did not find" in text
    assert "2. await --came_empty [may_reask]--> reask; reasks 0 -> 1" in text
    assert "4. await --came_empty [may_reask]--> reask; reasks 1 -> 2" in certificate.to_markdown()
    assert json.loads(json.dumps(certificate.to_json()))["ok"] is False


def test_a_misshapen_table_is_not_walked() -> None:
    certificate = verify(around(evolve(CALL, rows=CALL.rows[1:])))
    assert [(each.name, each.holds) for each in certificate.properties] == [(WELL_FORMED, False)]
    assert certificate.configurations == 0
    assert "the rung 'ask' is never sent" in certificate.to_text()


def test_deriving_a_faulty_table_is_refused_at_once() -> None:
    with pytest.raises(TableError, match="takes nothing"):
        CALL.with_rows(Row("refused", "await", "may_reask", "beg", None))


def test_a_good_table_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = evolve(CALL, name="once")
    check_table(table)
    monkeypatch.setattr("rungwise.fsm.certificate.verify.problems", lambda table: pytest.fail("looked again"))
    check_table(evolve(CALL, name="once"))


def test_a_changed_effect_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    check_table(CALL)
    monkeypatch.setattr(Ladder, "spend_retry", lambda self: None)
    with pytest.raises(TableError, match="takes nothing"):
        check_table(CALL)
    found = {each.name for each in verify().properties if not each.holds}
    assert found == {TERMINATES, FALLS, ENDS}


def test_a_generous_policy_is_certified() -> None:
    limits = Limits(**dict.fromkeys(("retries", "reasks", "nudges", "prefills", "enlargements", "repairs"), 10))
    policy = Policy(limits=evolve(limits, compactions=10, continuations=10), budget=Budget(attempts=200))
    certificate = verify(
        policy, [PlainLink(str(number), prices=Prices(3.0, 15.0)) for number in range(6)], max_tokens=4096
    )
    assert [each.value for each in certificate.worst[:3]] == [200, 26_580, 6_440_512]
    assert all(each.is_exact for each in certificate.worst[:3])
