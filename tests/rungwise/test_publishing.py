"""The workflow that publishes, tried step by step with a package index on this machine.

What a step runs is read from the workflow. Two things differ: the index is not PyPI, and twine
uploads what the action of PyPI would upload, which runs twine as well.
"""

import os
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from support.command_line import environment
from support.missing import missing
from support.waiting import patience, until

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github/workflows/publish.yml"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "build", "dist")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

pytestmark = pytest.mark.full  # it makes environments, which takes minutes


def command_of(name: str) -> str:
    """Return what a step of the workflow runs."""
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    [step] = [each for each in jobs["build"]["steps"] if each.get("name") == name]
    return str(step["run"])


def run(command: str, at: Path, python: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does, with the programs of an environment before all others."""
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=at,
        env=environment(PATH=path, PYTHONPATH="", **more),
        capture_output=True,
        text=True,
        timeout=patience(300),
    )


def done(command: str, at: Path, python: Path, **more: str) -> str:
    """Run a step to its good end, and return what it printed."""
    ended = run(command, at, python, **more)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def answers(url: str) -> bool:
    """Tell whether a server answers."""
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


def new_environment(folder: Path, *packages: str) -> Path:
    """Return the Python of a new environment with packages of the usual index."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    if packages:
        install = [python, "-m", "pip", "install", "-q", *packages]
        if subprocess.run(install, check=False).returncode:
            missing(f"{packages} cannot be installed here")
    return python


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("runner") / "rungwise"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=LEFT_OUT)
    return copy


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of the runner, into which the workflow installs its tools."""
    return new_environment(tmp_path_factory.mktemp("python") / "its")


@pytest.fixture(scope="module")
def built(checkout: Path, runner: Path) -> Path:
    """Return the checkout once the workflow has built it."""
    ended = run(command_of("Build"), checkout, runner)
    if "No matching distribution" in ended.stderr:
        missing("the tools of the workflow cannot be installed here")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return checkout


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of an empty package index on this machine."""
    folder = tmp_path_factory.mktemp("index")
    python = new_environment(folder / "environment", "pypiserver")
    packages = folder / "packages"
    packages.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    # who may upload: anybody; and nothing is looked up at PyPI
    options = f"run -i 127.0.0.1 -p {port} -P . -a . --disable-fallback"
    command = [python, "-m", "pypiserver", *options.split(), packages]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as server:
        try:
            until(lambda: answers(url), 60)
            yield url
        finally:
            server.terminate()


def test_a_tag_names_the_version(checkout: Path, runner: Path) -> None:
    command = command_of("See that the tag names the version")
    done(command, checkout, runner, TAG=f"v{VERSION}")
    assert run(command, checkout, runner, TAG="v0.0.0").returncode == 1


def test_the_wheel_that_the_workflow_builds_runs_away_from_its_sources(
    built: Path, runner: Path, tmp_path: Path
) -> None:
    command = command_of("Try the wheel away from its sources")
    told = done(command, tmp_path, runner, GITHUB_WORKSPACE=str(built))
    assert "13 of 14 ended with an answer" in " ".join(told.split())


def test_what_is_uploaded_can_be_installed_from_the_index(
    built: Path, runner: Path, index: str, tmp_path: Path
) -> None:
    files = sorted(path.name for path in (built / "dist").iterdir())
    upload = f"twine upload --non-interactive -u any -p any --repository-url {index} dist/*"
    done(upload, built, runner)
    listed = httpx.get(f"{index}/simple/rungwise/", trust_env=False).text
    assert files == [f"rungwise-{VERSION}-py3-none-any.whl", f"rungwise-{VERSION}.tar.gz"]
    assert all(name in listed for name in files)
    assert run(upload, built, runner).returncode != 0, "an index must not take a version twice"

    stranger = new_environment(tmp_path / "environment")
    of_the_index = f"python -m pip install -q --no-deps --index-url {index}/simple/ rungwise"
    nothing_else = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}
    done(of_the_index, tmp_path, stranger, **nothing_else)
    done("python -m pip install -q rungwise", tmp_path, stranger)  # its dependencies
    told = done("rungwise demo", tmp_path, stranger)
    assert "3 of 3 ended with an answer" in " ".join(told.split())
    assert f"rungwise {VERSION}" in done("rungwise --version", tmp_path, stranger)
    described = done("python -m pip show rungwise", tmp_path, stranger)
    assert "Summary: Each language-model call" in described
