"""The recipe in the README is the file that the test run executes."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def test_the_readme_quotes_the_recipe_as_it_is_run() -> None:
    recipe = (HERE / "test_own_policy.py").read_text(encoding="utf-8").strip()
    readme = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{recipe}\n```" in readme
