"""`rungwise diff`: its formats, its policies, its past journals, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from rungwise.core import Call, Failure, PlainLink, Reply, Request
from support.command_line import invoke, printed, refused

ONE = ("--backends", "1")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    old = tmp_path / "old.toml"
    new = tmp_path / "new.toml"
    old.write_text("")
    new.write_text("[limits]\nretries = 9\n")
    return str(old), str(new)


def recorded(path: Path, *replies: Any) -> str:
    call = Call(Request("hi"), chain=[PlainLink("one"), PlainLink("two")])
    send = call.begin(0.0)
    now = 0.0
    for reply in replies:
        now += send.wait + 1
        call.sending(now - 1)
        send = call.receive(reply, now)
    path.write_text(call.journal.to_json())
    return str(path)


@pytest.mark.full
def test_diff_compares_two_files(files: tuple[str, str]) -> None:
    result = invoke("diff", *files, "--backends", "2", "--max-tokens", "1000")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "| `limits.retries` | `3` | `9` |\n" in result.stdout
    assert "with two backends" in result.stdout
    assert "| `limits.retries` | `3` | `9` |" in invoke("diff", *files, *ONE, "--markdown").stdout


@pytest.mark.full
def test_on_a_terminal_the_text_is_laid_out(files: tuple[str, str], monkeypatch: Any) -> None:
    monkeypatch.setattr("rungwise.adapters.cli.output.is_terminal", lambda stream: True)
    shown = invoke("diff", *files, *ONE).stdout
    assert "Fields (1)" in shown
    assert "## " not in shown
    assert "limits.retries" in shown
    assert "`limits.retries`" not in shown


@pytest.mark.parametrize(
    ("name", "begins", "holds", "options"),
    [
        ("page.html", "<!doctype html>", "</html>", ()),
        pytest.param("page.md", "**", "| factor |", (), marks=pytest.mark.full),
        pytest.param("page.txt", "**With one backend", "## Fields (1)", (), marks=pytest.mark.full),
        pytest.param("hub.svg", "<svg", "×9", (), marks=pytest.mark.full),
        pytest.param(
            "ladder.svg", "<svg", "guard by guard", ("--view", "ladder"), marks=pytest.mark.full
        ),
    ],
)
def test_the_end_of_a_file_says_what_is_written(
    files: tuple[str, str],
    tmp_path: Path,
    name: str,
    begins: str,
    holds: str,
    options: tuple[str, ...],
) -> None:
    out = tmp_path / name
    result = invoke("diff", *files, *ONE, "-o", out, *options)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "written" in result.stderr
    written = out.read_text(encoding="utf-8")
    assert written.startswith(begins)
    assert holds in written


def test_a_policy_that_is_dearer_or_ends_worse_than_the_default_fails_if_asked(
    tmp_path: Path,
) -> None:
    new = tmp_path / "new.toml"
    new.write_text("[limits]\nrepairs = 0\n[budget]\nattempts = 30\n")
    flags = ("--fail-if-dearer", "--fail-if-worse")
    result = invoke("diff", "default", new, *ONE, *flags)
    worse, dearer, *_ = result.stderr.splitlines()
    trouble = "400 that names a different parameter each time"
    how = "failed instead of done (with one backend, the first attempt fails)"
    assert result.exit_code == 1
    assert worse == f"Worse: {how}: {trouble}."
    assert dearer.startswith("Dearer: a call with one backend. Attempts: at most 30, before 24 (")
    assert "| `limits.repairs` |" in result.stdout
    assert result.stdout.startswith(
        f"**Outcomes got worse. {trouble}: failed instead of done. With one backend, this change"
    )
    same = printed("diff", "default", "default", *ONE, *flags)
    assert same == "Nothing changes: the two policies are the same.\n"


@pytest.mark.full
def test_the_default_policy_of_turns_does_with_turn(tmp_path: Path) -> None:
    file = tmp_path / "turn.toml"
    file.write_text("faults = 2\n")
    assert "| `faults` | `3` | `2` |" in invoke("diff", "default", file, "--turn", *ONE).stdout


@pytest.mark.full
def test_a_budget_of_money_needs_prices_and_gets_them(
    files: tuple[str, str], tmp_path: Path
) -> None:
    dear = tmp_path / "dear.toml"
    dear.write_text("[budget]\nmoney = 0.5\n")
    assert "--prices" in refused("diff", files[0], dear, *ONE)
    priced = ("--prices", "2.5/10", "--max-tokens", "1000", "--input-tokens", "2000")
    stdout = printed("diff", files[0], dear, *ONE, *priced)
    (money,) = [line for line in stdout.splitlines() if line.startswith("| money ")]
    assert "0.5 (budget.money)" in money


@pytest.mark.full
def test_past_journals_say_what_they_would_have_done(
    files: tuple[str, str], tmp_path: Path
) -> None:
    slow = Failure("server_error")
    answer = Reply("hello", stop_reason="stop")
    same = recorded(tmp_path / "same.json", answer)
    other = recorded(tmp_path / "other.json", slow, slow, slow, slow, answer)
    stdout = printed("diff", *files, *ONE, "--journal", same, "--journal", other)
    text = " ".join(stdout.split())
    assert "Of 2 past journals: 1 takes the same path to the end, 1 differs from a step on." in text
    assert (
        "`same.json`: the same path to the end (done), with as many attempts and the same waits"
        in text
    )
    assert "`other.json`: step 8: before: fallback 1 (failed_transiently); now: retry 4" in text


@pytest.mark.parametrize(
    ("name", "text"), [("none.json", None), ("bad.json", "{"), ("odd.json", "{}")]
)
def test_a_bad_journal_is_said_in_one_line(
    files: tuple[str, str],
    tmp_path: Path,
    name: str,
    text: str | None,
) -> None:
    bad = tmp_path / name
    if text is not None:
        bad.write_text(text)
    stderr = refused("diff", *files, "--journal", bad)
    assert len(stderr.splitlines()) == 1
    assert name in stderr


def test_two_formats_exclude_each_other(files: tuple[str, str]) -> None:
    refused("diff", *files, "--markdown", "--format", "html")


@pytest.mark.parametrize(
    ("text", "says"),
    [("[limits]\nretrys = 1", "did you mean 'retries'"), ("[", "bad.toml"), (None, "bad.toml")],
)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_bad_policy_is_said_in_one_line(
    files: tuple[str, str],
    tmp_path: Path,
    text: str | None,
    says: str,
    is_new: bool,
) -> None:
    bad = tmp_path / "bad.toml"
    if text is not None:
        bad.write_text(text)
    old, new = (files[0], bad) if is_new else (bad, files[0])
    stderr = refused("diff", old, new)
    assert says in stderr
    assert "bad.toml" in stderr
    assert len(stderr.splitlines()) == 1


def test_a_policy_that_cannot_be_proved_is_named(
    files: tuple[str, str], tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "unproved_policies.py").write_text(
        "import rungwise\n"
        "TABLE = rungwise.CALL.reordered('refused', [None, 'may_ask_another'])\n"
        "POLICY = rungwise.Policy(table=TABLE)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "unproved_policies" in refused("diff", files[0], "unproved_policies:POLICY", *ONE)
