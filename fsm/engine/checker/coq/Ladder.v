(* Ladders: what is proved of every table of a machine, for all limits, facts and runs.

   Theory
   ------

   A machine has rungs, in which something is about to be sent; a hub, in which it is in flight; and
   outcomes, which are final. A table lists its rows. A row names an event, the state that takes the
   event, a guard (facts that hold, facts that do not, counters with a unit left), the next state,
   and what it counts. For one event in one state the machine tries the rows from the top and takes
   the first whose guard holds.

   This file says what follows if a few lists of rows at fault are empty. Each list is computed, so a
   generated file (`call.v`, `turn.v`, `health.v`) writes out a table and shows each list to be empty
   by computing it. Where one is not, Coq names the lemma and the rows.

   1. Ladders (`exactly_one_row`). If the last row of every ladder has no guard, some row is open for
      any facts and counters. It is the first open one, so there is exactly one.

   2. Ends (`attempts_are_bounded`, `every_run_ends`). A row to a rung takes one unit of a counter
      that its guard has checked, and refills only counters of lower ranks. The price of a unit is
      one attempt, and the price of all that the rows that take it may refill. Hence what is left, at
      its price, falls by at least one attempt with every such row. A send lowers the number of
      things that wait to be sent. This is a ranking function (Floyd 1967; Dershowitz and Manna
      1979). It is linear in what is left, and its value at the start is the bound: a polynomial in
      the limits. No limit is a number here, so the theorem is about all of them.

   3. Budget (`budget_holds`, `costs_are_bounded`, `shared_budget_holds`). Before a request goes out,
      its worst cost is reserved below the ceiling, and it costs no more than that. Nothing here
      refills a ceiling, and every row to the hub counts as one attempt.

   4. Honesty: what a row may lead to after an event, or while a fact holds.

   What is not said here: that a fact is true of the world when it holds, and that a driver fires the
   event that came.  *)

From Coq Require Import String List Bool Arith Lia.
Import ListNotations.

Definition name := string.
Definition among (x : name) (l : list name) : bool := existsb (String.eqb x) l.

(* A row as the machine has compiled it. *)
Record row := Row {
  event : name;
  source : name;
  holds : list name;         (* the facts that must hold *)
  lacks : list name;         (* the facts that must not *)
  needs : list name;         (* the counters that must have a unit left *)
  target : name;
  spends : option name;      (* the counter that it takes a unit of *)
  refills : list name;       (* the counters whose spent units it sets back to 0 ... *)
  refills_on : list name;    (* ... if these facts hold *)
  counts : bool              (* whether it counts an attempt *)
}.

Record table := Table {
  rows : list row;
  start : name;
  hub : name;
  outcomes : list name;
  ranks : list (list name)   (* the counters, those that rank highest first *)
}.

(* Where a machine is, and how many units of each counter are spent. *)
Record configuration := At { state : name; spent : name -> nat }.

Definition limits := name -> nat.
Definition facts := name -> bool.

Definition is_open (l : limits) (f : facts) (c : configuration) (r : row) : bool :=
  forallb f (holds r)
  && forallb (fun x => negb (f x)) (lacks r)
  && forallb (fun x => spent c x <? l x) (needs r).

Definition refilled (f : facts) (r : row) (x : name) : bool :=
  among x (refills r) && forallb f (refills_on r).

Definition taken (r : row) (x : name) : bool :=
  match spends r with Some y => String.eqb x y | None => false end.

Definition after (f : facts) (r : row) (c : configuration) : configuration :=
  At (target r) (fun x => if refilled f r x then 0 else if taken r x then S (spent c x) else spent c x).

(* The rows that are tried for an event in a state, in order. *)
Definition ladder (t : table) (e s : name) : list row :=
  filter (fun r => String.eqb (event r) e && String.eqb (source r) s) (rows t).

(* One step of a machine: the first row whose guard holds. *)
Definition step (t : table) (l : limits) (f : facts) (e : name) (c : configuration)
  : option (row * configuration) :=
  match find (is_open l f c) (ladder t e (state c)) with
  | Some r => Some (r, after f r c)
  | None => None
  end.

(* A run: the rows that a machine takes, whatever comes and whatever is found. *)
Inductive run (t : table) (l : limits) : configuration -> list row -> configuration -> Prop :=
| stays : forall c, run t l c [] c
| goes_on : forall c e f r next path last,
    step t l f e c = Some (r, next) -> run t l next path last -> run t l c (r :: path) last.

Definition nothing_spent (s : name) : configuration := At s (fun _ => 0).

(* Words about lists
   ----------------- *)

Definition sum (f : name -> nat) (l : list name) : nat := fold_right (fun x total => f x + total) 0 l.

Lemma among_in x l : among x l = true <-> In x l.
Proof.
  unfold among. rewrite existsb_exists. split.
  - intros [y [H E]]. apply String.eqb_eq in E. subst. exact H.
  - intros H. exists x. split; [exact H | apply String.eqb_refl].
Qed.

Lemma not_among x l : among x l = false <-> ~ In x l.
Proof. rewrite <- among_in. destruct (among x l); split; congruence. Qed.

Lemma nothing_found {A} (p : A -> bool) l : filter p l = [] -> forall x, In x l -> p x = false.
Proof.
  intros E x I. destruct (p x) eqn:P; [|reflexivity].
  assert (In x (filter p l)) as F by (apply filter_In; auto). rewrite E in F. destruct F.
Qed.

Lemma sum_le f g l : (forall x, In x l -> f x <= g x) -> sum f l <= sum g l.
Proof.
  induction l as [|a l IH]; simpl; intros H; [lia|].
  pose proof (H a (or_introl eq_refl)). specialize (IH (fun x I => H x (or_intror I))). lia.
Qed.

Lemma sum_add f g l : sum (fun x => f x + g x) l = sum f l + sum g l.
Proof. induction l; simpl; lia. Qed.

Lemma sum_has f l x : In x l -> f x <= sum f l.
Proof.
  induction l as [|a l IH]; simpl; intros I; [destruct I|].
  destruct I as [->|I]; [lia|]. specialize (IH I). lia.
Qed.

Lemma sum_ext f g l : (forall x, In x l -> f x = g x) -> sum f l = sum g l.
Proof.
  induction l as [|a l IH]; simpl; intros H; [reflexivity|].
  rewrite (H a (or_introl eq_refl)), IH; auto.
Qed.

Lemma sum_split f before x behind :
  sum f (before ++ x :: behind) = f x + sum f (before ++ behind).
Proof. induction before; simpl; lia. Qed.

(* Of a list without repeats, those that are among others weigh no more than the others. *)
Lemma sum_within f l : NoDup l -> forall others,
  sum (fun x => if among x others then f x else 0) l <= sum f others.
Proof.
  induction 1 as [|a l N D IH]; intros others; simpl; [lia|].
  destruct (among a others) eqn:A.
  - apply among_in, in_split in A. destruct A as [before [behind ->]].
    rewrite sum_split. specialize (IH (before ++ behind)).
    assert (sum (fun x => if among x (before ++ a :: behind) then f x else 0) l
            <= sum (fun x => if among x (before ++ behind) then f x else 0) l) as H.
    { apply sum_le. intros x I.
      destruct (among x (before ++ a :: behind)) eqn:B; [|lia].
      apply among_in, in_app_or in B. simpl in B.
      assert (x <> a) by (intros ->; contradiction).
      assert (In x (before ++ behind)) as C.
      { apply in_or_app. destruct B as [B|[B|B]]; auto. congruence. }
      apply among_in in C. rewrite C. lia. }
    lia.
  - specialize (IH others). lia.
Qed.

Lemma ladder_in t e s r : In r (ladder t e s) <-> In r (rows t) /\ event r = e /\ source r = s.
Proof.
  unfold ladder. rewrite filter_In, andb_true_iff, !String.eqb_eq. tauto.
Qed.

Lemma step_takes t l f e c r next : step t l f e c = Some (r, next) ->
  In r (rows t) /\ event r = e /\ source r = state c /\ is_open l f c r = true
  /\ next = after f r c.
Proof.
  unfold step. destruct (find _ _) as [q|] eqn:F; intros E; inversion E; subst.
  apply find_some in F. destruct F as [I O]. apply ladder_in in I. tauto.
Qed.

(* 1. Exactly one row
   ------------------ *)

(* The row that an event takes: its guard holds, and that of no row above it. *)
Definition takes t l f e c r : Prop := exists above below,
  ladder t e (state c) = above ++ r :: below
  /\ is_open l f c r = true
  /\ forall q, In q above -> is_open l f c q = false.

Definition has_no_guard (r : row) : bool :=
  match holds r, lacks r, needs r with [], [], [] => true | _, _, _ => false end.

(* The rows in whose ladder no row without a guard stands. *)
Definition without_last_resort (t : table) : list row :=
  filter (fun r => negb (existsb has_no_guard (ladder t (event r) (source r)))) (rows t).

Fixpoint behind_a_last_resort (l : list row) : list row :=
  match l with
  | [] => []
  | r :: below => if has_no_guard r then below else behind_a_last_resort below
  end.

(* The rows that are never tried, because a row above them has no guard. *)
Definition never_tried (t : table) : list row :=
  flat_map (fun r => behind_a_last_resort (ladder t (event r) (source r))) (rows t).

(* The rows that leave an outcome. *)
Definition out_of_an_outcome (t : table) : list row :=
  filter (fun r => among (source r) (outcomes t)) (rows t).

(* The rows that lead to a state that is no outcome and that no row leaves. *)
Definition dead_ends (t : table) : list row :=
  filter (fun r => negb (among (target r) (outcomes t)
                         || existsb (fun q => String.eqb (source q) (target r)) (rows t))) (rows t).

Lemma no_guard_is_open l f c r : has_no_guard r = true -> is_open l f c r = true.
Proof.
  unfold has_no_guard, is_open. destruct (holds r), (lacks r), (needs r); try discriminate. reflexivity.
Qed.

Lemma first_open (p : row -> bool) l r : find p l = Some r -> exists above below,
  l = above ++ r :: below /\ p r = true /\ forall q, In q above -> p q = false.
Proof.
  induction l as [|a l IH]; simpl; [discriminate|]. destruct (p a) eqn:P; intros E.
  - inversion E; subst. exists [], l. split; [reflexivity|]. split; [exact P|]. intros q [].
  - destruct (IH E) as [above [below [-> [O N]]]]. exists (a :: above), below.
    split; [reflexivity|]. split; [exact O|]. intros q [<-|I]; auto.
Qed.

Lemma open_first (p : row -> bool) above r below :
  p r = true -> (forall q, In q above -> p q = false) -> find p (above ++ r :: below) = Some r.
Proof.
  intros O N. induction above as [|a above IH]; simpl; [rewrite O; reflexivity|].
  rewrite (N a (or_introl eq_refl)). apply IH. intros q I. apply N. right. exact I.
Qed.

Theorem takes_what_it_steps t l f e c r :
  takes t l f e c r <-> step t l f e c = Some (r, after f r c).
Proof.
  unfold takes, step. split.
  - intros [above [below [-> [O N]]]]. rewrite (open_first _ _ _ _ O N). reflexivity.
  - destruct (find _ _) as [q|] eqn:F; [|discriminate]. intros E. inversion E; subst.
    exact (first_open _ _ _ F).
Qed.

(* Whatever the limits, the facts and the counters: each event that a state takes takes one row. *)
Theorem exactly_one_row t : without_last_resort t = [] -> forall l f e c,
  ladder t e (state c) <> [] -> exists! r, takes t l f e c r.
Proof.
  intros W l f e c L.
  destruct (ladder t e (state c)) as [|r rest] eqn:E; [congruence|].
  assert (In r (ladder t e (state c))) as I by (rewrite E; left; reflexivity).
  pose proof I as J. apply ladder_in in J. destruct J as [J [Ee Es]].
  pose proof (nothing_found _ _ W r J) as H. cbv beta in H. rewrite Ee, Es in H.
  apply negb_false_iff, existsb_exists in H. destruct H as [q [Q G]].
  destruct (find (is_open l f c) (ladder t e (state c))) as [first|] eqn:F.
  - exists first. split.
    + apply takes_what_it_steps. unfold step. rewrite F. reflexivity.
    + intros other T. apply takes_what_it_steps in T. unfold step in T. rewrite F in T.
      inversion T. reflexivity.
  - pose proof (find_none _ _ F q Q) as N. rewrite (no_guard_is_open l f c q G) in N. discriminate.
Qed.

Theorem outcomes_are_final t : out_of_an_outcome t = [] -> forall l f e c,
  In (state c) (outcomes t) -> step t l f e c = None.
Proof.
  intros O l f e c I. destruct (step t l f e c) as [[r next]|] eqn:S; [|reflexivity].
  apply step_takes in S. destruct S as [R [_ [E _]]].
  pose proof (nothing_found _ _ O r R) as H. cbv beta in H. rewrite E in H. apply not_among in H. contradiction.
Qed.

(* A run that has taken a row is over, or some event takes another row. *)
Theorem never_stuck t : without_last_resort t = [] -> dead_ends t = [] ->
  forall l f e c r next, step t l f e c = Some (r, next) ->
  In (state next) (outcomes t) \/ exists e', forall f', exists r' c', step t l f' e' next = Some (r', c').
Proof.
  intros W D l f e c r next S. apply step_takes in S. destruct S as [R [_ [_ [_ ->]]]]. simpl.
  pose proof (nothing_found _ _ D r R) as H. cbv beta in H. apply negb_false_iff, orb_true_iff in H.
  destruct H as [H|H]; [left; apply among_in; exact H|right].
  apply existsb_exists in H. destruct H as [q [Q E]]. apply String.eqb_eq in E.
  exists (event q). intros f'.
  assert (ladder t (event q) (state (after f r c)) <> []) as L.
  { intros N. assert (In q (ladder t (event q) (state (after f r c)))) as I.
    { apply ladder_in. simpl. auto. }
    rewrite N in I. destruct I. }
  destruct (exactly_one_row t W l f' _ _ L) as [r' [T _]].
  apply takes_what_it_steps in T. eauto.
Qed.

(* 2. Every run ends
   ----------------- *)

(* The counters of the ranks below that of a counter. *)
Fixpoint lower (groups : list (list name)) (x : name) : list name :=
  match groups with
  | [] => []
  | group :: rest => if among x group then concat rest else lower rest x
  end.

Definition spends_unchecked (r : row) : bool :=
  match spends r with Some x => negb (among x (needs r)) | None => false end.

(* The rows that take a unit of a counter of which their guard has found none. *)
Definition unchecked (t : table) : list row := filter spends_unchecked (rows t).

Definition touches_nothing (r : row) : bool :=
  match spends r, refills r with None, [] => true | _, _ => false end.

Definition is_paid (t : table) (r : row) : bool :=
  if among (target r) (outcomes t) then touches_nothing r
  else if String.eqb (target r) (hub t) then touches_nothing r && negb (String.eqb (source r) (hub t))
  else match spends r with
       | None => false
       | Some x => among x (concat (ranks t)) && forallb (fun y => among y (lower (ranks t) x)) (refills r)
       end.

(* The rows to a rung that take no unit, or refill what does not rank below it; the rows to the hub
   that do not come from a rung; and those that count where nothing is to be paid. *)
Definition unpaid (t : table) : list row := filter (fun r => negb (is_paid t r)) (rows t).

(* The rows that count an attempt and send nothing, or send something that is not counted. *)
Definition miscounted (t : table) : list row :=
  filter (fun r => negb (Bool.eqb (counts r) (String.eqb (target r) (hub t)))) (rows t).

Fixpoint repeats (l : list name) : list name :=
  match l with [] => [] | x :: rest => if among x rest then x :: repeats rest else repeats rest end.

(* The counters that stand in two ranks, or twice in one. *)
Definition ranked_twice (t : table) : list name := repeats (concat (ranks t)).

(* What the rows that take a unit of a counter may refill. *)
Definition refilled_by (t : table) (x : name) : list name :=
  nodup string_dec (flat_map refills (filter (fun r => taken r x) (rows t))).

(* The attempts that a unit is worth: one, and those of all that it may refill. *)
Fixpoint price (t : table) (l : limits) (groups : list (list name)) (x : name) : nat :=
  match groups with
  | [] => 0
  | group :: rest =>
      if among x group then 1 + sum (fun y => price t l rest y * l y) (refilled_by t x)
      else price t l rest x
  end.

(* What is left of the counters, at its price. *)
Definition left (t : table) (l : limits) (c : configuration) : nat :=
  sum (fun x => price t l (ranks t) x * (l x - spent c x)) (concat (ranks t)).

(* The bound: one attempt, and those that all units are worth. *)
Definition most_attempts (t : table) (l : limits) : nat :=
  1 + sum (fun x => price t l (ranks t) x * l x) (concat (ranks t)).

Lemma no_repeats l : repeats l = [] -> NoDup l.
Proof.
  induction l as [|x l IH]; simpl; intros E; constructor; destruct (among x l) eqn:A; try discriminate.
  - apply not_among. exact A.
  - apply IH. exact E.
Qed.

Lemma nodup_right (a b : list name) : NoDup (a ++ b) -> NoDup b.
Proof. induction a; simpl; intros N; [exact N|]. inversion N. auto. Qed.

Lemma nodup_apart (a b : list name) x : NoDup (a ++ b) -> In x a -> ~ In x b.
Proof.
  induction a as [|y a IH]; simpl; intros N I J; [destruct I|]. inversion N; subst.
  destruct I as [->|I]; [|exact (IH H2 I J)]. apply H1. apply in_or_app. right. exact J.
Qed.

Lemma lower_in groups x y : In y (lower groups x) -> In y (concat groups).
Proof.
  induction groups as [|group rest IH]; simpl; [auto|]. intros I. apply in_or_app.
  destruct (among x group); auto.
Qed.

Lemma not_lower groups x : NoDup (concat groups) -> ~ In x (lower groups x).
Proof.
  induction groups as [|group rest IH]; simpl; intros N; [auto|]. destruct (among x group) eqn:A.
  - apply among_in in A. exact (nodup_apart _ _ _ N A).
  - apply IH. exact (nodup_right _ _ N).
Qed.

(* The price of a unit covers all that its rows may refill. *)
Lemma price_covers t l x groups : NoDup (concat groups) -> In x (concat groups) ->
  (forall y, In y (refilled_by t x) -> In y (lower groups x)) ->
  price t l groups x = 1 + sum (fun y => price t l groups y * l y) (refilled_by t x).
Proof.
  induction groups as [|group rest IH]; simpl; intros N I B; [destruct I|].
  destruct (among x group) eqn:A.
  - f_equal. apply sum_ext. intros y J. specialize (B y J).
    destruct (among y group) eqn:G; [|reflexivity].
    apply among_in in G. destruct (nodup_apart _ _ _ N G B).
  - apply not_among in A. apply in_app_or in I. destruct I as [I|I]; [contradiction|].
    rewrite (IH (nodup_right _ _ N) I B). simpl. f_equal. apply sum_ext. intros y J.
    destruct (among y group) eqn:G; [|reflexivity].
    apply among_in in G. destruct (nodup_apart _ _ _ N G (lower_in _ _ _ (B y J))).
Qed.

Lemma refills_are_lower t x : unpaid t = [] -> out_of_an_outcome t = [] ->
  forall y, In y (refilled_by t x) -> In y (lower (ranks t) x).
Proof.
  intros U _ y I. unfold refilled_by in I. apply nodup_In, in_flat_map in I.
  destruct I as [r [I J]]. apply filter_In in I. destruct I as [I T].
  pose proof (nothing_found _ _ U r I) as P. cbv beta in P. apply negb_false_iff in P.
  unfold is_paid, touches_nothing, taken in *. destruct (spends r) as [z|] eqn:S; [|discriminate].
  apply String.eqb_eq in T. subst z.
  destruct (among (target r) (outcomes t)); [discriminate|].
  destruct (String.eqb (target r) (hub t)); [discriminate|].
  apply andb_prop in P. destruct P as [_ P]. rewrite forallb_forall in P.
  apply among_in. exact (P y J).
Qed.

Section Ends.
Variable t : table.
Variable l : limits.
Hypothesis no_unpaid : unpaid t = [].
Hypothesis no_unchecked : unchecked t = [].
Hypothesis no_final_left : out_of_an_outcome t = [].
Hypothesis no_miscounted : miscounted t = [].
Hypothesis no_ranked_twice : ranked_twice t = [].

(* A row that takes a unit lowers what is left, by one attempt at least. *)
Lemma left_falls f c r x : In r (rows t) -> is_open l f c r = true -> spends r = Some x ->
  left t l (after f r c) + 1 <= left t l c.
Proof.
  intros R O T.
  pose proof (no_repeats _ no_ranked_twice) as N.
  pose proof (nothing_found _ _ no_unpaid r R) as P. cbv beta in P. apply negb_false_iff in P.
  pose proof (nothing_found _ _ no_unchecked r R) as C. cbv beta in C. unfold spends_unchecked in C.
  rewrite T in C. apply negb_false_iff, among_in in C.
  unfold is_paid, touches_nothing in P. rewrite T in P.
  destruct (among (target r) (outcomes t)); [discriminate|].
  destruct (String.eqb (target r) (hub t)); [discriminate|].
  apply andb_prop in P. destruct P as [X _]. apply among_in in X.
  pose proof (refills_are_lower t x no_unpaid no_final_left) as B.
  unfold is_open in O. apply andb_prop in O. destruct O as [_ O].
  rewrite forallb_forall in O. specialize (O x C). apply Nat.ltb_lt in O.
  assert (forall y, In y (refills r) -> In y (refilled_by t x)) as K.
  { intros y I. unfold refilled_by. apply nodup_In, in_flat_map. exists r. split; [|exact I].
    apply filter_In. split; [exact R|]. unfold taken. rewrite T. apply String.eqb_refl. }
  set (worth := price t l (ranks t)).
  set (returned := fun y => if among y (refilled_by t x) then worth y * l y else 0).
  assert (left t l (after f r c) + sum (fun y => if String.eqb y x then worth x else 0) (concat (ranks t))
          <= left t l c + sum returned (concat (ranks t))) as H.
  { unfold left. rewrite <- !sum_add. apply sum_le. intros y _. fold worth. unfold returned, after. simpl.
    unfold taken. rewrite T. destruct (refilled f r y) eqn:F.
    - unfold refilled in F. apply andb_prop in F. destruct F as [F _]. apply among_in in F.
      pose proof (K y F) as M. pose proof M as M'. apply among_in in M'. rewrite M'.
      destruct (String.eqb y x) eqn:E; [|nia]. apply String.eqb_eq in E. subst y.
      destruct (not_lower _ _ N (B x M)).
    - destruct (String.eqb y x) eqn:E; [|lia]. apply String.eqb_eq in E. subst y.
      assert (l x - spent c x = 1 + (l x - S (spent c x))) as Q by lia.
      rewrite Q, Nat.mul_add_distr_l, Nat.mul_1_r. lia. }
  pose proof (sum_within (fun y => worth y * l y) _ N (refilled_by t x)) as W.
  cbv beta in W. fold returned in W.
  pose proof (price_covers t l x (ranks t) N X B) as V. fold worth in V.
  pose proof (sum_has (fun y => if String.eqb y x then worth x else 0) _ x X) as G. simpl in G.
  rewrite String.eqb_refl in G. lia.
Qed.

Lemma left_stays f c r : touches_nothing r = true -> left t l (after f r c) = left t l c.
Proof.
  unfold touches_nothing. intros T. destruct (spends r) eqn:S; [discriminate|].
  destruct (refills r) eqn:R; [|discriminate].
  unfold left. apply sum_ext. intros x _. simpl. unfold refilled, taken. rewrite S, R. reflexivity.
Qed.

(* One, where something waits to be sent. *)
Definition waiting (c : configuration) : nat :=
  if among (state c) (outcomes t) then 0 else if String.eqb (state c) (hub t) then 0 else 1.

Definition over (c : configuration) : bool := among (state c) (outcomes t).

Definition requests (path : list row) : nat := length (filter counts path).

Lemma a_step f e c r next : step t l f e c = Some (r, next) ->
  (if counts r then 1 else 0) + waiting next + left t l next <= waiting c + left t l c
  /\ (over next = false -> 1 + waiting next + 2 * left t l next <= waiting c + 2 * left t l c)
  /\ over c = false.
Proof.
  intros S. apply step_takes in S. destruct S as [R [_ [E [O ->]]]].
  pose proof (nothing_found _ _ no_unpaid r R) as P. cbv beta in P. apply negb_false_iff in P.
  pose proof (nothing_found _ _ no_final_left r R) as F. cbv beta in F. rewrite E in F.
  pose proof (nothing_found _ _ no_miscounted r R) as M. cbv beta in M. apply negb_false_iff, eqb_prop in M.
  unfold over, waiting. simpl. rewrite F, M. unfold is_paid in P. rewrite E in P.
  destruct (among (target r) (outcomes t)) eqn:D.
  - rewrite (left_stays f c r P). split; [|split; [discriminate|reflexivity]].
    destruct (String.eqb (target r) (hub t)) eqn:H; [|lia].
    apply String.eqb_eq in H.
    destruct (String.eqb (state c) (hub t)) eqn:G; [|lia].
    apply String.eqb_eq in G. rewrite <- G in H. rewrite H in D. congruence.
  - destruct (String.eqb (target r) (hub t)) eqn:H.
    + apply andb_prop in P. destruct P as [P Q]. apply negb_true_iff in Q. rewrite Q.
      rewrite (left_stays f c r P). split; [|split; [intros _|reflexivity]]; lia.
    + destruct (spends r) as [x|] eqn:T; [|discriminate].
      pose proof (left_falls f c r x R O T).
      split; [|split; [intros _|reflexivity]]; destruct (String.eqb (state c) (hub t)); lia.
Qed.

Theorem attempts_from c path last : run t l c path last ->
  requests path + waiting last + left t l last <= waiting c + left t l c.
Proof.
  induction 1 as [c|c e f r next path last S _ IH]; [simpl; lia|].
  destruct (a_step _ _ _ _ _ S) as [A _]. unfold requests in *. simpl.
  destruct (counts r); simpl; lia.
Qed.

Theorem steps_from c path last : run t l c path last ->
  length path <= (if over c then 0 else 1 + waiting c + 2 * left t l c).
Proof.
  induction 1 as [c|c e f r next path last S _ IH]; [simpl; lia|].
  destruct (a_step _ _ _ _ _ S) as [_ [B N]]. rewrite N. simpl.
  destruct (over next); [lia|]. specialize (B eq_refl). lia.
Qed.

Lemma one_waits c : waiting c <= 1.
Proof. unfold waiting. destruct (among _ _); [lia|]. destruct (String.eqb _ _); lia. Qed.

Lemma left_at_first s : left t l (nothing_spent s) = most_attempts t l - 1.
Proof. unfold left, most_attempts, nothing_spent. simpl. rewrite Nat.sub_0_r. apply sum_ext.
  intros x _. rewrite Nat.sub_0_r. reflexivity. Qed.

(* Every run from the start, whatever comes, sends no more requests than this. *)
Theorem attempts_are_bounded s path last :
  run t l (nothing_spent s) path last -> requests path <= most_attempts t l.
Proof.
  intros R. apply attempts_from in R. rewrite left_at_first in R.
  pose proof (one_waits (nothing_spent s)). unfold most_attempts in *. lia.
Qed.

(* Every run from the start takes no more rows than this. *)
Theorem every_run_ends s path last :
  run t l (nothing_spent s) path last -> length path <= 2 * most_attempts t l.
Proof.
  intros R. apply steps_from in R. rewrite left_at_first in R.
  pose proof (one_waits (nothing_spent s)). unfold most_attempts in *.
  destruct (over (nothing_spent s)); lia.
Qed.

(* 3. The budget holds
   ------------------- *)

(* What is measured, such as attempts, output tokens and money, each with its ceiling, and the most
   that one request may cost (the ceiling itself, if no less is known). *)
Variables ceiling dearest : name -> nat.
Definition bill := name -> nat.
Definition add (a b : bill) : bill := fun m => a m + b m.

(* A run whose requests are reserved at their worst before they go out, and settled afterwards. *)
Inductive charged : configuration -> bill -> list row -> configuration -> bill -> Prop :=
| pays_nothing : forall c paid, charged c paid [] c paid
| sends_nothing : forall c paid e f r next path last total,
    step t l f e c = Some (r, next) -> target r <> hub t ->
    charged next paid path last total -> charged c paid (r :: path) last total
| sends_one : forall c paid e f r next path last total worst actual,
    step t l f e c = Some (r, next) -> target r = hub t ->
    (forall m, paid m + worst m <= ceiling m) ->
    (forall m, worst m <= dearest m) ->
    (forall m, actual m <= worst m) ->
    actual "attempts"%string = 1 ->
    charged next (add paid actual) path last total -> charged c paid (r :: path) last total.

Definition sends (path : list row) : nat := length (filter (fun r => String.eqb (target r) (hub t)) path).

Theorem budget_holds c paid path last total : charged c paid path last total ->
  (forall m, paid m <= ceiling m) ->
  (forall m, total m <= ceiling m) /\ total "attempts"%string = paid "attempts"%string + sends path.
Proof.
  induction 1 as [c paid|c paid e f r next path last total S T _ IH
                 |c paid e f r next path last total worst actual S T W _ A One _ IH]; intros P.
  - split; [exact P|]. unfold sends. simpl. lia.
  - destruct (IH P) as [B C]. split; [exact B|]. unfold sends in *. simpl.
    apply String.eqb_neq in T. rewrite T. exact C.
  - destruct IH as [B C].
    { intros m. unfold add. specialize (W m). specialize (A m). lia. }
    split; [exact B|]. rewrite C. unfold add, sends. simpl.
    apply String.eqb_eq in T. rewrite T. simpl. lia.
Qed.

Lemma charged_runs c paid path last total : charged c paid path last total -> run t l c path last.
Proof. induction 1; [constructor|econstructor; eassumption|econstructor; eassumption]. Qed.

Lemma sends_are_requests c path last : run t l c path last -> sends path = requests path.
Proof.
  induction 1 as [c|c e f r next path last S _ IH]; [reflexivity|].
  apply step_takes in S. destruct S as [R _].
  pose proof (nothing_found _ _ no_miscounted r R) as M. cbv beta in M.
  apply negb_false_iff, eqb_prop in M. unfold sends, requests in *. simpl. rewrite M.
  destruct (String.eqb (target r) (hub t)); simpl; lia.
Qed.

Lemma each_costs c paid path last total : charged c paid path last total ->
  forall m, total m <= paid m + dearest m * sends path.
Proof.
  induction 1 as [c paid|c paid e f r next path last total S T _ IH
                 |c paid e f r next path last total worst actual S T W D A One _ IH]; intros m.
  - lia.
  - specialize (IH m). unfold sends in *. simpl. apply String.eqb_neq in T. rewrite T. exact IH.
  - specialize (IH m). specialize (D m). specialize (A m). unfold add, sends in *. simpl.
    apply String.eqb_eq in T. rewrite T. simpl. rewrite Nat.mul_succ_r. lia.
Qed.

(* Whatever the ceilings: all attempts, each at the most that one may cost. *)
Theorem costs_are_bounded s paid path last total :
  charged (nothing_spent s) paid path last total ->
  forall m, total m <= paid m + dearest m * most_attempts t l.
Proof.
  intros C m. pose proof (each_costs _ _ _ _ _ C m) as H.
  pose proof (charged_runs _ _ _ _ _ C) as R. rewrite (sends_are_requests _ _ _ R) in H.
  pose proof (attempts_are_bounded _ _ _ R) as B.
  pose proof (Nat.mul_le_mono_l _ _ (dearest m) B). lia.
Qed.
End Ends.

(* A ledger that many runs share, in any order of their requests: what is paid, and what is held. *)
Inductive shares (ceiling : name -> nat) : (name -> nat) * (name -> nat) -> Prop :=
| opened : shares ceiling (fun _ => 0, fun _ => 0)
| reserves : forall paid held worst, shares ceiling (paid, held) ->
    (forall m, paid m + held m + worst m <= ceiling m) ->
    shares ceiling (paid, fun m => held m + worst m)
| settles : forall paid held worst actual, shares ceiling (paid, fun m => held m + worst m) ->
    (forall m, actual m <= worst m) ->
    shares ceiling (fun m => paid m + actual m, held).

Theorem shared_budget_holds ceiling paid held : shares ceiling (paid, held) ->
  forall m, paid m + held m <= ceiling m.
Proof.
  intros S. remember (paid, held) as ledger eqn:E. revert paid held E.
  induction S as [|paid held worst S IH W|paid held worst actual S IH A]; intros p h E; inversion E; subst.
  - intros m. lia.
  - intros m. specialize (W m). lia.
  - intros m. specialize (IH _ _ eq_refl m). simpl in IH. specialize (A m). lia.
Qed.

(* Counters stay within their limits, in machines that never end as well. *)
Theorem within_limits t : unchecked t = [] -> forall l c path last, run t l c path last ->
  (forall x, spent c x <= l x) -> forall x, spent last x <= l x.
Proof.
  intros U l c path last R. induction R as [c|c e f r next path last S _ IH]; intros W; [exact W|].
  apply IH. apply step_takes in S. destruct S as [I [_ [_ [O ->]]]]. intros x. simpl.
  destruct (refilled f r x); [lia|]. destruct (taken r x) eqn:T; [|apply W].
  unfold taken in T. destruct (spends r) as [y|] eqn:E; [|discriminate]. apply String.eqb_eq in T. subst y.
  pose proof (nothing_found _ _ U r I) as C. cbv beta in C. unfold spends_unchecked in C. rewrite E in C.
  apply negb_false_iff, among_in in C. unfold is_open in O. apply andb_prop in O. destruct O as [_ O].
  rewrite forallb_forall in O. apply Nat.ltb_lt. exact (O x C).
Qed.

(* 4. Honesty
   ---------- *)

(* Whether a guard asks for nothing but that a fact holds. *)
Definition open_with (fact : name) (r : row) : bool :=
  match lacks r, needs r with [], [] => forallb (String.eqb fact) (holds r) | _, _ => false end.

Fixpoint exposed (fact : name) (ends : list name) (l : list row) : list row :=
  match l with
  | [] => []
  | r :: below => (if among (target r) ends then [r] else [])
                  ++ (if open_with fact r then [] else exposed fact ends below)
  end.

(* The rows that lead to one of some ends though a fact may hold, but for some events. *)
Definition loses (t : table) (fact : name) (ends excused : list name) : list row :=
  flat_map (fun r => if among (event r) excused then []
                     else exposed fact ends (ladder t (event r) (source r))) (rows t).

Lemma exposed_none (fact : name) (ends : list name) l f c r : f fact = true -> forall list,
  exposed fact ends list = [] -> find (is_open l f c) list = Some r -> ~ In (target r) ends.
Proof.
  intros F. induction list as [|a list IH]; simpl; [discriminate|]. intros E.
  apply app_eq_nil in E. destruct E as [E1 E2].
  destruct (is_open l f c a) eqn:O.
  - intros X. inversion X; subst. destruct (among (target r) ends) eqn:A; [discriminate|].
    apply not_among. exact A.
  - destruct (open_with fact a) eqn:W; [|exact (IH E2)].
    unfold open_with in W. unfold is_open in O.
    destruct (lacks a); [|discriminate]. destruct (needs a); [|discriminate].
    simpl in O. rewrite !andb_true_r in O. exfalso. revert O. apply not_false_iff_true.
    rewrite forallb_forall in *. intros x I. specialize (W x I). apply String.eqb_eq in W. subst x. exact F.
Qed.

(* While the fact holds, no event but the excused ones leads to one of these ends. *)
Theorem never_lost t fact ends excused : loses t fact ends excused = [] ->
  forall l f e c r next, f fact = true -> step t l f e c = Some (r, next) ->
  ~ In e excused -> ~ In (state next) ends.
Proof.
  intros L l f e c r next F S X. pose proof S as S'. apply step_takes in S'.
  destruct S' as [I [E [Z [_ ->]]]]. simpl. unfold step in S.
  destruct (find _ _) as [q|] eqn:G; [|discriminate]. inversion S; subst q.
  apply (exposed_none fact ends l f c r F (ladder t e (state c))); [|exact G].
  unfold loses in L. rewrite flat_map_concat_map, concat_nil_Forall, Forall_forall in L.
  specialize (L (if among (event r) excused then [] else exposed fact ends (ladder t (event r) (source r)))).
  rewrite E, Z in L. apply not_among in X. rewrite X in L. apply L.
  apply in_map_iff. exists r. rewrite E, Z, X. auto.
Qed.

(* The rows to one of some ends whose event is none of those that may lead there. *)
Definition reached_otherwise (t : table) (ends events : list name) : list row :=
  filter (fun r => among (target r) ends && negb (among (event r) events)) (rows t).

Theorem reached_only_by t ends events : reached_otherwise t ends events = [] ->
  forall l f e c r next, step t l f e c = Some (r, next) -> In (state next) ends -> In e events.
Proof.
  intros O l f e c r next S I. apply step_takes in S. destruct S as [R [E [_ [_ ->]]]].
  pose proof (nothing_found _ _ O r R) as H. cbv beta in H. apply among_in in I. simpl in I. rewrite I, E in H.
  apply negb_false_iff, among_in in H. exact H.
Qed.

(* The rows that an event takes, in one state, to a state that is none of some. *)
Definition strays_from (t : table) (e s : name) (targets : list name) : list row :=
  filter (fun r => negb (among (target r) targets)) (ladder t e s).

Theorem leads_from t : without_last_resort t = [] -> forall e s targets,
  strays_from t e s targets = [] -> ladder t e s <> [] -> forall l f c, state c = s ->
  exists r next, step t l f e c = Some (r, next) /\ In (state next) targets.
Proof.
  intros W e s targets O L l f c <-.
  destruct (exactly_one_row t W l f e c L) as [r [T _]]. apply takes_what_it_steps in T.
  exists r, (after f r c). split; [exact T|]. apply step_takes in T.
  destruct T as [R [E [Z _]]]. simpl.
  assert (In r (ladder t e (state c))) as I by (apply ladder_in; auto).
  pose proof (nothing_found _ _ O r I) as H. cbv beta in H.
  apply negb_false_iff, among_in in H. exact H.
Qed.

(* The event, where the state does not take it. *)
Definition untaken (t : table) (e s : name) : list name :=
  match ladder t e s with [] => [e] | _ => [] end.

Lemma is_taken t e s : untaken t e s = [] -> ladder t e s <> [].
Proof. unfold untaken. destruct (ladder t e s); discriminate. Qed.

(* The rows that an event takes, in any state, to a state that is none of some. *)
Definition strays_of (t : table) (targets : list name) (e : name) : list row :=
  filter (fun r => String.eqb (event r) e && negb (among (target r) targets)) (rows t).

Lemma stops_lead_to t targets events : flat_map (strays_of t targets) events = [] ->
  forall r, In r (rows t) -> In (event r) events -> In (target r) targets.
Proof.
  intros O r R E. apply among_in. destruct (among (target r) targets) eqn:A; [reflexivity|].
  assert (In r (flat_map (strays_of t targets) events)) as I.
  { apply in_flat_map. exists (event r). split; [exact E|]. apply filter_In. split; [exact R|].
    rewrite String.eqb_refl, A. reflexivity. }
  rewrite O in I. destruct I.
Qed.

(* The rows that refill a counter after other events than some. *)
Definition frees_otherwise (t : table) (x : name) (events : list name) : list row :=
  filter (fun r => among x (refills r) && negb (among (event r) events)) (rows t).

Theorem freed_only_by t x events : frees_otherwise t x events = [] ->
  forall l f e c r next, step t l f e c = Some (r, next) -> spent next x < spent c x -> In e events.
Proof.
  intros O l f e c r next S L. apply step_takes in S. destruct S as [R [E [_ [_ ->]]]].
  pose proof (nothing_found _ _ O r R) as H. cbv beta in H. rewrite E in H.
  simpl in L. unfold refilled in L. destruct (among x (refills r)).
  - apply negb_false_iff, among_in in H. exact H.
  - simpl in L. destruct (taken r x); lia.
Qed.

(* A duty: an event leaves something to be done (a model called tools), a rung does it (runs them),
   and another event says that it is done. Until then nothing else is sent. *)
Section Duty.
Variable t : table.
Variables (asked doing done : name) (stops : list name).

(* The rows of the first event that lead neither to the rung nor to an outcome, and the rows that
   leave the rung for neither the hub nor an outcome. *)
Definition neglected : list row :=
  filter (fun r => (String.eqb (event r) asked && negb (among (target r) (doing :: outcomes t)))
                || (String.eqb (source r) doing && negb (among (target r) (hub t :: outcomes t))))
         (rows t).

(* A run in which, while the rung's work is in flight, nothing comes but that it is done, or one of
   the events that end the run; with whether something is left to be done. *)
Inductive obeys (l : limits) : bool -> configuration -> list row -> bool -> configuration -> Prop :=
| rests : forall due c, obeys l due c [] due c
| obeys_on : forall due c e f r next path due' last,
    step t l f e c = Some (r, next) ->
    (due = true -> state c = hub t -> e = done \/ In e stops) ->
    obeys l (if String.eqb e asked then true else if String.eqb e done then false else due)
            next path due' last ->
    obeys l due c (r :: path) due' last.

Hypothesis no_neglect : neglected = [].
Hypothesis stops_end : forall r, In r (rows t) -> In (event r) stops -> In (target r) (outcomes t).
Hypothesis no_final_left : out_of_an_outcome t = [].

Definition in_place (due : bool) (c : configuration) : Prop :=
  due = true -> state c = doing \/ state c = hub t \/ In (state c) (outcomes t).

(* As long as something is left to be done, a run is in the rung that does it, at the hub, or over:
   no other rung sends anything. *)
Theorem first_things_first l due c path due' last : obeys l due c path due' last ->
  in_place due c -> in_place due' last.
Proof.
  induction 1 as [due c|due c e f r next path due' last S D _ IH]; intros P; [exact P|].
  apply IH. apply step_takes in S. destruct S as [R [E [Z [_ ->]]]]. unfold in_place. simpl.
  pose proof (nothing_found _ _ no_neglect r R) as N. cbv beta in N. apply orb_false_iff in N. destruct N as [N1 N2].
  rewrite E in N1. rewrite Z in N2.
  destruct (String.eqb e asked) eqn:A.
  - intros _. cbn [andb] in N1. apply negb_false_iff in N1.
    apply among_in in N1. destruct N1 as [N1|N1]; auto.
  - destruct (String.eqb e done) eqn:B; [discriminate|]. intros ->.
    destruct (P eq_refl) as [Q|[Q|Q]].
    + rewrite Q, String.eqb_refl in N2. cbn [andb] in N2. apply negb_false_iff in N2.
      apply among_in in N2. destruct N2 as [N2|N2]; auto.
    + destruct (D eq_refl Q) as [->|Y]; [rewrite String.eqb_refl in B; discriminate|].
      right. right. apply (stops_end r R). rewrite E. exact Y.
    + pose proof (nothing_found _ _ no_final_left r R) as O. cbv beta in O. rewrite Z in O.
      apply not_among in O. contradiction.
Qed.
End Duty.

(* Refuse a table by the name of the lemma, with the rows at fault. *)
Tactic Notation "computed" ident(lemma) :=
  vm_compute;
  match goal with
  | |- ?x = ?x => reflexivity
  | |- ?at_fault = _ => fail 1 "refused by" lemma ", at fault:" at_fault
  end.
