"""The extraction: what it writes, what it corrects, and that its budget holds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.full
def test_two_hundred_records_of_which_twenty_are_corrected(
    command: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = tmp_path / "records.jsonl"
    with pytest.raises(SystemExit) as ended:
        command("extract", records)
    assert ended.value.code == 0
    assert "200 records, 20 of them corrected, 0 failed" in capsys.readouterr().out
    read = [json.loads(line) for line in records.read_text("utf-8").splitlines()]
    assert len(read) == 200
    assert all(each["bird"] == "heron" and 0 < each["count"] < 9 for each in read)


@pytest.mark.full
def test_too_little_money_is_never_exceeded(
    command: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command("extract", tmp_path / "records.jsonl", "--money", 0.05)
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert float(said.out.rpartition("; ")[2].split()[0]) <= 0.05
    assert "over_budget" in said.err
