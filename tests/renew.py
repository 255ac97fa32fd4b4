"""Write anew whatever depends on the shipped tables, and print what has changed.

`python tests/renew.py` renews the pictures and certificates in `diagrams/`, the picture of the page
about odds, and `tests/facts.toml`. Whoever runs it judges each line that it prints: a number that
nobody meant to change is a mistake in the table.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # this checkout, wherever another is installed
os.environ["PYTHONPATH"] = str(ROOT)  # also in the processes that tests start

import pytest  # noqa: E402

from rungwise.fsm.analysis.certificate.shown.pictures import write_all  # noqa: E402
from support import facts  # noqa: E402
from support.docs_picture import PICTURE, drawn, is_the_same  # noqa: E402


def renewed_picture() -> list[str]:
    """Draw the picture of the page about odds, and return its path if it has changed."""
    new = drawn()
    if is_the_same(new, PICTURE.read_text(encoding="utf-8")):
        return []
    PICTURE.write_text(new, encoding="utf-8")
    return [PICTURE.relative_to(ROOT).as_posix()]


def renewed_facts() -> tuple[list[str], int]:
    """Run the tests with facts and write these down.

    Returns: a line for each that changed, and how pytest ended; 0 is well.
    """
    tests = sorted(
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if "fact(" in path.read_text(encoding="utf-8")
    )
    renewal = facts.Renewal()
    # one process, and the tests marked `full` too
    options = ["-q", "-n", "0", "-m", "", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    ended = pytest.main([*options, *map(str, tests)], plugins=[renewal])
    lines = facts.changes(facts.read(), renewal.found)
    if ended == 0:
        facts.write(renewal.found)
    return lines, int(ended)


def main() -> int:
    """Renew everything, print what has changed, and return 0 if all tests with facts ran well."""
    pictures = [f"diagrams/{name}" for name in write_all(ROOT / "diagrams")]
    pictures += renewed_picture()
    lines, ended = renewed_facts()
    for line in [*pictures, *lines] or ["nothing has changed"]:
        print(line)
    if ended:
        print(f"{facts.FILE.name} is as it was: a test with facts failed, see above")
    return ended


if __name__ == "__main__":
    sys.exit(main())
