import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rungwise.fsm.replies.text.stitching import (
    LONGEST_SOUGHT,
    MINIMUM_ECHO,
    MINIMUM_OVERLAP,
    SeamFilter,
    stitch,
)
from support.texts import cut

STORY = "Once upon a time there was a fox. It lived in a wood, and it was"


def run(
    gathered: str,
    chunks: list[str],
    *,
    echoes: bool = False,
    stripped: str = "",
) -> str:
    seam = SeamFilter(gathered, echoes=echoes, stripped=stripped)
    return "".join([*map(seam.feed, chunks), seam.close()])


def periodic(text: str) -> bool:
    return any(text[period:] == text[:-period] for period in range(1, len(text) // 2 + 1))


def expected(
    gathered: str,
    part: str,
    *,
    echoes: bool = False,
    stripped: str = "",
) -> str:
    """Read the rules off word for word, trying every length."""
    stripped = stripped if gathered.endswith(stripped) else ""
    sent = gathered[: len(gathered) - len(stripped)]
    if not gathered:
        return part
    if echoes and part.startswith(gathered):
        return part[len(gathered) :]
    if echoes and gathered.startswith(part):
        return ""
    if echoes and sent and part.startswith(sent):
        return part[len(sent) :]
    kept = part[len(stripped) :] if part.startswith(stripped) else part
    core = gathered.strip()
    unsure = periodic(gathered) or periodic(core)
    for text in (gathered, gathered.rstrip(), core):
        if part.startswith(text) and len(text) >= MINIMUM_ECHO:
            if periodic(gathered) or periodic(text):
                break
            rest = part[len(text) :]
            spaces = gathered[len(gathered.rstrip()) :] if text != gathered else ""
            return "" if spaces.startswith(rest) else rest.removeprefix(spaces)
        if text.startswith(part) and len(part) >= MINIMUM_OVERLAP:
            more = part[: max(MINIMUM_OVERLAP, len(part) // 2)]
            if not (unsure or periodic(part) or text[len(part) :].startswith(more)):
                return ""
            break
    for size in range(min(len(gathered), len(part)), MINIMUM_OVERLAP - 1, -1):
        said = part[:size]
        if gathered.endswith(said):
            before = gathered[: len(gathered) - size].endswith(
                said[-max(MINIMUM_OVERLAP, size // 2) :]
            )
            if unsure or before or periodic(said) or not any(map(str.isalnum, said)):
                break
            return part[size:]
    return kept


@pytest.mark.parametrize(
    ("gathered", "part", "new"),
    [
        ("", "anything", "anything"),
        ("anything", "", ""),
        # Echo: all of it comes back.
        (STORY, STORY + " happy.", " happy."),
        (STORY, STORY, ""),
        ("abcdef", "abcdef!", "!"),
        ("abcde", "abcde!", "abcde!"),
        ("Ha", "Ha", "Ha"),
        # Restart: nothing but the beginning comes back.
        (STORY, STORY[:12], ""),
        (STORY, STORY[:40], ""),
        (STORY, STORY[:11], STORY[:11]),
        # A restart that goes elsewhere is not the beginning any more.
        (STORY, STORY[:20] + "were two foxes.", STORY[:20] + "were two foxes."),
        # Overlap: the end comes back, once.
        (STORY, "in a wood, and it was happy.", " happy."),
        (STORY, " and it was happy.", " and it was happy."),
        (STORY, ", and it was happy.", " happy."),
        (STORY, STORY[-20:], ""),
        (STORY, STORY[-20:] * 2, STORY[-20:]),
        # The longest overlap counts, not the first that fits.
        ("x: one two three four, one two three four, one", "one two three four, one more", " more"),
        # A match in the middle proves nothing, on either side.
        (STORY, "there was a fox. And then", "there was a fox. And then"),
        (STORY, "So: lived in a wood, and it was happy.", "So: lived in a wood, and it was happy."),
        (STORY, "Again. " + STORY, "Again. " + STORY),
        # Case, spaces and accents are not evened out.
        (STORY, "In a wood, and it was happy.", "In a wood, and it was happy."),
        (STORY, " in a  wood, and it was happy.", " in a  wood, and it was happy."),
        ("a plate of cre\u0300me", "a plate of cr\u00e8me brulee", "a plate of cr\u00e8me brulee"),
        # Whitespace at the cut belongs to the text.
        ("Hello ", "world", "world"),
        ("Hello", " world", " world"),
        ("one\n\n", "\n\ntwo", "\n\ntwo"),
        # An echo may lack the whitespace around the text: clients, servers and templates strip it.
        ("The end of w004\n\n", "The end of w004 w005", " w005"),
        ("The end of w004\n\n", "The end of w004", ""),
        ("The end of w004\n\n", "The end of w004\n", ""),
        ("The end of w004\n\n", "The end of w004\n\nw005", "w005"),
        ("\n\nThe end of w004\n", "The end of w004\nw005", "w005"),
        ("\n\nThe end of w004", "The end of", "The end of"),
        ("\n\nThe end of w004", "The end of w0", ""),
        ("A fox\n", "A fox ran", "A fox ran"),
        ("abcabc\n", "abcabc\nd", "d"),
        ("abcabc\n", "abcabcd", "abcabcd"),
        # Emoji outside the basic plane count one each: 12 are enough, 11 are not.
        ("so: a\N{FOX FACE}bcdefghijk", "a\N{FOX FACE}bcdefghijk!", "!"),
        ("so: a\N{FOX FACE}bcdefghij", "a\N{FOX FACE}bcdefghij!", "a\N{FOX FACE}bcdefghij!"),
        # A sequence cut inside goes on with its joiner, its variation or its mark.
        (
            "the fine family \U0001f468",
            "the fine family \U0001f468\u200d\U0001f469",
            "\u200d\U0001f469",
        ),
        ("let us meet in the cafe", "meet in the cafe\u0301 then", "\u0301 then"),
        (
            "\u4eca\u65e5\u306f\u3068\u3066\u3082\u826f\u3044\u5929\u6c17\u3067\u3059\u306d",
            "\u306d\u3048",
            "\u306d\u3048",
        ),
    ],
)
def test_drops_what_is_anchored_at_the_seam(gathered: str, part: str, new: str) -> None:
    assert stitch(gathered, part) == new
    assert run(gathered, list(part)) == new


@pytest.mark.parametrize(
    ("gathered", "part"),
    [
        ("The zeros: 0, 0, 0, 0, 0, ", "0, 0, 0, 0, 0, 0, 1"),
        ("| a | b |\n| --- | --- | --- |", "| --- | --- | --- |\n| 1 | 2 |"),
        ("Title\n================", "================\nText"),
        ("They sang: la la la la la ", "la la la la la la"),
        ("code:\n                ", "                return"),
        ("Very good, sir. He said: Very good! Very good! ", "Very good! Very good! Indeed."),
        ("end\n    }\n  }\n}\n}\n", "\n    }\n  }\n}\n}\nnext"),
    ],
)
def test_keeps_a_repeat_that_may_be_meant(gathered: str, part: str) -> None:
    assert stitch(gathered, part) == part
    assert run(gathered, list(part)) == part


@pytest.mark.parametrize(
    ("gathered", "part", "echoes", "stripped", "new"),
    [
        # A declared echo has no minimum, may be cut short, and may lack what was not sent.
        ("A", "A cat", True, "", " cat"),
        ("A cat", "A c", True, "", ""),
        ("Hello \n", "Hello world", True, " \n", " world"),
        ("Hello \n", "Hello \nworld", True, " \n", "world"),
        ("Hello \n", "Hello ", True, " \n", ""),
        ("Hello \n", "Hello world", False, " \n", "Hello world"),
        (" \n", "\nworld", True, " \n", "\nworld"),
        # A backend that declares an echo and brings none.
        ("A cat", " sat", True, "", " sat"),
        # Whitespace kept off the wire and sent again.
        ("Hello\n\n", "\n\nworld", False, "\n\n", "world"),
        ("Hello\n\n", "\n\n\nworld", False, "\n\n", "\nworld"),
        ("Hello\n\n", "\nworld", False, "\n\n", "\nworld"),
        ("Hello\n\n", "world", False, "\n\n", "world"),
        ("Hello\n\n", "\n", False, "\n\n", "\n"),
        ("Hello", " world", False, " ", " world"),
        # It is dropped only where no other rule has fired.
        ("\n one two three \n", "\n one two three \n\n x", False, "\n", "\n x"),
    ],
)
def test_knows_what_was_sent(
    gathered: str,
    part: str,
    echoes: bool,
    stripped: str,
    new: str,
) -> None:
    assert stitch(gathered, part, echoes=echoes, stripped=stripped) == new
    assert run(gathered, list(part), echoes=echoes, stripped=stripped) == new


WORDS = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        " ",
        "\n",
        "-",
        "one two three",
        "0, ",
        "\N{FOX FACE}",
        "e\u0301",
        "aaaaaaaaaaaa",
    ]
)
TEXTS = st.lists(WORDS, max_size=12).map("".join)


@st.composite
def seams(draw: st.DrawFn) -> tuple[str, str, bool, str]:
    """Draw a text, a part that tends to repeat some of it, and how it was sent."""
    gathered = draw(TEXTS)
    begin, end = sorted((draw(st.integers(0, len(gathered))), draw(st.integers(0, len(gathered)))))
    repeat = draw(
        st.sampled_from(
            ["", gathered, gathered.rstrip(), gathered[:end], gathered[begin:], gathered[begin:end]]
        )
    )
    spaces = len(gathered) - len(gathered.rstrip())
    stripped = draw(st.sampled_from(["", " ", gathered[len(gathered) - spaces :]]))
    return gathered, repeat + draw(TEXTS), draw(st.booleans()), stripped


@given(seams(), st.lists(st.integers(0, 200), max_size=20))
@example(("aaaaaaaaaaab", "aaaaaaaaaaaab", False, ""), [3, 7])
@example((" aaaaaaaaaaaaaaaaaaaaaaaa  ", " aaaaaaaaaaaaaaaaaaaaaaaa  ", False, ""), [])
def test_every_chunking_gives_what_the_rules_say(
    seam: tuple[str, str, bool, str], places: list[int]
) -> None:
    gathered, part, echoes, stripped = seam
    new = stitch(gathered, part, echoes=echoes, stripped=stripped)
    assert new == expected(gathered, part, echoes=echoes, stripped=stripped)
    assert new == run(gathered, cut(part, places), echoes=echoes, stripped=stripped)
    assert new == run(gathered, list(part), echoes=echoes, stripped=stripped)


@given(seams())
@example((" one two threea", "one two three", False, ""))
def test_only_a_repeat_is_dropped(seam: tuple[str, str, bool, str]) -> None:
    gathered, part, echoes, stripped = seam
    new = stitch(gathered, part, echoes=echoes, stripped=stripped)
    assert part.endswith(new)
    dropped = part[: len(part) - len(new)]
    repeats = gathered.startswith(dropped) or gathered.endswith(dropped)
    # blanks at the start of an answer may be left out
    assert repeats or gathered.lstrip().startswith(dropped.strip())
    assert (gathered + new).endswith(new[-5:])


@given(seams())
def test_releases_text_as_soon_as_the_seam_is_decided(seam: tuple[str, str, bool, str]) -> None:
    gathered, part, echoes, stripped = seam
    filtered = SeamFilter(gathered, echoes=echoes, stripped=stripped)
    out = ""
    for size, letter in enumerate(part, start=1):
        out += filtered.feed(letter)
        if not gathered or part[:size] not in gathered:
            assert out == stitch(gathered, part[:size], echoes=echoes, stripped=stripped)
        else:
            assert out == ""


@given(st.text(min_size=1, max_size=30), st.integers(0, 10), st.integers(0, 30), st.data())
def test_a_text_that_repeats_itself_loses_nothing(
    unit: str,
    turns: int,
    more: int,
    data: st.DataObject,
) -> None:
    gathered = unit * (turns + 2) + unit[:more]
    goes_on = (unit * 12)[len(gathered) % len(unit) :][: data.draw(st.integers(0, 99))]
    part = data.draw(st.sampled_from([goes_on, gathered, gathered.strip(), unit])) + data.draw(
        st.text(max_size=9)
    )
    assert stitch(gathered, part) == part
    assert run(gathered, list(part)) == part


@pytest.mark.parametrize(
    "row", ["| 1 | herons |\n", "\n- in the reeds", "x\n", "ab", f"| {STORY} |\n"]
)
@pytest.mark.parametrize("head", ["", "| n | birds |\n|---|---|\n", "Here they are:\n\n"])
def test_equal_rows_may_be_cut_anywhere(row: str, head: str) -> None:
    whole = head + row * 8
    for size in range(len(head) + 2 * len(row), len(whole)):
        assert whole[:size] + stitch(whole[:size], whole[size:]) == whole
        assert whole[:size] + run(whole[:size], list(whole[size:])) == whole


@pytest.mark.parametrize("spaces", ["", "\n\n "])
def test_a_stream_looks_for_an_overlap_near_the_end_of_a_long_text(spaces: str) -> None:
    text = (
        spaces
        + "".join(Random(3).choices("abcdefgh ", k=2 * LONGEST_SOUGHT))
        + "and then the sun went down."
    )
    near = text[-LONGEST_SOUGHT:]
    far = text[-LONGEST_SOUGHT - 100 :]
    for again, handed_out in ((near, ""), (text, ""), (text.strip(), ""), (far, far)):
        chunks = [*(again[at : at + 5_000] for at in range(0, len(again), 5_000)), " It was night."]
        # The longest one is shown, and taken back at the end of its part, which is stitched as a
        # whole.
        assert run(text, chunks) == handed_out + " It was night."
        assert stitch(text, "".join(chunks)) == " It was night."


def test_hands_on_the_chunk_itself_once_decided() -> None:
    chunk = "and so on"
    seam = SeamFilter(STORY)
    assert seam.feed("Well, ") == "Well, "
    assert seam.feed(chunk) is chunk
    assert SeamFilter("").feed(chunk) is chunk


def count_lines(act: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def fibonacci(size: int) -> str:
    text = "a"
    longer = "ab"
    while len(longer) < size:
        text, longer = longer, longer + text
    return longer[:size]


@pytest.mark.parametrize(
    "texts",
    [
        lambda size: ("a" * size, "a" * (size - 1) + "b"),
        lambda size: ("ab" * size + "c" + "ab" * size, "ab" * 2 * size),
        lambda size: (fibonacci(size), fibonacci(size)[3:] + "x"),
    ],
)
def test_the_work_grows_with_the_length_only(texts: Callable[[int], tuple[str, str]]) -> None:
    small, large = (count_lines(lambda size=size: stitch(*texts(size))) for size in (1000, 4000))  # type: ignore[misc]
    assert large <= 4.5 * small


def test_ordinary_text_takes_a_handful_of_steps() -> None:
    assert count_lines(lambda: stitch(STORY * 1000, "The hen came by. " * 1000)) < 40
