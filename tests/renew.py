"""Write anew whatever depends on the shipped tables, and print what has changed.

`python tests/renew.py` renews the pictures and certificates in `diagrams/`, the picture of the page
about odds, the list of rungs in the page about the machine, the tables of the page about manners,
and `tests/facts.toml`. Whoever runs it judges each line that it prints: a number that nobody meant
to change is a mistake in the table.
"""

import os
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # this checkout, wherever another is installed
os.environ["PYTHONPATH"] = str(ROOT)  # also in the processes that tests start

import pytest  # noqa: E402

from rungwise import CALL  # noqa: E402
from rungwise.fsm.analysis.certificate.shown.pictures import write_all  # noqa: E402
from support import docs_manners, facts  # noqa: E402
from support.docs_picture import PICTURE, drawn, is_the_same  # noqa: E402


def renewed_picture() -> list[str]:
    """Draw the picture of the page about odds, and return its path if it has changed."""
    new = drawn()
    if is_the_same(new, PICTURE.read_text(encoding="utf-8")):
        return []
    PICTURE.write_text(new, encoding="utf-8")
    return [PICTURE.relative_to(ROOT).as_posix()]


def renewed_list() -> list[str]:
    """Write the list of rungs, and return the path of its page if it has changed."""
    page = ROOT / "docs/pages/how-it-works.md"
    old = page.read_text(encoding="utf-8")
    begin = "* **Rungs** send one request each: "
    names = ", ".join(f"`{name}`" for name in CALL.rungs)
    line = textwrap.fill(f"{begin}{names}.", 120, subsequent_indent="  ")
    new = re.sub(rf"{re.escape(begin)}[^.]*\.", line, old)
    if new == old:
        return []
    page.write_text(new, encoding="utf-8")
    return [page.relative_to(ROOT).as_posix()]


def renewed_manners() -> list[str]:
    """Write the tables of all manners, and return the path of their page if it has changed."""
    old = docs_manners.PAGE.read_text(encoding="utf-8")
    new = docs_manners.written(old)
    if new == old:
        return []
    docs_manners.PAGE.write_text(new, encoding="utf-8")
    return [docs_manners.PAGE.relative_to(ROOT).as_posix()]


def renewed_facts() -> tuple[list[str], list[str], int]:
    """Run the tests with facts and write these down.

    What a test that failed had not found yet stays as it was.

    Returns: a line for each fact that changed, the tests that failed, and how pytest ended; 0 is
    well.
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
    known = facts.read()
    found = renewal.found
    if ended != 0:
        found = facts.merged(known, found)
    facts.write(found)
    return facts.changes(known, found), renewal.failed, int(ended)


def main() -> int:
    """Renew everything, print what has changed, and return 0 if all tests with facts ran well."""
    pictures = [f"diagrams/{name}" for name in write_all(ROOT / "diagrams")]
    pictures += renewed_picture()
    pictures += renewed_list()
    pictures += renewed_manners()
    lines, failed, ended = renewed_facts()
    for line in [*pictures, *lines] or ["nothing has changed"]:
        print(line)
    for test in failed:
        print(f"failed, so that its other facts stay as they were: {test}")
    return ended


if __name__ == "__main__":
    sys.exit(main())
