"""Rungwise's outside: wire formats, the client that runs calls over HTTP, and the command line.

What follows is how `rungwise.Client` behaves, beyond what each argument says.

### Messages, tools and options

* **Messages** are written once for all backends: in the form of chat completions, as `rungwise.Message`, or in the
  form of the provider at hand (Anthropic's blocks, Gemini's contents, the items of Responses, Ollama's images). What
  is written in the form of the backend that is asked goes out word for word, with whatever only that provider knows
  (`cache_control`, ...); anything else is translated, and what has no form on the other side is named in the journal.
  Tools likewise; one that a server runs by itself, and that nobody knows of any other, goes to the first backend's
  server alone. Messages, tools, parameters and headers are copied when the call is made.
* **To go on**, append `result.message`: what only its provider can read (signatures, encrypted reasoning) goes back
  there word for word, and any other provider gets the rest. `result.plain_message` is that rest as a mapping in the
  form of chat completions. A provider that wants the reasoning of earlier turns back (DeepSeek, Kimi, MiMo) gets it,
  once: your own, or a stand-in; `result.plain_message_with_reasoning` spares that request. Log probabilities and
  annotations stand in `result.reply.raw`, of a stream where a whole body has them.
* **Before a switch** the conversation is made valid for the other side: ids of tool calls are put into the form that
  it takes, each call is followed by its result (where there is none, also without a switch, by one that says that it
  was not kept), turns alternate where they must, and a history that ends on an assistant turn gets a user turn behind
  it. No text, no call, no result is left out; signatures go to no other provider, and are there again back at their
  own.
* **Options** that all protocols have are named (`temperature`, `stop`, `response_format`, ..., see
  `rungwise.core.CallOptions`), as chat completions has them, and each protocol says them in its own words. What one of
  them cannot say is left out there, or said at the nearest level, and the journal tells. JSON that a model cannot be
  held to, or whose parameter its server rejects, is asked for in words (`rungwise.Hints`), in the system prompt.
  `parameters` go to the backends of the first one's protocol, as they are.
* **Headers** of a call go to the backends with the scheme, host and port of the first one, and to no other; give the
  others `headers` of their own.
* **Usage** means the same everywhere: `input_tokens` is the whole prompt, what was read from or written to a cache
  included, and `output_tokens` all that was written, reasoning included.

### The chain

* Every call starts at the first backend. Duplicates of the current one, backends that the budget cannot pay for, and
  those without a key are skipped, and the journal says so. Two keys for one model are two backends. One request is in
  flight at any time: nothing is hedged, and nothing is paid for twice.
* Without `api_key`, a provider's own host, over https, takes the key of its own client from the environment.
* **Capabilities** are a table by provider and model: what it does not know is taken for a no where a wrong yes would
  cost a request. `capabilities=` on a backend knows better. What a server teaches (no prefill, a parameter that it
  rejects) is remembered for the process, and the journal says where it was used; `rungwise.core.LEARNED.forget()` and a
  backend's `learns=False` take that back. `rungwise.Client.discover` asks servers of your own what they are.
* A server that may not stream a model is found out, and is asked for a whole body. Every call has its reply streamed,
  also `rungwise.Client.call`, so that its silence shows; a whole body only `connect` and `total` of
  `rungwise.Timeouts` limit. The body of an error is read for `stall` seconds at most.

### Time, cancelling, deadlines

* The limits of `rungwise.Timeouts` and the budget's seconds hold in every phase: names, connecting, TLS, sending,
  headers, body.
* **To cancel**, cancel the task, leave the `with client.stream(...)` block, press Ctrl-C, or call `cancel()` on the
  `rungwise.Cancellation` that the call was given, from another thread: the call ends within 0.1 s, and what was
  delivered is in the `result` attribute of what is raised; under `asyncio.wait_for`, of its `__cause__`. What may be
  left behind is a daemon thread in a name lookup, at most one for each name. In the middle of tools, cancelling
  cancels the async ones and waits for the others until their own time is up; a second Ctrl-C does not wait.
* **A deadline** stands beside the budgets, the tightest counts, and one that has passed ends the call `over_budget`
  with nothing sent. What the tools and compactors of a turn call, with whichever client, ends by the turn's deadline
  without being told. With `deadline_header="x-deadline"` each request tells its backend when the call must have ended,
  and a header of that name among those that you pass on is read as the deadline.

### Sharing, memory, secrets

* One client serves any number of threads and tasks, and one event loop after another. It opens up to `max_connections`
  for threads and for each event loop; further calls wait in turn within their own time (for ever without a budget of
  seconds), and a stream holds its place until it ends. `close()` ends the calls in threads, `aclose()` those of the
  event loop; they end `cancelled` with what was delivered. A forked child opens connections of its own.
* A reused connection that the server had closed is replaced at once by a fresh one; that counts as an attempt and as a
  retry, and costs nothing.
* `largest_reply` bounds what is read of one reply; more is malformed, or cuts a stream, whose text so far is kept.
  Servers are asked for gzip and deflate alone; any other encoding is malformed.
* A key is a secret from the moment it is read: `str` and `repr` show `***`, and it cannot be pickled. Headers are
  hidden likewise. A traceback shows your own variables as usual, and the prompts in them; an error of the HTTP layer,
  whose variables hold header bytes, has no frames of that layer. The logger `rungwise` writes each step at INFO; no
  provider's word in it is longer than 80 characters or breaks the line.

### Your own HTTP client

`http=httpx.Client(...)` and `async_http=httpx.AsyncClient(...)`, also those of `httpx2`, are neither closed nor
changed, and are asked for no redirects, which could carry a key to another host. Nobody but itself can stop such a
client: a synchronous attempt runs in a worker thread that is left when the time is up or the call cancelled; its
socket is shut down where httpcore tells of it, and nothing is sent after that. The thread may stay until the client's
own timeouts end it, a second behind ours; on a reused connection whose server drips headers, until the server stops.
On an `httpx.AsyncClient`, a lookup that asyncio has begun may keep `asyncio.run` waiting. Which of its connections
serve which request, also after a fork, is its own affair: where several idle ones die one after another, only the
first loss is free and sent again at once, the next ones have their waits. Where the environment names a proxy for a
host, httpx is asked in the same way; what is on this machine is reached without one.
"""
