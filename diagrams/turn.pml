/* The machine 'turn' as a model for SPIN (https://spinroot.com), written from the rows that run by
   `rungwise diagram --format promela`: change the table, not this file.

   To prove it:          spin -a turn.pml && cc -O2 -o pan pan.c && ./pan -a -m100000
   With other limits:    spin -a -DLIMIT_...=1 turn.pml, and so on
   The worst case:       spin -a -DMOST_ATTEMPTS=108 turn.pml and so on finds no error: nothing is sent more often;
                         spin -a -DMOST_ATTEMPTS=107 turn.pml and so on finds a path on which it is
   The path to an error: spin -t -p -g turn.pml

   One round of the loop is one event: any that may come where the machine stands. Its rows are tried
   from the top, and the first whose guard holds is taken. A fact is chosen freely when a guard first
   looks at it, and stays so for the rest of that event. Nothing is known of budgets: what ends the
   machine for want of one may come in any rung, so all that is proved here holds for every budget.
*/

/* How often each rung may be taken. */
#ifndef LIMIT_faults
#define LIMIT_faults 3
#endif
#ifndef LIMIT_compactions
#define LIMIT_compactions 3
#endif
#ifndef LIMIT_summaries
#define LIMIT_summaries 1
#endif
#ifndef LIMIT_auto_continues
#define LIMIT_auto_continues 25
#endif

/* Where the machine stands, and what is spent. */
mtype = { ask, use_tools, go_on, compact, summarize, await, finished, handed_off,
          limit_reached, failed, cancelled, over_budget }
mtype state = ask
short faults
short compactions
short summaries
short auto_continues
#ifdef MOST_ATTEMPTS
int attempts  /* how often something was sent */
#endif

/* What is found of a reply. */
#define UNKNOWN 0
#define NO 1
#define YES 2
byte is_summary
byte is_hopeless
byte has_compactor
byte may_go_on_later
byte was_handed_off
byte tool_worked
byte may_fail_again
byte has_patience
byte repeats_calls
byte over_tool_limit
bool holds  /* whether the guard does that was tried last */

/* What is left, by rank: these lines, read as digits of one number, fall with every step. */
#define left_0 (LIMIT_auto_continues - auto_continues)
int was_0
#define left_1 (LIMIT_faults - faults + LIMIT_compactions - compactions + \
        LIMIT_summaries - summaries)
int was_1
#define is_waiting (is_rung -> 1 : 0)  /* to be sent */
bit was_waiting
#define is_less (left_0 < was_0 || (left_0 == was_0 && ( \
        left_1 < was_1 || (left_1 == was_1 && ( \
        is_waiting < was_waiting)))))

#define is_rung (state == ask || state == use_tools || state == go_on || state == compact || \
        state == summarize)
#define is_over (state == finished || state == handed_off || state == limit_reached || \
        state == failed || state == cancelled || state == over_budget)
#define is_within_limits (faults <= LIMIT_faults && compactions <= LIMIT_compactions && \
        summaries <= LIMIT_summaries && auto_continues <= LIMIT_auto_continues)

/* Every run comes to an outcome, and stays there. */
ltl ends { <> [] is_over }

/* A fact that no guard has looked at can be either way. */
inline choose(fact) { if :: fact == UNKNOWN -> if :: fact = YES :: fact = NO fi :: else fi }

#define NEEDS(fact)     if :: holds -> find_##fact(); holds = (fact == YES) :: else fi
#define NEEDS_NO(fact)  if :: holds -> find_##fact(); holds = (fact == NO) :: else fi
#define FACT(fact)      holds = true; NEEDS(fact)
#define ROW(guard, effect, target)  guard; if :: holds -> effect; state = target; goto stepped :: else fi;
#define LAST(effect, target)        effect; state = target; goto stepped

#ifdef MOST_ATTEMPTS
#define COUNT            attempts++
#define CHECK_ATTEMPTS   assert(attempts <= MOST_ATTEMPTS)
#define FORGET_ATTEMPTS  attempts = 0
#else
#define COUNT            skip
#define CHECK_ATTEMPTS   skip
#define FORGET_ATTEMPTS  skip
#endif

/* The facts. */
/* this was the last call, which asked for a summary */
inline find_is_summary() { choose(is_summary) }
/* the cut text runs in circles, is as short as was asked for, or passed its cap */
inline find_is_hopeless() { choose(is_hopeless) }
/* the caller gave a compactor */
inline find_has_compactor() { choose(has_compactor) }
/* the turn may go on by itself once more */
inline find_may_go_on_later() { choose(may_go_on_later) }
/* a terminating tool was called, and took it */
inline find_was_handed_off() { choose(was_handed_off) }
/* one of the calls of this round brought what it was called for */
inline find_tool_worked() { choose(tool_worked) }
/* fewer rounds of tools in a row have failed than may */
inline find_may_fail_again() { choose(may_fail_again) }
/* not too many rounds in a row have failed */
inline find_has_patience() { find_tool_worked(); find_may_fail_again();
    has_patience = (tool_worked == YES || may_fail_again == YES -> YES : NO) }
/* the same call has brought the same result as often as the policy allows */
inline find_repeats_calls() { choose(repeats_calls) }
/* the reply called more tools than the policy allows, and the rest were not run */
inline find_over_tool_limit() { choose(over_tool_limit) }

/* The guards: the counter of which a unit must be left, and the facts. */
inline may_use_tools() { holds = (faults < LIMIT_faults); NEEDS_NO(is_summary) }
inline may_extend() { holds = (auto_continues < LIMIT_auto_continues); NEEDS_NO(is_hopeless);
    NEEDS_NO(is_summary) }
inline may_compact() { holds = (compactions < LIMIT_compactions); NEEDS(has_compactor);
    NEEDS(may_go_on_later); NEEDS_NO(is_summary) }
inline may_report() { holds = (auto_continues < LIMIT_auto_continues); NEEDS(has_patience);
    NEEDS_NO(repeats_calls); NEEDS_NO(over_tool_limit); NEEDS_NO(is_summary) }
inline may_summarize() { holds = (summaries < LIMIT_summaries); NEEDS_NO(is_summary); NEEDS_NO(over_tool_limit) }
inline may_go_on() { holds = (auto_continues < LIMIT_auto_continues); NEEDS_NO(is_summary) }

/* The effects: what is spent, and what is given back. */
inline nothing() { skip }
inline count_attempt() { COUNT }
inline spend_fault() { faults++ }
inline spend_auto_continue() { auto_continues++; find_tool_worked();
    if :: tool_worked == YES -> faults = 0 :: else fi }
inline spend_compaction() { compactions++ }
inline spend_summary() { summaries++ }

#define IN(where) (where) -> d_step { assert(!is_over); was_0 = left_0; was_1 = left_1; was_waiting = is_waiting };

active proctype turn() {
end:  /* where no event can come, which must be in an outcome */
  do
  :: atomic {
     if
     /* sent */
     :: IN(is_rung)
        LAST(count_attempt(), await)
     /* answered: the model answered */
     :: IN(state == await)
        ROW(FACT(is_summary), nothing(), limit_reached)
        LAST(nothing(), finished)
     /* called_tools: the model called tools */
     :: IN(state == await)
        ROW(may_use_tools(), spend_fault(), use_tools)
        LAST(nothing(), limit_reached)
     /* truncated: the answer was cut at the output cap */
     :: IN(state == await)
        ROW(may_extend(), spend_auto_continue(), go_on)
        LAST(nothing(), limit_reached)
     /* overflowed: the conversation does not fit the model's context */
     :: IN(state == await)
        ROW(FACT(is_summary), nothing(), limit_reached)
        ROW(may_compact(), spend_compaction(), compact)
        LAST(nothing(), failed)
     /* interrupted: the call failed with a part of the answer */
     :: IN(state == await)
        ROW(FACT(is_summary), nothing(), limit_reached)
        LAST(nothing(), failed)
     /* refused: the provider or the model refused */
     :: IN(state == await)
        ROW(FACT(is_summary), nothing(), limit_reached)
        LAST(nothing(), failed)
     /* call_failed: the call failed */
     :: IN(state == await)
        ROW(FACT(is_summary), nothing(), limit_reached)
        LAST(nothing(), failed)
     /* tools_ran: the tools have run */
     :: IN(state == await)
        ROW(FACT(was_handed_off), nothing(), handed_off)
        ROW(may_report(), spend_auto_continue(), go_on)
        ROW(may_summarize(), spend_summary(), summarize)
        LAST(nothing(), limit_reached)
     /* compacted: the conversation was shortened */
     :: IN(state == await)
        ROW(may_go_on(), spend_auto_continue(), go_on)
        LAST(nothing(), limit_reached)
     /* stayed_long: the compactor did not help */
     :: IN(state == await)
        LAST(nothing(), failed)
     /* cancelled: the caller ended the turn */
     :: IN(!is_over)
        LAST(nothing(), cancelled)
     /* ran_out: the budget is spent */
     :: IN(!is_over)
        LAST(nothing(), over_budget)
     fi;
stepped:
     skip;
     d_step {
       assert(is_within_limits);
       assert(is_over || is_less);
       assert(state != await || was_waiting);  /* in flight is only what was sent */
       CHECK_ATTEMPTS;
       if
       :: is_over ->  /* with what a run ends makes no difference */
          faults = 0; compactions = 0; summaries = 0; auto_continues = 0; FORGET_ATTEMPTS
       :: else
       fi;
       is_summary = UNKNOWN; is_hopeless = UNKNOWN; has_compactor = UNKNOWN;
       may_go_on_later = UNKNOWN; was_handed_off = UNKNOWN; tool_worked = UNKNOWN;
       may_fail_again = UNKNOWN; has_patience = UNKNOWN; repeats_calls = UNKNOWN;
       over_tool_limit = UNKNOWN; holds = false; was_0 = 0; was_1 = 0; was_waiting = 0
     }
     }
  od
}
