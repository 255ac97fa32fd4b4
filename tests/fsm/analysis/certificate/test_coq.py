"""Coq, whose kernel nobody here wrote, proves the shipped tables; it refuses planted faults by the
name of a lemma, and takes the same steps as the real machine.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from rungwise import CALL, verify
from rungwise.core import TURN, Effect, Guard, Row, Table
from rungwise.fsm.analysis.certificate.shown.coq import LARGEST, THEORY, bound_of, coq_of, theory
from rungwise.fsm.engine.checker.compiled import compiled_rows
from rungwise.fsm.errors import TableError
from rungwise.fsm.health.table import HEALTH
from support.command_line import invoke
from support.formal.coq import comparison, coq, fuzzed, proved, with_theory
from support.formal.faults import FAULTY
from support.tables import ENTREAT, EXAMPLE, KNOTTY, redeclaring, replacing, row_of, tampered
from support.uncommon import UNCOMMON

FULL = pytest.mark.full
SHIPPED: Mapping[str, Table] = {"call": CALL, "turn": TURN, "health": HEALTH}


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_written_is_up_to_date(name: str) -> None:
    written = Path(f"diagrams/{name}.v").read_text(encoding="utf-8")
    assert written == coq_of(SHIPPED[name], name)


@pytest.mark.parametrize("name", [pytest.param("call", marks=FULL), "turn", "health"])
def test_the_machine_runs_what_is_declared(name: str) -> None:
    table = SHIPPED[name]
    found = {
        (each.event, each.source): [
            other
            for other in compiled_rows(table)
            if (other.event, other.source) == (each.event, each.source)
        ]
        for each in table.rows
    }
    for key, ladder in table.ladders.items():
        for row, compiled in zip(ladder, found[key], strict=True):
            guard = table.guard(row.guard)
            effect = table.effect(row.effect)
            assert compiled.target == row.target
            assert set(compiled.holds) == set(guard.holds)
            assert set(compiled.lacks) == set(guard.lacks)
            assert compiled.needs == ((guard.counter,) if guard.counter else ())
            assert compiled.spends == effect.spends
            assert set(compiled.refills) == set(effect.refills)
            assert compiled.refills_on == ((effect.refills_on,) if effect.refills_on else ())
            assert compiled.counts == (row.effect == "count_attempt")


def test_no_theorem_of_the_theory_is_taken_on_trust() -> None:
    text = re.sub(r"\(\*.*?\*\)", "", theory(), flags=re.DOTALL)
    assert not re.findall(r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", text)


# What is compiled otherwise than declared

RETRY = row_of("failed_transiently", "may_retry")


def always(condition: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda run: True


def never(condition: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda run: False


def unlimited(condition: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_open(run: Any) -> bool:
        return condition(evolve(run, spent=[0] * len(run.spent)))

    return is_open


def free(count: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda run: None


def twice(count: Callable[[Any], None]) -> Callable[[Any], None]:
    def counted(run: Any) -> None:
        count(run)
        count(run)

    return counted


def both(count: Callable[[Any], None]) -> Callable[[Any], None]:
    def counted(run: Any) -> None:
        run.spent[:2] = [2, 2]

    return counted


def test_the_row_is_written_as_it_is_compiled_and_not_as_it_is_declared() -> None:
    def compiled(table: Table) -> Any:
        return next(
            each
            for each in compiled_rows(table)
            if (each.event, each.target) == (RETRY.event, RETRY.target)
        )

    assert compiled(CALL).needs == ("retries",)
    assert compiled(tampered(RETRY, test=always)).needs == ()
    assert compiled(tampered(RETRY, test=always)).lacks == ()
    assert compiled(CALL).spends == "retries"
    assert compiled(tampered(RETRY, count=free)).spends is None


@pytest.mark.parametrize(
    ("mistakes", "why"),
    [
        ({"test": never}, "is not taken where its guard holds"),
        ({"count": twice}, "changes retries from 1 to 3"),
        ({"count": both}, "and may take one of one counter"),
    ],
    ids=["never", "twice", "both"],
)
def test_what_no_row_may_do_is_refused(mistakes: dict[str, Any], why: str) -> None:
    with pytest.raises(TableError, match=why) as caught:
        list(compiled_rows(tampered(RETRY, **mistakes)))
    assert str(RETRY) in str(caught.value)


# The figure of a policy


@pytest.mark.full
@pytest.mark.parametrize("backends", [1, 2, 3])
def test_the_figure_is_that_of_the_certificate(backends: int) -> None:
    certificate = verify(chain=backends)
    (attempts,) = [case for case in certificate.worst if case.name == "attempts"]
    assert bound_of(CALL, certificate.limits) == attempts.ladder


@pytest.mark.full
def test_a_figure_that_is_too_large_to_be_counted_is_left_out() -> None:
    limits = {**verify().limits, "retries": LARGEST}
    assert bound_of(CALL, limits) is None
    written = coq_of(CALL, "call", limits)
    assert "Bounded by 2 only" in written
    assert "call_sends_at_most" not in written


def test_verify_writes_a_table_and_the_theory(tmp_path: Path) -> None:
    done = invoke("verify", "--backends", "2", "--coq", tmp_path / "proof")
    assert done.exit_code == 0
    assert (tmp_path / "proof" / THEORY).read_text(encoding="utf-8") == theory()
    written = (tmp_path / "proof/call.v").read_text(encoding="utf-8")
    (attempts,) = [each for each in verify(chain=2).worst if each.name == "attempts"]
    assert f"Lemma call_most : most_attempts call call_limits = {attempts.ladder}." in written
    (tmp_path / "file").write_text("")
    done = invoke("verify", "--backends", "2", "--coq", tmp_path / "file")
    assert done.exit_code == 2
    assert "--coq" in done.stderr


# In full: what Coq says

CLOSED = "Closed under the global context"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_theory(tmp_path_factory.mktemp("coq"))


@FULL
@pytest.mark.slowest
def test_coq_proves_the_shipped_tables(tmp_path: Path) -> None:
    for name, table in SHIPPED.items():
        limits = verify(chain=3).limits if name == "call" else None
        text = coq_of(table, name, limits)
        done = proved(tmp_path, name, text)
        assert not done.wrong
        assert done.output.count(CLOSED) == text.count("Print Assumptions") >= 7
    checked = coq(tmp_path, "coqchk", "-o", *(f"Rungwise.{name}" for name in SHIPPED))
    assert not checked.wrong
    assert "* Axioms: <none>" in " ".join(checked.output.split())


OWN: Mapping[str, Table] = {
    "small": EXAMPLE,
    "facts that follow from others": KNOTTY,
    "a rung less": CALL.without("prefill"),
    "a rung more": CALL.with_rung(ENTREAT, refused=None),
    "names that mean something to others": UNCOMMON,
}


@FULL
@pytest.mark.parametrize("name", OWN)
def test_coq_proves_the_tables_of_users(name: str, folder: Path) -> None:
    table = OWN[name]
    module = f"own_{list(OWN).index(name)}"
    limits = dict.fromkeys(table.counters, 2)
    assert not proved(folder, module, coq_of(table, "call", limits)).wrong


def effect(**fields: Any) -> Table:
    return redeclaring(CALL, Effect("spend_retry", **fields))


def instead(old: Row, new: Row | None, table: Table = CALL) -> Table:
    return replacing(table, {old: new})


def first(row: Row, table: Table = CALL) -> Table:
    return evolve(table, rows=(row, *table.rows))


def last(row: Row, table: Table = CALL) -> Table:
    return evolve(table, rows=(*table.rows, row))


def at_the_end(event: str, target: str) -> Table:
    return instead(row_of(event, None), Row(event, "await", None, target))


USE_TOOLS = row_of("called_tools", "may_use_tools", table=TURN)
DUE = row_of("came_due", None, "open", table=HEALTH)

FAULTS: Mapping[str, tuple[str, Table]] = {
    # what a row takes and refills
    "takes nothing": ("call_pays", effect()),
    "refills and takes nothing": ("call_pays", effect(refills="reasks")),
    "takes of another counter": ("call_finds_what_it_takes", effect(spends="reasks")),
    "refills what ranks above": ("call_pays", effect(spends="retries", refills="continuations")),
    "refills what ranks alike": ("call_pays", effect(spends="retries", refills="reasks")),
    "refills what it takes": ("call_pays", effect(spends="retries", refills="retries")),
    "refills on a fact": (
        "call_pays",
        effect(
            spends="retries",
            refills=("reasks", "fallbacks"),
            refills_on="has_text",
        ),
    ),
    "guard without anything": (
        "call_tries_every_row",
        redeclaring(CALL, Guard("may_retry")),
    ),
    "guard with a fact alone": (
        "call_finds_what_it_takes",
        redeclaring(CALL, Guard("may_retry", holds="wait_fits")),
    ),
    "guard with another counter": (
        "call_finds_what_it_takes",
        redeclaring(CALL, Guard("may_retry", counter="reasks")),
    ),
    "another fallback without a counter": (
        "call_finds_what_it_takes",
        redeclaring(CALL, Guard("must_switch", holds=("should_leave", "has_next_backend"))),
    ),
    "a fallback refills itself": (
        "call_pays",
        redeclaring(CALL, Effect("spend_fallback", spends="fallbacks", refills="fallbacks")),
    ),
    "ranks turned round": ("call_pays", evolve(CALL, ranks=CALL.ranks[::-1])),
    "a counter ranks twice": (
        "call_ranks_once",
        evolve(CALL, ranks=(*CALL.ranks, (CALL.ranks[0][0],))),
    ),
    # sends and ends
    "a send is not counted": (
        "call_counts_every_request",
        instead(row_of("sent", None, "retry"), Row("sent", "retry", None, "await")),
    ),
    "a send takes a unit": (
        "call_finds_what_it_takes",
        instead(row_of("sent", None, "retry"), Row("sent", "retry", None, "await", "spend_retry")),
    ),
    "the hub leads to itself": (
        "call_pays",
        first(Row("came_empty", "await", "may_reask", "await", "spend_reask")),
    ),
    "the hub sends by itself": (
        "call_pays",
        first(Row("came_empty", "await", "may_reask", "await", "count_attempt")),
    ),
    "an end counts an attempt": (
        "call_counts_every_request",
        instead(
            row_of("answered", None),
            Row("answered", "await", None, "done", "count_attempt"),
        ),
    ),
    "an end takes what nobody found": (
        "call_finds_what_it_takes",
        instead(row_of("answered", None), Row("answered", "await", None, "done", "spend_retry")),
    ),
    "an end takes a unit": (
        "call_pays",
        first(Row("answered", "await", "may_reask", "done", "spend_reask")),
    ),
    "a rung for nothing": ("call_pays", at_the_end("refused", "retry")),
    "a rung that is not paid": (
        "call_finds_what_it_takes",
        instead(row_of("answered", None), Row("answered", "await", None, "reask", "spend_reask")),
    ),
    "a rung counts an attempt": (
        "call_pays",
        first(Row("came_empty", "await", "may_reask", "reask", "count_attempt")),
    ),
    # ladders
    "no last resort after an empty reply": (
        "call_has_last_resorts",
        instead(row_of("came_empty", None), None),
    ),
    "no last resort after a refusal": (
        "call_has_last_resorts",
        instead(row_of("refused", None), None),
    ),
    "no last resort where it runs out": (
        "call_has_last_resorts",
        instead(row_of("ran_out", None, "retry"), None),
    ),
    "a row behind a last resort": (
        "call_tries_every_row",
        last(Row("refused", "await", "may_reask", "reask", "spend_reask")),
    ),
    "two last resorts": ("call_tries_every_row", last(Row("refused", "await", None, "failed"))),
    "an outcome is left": ("call_leaves_no_outcome", last(Row("answered", "failed", None, "done"))),
    "a state that nothing leaves": ("call_has_no_dead_end", at_the_end("refused", "limbo")),
    # honesty
    **{
        f"text is lost after {event}": (
            "call_keeps_text",
            instead(row_of(event, "has_text"), None),
        )
        for event in (
            "answered_wrongly",
            "came_empty",
            "paused",
            "tools_truncated",
            "interrupted",
            "malformed",
            "failed_permanently",
            "overflowed",
        )
    },
    "text is lost where a backend is open": (
        "call_keeps_text",
        instead(row_of("found_open", "has_text", "retry"), None),
    ),
    "another fact keeps text": (
        "call_keeps_text",
        instead(
            row_of("came_empty", "has_text"),
            Row("came_empty", "await", "added_text", "partial"),
        ),
    ),
    "text ends in an error": (
        "call_keeps_text",
        instead(
            row_of("came_empty", "has_text"),
            Row("came_empty", "await", "has_text", "exhausted"),
        ),
    ),
    "a cut tool call is done": ("call_answers_honestly", at_the_end("tools_truncated", "done")),
    "cut JSON is done": (
        "call_answers_honestly",
        first(Row("json_truncated", "await", "has_text", "done")),
    ),
    "cut text is done": ("call_answers_honestly", at_the_end("truncated", "done")),
    "a refusal is done": ("call_answers_honestly", at_the_end("refused", "done")),
    # of a turn
    "turn: takes nothing": ("turn_pays", FAULTY["takes nothing"]),
    "turn: checks no counter": ("turn_finds_what_it_takes", FAULTY["checks no counter"]),
    "turn: no last resort": ("turn_has_last_resorts", FAULTY["no last resort"]),
    "turn: leaves an outcome": ("turn_leaves_no_outcome", FAULTY["leaves an outcome"]),
    "turn: receives for ever": ("turn_pays", FAULTY["receives in the hub for ever"]),
    "turn: stands still": ("turn_has_no_dead_end", FAULTY["stands still"]),
    "turn: refills what ranks above": ("turn_pays", FAULTY["gives back what ranks above"]),
    "turn: in flight, and not sent": (
        "turn_has_last_resorts",
        FAULTY["in flight, and not sent"],
    ),
    "turn: tools are not run": (
        "turn_runs_its_tools",
        instead(
            USE_TOOLS,
            Row("called_tools", "await", "may_extend", "go_on", "spend_auto_continue"),
            TURN,
        ),
    ),
    "turn: tools are left for a summary": (
        "turn_runs_its_tools",
        first(Row("ran_out", "use_tools", "may_summarize", "summarize", "spend_summary"), TURN),
    ),
    "turn: goes on after it was cancelled": (
        "turn_stops",
        first(Row("cancelled", "await", "may_extend", "go_on", "spend_auto_continue"), TURN),
    ),
    # of health
    "health: comes due and is closed": (
        "health_comes_due",
        instead(DUE, Row("came_due", "open", None, "closed"), HEALTH),
    ),
    "health: never comes due": ("health_takes_came_due", instead(DUE, None, HEALTH)),
    "health: any answer frees a probe": (
        "health_frees_no_probe",
        redeclaring(HEALTH, Effect("forget_failures", refills=("failures", "probes"))),
    ),
    "health: a second probe": (
        "health_tries_every_row",
        redeclaring(HEALTH, Guard("may_probe")),
    ),
    "health: a probe or nothing": (
        "health_has_last_resorts",
        instead(row_of("probed", None, "half_open", table=HEALTH), None, HEALTH),
    ),
    # compiled wrongly, and declared rightly
    "compiled: any condition": ("call_tries_every_row", tampered(RETRY, test=always)),
    "compiled: no counter": ("call_finds_what_it_takes", tampered(RETRY, test=unlimited)),
    "compiled: counts nothing": ("call_pays", tampered(RETRY, count=free)),
}


def test_forty_faults_are_planted() -> None:
    assert len(FAULTS) >= 40


@FULL
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refused_by_the_name_of_a_lemma(fault: str, folder: Path) -> None:
    lemma, table = FAULTS[fault]
    kind = lemma.partition("_")[0]
    name = f"planted_{list(FAULTS).index(fault)}"
    done = proved(folder, name, coq_of(table, kind))
    assert f"refused by {lemma} , at fault:" in " ".join(done.wrong.split())


SEEDS = range(10)
RUNS = {"call": 10_000, "turn": 5_000, "health": 500}
"""How many runs a case compares; health never ends, so that its runs are long."""

COMPARED = [("call", seed) for seed in SEEDS] + [("turn", 0), ("health", 0)]


@FULL
@pytest.mark.slowest
@pytest.mark.parametrize(("name", "seed"), COMPARED)
def test_fuzzed_runs_of_the_real_machine_take_the_steps_of_the_model(
    name: str, seed: int, tmp_path: Path
) -> None:
    table = SHIPPED[name]
    assert not proved(tmp_path, name, coq_of(table, name)).wrong
    done = proved(tmp_path, "compared", comparison(table, name, fuzzed(table, RUNS[name], seed)))
    assert not done.wrong


EXPORTED_WRONGLY = {
    "a fact is left out": ('["added_text"; "throttled"]', '["added_text"]'),
    "a fact is turned round": ('["wait_fits"] ["added_text"', '[] ["wait_fits"; "added_text"'),
    "a counter is another": ('["corrections"]\n', '["repairs"]\n'),
    "a refill is left out": ('"retries"; "reasks"; "prefills"]', '"reasks"; "prefills"]'),
    "a refill asks for nothing": ('["added_text"] false', "[] false"),
    "a target is another": ('"partial" None', '"salvaged" None'),
    "a send is not counted": ('"await" None [] [] true', '"await" None [] [] false'),
    "rows stand in another order": ("", ""),
}


@FULL
@pytest.mark.parametrize("fault", EXPORTED_WRONGLY)
def test_a_fault_of_the_exporter_is_found_by_the_comparison(fault: str, tmp_path: Path) -> None:
    old, new = EXPORTED_WRONGLY[fault]
    # The table alone: most of these faults are refused by a lemma as well.
    text = coq_of(CALL, "call").partition("(* 1. ")[0]
    wrong = text.replace(old, new)
    if not old:
        head, *rows = text.split("\n  Row ")
        rows[20:30] = reversed(rows[20:30])
        wrong = "\n  Row ".join([head, *rows])
    assert wrong != text
    assert not proved(tmp_path, "call", wrong).wrong
    done = proved(tmp_path, "compared", comparison(CALL, "call", fuzzed(CALL, 2_000, 53)))
    assert "refused by agrees_" in done.wrong
