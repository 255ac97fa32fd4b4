"""Programs as people write them, examined, and each grade confirmed by the bytes of its journal."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from adoption.environments import python_for
from adoption.test_node import node
from rungwise.adapters.exam.answer import ANSWER
from scorecard.making import QUESTION, script
from support.command_line import invoke

pytestmark = pytest.mark.full
__all__ = ["node"]  # the fixture
CASES = ("overloaded", "bad_key", "cut", "empty", "filtered", "error_once")


def examined(folder: Path, *command: str) -> dict[str, tuple[str, str]]:
    """Return the grade and the journal of each case."""
    names = [part for name in CASES for part in ("--case", name)]
    result = invoke("exam", "--json", "--journal", folder, *names, "--", *command)
    assert result.exit_code in (0, 1), result.output
    came = json.loads(result.stdout)["cases"]
    journals = [file.read_text(encoding="utf-8") for file in sorted(folder.iterdir())]
    pairs = zip(came, journals, strict=True)
    return {case["name"]: (case["grade"], journal) for case, journal in pairs}


def confirm(grade: str, journal: str) -> None:
    """Check that the bytes speak for a grade: what was received and what was shown."""
    shown = " ".join(journal.partition("--- stdout\n")[2].partition("--- stderr")[0].split())
    [code] = re.findall(r"^exit code (\S+),", journal, re.MULTILINE)
    if grade in ("pass", "partial"):
        assert (ANSWER in shown) or "content_policy_violation" in journal
    elif grade == "safe":
        assert ANSWER not in shown
        assert code not in ("0", "None")
    else:
        assert ANSWER not in shown
        assert code == "0"


@pytest.mark.parametrize(
    ("name", "grades"),
    [
        ("curl.sh", "safe safe safe fail pass pass"),
        ("openai_sdk.py", "safe safe safe fail pass pass"),
        ("with_rungwise.py", "pass pass pass pass partial pass"),
    ],
)
def test_each_grade_is_confirmed_by_the_bytes(tmp_path: Path, name: str, grades: str) -> None:
    interpreter = [] if name.endswith(".sh") else [sys.executable]
    came = examined(tmp_path, *interpreter, script(name))
    assert {case: grade for case, (grade, _) in came.items()} == dict(
        zip(CASES, grades.split(), strict=True)
    )
    for grade, journal in came.values():
        confirm(grade, journal)


@pytest.mark.parametrize(
    ("group", "command"),
    [
        ("llm", ("llm", "-m", "gpt-4o-mini", QUESTION)),
        ("shell-gpt", ("sgpt", QUESTION)),
    ],
)
def test_a_published_program_is_examined_as_it_is(
    tmp_path: Path, group: str, command: tuple[str, ...]
) -> None:
    """Both have one backend and the SDK's two retries, and take an empty answer for one."""
    name, *arguments = command
    came = examined(tmp_path, str(python_for(group).with_name(name)), *arguments)
    grades = [grade for grade, _ in came.values()]
    assert grades == ["safe", "safe", "safe", "fail", "pass", "pass"]
    for grade, journal in came.values():
        confirm(grade, journal)
    statuses = {
        case: re.findall(r"^<<< (\d+)$", bytes_, re.M) for case, (_, bytes_) in came.items()
    }
    assert statuses["overloaded"] == ["503"] * 3
    assert statuses["bad_key"] == ["401"]
    assert statuses["error_once"] == ["500", "200"]
    assert "(then the connection closes)" in came["cut"][1]


def test_an_agent_on_langchain_is_examined(tmp_path: Path) -> None:
    python = str(python_for("langchain"))
    came = examined(tmp_path, python, script("langchain_fallbacks.py"))
    assert came["overloaded"][0] == came["bad_key"][0] == came["cut"][0] == "pass"
    for grade, journal in came.values():
        confirm(grade, journal)
    assert '"model":"gpt-5-mini"' in came["overloaded"][1]


def test_a_program_on_node_is_examined(tmp_path: Path, node: tuple[str, Path]) -> None:
    binary, beside = node
    program = shutil.copy(script("node_openai.mjs"), beside.parent)
    came = examined(tmp_path, binary, str(program))
    grades = [grade for grade, _ in came.values()]
    assert grades == ["safe", "safe", "safe", "fail", "pass", "pass"]
    for grade, journal in came.values():
        confirm(grade, journal)
