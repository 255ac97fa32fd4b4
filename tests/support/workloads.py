"""More and more of the same work, of each kind that is to grow no faster than what it is given.

Each function prepares work of one size and returns it; what it returns can be done again and again.
"""

from __future__ import annotations

import hashlib
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import httpx

import rungwise
from rungwise import (
    Budget,
    Call,
    Client,
    Journal,
    Limits,
    Link,
    OpenAIChat,
    PlainLink,
    Policy,
    Reply,
    Request,
    Script,
    ScriptedReply,
    SharedBudget,
    Text,
    Tool,
    ToolCall,
    Turn,
    TurnPolicy,
    Usage,
)
from rungwise.adapters.testing import MemoryProvider, MemoryTransport
from rungwise.fsm.call.explained import explain_call, read_call
from rungwise.fsm.turn.actions import MakeCall, RunTools, ToolOutcome

Work = Callable[[], object]
"""One piece of work."""

PART = 100
"""Characters of a part, where the text grows with their number."""

WHOLE = 100_000
"""Characters of a text whose parts get smaller as there are more of them."""

QUESTION = "Tell me of the herons."
USAGE = Usage(10, 5)
DONE = Reply("An answer.", stop_reason="stop", stop_raw="stop", usage=USAGE)
PATIENT = Policy(limits=Limits(continuations=1000, retries=1000), budget=Budget(attempts=1000, seconds=None))
"""As many parts as a policy can be asked for."""


def prose(size: int, seed: int = 0) -> str:
    """Return a text of so many characters that never repeats itself; another seed has another text."""
    words, length, number = [], 0, 0
    while length < size:
        letters = hashlib.sha256(b"%d %d" % (seed, number)).hexdigest().translate(_LETTERS)
        line = " ".join((letters[:5], letters[5:12], letters[12:15], letters[15:24], letters[24:29], letters[29:]))
        words.append(line)
        length += len(line) + 1
        number += 1
    return "\n".join(words)[:size]


_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def cut_into(text: str, count: int) -> list[str]:
    """Return a text in so many pieces of nearly the same length."""
    size, longer = divmod(len(text), count)
    ends = [place * size + min(place, longer) for place in range(count + 1)]
    return [text[start:end] for start, end in pairwise(ends)]


# a text in parts


def replies_of(pieces: Sequence[str]) -> list[Reply]:
    """Return replies that bring a text in parts: each is cut by its cap but for the last."""
    cut = [Reply(each, stop_reason="length", stop_raw="length", usage=USAGE) for each in pieces[:-1]]
    return [*cut, Reply(pieces[-1], stop_reason="stop", stop_raw="stop", usage=USAGE)]


def bytes_of_parts(call: Call, replies: Sequence[Reply]) -> Iterator[tuple[int, int]]:
    """Run a call over replies; yield the most bytes that each part takes beside what there was, and the text so far."""
    send, size = call.begin(), 0
    for reply in replies:
        assert send is not None
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for start in range(0, len(reply.text) if call.is_streaming else 0, 12):
            call.hear(Text(reply.text[start : start + 12]))
        send = call.receive(reply)
        call.drain()
        size += len(reply.text)
        yield tracemalloc.get_traced_memory()[1] - before, size


def gathered(call: Call, replies: Sequence[Reply], link: Any = None, *, chunk: int = 0) -> str:
    """Run a call over these replies and return its text.

    Arguments:
        call: the call, which has not begun.
        replies: what it hears.
        link: the backend that writes what is sent; None leaves that out.
        chunk: how many letters of a reply it is told at once as they arrive; 0 tells it of none.
    """
    send = call.begin()
    for reply in replies:
        assert send is not None
        if link is not None:
            link.encode(send, stream=bool(chunk))
        for start in range(0, len(reply.text) if chunk else 0, chunk or 1):
            call.hear(Text(reply.text[start : start + chunk]))
        send = call.receive(reply)
        call.drain()
    assert send is None
    return call.result.text


def text_in_parts(count: int, size: int, link: Any = None, *, encodes: bool = False, chunk: int = 0) -> Work:
    """Prepare a call whose text of `size` characters arrives in `count` parts, without any I/O.

    Arguments:
        count: of the parts.
        size: of the whole text.
        link: the backend; None is one that no bytes are written for.
        encodes: whether each request is written.
        chunk: how many letters of a reply the call is told at once; 0 hands it whole replies.
    """
    text = prose(size)
    replies, request, chain = replies_of(cut_into(text, count)), Request(QUESTION), (link or PlainLink(),)

    def run() -> None:
        call = Call(request, PATIENT, chain, is_streaming=bool(chunk))
        assert gathered(call, replies, link if encodes else None, chunk=chunk) == text

    return run


def backend(**options: Any) -> OpenAIChat:
    """Return a backend of chat completions that nobody listens for."""
    return OpenAIChat(**{"model": "bench", "base_url": "http://127.0.0.1:9/v1", "api_key": "sk-bench", **options})


def parts(count: int) -> Work:
    """Prepare a text in so many parts, in the core alone."""
    return text_in_parts(count, count * PART)


def parts_of_one_text(count: int) -> Work:
    """Prepare one text that arrives in ever more parts, in the core alone."""
    return text_in_parts(count, WHOLE)


def parts_streamed(count: int) -> Work:
    """Prepare a text in so many parts, each in chunks, with a consumer."""
    return text_in_parts(count, count * PART, chunk=12)


def parts_encoded(count: int) -> Work:
    """Prepare a text in so many parts, each request written for a wire; the text so far is a part of each of them."""
    return text_in_parts(count, count * PART, backend(), encodes=True)


def parts_prefilled(count: int) -> Work:
    """Prepare the same for a backend that goes on from a trailing assistant turn, and repeats it."""
    text = prose(count * PART)
    pieces = cut_into(text, count)
    echoed = ["".join(pieces[: place + 1]) for place in range(count)]
    replies, request, chain = replies_of(echoed), Request(QUESTION), (PlainLink(prefills=True, echoes=True),)

    def run() -> None:
        assert gathered(Call(request, PATIENT, chain), replies) == text

    return run


def parts_over_http(count: int) -> Work:
    """Prepare a text in so many parts of an embedded provider."""
    text = prose(count * PART)
    pieces = cut_into(text, count)
    replies = [ScriptedReply(text=each, finish="length") for each in pieces[:-1]] + [ScriptedReply(text=pieces[-1])]

    def run() -> None:
        with (
            rungwise.EmbeddedProvider(Script(replies, after="error")) as provider,
            Client(backend(base_url=provider.base_url), policy=PATIENT) as client,
        ):
            assert client.call(QUESTION).text == text

    return run


# streams, replies and prompts


def answering(reply: ScriptedReply, **options: Any) -> tuple[Client, MemoryProvider]:
    """Return a client whose backend gives one answer again and again, without any sockets."""
    memory = MemoryProvider(Script([reply]))
    http = httpx.Client(transport=MemoryTransport(memory), trust_env=False)
    return Client(backend(base_url=memory.base_url), http=http, **options), memory


def asked(client: Client, memory: MemoryProvider, messages: Any = QUESTION, **options: Any) -> rungwise.Result:
    """Ask, and let the provider forget it."""
    result = client.call(messages, **options)
    memory.requests.clear()
    return result


def decoded(link: OpenAIChat, body: bytes, piece: int = 8_192) -> Reply:
    """Return what a backend reads from a stream whose bytes come in pieces."""
    decoder = link.decoder({"content-type": "text/event-stream"})
    for start in range(0, len(body), piece):
        decoder.feed(body[start : start + piece])
    reply = decoder.close()
    assert isinstance(reply, Reply)
    return reply


def body_of(reply: ScriptedReply, *, stream: bool) -> bytes:
    """Return the bytes that an embedded provider answers with."""
    memory = MemoryProvider(Script([reply]))
    request = httpx.Request("POST", f"{memory.base_url}/chat/completions", json={"model": "m", "stream": stream})
    return memory.respond(request).read()


def chunks(count: int) -> Work:
    """Prepare a stream of so many chunks, from its bytes to its last event."""
    body, link = body_of(ScriptedReply(text=prose(12 * count), chunk_size=12), stream=True), backend()
    request = Request(QUESTION)

    def run() -> None:
        call = Call(request, chain=(link,), is_streaming=True)
        call.begin()
        decoder = link.decoder({"content-type": "text/event-stream"})
        for start in range(0, len(body), 8_192):
            for delta in decoder.feed(body[start : start + 8_192]):
                call.hear(delta)
        call.receive(decoder.close())
        assert call.result.outcome == "done"
        call.drain()

    return run


def characters(size: int) -> Work:
    """Prepare a whole reply with a text of so many characters."""
    link, body = backend(), body_of(ScriptedReply(text=prose(size)), stream=False)
    request = Request(QUESTION)

    def run() -> None:
        call = Call(request, chain=(link,))
        call.begin()
        call.receive(link.decode(200, {"content-type": "application/json"}, body))
        assert len(call.result.text) == size

    return run


def prompt_of(count: int) -> list[dict[str, Any]]:
    """Return a conversation of so many messages."""
    roles = ("user", "assistant")
    said = [{"role": roles[place % 2], "content": f"This is message {place}."} for place in range(count - 1)]
    return [*said, {"role": "user", "content": QUESTION}]


def messages(count: int) -> Work:
    """Prepare a call whose prompt has so many messages: copied, counted and written."""
    link, prompt = backend(prices=rungwise.Prices(1.0, 2.0)), prompt_of(count)

    def run() -> None:
        call = Call(Request(prompt), Policy(budget=Budget(money=1000.0)), (link,))
        send = call.begin()
        assert send is not None
        link.encode(send, stream=False)
        assert call.receive(DONE) is None

    return run


def calls_of(count: int) -> list[ToolCall]:
    """Return so many tool calls."""
    return [ToolCall(f"call_{number}", "look", f'{{"number": {number}}}') for number in range(count)]


def tools_of(count: int) -> list[dict[str, Any]]:
    """Return so many definitions of tools, in the form of chat completions."""
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    names = ["look", *(f"look_{number}" for number in range(1, count))]
    return [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]


def tool_calls(count: int, *, stream: bool = False) -> Work:
    """Prepare a reply with so many tool calls."""
    link, body = backend(), body_of(ScriptedReply(tool_calls=calls_of(count)), stream=stream)
    request = Request(QUESTION, tools=tools_of(3))

    def run() -> None:
        call = Call(request, chain=(link,))
        call.begin()
        call.receive(decoded(link, body) if stream else link.decode(200, {"content-type": "application/json"}, body))
        assert len(call.result.tool_calls) == count

    return run


def tool_calls_streamed(count: int) -> Work:
    """Prepare the same as a stream."""
    return tool_calls(count, stream=True)


def tools(count: int) -> Work:
    """Prepare a call with so many tools, of which the last is called without arguments."""
    link, defined = backend(), tools_of(count)
    reply = Reply(tool_calls=[ToolCall("1", "look", '{"number": 1}')], stop_reason="tool_calls", usage=USAGE)

    def run() -> None:
        call = Call(Request(QUESTION, tools=defined), chain=(link,))
        send = call.begin()
        assert send is not None
        link.encode(send, stream=False)
        call.receive(reply)
        assert call.result.outcome == "done"

    return run


# chains, budgets and turns


def chain_of(count: int) -> tuple[Link, ...]:
    """Return so many backends."""
    return tuple(PlainLink(f"backend {number}") for number in range(count))


def backends(count: int) -> Work:
    """Prepare a call that is answered by the first of so many backends."""
    chain, request, policy = chain_of(count), Request(QUESTION), Policy()

    def run() -> None:
        call = Call(request, policy, chain)
        call.begin()
        call.receive(DONE)
        assert call.result.outcome == "done"

    return run


def backends_that_fail(count: int) -> Work:
    """Prepare a call that falls through so many backends."""
    chain, request = chain_of(count), Request(QUESTION)
    policy = Policy(limits=Limits(retries=0), budget=Budget(attempts=1000))
    failure = rungwise.Failure("auth", status=401)

    def run() -> None:
        call = Call(request, policy, chain)
        send = call.begin()
        while send is not None:
            send = call.receive(failure)
        assert call.result.attempts == count

    return run


def clients(count: int) -> Work:
    """Prepare to make a client of so many backends, and to close it."""
    chain = [backend(name=f"backend {number}", model=f"model {number}") for number in range(count)]

    def run() -> None:
        Client(chain).close()

    return run


def shared_calls(count: int) -> Work:
    """Prepare so many calls that are in flight at once under one shared budget."""
    request = Request(QUESTION, max_tokens=10, input_tokens=10)

    def run() -> None:
        shared = SharedBudget(Budget(attempts=count, seconds=None, output_tokens=100 * count))
        calls = [Call(request, within=shared) for _ in range(count)]
        for call in calls:
            call.begin(0.0)
            assert call.sending(0.0) is not None
        for call in calls:
            call.receive(DONE, 1.0)
        assert shared.attempts == count

    return run


def calls_that_wait(count: int) -> Work:
    """Prepare so many calls that wait in turn for one that has reserved what is left of their shared budget."""
    request = Request(QUESTION, max_tokens=10, input_tokens=10)

    def run() -> None:
        shared = SharedBudget(Budget(attempts=2 * count, seconds=None, output_tokens=10 * count + 14))
        woken: list[int] = []
        calls = [Call(request, within=shared) for _ in range(count)]
        for number, call in enumerate(calls):
            call.begin(0.0)
            call.reserve(lambda number=number: woken.append(number), 0.0)  # type: ignore[misc]
        for call in calls:
            if call.sending(0.0) is not None:
                call.receive(Reply("An answer.", stop_reason="stop", usage=Usage(10, 1)), 1.0)
        assert all(call.is_over for call in calls)

    return run


def turn_of(count: int) -> Turn:
    """Return a turn in which the model calls a tool again and again, so many times."""
    policy = TurnPolicy(auto_continues=1000, same_calls=1000, budget=Budget(attempts=1000, seconds=None))
    tool = Tool(lambda number: number, parameters={"type": "object", "properties": {"number": {"type": "integer"}}})
    turn = Turn(Request(QUESTION), policy, tools={"look": tool})
    heard: Iterator[Reply] = iter(
        [Reply(tool_calls=[call], stop_reason="tool_calls", usage=USAGE) for call in calls_of(count)]
    )
    action = turn.begin(0.0)
    while action is not None:
        match action:
            case MakeCall(call):
                call.begin(0.0)
                call.receive(next(heard, DONE), 0.0)
                action = turn.called(call.result, 0.0)
            case RunTools(runs):
                action = turn.tools_ran([ToolOutcome(f"three herons and {each.arguments}") for each in runs], 0.0)
            case _:
                raise AssertionError(action)
    assert turn.result.outcome == "finished", turn.result
    return turn


def rounds(count: int) -> Work:
    """Prepare a turn of so many calls, each with a result of a tool."""
    return lambda: turn_of(count)


def calls_in_a_round(count: int) -> Work:
    """Prepare a turn whose model calls so many tools at once."""
    policy = TurnPolicy(calls_per_reply=1000)
    tool = Tool(lambda number: number, parameters={"type": "object", "properties": {"number": {"type": "integer"}}})
    reply = Reply(tool_calls=calls_of(count), stop_reason="tool_calls", usage=USAGE)

    def run() -> None:
        turn = Turn(Request(QUESTION), policy, tools={"look": tool})
        heard, action = iter([reply, DONE]), turn.begin(0.0)
        while action is not None:
            match action:
                case MakeCall(call):
                    call.begin(0.0)
                    call.receive(next(heard), 0.0)
                    action = turn.called(call.result, 0.0)
                case RunTools(runs):
                    action = turn.tools_ran([ToolOutcome("three herons") for _ in runs], 0.0)
                case _:
                    raise AssertionError(action)
        assert turn.result.outcome == "finished", turn.result

    return run


# journals


def call_of(steps: int) -> Call:
    """Return a call that has come to its end in some so many steps: half of them requests, each cut."""
    call = Call(Request(QUESTION), PATIENT)
    gathered(call, replies_of(cut_into(prose(steps // 2 * PART), steps // 2)))
    return call


def journal_written(steps: int) -> Work:
    """Prepare to write a journal."""
    return call_of(steps).journal.to_json


def journal_read(steps: int) -> Work:
    """Prepare to read a journal."""
    text = call_of(steps).journal.to_json()
    return lambda: Journal.from_json(text)


def journal_replayed(steps: int) -> Work:
    """Prepare to run a journal again."""
    journal = call_of(steps).journal
    return lambda: rungwise.replay(journal)


def journal_explained(steps: int) -> Work:
    """Prepare the page of a journal."""
    text = call_of(steps).journal.to_json()
    return lambda: explain_call(read_call(text))


def turn_replayed(rounds: int) -> Work:
    """Prepare to run the journal of a turn again."""
    journal = turn_of(rounds).journal
    return lambda: rungwise.replay(journal)


# media


def picture(size: int) -> Work:
    """Prepare a call with a picture of so many bytes in base64: copied, counted and written."""
    link = backend(prices=rungwise.Prices(1.0, 2.0))
    url = "data:image/png;base64," + "A" * size
    prompt = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]

    def run() -> None:
        call = Call(Request(prompt), Policy(budget=Budget(money=1000.0)), (link,))
        send = call.begin()
        assert send is not None
        link.encode(send, stream=False)
        call.receive(DONE)

    return run


# certificates


def certificate_of_limits(limit: int, attempts: int = 24) -> Work:
    """Prepare the proof of a policy whose limits are all so large."""
    limits = Limits(**dict.fromkeys((name for name in Limits() if name != "fallbacks"), limit))
    policy = Policy(limits=limits, budget=Budget(attempts=attempts, seconds=None))
    return lambda: rungwise.verify(policy, 2, max_tokens=1000)


def certificate_of_attempts(attempts: int) -> Work:
    """Prepare the proof of a policy that allows so many attempts, and ten units of each limit."""
    return certificate_of_limits(10, attempts)


def certificate_of_backends(count: int) -> Work:
    """Prepare the proof of the default policy for so many backends."""
    links = [PlainLink(f"backend {number}", prices=rungwise.Prices(1.0, 2.0 + number % 3)) for number in range(count)]
    return lambda: rungwise.verify(Policy(), links, max_tokens=1000, input_tokens=1000)


def seconds_of(work: Work, rounds: int = 3) -> float:
    """Return the processor's seconds that work takes, at best."""
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best
