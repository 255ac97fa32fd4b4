"""The review of a policy: the steps of the workflow as a runner executes them, and the script that
does the same.

What a runner has and this machine may lack (`gh`, `pip`) is played by scripts that note what they
were given. So is `rungwise`, whose commands take seconds, in the ordinary run: there it is asked to
read the arguments that were noted.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from attrs import field, frozen

import rungwise
from rungwise.adapters.cli.command import main

HERE = Path(__file__).parent / "policy_review"
OLD, NEW = ((HERE / name).read_text("utf-8") for name in ("old.toml", "new.toml"))
WORKFLOW: dict[Any, Any] = yaml.safe_load((HERE / "policy-review.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["review"]["steps"]
MARK = "<!-- rungwise: policy.toml -->"
NOTE = 'printf "%s\\n" "$(basename "$0") $(printf "%q " "$@")" >>"$NOTES"\n'
"""Note a command line, quoted for a shell."""

STUBS = {
    "pip": NOTE,
    "rungwise": NOTE + 'if [[ "$*" = *--markdown ]]; then echo "**Fields**"; fi\n',
    "gh": NOTE + 'case "$*" in *--jq*) echo "$OURS" ;; *) cat comment.md >posted.md ;; esac\n',
}
EXPRESSIONS = {
    "github.token": "a-token",
    "github.repository": "us/ours",
    "github.event.pull_request.number": "7",
    "steps.page.outputs.artifact-url": "https://example.com/page",
}


@frozen
class Runner:
    """Run the steps of the workflow in a checkout of what would be merged.

    Arguments:
        checkout: the checkout.
        temporary: the folder of files that are not the repository's.
        environment: the variables of every step.
    """

    checkout: Path
    temporary: Path
    environment: dict[str, str] = field(factory=dict)

    def run(self, *, is_fork: bool = False, ours: str = "") -> None:
        """Run every step that is a script, one after another, as far as its condition allows."""
        exported = self.temporary / "exported"
        self.environment.update(
            PATH=f"{self.temporary}{os.pathsep}{os.environ['PATH']}",
            NOTES=str(self.temporary / "notes"),
            GITHUB_ENV=str(exported),
            GITHUB_STEP_SUMMARY=str(self.temporary / "summary.md"),
            RUNNER_TEMP=str(self.temporary),
            OURS=ours,
            **WORKFLOW["env"],
        )
        for step in STEPS:
            if "run" not in step:
                continue
            condition = step.get("if", "${{ !cancelled() }}")
            if is_fork and "head.repo.full_name == github.repository" in condition:
                continue
            given = {name: expanded(value) for name, value in step.get("env", {}).items()}
            self.bash(step["run"], given)
            if exported.exists():
                self.environment.update(
                    line.split("=", 1) for line in exported.read_text("utf-8").splitlines()
                )

    def bash(self, script: str, given: Mapping[str, str]) -> None:
        """Run a script as a runner does where the workflow names bash as its shell."""
        assert WORKFLOW["defaults"]["run"]["shell"] == "bash"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(
            command,
            cwd=self.checkout,
            env={**os.environ, **self.environment, **given},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    @property
    def commands(self) -> list[list[str]]:
        """Return the commands that were noted."""
        return [
            shlex.split(line) for line in (self.temporary / "notes").read_text("utf-8").splitlines()
        ]

    def given(self, name: str) -> list[list[str]]:
        """Return what a command was given, each time."""
        return [arguments for called, *arguments in self.commands if called == name]

    @property
    def ran(self) -> str:
        """Return the names of the commands of `rungwise`."""
        return " ".join(arguments[0] for arguments in self.given("rungwise"))

    @property
    def summary(self) -> str:
        """Return the summary of the job."""
        return (self.temporary / "summary.md").read_text("utf-8")


def expanded(value: str) -> str:
    """Put values in the place of the expressions that a workflow may hold."""
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: EXPRESSIONS[found[1]], value)


def commit(checkout: Path, policy: str | None, *, other: str = "") -> None:
    """Commit a policy, or its deletion, and something else."""
    (checkout / "other").write_text(other, "utf-8")
    path = checkout / "policy.toml"
    if policy is not None:
        path.write_text(policy, "utf-8")
    elif path.exists():
        path.unlink()
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "Change")


def git(checkout: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(
        ["git", *who, *arguments],
        cwd=checkout,
        check=True,
        capture_output=True,
    )


def runner_of(
    tmp_path: Path,
    old: str | None,
    new: str | None,
    stubs: Mapping[str, str] = STUBS,
) -> Runner:
    """Return a runner that has checked out the merge of a pull request."""
    checkout = tmp_path / "checkout"
    temporary = tmp_path / "temporary"
    checkout.mkdir(parents=True)
    temporary.mkdir()
    git(checkout, "init", "--quiet", "--initial-branch", "main")
    commit(checkout, old)
    git(checkout, "checkout", "--quiet", "-b", "change")
    commit(checkout, new)
    git(checkout, "checkout", "--quiet", "main")
    (checkout / "elsewhere").write_text("main has gone on", "utf-8")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "Go on")
    git(checkout, "merge", "--quiet", "--no-ff", "change")
    for name, script in stubs.items():
        (temporary / name).write_text(f"#!/usr/bin/env bash\n{script}", "utf-8")
        (temporary / name).chmod(0o755)
    return Runner(checkout, temporary)


policy = rungwise.Policy.from_toml


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Return what `rungwise` takes from arguments; nothing is run."""
    name, *given = arguments
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command.make_context(name, given).params


def test_a_change_is_compared_proved_fuzzed_and_told_in_a_new_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_of(tmp_path, OLD, NEW)
    runner.run()
    assert runner.ran == "diff diff verify fuzz"
    assert runner.given("pip") == [["install", "rungwise[testing]"]]
    listed, posted = runner.given("gh")
    assert listed[:3] == ["api", "--paginate", "repos/us/ours/issues/7/comments"]
    assert "github-actions[bot]" in listed[-1]
    assert f'startswith("{MARK}")' in listed[-1]
    assert posted[1:] == [
        "--silent",
        "--method",
        "POST",
        "repos/us/ours/issues/7/comments",
        "-F",
        "body=@comment.md",
    ]
    said = (runner.checkout / "posted.md").read_text("utf-8")
    assert said == runner.summary + "\n\n[The whole page](https://example.com/page)\n"
    assert said.startswith(f"{MARK}\n### What this does to calls under `policy.toml`\n")
    assert runner.summary.endswith("**Fields**\n")
    monkeypatch.chdir(runner.checkout)
    diff, page, verify, fuzz = map(parsed, runner.given("rungwise"))
    assert (diff["old"], diff["new"]) == (page["old"], page["new"]) == (policy(OLD), policy(NEW))
    assert (diff["markdown"], page["output"]) == (True, "page.html")
    assert verify["policy"] == fuzz["policy"] == policy(NEW)
    assert verify["backends"] == fuzz["backends"] == 2


def test_the_next_push_updates_the_comment(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, OLD, NEW)
    runner.run(ours="42")
    assert runner.given("gh")[1][2:5] == ["--method", "PATCH", "repos/us/ours/issues/comments/42"]
    assert len(runner.given("gh")) == 2


def test_of_a_fork_the_review_stands_in_the_summary_alone(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, OLD, NEW)
    runner.run(is_fork=True)
    assert runner.given("gh") == []
    assert runner.ran == "diff diff verify fuzz"
    assert runner.summary.startswith(MARK)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [(None, NEW, "It is new"), (OLD, None, "It is deleted")],
)
def test_a_policy_that_is_new_or_deleted_is_compared_with_the_defaults(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    old: str | None,
    new: str | None,
    told: str,
) -> None:
    runner = runner_of(tmp_path, old, new)
    runner.run()
    assert told in runner.summary
    monkeypatch.chdir(runner.checkout)
    diff, _, verify, _ = map(parsed, runner.given("rungwise"))
    assert (diff["old"], diff["new"], verify["policy"]) == (
        policy(old or ""),
        policy(new or ""),
        policy(new or ""),
    )


def test_it_is_allowed_no_more_than_it_needs() -> None:
    # "on" is a yes in YAML 1.1; never pull_request_target
    assert WORKFLOW[True].keys() == {"pull_request"}
    assert WORKFLOW["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert "permissions" not in WORKFLOW["jobs"]["review"]
    assert "secrets." not in (HERE / "policy-review.yml").read_text("utf-8")
    actions = [step["uses"] for step in STEPS if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in actions)
    assert STEPS[0]["with"] == {"fetch-depth": 2, "persist-credentials": False}
    # What others may have written reaches no shell but as the value of a variable.
    assert not any("${{" in step.get("run", "") for step in STEPS)


def test_the_script_runs_the_commands_of_the_workflow(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, OLD, NEW)
    runner.run()
    of_workflow = runner.given("rungwise")
    (runner.temporary / "notes").unlink()
    runner.bash(f"{shlex.quote(str(HERE / 'review.sh'))} no-such-file policy.toml", {})
    of_script = runner.given("rungwise")
    base = str(runner.temporary / "base" / "policy.toml")
    assert of_workflow[0] == ["diff", base, *of_script[0][2:], "--markdown"]
    assert of_workflow[1] == ["diff", base, *of_script[0][2:], "-o", "page.html"]
    assert of_script[0][1] == "/dev/null"
    assert of_workflow[2:] == of_script[1:]
    runner.bash(shlex.quote(str(HERE / "review.sh")), {})
    assert runner.given("rungwise")[3][1:3] == [str(HERE / "old.toml"), str(HERE / "new.toml")]


@pytest.mark.full
def test_it_all_runs_with_rungwise_itself(tmp_path: Path) -> None:
    real = {
        **STUBS,
        "rungwise": f'{NOTE}exec {shlex.quote(sys.executable)} -m rungwise "${{@/#60/1}}"\n',
    }
    runner = runner_of(tmp_path, OLD, NEW, real)
    runner.run()
    said = (runner.checkout / "posted.md").read_text("utf-8")
    assert said.startswith(runner.summary)
    assert "<html" in (runner.checkout / "page.html").read_text("utf-8")
    assert all(name in said for name in ("limits.retries", "budget.seconds", "after_refusal"))
    with pytest.raises(AssertionError, match="retrys"):  # the step fails, and says why
        runner_of(tmp_path / "misspelt", OLD, "[limits]\nretrys = 3\n", real).run()
