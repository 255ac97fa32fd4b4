"""The README shows what runs: each of its blocks is executed, against scripted providers where it makes calls."""

import re
import shlex
import textwrap
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

import rungwise
from rungwise.adapters.cli.command import main
from rungwise.adapters.testing.fuzzing import Fuzzer
from rungwise.core import Reply
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.command_line import invoke

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLUE = ScriptedReply("The sky scatters blue light.")
STORY = "Blue light is scattered far more than red light, for its waves are shorter than those of red light by a third."
MESSAGES = [{"role": "user", "content": "Why is the sky blue?"}]

Made = Callable[..., rungwise.Client]


def blocks(heading: str, language: str = "python") -> list[str]:
    """List the blocks of a language below a heading."""
    [section] = re.findall(
        rf"^#+ {re.escape(heading)}\n(.*?)(?=^##? |\Z)", without_comments(), re.MULTILINE | re.DOTALL
    )
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def without_comments() -> str:
    """Return the README with no line that looks like a heading and is a comment in a block."""
    return re.sub(r"^(```\w+\n.*?^```)", lambda block: block[1].replace("\n#", "\n #"), README, flags=re.M | re.S)


def face(client: Made, *providers: Any) -> Any:
    """Return what a block calls `rungwise`: its clients are built as it says, and then speak to these providers."""

    def built(chain: Any, **options: Any) -> rungwise.Client:
        rungwise.Client(chain, **options).close()
        return client(*providers, **options)

    names = (*rungwise.__all__, "core", "testing")
    return SimpleNamespace(**{name: getattr(rungwise, name) for name in names} | {"Client": built})


def run(block: str, **names: Any) -> dict[str, Any]:
    """Execute a block, and return the names that it leaves."""
    given = {"rungwise": rungwise, "messages": MESSAGES, "time": time, "Path": Path, **names}
    exec(compile(block, "README.md", "exec"), given)
    return given


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-1f3870be274f6c49")


def test_it_has_at_most_250_lines_that_can_be_read() -> None:
    lines = README.splitlines()
    assert len(lines) <= 250
    assert all(len(re.sub(r"\(https://[^)]*\)", "", line)) <= 120 for line in lines if not line.startswith("|"))


def test_the_first_example_prints_an_answer_and_its_steps(
    rungwise_provider: Any, rungwise_client: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = blocks("Rungwise")
    assert len(block.strip().splitlines()) == 10
    run(block.replace("import rungwise\n", ""), rungwise=face(rungwise_client, rungwise_provider(BLUE)))
    assert capsys.readouterr().out.startswith("The sky scatters blue light. done Usage(")


def test_the_bad_day_is_shown_as_it_goes(rungwise_provider: Any, rungwise_client: Made) -> None:
    [shown] = blocks("Rungwise", "text")
    overloaded, cut = ScriptedReply(status=529), ScriptedReply(STORY[:80], chunk_size=10, cut_after=1500)
    provider = rungwise_provider(overloaded, cut, ScriptedReply(STORY[40:]))
    backend = rungwise.Anthropic("claude-sonnet-5", base_url=provider.base_url)
    with rungwise_client(backend).stream(MESSAGES) as stream:
        result = list(stream)[-1]
    assert isinstance(result, rungwise.Result)
    assert result.text == STORY
    steps = "".join(f"{step}\n" for step in result.journal.steps)
    steps = re.sub(r"127\.0\.0\.1:\d+", "api.anthropic.com", steps)
    assert re.sub(r"after \d+\.\d s", "after 2.0 s", steps) == shown


def test_the_code_of_the_front_page_runs(
    rungwise_provider: Any, rungwise_client: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    [called], [driven] = (
        re.findall(r"(?:^    .*\n)+", module.__doc__, re.MULTILINE) for module in (rungwise, rungwise.core)
    )
    run(textwrap.dedent(called), rungwise=face(rungwise_client, rungwise_provider(BLUE)))
    own = {"policy": rungwise.Policy(), "now": 0.0, "ask_somehow": lambda send: Reply("Red.", stop_reason="stop")}
    run(textwrap.dedent(driven), **own)
    assert re.fullmatch(r"The sky scatters blue light. done Usage.*\nRed.\n", capsys.readouterr().out)


def test_a_stream_shows_what_the_result_holds(rungwise_provider: Any, rungwise_client: Made) -> None:
    shown: list[str] = []
    fish = rungwise.Fact("is_fish", of=lambda reply: "Fish" in reply.text)
    plead = rungwise.Rung("plead", holds=fish, hint="Please answer the question about the sky.")
    provider = rungwise_provider(ScriptedReply("Fish."), BLUE)
    client = rungwise_client(provider, policy=rungwise.Policy(table=rungwise.CALL.with_rung(plead, answered=None)))
    [block] = blocks("A stream dies")

    def take_back(length: int) -> None:
        shown[:] = ["".join(shown)[:-length]]

    result = run(block, client=client, show=shown.append, take_back=take_back)["result"]
    assert "".join(shown) == result.text == BLUE.text
    assert [len(each.body["messages"]) for each in provider.requests] == [1, 2]


def test_the_policy_is_one_and_costs_no_more_than_it_says() -> None:
    [block] = blocks("My bill", "toml")
    policy = rungwise.Policy.from_toml(block)
    assert policy.budget.money == tomllib.loads(block)["budget"]["money"] == 0.05


def test_a_batch_has_one_budget(rungwise_provider: Any, rungwise_client: Made) -> None:
    [block] = blocks("My bill")
    provider = rungwise_provider(BLUE)
    priced = rungwise.OpenAIChat("gpt-5", base_url=provider.base_url, prices=rungwise.Prices(1.25, 10))
    left = run(block, rungwise=face(rungwise_client, priced), questions=["Why blue?", "Why red?"])
    assert left["answers"] == [BLUE.text, BLUE.text]
    assert (left["session"].attempts, left["session"].cost > 0) == (2, True)
    assert [each.body["max_tokens"] for each in provider.requests] == [500, 500]


def test_a_rate_limit_is_left_at_once(rungwise_provider: Any, rungwise_client: Made, rungwise_clock: Any) -> None:
    [shown] = re.findall(r"`Policy\((switch_after=.*?)\)`", README)
    policy = eval(f"rungwise.Policy({shown})")
    busy, idle = rungwise_provider(ScriptedReply(status=429)), rungwise_provider(BLUE)
    assert rungwise_client(busy, idle).call(MESSAGES, policy=policy).text == BLUE.text
    assert (len(busy.requests), len(idle.requests), rungwise_clock.waits) == (1, 1, [])


def test_a_call_has_clocks_and_a_deadline(rungwise_provider: Any, rungwise_client: Made) -> None:
    [block] = blocks("429 storms, and silence")
    left = run(block, client=rungwise_client(rungwise_provider(BLUE)))
    assert left["result"].outcome == "done"
    assert rungwise.verify(left["patient"]).ok


def test_a_wrong_answer_goes_back_with_the_reason(rungwise_provider: Any, rungwise_client: Made) -> None:
    [block] = blocks("Empty or half answers")
    birds = ('{"value": ["bittern", 7]}', '{"value": ["bittern"]}')
    provider = rungwise_provider(*map(ScriptedReply, (*birds, "In reeds.", "Reeds [1].")))
    left = run(block, client=rungwise_client(provider))
    assert (left["birds"], left["result"].text) == (["bittern"], "Reeds [1].")
    assert [request.body["messages"][-1]["content"].splitlines()[2:3] for request in provider.requests] == [
        [],
        ["the answer does not fit: '[1]': input should be a valid string"],
        [],
        ["Cite a source as [1]."],
    ]


def test_a_turn_runs_the_tool(rungwise_provider: Any, rungwise_client: Made) -> None:
    [block] = blocks("Cut tool calls, cut JSON")
    call = {"id": "call_1", "name": "look", "arguments": '{"lake": "Vomb", "birds": 2}'}
    provider = rungwise_provider(ScriptedReply(tool_calls=[call]), ScriptedReply("A heron and a bittern."))
    left = run(block, client=rungwise_client(provider))
    assert (left["result"].outcome, left["result"].calls) == ("finished", 2)
    assert left["messages"] == left["result"].messages
    assert provider.requests[1].body["messages"][-1]["content"] == '["heron","bittern"]'


def test_a_journal_is_kept_replayed_and_explained(
    rungwise_provider: Any, rungwise_client: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = blocks("What happened in this call?")
    result = rungwise_client(rungwise_provider(ScriptedReply(status=503), BLUE)).call("Why?")
    assert run(block, result=result)["again"].outcome == "done"
    [command] = re.findall(r"`rungwise (explain [^`]+)`", README)
    assert invoke(*shlex.split(command)).exit_code == 0
    assert "<svg" in (tmp_path / "call.html").read_text(encoding="utf-8")


def test_the_test_of_ones_own_passes(rungwise_provider: Any, rungwise_client: Made, rungwise_clock: Any) -> None:
    [block] = blocks("My tests wait, or need a provider")
    shown = run(block)["test_a_busy_provider_is_asked_again"]
    shown(rungwise_provider, rungwise_client, rungwise_clock)


def commands() -> list[str]:
    """List the `rungwise` commands of the README, in its blocks for a shell and in its text."""
    shown = re.findall(r"(?<!`)`(rungwise [^`]+)`(?!`)", README.replace("\n", " "))
    shown += re.findall(r"^(?:.*\.venv/bin/)?(rungwise .+)$", README, re.MULTILINE)
    asked = [shlex.join(shlex.split(each, comments=True)[1:]) for each in shown]
    return [each for each in dict.fromkeys(asked) if each != "serve"]  # which the text names without its script


SLOW = ("demo", "diagram --write")
"""What takes more time than a build should: three provider scenes, and everything that is generated."""


@pytest.fixture
def at_work(
    rungwise_provider: Any, rungwise_client: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> EmbeddedProvider:
    """Go to a folder with the files that the commands name; every host of theirs is the embedded provider."""
    monkeypatch.chdir(tmp_path)
    [policy] = blocks("My bill", "toml")
    for name, text in {
        "policy.toml": policy,
        "new.toml": policy,
        "old.toml": "[limits]\nretries = 2\n" + policy,
        "script.toml": '[[replies]]\ntext = "All is well."\n',
        "call.json": rungwise_client(rungwise_provider(BLUE)).call("Why?").journal.to_json(),
    }.items():
        Path(name).write_text(text, encoding="utf-8")
    provider: EmbeddedProvider = rungwise_provider(BLUE)
    monkeypatch.setattr(rungwise.OpenAIChat, "DEFAULT_URL", provider.base_url)
    monkeypatch.setattr(rungwise.Ollama, "DEFAULT_URL", provider.base_url.removesuffix("/v1"))
    whole_run = Fuzzer.run
    monkeypatch.setattr(Fuzzer, "run", lambda self, **asked: whole_run(self, **{**asked, "seconds": 1.0}))

    def ctrl_c(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rungwise.adapters.cli.serve._report", ctrl_c)
    return provider


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=pytest.mark.full if each.startswith(SLOW) else ()) for each in commands()],
)
def test_every_command_runs_as_it_stands(at_work: EmbeddedProvider, command: str) -> None:
    done = invoke(*shlex.split(command))
    assert done.exit_code == 0, done.output
    written = re.search(r"(?:-o|--scripts|--write) (\S+)", command)
    if written is not None:
        path = Path(written[1])
        assert any(path.iterdir()) if path.is_dir() else "<svg" in path.read_text(encoding="utf-8")
    if command.startswith("ask"):
        assert (done.stdout.strip(), len(at_work.requests)) == (BLUE.text, 1)
    for script in Path("worst").glob("*"):
        assert Script.from_toml(script.read_text(encoding="utf-8")).replies


@pytest.mark.parametrize("command", ["diff policy.toml old.toml --markdown", "fuzz old.toml --examples 5"])
def test_its_policy_runs_with_the_other_commands_of_its_workflow(at_work: EmbeddedProvider, command: str) -> None:
    done = invoke(*shlex.split(command))
    assert done.exit_code == 0, done.output


def test_every_command_of_the_readme_has_these_options() -> None:
    assert len(commands()) > 10
    for each in commands():
        name, *arguments = shlex.split(each.partition(">")[0])
        command = main.get_command(click.Context(main), name)
        assert command is not None, each
        known = {option for parameter in command.params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("-")} <= known, each


def test_the_costs_of_faults_are_those_that_were_measured() -> None:
    _, _, table = README.partition("| the primary's fault, every time |")
    rows = table.partition("\n\n")[0].splitlines()[2:]
    measured = (ROOT / "tests/failover/README.md").read_text().splitlines()
    assert len(rows) >= 4
    assert not [row for row in rows if row not in measured]
