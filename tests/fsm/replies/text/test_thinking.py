import re
import unicodedata
from collections import Counter
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.replies.text.literals import Literals
from rungwise.fsm.replies.text.tags import MOST_TAGS, TAG_NAMES, TextBefore
from rungwise.fsm.replies.text.thinking import (
    LONGEST_HELD,
    ThinkFilter,
    part_thinking,
    split_thinking,
)
from support.sampling import examples
from support.texts import cut

TAGS = [
    f"{start}{name}>"
    for name in ("think", "thinking", "reasoning", "thought", "THINK", "Thinking")
    for start in ("<", "</")
]
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
    "<reason>",
    "<thin\u212a>",
    "<think",
]
ODDS += ["<rea\u017foning>"]
PIECES = st.sampled_from(
    [*TAGS, *TAGS, *ODDS, "a", "b c", " ", "\n\n", "\u00a0", "\N{GRINNING FACE}", "e\u0301"]
)
FENCES = [
    "```\n",
    "```xml\n",
    "\n```",
    "\n```\n",
    "\n~~~\n",
    "~~~~",
    "\n   ```",
    "\n    ```",
    "\n\t```",
    " \t\r\n",
]
BLOCKS = [
    "<think>a</think>",
    "<think>`</think>",
    "<thinking>\n```\n</thinking>",
    "<think>",
    "</think>",
    "<thi",
    "nk>",
]
MARKDOWN = st.sampled_from(
    [*FENCES, *BLOCKS, *BLOCKS, "`", "`", "``", "~", "~~", "\n", "\n", " ", "a", "`a`"]
)
QUOTES = [
    '"',
    "'",
    "\u201c",
    "\u201d",
    "\u201e",
    "\u00ab",
    "\u00bb",
    '\\"',
    '{"a": "',
    "5",
    ". ",
    ".",
    ",",
    "(",
    ")",
]
QUOTES += ["\n\n"]
SENTENCES = st.sampled_from(
    [*QUOTES, *QUOTES, *BLOCKS, "</think>", "</think>", "\n", " ", "it's", "a", "`"]
)
TEXTS = (
    st.lists(PIECES, max_size=12)
    | st.lists(MARKDOWN, max_size=16)
    | st.lists(SENTENCES, max_size=16)
).map("".join)


def run(chunks: list[str], gathered: str = "", *, after_block: bool = False) -> tuple[str, str]:
    thinking = ThinkFilter(gathered, after_block=after_block)
    shown = reasoned = ""
    for act in [*(partial(thinking.feed, chunk) for chunk in chunks), thinking.close]:
        visible, reasoning = act()
        shown = visible if thinking.takes_back else shown + visible
        reasoned += reasoning
    return shown, reasoned


TAG = re.compile(
    r"<(/?)(think|thinking|reasoning|thought|mm:think|seed:think)>", re.IGNORECASE | re.ASCII
)


def expected(text: str, gathered: str = "", *, after_block: bool = False) -> tuple[str, str]:
    """Read the rules off one letter at a time, as independently of the filter as possible."""
    visible = reasoning = ""
    closed = False
    trims = False
    opened = opened_in(gathered)
    at = 0
    while at < len(text):
        found = TAG.match(text, at)
        before = gathered + visible
        line = before[before.rfind("\n") + 1 :]
        if not found or in_literal(before):
            piece = found[0] if found else text[at]
            at += len(piece)
            trims = trims and piece.isspace()
            visible += "" if trims else piece
            continue
        name = found[2].lower()
        at = found.end()
        if not found[1]:
            end = re.compile(f"</{name}>", re.IGNORECASE | re.ASCII).search(text, at)
            starts = is_blank(visible) and is_blank(line)
            again = is_blank(visible) or (is_blank(line) and (closed or after_block))
            if starts or (again and end):
                reasoning += text[at : end.start() if end else len(text)]
                closed = True
                trims = is_blank(visible)
                at = end.end() if end else len(text)
            elif again:
                return visible + text[found.start() :], reasoning
            else:
                opened[name] += 1
                visible = visible + found[0]
                trims = False
        elif opened[name]:
            opened[name] -= 1
            visible = visible + found[0]
            trims = False
        elif closed and is_blank(visible):
            trims = True
        elif closed or (after_block and gathered) or is_word(line, text[at:]):
            visible = visible + found[0]
            trims = False
        else:
            reasoning = reasoning + visible
            visible = ""
            closed = True
            opened = opened_in(gathered)
            trims = True
    return visible, reasoning


def opened_in(gathered: str) -> Counter[str]:
    """Count the tags that are open, as text, at the end of a text."""
    ends = [
        gathered[at:].lower()
        for at in range(max(0, len(gathered) - len("</reasoning")), len(gathered))
    ]
    torn = any(
        tag != end and tag.startswith(end)
        for end in ends
        for tag in [f"<{x}{name}>" for x, name in NAMES]
    )
    opened = Counter({name: 1 for _, name in NAMES} if torn else ())
    for found in TAG.finditer(gathered):
        if not in_literal(gathered[: found.start()]):
            opened[found[2].lower()] = max(0, opened[found[2].lower()] + (-1 if found[1] else 1))
    return opened


NAMES = [(slash, name) for slash in ("", "/") for name in TAG_NAMES]


def is_word(line: str, rest: str) -> bool:
    """Tell whether a closing tag between the rest of its line and what follows is a word of its
    sentence.
    """
    if rest.startswith("</") or rest[:1] in tuple("],.;:!?)}\u2019\u201d\u00bb"):
        return True
    if is_blank(line):
        return line.expandtabs(4).startswith("    ")  # an indented block of code
    if not line[-1].isspace():
        return line[-1] in "([{</\\|=~\u201c\u201e\u00ab" or line[-1] == rest[:1]
    if line.rstrip()[-1] in ".!?\u2026\"')]}*\u2019\u201d\u00bb":
        return rest.startswith(" ") and not rest.startswith(" <")
    return not rest.startswith("\n\n")


def in_literal(text: str) -> bool:
    """Tell whether a tag that follows this text is in Markdown code or in quotes."""
    return in_code(text) or in_quotes(text)


def in_quotes(text: str) -> bool:
    pairs = {
        '"': '"',
        "\u201c": "\u201d",
        "\u201e": "\u201c\u201d",
        "\u00ab": "\u00bb",
    }
    start = 0  # of the paragraph, or behind the last fence
    for at, sign in enumerate(text):
        ends_fence = sign == "\n" and open_fence(text[:at]) and not open_fence(text[: at + 1])
        if text[at - 1 : at + 1] == "\n\n" or ends_fence:
            start = at
    closing = ""
    apostrophe = False
    in_span = False
    at = start
    while at < len(text):
        sign = text[at]
        before = text[at - 1 : at]
        after = text[at + 1 : at + 2]
        if sign == "\n":
            apostrophe = in_span = False
        elif sign == "\\" and after in ('"', "'", "\\") and after:
            at += 1
        elif sign == "`" and before != "`":
            in_span = not in_span and not closing
        elif in_span or sign not in [*pairs, "\u201d", "\u00bb", "'"]:
            pass
        elif closing:
            closing = "" if sign in closing else closing
        elif sign == "'":
            apostrophe = (
                after.isalnum() if apostrophe else not (before.isalnum() or after.isspace())
            )
        elif not (sign == '"' and before.isdigit()):
            closing = pairs.get(sign, "")
        at += 1
    return bool(closing) or apostrophe or in_span


def in_code(visible: str) -> bool:
    """Tell whether a tag that follows this visible text is in a fenced block of Markdown code."""
    return bool(open_fence(visible))


def open_fence(visible: str) -> str:
    *lines, last = visible.split("\n")
    fence = ""
    for line in lines:
        if not fence:
            fence = fence_of(line)
        elif set(line.strip(" \t\r")) == {fence[0]} and len(line.strip(" \t\r")) >= len(fence):
            fence = ""
    return fence or fence_of(last)


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
        ("<thought>a</thought>b", "b", "a"),
        ("<mm:think>a</mm:think>b", "b", "a"),
        ("<seed:think>a</seed:think>b", "b", "a"),
        ("<Think>a</THINK>b", "b", "a"),
        ("<think></think>", "", ""),
        # It opens at the start of the reply, whatever blanks stand there.
        (" \n\u200b<think>a</think>b", " \n\u200bb", "a"),
        ("\ufeff<think>a</think>\n\nb", "\ufeffb", "a"),
        ("    <think>a</think>b", "    b", "a"),
        # Behind a block it opens at the start of a line.
        ("<think>a</think>b\n<reasoning>c</reasoning>d", "b\nd", "ac"),
        ("<think>a</think>b\n \t<think>c</think>\nd", "b\n \t\nd", "ac"),
        ("<think>a</think> <think>b</think>c", "c", "ab"),
        ("a\n</think>b\n<think>c</think>d", "b\nd", "a\nc"),
        # Anywhere else it is text, with its closing tag.
        (
            "a<think>b</think>c<reasoning>d</reasoning>e",
            "a<think>b</think>c<reasoning>d</reasoning>e",
            "",
        ),
        ("a\n<think>\nb\n</think>\nc", "a\n<think>\nb\n</think>\nc", ""),
        ("<think>a</think>b <think>c</think>d", "b <think>c</think>d", "a"),
        ("<b><think>a</think></b>", "<b><think>a</think></b>", ""),
        # An unclosed block is reasoning if the reply begins with it, with what looks like the
        # beginning of its end.
        ("<think>b", "", "b"),
        ("<think>b</thin", "", "b</thin"),
        ("<think>", "", ""),
        ("<think>a</think>\n<think>b", "", "ab"),
        # One that was opened later is text, and so is all that follows it.
        ("<think>a</think>b\n<think>c", "b\n<think>c", "a"),
        ("<think>a</think>b\n<think>c</thin", "b\n<think>c</thin", "a"),
        (
            "<think>a</think>b\n<think>c\n<thinking>d</thinking>e",
            "b\n<think>c\n<thinking>d</thinking>e",
            "a",
        ),
        # The closing tag is the one of the block's own name, and blocks do not nest.
        ("<think>a</thinking>b</think>c", "c", "a</thinking>b"),
        ("<think>a<think>b</think>c</think>d", "c</think>d", "a<think>b"),
        ("<thinking>a<think>b</think></thinking>c", "c", "a<think>b</think>"),
        # What is no tag stays: losing text is worse than showing it.
        ("a<thi", "a<thi", ""),
        ("a < b, c<d", "a < b, c<d", ""),
        ("<think x='1'>a", "<think x='1'>a", ""),
        ("<think >a< /think>", "<think >a< /think>", ""),
        ("<thinker>a", "<thinker>a", ""),
        ("<reason>a</reason>b", "<reason>a</reason>b", ""),
        ("<thin\u212a>a", "<thin\u212a>a", ""),
        ("<<think>a<</think>b", "<<think>a<</think>b", ""),
        ("<thi<think>a</thi</think>b", "<thi<think>a</thi</think>b", ""),
        # A closing tag without an opening one ends reasoning that began with the reply.
        # Alone on its line, whatever stands there.
        ("I add them.\n</think>\n\nIt is 4.", "It is 4.", "I add them.\n"),
        ("I add them\n  </think>  \nIt is 4.", "It is 4.", "I add them\n  "),
        ("I add them.\r\n</think>\r\nIt is 4.", "It is 4.", "I add them.\r\n"),
        ("</think>\n\na", "a", ""),
        ("\n</think>a", "a", "\n"),
        ("I add them.\n</THINKING>\n\n", "", "I add them.\n"),
        # Right before the answer, or behind the last word.
        ("I add them.</think>It is 4.", "It is 4.", "I add them."),
        ("I add them</think>\n\nIt is 4.", "It is 4.", "I add them"),
        ("I add them. </think>\nIt is 4.", "It is 4.", "I add them. "),
        ("I add them. </think> <answer>4</answer>", "<answer>4</answer>", "I add them. "),
        ("I add them </think>\n\nIt is 4.", "It is 4.", "I add them "),
        ("I add them.</reasoning>", "", "I add them."),
        # The quotes and the code before it have ended, and an apostrophe or an inch is no quote.
        ('I say "4".</think>4', "4", 'I say "4".'),
        ('A 27" screen.\n</think>\n\nBuy it.', "Buy it.", 'A 27" screen.\n'),
        ("That's the dogs' tag\n</think>\nWoof", "Woof", "That's the dogs' tag\n"),
        ('An open "quote\n\nand\n</think>\n4', "4", 'An open "quote\n\nand\n'),
        ("```\na\n```\n</think>\nb", "b", "```\na\n```\n"),
        ("`</think>`, then\n</think>\nb", "b", "`</think>`, then\n"),
        ('"</think>", then\n</think>\nb', "b", '"</think>", then\n'),
        # A tag in quotes or in code opens nothing either.
        ("`<think>` opens it\n</think>\nb", "b", "`<think>` opens it\n"),
        # It ends the first block only; where nothing has been said since, it is dropped.
        ("a\n</think>b\n</think>c", "b\n</think>c", "a\n"),
        ("<think>a</think>\n</think>\n\nb", "b", "a"),
        # The whitespace between a block and the first word is dropped, and no other.
        ("<think>a</think>\n<think>b</think> \n c d\n", "c d\n", "ab"),
        ("\n<think>a</think>\n\nb", "\nb", "a"),
        ("<think>a</think>b\n<think>c</think>\n\nd", "b\n\n\nd", "ac"),
        ("<think>a</think>\u200b\n\nb", "\u200b\n\nb", "a"),
        ("\n\na", "\n\na", ""),
        ("<think>a</think>\n\n<thi", "<thi", "a"),
    ],
)
def test_parts_reasoning_from_text(text: str, visible: str, reasoning: str) -> None:
    assert split_thinking(text) == expected(text) == (visible, reasoning)
    assert run([text]) == run(list(text)) == (visible, reasoning)


@pytest.mark.parametrize(
    "text",
    [
        '{"tag": "<think>", "n": 1}',
        '{"tag": "</think>", "n": 1}',
        '{"tag":"a</think>b"}',
        '{"a": "\\"</think>b"}',
        'He wrote "one\n</think>\ntwo".',
        "He wrote \u201cone</think>two\u201d.",
        "The tag is 'a</think>b'.",
        "Use the </think> tag.",
        "You end it with </think>.",
        "You end it with </think>",
        "You end it with </think>\nand go on.",
        "It works. </think> is the tag.",
        "(</think>)",
        "|</think>|",
        "a</think>, b",
        "<a></think></a>",
        "In <think> and\n</think>\nstands nothing.",
        "`a</think>b`",
        "```\n</think>\n```\na",
        "~~~\na\n</think>\nb",
        # In Markdown code.
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
def test_a_tag_that_the_answer_is_about_is_text(text: str) -> None:
    assert split_thinking(text) == expected(text) == run(list(text)) == (text, "")


@pytest.mark.parametrize(
    ("gathered", "text", "visible"),
    [
        # Within code and quotes a tag is text, also where they began in an earlier part.
        ("```xml\n", "<think>\na\n</think>\n```\nb", "<think>\na\n</think>\n```\nb"),
        ("```xml\n<think>\na", "\n</think>\n```\nb", "\n</think>\n```\nb"),
        ("``", "`\n<think>a</think>", "`\n<think>a</think>"),
        ("A `", "<think>` tag", "<think>` tag"),
        ('{"tag": "', '<think>", "n": 1}', '<think>", "n": 1}'),
        ('{"tag": "a', '</think>b"}', '</think>b"}'),
        ("\u201ca", "</think>b\u201d", "</think>b\u201d"),
        # On a line that has begun it must be closed, as in a new turn that begins with reasoning.
        ("The tag ", "<think> opens.", "<think> opens."),
        ("Part one, ", "<think>then</think>part two.", "part two."),
        ("Part one.\n", "<think>then", ""),
        # A closing tag goes with the opening one in an earlier part, also with one that was cut.
        ("In <think>", "a\n</think>\nb", "a\n</think>\nb"),
        ("In\n<thi", "nk>a\n</think>\nb", "nk>a\n</think>\nb"),
        ("In <think>a</think>", "b\n</think>\nc", "c"),
        ("I add", " them.\n</think>\n\nIt is 4.", "It is 4."),
        # The code has ended.
        ("```\na\n```\n", "b\n</think>\nc", "c"),
        ("```\na\n", "```\nb\n</think>\nc", "c"),
        ('"a"', "b\n</think>\nc", "c"),
    ],
)
def test_a_part_begins_where_the_text_before_it_ends(
    gathered: str, text: str, visible: str
) -> None:
    assert split_thinking(text, gathered) == expected(text, gathered)
    assert split_thinking(text, gathered)[0] == run(list(text), gathered)[0] == visible


SHOWS_NOTHING = ["", " ", "   ", "\xa0", "\xa0    ", "\u200b\t", "\x0b"]


@pytest.mark.parametrize("line", [*SHOWS_NOTHING, "    ", "\t", "  \t", "      "])
def test_a_closing_tag_alone_on_its_line_ends_reasoning_but_where_it_is_indented_code(
    line: str,
) -> None:
    text = f"a\n{line}</think>\nb"
    ended = ("b", f"a\n{line}") if line in SHOWS_NOTHING else (text, "")
    assert split_thinking(text) == ended


def test_behind_a_block_in_an_earlier_part_one_opens_at_the_start_of_a_line() -> None:
    text = "a\n<think>b</think>c"
    assert split_thinking(text, "So: ") == (text, "")
    assert split_thinking(text, "So: ", after_block=True) == ("a\nc", "b")


def test_a_later_block_is_held_back_until_it_closes_and_no_longer_than_that_pays() -> None:
    thinking = ThinkFilter()
    assert thinking.feed("<think>a</think>b\n<think>") == ("b\n", "a")
    assert thinking.feed("c" * LONGEST_HELD) == ("", "")
    assert thinking.feed("</think>d") == ("d", "c" * LONGEST_HELD)
    assert thinking.feed("\n<think>") == ("\n", "")
    assert thinking.feed("c" * (LONGEST_HELD + 1)) == ("<think>" + "c" * (LONGEST_HELD + 1), "")
    chunk = "</think>"
    assert thinking.feed(chunk)[0] is chunk


@pytest.mark.full
@pytest.mark.parametrize("size", [LONGEST_HELD, LONGEST_HELD + 1])
@pytest.mark.parametrize("chunk", [1, 1000, 2**20])
def test_how_long_a_later_block_may_be_does_not_hang_on_the_chunks(size: int, chunk: int) -> None:
    text = "<think>a</think>b\n<think>" + "c" * size + "</think>d"
    shown = run([text[at : at + chunk] for at in range(0, len(text), chunk)])
    assert shown == split_thinking(text)
    assert (shown[1] == "a") is (size > LONGEST_HELD)


MANY_TAGS = [
    "</think>",
    "<think>",
    "<think>x</think>\n",
    "`</think>`\n",
    '"<think>" ',
    "\n</reasoning>\n",
]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List how many letters are read each time."""
    sizes: list[int] = []
    real = Literals.read
    monkeypatch.setattr(
        Literals, "read", lambda self, text: sizes.append(len(text)) or real(self, text)
    )
    return sizes


@pytest.mark.parametrize("unit", MANY_TAGS)
def test_only_so_many_tags_are_looked_at_and_what_follows_is_text(
    unit: str, read: list[int]
) -> None:
    text = "a\n" + unit * 20_000 + "the end"
    visible, reasoning = split_thinking(text)
    assert len(read) <= 2 * MOST_TAGS
    assert visible.endswith(f"{unit * 100}the end")
    assert len(visible) + len(reasoning) + MOST_TAGS * len("<reasoning></reasoning>\n") >= len(text)
    split_thinking("b", text)
    assert len(read) <= 4 * MOST_TAGS


@pytest.mark.parametrize("unit", MANY_TAGS)
@pytest.mark.parametrize("chunk", [1, 7])
def test_how_many_tags_are_looked_at_does_not_hang_on_the_chunks(
    unit: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rungwise.fsm.replies.text.thinking.MOST_TAGS", 5)
    for start in ("", "<think>a</think>", "b\n"):
        text = start + unit * 8 + "c"
        assert run([text[at : at + chunk] for at in range(0, len(text), chunk)]) == split_thinking(
            text
        )


@pytest.mark.parametrize(
    ("text", "visible", "reasoning"),
    [
        # The code has ended.
        ("`a\n<think>b</think>c", "`a\nc", "b"),
        ("```\n<think>\n```\n<think>a</think>b", "```\n<think>\n```\nb", "a"),
        ("~~~\na\n ~~~~ \t\r\n<think>b</think>c", "~~~\na\n ~~~~ \t\r\nc", "b"),
        ("```\n    ```\n<think>a</think>b", "```\n    ```\nb", "a"),
        # It never was any: too short, too far in, or not where a line begins.
        ("~~\n<think>a</think>b", "~~\nb", "a"),
        ("    ~~~\n<think>a</think>b", "    ~~~\nb", "a"),
        ("\t```\n<think>a</think>b", "\t```\nb", "a"),
        ("a ```\n<think>b</think>c", "a ```\nc", "b"),
        # The visible text counts, without the blocks: they part neither a line nor a fence.
        ("   <think>a</think>~~~\n<think>b</think>", "   ~~~\n<think>b</think>", "a"),
        ("    <think>a</think>~~~\n<think>b</think>", "    ~~~\n", "ab"),
        # Code in a block is reasoning, and its end counts there.
        ("<think>```\n`</think>a", "a", "```\n`"),
        ("<think>`</think>`", "`", "`"),
    ],
)
def test_only_code_in_the_visible_text_makes_a_tag_text(
    text: str, visible: str, reasoning: str
) -> None:
    if text.startswith("<think>"):
        assert split_thinking(text) == run(list(text)) == expected(text) == (visible, reasoning)
    text = f"<think>0</think>-\n{text}"
    visible = f"-\n{visible}"
    reasoning = f"0{reasoning}"
    assert split_thinking(text) == run(list(text)) == expected(text) == (visible, reasoning)


@pytest.mark.parametrize(
    "text",
    [
        "`<think>",
        "```\n<think>",
        "</think>,",
        "a <think>",
        "<think>a</think>",
        "\n</think>,",
        "\n<think>",
    ],
)
def test_every_letter_is_read_once_however_many_tags_there_are(text: str, read: list[int]) -> None:
    gathered = "It says: <think> and `</think>`.\n" * 50
    run(list(text * 500), gathered)
    assert sum(read) <= len(gathered) + len(text * 500)


@pytest.mark.parametrize(
    "part",
    ["It says `<think>`. ", "It says <think> so.\n", "<think>a</think>b ", "```\n</think>\n"],
)
def test_every_letter_of_the_text_before_is_read_once_however_many_parts_there_are(
    part: str, read: list[int]
) -> None:
    followed = TextBefore()
    gathered = "Before it. "
    for _ in range(200):
        gathered += part_thinking(part, gathered, read=followed, after_block=True).visible
    assert sum(read) <= len(gathered) + 200 * 2 * len(part)


@pytest.mark.parametrize("sign", ["'a'", '"', "`c` ", '\\"', "```\n"])
def test_behind_more_signs_than_any_text_has_no_tag_is_meant(
    sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rungwise.fsm.replies.text.literals.MOST_SIGNS", 40)
    few = sign * 8 + "\n"
    many = sign * 80 + "\n"
    assert split_thinking(f"{few}</think>a") == run(list(f"{few}</think>a")) == ("a", few)
    assert (
        split_thinking(f"{many}</think>a")
        == run(list(f"{many}</think>a"))
        == (f"{many}</think>a", "")
    )


def test_holds_back_no_more_than_the_split_tag() -> None:
    thinking = ThinkFilter()
    assert thinking.feed("answer <thi") == ("answer ", "")
    assert thinking.feed("s") == ("<this", "")
    thinking = ThinkFilter()
    assert thinking.feed("<reasoning>so</reasonin") == ("", "so")
    assert thinking.feed("/") == ("", "</reasonin/")
    assert thinking.feed("<") == ("", "")
    assert thinking.close() == ("", "<")


def test_returns_a_chunk_without_tags_as_it_is() -> None:
    thinking = ThinkFilter()
    for chunk in ["Hello, ", "world. " * 3, ""]:
        assert thinking.feed(chunk)[0] is chunk
    thinking = ThinkFilter()
    thinking.feed("<think>so")
    chunk = " and so on"
    assert thinking.feed(chunk)[1] is chunk
    assert split_thinking(chunk)[0] is chunk


@given(TEXTS, st.lists(st.integers(0, 200), max_size=20), st.just("") | TEXTS, st.booleans())
@settings(max_examples=examples(300))
def test_every_chunking_gives_the_same(
    text: str,
    places: list[int],
    gathered: str,
    after_block: bool,
) -> None:
    # a run that goes on in the part is one run; the reference reads them apart
    gathered = gathered.rstrip("`~")
    parted = split_thinking(text, gathered, after_block=after_block)
    assert parted == expected(text, gathered, after_block=after_block)
    assert parted == run(cut(text, places), gathered, after_block=after_block)
    assert parted == run(list(text), gathered, after_block=after_block)


@given(st.lists(TEXTS, min_size=1, max_size=8), TEXTS, st.booleans())
@settings(max_examples=examples(300))
def test_a_text_before_that_was_followed_is_as_good_as_one_read_anew(
    parts: list[str], text: str, after_block: bool
) -> None:
    followed = TextBefore()
    gathered = ""
    for part in parts:
        gathered += part
        for following in (
            text,
            "</think>\n",
            "</think>and",
            "\n<think>so</think>",
            f"'{text}</think>\n",
        ):
            again = part_thinking(following, gathered, read=followed, after_block=after_block)
            assert again == part_thinking(following, gathered, after_block=after_block)
            if gathered == gathered.rstrip("`~"):
                assert again[:2] == expected(following, gathered, after_block=after_block)


@given(st.text().filter(lambda text: "<" not in text), st.lists(st.integers(0, 200), max_size=5))
def test_text_without_tags_is_handed_out_at_once(text: str, places: list[int]) -> None:
    thinking = ThinkFilter()
    assert all(thinking.feed(chunk) == (chunk, "") for chunk in cut(text, places))


@given(TEXTS, st.lists(st.integers(0, 200), max_size=20))
def test_holds_back_no_more_than_one_tag_and_a_letter_but_for_a_later_block(
    text: str, places: list[int]
) -> None:
    thinking = ThinkFilter()
    for chunk in cut(text, places):
        thinking.feed(chunk)
    held = sum(map(len, thinking.close()))
    assert held <= len("</reasoning> ") or thinking.takes_back or "</" in text


@pytest.mark.parametrize("text", ["<think>b</think> c", "<think>b"])
def test_a_turn_of_its_own_may_begin_with_reasoning_amid_a_line(text: str) -> None:
    for size in range(1, len(text) + 1):
        thinking = ThinkFilter("So: ", is_new_turn=True)
        pieces = [thinking.feed(text[at : at + size]) for at in range(0, len(text), size)]
        visible, reasoning = map("".join, zip(*pieces, thinking.close(), strict=True))
        assert (visible, reasoning) == part_thinking(text, "So: ", is_new_turn=True)[:2]
        assert (visible, reasoning) == ("c" if "c" in text else "", "b")


def test_a_turn_of_its_own_within_code_is_text_all_the_same() -> None:
    assert part_thinking("<think>b", "```\nx = ", is_new_turn=True).visible == "<think>b"


# what shows nothing


INVISIBLE = (
    "",
    " ",
    "\n",
    "\t",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u2028",
    "\x00",
    "\x1b",
    "\x7f",
    "\u0085",
    "\u00ad",
    "\u200b",
    "\u200d",
    "\u200e",
    "\u2060",
    "\u2065",
    "\u3164",
    "\u115f",
    "\u1160",
    "\uffa0",
    "\u2800",
    "\ufeff",
    "\ufe0f",
    "\u034f",
    "\u061c",
    "\u17b4",
    "\u180b",
    "\u180e",
    "\ufffe",
    "\uffff",
    "\ud800",
    "\udfff",
    "\U000e0001",
    "\U000e0100",
    "\U000e01ef",
    "\U000e0fff",
    "\U0010ffff",
    "\U0001d159",
    "\U0001d173",
    "\u0378",
)
VISIBLE = (
    "a",
    "0",
    ".",
    "-",
    "<",
    "\u00e9",
    "\u0301",
    "\u4f60",
    "\N{FOX FACE}",
    "\ufffd",
    "\u2581",
    "\U0001fae8",
)


@pytest.mark.parametrize("letter", INVISIBLE, ids=ascii)
def test_what_shows_nothing_is_blank(letter: str) -> None:
    assert is_blank(letter)
    assert is_blank(f" {letter}\u200b{letter * 100}\n")


@pytest.mark.parametrize("letter", VISIBLE, ids=ascii)
def test_what_shows_is_not(letter: str) -> None:
    assert not is_blank(letter)
    assert not is_blank("\ufeff\n\u200b" * 100 + letter)


@given(st.lists(st.sampled_from(INVISIBLE)).map("".join), st.text())
def test_one_letter_is_enough(blank: str, text: str) -> None:
    assert is_blank(blank)
    assert (
        is_blank(blank + text)
        == is_blank(text + blank)
        == is_blank(text)
        == all(map(is_blank, text))
    )


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_letters_numbers_and_signs_show(text: str) -> None:
    fillers = {letter for letter in text if "FILLER" in unicodedata.name(letter, "")} | {
        "\u2800",
        "\U0001d159",
    }
    assert is_blank(text) == (set(text) <= fillers)
