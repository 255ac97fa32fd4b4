"""Replies that come in the channels of gpt-oss, or between tags, as the text of the answer."""

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rungwise.fsm.replies.text.tags import TAG, TAG_NAMES
from rungwise.fsm.replies.text.thinking import ThinkFilter, part_thinking, split_thinking
from support.sampling import examples
from support.texts import cut

ANALYSIS = "<|channel|>analysis<|message|>"
FINAL = "<|channel|>final<|message|>"
START = "<|start|>assistant"
NEXT = f"<|end|>{START}"
CALL = '<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"a": 1}<|call|>'


def in_pieces(pieces: list[str], gathered: str = "", **how: bool) -> tuple[str, str]:
    thinking = ThinkFilter(gathered, **how)
    visible, reasoning = map("".join, zip(*map(thinking.feed, [*pieces, ""]), strict=True))
    visible_rest, reasoning_rest = thinking.close()
    return visible + visible_rest, reasoning + reasoning_rest


def split_everywhere(text: str) -> tuple[str, str]:
    """Split a text that is cut at each place, and into pieces of each size."""
    whole = split_thinking(text)
    for at in range(len(text)):
        assert in_pieces([text[:at], text[at:]]) == whole
    for size in range(1, 12):
        assert in_pieces([text[at : at + size] for at in range(0, len(text), size)]) == whole
    return whole


@pytest.mark.parametrize(
    ("text", "visible", "reasoning"),
    [
        (f"{ANALYSIS}a{NEXT}{FINAL}b", "b", "a"),
        (f"{START}{ANALYSIS}a{NEXT}{FINAL}b<|return|>", "b", "a"),
        (f" \n{ANALYSIS}a{NEXT}{FINAL}b<|end|>\n", " \nb", "a"),
        (f"{ANALYSIS}a<|end|>\n{START}{FINAL}\n\nb ", "\n\nb ", "a"),
        (f"{FINAL}b<|return|>", "b", ""),
        (f"{ANALYSIS}a{NEXT}<|channel|>final <|constrain|>json<|message|>{{}}", "{}", "a"),
        (f"{ANALYSIS}a{NEXT}{ANALYSIS}b{NEXT}{FINAL}c", "c", "ab"),
        # The answer is the final channel alone.
        (f"<|channel|>commentary<|message|>a{NEXT}{FINAL}b", "b", "a"),
        # A tool call in the text is none, and no answer.
        (f"{ANALYSIS}a{NEXT}{CALL}", "", 'a\nfunctions.look {"a": 1}'),
        (f"{CALL} {{}}", "", '\nfunctions.look {"a": 1}{}'),
        (
            f"{START} to=functions.look<|channel|>analysis<|message|>{{}}<|call|>",
            "",
            "\nfunctions.look {}",
        ),
        (f"{FINAL}b{NEXT}{CALL}", "b", '\nfunctions.look {"a": 1}'),
        # What servers lose.
        (f"{ANALYSIS}a<|end|>{FINAL}b", "b", "a"),
        (f"{ANALYSIS}a{FINAL}b", "b", "a"),
        (f'{ANALYSIS}a<|end|>{{"b": 1}}<|return|>', '{"b": 1}', "a"),
        # Cut.
        (f"{ANALYSIS}a", "", "a"),
        (f"{ANALYSIS}a<|en", "", "a<|en"),
        (f"{ANALYSIS}a<|end|>", "", "a"),
        (f"{ANALYSIS}a{NEXT}", "", "a"),
        (f"{ANALYSIS}a{NEXT}<|channel|>fin", "", "a"),
        (f"{ANALYSIS}a{NEXT}{FINAL}", "", "a"),
        (f"{ANALYSIS}a{NEXT}{FINAL}b <", "b <", "a"),
        # Tags in channels mean nothing.
        (f"{ANALYSIS}</think>{NEXT}{FINAL}<think>b</think>", "<think>b</think>", "</think>"),
        # An answer about markers.
        (f"{FINAL}`{NEXT}{FINAL}b`", f"`{NEXT}{FINAL}b`", ""),
        (f"{FINAL}<|end|> ends, {ANALYSIS} opens", f"<|end|> ends, {ANALYSIS} opens", ""),
    ],
)
def test_the_final_channel_is_the_answer_and_the_others_are_reasoning(
    text: str, visible: str, reasoning: str
) -> None:
    assert split_everywhere(text) == (visible, reasoning)


@pytest.mark.parametrize(
    "text",
    [
        f"It writes {ANALYSIS}a{NEXT}{FINAL}b",
        f"`{ANALYSIS}a`",
        "<|channel|>thoughts<|message|>a",
        "<|channel|>analysis",
        "<|channel|>analysis opens the reasoning.",
        "<|channel|>finally<|message|>a",
        "<|start|>user<|message|>a<|end|>",
        "<|message|>a<|end|>",
        "<|end|>a",
        "<|",
        "analysisIt is simple.assistantfinalb",
        "<channel>analysis<message>a",
        f"<|channel|>final{' ' * 200}<|message|>b",
    ],
)
def test_a_reply_that_begins_otherwise_is_text(text: str) -> None:
    assert split_everywhere(text) == (text, "")


@pytest.mark.parametrize(
    ("gathered", "is_new_turn", "reads"),
    [
        ("Part one.\n", False, True),
        ("Part one, ", True, True),
        ("It begins with ", False, False),
        ("```\n", True, False),
        ('{"a": "', True, False),
    ],
)
def test_a_later_part_begins_with_a_channel_where_a_model_would_open_its_reasoning(
    gathered: str, is_new_turn: bool, reads: bool
) -> None:
    text = f"{ANALYSIS}a{NEXT}{FINAL}b"
    ended = ("b", "a") if reads else (text, "")
    assert part_thinking(text, gathered, is_new_turn=is_new_turn)[:2] == ended
    assert in_pieces(list(text), gathered, is_new_turn=is_new_turn) == ended


@pytest.mark.parametrize(
    "unit", ["<|end|>", "<|", f"<|end|>{' ' * 16}", f"{NEXT} ", f"<|end|>{FINAL}'", "<|channel|>"]
)
@pytest.mark.parametrize("channel", [ANALYSIS, FINAL])
def test_no_more_is_held_back_than_an_end_and_a_header(unit: str, channel: str) -> None:
    thinking = ThinkFilter()
    sent = came = 0
    for piece in [channel, *(unit * 300)]:
        sent += len(piece)
        came += sum(map(len, thinking.feed(piece)))
    text = channel + unit * 300
    rest = sum(map(len, thinking.close()))
    assert rest <= 600
    assert came + rest == sum(map(len, split_thinking(text))) <= sent


@pytest.mark.parametrize("blank", ["", " \n", "\ufeff"])
@pytest.mark.parametrize("letters", ["<|chan", "<|start|>assistant", f"{START}<|channel|>final x"])
def test_what_may_be_a_channel_is_held_only_as_long_as_it_may(blank: str, letters: str) -> None:
    thinking = ThinkFilter()
    assert thinking.feed(blank + letters) == (blank, "")
    assert thinking.feed("<b") == (f"{letters}<b", "")
    chunk = " and so on"
    assert thinking.feed(chunk)[0] is chunk


def test_a_piece_of_a_channel_without_a_marker_is_handed_out_at_once() -> None:
    thinking = ThinkFilter()
    assert thinking.feed(ANALYSIS) == ("", "")
    assert thinking.feed("So it") == ("", "So it")
    assert thinking.feed(" is.<|e") == ("", " is.")
    assert thinking.feed(f"nd|>{START}") == ("", "")
    assert thinking.feed(f"{FINAL}It ") == ("It ", "")
    assert thinking.feed("is.") == ("is.", "")


MARKERS = ["<|end|>", "<|return|>", "<|call|>", START, ANALYSIS, FINAL, CALL, NEXT, "<|message|>"]
SIGNS = ["<", "|", ">", "<|", "|>", "<|end", "end|>", "a", "b c", " ", "\n\n", "`", '"', "<b>"]
WORDS = ["<think>", "</think>", "<thought>", "to=x", "analysis", "assistantfinal", "\u4f60", "{}"]
LETTERS = st.lists(st.sampled_from([*SIGNS, *WORDS]), max_size=12).map("".join)
PLACES = st.lists(st.integers(0, 300), max_size=20)
STARTS = st.sampled_from(["", START, f"{START} "])
BETWEEN = st.sampled_from(["<|end|>", f"<|end|>{START}", f"<|end|>\n{START}"])
ENDS = st.sampled_from(["", "<|return|>", "<|end|>", "<|return|>\n"])


@given(LETTERS | st.text(), LETTERS | st.text(), STARTS, BETWEEN, ENDS, PLACES)
@settings(max_examples=examples(300))
@example("<|", "a<|", "", f"<|end|>{START}", "<|return|>", [])
def test_channels_give_exactly_the_reasoning_and_the_answer_that_they_frame(
    answer: str, reasoning: str, start: str, between: str, end: str, places: list[int]
) -> None:
    text = f"{start}{ANALYSIS}{reasoning}{between}{FINAL}{answer}{end}"
    assume(not any(marker in reasoning or marker in answer for marker in MARKERS))
    assert in_pieces(cut(text, places)) == split_thinking(text) == (answer, reasoning)
    assert in_pieces(list(text)) == (answer, reasoning)


@given(st.sampled_from(TAG_NAMES), LETTERS | st.text(), LETTERS, PLACES)
@settings(max_examples=examples(300))
def test_tags_give_exactly_the_reasoning_and_the_answer_that_they_frame(
    name: str, answer: str, reasoning: str, places: list[int]
) -> None:
    answer = answer.lstrip()
    assume(not TAG.search(reasoning) and not TAG.search(answer))
    text = f"<{name}>{reasoning}</{name}>{answer}"
    assert in_pieces(cut(text, places)) == split_thinking(text) == (answer, reasoning)


@given(LETTERS | st.text(), LETTERS, PLACES)
@settings(max_examples=examples(300))
def test_a_text_that_does_not_begin_with_a_channel_or_a_tag_is_unchanged(
    before: str, reasoning: str, places: list[int]
) -> None:
    text = f"{before}a {ANALYSIS}{reasoning}{NEXT}{FINAL}b"
    assume("<|channel|>" not in before and not TAG.search(text))
    assert in_pieces(cut(text, places)) == split_thinking(text) == (text, "")


MARKUP = st.lists(st.sampled_from([*MARKERS, *MARKERS, *SIGNS, *WORDS]), max_size=16).map("".join)


@given(MARKUP, st.sampled_from(["", "a ", "a\n", "`"]), st.booleans(), PLACES)
@settings(max_examples=examples(300))
def test_every_chunking_of_any_markup_gives_the_same(
    text: str, gathered: str, is_new_turn: bool, places: list[int]
) -> None:
    assume("</think>" not in text)  # it may take back what was shown
    whole = part_thinking(text, gathered, is_new_turn=is_new_turn)[:2]
    assert in_pieces(cut(text, places), gathered, is_new_turn=is_new_turn) == whole
    assert in_pieces(list(text), gathered, is_new_turn=is_new_turn) == whole
