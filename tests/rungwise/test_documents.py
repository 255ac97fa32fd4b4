"""Every code block of the documentation runs, against the embedded provider."""

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rungwise
from rungwise.testing import ScriptedReply
from support import docs_manners
from support.documents import CHECKED, ELSEWHERE, SHOWN, Oracle, evaluators, run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/pages").rglob("*.md"))]
WITH_CODE = [path for path in PAGES if "```" in path.read_text(encoding="utf-8")]
SLOW = {"reviewing.md", "how-it-works.md", "odds.md", "cost.md", "budgets.md"}
"""Pages whose examples compute for seconds: `.ci/run full` runs these."""

BACKENDS = ("Decisions", "OpenAIChat", "OpenAIResponses", "Anthropic", "Gemini", "Ollama")
KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OLLAMA_API_KEY",
    "OPENROUTER_API_KEY",
    "OPS_KEY",
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Oracle]:
    """Stand behind every backend and SDK; let nobody look up another host, and no call wait."""
    monkeypatch.chdir(tmp_path)
    oracle = Oracle()
    versioned = oracle.provider.base_url
    bare = versioned.removesuffix("/v1")
    for name in BACKENDS:
        url = bare if name in ("Ollama", "Gemini") else versioned
        monkeypatch.setattr(getattr(rungwise, name), "DEFAULT_URL", url)
    for name in KEYS:
        monkeypatch.setenv(name, "sk-1f3870be274f6c49")
    for name, url in {
        "OPENAI": versioned,
        "ANTHROPIC": bare,
        "GOOGLE_GEMINI": bare,
    }.items():
        monkeypatch.setenv(f"{name}_BASE_URL", url)
    look_up = socket.getaddrinfo

    def at_home(host: Any, *arguments: Any, **options: Any) -> Any:
        assert host in ("127.0.0.1", "localhost", None), f"this page looks up {host}"
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", at_home)
    with oracle.provider, rungwise.testing.testing():
        yield oracle


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.full] if path.name in SLOW else [])
        for path in WITH_CODE
    ],
    ids=name_of,
)
def test_every_block_of_a_page_runs(
    path: Path,
    oracle: Oracle,
    rungwise_provider: Any,
    rungwise_client: Any,
    rungwise_clock: Any,
) -> None:
    names = {
        "rungwise": rungwise,
        "oracle": oracle,
        "script": oracle.script,
        "ScriptedReply": ScriptedReply,
        "messages": [{"role": "user", "content": "Why is the sky blue?"}],
        "time": time,
        "Path": Path,
        "rungwise_provider": rungwise_provider,
        "rungwise_client": rungwise_client,
        "rungwise_clock": rungwise_clock,
    }
    text = path.read_text(encoding="utf-8")
    fences = re.findall(r"^ *```(\w*)$", text, re.MULTILINE)[::2]
    assert set(fences) <= CHECKED | SHOWN, "a block must name its language"
    checks = evaluators()
    if path.name == "README.md":  # its text shows another call than its example
        checks["text"] = lambda example: None
    assert run_page(path, names, checks) >= sum(language in CHECKED for language in fences)


def test_how_it_works_lists_every_rung() -> None:
    text = (ROOT / "docs/pages/how-it-works.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"\* \*\*Rungs\*\* send one request each: (.*?)\.\n", text, re.DOTALL)
    assert re.findall(r"`(\w+)`", listed) == [*rungwise.CALL.rungs]


def test_the_page_about_manners_lists_all_of_them() -> None:
    """`python tests/renew.py` writes its tables."""
    page = docs_manners.PAGE.read_text(encoding="utf-8")
    assert docs_manners.written(page) == page


def test_what_is_elsewhere_is_not_here() -> None:
    """A package of the `dev` extra runs on the pages."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [dev] = re.findall(r"^dev = \[.*?\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert not [name for name in ELSEWHERE if f'"{name.replace("_", "-")}>' in dev]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_lines_can_be_read(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert all(
        len(re.sub(r"\(https://[^)]*\)", "", line)) <= 120
        for line in lines
        if not line.startswith("|")
    )
