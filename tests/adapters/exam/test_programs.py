"""How a stranger's program is run: without a key, to its deadline, and with bounded output."""

import site
import sys
import time
from pathlib import Path

import pytest

from rungwise import ConfigurationError
from rungwise.adapters.exam.programs import KEY, MOST_BYTES, environment, run

BASE = "http://127.0.0.1:1"


def python(script: str, limit: float = 20.0, **variables: str):
    return run([sys.executable, "-c", script], environment(BASE) | variables, limit)


def test_what_it_prints_and_its_exit_code_are_kept():
    ended = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (ended.output, ended.errors, ended.code) == ("out\n", "err\n", 3)


def test_no_variable_that_nobody_named_is_passed_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    monkeypatch.setenv("MY_PASSWORD", "of-the-user")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.of.the.user")
    monkeypatch.setenv("MODEL", "gpt-5")
    ended = run(
        [sys.executable, "-c", "import os; print(dict(os.environ))"],
        environment(BASE, names=["MODEL", "NOT_THERE"]),
        20.0,
    )
    assert "of-the-user" not in ended.output
    assert "proxy.of" not in ended.output
    assert KEY in ended.output
    assert "'MODEL': 'gpt-5'" in ended.output


LEAVES_A_NOTE = """
import os, pathlib, tempfile
for folder in (pathlib.Path.home(), pathlib.Path(tempfile.gettempdir())):
    note = folder / "note-of-the-exam"
    print(folder, note.exists())
    note.write_text("I was here.")
"""


def test_a_program_has_a_home_of_its_own_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    homes = [python(LEAVES_A_NOTE).output for _ in range(2)]
    assert not any(tmp_path.iterdir())
    assert homes[0] != homes[1]
    for home in homes:
        told = [line.split() for line in home.splitlines()]
        assert [was_there for _, was_there in told] == ["False", "True"]
        assert not Path(told[0][0]).exists()


def test_the_home_of_the_user_is_passed_on_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    variables = environment(BASE, names=["HOME"])
    asks = [sys.executable, "-c", "import pathlib; print(pathlib.Path.home())"]
    assert run(asks, variables, 20.0).output.strip() == str(tmp_path)


def test_packages_that_a_user_installed_are_still_found():
    asks = "import site; print(site.getuserbase())"
    assert python(asks).output.strip() == site.getuserbase()


def test_a_protocol_is_told_alone_where_one_is_chosen():
    told = environment(BASE, ["anthropic"])
    assert told["ANTHROPIC_BASE_URL"] == BASE
    assert "OPENAI_BASE_URL" not in told
    assert environment(BASE)["OPENAI_BASE_URL"] == f"{BASE}/v1"


def test_at_its_deadline_it_is_killed_with_its_children(tmp_path: Path):
    pid = tmp_path / "pid"
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    began = time.monotonic()
    ended = python(script, limit=3.0)
    assert ended.code is None
    assert time.monotonic() - began < 30.0
    assert is_gone(int(pid.read_text()))


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended, or is a zombie that nobody has waited for."""
    status = Path(f"/proc/{pid}/stat")
    if not status.exists():
        return True
    return status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_its_output_is_kept_to_a_limit_and_read_to_the_end():
    ended = python(f"print('x' * {3 * MOST_BYTES}); import sys; sys.exit(5)")
    assert len(ended.output) == MOST_BYTES
    assert ended.code == 5


def test_it_has_no_stdin():
    assert python("print(repr(input()))").code == 1


def test_a_program_that_is_not_there_is_refused():
    with pytest.raises(ConfigurationError, match="cannot run 'no-such-program': No such file"):
        run(["no-such-program"], environment(BASE), 1.0)


def test_bytes_that_are_no_text_are_replaced():
    assert python(r"import os; os.write(1, b'\xff')").output == "\ufffd"
