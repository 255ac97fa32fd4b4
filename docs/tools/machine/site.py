"""Write the machine for the built site: the page that plays it, and what proves a policy there.

Pyodide comes from npm while the site is built. Without it the site still has the machine, and says
that it cannot prove.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from rungwise.fsm.analysis.certificate.shown.page import play_policy

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
PYODIDE: Final = "pyodide@314.0.7"
PARTS: Final = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
)
PURE: Final = (
    "attr",
    "attrs",
    "jinja2",
    "jsonschema",
    "jsonschema_specifications",
    "markupsafe",
    "referencing",
    "six",
    "transitions",
    "typing_extensions",
)
"""The libraries that the core needs and that have no part that must be compiled."""

COMPILED: Final = {".pyc", ".so", ".pyd"}
BACKENDS: Final = 2
MOST_SECONDS: Final = 120.0  # that npm may take


def write_machine(folder: Path) -> None:
    """Write the page of the machine, and what proves a policy, into a new folder."""
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(play_policy(backends=BACKENDS), encoding="utf-8")
    for name in ("prove.js", "worker.mjs"):
        shutil.copy(HERE / name, folder)
    write_bundle(folder / "rungwise.zip")
    missing = fetch_pyodide(folder / "pyodide")
    loaded = [folder / "rungwise.zip", *(folder / "pyodide").glob("*")]
    size = {"bytes": sum(path.stat().st_size for path in loaded), "missing": missing}
    (folder / "size.json").write_text(json.dumps(size), encoding="utf-8")


def fetch_pyodide(folder: Path) -> str | None:
    """Fetch Pyodide from npm into a folder; return why there is none, if so."""
    if shutil.which("npm") is None:
        return "npm was not there when the site was built"
    with TemporaryDirectory() as scratch:
        command = ["npm", "pack", PYODIDE, "--silent"]
        try:
            subprocess.run(command, cwd=scratch, check=True, timeout=MOST_SECONDS)
            (archive,) = Path(scratch).glob("*.tgz")
        except (OSError, subprocess.SubprocessError, ValueError):
            return f"npm could not fetch {PYODIDE} when the site was built"
        folder.mkdir()
        with tarfile.open(archive) as packed:
            for name in PARTS:
                part = packed.extractfile(f"package/{name}")
                assert part is not None
                (folder / name).write_bytes(part.read())
    return None


def write_bundle(path: Path) -> None:
    """Write the core, the libraries that it needs, and what stands in for others, as one archive
    of Python sources.
    """
    with ZipFile(path, "w", ZIP_DEFLATED) as bundle:
        for source, name in _sources():
            bundle.write(source, name)


def _sources() -> Iterator[tuple[Path, str]]:
    """Yield each file of the bundle with its name there."""
    for source in sorted((ROOT / "rungwise").glob("*.py")):
        yield source, f"rungwise/{source.name}"
    yield from _below(ROOT / "fsm", "rungwise/fsm")
    yield from _below(HERE / "shims", "")
    yield HERE / "proving.py", "proving.py"
    for name in PURE:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            yield from _below(origin.parent, name)
        else:
            yield origin, origin.name


def _below(folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    for source in sorted(folder.rglob("*")):
        inner = source.relative_to(folder)
        if source.is_file() and source.suffix not in COMPILED and "tests" not in inner.parts:
            yield source, str(Path(name) / inner)
