"""`rungwise proxy` as a command: what it refuses, what it says, how it ends, and what it keeps."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import httpx
import pytest

from rungwise.adapters.cli.backends import clients_in
from rungwise.adapters.cli.proxy import _app
from rungwise.adapters.gateway.serving.keys import Keys
from rungwise.adapters.provider.server import render
from rungwise.testing import ReceivedRequest, ScriptedReply
from support import protocols, sdks
from support.command_line import invoke, read_until, start
from support.gateways import PATHS, written
from support.runs import Stages
from support.sdks import APIS
from support.waiting import patience, until

TEXT: Final = "In the reeds, mostly; some of them in the alders behind the boathouse."
VARIABLES: Final = {"BACKEND_KEY": protocols.KEY, "PROXY_KEY": sdks.KEY}

pytestmark = pytest.mark.sampled(2)


def hanging(request: ReceivedRequest) -> ScriptedReply:
    """Fall silent for ever in the middle of a text."""
    reply = ScriptedReply(TEXT, chunk_size=20, hang=True)
    pieces = render(reply, request.body, path=request.path).pieces
    return attrs.evolve(reply, cut_after=sum(map(len, pieces[:3])))


def chains(folder: Path, url: str) -> Path:
    """Write the file of a chain."""
    path = folder / "chains.toml"
    backend = (
        f'api = "openai"\nmodel = "m"\nbase_url = "{url}"\nkey_env = '
        f'"BACKEND_KEY"\nprices = [1, 2]\n'
    )
    both = f"[[chain.default]]\n{backend}[[chain.other]]\n{backend}"
    path.write_text(f"[budget]\nseconds = 60\n{both}")
    return path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the file of a chain whose keys are there."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return chains(tmp_path, "http://127.0.0.1:9/v1")


@contextmanager
def running(*arguments: Any) -> Iterator[tuple[Any, str]]:
    """Run the command in a process, and yield the process and its address without a path."""
    process = start("proxy", *map(str, arguments), "--port", "0", **VARIABLES)
    assert process.stdout is not None
    try:
        line = read_until(process.stdout.fileno(), b"\n").decode().strip()
        assert line.endswith("/v1")
        yield process, line.removesuffix("/v1")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_it_serves_keeps_journals_and_drains(tmp_path: Path, stages: Stages) -> None:
    """One process shows it all: each takes a second to start."""
    stages[0].play([ScriptedReply(TEXT)])
    journals = tmp_path / "journals"
    file = chains(tmp_path, stages[0].provider.base_url)
    options = (file, "--journals", journals, "--client-key-env", "PROXY_KEY", "--drain", "0.2")
    with ThreadPoolExecutor(2 * len(APIS)) as pool, running(*options) as (process, url):
        for api in APIS:
            assert sdks.ask(api, "whole", base_url=url, key="wrong").status == 401
            assert sdks.ask(api, "stream", base_url=url).text == TEXT
        kept = [*journals.glob("*.json")]
        assert len(kept) == len(APIS)
        keys = {"authorization": f"Bearer {sdks.KEY}"}
        response = httpx.post(
            url + PATHS["openai"], json=written("openai", a_field=1), headers=keys
        )
        assert response.headers["x-rungwise-outcome"] == "forwarded"
        journal = journals / f"{response.headers['x-rungwise-journal']}.json"
        assert journal in [*journals.glob("*.json")]
        file.write_text(file.read_text().replace("chain.other", "chain.another"))
        process.send_signal(signal.SIGHUP)
        read_until(process.stderr.fileno(), b"the chains are read again\n")
        listed = httpx.get(f"{url}/v1/models", headers=keys).json()["data"]
        assert {each["id"] for each in listed} == {"default", "another"}
        file.write_text("[")
        process.send_signal(signal.SIGHUP)
        said = read_until(process.stderr.fileno(), b"not valid TOML")
        assert b"everything is as before" in said
        stages[0].play([hanging])
        asked = [
            pool.submit(sdks.ask, api, way, base_url=url)
            for api in APIS
            for way in ("whole", "stream")
        ]
        until(lambda: len(stages[0].requests) == len(asked))
        process.send_signal(signal.SIGTERM)
        seen = [each.result() for each in asked]
        told = process.communicate(timeout=patience())
        assert process.returncode == 0
    for whole, stream in zip(seen[::2], seen[1::2], strict=True):
        assert whole.status == 503
        assert stream.error is not None
        assert TEXT.startswith(stream.text)
        assert "shutting down" in whole.message
        assert "shutting down" in stream.message
    shown = b"".join(told).decode() + "".join(path.read_text() for path in journals.glob("*.json"))
    assert not [
        secret for secret in (sdks.KEY, protocols.KEY, sdks.QUESTION, TEXT) if secret in shown
    ]
    outcomes = [json.loads(path.read_text())["outcome"] for path in journals.glob("*.json")]
    assert sorted(outcomes) == ["cancelled"] * len(asked) + ["done"] * (len(APIS) + 1)
    for path in (journal, *kept):
        explained = invoke("explain", path)
        assert (explained.exit_code, "done" in explained.output) == (0, True), explained.output


@pytest.mark.full
def test_ctrl_c_ends_it(tmp_path: Path, stages: Stages) -> None:
    with running(chains(tmp_path, stages[0].provider.base_url)) as (process, url):
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok", "running": 0}
        assert {each["id"] for each in httpx.get(f"{url}/v1/models").json()["data"]} == {
            "default",
            "other",
        }
        assert httpx.post(f"{url}/v1/files", json={}).status_code == 404
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=patience())
        assert process.returncode == 0
    assert out == b""
    assert b"Traceback" not in told
    assert url.encode() in told, "it says how to point the SDKs at it"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no chain"),
        ("[budget\n", "chains.toml"),
        ("[budget]\nseconds = 60\n", "no chain"),
        ("[budget]\nsecond = 60\n[[chain.a]]\napi = 'openai'\nmodel = 'm'\n", "second"),
        ("chain = 5", "chain"),
        ("[chain.a]\nmodel = 'm'", "chain.a"),
        ("[[chain.a]]\napi = 'nobody'\nmodel = 'm'\n", "nobody"),
        ("[[chain.a]]\napi = 'openai'\n", "model"),
        (
            "[[chain.a]]\napi = 'openai'\nmodel = 'm'\nkey_env = 'NOT_SET_AT_ALL'\n",
            "NOT_SET_AT_ALL",
        ),
        ("[[chain.a]]\napi = 'openai'\nmodel = 'm'\nkey_env = ''\na_word = 1\n", "a_word"),
        ("[budget]\nmoney = 1\n[[chain.a]]\napi = 'openai'\nmodel = 'm'\nkey_env = ''\n", "price"),
    ],
)
def test_a_bad_file_is_refused(text: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "chains.toml"
    path.write_text(text)
    result = invoke("proxy", path, "--port", 0)
    assert result.exit_code == 2, result.output
    assert word in result.output
    assert "Traceback" not in result.output


OTHERS = ("0.0.0.0", "192.168.0.7", "::", "example.com")
NOBODY = ("::1", "256.1.1.1", "203.0.113.7", "no such host")
KEYLESS = ("NOT_SET_AT_ALL", "EMPTY", "BLANK", "sk-this-is-a-key-itself")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *[(["--host", host], "--client-key-env") for host in OTHERS],
        *[(["--host", host, "--client-key-env", "PROXY_KEY"], "") for host in NOBODY],
        *[(["--client-key-env", name], "") for name in KEYLESS],
    ],
)
def test_what_cannot_be_served_is_refused(
    options: Any, says: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("BLANK", " ")
    result = invoke("proxy", path, "--port", 0, *options)
    assert result.exit_code == 2, result.output
    assert says in result.output
    assert "Traceback" not in result.output
    assert "sk-this" not in result.output


def test_a_taken_port_is_refused(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        result = invoke("proxy", path, "--port", port)
    assert (result.exit_code, str(port) in result.output) == (2, True)


def test_a_file_that_is_missing_and_a_folder_that_is_a_file_are_refused(path: Path) -> None:
    assert invoke("proxy", path.with_name("none.toml")).exit_code == 2
    for folder in (path, path / "below"):
        assert invoke("proxy", path, "--journals", folder).exit_code == 2
    assert os.listdir(path.parent) == ["chains.toml"]


def test_the_options_reach_the_application(path: Path) -> None:
    clients = clients_in(str(path), max_connections=3)
    options: dict[str, Any] = {"ping": 7.0, "hold": True, "forward": True, "journals": None}
    app = _app(clients, Keys(), 3, **options, hosts=("LLM.Example",))
    assert (app.gateway.hold, app.forwards, app.most) == (True, True, 3)
    assert not app.keys.is_wanted
    assert app.gateway.ping == 7.0
    assert app.hosts == {"llm.example"}
    assert {*app.gateway.chains} == {"default", "other", "*"}
    assert app.gateway.chains["*"] is app.gateway.chains["default"]
    path.write_text(path.read_text().replace("chain.default", "chain.another"))
    clients = clients_in(str(path), max_connections=3)
    app = _app(clients, Keys(), 3, **{**options, "ping": 0}, hosts=())
    assert app.gateway.ping is None
    assert {*app.gateway.chains} == {"another", "other"}, (
        "which of them an unknown model means, nobody knows"
    )


@pytest.mark.full
def test_a_second_ctrl_c_ends_what_still_runs(tmp_path: Path, stages: Stages) -> None:
    stages[0].play([hanging])
    file = chains(tmp_path, stages[0].provider.base_url)
    with (
        ThreadPoolExecutor(2) as pool,
        running(file, "--drain", "600", "--max-connections", "2") as (process, url),
    ):
        asked = [pool.submit(sdks.ask, "openai", way, base_url=url) for way in ("whole", "stream")]
        until(lambda: len(stages[0].requests) == len(asked))
        busy = httpx.post(url + PATHS["openai"], json=written("openai"))
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        # which no limit keeps out
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok", "running": 2}
        process.send_signal(signal.SIGINT)
        assert b"press Ctrl-C again" in read_until(process.stderr.fileno(), b"again\n")
        process.send_signal(signal.SIGINT)
        whole, stream = [each.result() for each in asked]
        _, told = process.communicate(timeout=patience())
        assert process.returncode == 0
    assert whole.status == 503
    assert "shutting down" in whole.message
    assert "shutting down" in stream.message
    assert b"Traceback" not in told
