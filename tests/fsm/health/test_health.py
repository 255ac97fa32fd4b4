"""What is remembered of a backend: when it opens, for how long, who tries it again, and what is no
evidence.
"""

from collections.abc import Iterable
from typing import Any, get_args

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rungwise import ConfigurationError, Health, Policy
from rungwise.core import HEALTH, Failure, Reply, Row, TableError
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.engine.journal.record import Evidence as Recorded
from rungwise.fsm.health.check import DUE, ONE_PROBE, verify_health
from rungwise.fsm.health.health import (
    BackendHealth,
    Symptom,
    choose,
    symptom_of,
)
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.testing import run

RULES = Health()
LEASE = 1_000.0
ANSWERED, FAILED, SILENT = (
    Symptom("answered", why="answered"),
    Symptom("failed", why="503"),
    Symptom("fell_silent"),
)
KINDS = ("answered", "failed", "fell_silent", "limited", "rejected_key", None)


def after(health: BackendHealth, evidence: Symptom, now: float, **more: Any) -> BackendHealth:
    options = {
        "rules": RULES,
        "sent_at": now,
        "was_probe": False,
        "draw": 0.0,
        **more,
    }
    return health.after(evidence, now, **options)


def opened(*evidence: Symptom, now: float = 0.0, **more: Any) -> BackendHealth:
    health = BackendHealth()
    for each in evidence:
        health = after(health, each, now, **more)
    return health


# the table


@pytest.mark.parametrize("failures", [1, 2, 5])
def test_the_machine_is_proved(failures: int) -> None:
    properties = verify_health(Health(failures=failures))
    assert [each.name for each in properties if not each.holds] == []
    assert {DUE, ONE_PROBE} <= {each.name for each in properties}


def changed(rows: Iterable[Row]) -> Any:
    return attrs.evolve(HEALTH, name="changed", rows=tuple(rows))


def test_a_backend_that_never_comes_due_is_found() -> None:
    rows = [
        attrs.evolve(row, target="open") if row.event == "came_due" else row for row in HEALTH.rows
    ]
    rows.append(Row("failed_again", "open", None, "half_open"))
    properties = {each.name: each for each in verify_health(table=changed(rows))}
    assert properties[DUE].holds  # another event leads there
    rows[-1] = Row("failed_again", "closed", None, "half_open")
    properties = {each.name: each for each in verify_health(table=changed(rows))}
    assert not properties[DUE].holds


def test_an_answer_that_frees_the_probe_of_another_call_is_found() -> None:
    free = next(effect for effect in HEALTH.effects if effect.refills == ("probes",))
    rows = [
        attrs.evolve(row, effect=free.name) if row.event == "answered" else row
        for row in HEALTH.rows
    ]
    table = attrs.evolve(changed(rows), effects=HEALTH.effects)
    assert [each.name for each in verify_health(table=table) if not each.holds] == [ONE_PROBE]


def test_a_probe_that_nobody_counts_is_refused() -> None:
    rows = [
        attrs.evolve(row, effect=None) if row.effect == "send_probe" else row for row in HEALTH.rows
    ]
    with pytest.raises(TableError, match="never taken: half_open --probed--> half_open"):
        verify_health(table=changed(rows))


def test_a_row_that_takes_a_probe_which_its_guard_has_not_found_is_refused() -> None:
    rows = [
        attrs.evolve(row, guard="may_bear") if row.effect == "send_probe" else row
        for row in HEALTH.rows
    ]
    with pytest.raises(TableError, match="its guard did not find probes"):
        verify_health(table=changed(rows))


# when it opens, and for how long


@pytest.mark.parametrize("evidence", [FAILED, SILENT])
def test_it_opens_after_two_failures_in_a_row(evidence: Symptom) -> None:
    assert opened(evidence).state == "closed"
    assert opened(evidence, FAILED).state == "open"
    assert opened(evidence, ANSWERED, FAILED).state == "closed"


def test_it_stays_open_twice_as_long_each_time_up_to_the_longest() -> None:
    health = opened(FAILED, FAILED)
    now = 0.0
    lengths = []
    for _ in range(6):
        lengths.append(health.until - now)
        now = health.until
        tried = choose([health], now, RULES, LEASE)
        assert tried.is_probe
        health = after(tried.changed[-1][1], FAILED, now, was_probe=True)
    assert lengths == [5, 10, 20, 30, 30, 30]


@given(st.integers(1, 2_000), st.floats(0, 1))
def test_jitter_never_makes_it_longer(opened: int, draw: float) -> None:
    whole = min(5.0 * 2.0 ** min(opened - 1, 60), 30.0)
    assert whole * (1 - RULES.jitter) <= RULES.seconds(opened, draw) <= whole


def test_an_answer_to_the_probe_closes_it_and_forgets_how_often_it_had_opened() -> None:
    tried = choose([opened(FAILED, FAILED)], 5.0, RULES, LEASE).changed[-1][1]
    assert after(tried, ANSWERED, 6.0, was_probe=True) == BackendHealth(since=6.0)


def test_a_later_failure_never_moves_the_end_earlier() -> None:
    health = opened(Symptom("limited", 60.0, "429"))
    for evidence in (
        Symptom("limited", 1.0, "429"),
        FAILED,
        SILENT,
        Symptom("rejected_key", why="401"),
    ):
        assert after(health, evidence, 1.0).until == 60.0
    assert after(health, Symptom("limited", 90.0, "429"), 1.0).until == 91.0


def test_what_an_attempt_shows_is_out_of_date_once_the_state_has_changed() -> None:
    tried = choose([opened(FAILED, FAILED)], 5.0, RULES, LEASE).changed[-1][1]
    closed = after(tried, ANSWERED, 6.0, was_probe=True)
    late = after(after(closed, FAILED, 7.0, sent_at=1.0), SILENT, 7.0, sent_at=5.9)
    assert late == closed
    assert after(closed, Symptom("rejected_key", why="401"), 7.0, sent_at=1.0).state == "open"
    assert after(opened(FAILED, FAILED, now=3.0), ANSWERED, 4.0, sent_at=1.0).state == "open"


@pytest.mark.parametrize(("symptom", "state"), [(ANSWERED, "closed"), (FAILED, "open")])
def test_a_probe_counts_though_its_time_was_estimated_too_early(
    symptom: Symptom, state: str
) -> None:
    tried = choose([opened(FAILED, FAILED)], 5.0, RULES, LEASE).changed[-1][1]
    assert after(tried, symptom, 6.0, sent_at=4.9, was_probe=True).state == state


# who is asked


def test_only_what_was_sent_in_the_present_state_speaks_of_it() -> None:
    health = opened(FAILED, FAILED, now=3.0)
    assert health.since == 3.0
    assert after(health, ANSWERED, 4.0, sent_at=3.0).state == "closed"
    assert after(health, ANSWERED, 4.0, sent_at=2.9) == health
    tried = health.at(8.0, RULES)
    assert (tried.state, tried.since) == ("half_open", 8.0)
    assert after(tried, FAILED, 9.0, sent_at=4.0) == tried
    closed = BackendHealth(since=8.0, spent=(0, 1))
    assert after(closed, FAILED, 9.0, sent_at=4.0, was_probe=True).spent == (0, 0)


def test_a_failure_that_is_borne_is_no_new_state() -> None:
    assert opened(FAILED, now=3.0).since == -float("inf")
    assert after(opened(Symptom("limited")), ANSWERED, 1.0).state == "closed"


def test_a_probe_is_that_of_one_call_until_its_lease_ends() -> None:
    probe = opened(FAILED, FAILED).at(5.0, RULES).probed(5.0, RULES, 10.0)
    assert (probe.spent[1], probe.tried_until) == (1, 15.0)
    assert probe.probed(6.0, RULES, 100.0) == probe  # another call asks
    assert probe.at(14.9, RULES) == probe
    assert probe.at(15.0, RULES).spent[1] == 0
    limited = opened(Symptom("limited", 5.0)).at(5.0, RULES).probed(5.0, RULES, 10.0)
    assert [limited.at(now, RULES).spent for now in (14.9, 15.0)] == [(0, 1), (0, 0)]
    assert BackendHealth(spent=(2, 1)).without_probe().spent == (2, 0)


def test_a_failure_while_it_is_open_opens_it_no_longer_than_to_its_own_moment() -> None:
    health = opened(FAILED, FAILED)
    assert [after(health, FAILED, now).until for now in (4.5, 6.0)] == [5.0, 6.0]


def test_what_opened_it_says_how_often_only_if_that_was_counted() -> None:
    assert opened(FAILED, FAILED).why == "503, 2 in a row"
    assert opened(FAILED, rules=Health(failures=1)).why == "503"
    assert opened(Symptom("limited", why="429")).why == "429"
    tried = opened(FAILED, FAILED).at(5.0, RULES)
    assert after(tried, FAILED, 6.0).why == "503"


def test_the_first_time_may_be_the_longest() -> None:
    health = Health(first=30.0, longest=30.0)
    assert [health.seconds(opened, 0.0) for opened in (1, 2)] == [30.0, 30.0]
    tiny = Health(first=1e-30, longest=1.0)  # no number of times is too large for a float
    assert [tiny.seconds(opened, 0.0) * 1e30 for opened in (60, 61, 5000)] == pytest.approx(
        [2.0**59, 2.0**60, 2.0**60]
    )
    assert repr(Health(failures=3)) == "Health(failures=3)"
    assert Health(jitter=0.0).seconds(1, 1.0) == 5.0
    with pytest.raises(ConfigurationError, match=r"Health\.jitter must be .* at most 1"):
        Health(jitter=1.5)
    with pytest.raises(TypeError):
        BackendHealth("open")  # type: ignore[misc]
    with pytest.raises(ConfigurationError, match="by name"):
        Health(3)  # type: ignore[misc]


def test_of_backends_that_are_all_open_the_first_to_come_due_is_asked_which_is_no_probe() -> None:
    both = [opened(Symptom("limited", wait, "429")) for wait in (30.0, 10.0, 20.0)]
    choice = choose(both, 1.0, RULES, LEASE)
    assert (choice.place, choice.is_probe, choice.changed) == (1, False, ())


def test_a_closed_backend_is_asked_before_one_that_came_due_behind_it() -> None:
    due = opened(FAILED, FAILED)
    assert choose([BackendHealth(), due], 6.0, RULES, LEASE).place == 0
    # whose probe is out
    taken = attrs.evolve(due, spent=(1, 1), tried_until=100.0)
    choice = choose([taken, BackendHealth()], 6.0, RULES, LEASE)
    assert (choice.place, choice.is_probe) == (1, False)
    assert choice.changed == ((0, taken.at(6.0, RULES)),)


class Fleet(RuleBasedStateMachine):
    """Let calls arrive, answer, fail and be cancelled in any order, on a clock that only goes
    forward.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known = [BackendHealth(), BackendHealth()]
        self.now = 0.0
        # the attempts in flight: backend, when sent, whether a probe
        self.out: list[tuple[int, float, bool]] = []

    @rule()
    def arrive(self) -> None:
        choice = choose(self.known, self.now, RULES, LEASE)
        before = self.known[choice.place]
        for place, changed in choice.changed:
            self.known[place] = changed
        if before.state == "open" and self.now < before.until:  # not asked, unless all are
            assert not choice.is_probe
            assert all(each.state != "closed" for each in self.known)
        self.out.append((choice.place, self.now, choice.is_probe))

    @precondition(lambda self: self.out)
    @rule(
        which=st.integers(0, 9),
        event=st.sampled_from(KINDS),
        asked=st.none() | st.sampled_from([0.5, 8.0, 100.0]),
        draw=st.floats(0, 1),
    )
    def end(
        self,
        which: int,
        event: str | None,
        asked: float | None,
        draw: float,
    ) -> None:
        place, sent_at, was_probe = self.out.pop(which % len(self.out))
        before = self.known[place]
        evidence = Symptom(event, asked if event not in ("answered", None) else None, str(event))
        now = self.known[place] = before.after(
            evidence, self.now, RULES, sent_at=sent_at, was_probe=was_probe, draw=draw
        )
        if before.state == now.state == "open":
            assert now.until >= before.until
        if now.state == "open" and before.state != "open":
            assert now.until <= self.now + max(RULES.longest, evidence.asked_wait or 0.0)

    @rule(seconds=st.sampled_from([0.0, 0.1, 4.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def one_probe_is_out_at_most(self) -> None:
        for place, health in enumerate(self.known):
            probes = sum(each[0] == place and each[2] for each in self.out)
            assert probes <= 1
            assert health.spent[1] == probes

    @invariant()
    def whoever_has_recovered_is_asked_when_its_time_has_come(self) -> None:
        for place, health in enumerate(self.known):
            is_due = health.state == "open" and self.now >= health.until
            if (
                is_due
                and health.spent[1] == 0
                and all(each.state != "closed" for each in self.known[:place])
            ):
                assert choose(self.known[place:], self.now, RULES, LEASE).place == 0


TestFleet = Fleet.TestCase


# what is evidence


@pytest.mark.parametrize("reason", get_args(Reason))
def test_each_reason_of_a_failure_shows_something_of_the_backend_or_of_the_request(
    reason: Reason,
) -> None:
    event = symptom_of(run(Policy(), [Failure(reason)]).last).event  # type: ignore[arg-type]
    of_backend = {
        **dict.fromkeys(("auth", "billing"), "rejected_key"),
        "rate_limit": "limited",
        **dict.fromkeys(
            ("overloaded", "server_error", "timeout", "connection", "unreachable", "certificate"),
            "failed",
        ),
        "silence": "fell_silent",
    }
    assert event == of_backend.get(reason)


@pytest.mark.parametrize(
    ("reply", "event"),
    [
        (Reply("An answer.", stop_reason="stop"), "answered"),
        (Reply(), "answered"),
        (Reply("An ans", stop_reason="length"), "answered"),
        (Reply("An ans", interrupted=True), "failed"),
        (Reply("An ans", interrupted=True, failure=Failure("silence")), "fell_silent"),
        (Reply(stop_reason="content_filter"), None),
        (Reply("x", stop_reason="unknown", stop_raw="odd"), None),
        (Failure("connection", is_stale=True), None),
    ],
)
def test_what_came_back_shows_something_of_the_backend(reply: Any, event: str | None) -> None:
    call = run(Policy(), [reply])
    assert call.last is not None
    assert symptom_of(call.last).event == event


def test_a_call_that_was_cancelled_shows_nothing() -> None:
    assert symptom_of(Observation(evidence=Recorded(event="cancelled"))).event is None


@pytest.mark.parametrize(("asked", "kept"), [(3, 3), pytest.param(10**15, 86_400.0, id="for ever")])
def test_a_wait_that_was_asked_for_is_kept_up_to_a_day_with_its_reason(
    asked: float, kept: float
) -> None:
    observation = Observation(
        evidence=Recorded(event="failed_transiently"),
        failure=Failure("rate_limit", 429, asked_wait=asked),
    )
    assert symptom_of(observation) == Symptom("limited", kept, "429")


# the rules


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"failures": 0}, "failures must be a whole number from 1 to 1000"),
        ({"first": 0}, "first must be a finite number above 0"),
        ({"longest": float("nan")}, "longest must be a finite number above 0"),
        ({"first": 40.0}, r"first must be at most longest \(30 s\), not 40 s"),
        ({"cooldown": 5}, "has no field 'cooldown'"),
    ],
)
def test_rules_that_make_no_sense_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Health(**options)


@given(st.lists(st.sampled_from(KINDS), max_size=20), st.integers(1, 4))
def test_it_never_opens_before_its_failures_in_a_row(
    events: list[str | None], failures: int
) -> None:
    rules = Health(failures=failures)
    in_a_row = 0
    health = BackendHealth()
    assume(not {"limited", "rejected_key"} & {*events})
    for event in events:
        in_a_row = (
            in_a_row + 1 if event in ("failed", "fell_silent") else in_a_row if event is None else 0
        )
        health = after(health, Symptom(event), 0.0, rules=rules)
        if health.state == "open":
            assert in_a_row >= failures
            return
    assert in_a_row < failures
