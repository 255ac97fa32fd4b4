"""What a release rests on: the workflows are valid and may do little, and what they build is
whole.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.waiting import patience

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github/workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
REVIEW = ROOT / "tests/examples/policy_review/policy-review.yml"
ACTIONLINT = [
    Path(sys.executable).with_name("actionlint"),
    "-shellcheck=",
    "-pyflakes=",
    "-no-color",
]


def lint(*paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ACTIONLINT, *paths], capture_output=True, text=True, cwd=ROOT, timeout=patience()
    )


def workflow(name: str) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return read


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def test_the_workflows_are_valid() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "docs.yml", "publish.yml"]
    done = lint(*WORKFLOWS, REVIEW)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("runs-on: ubuntu-latest", "runs-on: ubuntu-latets"),
        ("needs: build", "needs: biuld"),
        ("steps:", "stpes:"),
    ],
)
def test_a_broken_workflow_is_refused(tmp_path: Path, right: str, wrong: str) -> None:
    broken = tmp_path / "publish.yml"
    text = (FOLDER / "publish.yml").read_text(encoding="utf-8")
    broken.write_text(text.replace(right, wrong), encoding="utf-8")
    assert wrong in broken.read_text(encoding="utf-8")
    assert lint(broken).returncode == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_a_job_needs_more_and_names_versions(path: Path) -> None:
    read = workflow(path.name)
    assert read["permissions"] == {"contents": "read"}
    for name, job in read["jobs"].items():
        assert job["timeout-minutes"] <= 45
        assert "permissions" not in job or name in ("deploy", "publish")
    text = path.read_text(encoding="utf-8")
    assert "secrets." not in text
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
    used = [step["uses"] for step in steps(path.name) if "uses" in step]
    assert used
    assert all(
        re.fullmatch(r"actions/[\w-]+@v\d+|pypa/gh-action-pypi-publish@release/v1", each)
        for each in used
    )


def test_ci_runs_on_every_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [
        found[1]
        for each in project["classifiers"]
        if (found := re.fullmatch(r".* :: (3\.\d+)", each))
    ]
    jobs = workflow("ci.yml")["jobs"]
    assert jobs["checks"]["strategy"]["matrix"]["python"] == named
    assert jobs["checks"]["steps"][-1]["run"] == ".ci/run"
    assert jobs["install"]["strategy"]["matrix"]["system"] == ["windows-latest", "macos-latest"]
    assert [step["run"] for step in jobs["install"]["steps"] if "run" in step] == [
        "pip install .",
        "rungwise demo --all",
    ]


def test_only_a_tag_publishes_and_without_a_token() -> None:
    read = workflow("publish.yml")
    assert read[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    publish = read["jobs"]["publish"]
    assert (publish["needs"], publish["environment"]["name"]) == ("build", "pypi")
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["steps"][-1] == {"uses": "pypa/gh-action-pypi-publish@release/v1"}
    assert any(
        "twine check --strict dist/*" in step.get("run", "") for step in steps("publish.yml")
    )


@pytest.mark.full
def test_what_is_published_is_whole_and_the_same_from_either_source(tmp_path: Path) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1760000000"}

    def run(*command: str | Path) -> None:
        asked = [sys.executable, "-m", *map(str, command)]
        done = subprocess.run(
            asked, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience(300)
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run("build", "--outdir", tmp_path / "dist", ".")  # the wheel from the source distribution
    run("build", "--wheel", "--outdir", tmp_path / "checkout", ".")
    files = sorted((tmp_path / "dist").iterdir())
    run("twine", "check", "--strict", *files)
    [wheel], [other] = (tuple((tmp_path / name).glob("*.whl")) for name in ("dist", "checkout"))
    assert [path.suffix for path in files] == [".whl", ".gz"]
    assert wheel.read_bytes() == other.read_bytes()
