"""How lines of JSON are read: cut anywhere, in work that grows no faster than their bytes, and each
as it stands.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rungwise import Ollama
from rungwise.adapters.wires.ollama.stream import OllamaDecoder
from support.streams import followed
from support.work import grows_within

pytestmark = pytest.mark.sampled(4)

OLLAMA: Any = Ollama("m")
END = (
    b'{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n'
)


def line(
    text: str = "", moment: str = "2026-08-21T18:48:22.5Z", *, spaces: bool = False, **members: Any
) -> bytes:
    value = {
        "model": "m",
        "created_at": moment,
        "message": {"role": "assistant", "content": text, **members},
        "done": False,
    }
    separators = (", ", ": ") if spaces else (",", ":")
    text = json.dumps(value, separators=separators, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def words(count: int) -> list[bytes]:
    """Return lines that differ in their text and their moment alone."""
    return [line(f"w{k}", f"2026-08-21T18:48:22.{k}Z") for k in range(count)]


def read(*pieces: bytes) -> tuple[Any, str]:
    """Return what a stream amounts to, and the text that it handed out."""
    reply, said, _ = followed(OLLAMA.decoder({}), pieces)
    return reply, said


def text_of(*pieces: bytes) -> str:
    reply, said = read(*pieces)
    assert reply.text == said
    assert reply.interrupted is False
    return said


TEXTS = st.text(max_size=8) | st.sampled_from(
    ["m", "~", '"', "\\", "\\u00e9", "a~", "content", '","message":{"', "🐦"]
)
MOMENTS = st.from_regex(r"2026-08-21T18:48:\d{2}\.\d{1,9}Z", fullmatch=True) | TEXTS
ENDS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n"])
LINES = st.lists(st.tuples(TEXTS, MOMENTS, st.booleans(), ENDS), max_size=20)


@given(LINES, st.integers(1, 40))
@example(
    [
        ("a", "x", False, b"\n"),
        ("b", '\\","message":{"role":"assistant","content":"', False, b"\n"),
    ],
    7,
)
@example([("a", "é", False, b"\n"), ("b", "x", False, b"\n"), ("é", "e", False, b"\n")], 1000)
def test_lines_say_the_same_wherever_they_are_cut(
    lines: list[tuple[str, str, bool, bytes]], size: int
) -> None:
    expected = "It begins. "  # two equal lines at the beginning wait for the next one
    body = line(expected, "first")
    for text, moment, spaces, end in lines:
        body += line(text, moment, spaces=spaces).removesuffix(b"\n") + end
        expected += text
    body += END
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert text_of(*pieces) == expected
    assert text_of(body) == expected


def test_lines_that_differ_in_text_and_moment_alone_are_not_parsed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[Any] = []
    piece_in = OllamaDecoder.piece_in

    def count(self: OllamaDecoder, value: Any) -> Any:
        parsed.append(value)
        return piece_in(self, value)

    monkeypatch.setattr(OllamaDecoder, "piece_in", count)
    thoughts = [line("", f"2026-08-21T18:49:22.{k}Z", thinking=f"hm{k}") for k in range(1_000)]
    expected = "".join([f"w{k}" for k in range(1_000)])
    assert text_of(*thoughts, *words(1_000), END) == expected
    assert len(parsed) < 20


def test_what_surrounds_the_text_is_not_taken_for_it() -> None:
    # The model is called as its first word; a line that only looks like the learned one is read for
    # itself.
    whole = line("m") + line("m") + line("n") + line("o")
    aside = b'"done":false,"logprobs":[{"token":"p","logprob":-1.5}]'
    other = line("p").replace(b'"done":false', aside)
    assert text_of(whole, other, line("q"), END) == "mmnopq"


def test_a_last_line_needs_no_end() -> None:
    assert text_of(line("In the reeds."), END.rstrip()) == "In the reeds."


def test_a_cut_last_line_is_nothing() -> None:
    reply, said = read(line("In the"), line(" reeds.")[:-20])
    assert reply.text == said == "In the"
    assert reply.interrupted is True
    assert reply.failure is None


@pytest.mark.parametrize("indent", [1, 4])
def test_an_object_in_many_lines_is_a_whole_reply(indent: int) -> None:
    call = {"function": {"name": "look", "arguments": {}}}
    message = {
        "role": "assistant",
        "content": "In the reeds.",
        "tool_calls": [call, {}],
    }
    body = json.dumps(
        {
            "model": "m",
            "message": message,
            "done": True,
        },
        indent=indent,
    ).encode()
    reply, _ = read(*[body[start : start + 9] for start in range(0, len(body), 9)])
    assert reply == OLLAMA.decode(200, {}, body)
    assert reply.text == "In the reeds."
    assert [each.name for each in reply.tool_calls] == ["look"]


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\n\n", b": waiting\n", b"\xef\xbb\xbf \r\n"])
def test_what_comes_before_the_first_line_is_no_part_of_it(before: bytes) -> None:
    assert text_of(before + line("In the reeds."), END) == "In the reeds."


@pytest.mark.parametrize(
    "stray",
    [b"null\n", b"[1, 2]\n", b"<html>\n", b"\xff\xfe\n", b'"In the"\n', b'{"status":"x"}\n'],
)
def test_what_is_no_line_of_a_reply_says_nothing(stray: bytes) -> None:
    assert text_of(line("In the"), stray, line(" reeds."), END) == "In the reeds."


def test_a_hole_ends_a_stream() -> None:
    reply, said = read(line("In the"), line(" tall")[:-30] + b"\n", line(" reeds."), END)
    assert said == "In the"
    assert reply.interrupted is True
    assert reply.failure.reason == "malformed"


def test_halves_of_characters_are_joined_across_lines() -> None:
    half = rb'{"model":"m","message":{"content":"%s"},"done":false}' + b"\n"
    assert text_of(line("a"), half % rb"\ud83d", half % rb"\udc26", END) == "a🐦"


GROWING: dict[str, Callable[[int], list[bytes]]] = {
    "lines alike": words,
    "lines that differ": lambda n: [line(f"w{k}", **{f"x{k}": k}) for k in range(n)],
    "a line byte by byte": lambda n: [bytes([byte]) for byte in line("x" * n)],
    "blank lines": lambda n: [b"\n" * n, *[b"\n"] * n, b" \n" * n],
    "an object in many lines": lambda n: [b"{\n", *[b'"a": {},\n'] * n],
    "strays before the stream": lambda n: [b"x\n"] * n,
    "strays": lambda n: [line("a"), *[b"x\n"] * n],
    "broken objects": lambda n: [b"{x\n"] * n,
    "tool calls": lambda n: [
        line(tool_calls=[{"function": {"name": "f", "arguments": {"k": k}}}]) for k in range(n)
    ],
    "halves": lambda n: [rb'{"message":{"content":"\ud83d"},"done":false}' + b"\n"] * n,
    "quotes without end": lambda n: [
        line("a"),
        b'{"model":"m","created_at":"' + b'\\"' * n + b"\n",
    ],
}


@pytest.mark.full
@pytest.mark.parametrize("kind", GROWING)
def test_the_work_is_linear(kind: str) -> None:
    """Forty times as much takes forty times as long, and not 1600 times."""
    little = GROWING[kind](500)
    much = GROWING[kind](20_000)
    assert grows_within(lambda: read(*little, END), lambda: read(*much, END), times=400, floor=0.5)


def test_what_is_held_is_counted() -> None:
    decoder = OLLAMA.decoder({})
    for piece in ([line("a" * 1_000)] * 10, [b"{" * 1_000], [b"x" * 1_000]):
        before = decoder.size
        for each in piece:
            decoder.feed(each)
        assert decoder.size - before >= 1_000
    calls = OLLAMA.decoder({})
    for _ in range(100):
        calls.feed(line(tool_calls=[{"function": {"name": "f", "arguments": {}}}]))
    assert calls.size > 100 * 200


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_line_of_too_many_values_is_not_read(is_stream: bool) -> None:
    heavy = b'{"message": [' + b"{}," * 1_000_000 + b"1]}\n"
    if is_stream:
        reply, _ = read(line("In the"), heavy, END)
        assert reply.text == "In the"
        assert reply.interrupted is True
        failure = reply.failure
    else:
        failure = OLLAMA.decode(200, {}, heavy)
    assert failure.reason == "malformed"
