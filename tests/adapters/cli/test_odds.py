"""`rungwise rates` and `rungwise odds`."""

import random
import sys
from html import unescape
from pathlib import Path

import attrs
import orjson
import pytest

from rungwise import Policy
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.prism import prism_of
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.analysis.odds.shown import compare
from support.command_line import invoke, printed, refused
from support.sampled_odds import Sample, play, random_rates
from support.sampled_turns import TurnSample, play_turn, random_turn_policy, random_turn_rates


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chance = random.Random(4)
    sample = Sample()
    rates = random_rates(chance, 2)
    texts = [play(Policy(), rates, chance, sample).to_json() for _ in range(60)]
    (tmp_path / "one.json").write_text(texts[0])
    (tmp_path / "many.jsonl").write_bytes(
        b"\n".join(orjson.dumps(orjson.loads(text)) for text in texts[1:])
    )
    return tmp_path


def test_rates_are_counted_and_the_odds_computed(folder: Path) -> None:
    result = invoke("rates", folder, "-o", folder / "rates.toml")
    assert result.exit_code == 0
    assert "attempts seen" in result.stderr
    rates = Rates.load(folder / "rates.toml")
    assert sum(rate.seen or 0 for rate in rates.backend[0].fresh) >= 60
    (folder / "policy.toml").write_text("[limits]\nretries = 1\n")
    stdout = printed("odds", folder / "policy.toml", "--rates", folder / "rates.toml", "--json")
    found = orjson.loads(stdout)
    assert sum(found["outcomes"].values()) == pytest.approx(1 - found["left_out"])
    text = invoke("odds", "--rates", folder / "rates.toml").stdout
    for word in (
        "done",
        "P99.9",
        "money",
        "waited seconds",
        "backend 0",
        "--answered--> done",
        "is left out",
    ):
        assert word in text


def test_the_chain_is_written_for_model_checkers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("rates", folder, "-o", folder / "rates.toml")
    monkeypatch.setitem(sys.modules, "numpy", None)  # this needs no numpy
    assert printed("odds", "--rates", folder / "rates.toml", "--format", "prism") == prism_of(
        Policy(), Rates.load(folder / "rates.toml")
    )
    assert "leave out --json" in refused(
        "odds", "--rates", folder / "rates.toml", "--format", "prism", "--json"
    )


def test_bad_input_is_explained(tmp_path: Path) -> None:
    refused("rates")
    (tmp_path / "no.json").write_text("{}")
    assert "no journals" in refused("rates", tmp_path)
    assert "nowhere.toml: cannot be read" in refused("odds", "--rates", tmp_path / "nowhere.toml")
    refused("odds", "-o", tmp_path / "odds.png")


def test_without_rates_it_takes_the_example_that_ships() -> None:
    result = invoke("odds", "--json")
    assert result.exit_code == 0
    assert "an example" in result.stderr
    found = orjson.loads(result.stdout)
    assert 0.9999 < found["outcomes"]["done"] < 1
    assert found["reached"].keys() == {"first", "second"}


def test_numpy_is_an_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("rates", folder, "-o", folder / "rates.toml")
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert "pip install 'rungwise[odds]'" in refused("odds", "--rates", folder / "rates.toml")


@pytest.fixture
def policies(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return the files of rates, of an old policy and of a new one."""
    (tmp_path / "rates.toml").write_text(random_rates(random.Random(4), 2).to_toml())
    (tmp_path / "old.toml").write_text("[limits]\nretries = 3\n")
    (tmp_path / "new.toml").write_text("[limits]\nretries = 0\n")
    return tmp_path / "rates.toml", tmp_path / "old.toml", tmp_path / "new.toml"


@pytest.mark.full
def test_odds_are_compared_with_those_of_an_older_policy(policies: tuple[Path, Path, Path]) -> None:
    rates, old, new = policies
    before, after = (odds(Policy.load(path), Rates.load(rates)) for path in (old, new))
    comparison = compare(before, after)
    assert "done" in comparison.summary
    text = invoke("odds", new, "--rates", rates, "--against", old).stdout
    assert text.startswith(f"{comparison.summary}\n")
    assert text.endswith("The backends and their prices are those of the rates.\n")
    found = orjson.loads(invoke("odds", new, "--rates", rates, "--against", old, "--json").stdout)
    assert found == orjson.loads(
        orjson.dumps(
            {
                "old": attrs.asdict(before),
                "new": attrs.asdict(after),
                "comparison": attrs.asdict(comparison),
            }
        )
    )
    same = invoke("odds", old, "--rates", rates, "--against", old).stdout
    assert same.startswith("no change\n")
    assert "points" in invoke("odds", new, "--rates", rates, "--against", "default").stdout


@pytest.mark.full
def test_odds_are_drawn_on_a_page_and_as_a_picture(
    policies: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    rates, old, new = policies
    for name, start in (("odds.html", "<!doctype html>"), ("odds.svg", "<svg ")):
        for against in ((), ("--against", old)):
            result = invoke("odds", new, "--rates", rates, *against, "-o", tmp_path / name)
            assert (result.exit_code, result.stdout) == (0, "")
            written = (tmp_path / name).read_text()
            assert written.startswith(start)
            assert ("How calls go before" in written) is bool(against)
            assert "<script" not in written
    assert "a picture ends in .svg or .html" in refused(
        "odds", "--rates", rates, "-o", tmp_path / "odds.png"
    )


@pytest.mark.full
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_change_of_policy_shows_the_odds_where_there_are_rates(
    policies: tuple[Path, Path, Path], form: str
) -> None:
    rates, old, new = policies
    summary = compare(*(odds(Policy.load(path), Rates.load(rates)) for path in (old, new))).summary
    without = invoke("diff", old, new, "--format", form).stdout
    assert "robably" not in without
    shown = unescape(invoke("diff", old, new, "--format", form, "--rates", rates).stdout)
    assert f"Calls, probably: {summary.replace('->', 'to')}." in shown
    assert "What calls will probably come to" in shown
    assert "with the backends and prices of the rates" in shown
    for word in ("P99.9", "waited seconds", "points", "backend 1"):
        assert word in shown
    rest = iter(shown.splitlines())
    assert [line for line in unescape(without).splitlines() if line not in rest] == []


@pytest.mark.full
def test_a_change_of_a_turn_shows_the_odds_of_its_calls(
    policies: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    rates, _, _ = policies
    (tmp_path / "turn.toml").write_text("[call.limits]\nretries = 0\n")
    shown = invoke("diff", "default", tmp_path / "turn.toml", "--turn", "--rates", rates).stdout
    assert shown.count("What calls will probably come to") == 1
    stderr = refused(
        "diff", "default", tmp_path / "turn.toml", "--turn", "--rates", tmp_path / "nowhere.toml"
    )
    assert "nowhere.toml: cannot be read" in stderr


def test_rates_of_turns_are_counted_and_their_odds_computed(tmp_path: Path) -> None:
    chance = random.Random(100)
    sample = TurnSample()
    policy = random_turn_policy(chance)
    rates = random_turn_rates(chance)
    for number in range(60):
        (tmp_path / f"{number}.json").write_text(play_turn(policy, rates, chance, sample).to_json())
    path = tmp_path / "rates.toml"
    result = invoke("rates", tmp_path, "-o", path)
    assert result.exit_code == 0
    assert "turns: only" in result.stderr
    assert Rates.load(path).of("rounds of tools")
    (tmp_path / "turn.toml").write_text(
        "auto_continues = 2\n[call.limits]\nretries = 1\nnudges = 0\n"
    )
    stdout = printed("odds", "--turn", tmp_path / "turn.toml", "--rates", path, "--json")
    found = orjson.loads(stdout)
    assert sum(found["outcomes"].values()) == pytest.approx(1 - found["left_out"])
    assert found["calls"]["quantiles"]["p99.9"] <= 4
    text = invoke("odds", "--turn", "--rates", path).stdout
    for word in (
        "finished",
        "a turn",
        "rounds of tools",
        "exact",
        "money",
        "of the turns would exceed",
        "is left out",
    ):
        assert word in text


def test_bad_rates_of_turns_are_explained(folder: Path) -> None:
    backend = "[[backend]]\nname = 'a'\n[[backend.fresh]]\nevent = 'called_tools'\nshare = 1.0\n"
    rates = folder / "rates.toml"
    policy = folder / "turn.toml"
    policy.write_text("auto_continues = 3\n")
    for more, says in (
        ("", "add a [[turn]] with event = 'tools_ran'"),
        (
            "[[turn]]\nevent = 'tools_ran'\nshare = 0.4\n",
            "rates.toml: the shares of the rounds of tools in [[turn]]",
        ),
        ("[[turn]]\nevent = 'tools_run'\nshare = 1.0\n", "TurnRate.event must be one of"),
        ("[[turns]]\nevent = 'tools_ran'\nshare = 1.0\n", "unknown key 'turns'"),
    ):
        rates.write_text(backend + more)
        assert says in refused("odds", "--turn", policy, "--rates", rates)
    assert "give --turn" in refused("odds", policy, "--rates", rates)
