"""The keys of the proxy's clients: who may ask what, and spend how much in each period."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rungwise
from rungwise.adapters.cli.proxy import _refuse_others
from rungwise.adapters.gateway.serving.keys import Keys, keys_in
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.files import read_toml
from rungwise.fsm.values.secret import Secret
from rungwise.testing import ScriptedReply
from support import protocols
from support.command_line import invoke
from support.gateways import fault_of, post, written
from support.operated import Operated, backend, hashed
from support.proxied import served
from support.runs import Stages
from support.sdks import APIS

ANSWER = ScriptedReply("In the reeds.", usage={"prompt_tokens": 10, "completion_tokens": 20})
TEAM = "sk-team-4b1d07c6e2f39a58"
OTHER = "sk-other-90c7f5d2b1e64a3d"
OPS = "sk-ops-5d8e2c17b0a94f63"

every = pytest.mark.parametrize("api", APIS)
pytestmark = pytest.mark.sampled(2)


@pytest.fixture
def operated(tmp_path: Path, stages: Stages, monkeypatch: Any) -> Iterator[Operated]:
    """Write the file of two chains over one server."""
    monkeypatch.setenv("BACKEND_KEY", protocols.KEY)
    stages[0].play([ANSWER])
    operated = Operated(tmp_path)
    url = stages[0].provider.base_url
    operated.file.write_text(
        backend("fast", url, more="prices = [1, 2]") + backend("slow", url, "n")
    )
    with operated.open():
        yield operated
    for request in stages[0].requests:
        shown = json.dumps([request.path, dict(request.headers), request.body])
        assert not [key for key in (TEAM, OTHER, OPS) if key in shown]


def key(name: str, shown: str, more: str = "") -> str:
    return f'[key.{name}]\nkey = "{shown}"\n{more}\n'


@every
def test_a_key_is_found_by_its_hash_itself_or_its_variable(
    api: str, operated: Any, stages: Stages, monkeypatch: Any
) -> None:
    monkeypatch.setenv("OTHER_KEY", OTHER)
    both = f'[key.both]\nkey = ["{hashed(TEAM)}", "{OPS}"]\nkey_env = "OTHER_KEY"\n'
    operated.key_file(both)
    operated.start()
    for shown in (TEAM, OPS, OTHER):
        assert operated.ask(shown, api, model="fast").status_code == 200
    for shown in (None, TEAM[:-1], hashed(TEAM), hashed(TEAM).removeprefix("sha256:")):
        response = operated.ask(shown, api, model="fast")
        assert response.status_code == 401
        assert fault_of(api, response)
    assert len(stages[0].requests) == 3


@every
def test_a_key_asks_only_the_chains_that_it_may(api: str, operated: Any, stages: Stages) -> None:
    operated.key_file(key("team", TEAM, 'chains = ["fast"]') + key("none", OTHER, "chains = []"))
    operated.start()
    for shown, allowed in ((TEAM, "fast"), (OTHER, "none")):
        response = operated.ask(shown, api, model="slow")
        assert response.status_code == 403
        assert f"it may ask: {allowed}" in fault_of(api, response)
    assert stages[0].requests == []
    assert {each["id"] for each in operated.get("/v1/models", TEAM).json()["data"]} == {"fast"}
    assert operated.ask(TEAM, api, model="fast").status_code == 200


def test_the_chain_for_every_other_model_is_one_of_those_that_have_a_name(operated: Any) -> None:
    operated.file.write_text(operated.file.read_text().replace("slow", "default"))
    operated.key_file(
        key("team", TEAM, 'chains = ["fast"]') + key("any", OTHER, 'chains = ["default"]')
    )
    operated.start()
    assert operated.ask(TEAM, model="gpt-5").status_code == 403
    assert operated.ask(OTHER, model="gpt-5").status_code == 200


@pytest.mark.parametrize("streams", [False, True])
@every
def test_a_budget_that_is_spent_is_429_until_its_day_ends(
    api: str, streams: bool, operated: Any, stages: Stages
) -> None:
    operated.key_file(key("team", TEAM, 'chains = ["fast"]\nbudget = {attempts = 1, per = "day"}'))
    operated.start()
    statuses = []
    for days in (0, 0, 1, 1, 0):
        operated.days = days
        response = operated.ask(TEAM, api, streams=streams, model="fast")
        statuses.append(response.status_code)
        if statuses[-1] == 429:
            assert int(response.headers["retry-after"]) == pytest.approx(43_200, abs=2)
            assert "attempts of key team (day of 2026-03-1" in fault_of(api, response)
    assert statuses == [200, 429, 200, 429, 429]
    assert len(stages[0].requests) == 2


def test_money_is_counted_for_each_name(operated: Any, stages: Stages) -> None:
    cost = (10 * 1 + 20 * 2) / 1_000_000
    budget = f'chains = ["fast"]\nbudget = {{money = {2 * cost}, per = "month"}}'
    operated.key_file(key("team", TEAM, budget) + key("other", OTHER, budget))
    operated.start()
    statuses = []
    for shown in (TEAM, OTHER, TEAM, TEAM, OTHER, OTHER):
        statuses.append(operated.ask(shown, model="fast", max_tokens=21).status_code)
    assert statuses == [200, 200, 200, 429, 200, 429]
    assert operated.ask(TEAM, model="fast", n=2, max_tokens=5).status_code == 429
    assert len(stages[0].requests) == 4


def test_files_are_read_again_when_they_change(operated: Any) -> None:
    spent = 'budget = {attempts = 1, per = "day"}'
    operated.key_file(key("team", TEAM, spent))
    operated.start()
    assert operated.ask(TEAM, model="fast").status_code == 200
    assert operated.ask(TEAM, model="fast").status_code == 429
    operated.key_file(key("team", TEAM, spent.replace("1", "2")))
    assert operated.ask(TEAM, model="fast").status_code == 200
    assert operated.ask(TEAM, model="fast").status_code == 429
    # a new key of the same name spends of the same budget
    operated.key_file(key("team", OTHER, spent.replace("1", "3")))
    assert operated.ask(TEAM, model="fast").status_code == 401
    assert operated.ask(OTHER, model="fast").status_code == 200
    assert operated.ask(OTHER, model="fast").status_code == 429
    operated.key_file("")
    assert operated.ask(OTHER, model="fast").status_code == 401
    operated.key_file(key("team", OTHER, spent))
    assert operated.ask(OTHER, model="fast").status_code == 429
    assert operated.told == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[key", "not valid TOML"),
        (key("team", "short"), "key.team: key must be sha256:"),
        (key("team", TEAM, 'chains = ["quick"]'), "there is no chain 'quick'"),
        (key("team", TEAM, 'budget = {money = 1, per = "day"}'), "'slow' has no prices"),
        ("[budget]\nseconds = 3\n", "[key.NAME] alone"),
    ],
)
def test_a_file_with_a_mistake_keeps_its_keys(text: str, word: str, operated: Any) -> None:
    operated.key_file(key("team", TEAM))
    operated.start()
    operated.key_file(text)
    assert operated.ask(TEAM, model="fast").status_code == 200
    assert operated.ask(TEAM, model="fast").status_code == 200
    [told] = operated.told
    assert word in told
    assert "the keys of this file are as before" in told
    assert TEAM not in told


def test_of_two_keys_that_are_alike_the_first_counts(operated: Any) -> None:
    operated.key_file(key("team", TEAM))
    operated.start()
    operated.key_file(key("other", TEAM, "chains = []"), "zebra.toml")
    assert operated.ask(TEAM, model="fast").status_code == 200
    assert operated.told == [
        "key.other: the same name or key is there twice, and the first one counts"
    ]
    with pytest.raises(ConfigurationError, match=r"key.other: the same name or key"):
        Keys(str(operated.keys))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("key = 3", "key must be tables"),
        ("[key]\nteam = 3", "a table with a name"),
        (f'[[key]]\nkey = "{TEAM}"', "key must be tables"),
        (f'["key"."{"x" * 65}"]\nkey = "{TEAM}"', "at most 64 letters"),
        (f'[key."a b"]\nkey = "{TEAM}"', "at most 64 letters"),
        ("[key.a]", "it needs a key"),
        ("[key.a]\nkey = []", "it needs a key"),
        ("[key.a]\nkey = 3", "key must be a text, or a list of texts"),
        ('[key.a]\nkey = "sha256:00"', "64 hexadecimal digits"),
        (f'[key.a]\nkey_env = "{TEAM}"', "environment variables that hold a key"),
        (key("a", TEAM, "chain = 'x'"), "did you mean 'chains'"),
        (key("a", TEAM, "chains = 'x'"), "chains must be a list of names"),
        (key("a", TEAM, "admin = 1"), "admin must be true or false"),
        (key("a", TEAM, "budget = 5"), "budget must be a table with its period"),
        (key("a", TEAM, "budget = {money = 5}"), "budget must be a table with its period"),
        (key("a", TEAM, "budget = {money = 5, per = 'hour'}"), "per must be one of"),
        (key("a", TEAM, "budget = {mony = 5, per = 'day'}"), "did you mean 'money'"),
        (key("a", TEAM, "budget = {seconds = 5, per = 'day'}"), "has no seconds"),
        (key("a", TEAM, "budget = {money = -5, per = 'day'}"), "money"),
    ],
)
def test_what_is_wrong_is_said_without_the_key(text: str, word: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        keys_in(read_toml(text), "chains.toml")
    assert "chains.toml: " in str(caught.value)
    assert word in str(caught.value)
    assert TEAM not in str(caught.value)
    assert TEAM not in repr(caught.value)


def test_without_any_key_left_nobody_gets_in(operated: Any) -> None:
    operated.file.write_text(operated.file.read_text() + key("team", TEAM))
    operated.start()
    assert operated.ask(model="fast").status_code == 401
    operated.file.write_text(operated.file.read_text().partition("[key")[0])
    operated.app.keys.take([], bool)
    assert operated.ask(TEAM, model="fast").status_code == 401
    assert operated.ask(model="fast").status_code == 401


def test_metrics_are_for_administrators_where_keys_have_names(operated: Any) -> None:
    operated.key_file(key("team", TEAM) + key("ops", OPS, "admin = true"))
    operated.one = Secret(OTHER)
    operated.start()
    assert [operated.get("/metrics", each).status_code for each in (TEAM, OTHER, OPS)] == [
        403,
        403,
        200,
    ]
    assert operated.ask(OTHER, model="fast").status_code == 200


def test_a_key_with_limits_gets_nothing_beside_them_forwarded(operated: Any) -> None:
    operated.options = {"forward": True}
    budgeted = 'chains = ["fast"]\nbudget = {attempts = 5, per = "day"}'
    operated.key_file(
        key("team", TEAM, budgeted) + key("none", OTHER, "chains = []") + key("ops", OPS)
    )
    operated.start()
    statuses = [operated.post("/v1/files", each).status_code for each in (TEAM, OTHER)]
    assert statuses == [403, 403]


def test_names_and_not_keys_are_kept(operated: Any, tmp_path: Path) -> None:
    operated.options = {"journals": str(tmp_path / "journals")}
    operated.key_file(key("team", TEAM) + key("ops", OPS, "admin = true"))
    operated.start()
    operated.ask(TEAM, model="fast")
    [path] = (tmp_path / "journals").glob("*.json")
    assert json.loads(path.read_text())["caller"] == "team"
    shown = path.read_text() + operated.get("/metrics", OPS).text + repr(vars(operated.app.keys))
    assert TEAM not in shown
    assert invoke("explain", path).exit_code == 0


def test_metrics_count_what_each_key_spends(operated: Any) -> None:
    operated.key_file(key("team", TEAM) + key("ops", OPS, "admin = true"))
    operated.start()
    for _ in range(2):
        operated.ask(TEAM, model="fast")
    operated.ask(OPS, model="none")
    page = operated.get("/metrics", OPS).text
    for line in (
        'rungwise_caller_calls_total{caller="team",outcome="done"} 2.0',
        'rungwise_caller_tokens_total{caller="team",kind="input"} 20.0',
        'rungwise_caller_tokens_total{caller="team",kind="output"} 40.0',
        'rungwise_caller_cost_total{caller="team"} 0.0001',
    ):
        assert line in page
    assert 'caller="ops"' not in page


def test_an_application_of_ones_own_says_who_asks(operated: Any, stages: Stages) -> None:
    clients, _ = operated.read()
    ceilings = rungwise.Budget(attempts=1, seconds=None)
    budget = rungwise.SharedBudget(ceilings, name="team", per="day")
    callers = {
        b"Bearer one": rungwise.core.Caller("one", within=budget),
        b"Bearer two": rungwise.core.Caller("two", chains=["slow"]),
    }
    app = rungwise.asgi(
        clients, caller=lambda scope: callers[dict(scope["headers"])[b"authorization"]]
    )
    with served(app) as operated.url:
        assert operated.ask("one", model="fast").status_code == 200
        response = operated.ask("one", model="slow")
        assert (response.status_code, "attempts of team" in response.text) == (429, True)
        assert operated.ask("two", model="fast").status_code == 403
        assert operated.ask("two", model="slow").status_code == 200
    assert len(stages[0].requests) == 2
    with pytest.raises(ConfigurationError, match="caller must be a function"):
        rungwise.asgi(clients, caller=callers[b"Bearer one"])
    for wrong in ({"name": "a b"}, {"chains": "fast"}, {"within": ceilings}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            rungwise.core.Caller(**wrong)


def test_the_calls_of_a_transport_share_a_budget(operated: Any) -> None:
    clients, _ = operated.read()
    budget = rungwise.SharedBudget(rungwise.Budget(attempts=1, seconds=None), per="day")
    transport = rungwise.Transport(clients, within=budget)
    statuses = []
    for _ in range(2):
        response = post(transport, "openai", written("openai", model="fast"))
        statuses.append((response.status_code, "retry-after" in response.headers))
    assert statuses == [(200, False), (429, True)]


def test_keys_of_files_open_other_addresses(operated: Any, monkeypatch: Any) -> None:
    with pytest.raises(Exception, match="--keys"):
        _refuse_others("0.0.0.0", ())
    empty = operated.folder / "empty"
    empty.mkdir()
    # the port is taken, which is found out after the host
    for options in (["--keys", empty], []):
        result = invoke("proxy", operated.file, "--host", "203.0.113.7", "--port", 9, *options)
        assert ("can be reached by others" in result.output) is not bool(options)
        assert result.exit_code == 2
