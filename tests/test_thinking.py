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
FENCES = ["```\n", "```xml\n", "\n```", "\n```\n", "\n~~~\n", "~~~~", "\n   ```", "\n    ```", "\n\t```", " \t\r\n"]
BLOCKS = ["<think>a</think>", "<think>`</think>", "<thinking>\n```\n</thinking>", "<think>", "</think>", "<thi", "nk>"]
MARKDOWN = st.sampled_from([*FENCES, *BLOCKS, *BLOCKS, "`", "`", "``", "~", "~~", "\n", "\n", " ", "a", "`a`"])
TEXTS = (st.lists(PIECES, max_size=12) | st.lists(MARKDOWN, max_size=16)).map("".join)


def run(chunks: list[str]) -> tuple[str, str]:
    thinking = ThinkFilter()
    parts = [*map(thinking.feed, chunks), thinking.close()]
    return "".join(visible for visible, _ in parts), "".join(reasoning for _, reasoning in parts)


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def expected(text: str) -> tuple[str, str]:
    """Read the rules off one letter at a time, as independently of the filter as possible."""
    opening = re.compile(r"<(think|thinking|reasoning)>", re.IGNORECASE | re.ASCII)
    visible = reasoning = ""
    closed = False
    at = 0
    while at < len(text):
        found = opening.match(text, at)
        if found and not in_code(visible):
            closing = re.compile(rf"</{found[1]}>|\Z", re.IGNORECASE | re.ASCII).search(text, found.end())
            assert closing is not None
            reasoning += text[found.end() : closing.start()]
            closed, at = True, closing.end()
            continue
        piece = found[0] if found else text[at]
        if not closed or visible.strip() or not piece.isspace():
            visible += piece
        at += len(piece)
    return visible, reasoning


def in_code(visible: str) -> bool:
    """Tell whether a tag that follows this visible text is in Markdown code."""
    *lines, last = visible.split("\n")
    fence = ""
    for line in lines:
        if not fence:
            fence = fence_of(line)
        elif set(line.strip(" \t\r")) == {fence[0]} and len(line.strip(" \t\r")) >= len(fence):
            fence = ""
    return bool(fence or fence_of(last)) or len([run for run in re.split("[^`]+", last) if run]) % 2 == 1


def fence_of(line: str) -> str:
    signs = line.lstrip(" ")
    if len(line) - len(signs) > 3 or signs[:3] not in ("```", "~~~"):
        return ""
    return signs[: len(signs) - len(signs.lstrip(signs[0]))]


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
    "text",
    [
        "wrap it like `<think>secret</think>` in the output. Done.",
        "```xml\n<reasoning>why</reasoning>\n```",
        "`<think>` and `</think>`, `<reasoning>` and `</reasoning>`",
        "a ``<think>``",
        "`a` and `b <think>",
        # A fence opens on its own line already, and a shorter or another one is a part of it.
        "```<think>",
        "~~~ <think>",
        "   ~~~\n<think>",
        "````\n```\n<think>\n```\n<think>\n````",
        "```\n~~~\n<think>",
        "```\n`<think>",
        # What closes a fence stands alone on its line.
        "```\n``` a\n<think>",
        "```\n```<think>\n<think>",
        "```\na\n```\u00a0\n<think>",
        "a\n```",
    ],
)
def test_a_tag_in_markdown_code_is_text(text: str) -> None:
    assert split_thinking(text) == run(list(text)) == expected(text) == (text, "")


@pytest.mark.parametrize(
    ("text", "visible", "reasoning"),
    [
        # The code has ended.
        ("`a`<think>b</think>c", "`a`c", "b"),
        ("`a\n<think>b</think>c", "`a\nc", "b"),
        ("```\n<think>\n```\n<think>a</think>b", "```\n<think>\n```\nb", "a"),
        ("~~~\na\n ~~~~ \t\r\n<think>b</think>c", "~~~\na\n ~~~~ \t\r\nc", "b"),
        ("```\n    ```\n<think>a</think>b", "```\n    ```\nb", "a"),
        # It never was any: too short, too far in, or not where a line begins.
        ("~~\n<think>a</think>b", "~~\nb", "a"),
        ("    ~~~\n<think>a</think>b", "    ~~~\nb", "a"),
        ("\t```\n<think>a</think>b", "\t```\nb", "a"),
        ("a ~~~ <think>b</think>c", "a ~~~ c", "b"),
        ("a ```\n<think>b</think>c", "a ```\nc", "b"),
        # Runs are counted, not measured, and a backtick without its pair makes text of a block behind it.
        ("a `` ` <think>b</think>c", "a `` ` c", "b"),
        ("a ` <think>b</think>c", "a ` <think>b</think>c", ""),
        # Code in a block is reasoning, and its end counts there.
        ("<think>```\n`</think>a<think>b</think>c", "ac", "```\n`b"),
        ("<think>`</think>`", "`", "`"),
        # The visible text counts, without the blocks: they part neither a line, nor a run, nor a fence.
        ("~~<think>a</think>~\n<think>b", "~~~\n<think>b", "a"),
        ("   ~~<think>a</think>~<think>b", "   ~~~<think>b", "a"),
        ("    <think>a</think>~~~<think>b", "    ~~~", "ab"),
        ("<think>a</think>    ~~~<think>b", "~~~<think>b", "a"),
        ("a    <think>b</think>~~~<think>c", "a    ~~~", "bc"),
        ("`a`<think>b</think>`<think>c", "`a``", "bc"),
        ("`a` b `c`<think>d</think>`<think>e", "`a` b `c``", "de"),
        ("`a` b `c` <think>d</think>`<think>e", "`a` b `c` `<think>e", "d"),
        ("`a` <think>b\n</think>`<think>c", "`a` `<think>c", "b\n"),
    ],
)
def test_only_code_in_the_visible_text_makes_a_tag_text(text: str, visible: str, reasoning: str) -> None:
    assert split_thinking(text) == run(list(text)) == expected(text) == (visible, reasoning)


@pytest.mark.parametrize("line", ["`<think>", "```\n<think>", "a `b` <think>c</think>"])
def test_many_tags_on_one_line_take_no_more_than_their_share(line: str) -> None:
    thinking = ThinkFilter()
    for _ in range(3):
        thinking.feed(line)
    kept = len("".join(thinking._unread))
    for _ in range(100):
        thinking.feed(line)
        assert len("".join(thinking._unread)) <= kept + len(line)


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
