"""`rungwise diagram` of a policy: its limits and waits, and what it switches off."""

from pathlib import Path

import pytest

from rungwise import CALL, Policy, TurnPolicy
from rungwise.core import TURN
from rungwise.fsm.analysis.certificate.shown.settings import settings_of
from rungwise.fsm.diagram import FORMATS, VIEWS, Format, View, render
from support.command_line import invoke, printed, refused

pytestmark = pytest.mark.sampled(4)

NARROW = "[limits]\nretries = 0\nreasks = 5\n[waits]\nreask_base = 1.5\n[budget]\nattempts = 7\n"


@pytest.fixture
def narrow(tmp_path: Path) -> str:
    path = tmp_path / "policy.toml"
    path.write_text(NARROW, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("format", FORMATS)
def test_the_policy_given_is_drawn_and_else_the_default_one(
    narrow: str, format: Format, view: View, tmp_path: Path
) -> None:
    given = ["--format", format, "--view", view]
    policy = Policy.from_toml(NARROW)
    shown = invoke("diagram", narrow, *given)
    assert shown.exit_code == 0
    assert shown.stderr == ""
    assert shown.stdout == render(CALL, format, view, settings=settings_of(policy))
    assert "×5 · 1.5→120 s" in shown.stdout
    assert "in all at most 7 attempts · 900 s" in shown.stdout
    path = tmp_path / "picture"
    assert printed("diagram", narrow, *given, "-o", path) == ""
    assert path.read_text(encoding="utf-8") == shown.stdout
    assert invoke("diagram", *given).stdout == render(
        CALL, format, view, settings=settings_of(Policy())
    )
    assert invoke("diagram", "--turn", *given).stdout == render(
        TURN, format, view, settings=settings_of(TurnPolicy())
    )


def test_what_is_off_is_struck_or_left_out(narrow: str) -> None:
    given = ("diagram", narrow, "--format", "rows", "--view", "ladder")
    shown = invoke(*given).stdout
    assert (
        "~~`may_retry` → **retry**, `spend_retry`~~ (off); off: the limit of retries is 0" in shown
    )
    assert invoke(*given, "--off", "grey").stdout == shown
    hidden = invoke(*given, "--off", "hide").stdout
    assert "**retry**" not in hidden
    assert "that are off left out" in hidden


@pytest.mark.parametrize(
    "with_it", [("--format", "html"), ("--write", "somewhere"), ("--check", ".")]
)
def test_what_is_off_is_left_out_of_single_pictures_alone(with_it: tuple[str, str]) -> None:
    assert "--off hide is for a single picture" in refused("diagram", "--off", "hide", *with_it)
