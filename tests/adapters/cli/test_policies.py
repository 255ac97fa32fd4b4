"""A policy of the command line: a file, or `module:NAME`, whose table is then shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.command_line import invoke

OURS = """
import rungwise
plead = rungwise.Rung("plead", holds=rungwise.Fact("is_off_topic", of=lambda reply: False), hint="Please.")
class Held:
    POLICY = rungwise.Policy(table=rungwise.CALL.with_rung(plead, answered=None))
POLICY, NUMBER = Held.POLICY, 3
"""


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a module of policies, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "écoles.py").write_text(OURS, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["POLICY", "Held.POLICY"])
def test_each_command_shows_the_table_of_a_policy_in_python(ours: Path, name: str) -> None:
    given = f"écoles:{name}"
    assert "pleads 1" in invoke("verify", given).stdout
    assert "`may_plead`" in invoke("diagram", given, "--format", "rows").stdout
    assert "may_plead" in invoke("explain", "--play", given).stdout
    (ours / "plain.toml").write_text("", encoding="utf-8")
    assert "plead" in invoke("diff", "plain.toml", given).stdout


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("écoles:NUMBER", "is a int, and must be a rungwise.Policy"),
        ("écoles:NOTHING", "has no attribute 'NOTHING'"),
        ("nowhere:POLICY", "cannot be imported: No module named 'nowhere'"),
        ("leaving:POLICY", "cannot be imported: SystemExit"),
        ("broken:POLICY", "cannot be imported: SyntaxError"),
        ("nowhere.toml", "does not exist; give POLICY.toml or module:POLICY"),
        ("a" * 5000, "is no path: File name too long"),
    ],
)
def test_what_is_no_policy_is_bad_input(ours: Path, given: str, says: str) -> None:
    (ours / "leaving.py").write_text("raise SystemExit(0)", encoding="utf-8")
    (ours / "broken.py").write_text("def", encoding="utf-8")
    result: Any = invoke("verify", given)
    assert result.exit_code == 2
    assert says in result.stderr
