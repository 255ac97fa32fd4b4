"""Replies said in manners: how they are drawn, said, read, and what should be read."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import orjson
from attrs import evolve, frozen
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.adapters.gateway.languages import language_of
from rungwise.adapters.gateway.languages.language import AnswerRequest, Completion, Language
from rungwise.adapters.http.encodings import encoding_of, plain
from rungwise.adapters.provider.manners.catalogue import MANNERS
from rungwise.adapters.provider.manners.encoder import Encoder, Said
from rungwise.adapters.provider.manners.events import FRAMINGS
from rungwise.adapters.provider.manners.places import REASONING, TEXT
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.testing import manners
from support import protocols

COUNTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "openai": ("prompt_tokens", "completion_tokens", "total_tokens"),
    "responses": ("input_tokens", "output_tokens", "total_tokens"),
    "anthropic": ("input_tokens", "output_tokens", ""),
    "gemini": ("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
    "interactions": ("total_input_tokens", "total_output_tokens", "total_tokens"),
    "ollama": ("prompt_eval_count", "eval_count", ""),
    "bedrock": ("inputTokens", "outputTokens", "totalTokens"),
}
"""What each protocol calls the tokens of the input, of the output, and of both."""


@cache
def backend(api: str) -> Any:
    return protocols.backend(api, "http://host/v1")


@cache
def asked(api: str, *, streams: bool) -> tuple[Language, AnswerRequest]:
    """Return what a backend asks, as the embedded provider reads it, and who answers."""
    request = protocols.encoded(backend(api), stream=streams)
    path = "/" + request.url.split("/", 3)[3].partition("?")[0]
    language = language_of(path)
    assert language is not None
    return language, language.read_request(path, orjson.loads(request.body), 1)


@frozen
class Mannered:
    """A neutral reply, and how it is said.

    Arguments:
        api: the protocol.
        streams: whether a stream is asked for.
        manners: the names of the manners.
        text, reasoning, calls, finish: the reply.
        tokens: of the input and of the output.
        chunk_size: characters of each piece.
        sizes: bytes of the pieces in which the network hands it over, over and over.
    """

    api: str
    streams: bool
    manners: tuple[str, ...] = ()
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    tokens: tuple[int, int] = (20, 10)
    chunk_size: int = 12
    sizes: tuple[int, ...] = (1_000_000,)

    @property
    def answer(self) -> Completion:
        """Return what the renderers write."""
        names = COUNTS[self.api]
        counts = (*self.tokens, sum(self.tokens))
        usage = {name: count for name, count in zip(names, counts, strict=True) if name}
        return Completion(
            text=self.text,
            reasoning=self.reasoning,
            tool_calls=self.calls,
            finish=self.finish,
            usage=usage,
            chunk_size=self.chunk_size,
        )

    @property
    def encoder(self) -> Encoder:
        """Return what says it."""
        language, request = asked(self.api, streams=self.streams)
        return Encoder.of(self.answer, request, language, self.manners)

    @property
    def lost(self) -> list[str]:
        """Return why it cannot be read; nothing if it can."""
        return self.encoder.lost()

    def literal(self, member: str) -> str:
        """Return a text as its protocol reads the pieces: what another reply with the same bytes
        says.

        Arguments:
            member: "text" or "reasoning".
        """
        names = tuple(name for name in self.manners if MANNERS[name].moves == member)
        said = evolve(self, manners=names, streams=True).say()
        opened, _ = FRAMINGS[said.media]
        places = TEXT if member == "text" else REASONING
        announced = self.text if "text_announced" in names else ""
        return announced + "".join(
            places[self.api].piece_in(opened(frame)) for frame in said.frames
        )

    def say(self) -> Said:
        """Return the bytes."""
        return self.encoder.say()

    def read(self) -> Reply | Failure:
        """Return what is read of the bytes."""
        said = self.say()
        packed = b"".join(said.frames)
        headers = {"content-type": said.media, **said.headers}
        unpack = encoding_of(headers, packed)
        body = packed if unpack in (None, plain) else b"".join(unpack(packed))
        if not self.streams:
            return backend(self.api).decode(200, headers, body)
        decoder = backend(self.api).decoder(headers)
        start = 0
        turn = 0
        while start < len(body):
            size = self.sizes[turn % len(self.sizes)]
            decoder.feed(body[start : start + size])
            start += size
            turn += 1
        return decoder.close()

    @property
    def expected(self) -> dict[str, Any]:
        """Return what should be read."""
        ids = [call.id for call in self.calls]
        stop = self.finish or ("tool_calls" if self.calls else "stop")
        if self.api in ("gemini", "ollama"):
            stop = self.finish or "stop"  # which have no word for calls
        return {
            "text": self.text,
            "reasoning": self.reasoning,
            "ids": None if self.api == "ollama" else ids,  # which gives none
            "calls": [(call.name, orjson.loads(call.arguments)) for call in self.calls],
            "stop": stop,
            "tokens": self.tokens,
            "interrupted": False,
            "failure": None,
        }

    def told(self, reply: Reply | Failure) -> dict[str, Any]:
        """Return what was read in the same form."""
        if isinstance(reply, Failure):
            return {"failure": reply.reason, "message": reply.message}
        calls = [(call.name, _json(call.arguments)) for call in reply.tool_calls]
        ids = [call.id for call in reply.tool_calls]
        return {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "ids": None if self.api == "ollama" else ids,
            "calls": calls,
            "stop": reply.stop_reason,
            "tokens": (reply.usage.input_tokens, reply.usage.output_tokens),
            "interrupted": reply.interrupted,
            "failure": reply.failure and reply.failure.reason,
        }


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return f"not JSON: {text!r}"


NAMES = st.sampled_from(["ls", "look", "get_weather", "call"])
LETTERS = st.sampled_from("ab \n") | st.characters(exclude_categories=["Cs"])
TEXTS = st.one_of(
    st.text(LETTERS, max_size=12),
    st.text("ha ", max_size=60),
    st.text(LETTERS, min_size=30, max_size=120),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**9) | st.text(LETTERS, max_size=12),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.text('abc"{', max_size=4), VALUES, max_size=3)


@st.composite
def calls(draw: DrawFn) -> tuple[ToolCall, ...]:
    """Generate tool calls with ids of their own."""
    least = draw(st.integers(0, 1))
    drawn = draw(st.lists(st.tuples(NAMES, ARGUMENTS), min_size=least, max_size=3))
    return tuple(
        ToolCall(f"id_{number}", name, orjson.dumps(value).decode())
        for number, (name, value) in enumerate(drawn)
    )


@st.composite
def mannered(
    draw: DrawFn, apis: Sequence[str] = protocols.PROTOCOLS, modes: Sequence[bool] = (True, False)
) -> Mannered:
    """Generate replies and how they are said, each manner of each protocol as often as another."""
    firsts = [
        (api, streams, (name,))
        for api in apis
        for streams in modes
        for name, manner in MANNERS.items()
        if manner.is_in(api, streams=streams)
    ]
    plain = [(api, streams, ()) for api in apis for streams in modes]
    api, streams, names = draw(st.sampled_from([*plain, *firsts]))
    moved = {MANNERS[name].moves for name in names}
    others = draw(manners(api, streams=streams)) if names else ()
    more = [name for name in others if MANNERS[name].moves not in moved]
    tool_calls = draw(calls())
    text = draw(TEXTS)
    if not (text.strip() or tool_calls):
        text = f"{text}yes"
    return Mannered(
        api,
        streams,
        (*names, *more[:2]),
        text,
        draw(st.just("") | TEXTS),
        tool_calls,
        None if tool_calls else draw(st.sampled_from([None, "length"])),
        draw(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6))),
        draw(st.integers(1, 40)),
        tuple(draw(st.lists(st.integers(1, 400), min_size=1, max_size=4))),
    )
