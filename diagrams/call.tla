------------------------------------------- MODULE call --------------------------------------------
(* The machine 'call', written from the rows that run by `rungwise diagram --format tla`: change
   the table, not this file.

   To check it:   java -cp tla2tools.jar tlc2.TLC call.tla     with this as call.cfg:

     SPECIFICATION Spec
     CONSTANTS
       limit_retries = 3
       limit_reasks = 3
       limit_nudges = 1
       limit_prefills = 2
       limit_enlargements = 3
       limit_repairs = 3
       limit_compactions = 3
       limit_continuations = 3
       limit_fallbacks = 1
     INVARIANTS TypeOK Total Moves
     PROPERTIES Pays OnlySentIsInFlight Absorbs Terminates

   A step is one event: any that may come where the machine stands, with any facts. Of its rows the
   first whose guard holds is taken. Nothing is known of budgets: what ends the machine for want of one
   may come in any rung, so all that is checked here holds for every budget.
*)
EXTENDS Integers

\* How often each rung may be taken.
CONSTANTS limit_retries, limit_reasks, limit_nudges, limit_prefills, limit_enlargements,
          limit_repairs, limit_compactions, limit_continuations, limit_fallbacks

VARIABLES state, spent
vars == <<state, spent>>

Rungs == {"ask", "retry", "reask", "nudge", "prefill", "continuation", "enlarge", "repair",
    "compact", "fallback"}
Hub == "await"
Outcomes == {"done", "salvaged", "partial", "refused", "exhausted", "failed", "cancelled",
    "over_budget"}
NoRow == "no row is taken"
Limit == [retries |-> limit_retries, reasks |-> limit_reasks, nudges |-> limit_nudges,
    prefills |-> limit_prefills, enlargements |-> limit_enlargements,
    repairs |-> limit_repairs, compactions |-> limit_compactions,
    continuations |-> limit_continuations, fallbacks |-> limit_fallbacks]
Counters == DOMAIN Limit

HasLeft(counter) == spent[counter] < Limit[counter]
Start == [counter \in Counters |-> 0]
Go(target, after) == state' = target /\ spent' = after
End(target) == Go(target, Start)  \* with what a run ends makes no difference

\* The facts. A reply can have any of these:
\*   "has_delivered": this attempt handed text to the consumer
\*   "has_prior_answer": the turn holds an answer given beside housekeeping tools only
\*   "switch_asked": the policy leaves the backend after so many replies of this kind
\*   "has_next_backend": a usable backend follows in the chain
\*   "follows_tool_result": a tool result is among the last messages
\*   "thinks_inline": the reasoning came in inline tags
\*   "same_empty_again": the policy takes identical empty replies for final, and this is one
\*   "has_text": text was gathered, in earlier parts or in this one
\*   "repeats_itself": the text gathered runs in circles
\*   "asks_for_little": the caller wants a handful of tokens, so that a cut reply is what was asked for
\*   "overran": the reply is longer than its cap, so that no budget can rest on the next one's
\*   "wait_fits": no wait was asked for, or one that the policy and the deadline allow
\*   "added_text": this attempt brought text that is kept
\*   "refusal_ends": the policy takes a refusal for the last word
\*   "connection_was_stale": the server had closed the reused connection before the request came
\*   "repair_known": the provider named one thing that was not yet repaired
\*   "has_compactor": the caller gave a compactor
\*   "reserve_left": the budget still holds what is kept for the backends to come
\* and the others follow from them.
should_leave(facts) == "switch_asked" \in facts \/ "wait_fits" \notin facts  \* staying with this backend is pointless

\* The guards.
must_leave(facts) == HasLeft("fallbacks") /\ "switch_asked" \in facts /\ "has_next_backend" \in facts
may_nudge(facts) == HasLeft("nudges") /\ "follows_tool_result" \in facts /\ "thinks_inline" \notin facts
may_reask(facts) == HasLeft("reasks") /\ "same_empty_again" \notin facts
may_fall_back(facts) == HasLeft("fallbacks") /\ "has_next_backend" \in facts
may_prefill == HasLeft("prefills")
may_continue(facts) == HasLeft("continuations") /\ "repeats_itself" \notin facts /\
    "asks_for_little" \notin facts /\ "overran" \notin facts
may_enlarge == HasLeft("enlargements")
must_switch(facts) == HasLeft("fallbacks") /\ should_leave(facts) /\ "has_next_backend" \in facts
may_resume(facts) == HasLeft("continuations") /\ "added_text" \in facts /\ "wait_fits" \in facts /\
    "repeats_itself" \notin facts /\ "asks_for_little" \notin facts /\
    "overran" \notin facts
may_retry(facts) == HasLeft("retries") /\ "wait_fits" \in facts /\ "added_text" \notin facts
may_ask_another(facts) == HasLeft("fallbacks") /\ "has_next_backend" \in facts /\ "refusal_ends" \notin facts
may_resend(facts) == HasLeft("retries") /\ "connection_was_stale" \in facts /\ "wait_fits" \in facts /\
    "added_text" \notin facts
may_repair(facts) == HasLeft("repairs") /\ "repair_known" \in facts /\ "wait_fits" \in facts
may_compact(facts) == HasLeft("compactions") /\ "has_compactor" \in facts
must_yield(facts) == HasLeft("fallbacks") /\ "reserve_left" \in facts /\ "has_next_backend" \in facts

\* The effects: what is spent afterwards.
spend_fallback == [spent EXCEPT !.fallbacks = @ + 1, !.retries = 0, !.reasks = 0, !.nudges = 0, !.prefills = 0,
    !.enlargements = 0, !.repairs = 0]
spend_nudge == [spent EXCEPT !.nudges = @ + 1]
spend_reask == [spent EXCEPT !.reasks = @ + 1]
spend_prefill == [spent EXCEPT !.prefills = @ + 1]
spend_continuation(facts) == [spent EXCEPT !.continuations = @ + 1, !.retries = IF "added_text" \in facts THEN 0 ELSE @,
    !.reasks = IF "added_text" \in facts THEN 0 ELSE @,
    !.prefills = IF "added_text" \in facts THEN 0 ELSE @]
spend_enlargement == [spent EXCEPT !.enlargements = @ + 1]
spend_retry == [spent EXCEPT !.retries = @ + 1]
spend_repair == [spent EXCEPT !.repairs = @ + 1]
spend_compaction == [spent EXCEPT !.compactions = @ + 1]

Init == state = "ask" /\ spent = Start

sent ==
  \/ /\ state \in Rungs
     /\ Go("await", spent)

\* the answer came
answered ==
  \/ /\ state = Hub
     /\ End("done")

\* the model called tools
called_tools ==
  \/ /\ state = Hub
     /\ End("done")

\* the reply was empty
came_empty ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_delivered", "has_prior_answer", "switch_asked",
                              "has_next_backend", "follows_tool_result", "thinks_inline",
                              "same_empty_again", "has_text"} :
          IF "has_delivered" \in facts THEN End("salvaged")
          ELSE IF "has_prior_answer" \in facts THEN End("salvaged")
          ELSE IF must_leave(facts) THEN Go("fallback", spend_fallback)
          ELSE IF may_nudge(facts) THEN Go("nudge", spend_nudge)
          ELSE IF may_reask(facts) THEN Go("reask", spend_reask)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("exhausted")

\* the reply held reasoning but no answer
only_reasoned ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_delivered", "has_prior_answer", "switch_asked",
                              "has_next_backend", "follows_tool_result", "thinks_inline",
                              "same_empty_again", "has_text"} :
          IF "has_delivered" \in facts THEN End("salvaged")
          ELSE IF "has_prior_answer" \in facts THEN End("salvaged")
          ELSE IF must_leave(facts) THEN Go("fallback", spend_fallback)
          ELSE IF may_nudge(facts) THEN Go("nudge", spend_nudge)
          ELSE IF may_prefill THEN Go("prefill", spend_prefill)
          ELSE IF may_reask(facts) THEN Go("reask", spend_reask)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("exhausted")

\* the reply was cut at the output cap
truncated ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"repeats_itself", "asks_for_little", "overran", "added_text"} :
          IF may_continue(facts) THEN Go("continuation", spend_continuation(facts))
          ELSE End("partial")

\* the provider paused the turn
paused ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"repeats_itself", "asks_for_little", "overran",
                              "has_next_backend", "has_text", "added_text"} :
          IF may_continue(facts) THEN Go("continuation", spend_continuation(facts))
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("exhausted")

\* the tool calls were cut or could not be parsed
tools_truncated ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_next_backend", "has_text"} :
          IF may_enlarge THEN Go("enlarge", spend_enlargement)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("exhausted")

\* the JSON was cut at the output cap
json_truncated ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_next_backend", "has_text"} :
          IF may_enlarge THEN Go("enlarge", spend_enlargement)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("exhausted")

\* the output cap was used up by reasoning
reasoning_truncated ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_next_backend", "has_text"} :
          IF may_enlarge THEN Go("enlarge", spend_enlargement)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("exhausted")

\* the stream ended before its terminal event
interrupted ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"switch_asked", "wait_fits", "has_next_backend",
                              "added_text", "repeats_itself", "asks_for_little", "overran",
                              "has_text"} :
          IF must_switch(facts) THEN Go("fallback", spend_fallback)
          ELSE IF may_resume(facts) THEN Go("continuation", spend_continuation(facts))
          ELSE IF may_retry(facts) THEN Go("retry", spend_retry)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("failed")

\* nothing came for longer than the clocks allow
fell_silent ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"switch_asked", "wait_fits", "has_next_backend",
                              "added_text", "repeats_itself", "asks_for_little", "overran",
                              "has_text"} :
          IF must_switch(facts) THEN Go("fallback", spend_fallback)
          ELSE IF may_resume(facts) THEN Go("continuation", spend_continuation(facts))
          ELSE IF may_retry(facts) THEN Go("retry", spend_retry)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("failed")

\* the reply had no usable shape or an unknown finish reason
malformed ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_next_backend", "wait_fits", "added_text", "has_text"} :
          IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF may_retry(facts) THEN Go("retry", spend_retry)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("failed")

\* the provider or the model refused
refused ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_next_backend", "refusal_ends"} :
          IF may_ask_another(facts) THEN Go("fallback", spend_fallback)
          ELSE End("refused")

\* the provider failed
failed_transiently ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"connection_was_stale", "wait_fits", "added_text",
                              "switch_asked", "has_next_backend", "has_text"} :
          IF may_resend(facts) THEN Go("retry", spend_retry)
          ELSE IF must_switch(facts) THEN Go("fallback", spend_fallback)
          ELSE IF may_retry(facts) THEN Go("retry", spend_retry)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("failed")

\* the provider rejected the request for good
failed_permanently ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_next_backend", "has_text"} :
          IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("failed")

\* the provider rejected the request
rejected_fixably ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"repair_known", "wait_fits", "has_next_backend", "has_text"} :
          IF may_repair(facts) THEN Go("repair", spend_repair)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("failed")

\* the conversation does not fit the model's context
overflowed ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"has_compactor", "has_next_backend", "has_text"} :
          IF may_compact(facts) THEN Go("compact", spend_compaction)
          ELSE IF may_fall_back(facts) THEN Go("fallback", spend_fallback)
          ELSE IF "has_text" \in facts THEN End("partial")
          ELSE End("failed")

\* the caller ended the call
cancelled ==
  \/ /\ state \in Rungs \union {Hub}
     /\ End("cancelled")

\* the next request cannot be afforded
ran_out ==
  \/ /\ state \in Rungs \ {"fallback"}
     /\ \E facts \in SUBSET {"reserve_left", "has_next_backend"} :
          IF must_yield(facts) THEN Go("fallback", spend_fallback)
          ELSE End("over_budget")
  \/ /\ state \in {"fallback"}
     /\ End("over_budget")

\* So that TLC finds a machine that stands still before it has come to an outcome, and no other.
Over == state \in Outcomes /\ UNCHANGED vars

Next == sent \/ answered \/ called_tools \/ came_empty \/ only_reasoned \/ truncated \/
     paused \/ tools_truncated \/ json_truncated \/ reasoning_truncated \/ interrupted \/
     fell_silent \/ malformed \/ refused \/ failed_transiently \/ failed_permanently \/
     rejected_fixably \/ overflowed \/ cancelled \/ ran_out \/ Over
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)

\* No counter leaves its limits, and each event that may come has a row.
TypeOK == /\ state \in Rungs \union {Hub, NoRow} \union Outcomes
          /\ \A counter \in Counters : spent[counter] \in 0..Limit[counter]
Total == state # NoRow

\* What is left, by rank, and last whether something waits to be sent: every step lowers it.
Variant == <<(Limit.fallbacks - spent.fallbacks),
             (Limit.continuations - spent.continuations),
             (Limit.retries - spent.retries) + (Limit.reasks - spent.reasks) +
               (Limit.nudges - spent.nudges) + (Limit.prefills - spent.prefills) +
               (Limit.enlargements - spent.enlargements) + (Limit.repairs - spent.repairs) +
               (Limit.compactions - spent.compactions),
             IF state \in Rungs THEN 1 ELSE 0>>
Less(new, old) == \E digit \in DOMAIN old :
                    new[digit] < old[digit] /\ \A above \in 1..(digit - 1) : new[above] = old[above]
\* A step that changes nothing is none to TLA+; such a one would be no payment.
Moves == state \in Outcomes \/ ~ENABLED (Next /\ UNCHANGED vars)
Pays == [][state' \in Outcomes \/ Less(Variant', Variant)]_vars

\* Only what was sent is in flight.
OnlySentIsInFlight == [][state' = Hub => state \in Rungs]_vars

\* Nothing leaves an outcome, and every run comes to one.
Absorbs == [][state \notin Outcomes]_vars
Terminates == <>(state \in Outcomes)
====================================================================================================
