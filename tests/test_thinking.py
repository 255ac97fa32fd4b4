from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.thinking import ThinkFilter, split_thinking

TAGS = [f"{start}{name}>" for name in ("think", "thinking", "reasoning", "THINK", "Thinking") for start in ("<", "</")]
ODDS = [
    "<",
    ">",
    "/",
    "</",
    "<thi",
    "</thinkin",
    "nk>",
    "ing>",
    "<think >",
    "<thought>",
    "<thin\u212a>",
    "<think",
    "<rea\u017foning>",
]
PIECES = st.sampled_from([*TAGS, *TAGS, *ODDS, "a", "b c", " ", "\n\n", "\u00a0", "\N{GRINNING FACE}", "e\u0301"])
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def run(chunks: list[str]) -> tuple[str, str]:
    thinking = ThinkFilter()
    parts = [*map(thinking.feed, chunks), thinking.close()]
    return "".join(visible for visible, _ in parts), "".join(reasoning for _, reasoning in parts)


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def expected(text: str) -> tuple[str, str]:
    """Read the rules off one regular expression, as independently of the filter as possible."""
    block = re.compile(r"<(think|thinking|reasoning)>(.*?)(?:</\1>|\Z)", re.IGNORECASE | re.ASCII | re.DOTALL)
    reasoning = "".join(found[2] for found in block.finditer(text))
    visible, *rest = re.split("\0", block.sub("\0", text))
    for piece in rest:
        visible += piece if visible.strip() else piece.lstrip()
    return visible, reasoning


@pytest.mark.parametrize(
    ("text", "visible", "reasoning"),
    [
        ("plain", "plain", ""),
        ("", "", ""),
        ("<think>a</think>b", "b", "a"),
        ("<thinking>a</thinking>b", "b", "a"),
        ("<reasoning>a</reasoning>b", "b", "a"),
        ("<Think>a</THINK>b", "b", "a"),
        ("a<think>b</think>c<reasoning>d</reasoning>e", "ace", "bd"),
        ("<think></think>", "", ""),
        # An unclosed block is reasoning, with what looks like the beginning of its end.
        ("a<think>b", "a", "b"),
        ("a<think>b</thin", "a", "b</thin"),
        ("a<think>", "a", ""),
        # The closing tag is the one of the block's own name, and blocks do not nest.
        ("<think>a</thinking>b</think>c", "c", "a</thinking>b"),
        ("<think>a<think>b</think>c</think>d", "c</think>d", "a<think>b"),
        ("<thinking>a<think>b</think></thinking>c", "c", "a<think>b</think>"),
        # What is no tag stays: losing text is worse than showing it.
        ("a</think>b", "a</think>b", ""),
        ("</think>\n\na", "</think>\n\na", ""),
        ("a<thi", "a<thi", ""),
        ("a < b, c<d", "a < b, c<d", ""),
        ("<think x='1'>a", "<think x='1'>a", ""),
        ("<think >a< /think>", "<think >a< /think>", ""),
        ("<thinker>a", "<thinker>a", ""),
        ("<thin\u212a>a", "<thin\u212a>a", ""),
        ("<<think>a<</think>b", "<b", "a<"),
        ("<thi<think>a</thi</think>b", "<thib", "a</thi"),
    ],
)
def test_parts_reasoning_from_text(text: str, visible: str, reasoning: str) -> None:
    assert split_thinking(text) == (visible, reasoning)
    assert run([text]) == run(list(text)) == (visible, reasoning)


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("<think>a</think>\n\nb", "b"),
        ("<think>a</think>\n\n", ""),
        ("<think>a</think>\n<think>b</think> \n c d\n", "c d\n"),
        ("\n<think>a</think>\n\nb", "\nb"),
        ("a <think>b</think>\n\nc", "a \n\nc"),
        ("<think>a</think>b<think>c</think>\n\nd", "b\n\nd"),
        ("\n\na", "\n\na"),
        ("  <", "  <"),
        ("<think>a</think>\n\n<thi", "<thi"),
    ],
)
def test_drops_only_the_whitespace_between_a_block_and_the_first_word(text: str, visible: str) -> None:
    assert split_thinking(text)[0] == visible
    assert run(list(text))[0] == visible


@pytest.mark.parametrize(
    "chunks", [["<thi", "nk>a</th", "ink>\n", "\nb"], ["<", "think", ">", "a", "<", "/think>", " b"]]
)
def test_holds_back_a_split_tag(chunks: list[str]) -> None:
    assert run(chunks) == ("b", "a")


def test_holds_back_no_more_than_the_split_tag() -> None:
    thinking = ThinkFilter()
    assert thinking.feed("answer <thi") == ("answer ", "")
    assert thinking.feed("s") == ("<this", "")
    assert thinking.feed("<reasoning>so</reasonin") == ("", "so")
    assert thinking.feed("/") == ("", "</reasonin/")
    assert thinking.feed("<") == ("", "")
    assert thinking.close() == ("", "<")


def test_returns_a_chunk_without_tags_as_it_is() -> None:
    thinking = ThinkFilter()
    for chunk in ["Hello, ", "world. " * 3, ""]:
        assert thinking.feed(chunk)[0] is chunk
    thinking.feed("<think>so")
    chunk = " and so on"
    assert thinking.feed(chunk)[1] is chunk
    assert split_thinking(chunk)[0] is chunk


@pytest.mark.parametrize(
    ("text", "thinks"),
    [
        ("a", False),
        ("<think></think>a", False),
        ("<think> \n</think>a", False),
        ("<think>b", True),
        ("<think></", True),
    ],
)
def test_tells_whether_there_was_inline_reasoning(text: str, thinks: bool) -> None:
    thinking = ThinkFilter()
    thinking.feed(text)
    thinking.close()
    assert thinking.thinks_inline is thinks


@given(TEXTS, st.lists(st.integers(0, 200), max_size=20))
def test_every_chunking_gives_the_same(text: str, places: list[int]) -> None:
    assert run(cut(text, places)) == run(list(text)) == split_thinking(text) == expected(text)


@given(TEXTS)
def test_nothing_is_lost(text: str) -> None:
    visible, reasoning = split_thinking(text)
    for kept in (visible, reasoning):
        letters = iter(text)
        assert all(letter in letters for letter in kept)
    tags = re.findall(r"</?(?:think|thinking|reasoning)>", text, re.IGNORECASE | re.ASCII)
    spaces = sum(map(str.isspace, text))
    assert len(visible) + len(reasoning) >= len(text) - len("".join(tags)) - spaces


@given(st.text().filter(lambda text: "<" not in text), st.lists(st.integers(0, 200), max_size=5))
def test_text_without_tags_is_handed_out_at_once(text: str, places: list[int]) -> None:
    thinking = ThinkFilter()
    assert all(thinking.feed(chunk) == (chunk, "") for chunk in cut(text, places))


@given(TEXTS, st.lists(st.integers(0, 200), max_size=20))
def test_holds_back_less_than_one_tag(text: str, places: list[int]) -> None:
    thinking = ThinkFilter()
    for chunk in cut(text, places):
        thinking.feed(chunk)
    assert sum(map(len, thinking.close())) < len("</reasoning>")
