"""Rungwise's core: each model call as an explicit, provably bounded state machine. It does no I/O.

This page says how calls and turns behave, whoever does the I/O, beyond what each argument says.

### What counts against a budget

Neither a fallback nor progress refills a `rungwise.Budget`. With a budget of tokens or money, every
request carries an output cap that the rest of the budget can pay for, at the dearest price that the
request can have. Where a provider reports no usage, Rungwise estimates it if a budget or the
backend's prices need it, and marks it in `result.usage`: the prompt by its bytes (or pass
`input_tokens`; Rungwise adds what it sends itself, such as hints, a JSON schema in words, or a
stand-in for a missing tool result), a cut stream by the text that arrived, and a reply that was cut
at its cap by that cap. An attempt that broke off with nothing, or brought no usable reply, also
counts as its cap, but as no more than `rungwise.Policy.base_cap` if you set none: one silence must
not use up the budget. An error status, a refused connection and a stale one are free. A stream that
passes its output cap is cut there. After a reply that passed its cap, nothing more is sent, and
`result.overran` says so.

Calls within a `rungwise.SharedBudget` share its ceilings, each beside its own budget; attempts and
seconds default to 24 and 900. An attempt reserves what it may use before it is sent, and settles
afterwards. If other calls hold what a call needs, it waits its turn, within its own time and
without a connection. It gets a smaller cap only if nothing more can come back, and ends
`over_budget` if not one token is left. A call without a cap asks for `rungwise.Policy.base_cap`. A
call that is cancelled before anything arrived counts as its cap; a stream that nobody reads holds
its share. `shortfall()` says why no further attempt is possible; `attempts`, `usage` and `cost`
report what has settled. With `per` each day, week or month has the ceilings anew: a call belongs to
the period in which it begins, whenever it ends.

### Silence and time

* **Only content resets the clocks.** `first_token` of `rungwise.Timeouts` runs from the start of an
  attempt to the first text, reasoning or tool argument, `stall` between two pieces of those.
  Comments, pings, empty deltas and metadata do not count. `first_token=` and `stall=` on a backend
  set its own clocks.
* **No model's name changes a promised time.** Whatever the model, a server that sends no head of a
  response is left after `first_token`. Once the head has come, models known to think in silence
  (OpenAI's o series and GPT-5, Grok 4, Gemini from 2.5 on) have 300 s for the first content, but
  only under the default `first_token`: a value that the policy or its preset sets holds for every
  model.
* **Silence is an event** with its own ladder. After the first one, the call moves to the next
  backend, which continues the text so far; with `switch_after={"silence": 2}` it asks the same
  backend once more first. On the last backend, silence ends an attempt only if there is a retry
  left and time for another first token; otherwise the call waits as long as it may.
* **A call with a next backend does not linger.** It moves on after one refused connection, timeout
  or silence, and after two replies without an answer, two overloads, two rate limits that name no
  wait, or two streams that broke off without new text; `switch_after` sets other numbers. Without a
  next backend, it uses the retries and reasks that it has. A request that was lost on a stale
  connection is sent again at once, and is no failure of the backend.
* **The fallback stays reachable.** Rungwise reserves one attempt for each usable backend to come,
  in seconds, attempts, tokens and money, from the call's own budget and the shared ones; see
  `rungwise.Reserve`. No attempt runs and no wait begins that would use it up: the table calls that
  `ran_out [must_yield] -> fallback`. So a call ends `done` whatever the other backends do (hang,
  drip, stall, fail), if one backend answers within its reserve and the budget holds the reserves.
  (Except if the answer itself is cut at its cap again and again, which is `partial`, or passes the
  cap of a budget.) `.ci/run full` plays that with 500 chains over HTTP.
* **The defaults** suit work that nobody watches: 60 s for a first token, because models that reason
  may be silent for half a minute; 25 s for a stall, because no healthy stream pauses that long; 600
  s for an attempt, as in the official SDKs; 900 s for the call, so that such an attempt fits and
  leaves 225 s for a fallback. With one to three backends, a call under the default policy takes at
  most 901 s, one of them to close the last connection. Without a budget of seconds, its 24 attempts
  could take 4.6 hours; `rungwise verify` shows what bounds your own policy.
* **For people who wait at a screen** there is `rungwise.Policy.interactive`: 10 s for a first
  token, whatever the model; a minute for an attempt, 90 s for the call, and a refusal ends it. In
  TOML, write `preset = "interactive"`; the keys beside it win.

### Reading a reply

* **Inline reasoning** is not part of the text: `<think>`, `<thinking>`, `<reasoning>`, `<thought>`
  and `<mm:think>` blocks where a model opens them (at the start of the reply, or of a line after a
  closed block), and everything before a lone closing tag. In code, in quotes or in mid-sentence, a
  tag is text.
* **Channels of gpt-oss** that a server leaves in the text (`<|channel|>analysis<|message|>...`) are
  read where the reply begins with one: `final` is the answer, and the rest is reasoning. A tool
  call among it is no tool call and no answer. Anywhere else such markers are text.
* **Parts are stitched.** Rungwise removes a repeat only if it surely is one (an echo of six
  characters or more); it does not resume from fewer than six characters, but asks again. A stream
  that ends without its terminal event counts as cut.
* **A finish reason that nobody knows is doubt.** The same request goes out once more, then to the
  next backend. A reply with a known end takes the place of the text; if none comes, the call ends
  `partial` with it. It is never continued, and tool calls beside it are never handed out.
* **A tool call that the server itself could not read** is asked for again, within the retries. Text
  cut by a cap of a handful of tokens (`rungwise.Policy.handful`) is `partial` at once. If a stream
  breaks with an error that asks for a wait, the call waits before it resumes. A call leaves a
  backend that takes no output cap under any name.
* `rungwise.core.TurnContext` passes in an answer that the turn gave beside housekeeping tools: it
  stands in for an empty reply.

### Checked answers

* **`returns`** takes a model of pydantic's, any other type that pydantic reads, or a JSON schema as
  a mapping. The schema goes out natively where the model is known to take it; else as a forced
  tool, where those work and you offer no tools; else in words. One chain may mix all three. What
  has no object at its root travels as `{"value": ...}`, and a keyword that a provider rejects moves
  into a description. Types are checked as pydantic's lax mode does (`"12"` passes for an int),
  schemas strictly. `text` is the JSON as it was written.
* **`verdict`** is one function or several, async ones too. Each judges a whole reply once, and the
  journal records what it found, so a replay does not call it. If it raises, the call ends `failed`,
  with a `rungwise.VerdictError`.
* **A wrong answer goes back** with the reasons, two times, from the same budget. The same wrong
  answer again leads to the next backend. At the end the last one's text is `partial`: `value` is
  None, and `cause` says what was wrong. A cut answer is not wrong; it gets a larger cap.
* **Tool calls** of a call are checked too: the name against the tools offered, the arguments
  against the schema sent. In a turn, a call that does not fit becomes a result that says so, as
  below.
* **A stream** yields a `rungwise.PartialValue` as a value grows, at most one each 50 ms, with what
  is whole of it. A forced tool sends no text, so there the only one comes at the end.
* **Journals** hold where an answer was wrong (`wingspan_cm`), and the reasons only with
  `contents=True`, since they may quote it.

### A ladder of your own

`rungwise.CALL.without("prefill")`, `.reordered("came_empty", [...])`, or `.with_rung(rung,
answered=None)`: None puts the rung before the last resort of that event's ladder,
`came_empty="may_reask"` before that guard. If an answer leads to a rung, its text is discarded, and
taken back from a stream. A fact is found once per reply (for a continuation, on the whole answer)
and recorded in the journal; one that raises, or is no bool, is a `rungwise.ConfigurationError` that
names it. In TOML, its limit looks like the others, `[limits] urges = 2`; load it with
`rungwise.Policy.load("policy.toml", table=...)`. A policy refuses a table that cannot be proved to
end, is not honest, costs more than a certificate can tell, or lacks what its target needs; the
error names the row, or shows the shortest path to the fault. The running machine checks each step
once more.

### Turns

* **A turn continues by itself** after tools, after a cut answer that the call could not complete,
  and after a context overflow that your compactor has fixed; never after an answer, a terminating
  tool, too many tool calls, or a failure. `auto_continues` of `rungwise.TurnPolicy` limits all of
  these together, and each is a step that says why and which it is, as in `tools_ran [may_report] ->
  go_on (auto-continue 3/25)`. At the limit, one last call without tools asks for a summary.
* **It ends** `finished`, `handed_off` (the model called a `terminating` tool), `awaiting_approval`
  or `limit_reached`, which return, or `failed`, `over_budget` or `cancelled`, which raise a
  `rungwise.TurnError` with the `rungwise.TurnResult`.
* **Approval**: a call of a tool with `needs_approval` ends the turn with that call in `awaiting`;
  the others of its reply run. `client.turn(result.messages, tools=..., approvals={id: True})` goes
  on exactly there, once, on a new budget; a reason in place of True goes to the model as the call's
  result.
* **A forced `tool_choice`** holds for the first call only, unless `keep_tool_choice` of
  `rungwise.TurnPolicy` is set.
* **The calls of one reply** run side by side. A tool that raises, is too late, does not exist or
  gets arguments that do not fit becomes a result that tells the model what was wrong
  (`rungwise.ToolError` in your own words); cut calls never run. Three rounds in a row with nothing
  but faults end the turn, and so does the same call with the same result for the fifth time. The
  results of one reply share a quarter of the `window`; longer ones are cut, visibly.
* **A compactor** gets the messages and the number of tokens to remove. Less than 5 % is no help,
  and three times is the limit. Without a number, `rungwise.OldestFirst` removes a quarter of the
  tokens.
* **What a turn leaves behind** contains nothing that only steered it, and is valid at any moment:
  `stream.messages` while it runs, `error.result.messages` after an interruption. They are plain
  mappings that lose nothing: store them as JSON, and go on with any provider. (`plain_messages` has
  the form of the last protocol.) Its journal holds the journals of its calls; a replay names the
  first difference (`call 3, step 7`).
* **The budget** of a turn contains those of its calls. `rungwise.verify` proves its worst case from
  the certificate of its calls, `certificate.call`.

### What a certificate tells

Every call ends: this is proved row by row, for all limits at once. The worst case in attempts,
seconds (waiting, and from start to end), output tokens and money comes with a path that was played
to a real call: `exact` if that call reaches the figure, "no more than" if it stays below. The
certificate also says what is reserved for the last backend of a chain, and whether every failure
leads to the next backend; a table of your own need not, and is not refused for it. Its figures hold
with `rungwise.Health` and without: that a backend is passed over counts as possible.
"""
