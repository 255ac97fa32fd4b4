"""Rungwise's core: each model call as an explicit, provably bounded state machine. It does no I/O.

What follows is how calls and turns behave, whoever does the I/O, beyond what each argument says.

### What counts against a budget

No fallback and no progress gives any of a `rungwise.Budget` back. With a token or money budget every request carries a
cap within what is left, worked out from what goes out, at the dearest price that it can have. What a provider does not
report is then (and wherever a backend has prices) estimated, and marked so in `result.usage`: the prompt by its bytes
(pass `input_tokens` if you know them; what a call adds is counted beside them: what the rungs say, a JSON schema in
words, a result that stands in for one), a cut stream by what arrived, a reply that was cut at its cap, and an attempt
that broke off with nothing or brought nothing of a usable shape, by that cap (by no more than
`rungwise.Policy.base_cap` where you gave none, so that one silence does not use a budget up). An error status, a
refused connection and a stale one count as free. More than the output cap cuts the stream there; nothing is sent after
a reply that passed its cap, and `result.overran` says so.

Calls within a `rungwise.SharedBudget` have its ceilings together, each beside its own budget; attempts and seconds are
24 and 900 where you say nothing. An attempt reserves what it may use before it is sent, and settles afterwards. Where
others hold what a call needs, it waits in turn, within its own time, and without a connection; it is given a smaller
cap only where nothing more can come back, and ends `over_budget` where not one token is left. A call without a cap
asks for `rungwise.Policy.base_cap`. A call that is cancelled before anything came is counted by its cap, and a stream
that nobody reads on holds its share. `shortfall()` says why no further attempt can be made; `attempts`, `usage` and
`cost` tell what was settled.

### Silence and time

* **The clocks run on content**: `first_token` of `rungwise.Timeouts` runs from the beginning of an attempt to the
  first text, reasoning or tool argument, `stall` between two pieces of that. Comments, pings, empty deltas and
  metadata do not count. Models known to think in silence (OpenAI's o series and GPT-5, Grok 4, Gemini from 2.5 on)
  have 300 s for the first token; `first_token=` and `stall=` on a backend set its own clocks.
* **Silence is an event** with a ladder of its own. The first one leaves for the next backend, which goes on from the
  text so far; `switch_after={"silence": 2}` asks the same backend once more before. On the last backend silence ends
  an attempt only while it can be asked again and there is time for another first token; after that the call waits as
  long as it may.
* **The fallback stays reachable**: of the seconds, attempts, tokens and money of a call's budget, and of those that it
  shares, one attempt is kept for each usable backend that is still to come; see `rungwise.Reserve`. No attempt goes on
  and no wait begins that would use it; the table says so as `ran_out [must_yield] -> fallback`. Hence, with a healthy
  backend anywhere in the chain that answers within its reserve, and a budget that holds the reserves, a call ends
  `done` whatever the others do: hang, drip, stall, fail. (Not where an answer itself is cut at its cap again and
  again, which is `partial`, or has passed the cap of a budget.) `.ci/run full` plays that with 500 chains over HTTP.
* **The defaults** are for work that nobody watches: 60 s for a first token, because models that reason may be silent
  for half a minute; 25 s for a stall, because no healthy stream pauses so long; 600 s for an attempt, as the official
  SDKs have it; 900 s for the call, so that such an attempt fits, and 225 s for a fallback behind it. With one backend,
  two or three, a call under the default policy takes at most 901 s, of which 1 s is for the last connection to close.
  With no budget of seconds its 24 attempts could take 4.6 hours; `rungwise verify` shows what bounds your own policy.
* **For people who wait at a screen** there is `rungwise.Policy.interactive`: a first token within 10 s (of models that
  think in silence, within the attempt), a minute for an attempt, 90 s for the call, and a refusal ends it. In TOML it
  is `preset = "interactive"`, and what is said besides wins.

### Reading a reply

* **Inline reasoning** is taken out of the text: `<think>`, `<thinking>` and `<reasoning>` blocks where a model opens
  them (at the start of the reply, or of a line behind a closed block), and what stands before a lone closing tag. In
  code, in quotes or in mid-sentence a tag is text.
* **Parts are stitched**: a repeat is cut only where it is surely one (an echo of six characters or more), and fewer
  than six characters are asked for again rather than gone on from. A reply without a finish reason was cut: say
  `sends_finish_reason=False` of a server that sends none.
* **A tool call that the server itself could not read** is asked for again, within the retries. Text that a cap of a
  handful of tokens has cut (`rungwise.Policy.handful`) is `partial` at once. A stream that dies is gone on from after
  the wait that its error asks for. A backend that takes no output cap under any name is left.
* Where a turn's answer was given beside housekeeping tools, `rungwise.core.TurnContext` lets it stand in for an empty
  reply.

### A ladder of your own

`rungwise.CALL.without("prefill")`, `.reordered("came_empty", [...])`, or `.with_rung(rung, answered=None)`: None puts
the rung in front of the last resort of that event's ladder, `came_empty="may_reask"` in front of that guard. What an
answer said that led to a rung is discarded, and taken back from a stream. A fact is found once for each reply, of the
whole answer where the reply is its rest, and recorded in the journal; one that is no bool, or raises, is a
`rungwise.ConfigurationError` that names it. The limit stands in TOML like the others, `[limits] pleads = 2`, read by
`rungwise.Policy.load("policy.toml", table=...)`. A policy refuses a table that cannot be proved to end, would not be
honest, would cost more than a certificate can tell, or forgets what its target needs, with the row at fault or the
shortest path to it; the running machine checks each step once more.

### Turns

* **A turn goes on by itself** after tools, after an answer that was cut where the call could not mend it, and after a
  context overflow, when your compactor has shortened the conversation; never after an answer, a terminating tool, too
  many tool calls, or a failure. One ceiling holds for all of that together, `auto_continues` of `rungwise.TurnPolicy`,
  and each time is a step that says why and which it is, as in `tools_ran [may_report] -> go_on (auto-continue 3/25)`.
  At the ceiling one last call without tools asks for a summary.
* **It ends** `finished`, `handed_off` (a tool declared `terminating` was called), `limit_reached`, which return, or
  `failed`, `over_budget` or `cancelled`, which raise a `rungwise.TurnError` with the `rungwise.TurnResult`.
* **The calls of one reply** run side by side. A tool that raises, is too late, does not exist or gets arguments that
  do not fit becomes a result that tells the model what was wrong (`rungwise.ToolError` in your own words); cut calls
  never run. Three rounds in a row that bring only faults end the turn, and so does the same call with the same result
  for the fifth time. Results of one reply share a quarter of the `window`; longer ones are cut, visibly.
* **A compactor** is given the messages and by how many tokens they should shrink; less than 5 % is no help, and three
  times is enough. `rungwise.OldestFirst` asked for nothing in particular takes a quarter of the tokens away.
* **What a turn leaves behind** holds nothing that only steered it, and is valid at any moment: `stream.messages` while
  it runs, `error.result.messages` when it was interrupted, `result.plain_messages` to be stored as JSON. Its journal
  holds those of its calls; a replay of it names what differs (`call 3, step 7`).
* **The budget** of a turn contains those of its calls; `rungwise.verify` proves what it can cost at worst from the
  certificate of its calls, which is `certificate.call`.

### What a certificate tells

Every call ends, for all limits at once and row by row; and the worst case in attempts, seconds (of waiting, and from
beginning to end), output tokens and money, each with a path that was played to a call: `exact` where that call attains
the figure, "no more than" where it comes to less. `rungwise.verify` says as well what is kept for the last backend of
a chain, and whether every failure leads to a backend that follows: a table of your own need not, and then it is told,
but nothing is refused.
"""
