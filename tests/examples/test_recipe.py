"""The recipes in the README are the files that the test run executes."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", ["test_own_policy.py", "test_own_turns.py"])
def test_the_readme_quotes_the_recipe_as_it_is_run(name: str) -> None:
    recipe = (HERE / name).read_text(encoding="utf-8").strip()
    readme = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{recipe}\n```" in readme
