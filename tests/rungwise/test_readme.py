"""The README says what runs, and the pages name commands and figures as they are; their blocks run
beside this.
"""

import re
import shlex
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

import rungwise
from rungwise.adapters.cli.command import main
from rungwise.core import Reply
from rungwise.testing import ScriptedReply

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/pages").rglob("*.md"))]
BLUE = ScriptedReply("The sky scatters blue light.")
STORY = (
    "Blue light is scattered far more than red light, for its waves are shorter than "
    "those of red light by a third."
)

Made = Callable[..., rungwise.Client]


def face(client: Made, *providers: Any) -> Any:
    """Return what a block calls `rungwise`: its clients are built as it says, and then speak to
    these providers.
    """

    def built(chain: Any, **options: Any) -> rungwise.Client:
        rungwise.Client(chain, **options).close()
        return client(*providers, **options)

    names = (*rungwise.__all__, "core", "testing", "ui")
    return SimpleNamespace(**{name: getattr(rungwise, name) for name in names} | {"Client": built})


def run(block: str, **names: Any) -> dict[str, Any]:
    """Execute a block, and return the names that it leaves."""
    given = {
        "rungwise": rungwise,
        "messages": [{"role": "user", "content": "Why is the sky blue?"}],
        **names,
    }
    exec(compile(block, "README.md", "exec"), given)
    return given


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-1f3870be274f6c49")


def test_it_has_at_most_160_lines() -> None:
    assert len(README.splitlines()) <= 160


def test_the_first_example_has_ten_lines() -> None:
    block = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[0]
    assert len(block.strip().splitlines()) == 10


def test_the_bad_day_is_shown_as_it_goes(rungwise_provider: Any, rungwise_client: Made) -> None:
    [shown] = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    overloaded = ScriptedReply(status=529)
    cut = ScriptedReply(STORY[:80], chunk_size=10, cut_after=1500)
    provider = rungwise_provider(overloaded, cut, ScriptedReply(STORY[40:]))
    backend = rungwise.Anthropic("claude-sonnet-5", base_url=provider.base_url)
    with rungwise_client(backend).stream("Why is the sky blue?") as stream:
        result = list(stream)[-1]
    assert isinstance(result, rungwise.Result)
    assert result.text == STORY
    steps = "".join(f"{step}\n" for step in result.journal.steps)
    steps = re.sub(r"127\.0\.0\.1:\d+", "api.anthropic.com", steps)
    assert re.sub(r"after \d+\.\d s", "after 2.0 s", steps) == shown


def test_the_code_of_the_reference_runs(
    rungwise_provider: Any, rungwise_client: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    [called], [driven] = (
        re.findall(r"(?:^    .*\n)+", module.__doc__, re.MULTILINE)
        for module in (rungwise, rungwise.core)
    )
    run(textwrap.dedent(called), rungwise=face(rungwise_client, rungwise_provider(BLUE)))
    own = {
        "policy": rungwise.Policy(),
        "now": 0.0,
        "ask_somehow": lambda send: Reply("Red.", stop_reason="stop"),
    }
    run(textwrap.dedent(driven), **own)
    assert re.fullmatch(
        r"The sky scatters blue light. done Usage.*\nRed.\n", capsys.readouterr().out
    )


def commands(page: str) -> list[str]:
    """List the `rungwise` commands of a page, in its blocks for a shell and in its text."""
    shown = re.findall(r"(?<!`)`(rungwise [^`]+)`(?!`)", page.replace("\n", " "))
    shown += re.findall(r"^(?:.*\.venv/bin/)?(rungwise .+)$", page, re.MULTILINE)
    return [shlex.join(shlex.split(each, comments=True)[1:]) for each in dict.fromkeys(shown)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_of_a_page_has_these_options(path: Path) -> None:
    for each in commands(path.read_text(encoding="utf-8")):
        name, *arguments = shlex.split(each.partition("'>'")[0])
        if "--" in arguments:  # what follows belongs to the program that is named
            del arguments[arguments.index("--") :]
        command = main.get_command(click.Context(main), name)
        assert command is not None, each
        known = {option for parameter in command.params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("-")} <= known, each


def test_the_costs_of_faults_are_those_that_were_measured() -> None:
    measured = (ROOT / "tests/failover/README.md").read_text(encoding="utf-8").splitlines()
    found = 0
    for path in PAGES:
        _, head, table = path.read_text(encoding="utf-8").partition(
            "| the primary's fault, every time |"
        )
        rows = table.partition("\n\n")[0].splitlines()[2:]
        assert not [row for row in rows if row not in measured], path
        found += bool(head)
    assert found == 2


def test_the_tests_to_copy_are_the_examples() -> None:
    for name in ("own_policy", "own_turns"):
        _, _, code = (
            (ROOT / f"tests/examples/test_{name}.py")
            .read_text(encoding="utf-8")
            .partition("\nimport ")
        )
        page = (ROOT / "docs/pages/fuzzing.md").read_text(encoding="utf-8")
        assert f"# test_{name}.py\nimport {code}```" in page
