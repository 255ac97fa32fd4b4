"""The browser of the other tests: what goes wrong on a page is noticed, and so is that there is
none.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BAD = (
    "<script>console.warn('odd')</script><script>throw Error('broken')</script><img src='none.png'>"
)


def test_what_goes_wrong_on_a_page_is_noticed(open_tab: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(BAD, encoding="utf-8")
    tab = open_tab(path)
    said = "\n".join(tab.problems)
    assert all(part in said for part in ("odd", "broken", "failed: "))
    assert [url.rpartition("/")[2] for url in tab.requests] == ["bad.html", "none.png"]


@pytest.mark.full
@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("1", "1 error")])
def test_without_a_browser_a_developer_skips_and_ci_fails(
    tmp_path: Path, ci: str, outcome: str
) -> None:
    """Playwright looks for its own browser under the folder that the environment names."""
    own = {
        "PATH": str(tmp_path),
        "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path),
        "CI": ci,
    }
    test = f"{Path(__file__).with_name('test_call_page.py')}::test_a_step_says_what_it_was"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert outcome in done.stdout, done.stdout
    assert "no browser" in done.stdout
