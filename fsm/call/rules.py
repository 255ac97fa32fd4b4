"""The rules for tables that run model calls, besides the proof that every path ends.

Theory

The proof of a table (`engine/checker/proof.py`) says that each run ends. It does not say that an
ending is honest, or that the certificate counts rightly what a run sends. These rules say that, a
fault in a sentence for each row that breaks one. They read the declarations alone:

* what a rung needs stands in the guard of every row that leads there (`NEEDS`): a retry without
  `wait_fits` could wait for ever, a fallback without `has_next_backend` has nowhere to go;
* text that was gathered never becomes an error: `has_text -> partial` stands before it in the
  ladder, and `done` follows an answer only;
* what the certificate multiplies is what is paid (`PAYS`, `LENGTHENS`, `FORGETS`): each reply that
  makes later requests longer takes a unit of a counter that is never refilled.

So whoever declares a table of their own gets these promises, or a `TableError` that names the row.
"""

from __future__ import annotations

from collections.abc import Iterator

from rungwise.fsm.call.conversation.observation import ANSWERS, RAISED, UNCERTAIN
from rungwise.fsm.call.table import CALL, HAS_TEXT, KEEPS_TEXT, REATTACH, UNSENT, keeps_asked_wait
from rungwise.fsm.engine.checker.branches import finds
from rungwise.fsm.engine.checker.check import check_table
from rungwise.fsm.engine.checker.proof import RowProof, prove
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.errors import TableError
from rungwise.fsm.values.label import close_to

ERRORS = frozenset({"exhausted", "failed", "refused"})
"""The outcomes in which gathered text must not end; a refusal by the provider is the exception."""

MAY_BE_DONE = ANSWERS | {UNCERTAIN}
"""The events on which a call may be done. The last is one only if nobody measured the answer."""

KEEPERS = {"has_delivered": "keep_delivered", "has_prior_answer": "keep_prior_answer"}
"""The effects that choose the answer of a salvaged call."""

OWN = {"cancelled": "cancelled", "ran_out": "over_budget"}
"""The outcomes that only the driver brings about."""

NEEDS = {
    "retry": ("wait_fits", "a wait that the service asks for could last for ever"),
    "resend": ("connection_was_stale", "somebody may have read the request"),
    "reattach": ("keeps_running", "there may be nothing to fetch"),
    "rotate": ("other_key_free", "there may be no other key"),
    "fallback": ("has_next_backend", "there may be no other backend"),
    "compact": ("has_compactor", "there may be no compactor"),
    "repair": ("repair_known", "there may be nothing to repair"),
}
"""The fact that the guard of every row to a rung must check, and why."""

PAYS = {"fallback": "fallbacks", "prefill": "prefills", "correct": "corrections"}
"""The one counter that may pay for these rungs, because the certificate counts what is sent by it.
"""

LENGTHENS = ("continuations", "compactions", "fallbacks")
"""The counters by which the certificate bounds gathered text: a reply that adds text takes a unit
of one.
"""

FORGETS = {
    "prefills": ("continuation", "fallback", "reask", "nudge", "correct"),
    "corrections": ("fallback",),
}
"""The rungs that drop the seeded reasoning, or the corrected replies, so that their counters may be
refilled there.
"""


def check_call_table(table: Table) -> None:
    """Refuse a table that model calls cannot run on with a TableError: by `check_table`, and the
    rules of a call.
    """
    check_table(table)
    faults = "".join(f"\n- {fault}" for fault in faults_of(table))
    if faults:
        raise TableError(f"the table {table.name!r} is refused for calls:{faults}", table=table)


def faults_of(table: Table) -> Iterator[str]:
    """Yield what is wrong with a table, in words."""
    for event in table.events:
        if event not in CALL.events:
            yield f"no call ever fires the event {event!r}{close_to(event, CALL.events)}"
    for fact in table.facts:
        if fact.of is None and not fact.is_derived and fact.name not in CALL.found_facts:
            yield (
                f"nobody finds the fact {fact.name!r}: give it a function of the reply, as "
                f"in Fact(..., of=function)"
            )
    for outcome in table.outcomes:
        if outcome not in CALL.outcomes:
            yield f"no call ends as {outcome!r}{close_to(outcome, CALL.outcomes)}"
    needed: dict[str, list[str]] = {}
    for rung in table.rungs:
        # a fallback passes over the backends that are not asked now, so it never finds one open
        unsent = ("ran_out",) if rung == "fallback" else UNSENT
        needed[rung] = ["sent", "cancelled", *unsent]
    needed[table.hub] = [event for event in CALL.events if event not in ("sent", *UNSENT)]
    for state, events in needed.items():
        for event in events:
            if not table.ladder(event, state):
                yield f"no row takes {event!r} in {state!r}, where every call can meet it"
    for proof in prove(table):
        yield from _faults_of_row(table, proof.row)
        if proof.row.target in table.rungs:
            yield from _lacks_of_row(table, proof.row)
            yield from _debts_of_row(table, proof)
    for event in table.events:
        for state in table.states:
            yield from _faults_of_ladder(table.ladder(event, state))


def _faults_of_row(table: Table, row: Row) -> Iterator[str]:
    if row.target == "done" and row.event not in MAY_BE_DONE:
        yield f"{row}: only {' and '.join(sorted(MAY_BE_DONE))} are done"
    if row.target == "partial" and row.event not in HAS_TEXT and not finds(table, row, "has_text"):
        yield f"{row}: its guard must find 'has_text', or the text may be empty"
    if row.target == "salvaged" and row.effect not in KEEPERS.values():
        yield (
            f"{row}: needs an effect that says what stands as the answer: "
            f"{', '.join(KEEPERS.values())}"
        )
    elif row.target == "salvaged":
        fact = next(fact for fact, effect in KEEPERS.items() if effect == row.effect)
        if not finds(table, row, fact):
            yield f"{row}: its guard must find {fact!r}, or nothing stands as the answer"
    elif row.effect in KEEPERS.values():
        yield (
            f"{row}: {row.effect} says what stands as the answer, and only a salvaged call has such"
        )
    always = {**OWN, RAISED: "failed", "sent": table.hub}.get(row.event)
    if row.event == "ran_out" and row.target == "fallback":
        if not finds(table, row, "reserve_left"):
            yield (
                f"{row}: its guard must find 'reserve_left', or nothing may be left for "
                f"another backend"
            )
        return
    if always is not None and (row.guard is not None or row.target != always):
        yield f"{row}: {row.event} always leads to {always}"
    if always is None and row.target in OWN.values():
        event = next(event for event, outcome in OWN.items() if outcome == row.target)
        yield f"{row}: only {event} leads to {row.target}"


def _lacks_of_row(table: Table, row: Row) -> Iterator[str]:
    """Yield the facts that the rung of a row needs and that its guard does not check."""
    needed = {}
    if row.target in NEEDS:
        fact, why = NEEDS[row.target]
        needed[fact] = why
    if keeps_asked_wait(row.event, row.target):
        needed.setdefault(*NEEDS["retry"])
    if _is_promptless(table, row) and row.target != REATTACH.name:
        yield f"{row}: a rung that sends no prompt is {REATTACH.name!r}, and no other"
    for fact, why in needed.items():
        if not finds(table, row, fact):
            yield f"{row}: its guard must find {fact!r}, or {why}"


def _is_promptless(table: Table, row: Row) -> bool:
    """Tell whether the request of the rung that a row leads to carries no conversation."""
    rung = table.rung(row.target)
    return rung is not None and not rung.sends_prompt


def _debts_of_row(table: Table, proof: RowProof) -> Iterator[str]:
    """Yield how a row breaks the counting by which the certificate bounds money and backends."""
    row = proof.row
    pays = PAYS.get(row.target)
    if proof.takes is None:  # which was refused already
        return
    if pays is not None and proof.takes != pays:
        yield (
            f"{row}: must take one of {pays!r}, not of {proof.takes!r}, or the certificate "
            f"takes it for another rung"
        )
    if proof.takes == "fallbacks" and row.target != "fallback":
        yield (
            f"{row}: takes one of 'fallbacks', which counts the backends that were left: "
            f"only a row to fallback does"
        )
    for name in proof.refills:
        if name in LENGTHENS:
            yield (
                f"{row}: refills {name!r}, and what was gathered or left behind at its "
                f"expense stays"
            )
        if row.target not in FORGETS.get(name, (row.target,)):
            yield (
                f"{row}: refills {name!r}, which only a row to {', '.join(FORGETS[name])} "
                f"may: elsewhere they stay"
            )
    if row.event not in KEEPS_TEXT - ANSWERS or proof.takes in LENGTHENS:
        return  # an answer that leads to a rung is discarded
    if _is_promptless(table, row):
        return  # and what it fetches takes the place of the text
    if not any(finds(table, row, fact, held=False) for fact in ("added_text", "has_text")):
        yield (
            f"{row}: the text of {row.event} is kept and makes every later request longer, so the "
            f"row must take one of {', '.join(LENGTHENS)}, lead to an end, or have a guard that "
            "finds no 'added_text'"
        )


def _faults_of_ladder(rows: tuple[Row, ...]) -> Iterator[str]:
    keeps_text = False
    for row in rows:
        keeps_text = keeps_text or (row.guard == "has_text" and row.target == "partial")
        is_last = row.event == RAISED or row.event == row.target == "refused"
        if row.target in ERRORS and not is_last and not keeps_text:
            yield (
                f"{row}: has_text -> partial must stand before it, or text that was "
                f"gathered becomes an error"
            )
