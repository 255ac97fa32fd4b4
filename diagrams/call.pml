/* The machine 'call' as a model for SPIN (https://spinroot.com), written from the rows that run by
   `rungwise diagram --format promela`: change the table, not this file.

   To prove it:          spin -a call.pml && cc -O2 -o pan pan.c && ./pan -a -m100000
   With other limits:    spin -a -DLIMIT_...=1 call.pml, and so on
   The worst case:       spin -a -DMOST_ATTEMPTS=62 call.pml and so on finds no error: nothing is sent more often;
                         spin -a -DMOST_ATTEMPTS=61 call.pml and so on finds a path on which it is
   The path to an error: spin -t -p -g call.pml

   One round of the loop is one event: any that may come where the machine stands. Its rows are tried
   from the top, and the first whose guard holds is taken. A fact is chosen freely when a guard first
   looks at it, and stays so for the rest of that event. Nothing is known of budgets: what ends the
   machine for want of one may come in any rung, so all that is proved here holds for every budget.
*/

/* How often each rung may be taken. */
#ifndef LIMIT_retries
#define LIMIT_retries 3
#endif
#ifndef LIMIT_reasks
#define LIMIT_reasks 3
#endif
#ifndef LIMIT_nudges
#define LIMIT_nudges 1
#endif
#ifndef LIMIT_prefills
#define LIMIT_prefills 2
#endif
#ifndef LIMIT_enlargements
#define LIMIT_enlargements 3
#endif
#ifndef LIMIT_repairs
#define LIMIT_repairs 3
#endif
#ifndef LIMIT_compactions
#define LIMIT_compactions 3
#endif
#ifndef LIMIT_continuations
#define LIMIT_continuations 3
#endif
#ifndef LIMIT_fallbacks
#define LIMIT_fallbacks 1
#endif

/* Where the machine stands, and what is spent. */
mtype = { ask, retry, reask, nudge, prefill, continuation, enlarge, repair, compact,
          fallback, await, done, salvaged, partial, refused, exhausted, failed, cancelled,
          over_budget }
mtype state = ask
short retries
short reasks
short nudges
short prefills
short enlargements
short repairs
short compactions
short continuations
short fallbacks
#ifdef MOST_ATTEMPTS
int attempts  /* how often something was sent */
#endif

/* What is found of a reply. */
#define UNKNOWN 0
#define NO 1
#define YES 2
byte has_delivered
byte has_prior_answer
byte switch_asked
byte has_next_backend
byte follows_tool_result
byte thinks_inline
byte same_empty_again
byte has_text
byte repeats_itself
byte asks_for_little
byte overran
byte wait_fits
byte should_leave
byte added_text
byte refusal_ends
byte connection_was_stale
byte repair_known
byte has_compactor
byte reserve_left
bool holds  /* whether the guard does that was tried last */

/* What is left, by rank: these lines, read as digits of one number, fall with every step. */
#define left_0 (LIMIT_fallbacks - fallbacks)
int was_0
#define left_1 (LIMIT_continuations - continuations)
int was_1
#define left_2 (LIMIT_retries - retries + LIMIT_reasks - reasks + LIMIT_nudges - nudges + \
        LIMIT_prefills - prefills + LIMIT_enlargements - enlargements + \
        LIMIT_repairs - repairs + LIMIT_compactions - compactions)
int was_2
#define is_waiting (is_rung -> 1 : 0)  /* to be sent */
bit was_waiting
#define is_less (left_0 < was_0 || (left_0 == was_0 && ( \
        left_1 < was_1 || (left_1 == was_1 && ( \
        left_2 < was_2 || (left_2 == was_2 && ( \
        is_waiting < was_waiting)))))))

#define is_rung (state == ask || state == retry || state == reask || state == nudge || \
        state == prefill || state == continuation || state == enlarge || state == repair || \
        state == compact || state == fallback)
#define is_over (state == done || state == salvaged || state == partial || state == refused || \
        state == exhausted || state == failed || state == cancelled || \
        state == over_budget)
#define is_within_limits (retries <= LIMIT_retries && reasks <= LIMIT_reasks && nudges <= LIMIT_nudges && \
        prefills <= LIMIT_prefills && enlargements <= LIMIT_enlargements && \
        repairs <= LIMIT_repairs && compactions <= LIMIT_compactions && \
        continuations <= LIMIT_continuations && fallbacks <= LIMIT_fallbacks)

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
/* this attempt handed text to the consumer */
inline find_has_delivered() { choose(has_delivered) }
/* the turn holds an answer given beside housekeeping tools only */
inline find_has_prior_answer() { choose(has_prior_answer) }
/* the policy leaves the backend after so many replies of this kind */
inline find_switch_asked() { choose(switch_asked) }
/* a usable backend follows in the chain */
inline find_has_next_backend() { choose(has_next_backend) }
/* a tool result is among the last messages */
inline find_follows_tool_result() { choose(follows_tool_result) }
/* the reasoning came in inline tags */
inline find_thinks_inline() { choose(thinks_inline) }
/* the policy takes identical empty replies for final, and this is one */
inline find_same_empty_again() { choose(same_empty_again) }
/* text was gathered, in earlier parts or in this one */
inline find_has_text() { choose(has_text) }
/* the text gathered runs in circles */
inline find_repeats_itself() { choose(repeats_itself) }
/* the caller wants a handful of tokens, so that a cut reply is what was asked for */
inline find_asks_for_little() { choose(asks_for_little) }
/* the reply is longer than its cap, so that no budget can rest on the next one's */
inline find_overran() { choose(overran) }
/* no wait was asked for, or one that the policy and the deadline allow */
inline find_wait_fits() { choose(wait_fits) }
/* staying with this backend is pointless */
inline find_should_leave() { find_switch_asked(); find_wait_fits();
    should_leave = (switch_asked == YES || wait_fits == NO -> YES : NO) }
/* this attempt brought text that is kept */
inline find_added_text() { choose(added_text) }
/* the policy takes a refusal for the last word */
inline find_refusal_ends() { choose(refusal_ends) }
/* the server had closed the reused connection before the request came */
inline find_connection_was_stale() { choose(connection_was_stale) }
/* the provider named one thing that was not yet repaired */
inline find_repair_known() { choose(repair_known) }
/* the caller gave a compactor */
inline find_has_compactor() { choose(has_compactor) }
/* the budget still holds what is kept for the backends to come */
inline find_reserve_left() { choose(reserve_left) }

/* The guards: the counter of which a unit must be left, and the facts. */
inline must_leave() { holds = (fallbacks < LIMIT_fallbacks); NEEDS(switch_asked); NEEDS(has_next_backend) }
inline may_nudge() { holds = (nudges < LIMIT_nudges); NEEDS(follows_tool_result); NEEDS_NO(thinks_inline) }
inline may_reask() { holds = (reasks < LIMIT_reasks); NEEDS_NO(same_empty_again) }
inline may_fall_back() { holds = (fallbacks < LIMIT_fallbacks); NEEDS(has_next_backend) }
inline may_prefill() { holds = (prefills < LIMIT_prefills) }
inline may_continue() { holds = (continuations < LIMIT_continuations); NEEDS_NO(repeats_itself);
    NEEDS_NO(asks_for_little); NEEDS_NO(overran) }
inline may_enlarge() { holds = (enlargements < LIMIT_enlargements) }
inline must_switch() { holds = (fallbacks < LIMIT_fallbacks); NEEDS(should_leave); NEEDS(has_next_backend) }
inline may_resume() { holds = (continuations < LIMIT_continuations); NEEDS(added_text); NEEDS(wait_fits);
    NEEDS_NO(repeats_itself); NEEDS_NO(asks_for_little); NEEDS_NO(overran) }
inline may_retry() { holds = (retries < LIMIT_retries); NEEDS(wait_fits); NEEDS_NO(added_text) }
inline may_ask_another() { holds = (fallbacks < LIMIT_fallbacks); NEEDS(has_next_backend); NEEDS_NO(refusal_ends) }
inline may_resend() { holds = (retries < LIMIT_retries); NEEDS(connection_was_stale); NEEDS(wait_fits);
    NEEDS_NO(added_text) }
inline may_repair() { holds = (repairs < LIMIT_repairs); NEEDS(repair_known); NEEDS(wait_fits) }
inline may_compact() { holds = (compactions < LIMIT_compactions); NEEDS(has_compactor) }
inline must_yield() { holds = (fallbacks < LIMIT_fallbacks); NEEDS(reserve_left); NEEDS(has_next_backend) }

/* The effects: what is spent, and what is given back. */
inline nothing() { skip }
inline count_attempt() { COUNT }
inline keep_delivered() { skip }
inline keep_prior_answer() { skip }
inline spend_fallback() { fallbacks++; retries = 0; reasks = 0; nudges = 0; prefills = 0; enlargements = 0; repairs = 0 }
inline spend_nudge() { nudges++ }
inline spend_reask() { reasks++ }
inline spend_prefill() { prefills++ }
inline spend_continuation() { continuations++; find_added_text();
    if :: added_text == YES -> retries = 0; reasks = 0; prefills = 0 :: else fi }
inline spend_enlargement() { enlargements++ }
inline spend_retry() { retries++ }
inline spend_repair() { repairs++ }
inline spend_compaction() { compactions++ }

#define IN(where) (where) -> d_step { assert(!is_over); was_0 = left_0; was_1 = left_1; was_2 = left_2; was_waiting = is_waiting };

active proctype call() {
end:  /* where no event can come, which must be in an outcome */
  do
  :: atomic {
     if
     /* sent */
     :: IN(is_rung)
        LAST(count_attempt(), await)
     /* answered: the answer came */
     :: IN(state == await)
        LAST(nothing(), done)
     /* called_tools: the model called tools */
     :: IN(state == await)
        LAST(nothing(), done)
     /* came_empty: the reply was empty */
     :: IN(state == await)
        ROW(FACT(has_delivered), keep_delivered(), salvaged)
        ROW(FACT(has_prior_answer), keep_prior_answer(), salvaged)
        ROW(must_leave(), spend_fallback(), fallback)
        ROW(may_nudge(), spend_nudge(), nudge)
        ROW(may_reask(), spend_reask(), reask)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), exhausted)
     /* only_reasoned: the reply held reasoning but no answer */
     :: IN(state == await)
        ROW(FACT(has_delivered), keep_delivered(), salvaged)
        ROW(FACT(has_prior_answer), keep_prior_answer(), salvaged)
        ROW(must_leave(), spend_fallback(), fallback)
        ROW(may_nudge(), spend_nudge(), nudge)
        ROW(may_prefill(), spend_prefill(), prefill)
        ROW(may_reask(), spend_reask(), reask)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), exhausted)
     /* truncated: the reply was cut at the output cap */
     :: IN(state == await)
        ROW(may_continue(), spend_continuation(), continuation)
        LAST(nothing(), partial)
     /* paused: the provider paused the turn */
     :: IN(state == await)
        ROW(may_continue(), spend_continuation(), continuation)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), exhausted)
     /* tools_truncated: the tool calls were cut or could not be parsed */
     :: IN(state == await)
        ROW(may_enlarge(), spend_enlargement(), enlarge)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), exhausted)
     /* json_truncated: the JSON was cut at the output cap */
     :: IN(state == await)
        ROW(may_enlarge(), spend_enlargement(), enlarge)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), exhausted)
     /* reasoning_truncated: the output cap was used up by reasoning */
     :: IN(state == await)
        ROW(may_enlarge(), spend_enlargement(), enlarge)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), exhausted)
     /* interrupted: the stream ended before its terminal event */
     :: IN(state == await)
        ROW(must_switch(), spend_fallback(), fallback)
        ROW(may_resume(), spend_continuation(), continuation)
        ROW(may_retry(), spend_retry(), retry)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), failed)
     /* fell_silent: nothing came for longer than the clocks allow */
     :: IN(state == await)
        ROW(must_switch(), spend_fallback(), fallback)
        ROW(may_resume(), spend_continuation(), continuation)
        ROW(may_retry(), spend_retry(), retry)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), failed)
     /* malformed: the reply had no usable shape or an unknown finish reason */
     :: IN(state == await)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(may_retry(), spend_retry(), retry)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), failed)
     /* refused: the provider or the model refused */
     :: IN(state == await)
        ROW(may_ask_another(), spend_fallback(), fallback)
        LAST(nothing(), refused)
     /* failed_transiently: the provider failed */
     :: IN(state == await)
        ROW(may_resend(), spend_retry(), retry)
        ROW(must_switch(), spend_fallback(), fallback)
        ROW(may_retry(), spend_retry(), retry)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), failed)
     /* failed_permanently: the provider rejected the request for good */
     :: IN(state == await)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), failed)
     /* rejected_fixably: the provider rejected the request */
     :: IN(state == await)
        ROW(may_repair(), spend_repair(), repair)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), failed)
     /* overflowed: the conversation does not fit the model's context */
     :: IN(state == await)
        ROW(may_compact(), spend_compaction(), compact)
        ROW(may_fall_back(), spend_fallback(), fallback)
        ROW(FACT(has_text), nothing(), partial)
        LAST(nothing(), failed)
     /* cancelled: the caller ended the call */
     :: IN(!is_over)
        LAST(nothing(), cancelled)
     /* ran_out: the next request cannot be afforded */
     :: IN(is_rung && state != fallback)
        ROW(must_yield(), spend_fallback(), fallback)
        LAST(nothing(), over_budget)
     /* ran_out: the next request cannot be afforded */
     :: IN(state == fallback)
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
          retries = 0; reasks = 0; nudges = 0; prefills = 0; enlargements = 0; repairs = 0;
          compactions = 0; continuations = 0; fallbacks = 0; FORGET_ATTEMPTS
       :: else
       fi;
       has_delivered = UNKNOWN; has_prior_answer = UNKNOWN; switch_asked = UNKNOWN;
       has_next_backend = UNKNOWN; follows_tool_result = UNKNOWN; thinks_inline = UNKNOWN;
       same_empty_again = UNKNOWN; has_text = UNKNOWN; repeats_itself = UNKNOWN;
       asks_for_little = UNKNOWN; overran = UNKNOWN; wait_fits = UNKNOWN;
       should_leave = UNKNOWN; added_text = UNKNOWN; refusal_ends = UNKNOWN;
       connection_was_stale = UNKNOWN; repair_known = UNKNOWN; has_compactor = UNKNOWN;
       reserve_left = UNKNOWN; holds = false; was_0 = 0; was_1 = 0; was_2 = 0;
       was_waiting = 0
     }
     }
  od
}
