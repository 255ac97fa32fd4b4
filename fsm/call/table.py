"""The machine of a model call: its events, its facts, its rungs, and a ladder for each event.

A ladder lists rungs and endings. The call tries them from the top and takes the first whose
conditions hold. Each rung is declared once, with its counter and limit, what its guard needs, what
it refills, how it waits and what it changes in the request.

`KEEP_TEXT` stands before every last resort that leads to `exhausted` or `failed`, so a call never
turns text that it gathered into an error.

Warning: the order of a ladder is the behaviour, its cost, the diagrams and the certificate.
"""

from __future__ import annotations

from rungwise.fsm.call.conversation import changes
from rungwise.fsm.engine.machine.build import build_table
from rungwise.fsm.engine.machine.declare import Ending, Event, Fact, Rung
from rungwise.fsm.engine.machine.table import ship

AWAIT = "await"
OUTCOMES = (
    "done",
    "salvaged",
    "partial",
    "refused",
    "exhausted",
    "failed",
    "cancelled",
    "over_budget",
)

EVENTS = (
    Event("answered", "the answer came"),
    Event("called_tools", "the model called tools"),
    Event("answered_wrongly", "the answer was wrong", ", and no correction is left"),
    Event("called_wrongly", "a tool call was wrong", ", and no correction is left"),
    Event("answered_uncertainly", "an answer is less certain than the policy asks for"),
    Event("verdict_raised", "a verdict raised an error"),
    Event("came_empty", "the reply was empty"),
    Event("only_reasoned", "the reply held reasoning but no answer"),
    Event("truncated", "the reply was cut at the output cap", ", and no continuation is left"),
    Event("paused", "the provider paused the turn", ", and no continuation is left"),
    Event("tools_truncated", "the tool calls were cut"),
    Event("json_truncated", "the JSON was cut at the output cap"),
    Event("reasoning_truncated", "the output cap was used up by reasoning"),
    Event(
        "ended_unclearly",
        "the reply ended with an unknown finish reason",
        ", and no recheck is left",
    ),
    Event("interrupted", "the stream ended before its terminal event"),
    Event("fell_silent", "nothing came for longer than the clocks allow"),
    Event("malformed", "the reply had no usable shape"),
    Event("refused", "the provider or the model refused"),
    Event("failed_transiently", "the provider failed"),
    Event("failed_permanently", "the provider rejected the request for good"),
    Event("rejected_fixably", "the provider rejected the request", ", and no repair is left"),
    Event("overflowed", "the conversation does not fit the model's context"),
    Event("cancelled", "the caller ended the call"),
    Event("ran_out", "the next request cannot be afforded"),
    Event("found_open", "the backend is not asked now"),
)
"""What can come back, and what the caller and the budget can do. Each has its sentence."""

KEEPS_TEXT = frozenset(
    {"answered", "called_tools", "truncated", "paused", "interrupted", "fell_silent", "overflowed"}
)
"""The events whose reply is a part of the answer. A call discards the text of any other."""

HAS_TEXT = frozenset({"truncated", "ended_unclearly", "answered_uncertainly"})
"""The events of a reply that has text by itself. A call that ends on one of them needs no other."""

MAY_ASK = frozenset({"interrupted", "malformed", "failed_transiently", "rejected_fixably"})
"""The failures that may pass. Before it asks again, a call waits as long as the service says."""

UNSENT = ("ran_out", "found_open")
"""The events that come in a rung, before it sends. `found_open` never comes in `fallback`, which
passes over such backends.
"""

IGNORES_WAIT = frozenset({"fallback", "compact", "resend", "rotate"})
"""The rungs that ignore a `Retry-After`. They ask another backend or use another key, send a
shorter conversation, or send again what the server never read.
"""


def keeps_asked_wait(event: str, rung: str) -> bool:
    """Tell whether a call that takes a rung after an event waits as long as the service says."""
    return event in MAY_ASK and rung not in IGNORES_WAIT


FACTS = (
    Fact("has_delivered", says="this attempt handed text to the consumer"),
    Fact("has_prior_answer", says="the turn holds an answer given beside housekeeping tools only"),
    Fact("has_text", says="text was gathered, in earlier parts or in this one"),
    Fact("added_text", says="this attempt brought text that is kept"),
    Fact("follows_tool_result", says="a tool result is among the last messages"),
    Fact("thinks_inline", says="the reasoning came in inline tags"),
    Fact("repeats_itself", says="the text gathered runs in circles"),
    Fact(
        "same_empty_again",
        says="the policy takes identical empty replies for final, and this is one",
    ),
    Fact("keeps_running", says="the provider goes on with this reply, and keeps it"),
    Fact("wait_fits", says="no wait was asked for, or one that the policy and the deadline allow"),
    Fact("switch_asked", says="the policy leaves the backend after so many replies of this kind"),
    Fact("refusal_ends", says="the policy takes a refusal for the last word"),
    Fact("reserve_left", says="the budget still holds what is kept for the backends to come"),
    Fact("repair_known", says="the provider named one thing that was not yet repaired"),
    Fact("has_compactor", says="the caller gave a compactor"),
    Fact("has_next_backend", says="a usable backend follows in the chain", lasts="fallbacks"),
    Fact(
        "connection_was_stale",
        says="the server had closed the reused connection before the request came",
    ),
    Fact(
        "other_key_free", says="the key is at fault, and another one of the backend was not tried"
    ),
    Fact(
        "asks_for_little",
        says="the caller wants a handful of tokens, so that a cut reply is what was asked for",
    ),
    Fact("same_wrong_again", says="the reply is wrong in the same words as the one before"),
    Fact(
        "throttled", says="all calls of the client together have made as many retries as they may"
    ),
    Fact(
        "overran",
        says="the reply is longer than its cap, so that no budget can rest on the next one's",
    ),
    Fact(
        "is_uncertain",
        says="an answer of a decision is below the policy's confidence; an unknown one is as long "
        "as a backend follows that measures",
    ),
    Fact(
        "should_leave",
        says="staying with this backend is pointless",
        any_holds="switch_asked",
        any_lacks="wait_fits",
    ),
)

REATTACH = Rung(
    "reattach",
    limit=3,
    holds=("keeps_running", "wait_fits"),
    wait="retry",
    sends_prompt=False,
    says="what follows of a reply that the provider goes on with may be fetched",
    does="fetching the rest of the same reply",
)
RETRY = Rung(
    "retry",
    limit=3,
    holds="wait_fits",
    lacks=("added_text", "throttled"),
    wait="retry",
    says="the same request may be sent again; never after text that is kept, or while all calls "
    "retry too much",
    does="sending the same again",
)
RESEND = Rung(
    "resend",
    limit=1,
    holds="connection_was_stale",
    says="a request that nobody had read may be sent again at once, on a fresh connection",
    does="sending at once what nobody had read",
)
ROTATE = Rung(
    "rotate",
    limit=None,
    holds="other_key_free",
    change=changes.ask_for_key,
    unit="rotation",
    says="the same backend may be asked with another key",
    does="using another key",
)
REASK = Rung(
    "reask",
    limit=3,
    lacks=("same_empty_again", "throttled"),
    wait="reask",
    change=changes.forget_seed,
    says="an empty reply may be asked for again",
    does="asking the same again",
)
RECHECK = Rung(
    "recheck",
    limit=1,
    lacks="throttled",
    wait="reask",
    says="a reply that may be whole may be asked for again, in case that one ends clearly",
    does="asking once more for a clear end",
)
NUDGE = Rung(
    "nudge",
    limit=1,
    holds="follows_tool_result",
    lacks="thinks_inline",
    change=changes.add_nudge,
    says="an empty reply to a tool result may be nudged; inline reasoning goes to the prefill",
    does="hinting at the tool results",
)
PREFILL = Rung(
    "prefill",
    limit=2,
    change=changes.seed,
    says="reasoning without an answer may be seeded",
    does="handing its reasoning back to be finished",
)
CONTINUE = Rung(
    "continuation",
    limit=3,
    lacks=("repeats_itself", "asks_for_little", "overran"),
    refills=("reattaches", "retries", "reasks", "prefills"),
    refills_on="added_text",
    change=changes.go_on,
    verb="continue",
    says="cut text may be gone on from",
    does="asking for the rest",
)
ENLARGE = Rung(
    "enlarge",
    limit=3,
    change=changes.lower_reasoning,
    unit="enlargement",
    says="the output cap may be raised",
    does="asking again with a larger cap",
)
CORRECT = Rung(
    "correct",
    limit=2,
    lacks="same_wrong_again",
    change=changes.correct,
    unit="correction",
    says="a wrong reply may be sent back with the reasons",
    does="sending it back with what is wrong",
)
REPAIR = Rung(
    "repair",
    limit=3,
    holds=("repair_known", "wait_fits"),
    change=changes.repair,
    says="the one thing that the provider named may be fixed",
    does="sending it again without that",
)
COMPACT = Rung(
    "compact",
    limit=3,
    holds="has_compactor",
    unit="compaction",
    says="the caller's compactor may run",
    does="shortening the conversation",
)
FALL_BACK = Rung(
    "fallback",
    limit=None,
    holds="has_next_backend",
    refills=(
        "reattaches",
        "retries",
        "resends",
        "rotations",
        "reasks",
        "rechecks",
        "nudges",
        "prefills",
        "enlargements",
        "corrections",
        "repairs",
    ),
    change=changes.fall_back,
    verb="fall_back",
    says="the next backend of the chain may be asked",
    does="turning to the next backend",
)
RUNGS = (
    REATTACH,
    RETRY,
    RESEND,
    ROTATE,
    REASK,
    RECHECK,
    NUDGE,
    PREFILL,
    CONTINUE,
    ENLARGE,
    CORRECT,
    REPAIR,
    COMPACT,
    FALL_BACK,
)
"""Every rung, in the order in which pictures and pages show them."""

RESUME = CONTINUE.when(
    "may_resume",
    holds=("added_text", "wait_fits"),
    says="a cut stream may be gone on from: it brought text that is kept, and no wait is "
    "in the way",
)
SWITCH = FALL_BACK.when(
    "must_switch",
    holds="should_leave",
    says="staying with this backend is vain and another can be asked",
)
LEAVE = FALL_BACK.when(
    "must_leave",
    holds="switch_asked",
    says="the policy leaves the backend after so many empty replies",
)
ASK_ANOTHER = FALL_BACK.when(
    "may_ask_another",
    lacks="refusal_ends",
    says="another model may be asked what this one has refused",
)
GIVE_UP = FALL_BACK.when(
    "is_stuck",
    holds="same_wrong_again",
    says="the model repeats a wrong reply, and another one may be asked",
)
ASK_SURER = FALL_BACK.when(
    "may_be_surer",
    holds="is_uncertain",
    says="another backend may be asked the questions whose answers are uncertain",
)
YIELD = FALL_BACK.when(
    "must_yield", holds="reserve_left", says="what is left is kept for the next backend"
)

DONE = Ending("done")
PARTIAL = Ending("partial")
EXHAUSTED = Ending("exhausted")
REFUSED = Ending("refused")
FAILED = Ending("failed")
OVER_BUDGET = Ending("over_budget")
KEEP_TEXT = Ending("partial", holds="has_text")
KEEP_DOUBTED = Ending("partial", holds="is_uncertain")
KEEP_DELIVERED = Ending("salvaged", holds="has_delivered", effect="keep_delivered")
KEEP_PRIOR = Ending("salvaged", holds="has_prior_answer", effect="keep_prior_answer")

CALL = build_table(
    name="call",
    start="ask",
    hub=AWAIT,
    outcomes=OUTCOMES,
    answers=("done",),
    lesser=("salvaged", "partial"),
    rungs=RUNGS,
    facts=FACTS,
    events=EVENTS,
    ladders={
        "answered": (DONE,),
        "called_tools": (DONE,),
        "answered_wrongly": (GIVE_UP, CORRECT, FALL_BACK, KEEP_TEXT, EXHAUSTED),
        "called_wrongly": (GIVE_UP, CORRECT, FALL_BACK, KEEP_TEXT, EXHAUSTED),
        "answered_uncertainly": (ASK_SURER, KEEP_DOUBTED, DONE),
        "verdict_raised": (FAILED,),
        "came_empty": (
            KEEP_DELIVERED,
            KEEP_PRIOR,
            LEAVE,
            NUDGE,
            REASK,
            FALL_BACK,
            KEEP_TEXT,
            EXHAUSTED,
        ),
        "only_reasoned": (
            KEEP_DELIVERED,
            KEEP_PRIOR,
            LEAVE,
            NUDGE,
            PREFILL,
            REASK,
            FALL_BACK,
            KEEP_TEXT,
            EXHAUSTED,
        ),
        "truncated": (CONTINUE, PARTIAL),
        "paused": (CONTINUE, FALL_BACK, KEEP_TEXT, EXHAUSTED),
        "tools_truncated": (ENLARGE, FALL_BACK, KEEP_TEXT, EXHAUSTED),
        "json_truncated": (ENLARGE, FALL_BACK, KEEP_TEXT, EXHAUSTED),
        "reasoning_truncated": (ENLARGE, FALL_BACK, KEEP_TEXT, EXHAUSTED),
        "ended_unclearly": (RECHECK, FALL_BACK, PARTIAL),
        "interrupted": (REATTACH, SWITCH, RESUME, RETRY, FALL_BACK, KEEP_TEXT, FAILED),
        "fell_silent": (REATTACH, SWITCH, RESUME, RETRY, FALL_BACK, KEEP_TEXT, FAILED),
        "malformed": (FALL_BACK, RETRY, KEEP_TEXT, FAILED),
        "refused": (ASK_ANOTHER, REFUSED),
        "failed_transiently": (RESEND, ROTATE, SWITCH, RETRY, FALL_BACK, KEEP_TEXT, FAILED),
        "failed_permanently": (ROTATE, FALL_BACK, KEEP_TEXT, FAILED),
        "rejected_fixably": (REPAIR, FALL_BACK, KEEP_TEXT, FAILED),
        "overflowed": (COMPACT, FALL_BACK, KEEP_TEXT, FAILED),
    },
    everywhere={"cancelled": "cancelled"},
    unsent={"ran_out": (YIELD, OVER_BUDGET), "found_open": (FALL_BACK, KEEP_TEXT, FAILED)},
    never_in={"found_open": FALL_BACK.name},  # which passes over such backends
)
"""The machine that every call runs on, unless its policy brings one of its own."""
ship(CALL)
