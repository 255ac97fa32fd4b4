"""What a stranger relies on: the public names, what an import drags in, and that the documents say what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import rungwise

ROOT = Path(__file__).parents[2]
HOME = "https://github.com/rungwise/rungwise/blob/main/"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_public_name_exists_once():
    assert len(set(rungwise.__all__)) == len(rungwise.__all__)
    assert set(rungwise.__all__) == {*rungwise._HOMES, *rungwise._PARTS}
    assert all(hasattr(rungwise, name) for name in rungwise.__all__)
    assert not hasattr(rungwise, "no_such_name")


def test_the_core_imports_no_http_client_and_no_test_library():
    script = (
        "import sys; from rungwise import Call, Policy, Reply, Request, Result; "
        "print([name for name in ('httpx', 'httpcore', 'rungwise.adapters', 'rungwise.fsm.testing', 'click', 'rich', "
        "'hypothesis', 'pytest', 'anyio') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_file_of_the_core_mentions_the_outside():
    for path in (ROOT / "fsm").rglob("*.py"):
        imports = re.findall(
            r"^\s*(?:from|import) (rungwise\.adapters|httpx2?|httpcore)\b", path.read_text(encoding="utf-8"), re.M
        )
        assert not imports, path


def commands(language="sh"):
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines()]


def test_ci_runs_exactly_the_test_command_of_the_readme():
    [command] = [line for line in commands() if line.endswith("pytest")]
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert command in map(str.strip, lines)


def test_the_main_command_of_the_readme_sets_everything_up():
    [command] = [line for line in commands() if line.endswith("rungwise demo")]
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q . && ")


def test_every_link_of_the_readme_leads_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    for target in targets:
        # Absolute, for a package index shows the page without the files beside it.
        assert target.startswith(HOME), target
        assert (ROOT / target.removeprefix(HOME)).exists(), target


def test_the_changelog_has_a_section_for_what_comes_next():
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_top_level_holds_only_what_was_agreed():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    if not any(tracked):
        pytest.skip("this is no git checkout")
    top = {name.split("/")[0] for name in tracked if name}
    agreed = {
        "fsm",
        "adapters",
        "rungwise",
        "tests",
        "diagrams",
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
    }
    assert top <= {*agreed, ".gitignore", ".ci"}
