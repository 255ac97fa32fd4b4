"""`rungwise tune`."""

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import orjson
import pytest

from rungwise import Policy
from rungwise.adapters.cli.journals import tune
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import Rates
from support.command_line import invoke, printed, refused
from support.facts import Check

RATES = """
[[backend]]
name = "cheap"
prices = [1, 2]
fresh = [
    { event = "answered", share = 0.9, seconds = [[1, 9], [5, 1]], input_tokens = 1000, output_tokens = 200 },
    { event = "failed_transiently", reason = "server_error", share = 0.08, seconds = 1 },
    { event = "refused", share = 0.02, seconds = 1, input_tokens = 1000 },
]

[[backend]]
name = "dear"
prices = [5, 25]
fresh = [
    { event = "answered", share = 0.99, seconds = 2, input_tokens = 1000, output_tokens = 200 },
    { event = "refused", share = 0.01, seconds = 1, input_tokens = 1000 },
]
"""  # noqa: E501
FEW = ("--candidates", "25")
HERE = SimpleNamespace(map=map, shutdown=lambda **options: None)


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    (tmp_path / "rates.toml").write_text(RATES)
    return tmp_path / "rates.toml"


@pytest.fixture(autouse=True)
def in_one_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no other processes, which take seconds, but in the tests that are about them."""
    if "processes" not in request.node.name:
        monkeypatch.setattr(
            "rungwise.adapters.cli.journals.tune.ProcessPoolExecutor", lambda *settings: HERE
        )


@pytest.mark.full
def test_the_cheapest_policy_is_printed_as_toml(rates: Path, tmp_path: Path, fact: Check) -> None:
    (tmp_path / "policy.toml").write_text(
        "after_refusal = 'fall_back'\n[limits]\nretries = 0\n[waits]\njitter = 0.25\n"
    )
    goal = ("--done", "99.9", "--p99", "20s", "--cost", "0.02")
    front = tmp_path / "front.svg"
    result = invoke("tune", tmp_path / "policy.toml", "--rates", rates, *goal, *FEW, "-o", front)
    assert result.exit_code == 0
    (tmp_path / "tuned.toml").write_text(result.stdout)
    policy = Policy.load(tmp_path / "tuned.toml")
    assert policy.waits.jitter == 0.25
    assert result.stdout.startswith('# chain: "cheap > dear"\n')
    assert "in this order" not in result.stderr
    head, *rows = result.stderr.splitlines()
    assert head.split() == ["done", "P99", "mean", "cost", "attempts", "at", "worst", "changes"]
    [best] = [row for row in rows if row.startswith("*")]
    found = odds(policy, Rates.load(rates))
    assert best.split()[1:3] == [f"{found.outcomes['done'] * 100:.6g}", "%"]
    tried = re.search(r"on the front, of 25 tried, of (\d+) combinations", result.stderr)
    assert tried is not None
    fact("combinations", int(tried[1]))
    picture = ElementTree.parse(front).getroot()
    groups = [each.get("data-front") for each in picture.iter("{http://www.w3.org/2000/svg}g")]
    assert len(groups) == 2 * 25, "each candidate against P99 and against cost"
    assert 2 <= groups.count("true") < len(groups)
    lines = [each.get("class") for each in picture.iter("{http://www.w3.org/2000/svg}path")]
    assert lines.count("rw-back") == 4, "two targets in each panel"


def test_json_holds_the_front_with_every_figure(rates: Path) -> None:
    stdout = printed("tune", "--rates", rates, "--done", "99", "--cost", "0.01", *FEW, "--json")
    found = orjson.loads(stdout)
    assert found["targets"] == {"done": 0.99, "cost": 0.01}
    assert found["tried"] == 25 < found["combinations"]
    assert found["reasons"] == []
    best = found["front"][found["best"]]
    assert best["missed"] == []
    assert best["figures"]["done"] == best["odds"]["outcomes"]["done"] >= 0.99
    assert best["figures"]["cost"] == best["odds"]["money"]["mean"]
    assert best["worst"]["attempts"] <= 24
    assert Policy.from_toml(best["policy"])
    assert best["chain"] == ["cheap", "dear"]
    others = [each for each in found["front"] if "chain" in each["changes"]]
    assert others[0]["changes"]["chain"] == "dear > cheap"


@pytest.mark.full
def test_what_cannot_be_met_is_explained(rates: Path, fact: Check) -> None:
    result = invoke("tune", "--rates", rates, "--cost", "0.000001", *FEW)
    assert result.exit_code == 1
    assert result.stdout == ""
    least = re.search(
        r"no candidate has a mean cost of 1e-06; the least is ([\d.]+) \(.* attempts on average",
        result.stderr,
    )
    assert least is not None
    fact("the least mean cost", float(least[1]))
    result = invoke("tune", "--rates", rates, "--p99", "500ms", *FEW, "--json")
    assert result.exit_code == 1
    found = orjson.loads(result.stdout)
    assert found["best"] is None
    assert found["reasons"][0].startswith("no candidate has a P99 of 0.5 s; the least is ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "name at least one target: done, p99 or cost"),
        (("--done", "120"), "120.0 is not in the range 0<x<=100"),
        (("--done", "0"), "0.0 is not in the range 0<x<=100"),
        (("--done", "nan"), "Targets.done must be"),
        (("--done", "most"), "'most' is not a valid float"),
        (("--p99", "soon"), "'soon' is not a duration, as in 20s, 1.5m or 30d"),
        (("--p99", "-3s"), "'-3s' is not a duration"),
        (("--p99", "0"), "Targets.p99 must be"),
        (("--cost", "-1"), "-1.0 is not in the range x>0"),
        (("--cost", "inf"), "Targets.cost must be"),
        (("--done", "99", "--candidates", "0"), "0 is not in the range 1<=x<=100000"),
        (("--done", "99", "-o", "front.png"), "-o: front.png must end in .svg"),
        (("--done", "99", "-o", "/nowhere/front.svg"), "cannot be written"),
    ],
)
def test_bad_input_is_refused(rates: Path, options: tuple[str, ...], says: str) -> None:
    assert says in refused("tune", "--rates", rates, *options)


def test_bad_files_are_refused(rates: Path, tmp_path: Path) -> None:
    assert (
        "nowhere.toml: cannot be read"
        in invoke("tune", "--rates", tmp_path / "nowhere.toml", "--done", "9").stderr
    )
    rates.write_text(re.sub("prices = .*", "", RATES))
    assert "needs prices in the rates; missing: cheap, dear" in refused(
        "tune", "--rates", rates, "--cost", "1"
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("time", "seconds"), [("20", 20.0), ("20s", 20.0), ("1m", 60.0), ("1.5h", 5400.0)]
)
def test_a_duration_has_a_unit_or_is_in_seconds(rates: Path, time: str, seconds: float) -> None:
    result = invoke("tune", "--rates", rates, "--p99", time, "--candidates", "1", "--json")
    assert orjson.loads(result.stdout)["targets"] == {"p99": seconds}


def test_numpy_is_an_extra(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert "pip install 'rungwise[odds]'" in refused("tune", "--rates", rates, "--done", "99")


@pytest.mark.full
def test_processes_side_by_side_find_the_same(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("tune", "--rates", rates, "--done", "99", "--candidates", "8", "--json")
    stdout = printed(*arguments)
    monkeypatch.setattr(
        "rungwise.adapters.cli.journals.tune.ProcessPoolExecutor", lambda *settings: HERE
    )
    assert invoke(*arguments).stdout == stdout


@pytest.mark.full
def test_another_order_of_the_chain_is_asked_for(rates: Path) -> None:
    found = Rates.load(rates)
    rates.write_text(Rates(tuple(reversed(found.backend))).to_toml())
    result = invoke("tune", "--rates", rates, "--cost", "0.02", *FEW)
    assert result.exit_code == 0
    order = "put the backends of your chain, and those of the rates, in this order: cheap > dear"
    assert order in " ".join(result.stderr.split())


def test_its_processes_run_nothing_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("random", "pickle", "socket", "signal", "ctypes", "runpy", "heapq"):
        (tmp_path / f"{name}.py").write_text(
            "open('ran', 'a').write(__name__)\nraise SystemExit(1)\n"
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with tune._pool(None) as mapped:
        assert [*mapped(abs, [-1, 2])] == [1, 2]
    assert not (tmp_path / "ran").exists()
    assert "PYTHONSAFEPATH" not in os.environ
