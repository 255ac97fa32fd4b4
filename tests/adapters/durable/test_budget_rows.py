"""The rows of shared budgets in a database, to which somebody else may have written."""

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rungwise import Budget, SharedBudget
from rungwise.adapters.durable.budgets import DatabaseBudgets
from rungwise.adapters.stores.store import perform
from rungwise.fsm.call.budget.costs import Paid

SOUND: dict[str, Any] = {"began": 1.0, "attempts": 1, "tokens": 0, "money": 0, "holds": []}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        "9" * 5_000,
        json.dumps({**SOUND, "began": "then"}),
        json.dumps({**SOUND, "began": float("nan")}),
        json.dumps({**SOUND, "attempts": -1}),
        json.dumps({**SOUND, "money": "1"}),
        json.dumps({**SOUND, "holds": 3}),
        json.dumps({**SOUND, "holds": {}}),
        json.dumps({**SOUND, "holds": ""}),
        json.dumps({**SOUND, "holds": [["a", 2.0, 10**4000, 1]]}),
        '{"began": ' + "9" * 400 + "}",
        json.dumps({**SOUND, "holds": [[1, 2, 3, 4]]}),
        json.dumps({**SOUND, "holds": [["a", 2.0]]}),
        json.dumps({**SOUND, "another": 1}),
    ],
    ids=lambda text: text[:40],
)
def test_a_row_that_is_not_ours_counts_as_nothing(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path / 'calls.sqlite'}"
    ledgers = SharedBudget(Budget(attempts=5, seconds=None), name="all")._ledgers
    budgets: Any = DatabaseBudgets(url)
    perform(budgets_in(budgets), budgets.hold("a", 60.0, Paid(1), ledgers))
    with sqlite3.connect(tmp_path / "calls.sqlite") as connection:
        connection.execute("UPDATE rungwise_budgets SET value = ?", [text])
    with caplog.at_level(logging.WARNING, "rungwise"):
        for attempt in "bc":
            is_held, [(paid, _)] = perform(
                budgets_in(budgets), budgets.hold(attempt, 60.0, Paid(1), ledgers)
            )
            assert (is_held, paid) == (True, Paid(0))
    assert len(caplog.records) == 1
    budgets.close()


def budgets_in(budgets: Any) -> Any:
    class Executing:
        @staticmethod
        def execute(command: Any) -> Any:
            return command[1]()

    return Executing
