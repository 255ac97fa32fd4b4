"""Rungwise's outside: wire formats, the client that runs calls over HTTP, and the command line.

This page describes how `rungwise.Client` behaves, beyond what each argument says.

### Messages, tools and options

* **Messages** are written once for all backends: in the form of chat completions, as
  `rungwise.Message`, or in the form of a provider (Anthropic's blocks, Gemini's contents, the items
  of Responses, Ollama's images). A backend gets messages in its own form word for word, with
  whatever only that provider knows (`cache_control`, ...). Anything else is translated, and the
  journal names what could not be. The same holds for tools; one that a server runs by itself, and
  that no other provider knows, goes to the first backend only. Messages, tools, parameters and
  headers are copied when the call is made.
* **To continue a conversation**, append `result.message`. Its provider gets back what only it can
  read (signatures, encrypted reasoning) word for word; any other provider gets the rest.
  `result.plain_message` is that rest as a mapping in the form of chat completions. A provider that
  requires the reasoning of earlier turns (DeepSeek, Kimi, MiMo) gets it, once: your own, or a
  placeholder; `result.plain_message_with_reasoning` saves that request. Log probabilities and
  annotations are in `result.reply.raw`, for streams in the same form as for a whole body.
* **Before a switch** the conversation is made valid for the next backend. Ids of tool calls get the
  form that it takes. Each call is followed by its result; without one, also when there is no
  switch, by a note that the result is missing. Turns alternate where they must, and a history that
  ends with an assistant turn gets a user turn. No text, call or result is left out. Signatures go
  to no other provider, and return with the conversation to their own.
* **Options** that all protocols share have names (`temperature`, `stop`, `response_format`, ...,
  see `rungwise.core.CallOptions`), as in chat completions; each protocol translates them. Options
  that a backend does not support are dropped, or set to the nearest level, and the journal says so.
  If a model cannot be held to JSON, or its server rejects the parameter, the system prompt asks for
  it in words (`rungwise.Hints`). `parameters` go unchanged to the backends that speak the first
  one's protocol.
* **Headers** of a call go to the backends with the scheme, host and port of the first one, and to
  no other. Give the others their own `headers`.
* **Usage** means the same everywhere: `input_tokens` is the whole prompt, cached parts included,
  and `output_tokens` all that was written, reasoning included.

### The chain

* Every call starts at the first backend. It skips duplicates of the current one, backends that the
  budget cannot pay for, backends without a key, and backends that are down (`rungwise.Health`), and
  the journal says so. Two keys for one model are two backends, and so are two protocols and two
  sets of parameters; health, quotas and lessons belong to the host, the model and the key. One
  request is in flight at any time: nothing is hedged, and nothing is paid for twice.
* Without `api_key`, a provider's own host gets, over https only, the key that the provider's own
  client would read from the environment.
* **Capabilities** are a table by provider and model. An unknown capability counts as missing if a
  wrong yes would cost a request. `capabilities=` on a backend overrides the table. What a server
  teaches (no prefill, a parameter that it rejects) is remembered for the process, and the journal
  says where it was used; `rungwise.core.LEARNED.forget()` and a backend's `learns=False` undo that.
  `rungwise.Client.discover` asks your local servers what they are.
* Every call streams its reply, `rungwise.Client.call` included, so that silence shows. A server
  that may not stream a model is detected and asked for a whole body, which only `connect` and
  `total` of `rungwise.Timeouts` limit. The body of an error is read for at most `stall` seconds.

### Time, cancelling, deadlines

* The limits of `rungwise.Timeouts` and the budget's seconds hold in every phase: names, connecting,
  TLS, sending, headers, body.
* **To cancel**, cancel the task, leave the `with client.stream(...)` block, press Ctrl-C, or call
  `cancel()` on the call's `rungwise.Cancellation` from another thread. The call ends within 0.1 s.
  The exception has what was delivered in its `result` attribute; under `asyncio.wait_for`, its
  `__cause__` has it. At most one daemon thread for each host name may stay behind in a lookup.
  During tools, cancelling cancels the async ones and gives the others half a second; one that hangs
  is left behind, and its result says so.
* **A deadline** applies beside the budgets, and the tightest counts. One that has passed ends the
  call `over_budget` and sends nothing. Whatever client the tools and compactors of a turn use,
  their calls inherit the turn's deadline. With `deadline_header="x-deadline"` each request carries
  the deadline of the call, and if you pass on a header of that name, it is the deadline.

### Sharing, memory, secrets

* One client serves any number of threads and tasks, and one event loop after another. It opens up
  to `max_connections` for threads and for each event loop. Further calls wait in turn within their
  own time (without a limit if the budget has no seconds), and a stream holds its place until it
  ends. `close()` ends the calls in threads, `aclose()` those of the event loop; they end
  `cancelled` and keep what was delivered. A forked child opens its own connections.
* If the server has closed a reused connection, the request is sent again at once on a fresh one.
  That counts as an attempt and a retry, and costs nothing.
* `largest_reply` limits how much is read of one reply. A larger whole reply is malformed; a stream
  is cut and keeps its text so far. Requests accept gzip and deflate only; any other encoding is
  malformed.
* A key is a secret from the moment it is read: `str` and `repr` show `***`, and it cannot be
  pickled. Headers are hidden likewise. A traceback shows your own variables as usual, and the
  prompts in them; an error of the HTTP layer, whose variables hold header bytes, has no frames of
  that layer. The logger `rungwise` writes no
  provider's word that is longer than 80 characters or breaks the line.

### Behind an SDK

* `rungwise.Transport`, `rungwise.asgi` and `rungwise proxy` read the requests that SDKs write, run
  each as a call, and answer in the same protocol: chat completions, Responses, Anthropic's
  Messages, Gemini's generateContent and Interactions. The usage is that of all attempts. Schemas in
  a request, tool names and arguments are checked as for `returns=`.
* **Text goes out at once.** If a part of it is taken back and does not come again, the stream ends
  with the protocol's error event; so what a program has is always the beginning of the answer.
  `hold=True` waits until text is final. Nothing is sent before the first content, so a call that
  fails before it has its status: 503, 504 if its time has passed, and the provider's own 4xx and
  words if the request is at fault. `partial` ends as cut by length.
* **What a chain cannot express** (`n=4`, tools that a server runs, a field that nobody knows) goes
  word for word to the first backend of the protocol, with that backend's key, in one attempt within
  the same budget, and the logger `rungwise` warns. Reasoning is signed for the program only where
  one provider wrote all of it. Responses are not stored, so `previous_response_id` finds none of
  them.
* `x-rungwise-deadline` (seconds from now) and `x-rungwise-budget` (money) in a request lower those
  of the policy. So does the read timeout of an SDK, for a whole answer; streams have the clocks of
  the policy. Response headers say how the call went, and what the backend could not be given
  (`x-rungwise-lost`). Keys of backends are taken out of the providers' words.

### Your own HTTP client

Rungwise neither closes nor changes `http=httpx.Client(...)` and `async_http=httpx.AsyncClient(...)`
(`httpx2` works as well), and forbids redirects, which could carry a key to another host. Nobody can
stop such a client from outside, so a synchronous attempt runs in a worker thread. When the time is
up or the call cancelled, the thread is left behind: its socket is shut down if httpcore exposes it,
and nothing is sent after that. The thread may live until the client's own timeouts, a second after
ours, or on a reused connection whose server drips headers until the server stops. With an
`httpx.AsyncClient`, a lookup that asyncio has begun may keep `asyncio.run` waiting. Such a client
decides itself which connection serves which request, also after a fork. If several idle ones die
one after another, only the first loss is sent again at once; the next ones wait as usual. If the
environment names a proxy for a host, httpx sends the request in the same way; servers on this
machine are reached without a proxy.
"""
