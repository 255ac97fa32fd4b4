"""What a program is given of a text of which parts are taken back and come again."""

import pytest

from rungwise.adapters.gateway.handed import HandedText

Moves = list[tuple[str, str, str | None]]


@pytest.mark.parametrize(
    "moves",
    [
        [("add", "one ", "one "), ("add", "two", "two")],
        # all comes again, in other pieces
        [
            ("add", "one two", "one two"),
            ("back", "one two", ""),
            ("add", "one", ""),
            ("add", " two", ""),
            ("add", " three", " three"),
        ],
        # and more in the same piece
        [("add", "one", "one"), ("back", "ne", ""), ("add", "ne two", " two")],
        # it is taken back twice
        [
            ("add", "one two", "one two"),
            ("back", "two", ""),
            ("add", "t", ""),
            ("back", "one t", ""),
            ("add", "one two!", "!"),
        ],
        # other text
        [("add", "one two", "one two"), ("back", "two", ""), ("add", "three", None)],
        [("add", "one", "one"), ("back", "one", ""), ("add", "on", ""), ("add", "!", None)],
    ],
)
def test_nothing_is_given_twice(moves: Moves) -> None:
    handed = HandedText()
    given = ""
    for what, piece, expected in moves:
        if what == "back":
            handed.take_back(piece)
            assert handed.is_ahead
            continue
        assert handed.add(piece) == expected
        given += expected or ""
        assert handed.text == given
