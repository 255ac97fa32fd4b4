(* The table of a call, and what is proved of it. Written by `rungwise`; do not edit.

   The rows are those that the machine runs: their conditions and callbacks as compiled. What the
   lists of rows at fault mean, and why each theorem follows, is said in Ladder.v. To check it:

     coqc -R . Rungwise Ladder.v && coqc -R . Rungwise call.v
     coqchk -R . Rungwise Rungwise.call                                                    *)

From Coq Require Import String List Bool Arith Lia.
Import ListNotations.
From Rungwise Require Import Ladder.
Open Scope string_scope.

(* What the rows refill *)

Definition refilled_1 := ["reattaches"; "retries"; "resends"; "rotations"; "reasks"; "rechecks"; "nudges"; "prefills"; "enlargements"; "corrections"; "repairs"].
Definition refilled_2 := ["reattaches"; "retries"; "reasks"; "prefills"].

(* Event, source; facts that hold, facts that do not, counters that have a unit left; target; the
   counter that it takes a unit of; what it refills, and on which facts; whether it counts an
   attempt. *)
Definition call : table := Table [
  Row "sent" "ask" [] [] []
      "await" None [] [] true;
  Row "sent" "reattach" [] [] []
      "await" None [] [] true;
  Row "sent" "retry" [] [] []
      "await" None [] [] true;
  Row "sent" "resend" [] [] []
      "await" None [] [] true;
  Row "sent" "rotate" [] [] []
      "await" None [] [] true;
  Row "sent" "reask" [] [] []
      "await" None [] [] true;
  Row "sent" "recheck" [] [] []
      "await" None [] [] true;
  Row "sent" "nudge" [] [] []
      "await" None [] [] true;
  Row "sent" "prefill" [] [] []
      "await" None [] [] true;
  Row "sent" "continuation" [] [] []
      "await" None [] [] true;
  Row "sent" "enlarge" [] [] []
      "await" None [] [] true;
  Row "sent" "correct" [] [] []
      "await" None [] [] true;
  Row "sent" "repair" [] [] []
      "await" None [] [] true;
  Row "sent" "compact" [] [] []
      "await" None [] [] true;
  Row "sent" "fallback" [] [] []
      "await" None [] [] true;
  Row "answered" "await" [] [] []
      "done" None [] [] false;
  Row "called_tools" "await" [] [] []
      "done" None [] [] false;
  Row "answered_wrongly" "await" ["has_next_backend"; "same_wrong_again"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "answered_wrongly" "await" [] ["same_wrong_again"] ["corrections"]
      "correct" (Some "corrections") [] [] false;
  Row "answered_wrongly" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "answered_wrongly" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "answered_wrongly" "await" [] [] []
      "exhausted" None [] [] false;
  Row "called_wrongly" "await" ["has_next_backend"; "same_wrong_again"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "called_wrongly" "await" [] ["same_wrong_again"] ["corrections"]
      "correct" (Some "corrections") [] [] false;
  Row "called_wrongly" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "called_wrongly" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "called_wrongly" "await" [] [] []
      "exhausted" None [] [] false;
  Row "answered_uncertainly" "await" ["has_next_backend"; "is_uncertain"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "answered_uncertainly" "await" ["is_uncertain"] [] []
      "partial" None [] [] false;
  Row "answered_uncertainly" "await" [] [] []
      "done" None [] [] false;
  Row "verdict_raised" "await" [] [] []
      "failed" None [] [] false;
  Row "came_empty" "await" ["has_delivered"] [] []
      "salvaged" None [] [] false;
  Row "came_empty" "await" ["has_prior_answer"] [] []
      "salvaged" None [] [] false;
  Row "came_empty" "await" ["switch_asked"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "came_empty" "await" ["follows_tool_result"] ["thinks_inline"] ["nudges"]
      "nudge" (Some "nudges") [] [] false;
  Row "came_empty" "await" [] ["same_empty_again"; "throttled"] ["reasks"]
      "reask" (Some "reasks") [] [] false;
  Row "came_empty" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "came_empty" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "came_empty" "await" [] [] []
      "exhausted" None [] [] false;
  Row "only_reasoned" "await" ["has_delivered"] [] []
      "salvaged" None [] [] false;
  Row "only_reasoned" "await" ["has_prior_answer"] [] []
      "salvaged" None [] [] false;
  Row "only_reasoned" "await" ["switch_asked"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "only_reasoned" "await" ["follows_tool_result"] ["thinks_inline"] ["nudges"]
      "nudge" (Some "nudges") [] [] false;
  Row "only_reasoned" "await" [] [] ["prefills"]
      "prefill" (Some "prefills") [] [] false;
  Row "only_reasoned" "await" [] ["same_empty_again"; "throttled"] ["reasks"]
      "reask" (Some "reasks") [] [] false;
  Row "only_reasoned" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "only_reasoned" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "only_reasoned" "await" [] [] []
      "exhausted" None [] [] false;
  Row "truncated" "await" [] ["repeats_itself"; "asks_for_little"; "overran"] ["continuations"]
      "continuation" (Some "continuations") refilled_2 ["added_text"] false;
  Row "truncated" "await" [] [] []
      "partial" None [] [] false;
  Row "paused" "await" [] ["repeats_itself"; "asks_for_little"; "overran"] ["continuations"]
      "continuation" (Some "continuations") refilled_2 ["added_text"] false;
  Row "paused" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "paused" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "paused" "await" [] [] []
      "exhausted" None [] [] false;
  Row "tools_truncated" "await" [] [] ["enlargements"]
      "enlarge" (Some "enlargements") [] [] false;
  Row "tools_truncated" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "tools_truncated" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "tools_truncated" "await" [] [] []
      "exhausted" None [] [] false;
  Row "json_truncated" "await" [] [] ["enlargements"]
      "enlarge" (Some "enlargements") [] [] false;
  Row "json_truncated" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "json_truncated" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "json_truncated" "await" [] [] []
      "exhausted" None [] [] false;
  Row "reasoning_truncated" "await" [] [] ["enlargements"]
      "enlarge" (Some "enlargements") [] [] false;
  Row "reasoning_truncated" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "reasoning_truncated" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "reasoning_truncated" "await" [] [] []
      "exhausted" None [] [] false;
  Row "ended_unclearly" "await" [] ["throttled"] ["rechecks"]
      "recheck" (Some "rechecks") [] [] false;
  Row "ended_unclearly" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ended_unclearly" "await" [] [] []
      "partial" None [] [] false;
  Row "interrupted" "await" ["keeps_running"; "wait_fits"] [] ["reattaches"]
      "reattach" (Some "reattaches") [] [] false;
  Row "interrupted" "await" ["has_next_backend"; "should_leave"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "interrupted" "await" ["added_text"; "wait_fits"] ["repeats_itself"; "asks_for_little"; "overran"] ["continuations"]
      "continuation" (Some "continuations") refilled_2 ["added_text"] false;
  Row "interrupted" "await" ["wait_fits"] ["added_text"; "throttled"] ["retries"]
      "retry" (Some "retries") [] [] false;
  Row "interrupted" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "interrupted" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "interrupted" "await" [] [] []
      "failed" None [] [] false;
  Row "fell_silent" "await" ["keeps_running"; "wait_fits"] [] ["reattaches"]
      "reattach" (Some "reattaches") [] [] false;
  Row "fell_silent" "await" ["has_next_backend"; "should_leave"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "fell_silent" "await" ["added_text"; "wait_fits"] ["repeats_itself"; "asks_for_little"; "overran"] ["continuations"]
      "continuation" (Some "continuations") refilled_2 ["added_text"] false;
  Row "fell_silent" "await" ["wait_fits"] ["added_text"; "throttled"] ["retries"]
      "retry" (Some "retries") [] [] false;
  Row "fell_silent" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "fell_silent" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "fell_silent" "await" [] [] []
      "failed" None [] [] false;
  Row "malformed" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "malformed" "await" ["wait_fits"] ["added_text"; "throttled"] ["retries"]
      "retry" (Some "retries") [] [] false;
  Row "malformed" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "malformed" "await" [] [] []
      "failed" None [] [] false;
  Row "refused" "await" ["has_next_backend"] ["refusal_ends"] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "refused" "await" [] [] []
      "refused" None [] [] false;
  Row "failed_transiently" "await" ["connection_was_stale"] [] ["resends"]
      "resend" (Some "resends") [] [] false;
  Row "failed_transiently" "await" ["other_key_free"] [] ["rotations"]
      "rotate" (Some "rotations") [] [] false;
  Row "failed_transiently" "await" ["has_next_backend"; "should_leave"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "failed_transiently" "await" ["wait_fits"] ["added_text"; "throttled"] ["retries"]
      "retry" (Some "retries") [] [] false;
  Row "failed_transiently" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "failed_transiently" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "failed_transiently" "await" [] [] []
      "failed" None [] [] false;
  Row "failed_permanently" "await" ["other_key_free"] [] ["rotations"]
      "rotate" (Some "rotations") [] [] false;
  Row "failed_permanently" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "failed_permanently" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "failed_permanently" "await" [] [] []
      "failed" None [] [] false;
  Row "rejected_fixably" "await" ["wait_fits"; "repair_known"] [] ["repairs"]
      "repair" (Some "repairs") [] [] false;
  Row "rejected_fixably" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "rejected_fixably" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "rejected_fixably" "await" [] [] []
      "failed" None [] [] false;
  Row "overflowed" "await" ["has_compactor"] [] ["compactions"]
      "compact" (Some "compactions") [] [] false;
  Row "overflowed" "await" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "overflowed" "await" ["has_text"] [] []
      "partial" None [] [] false;
  Row "overflowed" "await" [] [] []
      "failed" None [] [] false;
  Row "cancelled" "await" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "ask" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "reattach" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "retry" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "resend" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "rotate" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "reask" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "recheck" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "nudge" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "prefill" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "continuation" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "enlarge" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "correct" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "repair" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "compact" [] [] []
      "cancelled" None [] [] false;
  Row "cancelled" "fallback" [] [] []
      "cancelled" None [] [] false;
  Row "ran_out" "ask" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "ask" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "reattach" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "reattach" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "retry" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "retry" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "resend" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "resend" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "rotate" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "rotate" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "reask" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "reask" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "recheck" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "recheck" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "nudge" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "nudge" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "prefill" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "prefill" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "continuation" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "continuation" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "enlarge" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "enlarge" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "correct" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "correct" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "repair" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "repair" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "compact" ["reserve_left"; "has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "ran_out" "compact" [] [] []
      "over_budget" None [] [] false;
  Row "ran_out" "fallback" [] [] []
      "over_budget" None [] [] false;
  Row "found_open" "ask" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "ask" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "ask" [] [] []
      "failed" None [] [] false;
  Row "found_open" "reattach" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "reattach" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "reattach" [] [] []
      "failed" None [] [] false;
  Row "found_open" "retry" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "retry" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "retry" [] [] []
      "failed" None [] [] false;
  Row "found_open" "resend" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "resend" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "resend" [] [] []
      "failed" None [] [] false;
  Row "found_open" "rotate" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "rotate" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "rotate" [] [] []
      "failed" None [] [] false;
  Row "found_open" "reask" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "reask" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "reask" [] [] []
      "failed" None [] [] false;
  Row "found_open" "recheck" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "recheck" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "recheck" [] [] []
      "failed" None [] [] false;
  Row "found_open" "nudge" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "nudge" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "nudge" [] [] []
      "failed" None [] [] false;
  Row "found_open" "prefill" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "prefill" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "prefill" [] [] []
      "failed" None [] [] false;
  Row "found_open" "continuation" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "continuation" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "continuation" [] [] []
      "failed" None [] [] false;
  Row "found_open" "enlarge" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "enlarge" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "enlarge" [] [] []
      "failed" None [] [] false;
  Row "found_open" "correct" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "correct" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "correct" [] [] []
      "failed" None [] [] false;
  Row "found_open" "repair" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "repair" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "repair" [] [] []
      "failed" None [] [] false;
  Row "found_open" "compact" ["has_next_backend"] [] ["fallbacks"]
      "fallback" (Some "fallbacks") refilled_1 [] false;
  Row "found_open" "compact" ["has_text"] [] []
      "partial" None [] [] false;
  Row "found_open" "compact" [] [] []
      "failed" None [] [] false
]
  "ask"
  "await"
  ["done"; "salvaged"; "partial"; "refused"; "exhausted"; "failed"; "cancelled"; "over_budget"]
  [["fallbacks"]; ["continuations"]; ["reattaches"; "retries"; "resends"; "rotations"; "reasks"; "rechecks"; "nudges"; "prefills"; "enlargements"; "corrections"; "repairs"; "compactions"]].

(* 1. Exactly one row for each event that a state takes; none in an outcome *)

Lemma call_has_last_resorts : without_last_resort call = [].
Proof. computed call_has_last_resorts. Qed.

Lemma call_tries_every_row : never_tried call = [].
Proof. computed call_tries_every_row. Qed.

Lemma call_leaves_no_outcome : out_of_an_outcome call = [].
Proof. computed call_leaves_no_outcome. Qed.

Lemma call_has_no_dead_end : dead_ends call = [].
Proof. computed call_has_no_dead_end. Qed.

Theorem call_takes_one_row : forall l f e c,
  ladder call e (state c) <> [] -> exists! r, takes call l f e c r.
Proof. exact (exactly_one_row call call_has_last_resorts). Qed.

Theorem call_is_final_in_outcomes : forall l f e c,
  In (state c) (outcomes call) -> step call l f e c = None.
Proof. exact (outcomes_are_final call call_leaves_no_outcome). Qed.

Theorem call_is_never_stuck : forall l f e c r next, step call l f e c = Some (r, next) ->
  In (state next) (outcomes call)
  \/ exists e', forall f', exists r' c', step call l f' e' next = Some (r', c').
Proof. exact (never_stuck call call_has_last_resorts call_has_no_dead_end). Qed.

(* Counters stay within their limits *)

Lemma call_finds_what_it_takes : unchecked call = [].
Proof. computed call_finds_what_it_takes. Qed.

Theorem call_stays_within_limits : forall l c path last, run call l c path last ->
  (forall x, spent c x <= l x) -> forall x, spent last x <= l x.
Proof. exact (within_limits call call_finds_what_it_takes). Qed.

(* 2. Every run ends, for all limits *)

Lemma call_pays : unpaid call = [].
Proof. computed call_pays. Qed.

Lemma call_counts_every_request : miscounted call = [].
Proof. computed call_counts_every_request. Qed.

Lemma call_ranks_once : ranked_twice call = [].
Proof. computed call_ranks_once. Qed.

Theorem call_bounds_attempts : forall l s path last,
  run call l (nothing_spent s) path last -> requests path <= most_attempts call l.
Proof.
  intros l. exact (attempts_are_bounded call l call_pays call_finds_what_it_takes
    call_leaves_no_outcome call_counts_every_request call_ranks_once).
Qed.

Theorem call_ends : forall l s path last,
  run call l (nothing_spent s) path last -> length path <= 2 * most_attempts call l.
Proof.
  intros l. exact (every_run_ends call l call_pays call_finds_what_it_takes
    call_leaves_no_outcome call_counts_every_request call_ranks_once).
Qed.

(* 3. The budget holds, for all limits and ceilings, if each request reserves its worst cost *)

Theorem call_keeps_its_budget : forall l ceiling dearest c paid path last total,
  charged call l ceiling dearest c paid path last total ->
  (forall m, paid m <= ceiling m) ->
  (forall m, total m <= ceiling m) /\ total "attempts" = paid "attempts" + sends call path.
Proof. exact (budget_holds call). Qed.

Theorem call_bounds_costs : forall l ceiling dearest s paid path last total,
  charged call l ceiling dearest (nothing_spent s) paid path last total ->
  forall m, total m <= paid m + dearest m * most_attempts call l.
Proof.
  intros l. exact (costs_are_bounded call l call_pays call_finds_what_it_takes
    call_leaves_no_outcome call_counts_every_request call_ranks_once).
Qed.

Theorem call_shares_a_budget : forall ceiling paid held,
  shares ceiling (paid, held) -> forall m, paid m + held m <= ceiling m.
Proof. exact shared_budget_holds. Qed.

(* 4. Honest *)

Lemma call_keeps_text : loses call "has_text" ["exhausted"; "failed"] ["verdict_raised"] = [].
Proof. computed call_keeps_text. Qed.

Theorem call_never_loses_text : forall l f e c r next, f "has_text" = true ->
  step call l f e c = Some (r, next) -> e <> "verdict_raised" ->
  state next <> "exhausted" /\ state next <> "failed".
Proof.
  intros l f e c r next F S X.
  assert (~ In (state next) ["exhausted"; "failed"]) as N.
  { apply (never_lost call _ _ _ call_keeps_text l f e c r next F S). intros [<-|[]]. congruence. }
  split; intros E; apply N; rewrite E; simpl; auto.
Qed.

Lemma call_answers_honestly : reached_otherwise call ["done"] ["answered"; "called_tools"; "answered_uncertainly"] = [].
Proof. computed call_answers_honestly. Qed.

Theorem call_is_done_by_answers : forall l f e c r next,
  step call l f e c = Some (r, next) -> state next = "done" ->
  In e ["answered"; "called_tools"; "answered_uncertainly"].
Proof.
  intros l f e c r next S D.
  apply (reached_only_by call _ _ call_answers_honestly l f e c r next S). rewrite D. simpl. auto.
Qed.

Theorem call_never_ends_on_a_cut_tool_call : forall l f c r next,
  step call l f "tools_truncated" c = Some (r, next) -> state next <> "done".
Proof.
  intros l f c r next S D. pose proof (call_is_done_by_answers _ _ _ _ _ _ S D) as I.
  simpl in I. intuition discriminate.
Qed.

(* No theorem rests on an axiom *)

Print Assumptions call_takes_one_row.
Print Assumptions call_is_final_in_outcomes.
Print Assumptions call_is_never_stuck.
Print Assumptions call_stays_within_limits.
Print Assumptions call_bounds_attempts.
Print Assumptions call_ends.
Print Assumptions call_keeps_its_budget.
Print Assumptions call_bounds_costs.
Print Assumptions call_shares_a_budget.
Print Assumptions call_never_loses_text.
Print Assumptions call_is_done_by_answers.
Print Assumptions call_never_ends_on_a_cut_tool_call.
