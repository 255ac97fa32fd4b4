"""Work of growing size, of each kind that must grow no faster than its input.

Each function prepares work of one size and returns a function that can be called repeatedly.
"""

import hashlib
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import httpx

import rungwise
from rungwise import Budget, Client, Limits, OpenAIChat, Policy, Text, ToolCall
from rungwise.adapters.testing.runner import MemoryProvider
from rungwise.core import Call, PlainLink, Reply, Request
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.turns import USAGE, cut, said

Work = Callable[[], object]
"""A piece of work."""

PART = 100
"""Characters of a part, if the text grows with the number of parts."""

WHOLE = 100_000
"""Characters of a text that is cut into ever more parts."""

QUESTION = "Tell me of the herons."
DONE = said("An answer.")
PATIENT = Policy(
    limits=Limits(continuations=1000, retries=1000), budget=Budget(attempts=1000, seconds=None)
)
"""The most parts that a policy allows."""


def prose(size: int, seed: int = 0) -> str:
    """Return a text of `size` characters that never repeats itself; each seed has its own."""
    words = []
    length = 0
    number = 0
    while length < size:
        letters = hashlib.sha256(b"%d %d" % (seed, number)).hexdigest().translate(_LETTERS)
        line = " ".join(
            (
                letters[:5],
                letters[5:12],
                letters[12:15],
                letters[15:24],
                letters[24:29],
                letters[29:],
            )
        )
        words.append(line)
        length += len(line) + 1
        number += 1
    return "\n".join(words)[:size]


_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def cut_into(text: str, count: int) -> list[str]:
    """Return a text in `count` pieces of nearly equal length."""
    size, longer = divmod(len(text), count)
    ends = [place * size + min(place, longer) for place in range(count + 1)]
    return [text[start:end] for start, end in pairwise(ends)]


# a text in parts


def replies_of(pieces: Sequence[str]) -> list[Reply]:
    """Return replies with the parts of a text, all but the last truncated."""
    return [*map(cut, pieces[:-1]), said(pieces[-1])]


def bytes_of_parts(call: Call, replies: Sequence[Reply]) -> Iterator[tuple[int, int]]:
    """Run a call over replies and yield the peak of bytes of each part, with the text so far."""
    send = call.begin()
    size = 0
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


def gathered(
    call: Call,
    replies: Sequence[Reply],
    link: Any = None,
    *,
    chunk: int = 0,
) -> str:
    """Run a call over these replies and return its text.

    Arguments:
        call: the call, which has not begun.
        replies: its replies.
        link: the backend that encodes the requests; None encodes none.
        chunk: how many characters of a reply are passed to the call at once; 0 passes whole
            replies.
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


def text_in_parts(
    count: int,
    size: int,
    link: Any = None,
    *,
    encodes: bool = False,
    chunk: int = 0,
) -> Work:
    """Prepare a call whose text of `size` characters arrives in `count` parts, without any I/O.

    Arguments:
        count: of the parts.
        size: of the whole text.
        link: the backend; None for one that encodes nothing.
        encodes: whether each request is written.
        chunk: how many characters of a reply are passed to the call at once; 0 passes whole
            replies.
    """
    text = prose(size)
    replies = replies_of(cut_into(text, count))
    request = Request(QUESTION)
    chain = (link or PlainLink(),)

    def run() -> None:
        call = Call(request, PATIENT, chain, is_streaming=bool(chunk))
        assert gathered(call, replies, link if encodes else None, chunk=chunk) == text

    return run


def backend(**options: Any) -> OpenAIChat:
    """Return a chat-completions backend without a server."""
    return OpenAIChat(
        **{
            "model": "bench",
            "base_url": "http://127.0.0.1:9/v1",
            "api_key": "sk-bench",
            **options,
        }
    )


def parts(count: int) -> Work:
    """Prepare a text in so many parts, in the core alone."""
    return text_in_parts(count, count * PART)


def parts_of_one_text(count: int) -> Work:
    """Prepare one text that arrives in ever more parts, in the core alone."""
    return text_in_parts(count, WHOLE)


def parts_streamed(count: int) -> Work:
    """Prepare a text in so many parts, each in chunks, with a consumer."""
    return text_in_parts(count, count * PART, chunk=12)


def parts_of_tags(count: int) -> Work:
    """Prepare a text in so many parts, each of which speaks of the tags of reasoning, with a
    consumer.
    """
    pieces = [
        f"{each} in `<think>` and </think>.\n" for each in cut_into(prose(count * PART), count)
    ]
    replies = replies_of(pieces)
    request = Request(QUESTION)

    def run() -> None:
        call = Call(request, PATIENT, is_streaming=True)
        assert gathered(call, replies, chunk=12) == "".join(pieces)

    return run


def parts_encoded(count: int) -> Work:
    """Prepare a text in so many parts, each request written for a wire; the text so far is a part
    of each of them.
    """
    return text_in_parts(count, count * PART, backend(), encodes=True)


def parts_prefilled(count: int) -> Work:
    """Prepare the same for a backend that goes on from a trailing assistant turn, and repeats
    it.
    """
    text = prose(count * PART)
    pieces = cut_into(text, count)
    echoed = ["".join(pieces[: place + 1]) for place in range(count)]
    replies = replies_of(echoed)
    request = Request(QUESTION)
    chain = (PlainLink(prefills=True, echoes=True),)

    def run() -> None:
        assert gathered(Call(request, PATIENT, chain), replies) == text

    return run


def parts_over_http(count: int) -> Work:
    """Prepare a text in so many parts of an embedded provider."""
    text = prose(count * PART)
    pieces = cut_into(text, count)
    replies = [ScriptedReply(text=each, finish="length") for each in pieces[:-1]] + [
        ScriptedReply(text=pieces[-1])
    ]

    def run() -> None:
        with (
            EmbeddedProvider(Script(replies, after="error")) as provider,
            Client(backend(base_url=provider.base_url), policy=PATIENT) as client,
        ):
            assert client.call(QUESTION).text == text

    return run


# streams, replies and prompts


def answering(reply: ScriptedReply, **options: Any) -> tuple[Client, MemoryProvider]:
    """Return a client whose backend gives one answer again and again, without any sockets."""
    memory = MemoryProvider(Script([reply]))
    http = httpx.Client(transport=httpx.MockTransport(memory.respond), trust_env=False)
    return Client(backend(base_url=memory.base_url), http=http, **options), memory


def asked(
    client: Client, memory: MemoryProvider, messages: Any = QUESTION, **options: Any
) -> rungwise.Result:
    """Make a call and clear the provider's requests."""
    result = client.call(messages, **options)
    memory.requests.clear()
    return result


def decoded(link: OpenAIChat, body: bytes, piece: int = 8_192) -> Reply:
    """Return what a backend reads from a stream whose bytes arrive in pieces."""
    decoder = link.decoder({"content-type": "text/event-stream"})
    for start in range(0, len(body), piece):
        decoder.feed(body[start : start + piece])
    reply = decoder.close()
    assert isinstance(reply, Reply)
    return reply


def body_of(reply: ScriptedReply, *, stream: bool) -> bytes:
    """Return the bytes that an embedded provider answers with."""
    memory = MemoryProvider(Script([reply]))
    request = httpx.Request(
        "POST", f"{memory.base_url}/chat/completions", json={"model": "m", "stream": stream}
    )
    return memory.respond(request).read()


def chunks(count: int) -> Work:
    """Prepare a stream of so many chunks, from its bytes to its last event."""
    body = body_of(ScriptedReply(text=prose(12 * count), chunk_size=12), stream=True)
    link = backend()
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
    link = backend()
    body = body_of(ScriptedReply(text=prose(size)), stream=False)
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
    earlier = [
        {"role": roles[place % 2], "content": f"This is message {place}."}
        for place in range(count - 1)
    ]
    return [*earlier, {"role": "user", "content": QUESTION}]


def messages(count: int) -> Work:
    """Prepare a call whose prompt has so many messages: copied, counted and written."""
    return written(prompt_of(count))


def written(prompt: list[dict[str, Any]]) -> Work:
    """Prepare a call that writes a prompt once, and is answered."""
    link = backend(prices=rungwise.Prices(1.0, 2.0))

    def run() -> None:
        call = Call(Request(prompt), Policy(budget=Budget(money=1000.0)), (link,))
        send = call.begin()
        assert send is not None
        link.encode(send, stream=False)
        assert call.receive(DONE) is None

    return run


def calls_of(count: int) -> list[ToolCall]:
    """Return so many tool calls."""
    return [
        ToolCall(f"call_{number}", "look", f'{{"number": {number}}}') for number in range(count)
    ]


def tools_of(count: int) -> list[dict[str, Any]]:
    """Return so many definitions of tools, in the form of chat completions."""
    schema = {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    }
    names = ["look", *(f"look_{number}" for number in range(1, count))]
    return [
        {"type": "function", "function": {"name": name, "parameters": schema}} for name in names
    ]


def tool_calls(count: int, *, stream: bool = False) -> Work:
    """Prepare a reply with so many tool calls."""
    link = backend()
    body = body_of(ScriptedReply(tool_calls=calls_of(count)), stream=stream)
    request = Request(QUESTION, tools=tools_of(3))

    def run() -> None:
        call = Call(request, chain=(link,))
        call.begin()
        call.receive(
            decoded(link, body)
            if stream
            else link.decode(200, {"content-type": "application/json"}, body)
        )
        assert len(call.result.tool_calls) == count

    return run


def tool_calls_streamed(count: int) -> Work:
    """Prepare the same as a stream."""
    return tool_calls(count, stream=True)


def tools(count: int) -> Work:
    """Prepare a call with so many tools, of which the last is called without arguments."""
    link = backend()
    defined = tools_of(count)
    reply = Reply(
        tool_calls=[ToolCall("1", "look", '{"number": 1}')], stop_reason="tool_calls", usage=USAGE
    )

    def run() -> None:
        call = Call(Request(QUESTION, tools=defined), chain=(link,))
        send = call.begin()
        assert send is not None
        link.encode(send, stream=False)
        call.receive(reply)
        assert call.result.outcome == "done"

    return run
