"""The list of the examples: it is whole, and leads somewhere."""

import re
from pathlib import Path

HERE = Path(__file__).parent
OURS = {"conftest.py", "test_own_policy.py", "test_own_turns.py"}


def test_each_example_is_listed_and_has_a_test() -> None:
    listed = set(re.findall(r"\]\(([^)]+)\)", (HERE / "README.md").read_text("utf-8")))
    assert all((HERE / name).exists() for name in listed)
    examples = {path.name for path in HERE.iterdir() if path.suffix in (".py", ".ipynb")}
    shown = {name for name in examples - OURS if not name.startswith("test_")}
    assert shown | (OURS - {"conftest.py"}) | {"policy_review/"} <= listed
    assert {f"test_{Path(name).stem}.py" for name in shown} <= examples
