------------------------------------------- MODULE turn --------------------------------------------
(* The machine 'turn', written from the rows that run by `rungwise diagram --format tla`: change
   the table, not this file.

   To check it:   java -cp tla2tools.jar tlc2.TLC turn.tla     with this as turn.cfg:

     SPECIFICATION Spec
     CONSTANTS
       limit_faults = 3
       limit_compactions = 3
       limit_summaries = 1
       limit_auto_continues = 25
     INVARIANTS TypeOK Total Moves
     PROPERTIES Pays OnlySentIsInFlight Absorbs Terminates

   A step is one event: any that may come where the machine stands, with any facts. Of its rows the
   first whose guard holds is taken. Nothing is known of budgets: what ends the machine for want of one
   may come in any rung, so all that is checked here holds for every budget.
*)
EXTENDS Integers

\* How often each rung may be taken.
CONSTANTS limit_faults, limit_compactions, limit_summaries, limit_auto_continues

VARIABLES state, spent
vars == <<state, spent>>

Rungs == {"ask", "use_tools", "go_on", "compact", "summarize"}
Hub == "await"
Outcomes == {"finished", "handed_off", "limit_reached", "failed", "cancelled", "over_budget"}
NoRow == "no row is taken"
Limit == [faults |-> limit_faults, compactions |-> limit_compactions,
    summaries |-> limit_summaries, auto_continues |-> limit_auto_continues]
Counters == DOMAIN Limit

HasLeft(counter) == spent[counter] < Limit[counter]
Start == [counter \in Counters |-> 0]
Go(target, after) == state' = target /\ spent' = after
End(target) == Go(target, Start)  \* with what a run ends makes no difference

\* The facts. A reply can have any of these:
\*   "is_summary": this was the last call, which asked for a summary
\*   "is_hopeless": the cut text runs in circles, is as short as was asked for, or passed its cap
\*   "has_compactor": the caller gave a compactor
\*   "may_go_on_later": the turn may go on by itself once more
\*   "was_handed_off": a terminating tool was called, and took it
\*   "tool_worked": one of the calls of this round brought what it was called for
\*   "may_fail_again": fewer rounds of tools in a row have failed than may
\*   "repeats_calls": the same call has brought the same result as often as the policy allows
\*   "over_tool_limit": the reply called more tools than the policy allows, and the rest were not run
\* and the others follow from them.
has_patience(facts) == "tool_worked" \in facts \/ "may_fail_again" \in facts  \* not too many rounds in a row have failed

\* The guards.
may_use_tools(facts) == HasLeft("faults") /\ "is_summary" \notin facts
may_extend(facts) == HasLeft("auto_continues") /\ "is_hopeless" \notin facts /\ "is_summary" \notin facts
may_compact(facts) == HasLeft("compactions") /\ "has_compactor" \in facts /\ "may_go_on_later" \in facts /\
    "is_summary" \notin facts
may_report(facts) == HasLeft("auto_continues") /\ has_patience(facts) /\ "repeats_calls" \notin facts /\
    "over_tool_limit" \notin facts /\ "is_summary" \notin facts
may_summarize(facts) == HasLeft("summaries") /\ "is_summary" \notin facts /\ "over_tool_limit" \notin facts
may_go_on(facts) == HasLeft("auto_continues") /\ "is_summary" \notin facts

\* The effects: what is spent afterwards.
spend_fault == [spent EXCEPT !.faults = @ + 1]
spend_auto_continue(facts) == [spent EXCEPT !.auto_continues = @ + 1, !.faults = IF "tool_worked" \in facts THEN 0 ELSE @]
spend_compaction == [spent EXCEPT !.compactions = @ + 1]
spend_summary == [spent EXCEPT !.summaries = @ + 1]

Init == state = "ask" /\ spent = Start

sent ==
  \/ /\ state \in Rungs
     /\ Go("await", spent)

\* the model answered
answered ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"is_summary"} :
          IF "is_summary" \in facts THEN End("limit_reached")
          ELSE End("finished")

\* the model called tools
called_tools ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"is_summary"} :
          IF may_use_tools(facts) THEN Go("use_tools", spend_fault)
          ELSE End("limit_reached")

\* the answer was cut at the output cap
truncated ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"is_hopeless", "is_summary", "tool_worked"} :
          IF may_extend(facts) THEN Go("go_on", spend_auto_continue(facts))
          ELSE End("limit_reached")

\* the conversation does not fit the model's context
overflowed ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"is_summary", "has_compactor", "may_go_on_later"} :
          IF "is_summary" \in facts THEN End("limit_reached")
          ELSE IF may_compact(facts) THEN Go("compact", spend_compaction)
          ELSE End("failed")

\* the call failed with a part of the answer
interrupted ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"is_summary"} :
          IF "is_summary" \in facts THEN End("limit_reached")
          ELSE End("failed")

\* the provider or the model refused
refused ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"is_summary"} :
          IF "is_summary" \in facts THEN End("limit_reached")
          ELSE End("failed")

\* the call failed
call_failed ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"is_summary"} :
          IF "is_summary" \in facts THEN End("limit_reached")
          ELSE End("failed")

\* the tools have run
tools_ran ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"was_handed_off", "tool_worked", "may_fail_again",
                              "repeats_calls", "over_tool_limit", "is_summary"} :
          IF "was_handed_off" \in facts THEN End("handed_off")
          ELSE IF may_report(facts) THEN Go("go_on", spend_auto_continue(facts))
          ELSE IF may_summarize(facts) THEN Go("summarize", spend_summary)
          ELSE End("limit_reached")

\* the conversation was shortened
compacted ==
  \/ /\ state = Hub
     /\ \E facts \in SUBSET {"is_summary", "tool_worked"} :
          IF may_go_on(facts) THEN Go("go_on", spend_auto_continue(facts))
          ELSE End("limit_reached")

\* the compactor did not help
stayed_long ==
  \/ /\ state = Hub
     /\ End("failed")

\* the caller ended the turn
cancelled ==
  \/ /\ state \in Rungs \union {Hub}
     /\ End("cancelled")

\* the budget is spent
ran_out ==
  \/ /\ state \in Rungs \union {Hub}
     /\ End("over_budget")

\* So that TLC finds a machine that stands still before it has come to an outcome, and no other.
Over == state \in Outcomes /\ UNCHANGED vars

Next == sent \/ answered \/ called_tools \/ truncated \/ overflowed \/ interrupted \/ refused \/
     call_failed \/ tools_ran \/ compacted \/ stayed_long \/ cancelled \/ ran_out \/ Over
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)

\* No counter leaves its limits, and each event that may come has a row.
TypeOK == /\ state \in Rungs \union {Hub, NoRow} \union Outcomes
          /\ \A counter \in Counters : spent[counter] \in 0..Limit[counter]
Total == state # NoRow

\* What is left, by rank, and last whether something waits to be sent: every step lowers it.
Variant == <<(Limit.auto_continues - spent.auto_continues),
             (Limit.faults - spent.faults) + (Limit.compactions - spent.compactions) +
               (Limit.summaries - spent.summaries),
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
