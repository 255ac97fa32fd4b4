"""Markdown pages whose code blocks run, in order and with one namespace for each page."""

import ast
import json
import logging
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any, Final
from unittest import SkipTest

import click
import yaml
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser

import rungwise
from rungwise.adapters.cli.backends import chain_in
from rungwise.adapters.cli.chains import read_price_list
from rungwise.adapters.cli.command import main
from rungwise.adapters.gateway.serving.keys import keys_in
from rungwise.testing import EmbeddedProvider, ReceivedRequest, Script, ScriptedReply
from support.command_line import invoke

ANSWER: Final = ScriptedReply("The sky scatters blue light.")
ELSEWHERE: Final = frozenset(
    {
        "dspy",
        "fastapi",
        "instructor",
        "langchain_anthropic",
        "langchain_google_genai",
        "langchain_openai",
        "litellm",
    }
    | {"llama_index", "openai_agents", "pydantic_ai", "tenacity"}
)
"""Packages that no environment of ours has: of blocks that import them, only the syntax is checked.
"""

SHELL: Final = (
    "pip install ",
    "python3 -m venv ",
    "export ",
    "curl ",
    "cd proof && coqc ",
    "key=$(openssl ",
    "uvicorn ",
    "pytest",
    ".ci/",
    "git ",
    "docker compose ",
    "sudo ",
)
"""How other commands than ours begin."""

SLOW: Final = ("demo", "exam", "serve", "proxy", "fuzz", "health", "batch", "worker", "calls")
"""Commands whose options are checked, and that do not run: they take seconds, need a server, or end
by Ctrl-C.
"""

HOSTS: Final = {
    "claude": "api.anthropic.com",
    "gpt": "api.openai.com",
    "gemini": "generativelanguage.googleapis.com",
    "llama": "localhost:11434",
}
"""Whose models begin with what: a page shows the provider's own host in place of the embedded
provider's.
"""

SERVED: Final = "http://127.0.0.1:8080/v1"
"""Where the pages let `rungwise serve` listen."""

CHECKED: Final = frozenset({"python", "sh", "toml", "yaml", "json", "text"})
SHOWN: Final = frozenset({"mermaid", "js"})
PRINTED: Final = "_printed"


class Oracle:
    """The provider that stands behind every backend of a page: it answers by script, and then with
    one answer.
    """

    def __init__(self) -> None:
        self.replies: list[ScriptedReply] = []
        self.last = ANSWER
        self._seen = 0
        self.provider = EmbeddedProvider(self._reply)

    def script(self, *replies: ScriptedReply, last: ScriptedReply = ANSWER) -> None:
        """Say what comes next, and forget what was asked so far."""
        self.replies = list(replies)
        self.last = last
        self._seen = len(self.provider.requests)

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Return the requests since the last script."""
        return self.provider.requests[self._seen :]

    def _reply(self, request: ReceivedRequest) -> ScriptedReply:
        return self.replies.pop(0) if self.replies else self.last


def run_page(
    path: Path, namespace: Mapping[str, Any], checks: Mapping[str, Callable[[Example], None]]
) -> int:
    """Run the blocks of a page, and return how many there are.

    Arguments:
        namespace: the names that its Python has.
        checks: how a block of each language is checked.
    """
    parsers = [
        CodeBlockParser(language, evaluator=evaluator) for language, evaluator in checks.items()
    ]
    parsed = Sybil(parsers=[*parsers, SkipParser()], path=str(path.parent)).parse(path)
    parsed.namespace.update(namespace)
    count = 0
    logger = logging.getLogger("rungwise")
    level = logger.level
    try:
        for example in parsed.examples():
            with suppress(SkipTest):  # a block says itself why it is skipped
                example.evaluate()
            count += 1
    finally:
        logger.setLevel(level)  # which a page shows how to change
    return count


def evaluators() -> dict[str, Callable[[Example], None]]:
    """Return how a block of each language is checked."""
    return {
        "python": python,
        "sh": shell,
        "toml": toml,
        "yaml": as_yaml,
        "json": as_json,
        "text": printed,
    }


def python(example: Example) -> None:
    """Run a block; check the syntax alone if it needs a package that we do not have."""
    source = str(example.parsed)
    keep(source)
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    if imported.isdisjoint(ELSEWHERE):
        with redirect_stdout(StringIO()) as out:
            PythonEvaluator()(example)
        example.namespace[PRINTED] = out.getvalue()


def printed(example: Example) -> None:
    """Compare a text with what the block above it printed, if it did: but for random waits, and
    with public hosts.
    """
    shown = example.namespace.pop(PRINTED, "")
    if shown:
        for model, host in HOSTS.items():
            shown = re.sub(rf"127\.0\.0\.1:\d+/(?={model})", f"{host}/", shown)
        assert without_chance(shown) == without_chance(str(example.parsed))


def without_chance(text: str) -> str:
    """Return a text without the random part of its waits."""
    return re.sub(r"after \d+\.\d s", "after ... s", text).strip()


def toml(example: Example) -> None:
    """Read a block as a script, as rates, as the policy of a turn, or as a policy with its prices
    and chains.
    """
    text = str(example.parsed)
    keep(text)
    document = tomllib.loads(text)
    if "replies" in document:
        Script.from_toml(text)
    elif "backend" in document:
        rungwise.core.Rates.from_toml(text)
    elif document.keys() & {"auto_continues", "call"}:
        rungwise.TurnPolicy.from_toml(text)
    else:
        rungwise.Policy.from_toml(text)
        prices = read_price_list(text)
        assert all(
            chain_in(name, tables, prices.of) for name, tables in document.get("chain", {}).items()
        )
        keys_in(document, "the page")


def as_yaml(example: Example) -> None:
    """Read a block as YAML."""
    keep(str(example.parsed))
    assert yaml.safe_load(str(example.parsed))


def as_json(example: Example) -> None:
    """Read a block as JSON."""
    assert json.loads(str(example.parsed))


def keep(text: str) -> None:
    """Write a block to the file that its first line names, as in `# policy.toml`."""
    first = text.partition("\n")[0].removeprefix("# ")
    if "." in first and " " not in first:
        Path(first).write_text(text, encoding="utf-8")


def shell(example: Example) -> None:
    """Run what is a command of ours, and know every other one."""
    here = example.namespace["oracle"].provider.base_url
    for line in str(example.parsed).replace(SERVED, here).splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["rungwise"]:
            ours(words[1:])
        else:
            assert not words or line.startswith(SHELL), line


def ours(words: Sequence[str]) -> None:
    """Run a command, or check that it exists and has these options."""
    words, output = (words[: words.index(">")], words[-1]) if ">" in words else (words, None)
    command = main.get_command(click.Context(main), words[0])
    assert command is not None, words
    if words[0] in SLOW:
        known = {option for parameter in command.params for option in parameter.opts}
        words = words[: [*words, "--"].index("--")]
        assert {word for word in words[1:] if word.startswith("-")} <= known, words
        return
    done = invoke(*words)
    assert done.exit_code == 0, f"{shlex.join(words)}: {done.output}"
    if output:
        Path(output).write_text(done.stdout, encoding="utf-8")
