"""The environments that the contestants run in: one for each peer, for several of them cannot live
together.

What goes into each is read from `pyproject.toml`, so that its extra `bench` names all of it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "benchmarks"
PEERS = {
    "httpx": ("httpx", "tenacity"),
    "openai": ("openai",),
    "litellm": ("litellm",),
    "pydantic-ai": ("pydantic-ai-slim[openai]",),
    "langchain": ("langchain-openai",),
}
"""The environments of `run.py` beside that of Rungwise, and which requirements of the extra go into
each.
"""
OTHERS = {
    "instructor": ("instructor",),
    "litellm-proxy": ("litellm[proxy]",),
}
"""Those that only the other commands use."""
OWN_EXTRAS = ("bedrock", "testing")
OWN_TOOLS = ("matplotlib",)


def requirements(environment: str) -> list[str]:
    """List what is installed into an environment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    if environment == "gateway":
        return [*project["dependencies"], *extras["proxy"], _named("openai", extras["bench"])]
    if environment == "rungwise":
        own = [
            *project["dependencies"],
            *(each for name in OWN_EXTRAS for each in extras.get(name, ())),
        ]
        return own + [_named(name, extras["bench"]) for name in OWN_TOOLS]
    return [
        _named(name, extras["bench"] + project["dependencies"])
        for name in (PEERS | OTHERS)[environment]
    ]


def _named(name: str, among: list[str]) -> str:
    return next(each for each in among if re.match(rf"{re.escape(name)}(?![\w.-])", each))


def python_of(environment: str, cache: Path, wanted: list[str] | None = None) -> Path:
    """Return the interpreter of an environment, which is made where it is not there yet.

    Arguments:
        environment: its name.
        cache: the folder for it.
        wanted: what is installed into it; None is what `requirements` says.

    Raises:
        subprocess.CalledProcessError: it cannot be made, for want of a package or of a network.
    """
    wanted = requirements(environment) if wanted is None else wanted
    digest = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()[:10]
    home = cache / f"{environment}-{digest}"
    if not (home / "complete").exists():
        print(
            f"making an environment for {environment}: {', '.join(wanted)}",
            file=sys.stderr,
            flush=True,
        )
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        install = [
            str(home / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            *wanted,
        ]
        subprocess.run(install, check=True, stdout=sys.stderr)
        (home / "complete").touch()
    return home / "bin" / "python"


def variables() -> dict[str, str]:
    """Return the environment variables of a process: Rungwise comes from this checkout, and nothing
    is switched off.
    """
    return dict(_variables())


def _variables() -> Iterator[tuple[str, str]]:
    for name, value in os.environ.items():
        if not name.startswith("PYTHON") and not name.lower().endswith("_proxy"):
            yield name, value
    # or it looks for its prices on the network, at each import
    yield "LITELLM_LOCAL_MODEL_COST_MAP", "True"
    yield "PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests")])
