"""The built wheel in an environment of somebody else's: it takes no name from the project, and says what it needs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.full  # it makes environments, which takes minutes


def run(*command: str | Path, at: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], cwd=at, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT, at=folder)
    if done.returncode:
        pytest.skip(f"no wheel can be built here: {done.stderr[-300:]}")
    return next(folder.glob("rungwise-*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a new environment that holds the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    assert run(sys.executable, "-m", "venv", folder, at=folder).returncode == 0
    made = folder / "bin" / "python"
    done = run(made, "-m", "pip", "install", "-q", f"{wheel}[testing]", at=folder)
    if done.returncode:
        pytest.skip(f"its dependencies cannot be installed here: {done.stderr[-300:]}")
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return somebody's project, which has folders of the names of ours."""
    for name in ("adapters", "fsm"):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text("MINE = True\n", encoding="utf-8")
        (package / "client.py").write_text("MINE = True\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text("", encoding="utf-8")
    return tmp_path


OWN = """
import sys

def test_nothing_of_another_was_imported():
    assert not [name for name in sys.modules if name.partition(".")[0] in ("adapters", "fsm", "httpx", "transitions")]
    assert "rungwise.fsm" not in sys.modules

def test_its_own_folders_are_its_own():
    import adapters.client, fsm.client
    assert adapters.MINE and adapters.client.MINE and fsm.client.MINE
"""


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_a_project_with_folders_of_our_names_is_left_alone(python: Path, project: Path, mode: str) -> None:
    (project / "test_own.py").write_text(OWN, encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", f"--import-mode={mode}"]
    done = run(python, "-m", "pytest", *options, at=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_fixtures_of_the_wheel_work(python: Path, project: Path) -> None:
    (project / "test_own.py").write_text(
        "def test_it(rungwise_provider, rungwise_client):\n"
        "    from rungwise import ScriptedReply\n"
        "    provider = rungwise_provider(ScriptedReply(text='Yes.'))\n"
        "    assert rungwise_client(provider).call('hi').text == 'Yes.'\n",
        encoding="utf-8",
    )
    done = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", at=project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_runs_from_anywhere(python: Path, project: Path, tmp_path_factory: Any) -> None:
    assert run(python.parent / "rungwise", "verify", at=project).returncode == 0
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert run(python, "-m", "rungwise", "--help", at=elsewhere).stdout.startswith("Usage: rungwise ")
    for command in ([python, "-m", "rungwise"], ["env", f"PYTHONPATH={project}", python.parent / "rungwise"]):
        done = run(*command, "--help", at=project)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_wheel_holds_one_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.partition("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"rungwise"}


def test_the_metadata_lead_to_the_project() -> None:
    urls = dict(entry.split(", ") for entry in metadata("rungwise").get_all("Project-URL") or ())
    assert urls.keys() == {"Homepage", "Source", "Changelog", "Issues"}
    assert all(url.startswith("https://github.com/rungwise/rungwise") for url in urls.values())
