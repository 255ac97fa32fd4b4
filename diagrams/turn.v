(* The table of a turn, and what is proved of it. Written by `rungwise`; do not edit.

   The rows are those that the machine runs: their conditions and callbacks as compiled. What the
   lists of rows at fault mean, and why each theorem follows, is said in Ladder.v. To check it:

     coqc -R . Rungwise Ladder.v && coqc -R . Rungwise turn.v
     coqchk -R . Rungwise Rungwise.turn                                                    *)

From Coq Require Import String List Bool Arith Lia.
Import ListNotations.
From Rungwise Require Import Ladder.
Open Scope string_scope.

(* What the rows refill *)

Definition refilled_1 := ["faults"].

(* Event, source; facts that hold, facts that do not, counters that have a unit left; target; the
   counter that it takes a unit of; what it refills, and on which facts; whether it counts an
   attempt. *)
Definition turn : table := Table [
  Row "sent" "ask" [] [] []
      "await" None [] [] true;
  Row "sent" "use_tools" [] [] []
      "await" None [] [] true;
  Row "sent" "go_on" [] [] []
      "await" None [] [] true;
  Row "sent" "compact" [] [] []
      "await" None [] [] true;
  Row "sent" "summarize" [] [] []
      "await" None [] [] true;
  Row "answered" "await" ["is_summary"] [] []
      "limit_reached" None [] [] false;
  Row "answered" "await" [] [] []
      "finished" None [] [] false;
  Row "called_tools" "await" [] ["is_summary"] ["faults"]
      "use_tools" (Some "faults") [] [] false;
  Row "called_tools" "await" ["has_no_text"] [] []
      "failed" None [] [] false;
  Row "called_tools" "await" [] [] []
      "limit_reached" None [] [] false;
  Row "truncated" "await" [] ["is_hopeless"; "is_summary"] ["auto_continues"]
      "go_on" (Some "auto_continues") refilled_1 ["tool_worked"] false;
  Row "truncated" "await" [] [] []
      "limit_reached" None [] [] false;
  Row "overflowed" "await" ["has_no_text"] [] []
      "failed" None [] [] false;
  Row "overflowed" "await" ["is_summary"] [] []
      "limit_reached" None [] [] false;
  Row "overflowed" "await" ["may_go_on_later"; "has_compactor"] ["is_summary"] ["compactions"]
      "compact" (Some "compactions") [] [] false;
  Row "overflowed" "await" [] [] []
      "failed" None [] [] false;
  Row "interrupted" "await" ["is_summary"] [] []
      "limit_reached" None [] [] false;
  Row "interrupted" "await" [] [] []
      "failed" None [] [] false;
  Row "refused" "await" ["has_no_text"] [] []
      "failed" None [] [] false;
  Row "refused" "await" ["is_summary"] [] []
      "limit_reached" None [] [] false;
  Row "refused" "await" [] [] []
      "failed" None [] [] false;
  Row "call_failed" "await" ["has_no_text"] [] []
      "failed" None [] [] false;
  Row "call_failed" "await" ["is_summary"] [] []
      "limit_reached" None [] [] false;
  Row "call_failed" "await" [] [] []
      "failed" None [] [] false;
  Row "tools_ran" "await" ["was_handed_off"] [] []
      "handed_off" None [] [] false;
  Row "tools_ran" "await" ["awaits_approval"] [] []
      "awaiting_approval" None [] [] false;
  Row "tools_ran" "await" ["has_patience"] ["repeats_calls"; "over_tool_limit"; "is_summary"] ["auto_continues"]
      "go_on" (Some "auto_continues") refilled_1 ["tool_worked"] false;
  Row "tools_ran" "await" [] ["over_tool_limit"; "is_summary"] ["summaries"]
      "summarize" (Some "summaries") [] [] false;
  Row "tools_ran" "await" [] [] []
      "limit_reached" None [] [] false;
  Row "compacted" "await" [] ["is_summary"] ["auto_continues"]
      "go_on" (Some "auto_continues") refilled_1 ["tool_worked"] false;
  Row "compacted" "await" [] [] []
      "limit_reached" None [] [] false;
  Row "stayed_long" "await" [] [] []
      "failed" None [] [] false;
  Row "cancelled" "await" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "ask" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "use_tools" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "go_on" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "compact" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "summarize" [] [] []
      "cancelled" None [] [] false;
  Row "ran_out" "await" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "ask" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "use_tools" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "go_on" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "compact" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "summarize" [] [] []
      "over_budget" None [] [] false
]
  "ask"
  "await"
  ["finished"; "handed_off"; "awaiting_approval"; "limit_reached"; "failed"; "cancelled"; "over_budget"]
  [["auto_continues"]; ["faults"; "compactions"; "summaries"]].

(* 1. Exactly one row for each event that a state takes; none in an outcome *)

Lemma turn_has_last_resorts : without_last_resort turn = [].
Proof. computed turn_has_last_resorts. Qed.

Lemma turn_tries_every_row : never_tried turn = [].
Proof. computed turn_tries_every_row. Qed.

Lemma turn_leaves_no_outcome : out_of_an_outcome turn = [].
Proof. computed turn_leaves_no_outcome. Qed.

Lemma turn_has_no_dead_end : dead_ends turn = [].
Proof. computed turn_has_no_dead_end. Qed.

Theorem turn_takes_one_row : forall l f e c,
  ladder turn e (state c) <> [] -> exists! r, takes turn l f e c r.
Proof. exact (exactly_one_row turn turn_has_last_resorts). Qed.

Theorem turn_is_final_in_outcomes : forall l f e c,
  In (state c) (outcomes turn) -> step turn l f e c = None.
Proof. exact (outcomes_are_final turn turn_leaves_no_outcome). Qed.

Theorem turn_is_never_stuck : forall l f e c r next, step turn l f e c = Some (r, next) ->
  In (state next) (outcomes turn)
  \/ exists e', forall f', exists r' c', step turn l f' e' next = Some (r', c').
Proof. exact (never_stuck turn turn_has_last_resorts turn_has_no_dead_end). Qed.

(* Counters stay within their limits *)

Lemma turn_finds_what_it_takes : unchecked turn = [].
Proof. computed turn_finds_what_it_takes. Qed.

Theorem turn_stays_within_limits : forall l c path last, run turn l c path last ->
  (forall x, spent c x <= l x) -> forall x, spent last x <= l x.
Proof. exact (within_limits turn turn_finds_what_it_takes). Qed.

(* 2. Every run ends, for all limits *)

Lemma turn_pays : unpaid turn = [].
Proof. computed turn_pays. Qed.

Lemma turn_counts_every_request : miscounted turn = [].
Proof. computed turn_counts_every_request. Qed.

Lemma turn_ranks_once : ranked_twice turn = [].
Proof. computed turn_ranks_once. Qed.

Theorem turn_bounds_attempts : forall l s path last,
  run turn l (nothing_spent s) path last -> requests path <= most_attempts turn l.
Proof.
  intros l. exact (attempts_are_bounded turn l turn_pays turn_finds_what_it_takes
    turn_leaves_no_outcome turn_counts_every_request turn_ranks_once).
Qed.

Theorem turn_ends : forall l s path last,
  run turn l (nothing_spent s) path last -> length path <= 2 * most_attempts turn l.
Proof.
  intros l. exact (every_run_ends turn l turn_pays turn_finds_what_it_takes
    turn_leaves_no_outcome turn_counts_every_request turn_ranks_once).
Qed.

(* 3. The budget holds, for all limits and ceilings, if each request reserves its worst cost *)

Theorem turn_keeps_its_budget : forall l ceiling dearest c paid path last total,
  charged turn l ceiling dearest c paid path last total ->
  (forall m, paid m <= ceiling m) ->
  (forall m, total m <= ceiling m) /\ total "attempts" = paid "attempts" + sends turn path.
Proof. exact (budget_holds turn). Qed.

Theorem turn_bounds_costs : forall l ceiling dearest s paid path last total,
  charged turn l ceiling dearest (nothing_spent s) paid path last total ->
  forall m, total m <= paid m + dearest m * most_attempts turn l.
Proof.
  intros l. exact (costs_are_bounded turn l turn_pays turn_finds_what_it_takes
    turn_leaves_no_outcome turn_counts_every_request turn_ranks_once).
Qed.

Theorem turn_shares_a_budget : forall ceiling paid held,
  shares ceiling (paid, held) -> forall m, paid m + held m <= ceiling m.
Proof. exact shared_budget_holds. Qed.

(* 4. Honest: while tools that were called have not run, no request goes out *)

Lemma turn_runs_its_tools : neglected turn "called_tools" "use_tools" = [].
Proof. computed turn_runs_its_tools. Qed.

Lemma turn_stops : flat_map (strays_of turn (outcomes turn)) ["cancelled"; "ran_out"] = [].
Proof. computed turn_stops. Qed.

Theorem turn_runs_tools_first : forall l due c path due' last,
  obeys turn "called_tools" "tools_ran" ["cancelled"; "ran_out"] l due c path due' last ->
  in_place turn "use_tools" due c -> in_place turn "use_tools" due' last.
Proof.
  exact (first_things_first turn "called_tools" "use_tools" "tools_ran" ["cancelled"; "ran_out"]
    turn_runs_its_tools (stops_lead_to turn _ _ turn_stops) turn_leaves_no_outcome).
Qed.

(* No theorem rests on an axiom *)

Print Assumptions turn_takes_one_row.
Print Assumptions turn_is_final_in_outcomes.
Print Assumptions turn_is_never_stuck.
Print Assumptions turn_stays_within_limits.
Print Assumptions turn_bounds_attempts.
Print Assumptions turn_ends.
Print Assumptions turn_keeps_its_budget.
Print Assumptions turn_bounds_costs.
Print Assumptions turn_shares_a_budget.
Print Assumptions turn_runs_tools_first.
