"""`rungwise completion` writes a script that completes."""

import os
import subprocess

import pytest

from support.command_line import command, environment, printed, refused


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    script = printed("completion", shell)
    assert f"_RUNGWISE_COMPLETE={shell}_complete" in script
    assert script.endswith("\n")


def test_the_variable_of_the_script_completes_commands() -> None:
    asked = {"_RUNGWISE_COMPLETE": "bash_complete", "COMP_WORDS": "rungwise ver", "COMP_CWORD": "1"}
    done = subprocess.run(
        [os.path.join(os.path.dirname(command()[0]), "rungwise")],
        env=environment(**asked),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plain,verify\n"


def test_another_shell_is_refused() -> None:
    assert "'bash', 'zsh', 'fish'" in refused("completion", "tcsh")
