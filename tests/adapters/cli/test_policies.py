"""A policy of the command line: a file, or `module:NAME`, whose table is then shown."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import rungwise
from rungwise.adapters.cli.backends import chain_in
from rungwise.adapters.cli.chains import read_price_list
from rungwise.adapters.cli.policies import POLICY
from rungwise.testing import ScriptedReply
from support.command_line import invoke, refused
from support.sampling import sampled

OURS = """
import rungwise
entreat = rungwise.Rung("entreat", holds=rungwise.Fact("is_off_topic", of=lambda reply: False), hint="Please.")
class Held:
    POLICY = rungwise.Policy(table=rungwise.CALL.with_rung(entreat, answered=None))
POLICY, NUMBER = Held.POLICY, 3
TURN_POLICY = rungwise.TurnPolicy(call=Held.POLICY, auto_continues=2)
"""  # noqa: E501


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a module of policies, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "écoles.py").write_text(OURS, encoding="utf-8")
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize("name", sampled(["POLICY", "Held.POLICY"], one_in=2))
def test_each_command_shows_the_table_of_a_policy_in_python(ours: Path, name: str) -> None:
    given = f"écoles:{name}"
    assert "entreats 1" in invoke("verify", given, "--backends", "1").stdout
    assert "`may_entreat`" in invoke("diagram", given, "--format", "rows").stdout
    assert "may_entreat" in invoke("explain", "--play", given).stdout
    (ours / "plain.toml").write_text("")
    assert "entreat" in invoke("diff", "plain.toml", given).stdout


@pytest.mark.full
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("écoles:NUMBER", "is a int, and must be a rungwise.Policy"),
        ("écoles:NOTHING", "has no attribute 'NOTHING'"),
        ("nowhere:POLICY", "cannot be imported: No module named 'nowhere'"),
        ("leaving:POLICY", "cannot be imported: SystemExit"),
        ("broken:POLICY", "cannot be imported: SyntaxError"),
        ("nowhere.toml", "does not exist; give POLICY.toml or module:POLICY"),
        (".", "'.' is a directory; give POLICY.toml or module:POLICY"),
        ("latin.toml", "latin.toml: not UTF-8: invalid start byte at byte 6"),
        ("a" * 5000, "is not a path: File name too long"),
    ],
)
def test_what_is_no_policy_is_bad_input(ours: Path, given: str, says: str) -> None:
    (ours / "leaving.py").write_text("raise SystemExit(0)")
    (ours / "broken.py").write_text("def")
    (ours / "latin.toml").write_bytes(b"# retr\xff")
    assert says in refused("verify", given)


def test_a_byte_order_mark_is_no_part_of_a_policy(ours: Path) -> None:
    (ours / "marked.toml").write_text("[limits]\nretries = 7\n", encoding="utf-8-sig")
    assert POLICY.convert("marked.toml", None, None).limits["retries"] == 7


# Turns


@pytest.fixture
def turn_file(ours: Path) -> str:
    path = ours / "turn.toml"
    path.write_text("auto_continues = 2\n[call.limits]\nretries = 1\n")
    return str(path)


@pytest.mark.full
def test_a_file_is_of_a_turn_where_that_is_said(turn_file: str) -> None:
    options = "--turn --prices 2/10 --max-tokens 100 --input-tokens 500"
    result = invoke("verify", turn_file, *options.split())
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith("# Certificate: turn\n\nEverything holds.\n")
    assert "auto_continues 2" in result.stdout
    assert "retries 1, resends 1, rotations 0, reasks 3" in result.stdout
    assert "| calls | 4; the ladder ends it | " in result.stdout
    assert "| money | no more than" in result.stdout
    by_fallbacks = result.stdout.partition("Worst cases by the number of fallbacks\n\n")[
        2
    ].splitlines()
    assert by_fallbacks[0] == "| fallbacks | 0 | 1 | 2 |"
    assert by_fallbacks[2] == "| calls | 4 | 4 | 4 |"


@pytest.mark.full
def test_without_a_file_it_is_the_default_policy_of_a_turn() -> None:
    plain = json.loads(invoke("verify", "--turn", "--backends", "2", "--json").stdout)
    assert plain["table"] == "turn"
    assert plain["worst"][0]["value"] == 27
    assert plain["chain"] == ["backend 1", "backend 2"]
    assert plain["call"]["worst"][0]["value"] == 24
    assert "use_tools" in invoke("diagram", "--turn", "--format", "rows").stdout
    assert "use_tools" not in invoke("diagram", "--format", "rows").stdout


@pytest.mark.full
def test_a_policy_of_a_turn_in_python_needs_no_flag(ours: Path, turn_file: str) -> None:
    given = "écoles:TURN_POLICY"
    assert "entreats 1" in invoke("verify", given, "--backends", "1").stdout
    for more in ((), ("--turn",)):
        assert "summarize" in invoke("diagram", given, "--format", "svg", *more).stdout
    result = invoke("diff", "--turn", turn_file, given)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "Worst cases of a turn" in result.stdout
    assert "limits.retries" in result.stdout.partition("Each call\n")[2]


@pytest.mark.full
@pytest.mark.usefixtures("ours")
def test_where_a_policy_of_calls_is_wanted_that_of_a_turn_is_told_apart() -> None:
    with pytest.raises(
        click.BadParameter,
        match=r"is a TurnPolicy, and must be a rungwise\.Policy, as its `call` is",
    ):
        POLICY.convert("écoles:TURN_POLICY", None, None)


@pytest.mark.full
def test_the_page_plays_the_machine_of_a_turn(ours: Path) -> None:
    page = invoke("diagram", "écoles:TURN_POLICY", "--format", "html").stdout
    assert "<h1>Play the turn</h1>" in page
    assert "A turn makes at most 4 calls with 96 requests, and runs at most 96 tools" in page


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("verify", "turn.toml"), "turn.toml is the policy of a turn: give --turn"),
        (
            ("verify", "calls.toml", "--turn"),
            "calls.toml is the policy of calls: leave out --turn, or put its keys under [call]",
        ),
        (
            ("verify", "écoles:POLICY", "--turn"),
            "is a Policy of calls, and --turn asks for a rungwise.TurnPolicy",
        ),
        (("verify", "écoles:NUMBER"), "must be a rungwise.Policy or a rungwise.TurnPolicy"),
        (
            ("diff", "écoles:POLICY", "écoles:TURN_POLICY"),
            "a call's policy and a turn's cannot be compared",
        ),
        (("verify", "--turn", "bad.toml"), "TurnPolicy: unknown key 'fault'"),
        (("verify", "--turn", "paid.toml"), "needs prices"),
    ],
)
@pytest.mark.usefixtures("turn_file")
def test_a_policy_of_the_wrong_kind_is_bad_input(
    ours: Path, arguments: tuple[str, ...], says: str
) -> None:
    (ours / "bad.toml").write_text("fault = 1")
    (ours / "calls.toml").write_text("[limits]\nretries = 1\n")
    (ours / "paid.toml").write_text("[call.budget]\nmoney = 1")
    stderr = refused(*arguments)
    assert says in stderr
    assert len(stderr.splitlines()) == 1


PRICED = "[budget]\nmoney = 0.05\n"


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ('[prices]\n"gpt-5" = [1.25, 10]', (1.25, 10.0)),
        # every backend may be the dearest
        ('[prices]\n"gpt-5" = [1.25, 10]\n"*" = [3, 4]', (3.0, 10.0)),
        ('[prices]\n"*" = [9, 9]\n[[chain.fast]]\nmodel = "small"\nprices = [1, 2]', (1.0, 2.0)),
        (
            '[prices]\nbig = [3, 1]\n[[chain.a]]\nmodel = "small"\nprices = [1, '
            '2]\n[[chain.a]]\nmodel = "big"',
            (3.0, 2.0),
        ),
        (
            '[[chain.a]]\nmodel = "m"\nprices = [1, 2]\n[[chain.b]]\nmodel = "m"\nprices = [2, 1]',
            (2.0, 2.0),
        ),
        ('[[chain.a]]\nmodel = "m"\nprices = [1, 2]\n[[chain.a]]\nmodel = "unknown"', None),
        ("", None),
    ],
)
def test_prices_come_from_the_file_and_no_backend_exceeds_them(
    tables: str, expected: tuple[float, float] | None
) -> None:
    assert rungwise.Policy.from_toml(PRICED + tables) == rungwise.Policy(
        budget=rungwise.Budget(money=0.05)
    )
    dearest = read_price_list(PRICED + tables).dearest
    assert (None if dearest is None else (dearest.input, dearest.output)) == expected


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ("prices = 3", "prices must be a table"),
        (
            '[prices]\n"gpt-5" = 3',
            "prices.'gpt-5' must be the prices of a million tokens in and out, as in [1.25, 10]",
        ),
        (
            '[prices]\n"gpt-5" = [1, "x"]',
            "prices.'gpt-5': Prices.output must be a finite number of 0 or more",
        ),
        (
            '[prices]\n"gpt-5" = [-1, nan]',
            "prices.'gpt-5': Prices.input must be a finite number of 0 or more",
        ),
        (
            "[chain]\nfast = 3",
            "chain.fast must be tables, one for each backend, as in [[chain.fast]]",
        ),
        ("[[chain.fast]]\nprices = [1, 2]", "chain.fast: backend 1 needs the name of its model"),
        (
            "[[chain.a]]\nmodel = 'm'\nprices = 3",
            "chain.a: the prices of backend 1 must be the prices of a million",
        ),
    ],
)
def test_prices_that_are_none_are_bad_input(ours: Path, tables: str, says: str) -> None:
    (ours / "priced.toml").write_text(
        f"{tables}\n" if tables.startswith("prices") else PRICED + tables
    )
    done = invoke("verify", "priced.toml")
    assert (done.exit_code, "priced.toml: " + says in " ".join(done.stderr.split())) == (2, True), (
        done.stderr
    )


@pytest.mark.full
def test_an_option_comes_before_the_file_and_the_new_policy_before_the_old(ours: Path) -> None:
    small = (
        "[limits]\n"
        + "".join(f"{name} = 0\n" for name in rungwise.Limits())
        + "[budget]\nattempts = 2\nmoney = 1\n"
    )
    (ours / "old.toml").write_text(small + '[prices]\n"*" = [1, 2]\n')
    (ours / "new.toml").write_text(small + "seconds = 100\n" + '[prices]\n"*" = [3, 4]\n')
    (ours / "bare.toml").write_text(small + "seconds = 200\n")
    asked = ("--max-tokens", "10", "--input-tokens", "10")

    def says(*files: str) -> str:
        return " ".join(invoke("diff", *files, *asked).stdout.split())

    assert "of 3 for input and 4 for output" in says("old.toml", "new.toml")
    assert "of 1 for input and 2 for output" in says("old.toml", "bare.toml")
    assert "of 5 for input and 6 for output" in says("old.toml", "new.toml", "--prices", "5/6")
    # which can be read only once
    piped = f"{{ cat old.toml; }} | {sys.executable} -m rungwise verify /dev/stdin"
    assert subprocess.run(["bash", "-c", piped], capture_output=True).returncode == 0
    assert 'put "*" = [2.5, 10] under [prices]' in invoke("verify", "bare.toml").stderr


def test_misspelt_prices_are_named(ours: Path) -> None:
    (ours / "key.toml").write_text('[price]\n"gpt-5" = [1, 2]\n')
    assert "unknown key 'price'; did you mean 'prices'?" in invoke("verify", "key.toml").stderr
    (ours / "model.toml").write_text('[budget]\nmoney = 1\n[prices]\n"gpt5" = [1, 2]\n')
    asked = "ask Why? --base-url http://127.0.0.1:1/v1 --model gpt-5 --policy model.toml"
    assert 'put "gpt-5" = [2.5, 10] under [prices]' in invoke(*asked.split()).stderr


def test_ask_prices_each_backend_by_its_model(ours: Path, rungwise_provider: Any) -> None:
    provider = rungwise_provider(
        ScriptedReply("Blue.", usage={"prompt_tokens": 1_000_000, "completion_tokens": 0})
    )
    (ours / "p.toml").write_text(
        '[prices]\n"gpt-5" = [1.25, 10]\n[[chain.a]]\nmodel = "other"\nprices = [2, 4]\n'
    )
    for model, cost in (("gpt-5", 1.25), ("other", 2.0), ("unknown", None)):
        asked = f"ask Why? --base-url {provider.base_url} --model {model} --policy p.toml --json"
        assert json.loads(invoke(*asked.split()).stdout)["cost"] == (
            cost and pytest.approx(cost, rel=1e-4)
        )


def test_a_chain_may_name_several_variables_with_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_A", "one")
    monkeypatch.setenv("KEY_B", "two")
    backend = chain_in("a", [{"model": "m", "key_env": ["KEY_A", "KEY_B"]}], lambda model: None)[0]
    assert [each.is_secret("two") for each in backend.pool] == [False, True]
    assert backend.keys == 2


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        (["KEY_A", "KEY_C"], "KEY_C is not set in the environment"),
        (["KEY_A", "sk-not-a-name"], "key_env takes the name of an environment variable"),
        (["KEY_A", "KEY_A"], r"api_key\[1\] is the same key as api_key\[0\]"),
        ([], "key_env must be a string"),
        (["KEY_A", 3], "key_env must be a string"),
    ],
)
def test_variables_that_hold_no_keys_are_refused(
    variables: list[Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_A", "one")
    with pytest.raises(rungwise.ConfigurationError, match=says) as refused:
        chain_in("a", [{"model": "m", "key_env": variables}], lambda model: None)
    assert "sk-not-a-name" not in str(refused.value)


def test_a_chain_may_give_a_backend_parameters() -> None:
    place = {"model": "m", "base_url": "http://localhost:1/v1"}
    tables = [{**place, "parameters": {"service_tier": "flex"}}, place]
    flex, standard = chain_in("a", tables, lambda model: None)
    assert flex.parameters == {"service_tier": "flex"}
    assert flex.identities.isdisjoint(standard.identities)
    with pytest.raises(rungwise.ConfigurationError, match="parameters"):
        chain_in("a", [{**place, "parameters": "flex"}], lambda model: None)


@pytest.mark.parametrize("api", ["responses", "interactions"])
def test_a_chain_may_ask_a_backend_in_the_background(api: str) -> None:
    place = {"model": "m", "base_url": "http://localhost:1/v1", "api": api}
    on, off = chain_in("a", [{**place, "background": True}, place], lambda model: None)
    assert on.background
    assert not off.background
    with pytest.raises(rungwise.ConfigurationError, match="background must be True or False"):
        chain_in("a", [{**place, "background": "yes"}], lambda model: None)


@pytest.mark.parametrize("api", ["openai", "anthropic", "ollama"])
def test_a_chain_says_who_cannot_be_asked_in_the_background(api: str) -> None:
    table = {"model": "m", "base_url": "http://localhost:1/v1", "api": api, "background": True}
    says = r"chain\.a: backend 1: only the APIs responses and interactions .*; leave background out"
    with pytest.raises(rungwise.ConfigurationError, match=says):
        chain_in("a", [table], lambda model: None)


def quota_in(quota: Any) -> rungwise.Quota:
    table = {"model": "m", "base_url": "http://localhost:1/v1", "quota": quota}
    return chain_in("a", [table], lambda model: None)[0].quota


def test_a_chain_may_give_a_backend_a_quota() -> None:
    quota = {"requests_per_minute": 500, "concurrent": 20}
    assert quota_in(quota) == rungwise.Quota(**quota)


@pytest.mark.parametrize(
    ("quota", "says"),
    [
        (3, "chain.a: backend 1: quota must be a table such as"),
        ({"concurrent": 0}, "chain.a: backend 1: Quota.concurrent must be a whole number from 1"),
        ({"concurent": 2}, "concurrent"),
        ({}, "Quota needs requests_per_minute, tokens_per_minute or concurrent"),
    ],
)
def test_a_malformed_quota_of_a_chain_is_refused(quota: Any, says: str) -> None:
    with pytest.raises(rungwise.ConfigurationError, match=says):
        quota_in(quota)
