"""Points in time, read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.values.moments import LAST, read_moment, read_rfc_3339, write_moment

TEN = 1_795_168_800.0  # Fri, 20 Nov 2026 10:00:00 GMT


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20T10:00:00Z", TEN),
        ("2026-11-20t10:00:00z", TEN),
        ("2026-11-20 10:00:00+00:00", TEN),
        ("2026-11-20T06:30:00.250-03:30", TEN + 0.25),
        ("2026-11-20T10:00:00.123456789Z", TEN + 0.123456),
        ("2026-11-20T10:00:00", None),
        ("2026-11-20", None),
        ("20261120T100000Z", None),
        ("2026-02-29T10:00:00Z", None),
        ("2026-11-20T25:00:00Z", None),
        ("2026-11-20T10:00:00+24:00", None),
        ("\uff12026-11-20T10:00:00Z", None),
        ("", None),
    ],
)
def test_a_time_is_read_with_its_offset_or_not_at_all(text: str, moment: float | None) -> None:
    assert read_rfc_3339(text) == moment
    assert read_moment(text) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1795168800", TEN),
        ("1795168800.25", TEN + 0.25),
        ("1795168800250", TEN + 0.25),
        ("0", 0.0),
        ("-1", None),
        ("1e9", None),
        ("inf", None),
        ("1_000", None),
        ("9" * 20, None),
        ("9" * 5000, None),
    ],
)
def test_a_number_counts_seconds_or_milliseconds(text: str, moment: float | None) -> None:
    assert read_moment(text) == moment
    assert read_rfc_3339(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (TEN, "2026-11-20T10:00:00.000Z"),
        (TEN + 0.9999, "2026-11-20T10:00:00.999Z"),
        (TEN + 0.001, "2026-11-20T10:00:00.001Z"),
        (TEN - 0.000002, "2026-11-20T10:00:00.000Z"),  # as little as two clocks may differ by
        (-5.0, "1970-01-01T00:00:00.000Z"),
        (1e18, "9999-12-31T23:59:59.000Z"),
        (float("inf"), "9999-12-31T23:59:59.000Z"),
    ],
)
def test_a_moment_is_written_down_to_the_millisecond(seconds: float, text: str) -> None:
    assert write_moment(seconds) == text


@given(st.floats(min_value=0, max_value=LAST))
def test_a_written_moment_reads_back_and_is_no_later(seconds: float) -> None:
    again = read_moment(write_moment(seconds))
    assert again <= seconds + 0.00001 + 0.00005  # of years far off a float tells no more
    assert seconds - again < 0.0011
