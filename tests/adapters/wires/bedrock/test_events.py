"""The events of a Bedrock stream: what botocore makes of each, however they come, and however few
it is given.
"""

from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.adapters.wires.bedrock import events
from rungwise.adapters.wires.bedrock.events import FrameReader
from rungwise.adapters.wires.json_text import load

TEXTS = [
    frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a" * size}})
    for size in range(5)
]
BEGINNING = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "It begins."}})
NAMES = ["contentBlockDelta", "messageStop", "messageStart"]
FRAMES = [
    *TEXTS,
    frame("messageStop", {"stopReason": "end_turn"}),
    frame("messageStart", {"role": "assistant"}),
]


class Heard:
    """Note what is handed over; what is broken ends it."""

    def __init__(self) -> None:
        self.finished = False
        self.came: list[Any] = []

    def piece_in(self, value: Any) -> None:
        return None

    def take_value(
        self,
        value: Any,
        data: bytes,
        *,
        is_error: bool,
    ) -> None:
        self.came.append((value, data))

    def take_error(self, data: bytes) -> None:
        self.came.append(data)
        self.finished = True

    def take_broken(self) -> None:
        self.came.append("broken")
        self.finished = True


def read(data: bytes, sizes: list[int]) -> list[Any]:
    """Read bytes in pieces of these sizes, and the rest at once."""
    reader = FrameReader()
    heard = Heard()
    for size in sizes:
        reader.feed(data[:size], heard)
        data = data[size:]
        if heard.finished:
            return heard.came
    reader.feed(data, heard)
    return heard.came


def told(frames: list[bytes]) -> list[Any]:
    """Return what botocore's parser says of each event by itself."""
    came: list[Any] = []
    for each in frames:
        parser = EventStreamBuffer()
        parser.add_data(each)
        try:
            message = next(parser)
            value = load(message.payload)
        except Exception:
            return [*came, "broken"]
        if message.headers.get(":message-type") != "event":
            return [*came, "another"]
        came.append(({str(message.headers.get(":event-type")): value}, message.payload))
    return came


def named(each: Any) -> Any:
    """Return the payload of an event without its name."""
    return each[1] if isinstance(each, tuple) else each


def is_named_alike(ours: Any, theirs: Any) -> bool:
    """Return whether an event has the name that botocore reads. A damaged name, which no event has,
    is replaced by that of the event that it is like.
    """
    if not isinstance(theirs, tuple):
        return True
    name = next(iter(theirs[0]))
    return name not in NAMES or ours[0] == theirs[0]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return an event with a byte changed behind its lengths; where that hides, with checksums that
    are right.
    """
    data = bytearray(draw(st.sampled_from(FRAMES)))
    data[draw(st.integers(8, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    if draw(st.booleans()):
        data[8:12] = crc32(data[:8]).to_bytes(4, "big")
        data[-4:] = crc32(data[:-4]).to_bytes(4, "big")
    return bytes(data)


@given(
    st.lists(st.sampled_from(FRAMES) | damaged(), max_size=8),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_each_event_is_what_the_parser_says(frames: list[bytes], sizes: list[int]) -> None:
    frames = [BEGINNING, *frames]  # two equal events at the beginning wait for the next one
    came = [
        each if isinstance(each, tuple | str) else "another"
        for each in read(b"".join(frames), sizes)
    ]
    expected = told(frames)
    assert [named(each) for each in came] == [named(each) for each in expected]
    assert all(map(is_named_alike, came, expected))


def test_the_parser_reads_the_headers_of_a_kind_of_event_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[bytes] = []
    take = EventStreamBuffer.add_data
    monkeypatch.setattr(
        EventStreamBuffer, "add_data", lambda self, data: (parsed.append(data), take(self, data))
    )
    assert len(read(b"".join(TEXTS * 100), [])) == 500
    assert parsed == TEXTS[:1]


def test_a_long_event_in_small_pieces_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    lengths = events._LENGTHS
    monkeypatch.setattr(
        events, "_LENGTHS", lambda data, place: (looks.append(len(data)), lengths(data, place))[1]
    )
    long = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a" * 200_000}})
    assert read(long, [10] * (len(long) // 10)) == told([long])
    assert looks == [20, len(long)], "when its lengths have come, and when all of it has"


def test_not_more_kinds_of_headers_are_kept_than_there_are_kinds_of_events() -> None:
    reader = FrameReader()
    heard = Heard()
    for number in range(1_000):
        reader.feed(frame(f"event{number}", {}), heard)
    assert len(heard.came) == 1_000
    assert len(reader._known) <= 16


def test_texts_that_differ_in_their_padding_too_are_not_parsed_again() -> None:
    class Pieces(Heard):
        parsed = 0

        def piece_in(self, value: Any) -> Any:
            self.parsed += 1
            event = value.get("contentBlockDelta")
            return None if event is None else (event["contentBlockIndex"], event["delta"]["text"])

        def take_piece(self, kind: Any, text: str) -> None:
            self.came.append((kind, text))

    reader = FrameReader()
    heard = Pieces()
    expected = []
    for number in range(200):
        index = number // 100
        text = f'"word"\t{number}, "p":"'
        value = {
            "contentBlockIndex": index,
            "delta": {"text": text},
            "p": "abcdefghij"[: number % 10],
        }
        reader.feed(frame("contentBlockDelta", value), heard)
        expected.append((index, text))
        if number == 50:
            reader.feed(frame("messageStart", value), heard)
            expected.append(({"messageStart": value}, heard.came[-1][1]))
    assert heard.came == expected
    assert heard.parsed < 20
