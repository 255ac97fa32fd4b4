"""The table of what common faults cost is what is measured."""

import re
from pathlib import Path

import pytest

from failover.costs import COLUMNS, COMMON, Cost, costs_of, costs_table
from failover.rows import ROWS
from failover.run import FAST

README = Path(__file__).with_name("README.md").read_text(encoding="utf-8")

EARLY, LATE = 0.5, 2.0
"""Seconds by which a measured time may be less than the table says, which is rounded, and more, on
a busy machine.
"""

SCALES = (FAST, 4 * FAST, 1.0)
"""Each slower than the one before it, for what that one has measured as too late."""


def table() -> list[list[str]]:
    """Return the cells of the table, row by row, without its head."""
    [text] = re.findall(r"<!-- begin costs -->\n\n(.*?)\n\n<!-- end costs -->", README, re.DOTALL)
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()[2:]
    ]


def cost_of(cell: str) -> Cost:
    """Read a cell back."""
    found = re.fullmatch(r"(\d+), ([\d.]+)(?: to ([\d.]+))? s", cell)
    assert found, cell
    requests, least, most = found.groups()
    return Cost(int(requests), float(least), float(most or least))


def differs(measured: Cost, written: Cost) -> bool:
    pairs = ((measured.least, written.least), (measured.most, written.most))
    return measured.requests != written.requests or any(
        not expected - EARLY <= seconds <= expected + LATE for seconds, expected in pairs
    )


def test_every_fault_has_its_row() -> None:
    assert [row[0] for row in table()] == [fault.title for fault in COMMON]


@pytest.mark.full
@pytest.mark.sampled(2)
@pytest.mark.parametrize("column", COLUMNS)
def test_the_costs_are_those_of_the_table(column: str) -> None:
    written = {row[0]: cost_of(row[1 + COLUMNS.index(column)]) for row in table()}
    left = list(COMMON)
    for scale in SCALES:
        measured = costs_of(ROWS[column], left, scale=scale)
        left = [fault for fault in left if differs(measured[fault.title], written[fault.title])]
        if not left:
            return
    pytest.fail(
        f"the table says otherwise: "
        f"{ ({fault.title: str(measured[fault.title]) for fault in left}) }"
    )


def test_a_cell_is_read_as_it_is_written() -> None:
    one = Cost(3, 1.02, 1.46)
    other = Cost(2, 59.9, 60.2)
    text = costs_table({"a": {"x": one}, "b": {"x": other}})
    assert text.splitlines()[-1] == "| x | 3, 1 to 1.5 s | 2, 60 s |"
    assert (cost_of(str(one)), cost_of(str(other))) == (Cost(3, 1.0, 1.5), Cost(2, 60.0, 60.0))
