"""What a stranger relies on: the public names, what an import drags in, and that the documents say
what is so.
"""

import re
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import rungwise
from support.command_line import printed_by

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


FACES = ("rungwise", "rungwise.core", "rungwise.testing", "rungwise.ui", "rungwise.otel")


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_is_there_and_in_one_place(face: str) -> None:
    module = import_module(face)
    assert module.__all__ == sorted(set(module.__all__)) == dir(module)
    assert all(hasattr(module, name) for name in module.__all__)
    assert not hasattr(module, "no_such_name")
    others = [name for other in FACES if other != face for name in import_module(other).__all__]
    assert set(module.__all__).isdisjoint(others)


def test_the_star_imports_what_is_public() -> None:
    script = (
        "from rungwise import *; from rungwise.core import *; from rungwise.testing "
        "import *; print(Policy, Call, run)"
    )
    assert printed_by(script).count("<") == 3


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Call", "rungwise.core"),
        ("EmbeddedProvider", "rungwise.testing"),
        ("Table", "rungwise.core"),
    ],
)
def test_the_old_place_of_a_name_gives_the_new_one(name: str, place: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"^rungwise\.{name} is now {re.escape(place)}\.{name}$"
    ):
        getattr(rungwise, name)


def test_the_public_names_are_few() -> None:
    kit = [
        name
        for name in rungwise.testing.__all__
        if getattr(rungwise.testing, name).__module__.count(".testing.")
    ]
    assert 50 <= len(rungwise.__all__) <= 81
    assert len(kit) <= 25


def test_no_file_of_the_core_mentions_the_outside():
    for path in (ROOT / "fsm").rglob("*.py"):
        imports = re.findall(
            r"^\s*(?:from|import) (rungwise\.adapters|httpx2?|httpcore)\b",
            path.read_text(encoding="utf-8"),
            re.M,
        )
        assert not imports, path


def commands():
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
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
        assert "://" not in target, target  # so that it leads to the same version of the project
        assert (ROOT / target).exists(), target


def test_the_changelog_begins_with_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    first = re.search(
        r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert first[1] in ("Unreleased", version)


def test_the_top_level_holds_only_what_was_agreed():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    if not listed:
        pytest.skip("this is no git checkout")
    top = {name.split("/")[0] for name in listed.splitlines()}
    agreed = {
        "fsm",
        "adapters",
        "rungwise",
        "tests",
        "diagrams",
        "docs",
        "pyproject.toml",
        ".gitignore",
        ".git-blame-ignore-revs",
    }
    assert top <= {*agreed, ".ci", ".github", "README.md", "CHANGELOG.md", "LICENSE"}
