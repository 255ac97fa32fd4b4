"""The environments in which the programs run: one for each group of libraries that can be installed
together.
"""

from __future__ import annotations

import fcntl
import sys
import tomllib
from pathlib import Path
from typing import Final

from benchmarks.environments import ROOT, python_of

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "openai2": ("openai>=2,<3", "litellm>=1.80", "llama-index-llms-openai-like>=0.5", "dspy>=3"),
    "litellm": ("litellm==1.95.0",),
    "langchain": ("langchain-openai>=1", "langchain-google-genai>=4", "langchain-anthropic>=1"),
    "instructor": ("instructor>=1.10",),
    "phoenix": ("arize-phoenix>=20", "opentelemetry-exporter-otlp-proto-http>=1.30"),
    "pydantic-ai": ("pydantic-ai-slim[openai,anthropic,google]>=2",),
    "litellm-proxy": ("litellm[proxy]>=1.80",),
    "llm": ("llm>=0.27",),
    "shell-gpt": ("shell-gpt>=1.4",),
    "llmock": ("llmock==0.2.2",),
    "agentchaos": ("loguru>=0.7", "python-dotenv>=1"),
    "llama-cpp": ("xllamacpp==2026.10.11549", "gguf==0.19.0"),
}
"""LiteLLM and LlamaIndex need openai 2, and instructor an early openai 3. `litellm` is a server's,
whose Responses double their answers [BerriAI/litellm#36375]. `agentchaos` has what that library
imports, and not the agents that it also asks for."""

CACHE: Final = ROOT / "build" / "adoption"


def requirements(group: str) -> list[str]:
    """List what is installed into the environment of a group: its libraries, and what Rungwise
    itself needs.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*GROUPS[group], *project["dependencies"]]


def python_for(group: str) -> Path:
    """Return the interpreter of a group, whose environment is made where it is not there yet; "" is
    this one.

    Raises:
        subprocess.CalledProcessError: it cannot be made, for want of a package or of a network.
    """
    if not group:
        return Path(sys.executable)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{group}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests of one group may run at once
        return python_of(group, CACHE, requirements(group))
