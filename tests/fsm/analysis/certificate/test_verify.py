"""The certificate: what it states of a policy, and that it fails where something is wrong."""

import json
import re
from typing import Any

import pytest
from attrs import evolve

from rungwise import (
    CALL,
    Budget,
    ConfigurationError,
    Limits,
    Policy,
    Prices,
    Reserve,
    SharedBudget,
    TurnPolicy,
)
from rungwise.core import Guard, PlainLink, Table
from rungwise.fsm.analysis.certificate.verify import TERMINATES, WELL_FORMED, verify
from rungwise.fsm.engine.checker.counterexample import Property
from rungwise.fsm.engine.checker.properties import BOUNDED, TOTAL
from support.facts import Check
from support.sampling import sampled
from support.tables import (
    COUNTERS,
    OTHERS_OFF,
    redeclaring,
    replacing,
    row_of,
    unchecked,
)

# the certificate


@pytest.mark.parametrize("chain", [1, pytest.param(2, marks=pytest.mark.full), 3])
def test_the_default_policy_is_proved(chain: int, fact: Check) -> None:
    certificate = verify(chain=chain)
    assert certificate.ok
    fact(f"configurations, {chain} backends", certificate.configurations)
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
        "the next backend is reached",
        "the figures hold with health and without",
        "the figures hold over any number of crashes",
    ]
    fact("overlaps", len(certificate.overlaps))
    assert [each.row for each in certificate.rows] == list(CALL.rows)


def test_json_states_everything_as_plain_values(fact: Check) -> None:
    plain = json.loads(json.dumps(verify(chain=2, max_tokens=4096).to_json()))
    assert plain["ok"] is True
    assert plain["chain"] == ["backend 1", "backend 2"]
    fact("configurations, 2 backends", plain["configurations"])
    assert {each["verdict"] for each in plain["properties"]} == {"holds"}
    attempts = plain["worst"][0]
    assert (attempts["name"], attempts["value"]) == ("attempts", 24)
    fact("attempts of the ladder alone, 2 backends", attempts["ladder"])
    assert attempts["ended_by"] == "budget.attempts"
    assert attempts["path"].startswith("ask, ")
    assert "fallback" in attempts["path"]
    assert len(attempts["events"]) == 23
    row = next(each for each in plain["rows"] if each["takes"] == "continuations")
    assert row["refills"] == ["reattaches", "retries", "reasks", "prefills"]


def test_text_names_the_figures() -> None:
    certificate = verify(chain=2, max_tokens=4096)
    text = certificate.to_text()
    ladder = certificate.worst[0].ladder
    assert text.startswith("# Certificate: call\n\nEverything holds.\n")
    assert f"| attempts | 24; budget.attempts ends it (the ladder alone: {ladder}) |" in text
    assert (
        "| [may_prefill] -> prefill | prefills |  | finds prefills < limit, takes one | "
        "only_reasoned |" in text
    )


@pytest.mark.parametrize(
    ("given", "attempts", "tokens", "money"),
    [
        (
            {},
            "24",
            "not known: without max_tokens, only budget.output_tokens can cap the first request",
            "not known: no price is known for a backend of the chain",
        ),
        (
            {"chain": [PlainLink("one", prices=Prices(1, 10))]},
            "24",
            "not known: without max_tokens, only budget.output_tokens can cap the first request",
            "not known: needs max_tokens",
        ),
        (
            {"policy": Policy(budget=Budget(output_tokens=900, money=2))},
            "no more than 24",
            "900",
            "no more than 2",
        ),
    ],
    ids=["nothing", "prices", "budgets"],
)
def test_text_begins_with_the_worst_cases_and_with_what_is_missing(
    given: dict[str, Any], attempts: str, tokens: str, money: str
) -> None:
    head, _, rest = verify(**given).to_text().partition("\n\n|  |  |\n| --- | --- |\n")
    assert head.splitlines() == [
        "# Certificate: call",
        "",
        "Everything holds.",
        "",
        "| what is spent | at most |",
        "| --- | --- |",
        f"| attempts | {attempts} |",
        "| waiting seconds | 900 s (15 min) |",
        "| seconds | 901 s (15 min) |",
        f"| output tokens | {tokens} |",
        f"| money | {money} |",
    ]
    assert rest.startswith("| limits |")


def test_a_policy_that_fails_has_no_worst_cases_to_begin_with() -> None:
    certificate = verify()
    broken = evolve(
        certificate, worst=(), properties=(evolve(certificate.properties[0], holds=False),)
    )
    text = broken.to_text()
    assert text.startswith("# Certificate: call\n\nFails: well-formed table.\n\n|  |  |\n")


def test_text_and_markdown_are_the_same_each_time() -> None:
    one = verify(max_tokens=100)
    other = verify(max_tokens=100)
    assert one.to_text() == one.to_markdown() == other.to_markdown()
    assert "| holds | every path ends |" in one.to_markdown()


@pytest.mark.full
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
    assert certificate.worst[4].value is not None
    assert "| money | " in certificate.to_text()


@pytest.mark.parametrize("chain", [0, -1, True, [], [PlainLink(problem="no key")]])
def test_a_chain_without_a_backend_is_an_error(chain: object) -> None:
    with pytest.raises(ConfigurationError, match="backend"):
        verify(chain=chain)  # type: ignore[arg-type]


def test_the_policy_bounds_the_fallbacks_too() -> None:
    assert verify(Policy(limits=Limits(fallbacks=1)), 4).limits["fallbacks"] == 1
    assert verify(Policy(limits=Limits(fallbacks=9)), 4).limits["fallbacks"] == 3


@pytest.mark.full
def test_an_exhaustive_walk_takes_the_limits_of_the_policy() -> None:
    names = (
        "resends",
        "reasks",
        "rechecks",
        "nudges",
        "prefills",
        "enlargements",
        "corrections",
        "repairs",
        "compactions",
    )
    off = dict.fromkeys(names, 0) | OTHERS_OFF
    policy = Policy(limits=Limits(**off, retries=12, continuations=40))
    seen: list[int] = []
    certificate = verify(policy, exhaustive=True, progress=seen.append)
    assert certificate.ok
    assert certificate.walked == certificate.limits
    assert certificate.configurations == 1 + 13 * 41 + 12 * 41 + 13 * 40 + 8
    assert seen == [1000]
    firings = next(each.detail for each in certificate.properties if each.name == TOTAL)
    # each anew would be 200, and hours by default
    assert int(firings.split()[-2]) < 30 * certificate.configurations


@pytest.mark.full
def test_the_assistant_turns_of_the_request_are_stated() -> None:
    chain = [PlainLink(prices=Prices(1.0, 2.0))]
    known = verify(
        chain=chain,
        max_tokens=1000,
        input_tokens=500,
        assistant_turns=4,
    )
    assert known.to_json()["assistant_turns"] == 4
    assert "| request | max_tokens 1000, input_tokens 500, assistant_turns 4 |\n" in known.to_text()
    unknown = verify(chain=chain, max_tokens=1000, input_tokens=500)
    assert "assistant_turns" not in unknown.to_text().partition("Properties")[0]
    assert "to each of 166 assistant turns" in " ".join(unknown.to_text().split())


# tables of one's own


@pytest.mark.full
def test_tables_without_some_rungs_are_accepted() -> None:
    table = CALL.without("prefill", "repair")
    certificate = verify(Policy(table=table, limits=Limits(**OTHERS_OFF)), 2, max_tokens=100)
    assert certificate.ok
    assert certificate.worst[0].ladder == 1 + 1 + 2 * 1 + 3 + 5 * (3 + 3) + 2 * (1 + 1 + 2 + 3) + 3


# tables that are faulty, in policies that nobody checked

CARELESS = unchecked(redeclaring(CALL, Guard("may_reask", lacks="same_empty_again")))


def test_a_policy_around_a_faulty_table_has_a_certificate_that_fails() -> None:
    certificate = verify(CARELESS)
    assert not certificate.ok
    assert {each.name for each in certificate.properties if not each.holds} == {TERMINATES, BOUNDED}
    assert certificate.worst == ()
    text = " ".join(certificate.to_text().split())
    assert "Fails: terminates for all limits; counters within limits." in text
    assert "REFUSED, takes one of 'reasks', but its guard did not find" in text
    assert "2. await --came_empty [may_reask]--> reask; reasks 0 -> 1" in text
    assert "4. await --came_empty [may_reask]--> reask; reasks 1 -> 2" in certificate.to_markdown()
    assert json.loads(json.dumps(certificate.to_json()))["ok"] is False


def test_a_misshapen_table_is_not_walked() -> None:
    certificate = verify(unchecked(evolve(CALL, rows=CALL.rows[1:])))
    assert [(each.name, each.holds) for each in certificate.properties] == [(WELL_FORMED, False)]
    assert certificate.configurations == 0
    assert "the rung 'ask' is never sent" in certificate.to_text()


@pytest.mark.full
def test_a_generous_policy_is_certified() -> None:
    # Without rechecks: with them, not each of these figures is one that a call was seen to reach.
    limits = {**dict.fromkeys(COUNTERS, 10), "fallbacks": None, "rechecks": 0}
    policy = Policy(
        limits=Limits(**limits),
        budget=Budget(attempts=200, seconds=None),
        switch_after=dict.fromkeys(
            ("empty", "broken_stream", "unreachable", "rate_limit_without_wait"), 1_000
        ),
    )
    certificate = verify(
        policy,
        [PlainLink(str(number), prices=Prices(3.0, 15.0)) for number in range(6)],
        max_tokens=4096,
    )
    assert [each.value for each in certificate.worst[:4]] == [200, 26_160, 146_360, 6_440_512]
    assert all(each.is_exact for each in certificate.worst[:4])


# what the backends of a chain have


KEPT = [
    # the budget, the reserve, the backends, and what the last of them has at least
    (Budget(), Reserve(), 1, None),
    (Budget(), Reserve(), 2, {"attempts": 1, "seconds": 225.0}),
    (Budget(), Reserve(), 6, {"attempts": 1, "seconds": 150.0}),
    (Budget(), Reserve(share=0.9), 2, {"attempts": 1, "seconds": 450.0}),
    (Budget(seconds=9000), Reserve(share=0.5), 2, {"attempts": 1, "seconds": 600.0}),
    (Budget(), Reserve(seconds=20), 2, {"attempts": 1, "seconds": 20.0}),
    (Budget(attempts=2), Reserve(), 3, {"attempts": 0, "seconds": 225.0}),
    (Budget(seconds=None), Reserve(), 2, {"attempts": 1}),
    (Budget(), Reserve(share=0), 2, None),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("budget", "reserve", "backends", "kept"), KEPT)
def test_it_says_what_the_last_backend_has_at_least(
    budget: Budget,
    reserve: Reserve,
    backends: int,
    kept: dict[str, float] | None,
) -> None:
    certificate = verify(Policy(budget=budget, reserve=reserve), backends)
    assert certificate.kept == certificate.to_json()["kept"] == kept
    text = certificate.to_markdown()
    assert (re.search("at least .* for the last backend", text) is not None) == (kept is not None)
    assert (
        kept is None
        or "seconds" not in kept
        or f" and {kept['seconds']:g} s for the last backend" in text
    )


@pytest.mark.full
def test_nothing_is_said_to_be_kept_for_a_backend_that_is_never_asked() -> None:
    assert verify(Policy(limits=Limits(fallbacks=1)), 3).kept is None
    assert verify(Policy(table=CALL.without("fallback")), 2).kept is None


def property_of(policy: Policy) -> Property:
    certificate = verify(policy, 2)
    assert certificate.ok
    assert certificate.worst
    return next(
        each for each in certificate.properties if each.name == "the next backend is reached"
    )


def test_every_failure_leads_to_a_backend_that_follows() -> None:
    found = property_of(Policy())
    assert (found.verdict, found.is_required) == ("holds", False)
    assert "a refusal" not in found.detail
    assert "a refusal ends the call, as the policy says" in property_of(Policy.interactive()).detail


LOST = [
    (CALL.without("fallback"), "came_empty, only_reasoned, paused, tools_truncated"),
    (replacing(CALL, {row_of("refused", "may_ask_another"): None}), "after refused"),
    (replacing(CALL, {row_of("malformed", "may_fall_back"): None}), "after malformed"),
    (replacing(CALL, {row_of("fell_silent", "may_fall_back"): None}), "after fell_silent"),
    (replacing(CALL, {row_of("ran_out", "must_yield", "reask"): None}), "after ran_out in reask"),
    (
        CALL.reordered("overflowed", ["may_compact", "has_text", "may_fall_back", None]),
        "after overflowed",
    ),
]


@pytest.mark.parametrize(("table", "says"), sampled(LOST, one_in=6), ids=[says for _, says in LOST])
def test_a_table_that_skips_a_backend_is_reported_and_not_refused(table: Table, says: str) -> None:
    found = property_of(Policy(table=table))
    assert (found.holds, found.verdict, found.is_required) == (False, "not held", False)
    assert says in found.detail
    assert found.to_json()["required"] is False
    certificate = verify(Policy(table=table), 2)
    text = certificate.to_text()
    assert certificate.kept is None
    assert "at least for the last backend" not in text
    assert text.startswith("# Certificate: call\n\nEverything holds.\n")
    assert "| not held | the next backend is reached | " in text


def test_a_certificate_states_what_bounds_the_calls_of_one_period() -> None:
    month = SharedBudget(Budget(attempts=9000, seconds=None, money=500), name="all", per="month")
    team = SharedBudget(Budget(attempts=500, seconds=None), month, name="team-a", per="day")
    session = SharedBudget(Budget(attempts=5), team)
    certificate = verify(within=session)
    assert certificate.within == (
        "the shared budget: attempts 5, seconds 900.0 at most, by all calls together",
        "team-a: attempts 500 at most, by all calls together that begin in one day (UTC)",
        "all: attempts 9000, money 500 at most, by all calls together that begin in one month "
        "(UTC)",
    )
    for bound in certificate.within:
        assert f"| within | {bound} |" in certificate.to_markdown()
    assert verify(TurnPolicy(), within=team).to_json()["within"] == certificate.within[1:]
    assert verify().within == ()
    with pytest.raises(ConfigurationError, match="within must be a SharedBudget"):
        verify(within=Budget())  # type: ignore[arg-type]
