"""The row-by-row argument: it holds for the shipped table, and every planted fault is refused with the row's name."""

from __future__ import annotations

import pytest
from attrs import define, evolve
from rungwise.fsm.checker.explore import Refusal

from rungwise import CALL, Ladder, Row
from rungwise.fsm.checker.branches import branches, dead_rows, overlaps
from rungwise.fsm.checker.proof import RowProof, prove
from rungwise.fsm.machine.table import Table


def proof_of(table: Table, event: str, guard: str | None, source: str = "await") -> RowProof:
    (found,) = [p for p in prove(table) if (p.row.event, p.row.guard, p.row.source) == (event, guard, source)]
    return found


def with_model(model: type[Ladder]) -> Table:
    return evolve(CALL, model=model)


def with_row(row: Row) -> Table:
    """Replace the row of the same event, source and guard."""
    same = (row.event, row.source, row.guard)
    return evolve(CALL, rows=tuple(row if (r.event, r.source, r.guard) == same else r for r in CALL.rows))


def test_every_row_of_the_shipped_table_is_proved() -> None:
    assert [proof.row for proof in prove(CALL)] == list(CALL.rows)
    assert {proof.verdict for proof in prove(CALL)} == {"proved"}


def test_a_proof_says_what_a_row_takes_and_refills() -> None:
    assert proof_of(CALL, "failed_transiently", "may_retry").takes == "retries"
    assert proof_of(CALL, "failed_transiently", "may_retry").refills == ()
    progress = proof_of(CALL, "truncated", "may_continue")
    assert (progress.takes, progress.refills) == ("continuations", ("retries", "reasks", "prefills"))
    switch = proof_of(CALL, "failed_transiently", "must_switch")
    assert switch.takes == "fallbacks"
    assert switch.refills == ("retries", "reasks", "nudges", "prefills", "enlargements", "repairs")


def test_each_row_to_a_rung_takes_one_unit_and_no_other_row_takes_any() -> None:
    for proof in prove(CALL):
        assert (proof.takes is not None) == (proof.row.target in CALL.rungs)


@define(eq=False)
class ForgottenIncrement(Ladder):
    def spend_retry(self) -> None:
        pass


@define(eq=False)
class ForgottenOnOnePath(Ladder):
    def spend_retry(self) -> None:
        if self.retries != 7:
            self.retries += 1


@define(eq=False)
class TakesTwo(Ladder):
    def spend_retry(self) -> None:
        self.retries += 2


@define(eq=False)
class TakesOfTwoCounters(Ladder):
    def spend_retry(self) -> None:
        self.retries += 1
        self.reasks += 1


@define(eq=False)
class TakesByFact(Ladder):
    def spend_retry(self) -> None:
        if self.has_text:
            self.retries += 1
        else:
            self.reasks += 1


@define(eq=False)
class RefillsAbove(Ladder):
    def spend_retry(self) -> None:
        self.retries += 1
        self.continuations = 0


@define(eq=False)
class RefillsBeside(Ladder):
    def spend_retry(self) -> None:
        self.retries += 1
        self.reasks = 0


@define(eq=False)
class GivesBackOne(Ladder):
    def spend_retry(self) -> None:
        self.retries += 1
        self.reasks -= 1


@define(eq=False)
class EffectTouchesFact(Ladder):
    def spend_retry(self) -> None:
        self.retries += 1
        self.wait_fits = False


@define(eq=False)
class EffectTouchesRung(Ladder):
    def spend_retry(self) -> None:
        self.retries += 1
        self.rung = "done"


@define(eq=False)
class EffectRaises(Ladder):
    def spend_retry(self) -> None:
        raise KeyError("x")


@define(eq=False)
class EffectCountsAttempt(Ladder):
    def spend_retry(self) -> None:
        self.retries += 1
        self.attempts += 1


EFFECTS = [
    (ForgottenIncrement, "takes nothing"),
    (ForgottenOnOnePath, "takes nothing"),
    (TakesTwo, "sets 'retries' to something other than one more, or 0"),
    (TakesOfTwoCounters, "takes 'reasks' and 'retries'"),
    (TakesByFact, "'reasks', but its guard did not find"),
    (RefillsAbove, "refills 'continuations', which does not rank below 'retries'"),
    (RefillsBeside, "refills 'reasks', which does not rank below 'retries'"),
    (GivesBackOne, "sets 'reasks' to something other"),
    (EffectTouchesFact, "changes 'wait_fits', which no effect may touch"),
    (EffectTouchesRung, "changes 'rung', which no effect may touch"),
    (EffectRaises, "'spend_retry' raises KeyError"),
    (EffectCountsAttempt, "changes the count of attempts"),
]


@pytest.mark.parametrize(("model", "why"), EFFECTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_faulty_effect_is_refused(model: type[Ladder], why: str) -> None:
    refused = [proof for proof in prove(with_model(model)) if proof.verdict == "refused"]
    assert {proof.row.effect for proof in refused} == {"spend_retry"}
    assert all(why in proof.why for proof in refused), refused[0].why


def guarded_by(test: str) -> type[Ladder]:
    """Make a model whose `may_retry` is an expression."""
    part: dict[str, object] = {}
    source = f"def may_retry(self): return {test}"
    exec(source, {}, part)
    body = {"may_retry": property(part["may_retry"]), "__annotations__": {}}  # type: ignore[arg-type]
    return define(eq=False)(type("Guarded", (Ladder,), body))


FAULTY_GUARDS = [
    ("True", "did not find retries < limits.retries"),
    ("self.wait_fits", "did not find"),
    ("self.retries <= self.limits.retries", "did not find"),
    ("self.retries < self.limits.reasks", "did not find"),
    ("self.reasks < self.limits.reasks", "did not find"),
    ("self.retries < self.limits.retries or self.has_text", "did not find"),
    ("self.retries < 5", "did not find"),
    ("self.retries", "'may_retry' returns a number, which is no bool"),
    ("1", "returns 1, which is no bool"),
    ("self.limits.retires > 0", "reads the limit 'retires', which no counter has"),
    ("self.kept is None", "reads 'kept', which is neither a counter nor a fact"),
    ("self.attempts < 3", "reads 'attempts'"),
    ("self.retries * 2 < self.limits.retries", "raises TypeError"),
    ("self.retries < self.limits.retries / 2", "raises TypeError"),
    ("self.retries < 2.5", "compares or adds a counter and a float"),
    ("str(self.retries) == '0'", "turns a counter into text"),
    ("1 / 0 > 0", "raises ZeroDivisionError"),
    (
        "setattr(self, 'retries', 0) or self.retries < self.limits.retries",
        "changes 'retries', and a guard changes nothing",
    ),
    ("setattr(self, 'has_text', True) or self.has_text", "changes 'has_text'"),
    ("self.retries < self.limits.retries and False", "never holds"),
]


@pytest.mark.parametrize(("test", "why"), FAULTY_GUARDS, ids=[test for test, _ in FAULTY_GUARDS])
def test_a_faulty_guard_is_refused(test: str, why: str) -> None:
    refused = [proof for proof in prove(with_model(guarded_by(test))) if proof.verdict == "refused"]
    assert {proof.row.guard for proof in refused} == {"may_retry"}
    assert all(why in proof.why for proof in refused), refused[0].why


SOUND_GUARDS = [
    "self.retries < self.limits.retries",
    "self.retries + 1 <= self.limits.retries",
    "self.limits.retries - self.retries > 0",
    "not self.retries >= self.limits.retries",
    "self.retries != self.limits.retries",
    "bool(self.limits.retries - self.retries)",
    "(self.wait_fits is True) & (self.retries < self.limits.retries)",
    "max(self.retries, 0) < self.limits.retries and self.limits.retries < 100",
    "-self.limits.retries < -self.retries",
    "self.retries + self.reasks < self.limits.retries and self.retries < self.limits.retries",
]


@pytest.mark.parametrize("test", SOUND_GUARDS)
def test_a_guard_that_checks_in_other_words_is_proved(test: str) -> None:
    assert {proof.verdict for proof in prove(with_model(guarded_by(test)))} == {"proved"}


def test_a_guard_that_swallows_the_refusal_is_refused_all_the_same() -> None:
    @define(eq=False)
    class Swallows(Ladder):
        @property
        def may_retry(self) -> bool:
            try:
                return bool(self.limits.nothing)  # type: ignore[attr-defined]
            except Exception:
                return self.retries < self.limits.retries

    assert proof_of(with_model(Swallows), "failed_transiently", "may_retry").verdict == "refused"


def test_a_guard_that_asks_for_ever_is_refused() -> None:
    @define(eq=False)
    class Endless(Ladder):
        @property
        def may_retry(self) -> bool:
            bound = 0
            while self.retries > bound:
                bound += 1
            return self.retries < self.limits.retries

    proof = proof_of(with_model(Endless), "failed_transiently", "may_retry")
    assert "asks more than" in proof.why


HUB_ROWS = [
    (Row("sent", "retry", None, "await", None), "counts no attempt"),
    (Row("sent", "retry", None, "await", "spend_retry"), "counts no attempt"),
    (Row("came_empty", "await", "may_reask", "await", "spend_reask"), "counts no attempt"),
    (Row("came_empty", "await", "may_reask", "await", "count_attempt"), "which is no rung, so nothing falls"),
    (Row("answered", "await", None, "done", "count_attempt"), "changes the count of attempts"),
    (Row("answered", "await", None, "reask", "spend_reask"), "did not find reasks < limits.reasks"),
]


@pytest.mark.parametrize(("row", "why"), HUB_ROWS, ids=lambda value: str(value)[:50])
def test_a_row_that_breaks_the_argument_of_the_hub_is_refused(row: Row, why: str) -> None:
    (refused,) = [proof for proof in prove(with_row(row)) if proof.verdict == "refused"]
    assert refused.row == row
    assert why in refused.why


def test_a_send_that_refills_is_refused() -> None:
    @define(eq=False)
    class RefillsOnSend(Ladder):
        def count_attempt(self) -> None:
            self.attempts += 1
            self.retries = 0

    refused = [proof for proof in prove(with_model(RefillsOnSend)) if proof.verdict == "refused"]
    assert {proof.row.event for proof in refused} == {"sent"}
    assert "changes 'retries', and a send changes no counter" in refused[0].why


def test_a_model_that_asks_differently_each_time_is_refused() -> None:
    @define(eq=False)
    class Moody(Ladder):
        calls = [0]  # noqa: RUF012  # shared on purpose

        @property
        def may_retry(self) -> bool:
            self.calls[0] += 1
            return (self.calls[0] > 1 or self.wait_fits) and self.retries < self.limits.retries

    assert "refused" in {proof.verdict for proof in prove(with_model(Moody))}


def test_branches_partition_what_an_event_can_meet() -> None:
    found = branches(CALL, "refused", "await")
    seen = {
        (str(b.row), b.facts["has_next_backend"], *sorted(b.left), *(f"no {name}" for name in b.spent)) for b in found
    }
    to_fallback = "await --refused [may_fall_back] / spend_fallback--> fallback"
    assert seen == {
        (to_fallback, True, "fallbacks"),
        ("await --refused--> refused", False),
        ("await --refused--> refused", True, "no fallbacks"),
    }
    assert all(branch.is_plain for branch in found)


def test_a_row_whose_guard_implies_an_earlier_one_is_dead() -> None:
    @define(eq=False)
    class Narrow(Ladder):
        @property
        def may_retry_early(self) -> bool:
            return self.may_retry and self.retries < 2

    row = Row("malformed", "await", "may_retry_early", "retry", "spend_retry")
    rows = list(CALL.rows)
    rows.insert(rows.index(Row("malformed", "await", "may_retry", "retry", "spend_retry")) + 1, row)
    assert dead_rows(evolve(CALL, rows=tuple(rows), model=Narrow)) == (row,)
    assert dead_rows(CALL) == ()


def test_overlaps_name_the_pairs_that_order_decides() -> None:
    pairs = {(first.event, first.guard, second.guard) for first, second in overlaps(CALL)}
    assert ("failed_transiently", "must_switch", "may_retry") in pairs
    assert ("interrupted", "may_resume", "may_retry") not in pairs
    assert len(pairs) == 71


def test_what_cannot_be_followed_raises_from_branches() -> None:
    with pytest.raises(Refusal, match="ZeroDivisionError"):
        branches(with_model(guarded_by("1 / 0 > 0")), "malformed", "await")
