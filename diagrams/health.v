(* The table of a health, and what is proved of it. Written by `rungwise`; do not edit.

   The rows are those that the machine runs: their conditions and callbacks as compiled. What the
   lists of rows at fault mean, and why each theorem follows, is said in Ladder.v. To check it:

     coqc -R . Rungwise Ladder.v && coqc -R . Rungwise health.v
     coqchk -R . Rungwise Rungwise.health                                                    *)

From Coq Require Import String List Bool Arith Lia.
Import ListNotations.
From Rungwise Require Import Ladder.
Open Scope string_scope.

(* What the rows refill *)

Definition refilled_1 := ["failures"].
Definition refilled_2 := ["probes"].

(* Event, source; facts that hold, facts that do not, counters that have a unit left; target; the
   counter that it takes a unit of; what it refills, and on which facts; whether it counts an
   attempt. *)
Definition health : table := Table [
  Row "answered" "closed" [] [] []
      "closed" None refilled_1 [] false;
  Row "answered" "open" [] [] []
      "closed" None refilled_1 [] false;
  Row "answered" "half_open" [] [] []
      "closed" None refilled_1 [] false;
  Row "failed" "closed" [] [] ["failures"]
      "closed" (Some "failures") [] [] false;
  Row "failed" "closed" [] [] []
      "open" None [] [] false;
  Row "failed" "open" [] [] []
      "open" None [] [] false;
  Row "failed" "half_open" [] [] []
      "open" None [] [] false;
  Row "fell_silent" "closed" [] [] ["failures"]
      "closed" (Some "failures") [] [] false;
  Row "fell_silent" "closed" [] [] []
      "open" None [] [] false;
  Row "fell_silent" "open" [] [] []
      "open" None [] [] false;
  Row "fell_silent" "half_open" [] [] []
      "open" None [] [] false;
  Row "limited" "closed" [] [] []
      "open" None [] [] false;
  Row "limited" "open" [] [] []
      "open" None [] [] false;
  Row "limited" "half_open" [] [] []
      "open" None [] [] false;
  Row "rejected_key" "closed" [] [] []
      "open" None [] [] false;
  Row "rejected_key" "open" [] [] []
      "open" None [] [] false;
  Row "rejected_key" "half_open" [] [] []
      "open" None [] [] false;
  Row "came_due" "open" [] [] []
      "half_open" None [] [] false;
  Row "probed" "half_open" [] [] ["probes"]
      "half_open" (Some "probes") [] [] false;
  Row "probed" "half_open" [] [] []
      "half_open" None [] [] false;
  Row "came_back" "closed" [] [] []
      "closed" None refilled_2 [] false;
  Row "came_back" "open" [] [] []
      "open" None refilled_2 [] false;
  Row "came_back" "half_open" [] [] []
      "half_open" None refilled_2 [] false
]
  "closed"
  "closed"
  []
  [["failures"; "probes"]].

(* 1. Exactly one row for each event that a state takes; none in an outcome *)

Lemma health_has_last_resorts : without_last_resort health = [].
Proof. computed health_has_last_resorts. Qed.

Lemma health_tries_every_row : never_tried health = [].
Proof. computed health_tries_every_row. Qed.

Lemma health_leaves_no_outcome : out_of_an_outcome health = [].
Proof. computed health_leaves_no_outcome. Qed.

Lemma health_has_no_dead_end : dead_ends health = [].
Proof. computed health_has_no_dead_end. Qed.

Theorem health_takes_one_row : forall l f e c,
  ladder health e (state c) <> [] -> exists! r, takes health l f e c r.
Proof. exact (exactly_one_row health health_has_last_resorts). Qed.

Theorem health_is_final_in_outcomes : forall l f e c,
  In (state c) (outcomes health) -> step health l f e c = None.
Proof. exact (outcomes_are_final health health_leaves_no_outcome). Qed.

Theorem health_is_never_stuck : forall l f e c r next, step health l f e c = Some (r, next) ->
  In (state next) (outcomes health)
  \/ exists e', forall f', exists r' c', step health l f' e' next = Some (r', c').
Proof. exact (never_stuck health health_has_last_resorts health_has_no_dead_end). Qed.

(* Counters stay within their limits *)

Lemma health_finds_what_it_takes : unchecked health = [].
Proof. computed health_finds_what_it_takes. Qed.

Theorem health_stays_within_limits : forall l c path last, run health l c path last ->
  (forall x, spent c x <= l x) -> forall x, spent last x <= l x.
Proof. exact (within_limits health health_finds_what_it_takes). Qed.

(* 4. Honest: an open backend comes due, one probe at a time *)

Lemma health_takes_came_due : untaken health "came_due" "open" = [].
Proof. computed health_takes_came_due. Qed.

Lemma health_comes_due : strays_from health "came_due" "open" ["half_open"] = [].
Proof. computed health_comes_due. Qed.

Theorem health_is_always_due : forall l f c, state c = "open" ->
  exists r next, step health l f "came_due" c = Some (r, next) /\ In (state next) ["half_open"].
Proof.
  exact (leads_from health health_has_last_resorts _ _ _ health_comes_due
    (is_taken health _ _ health_takes_came_due)).
Qed.

Lemma health_frees_no_probe : frees_otherwise health "probes" ["came_back"] = [].
Proof. computed health_frees_no_probe. Qed.

Theorem health_probes_once : forall l c path last, run health l c path last ->
  (forall x, spent c x <= l x) -> l "probes" = 1 -> spent last "probes" <= 1.
Proof.
  intros l c path last R W <-. exact (health_stays_within_limits l c path last R W "probes").
Qed.

Theorem health_waits_for_its_probe : forall l f e c r next, step health l f e c = Some (r, next) ->
  spent next "probes" < spent c "probes" -> In e ["came_back"].
Proof. exact (freed_only_by health "probes" _ health_frees_no_probe). Qed.

(* No theorem rests on an axiom *)

Print Assumptions health_takes_one_row.
Print Assumptions health_is_final_in_outcomes.
Print Assumptions health_is_never_stuck.
Print Assumptions health_stays_within_limits.
Print Assumptions health_is_always_due.
Print Assumptions health_probes_once.
Print Assumptions health_waits_for_its_probe.
