"""The proxy's file, read again while it runs: who may have it read, what stays, and mistakes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rungwise.testing import ReceivedRequest, ScriptedReply
from support import protocols
from support.operated import Operated, backend, hashed
from support.runs import Stages
from support.waiting import patience, until

ANSWER = ScriptedReply("In the reeds.", usage={"prompt_tokens": 10, "completion_tokens": 20})
TEAM = "sk-team-4b1d07c6e2f39a58"
OPS = "sk-ops-5d8e2c17b0a94f63"
KEYS = f'[key.team]\nkey = "{hashed(TEAM)}"\n[key.ops]\nkey = "{hashed(OPS)}"\nadmin = true\n'

pytestmark = pytest.mark.sampled(2)


@pytest.fixture
def operated(tmp_path: Path, stages: Stages, monkeypatch: Any) -> Iterator[Operated]:
    """Write the file of a chain over the first server."""
    monkeypatch.setenv("BACKEND_KEY", protocols.KEY)
    for stage in stages:
        stage.play([ANSWER])
    operated = Operated(tmp_path)
    operated.key_file(KEYS)
    write(operated, chain(stages))
    with operated.open():
        yield operated


def chain(stages: Stages, *, name: str = "default", more: str = "prices = [1, 2]") -> str:
    """Return a chain of two backends, the first of which has settings of its own."""
    first, second = [stage.provider.base_url for stage in stages[:2]]
    return backend(name, first, "first", more=more) + backend(name, second, "second")


def write(operated: Operated, text: str) -> None:
    operated.file.write_text(
        f"[waits]\nlongest_asked = 1.0\n[limits]\nretries = 0\nresends = 0\n{text}"
    )


def test_calls_that_run_finish_on_the_old_chain(operated: Any, stages: Stages) -> None:
    goes_on = threading.Event()

    def slow(request: ReceivedRequest) -> ScriptedReply:
        assert goes_on.wait(patience())
        return ANSWER

    stages[0].play([slow])
    operated.start()
    connections = operated.app.gateway.chains["default"].runtime.connections
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(operated.ask, TEAM, streams=streams) for streams in (False, True)]
        until(lambda: len(stages[0].requests) == 2)
        write(operated, backend("default", stages[2].provider.base_url, "third"))
        assert operated.post("/-/reload", OPS).json() == {"status": "reloaded"}
        assert operated.ask(TEAM).json()["model"] == "third"
        goes_on.set()
        whole, stream = [each.result() for each in running]
    assert whole.json()["model"] == "first"
    assert "[DONE]" in stream.text
    assert [len(stage.requests) for stage in stages] == [2, 0, 1]
    assert operated.app.gateway.chains["default"].runtime.connections is connections


def test_only_an_administrator_reloads(operated: Any, stages: Stages) -> None:
    operated.start()
    write(operated, chain(stages, name="other"))
    statuses = [operated.post("/-/reload", key).status_code for key in (None, "sk-stranger", TEAM)]
    assert statuses == [401, 401, 403]
    assert operated.get("/-/reload", OPS).status_code == 405
    assert [each["id"] for each in operated.get("/v1/models", TEAM).json()["data"]] == ["default"]
    assert operated.post("/-/reload", OPS).status_code == 200
    assert [each["id"] for each in operated.get("/v1/models", TEAM).json()["data"]] == ["other"]


def test_without_keys_nobody_reloads(operated: Any) -> None:
    (operated.keys / "team.toml").unlink()
    operated.keys.rmdir()
    operated.start()
    assert operated.post("/-/reload", body={}).status_code == 403


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[[chain", "not valid TOML"),
        ("", "there is no chain"),
        ("{chain}\n[budget]\nsecond = 5", "'second'"),
        ("{chain}[key.team]\nkey = 'sk-and-another-key'", "key.team: the same name or key"),
        ("{other}", "key.only: there is no chain 'default'"),
        (
            "{chain}\n[key.dear]\nkey = 'sk-and-another-key'\nbudget = {{money = 1, per = 'day'}}",
            "no prices",
        ),
    ],
)
def test_a_mistake_changes_nothing(text: str, word: str, operated: Any, stages: Stages) -> None:
    only = '[key.only]\nkey = "sk-only-the-default"\nchains = ["default"]\n'
    operated.key_file(only, "only.toml")
    operated.start()
    write(operated, text.format(chain=chain(stages), other=chain(stages, name="other")))
    response = operated.post("/-/reload", OPS)
    assert response.status_code == 409
    message = response.json()["error"]["message"]
    assert message.startswith("everything is as before: ")
    assert word in message
    assert operated.ask(TEAM).json()["model"] == "first"
    operated.file.unlink()
    assert operated.post("/-/reload", OPS).status_code == 409


def test_what_is_spent_stays_spent(operated: Any, stages: Stages) -> None:
    spent = (
        '[key.budgeted]\nkey = "sk-of-a-budgeted-team"\nbudget = {{attempts = {}, per = "day"}}\n'
    )
    write(operated, chain(stages) + spent.format(1))
    operated.start()
    statuses = []
    for attempts in (1, 1, 2, 2, 1):
        write(operated, chain(stages) + spent.format(attempts))
        assert operated.post("/-/reload", OPS).status_code == 200
        statuses.append(operated.ask("sk-of-a-budgeted-team").status_code)
    assert statuses == [200, 429, 200, 429, 429]


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ("", ScriptedReply(status=401)),
        ("quota = {requests_per_minute = 1}", ANSWER),
    ],
    ids=["health", "quota"],
)
def test_health_and_quotas_are_kept(more: str, first: Any, operated: Any, stages: Stages) -> None:
    stages[0].play([first])
    write(operated, chain(stages, more=more))
    operated.start()
    operated.ask(TEAM)
    for name in ("default", "another"):  # it belongs to the backend, and not to the chain
        write(operated, chain(stages, name=name, more=more))
        assert operated.post("/-/reload", OPS).status_code == 200
        assert operated.ask(TEAM).json()["model"] == "second"
    assert len(stages[0].requests) == 1
