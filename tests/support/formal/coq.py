"""Coq, run on a table and its theory; and fuzzed runs of the real machine, written for it to
compare.
"""

import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import frozen

from rungwise.core import Table
from rungwise.fsm.analysis.certificate.shown.coq import THEORY, theory
from rungwise.fsm.engine.machine.run import Run
from support.missing import missing
from support.waiting import patience


@frozen
class Done:
    """Hold what Coq said.

    Arguments:
        output: what it said; of a failed run, on stdout alone.
        wrong: what went to stderr; empty if all is proved.
    """

    output: str
    wrong: str


def with_theory(folder: Path) -> Path:
    """Return a folder in which the theory is compiled."""
    if not (folder / f"{THEORY}o").exists():
        (folder / THEORY).write_text(theory(), encoding="utf-8")
        done = coq(folder, "coqc", THEORY)
        assert not done.wrong, done.wrong
    return folder


def coq(folder: Path, program: str, *arguments: str) -> Done:
    """Run a program of Coq in a folder."""
    if shutil.which(program) is None:
        missing(f"no {program} (on Debian: apt-get install coq)")
    quick = [] if program == "coqchk" else ["-q"]  # which reads no file of the user's
    command = [program, *quick, "-R", ".", "Rungwise", *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=patience(600), check=False
    )
    assert (done.returncode == 0) != ("Error" in done.stderr), done.stderr
    if done.returncode == 0:
        return Done(done.stdout + done.stderr, "")  # coqchk sums up on the latter
    return Done(done.stdout, done.stderr)


def proved(folder: Path, name: str, text: str) -> Done:
    """Let Coq check a table beside the theory in a folder."""
    (folder / f"{name}.v").write_text(text, encoding="utf-8")
    return coq(with_theory(folder), "coqc", f"{name}.v")


# Runs to compare. A run is a list of numbers: its limits, and for each step what came and what was
# found (event, place in its ladder, next state, facts), and what is spent then, with the attempts.

BITS = 4
"""The bits of a counter."""

STEPS = 40
"""The most steps of a run."""


LIVELY = 0.9
"""How often an event comes that may lead to a rung, and facts that let it, so that runs are
long.
"""

TRIES = 6
"""How often they are drawn at most for this."""


def packed(counts: Sequence[int]) -> int:
    """Write counters as one number."""
    total = 0
    for place, count in enumerate(counts):
        assert 0 <= count < 1 << BITS
        total |= count << BITS * place
    return total


def fuzzed(table: Table, runs: int, seed: int) -> Iterator[list[int]]:
    """Yield runs of the real machine, each with limits, events and facts that are drawn."""
    drawn = random.Random(seed)
    every_event: dict[str, list[str]] = {state: [] for state in table.states}
    lively: dict[str, list[str]] = {state: [] for state in table.states}
    for (event, state), rows in table.ladders.items():
        every_event[state].append(event)
        if rows[0].target == table.hub or (
            state == table.hub and rows[0].target not in table.outcomes
        ):
            lively[state].append(event)
    for _ in range(runs):
        limits = {name: drawn.choice((0, 1, 2, 3, 3)) for name in table.counters}
        run = Run.at_start(table, limits)
        written = [packed(run.limits)]
        tries = 0
        while every_event[run.state] and len(written) < 2 * STEPS:
            event = drawn.choice(every_event[run.state])
            if lively[run.state] and drawn.random() < LIVELY:
                event = drawn.choice(lively[run.state])
            share = drawn.random()
            facts = [name for name in table.found_facts if drawn.random() < share]
            if run.state == table.hub and tries < TRIES and drawn.random() < LIVELY:
                row = run.would_take(event, facts)
                tries += 1
                if row is None or row.target in table.outcomes:
                    continue
            tries = 0
            source = run.state
            row = run.fire(event, facts)
            step = table.events.index(event)
            step |= table.ladder(event, source).index(row) << 6
            step |= table.states.index(run.state) << 12
            step |= run.facts << 18
            written += [step, packed(run.spent) << 8 | run.attempts]
        yield written


def comparison(table: Table, name: str, runs: Iterator[list[int]]) -> str:
    """Write runs of the real machine, and that the model takes the same steps, for Coq.

    Arguments:
        table: the machine.
        name: of the file that holds its table.
        runs: as `fuzzed` yields them.
    """
    facts = [fact.name for fact in table.facts]
    text = COMPARES.format(
        name=name,
        events=_strings(table.events),
        states=_strings(table.states),
        facts=_strings(facts),
        counters=_strings(table.counters),
        bits=BITS,
    )
    some: list[str] = []
    parts = 0
    for run in runs:
        some.append(f"({' :: '.join(map(str, run))} :: nil)")
        if len(some) == 100:
            text += _part(parts, some)
            parts += 1
            some = []
    return text + _part(parts, some)


def _part(number: int, runs: list[str]) -> str:
    written = "\n  :: ".join([*runs, "nil"])
    return (
        f"Definition runs_{number} : list (list int) := {written}.\n"
        f"Lemma agrees_{number} : filter differs runs_{number} = nil.\n"
        f"Proof. computed agrees_{number}. Qed.\n"
    )


def _strings(names: Iterable[str]) -> str:
    written = "; ".join(f'"{name}"' for name in names)
    return f"[{written}]%string"


COMPARES = """
From Coq Require Import String List Bool ZArith Uint63.
Import ListNotations.
From Rungwise Require Import Ladder {name}.

Definition events : list name := {events}.
Definition states : list name := {states}.
Definition facts_in_order : list name := {facts}.
Definition counters : list name := {counters}.

Open Scope uint63_scope.

Fixpoint small (most : nat) (i : int) : nat :=
  match most with O => O | S less => if (i =? 0)%uint63 then O else S (small less (i - 1)) end.

Definition number (packed shift most : int) : nat := small 255%nat ((packed >> shift) land most).

Fixpoint pick (shift : int) (names : list name) (packed width most : int) (x : name) : nat :=
  match names with
  | [] => O
  | y :: rest => if String.eqb x y then number packed shift most
                 else pick (shift + width) rest packed width most x
  end.

(* The ladders, looked up: of each event in each state. *)
Definition ladders := Eval vm_compute in map (fun e => map (ladder {name} e) states) events.
Lemma these_are_the_ladders : ladders = map (fun e => map (ladder {name} e) states) events.
Proof. vm_compute. reflexivity. Qed.

Fixpoint place (p : row -> bool) (l : list row) : nat :=
  match l with [] => O | r :: rest => if p r then O else S (place p rest) end.

(* The row at this place is the one that `step` takes. *)
Lemma place_finds p l : nth_error l (place p l) = find p l.
Proof. induction l as [|r l IH]; simpl; [reflexivity|]. destruct (p r); [reflexivity|exact IH]. Qed.

Fixpoint same (at_ : nat) (l : limits) (c : configuration) (attempts : nat) (steps : list int)
  : bool :=
  match steps with
  | came :: then_ :: rest =>
      let tried := nth at_ (nth (number came 0 63) ladders []) [] in
      let f := fun x => Nat.eqb (pick 18 facts_in_order came 1 1 x) 1 in
      let counted := pick 8 counters then_ {bits} 15 in
      let chosen := place (is_open l f c) tried in
      match nth_error tried chosen with
      | None => false
      | Some r =>
          let next := after f r c in
          let sent := if counts r then S attempts else attempts in
          let to := number came 12 63 in
          if Nat.eqb chosen (number came 6 63) then
          if String.eqb (state next) (nth to states ""%string) then
          if forallb (fun x => Nat.eqb (spent next x) (counted x)) counters then
          if Nat.eqb sent (number then_ 0 255) then
          same to l (At (state next) counted) sent rest
          else false else false else false else false
      end
  | _ => match steps with [] => true | _ => false end
  end.

Fixpoint index (x : name) (names : list name) : nat :=
  match names with [] => O | y :: rest => if String.eqb x y then O else S (index x rest) end.
Definition number_of (x : name) : nat := index x states.

Definition differs (run : list int) : bool :=
  match run with
  | [] => true
  | packed :: steps =>
      let first := start {name} in
      let l := pick 0 counters packed {bits} 15 in
      negb (same (number_of first) l (nothing_spent first) O steps)
  end.

"""
