"""What is installed, in environments of somebody else's: it is whole, and takes no name but its
own.
"""

import hashlib
import json
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import metadata
from pathlib import Path

import pytest

from support.missing import missing

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")

pytestmark = pytest.mark.full  # it makes environments, which takes minutes


def run(*command: str | Path, at: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=at, capture_output=True, text=True, check=False
    )


def environment(folder: Path, *installs: str | Path) -> Path:
    """Return the Python of a new environment, into which one thing after another is installed."""
    assert run(sys.executable, "-m", "venv", folder, at=folder.parent).returncode == 0
    python = folder / "bin" / "python"
    for each in installs:
        arguments = each if isinstance(each, tuple) else (each,)
        pip_install(python, *arguments)
    return python


def pip_install(python: Path, *arguments: str | Path) -> None:
    done = run(python, "-m", "pip", "install", "-q", *arguments, at=python.parent)
    if done.returncode:
        missing(f"{arguments} cannot be installed here: {done.stderr[-300:]}")


def built(source: Path, folder: Path) -> Path:
    """Return the wheel of a checkout or of a source distribution."""
    done = run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source, at=folder
    )
    if done.returncode:
        missing(f"no wheel can be built here: {done.stderr[-300:]}")
    return next(folder.glob("rungwise-*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def without_links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout whose links are text files, as git writes them on Windows."""
    checkout = tmp_path_factory.mktemp("without_links") / "checkout"
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=LEFT_OUT)
    shutil.copytree(ROOT / ".ci", checkout / ".ci")
    for link in ("fsm", "adapters"):
        (checkout / "rungwise" / link).unlink()
        (checkout / "rungwise" / link).write_text(f"../{link}")
    return checkout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    python = environment(folder / "environment", "hatchling", "hatch-fancy-pypi-readme")
    done = run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, at=ROOT)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("rungwise-*.tar.gz"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a new environment that holds the wheel and its dependencies."""
    return environment(tmp_path_factory.mktemp("environment") / "its", f"{wheel}[testing]")


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


# what is in it


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel by their names, and see that no link is among them."""
    with zipfile.ZipFile(wheel) as archive:
        for each in archive.infolist():
            assert stat.S_IFMT(each.external_attr >> 16) in (0, stat.S_IFREG), (
                f"{each.filename} is no regular file"
            )
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_one_package_and_nothing_else(wheel: Path) -> None:
    names = contents(wheel)
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"rungwise"}
    sources = {
        f"rungwise/{path.relative_to(ROOT)}"
        for part in ("fsm", "adapters")
        for path in (ROOT / part).rglob("*")
        if path.suffix in (".py", ".j2", ".css", ".js", ".lua")
    }
    assert sources <= names.keys()
    page = "rungwise/fsm/diagram/page"
    assert {
        "rungwise/py.typed",
        f"{page}/page.css",
        f"{page}/templates/base.html.j2",
    } <= names.keys()


def test_the_wheel_is_the_same_from_the_source_distribution(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        assert all(each.isfile() or each.isdir() for each in archive.getmembers())
    assert contents(built(sdist, tmp_path)) == contents(wheel)


def test_the_wheel_and_the_source_distribution_need_no_links(
    wheel: Path, without_links: Path, tmp_path: Path
) -> None:
    assert contents(built(without_links, tmp_path)) == contents(wheel)
    python = environment(tmp_path / "environment", "hatchling", "hatch-fancy-pypi-readme")
    made = run(
        python, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "dist", at=without_links
    )
    assert made.returncode == 0, made.stderr
    [archive] = (tmp_path / "dist").iterdir()
    (tmp_path / "again").mkdir()
    assert contents(built(archive, tmp_path / "again")) == contents(wheel)


def test_an_editable_install_without_links_says_that_it_needs_them(
    without_links: Path, tmp_path: Path
) -> None:
    python = environment(tmp_path / "environment")
    done = run(python, "-m", "pip", "install", "-q", "--no-deps", "-e", without_links, at=tmp_path)
    assert done.returncode != 0
    assert (
        "an editable install needs symbolic links, and rungwise/fsm is none: run `git config"
        in done.stderr
    )


def test_the_page_on_the_package_index_has_absolute_links(wheel: Path) -> None:
    [described] = [
        text for name, text in contents(wheel).items() if name.endswith(".dist-info/METADATA")
    ]
    links = re.findall(r"\]\(([^)]+)\)", described.decode())
    assert links
    assert all(link.startswith("https://github.com/rungwise/rungwise/blob/main/") for link in links)


def test_the_metadata_lead_to_the_project() -> None:
    urls = dict(entry.split(", ") for entry in metadata("rungwise").get_all("Project-URL") or ())
    assert urls.keys() == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(url.startswith("https://github.com/rungwise/rungwise") for url in urls.values())


# who else is there

OWN = """
import sys

def test_nothing_of_another_was_imported():
    assert not [name for name in sys.modules if name.partition(".")[0] in ("adapters", "fsm", "httpx", "transitions")]
    assert "rungwise.fsm" not in sys.modules

def test_its_own_folders_are_its_own():
    import adapters.client, fsm.client
    assert adapters.MINE and adapters.client.MINE and fsm.client.MINE
"""  # noqa: E501


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_a_project_with_folders_of_our_names_is_left_alone(
    python: Path, project: Path, mode: str
) -> None:
    (project / "test_own.py").write_text(OWN, encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", f"--import-mode={mode}"]
    done = run(python, "-m", "pytest", *options, at=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_fixtures_of_the_wheel_work(python: Path, project: Path) -> None:
    (project / "test_own.py").write_text(
        "def test_it(rungwise_provider, rungwise_client):\n"
        "    from rungwise.testing import ScriptedReply\n"
        "    provider = rungwise_provider(ScriptedReply(text='Yes.'))\n"
        "    assert rungwise_client(provider).call('hi').text == 'Yes.'\n",
        encoding="utf-8",
    )
    done = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", at=project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_runs_from_anywhere(python: Path, project: Path) -> None:
    assert run(python.parent / "rungwise", "verify", at=project).returncode == 0
    assert run(python, "-m", "rungwise", "--help", at=python.parent).stdout.startswith(
        "Usage: rungwise "
    )
    for command in (
        [python, "-m", "rungwise"],
        ["env", f"PYTHONPATH={project}", python.parent / "rungwise"],
    ):
        done = run(*command, "--help", at=project)
        assert (done.returncode, done.stderr) == (0, "")


USE = """
import json, sys
import rungwise
import rungwise.fsm.testing, rungwise.adapters.testing
from rungwise import CALL, Client, Policy
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
with EmbeddedProvider(Script([ScriptedReply(text="Yes.")])) as provider:
    assert Client(rungwise.OpenAIChat("m", base_url=provider.base_url)).call("hi").text == "Yes."
ours = {name: module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "rungwise"}
print(json.dumps([sorted(set(sys.modules) & {"adapters", "fsm"}), ours]))
"""  # noqa: E501
"""Use Rungwise, and tell which of the names in question were imported, and where all of ours came
from.
"""


def assert_ours(python: Path, root: Path, at: Path, *path: Path) -> None:
    """See that Rungwise works in a folder, with other folders on its path, and that all of it is
    under a root.
    """
    done = run("env", f"PYTHONPATH={':'.join(map(str, path))}", python, "-c", USE, at=at)
    assert done.returncode == 0, done.stderr
    others, ours = json.loads(done.stdout)
    assert others == []
    assert len(ours) > 50
    assert all(Path(file).resolve().is_relative_to(root.resolve()) for file in ours.values())


@pytest.mark.parametrize("fsm", ["fsm.py", "fsm/__init__.py"])
@pytest.mark.parametrize("on_the_path", [False, True])
def test_hostile_files_change_nothing(
    python: Path,
    tmp_path: Path,
    fsm: str,
    on_the_path: bool,
) -> None:
    hostile = tmp_path / "hostile"
    for name in (fsm, "adapters/__init__.py", "adapters/client.py"):
        (hostile / name).parent.mkdir(parents=True, exist_ok=True)
        (hostile / name).write_text(
            "raise SystemExit('a stranger was imported')\n", encoding="utf-8"
        )
    at = tmp_path if on_the_path else hostile
    hostiles = [hostile] if on_the_path else []
    assert_ours(python, python.parents[1], at, *hostiles)


def test_an_editable_install_is_the_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=LEFT_OUT)
    shutil.copytree(ROOT / ".ci", checkout / ".ci")
    python = environment(tmp_path / "environment", ("-e", f"{checkout}[testing]"))
    assert_ours(python, checkout, tmp_path)
    assert not list(python.parents[1].rglob("rungwise/fsm"))  # a copy would grow old


def files_of(python: Path, name: str) -> dict[str, str]:
    """Return the hashes of the files that an installed distribution has listed, as they are now."""
    listed = (
        f"from importlib.metadata import files; print(*(f.locate() for f in "
        f"files('{name}') if f.hash), sep='\\n')"
    )
    done = run(python, "-c", listed, at=python.parent)
    assert done.returncode == 0, done.stderr
    return {
        path: hashlib.sha256(Path(path).read_bytes()).hexdigest()
        for path in done.stdout.splitlines()
    }


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_adapter_hub_and_rungwise_live_side_by_side(
    wheel: Path, tmp_path: Path, is_first: bool
) -> None:
    """The distribution `adapters` installs a package of that name; it is large, and needs what
    nothing here does.
    """
    theirs = ("--no-deps", "adapters")
    first, second = (f"{wheel}[testing]", theirs) if is_first else (theirs, f"{wheel}[testing]")
    python = environment(tmp_path / "environment", first)
    before = files_of(python, "rungwise" if is_first else "adapters")
    assert len(before) > 50
    arguments = second if isinstance(second, tuple) else (second,)
    pip_install(python, *arguments)
    assert files_of(python, "rungwise" if is_first else "adapters") == before
    assert not files_of(python, "rungwise").keys() & files_of(python, "adapters").keys()
    assert_ours(python, python.parents[1], tmp_path)
