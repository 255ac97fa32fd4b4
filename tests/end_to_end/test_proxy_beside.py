"""Embeddings and counts of tokens: they go to the first backend that has them, within budgets."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import attrs
import httpx
import pytest

from support import protocols
from support.gateways import fault_of
from support.operated import Operated, backend, hashed

TEAM = "sk-team-4b1d07c6e2f39a58"
VECTORS = {"object": "list", "data": [{"embedding": [0.5] * 400}], "usage": {"prompt_tokens": 12}}
ASKED = {"input": "herons"}

pytestmark = pytest.mark.sampled(2)


@attrs.define
class Upstream:
    """A server that answers anything by a script, and repeats its last reply."""

    script: list[tuple[int, Any]]
    url: str = ""
    requests: list[tuple[str, dict[str, str], Any]] = attrs.field(factory=list)

    @contextmanager
    def serving(self) -> Iterator[None]:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(self.rfile.read(length))
                upstream.requests.append((self.path, headers, body))
                number = min(len(upstream.requests), len(upstream.script)) - 1
                status, answer = upstream.script[number]
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("retry-after", "0")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None: ...

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            self.url = f"http://127.0.0.1:{server.server_port}"
            yield
            server.shutdown()
            thread.join()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    upstream = Upstream([(200, VECTORS)])
    with upstream.serving():
        yield upstream


@pytest.fixture
def operated(upstream: Upstream, tmp_path: Path, monkeypatch: Any) -> Iterator[Operated]:
    """Write a chain that has every protocol, and one of a model that makes vectors."""
    monkeypatch.setenv("BACKEND_KEY", protocols.KEY)
    operated = Operated(tmp_path)
    roots = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta", "ollama": ""}
    tables = ["[waits]\nretry_base = 0.0\njitter = 0.0\n"]
    for api, root in roots.items():
        tables.append(backend("default", upstream.url + root, f"{api}-m", api=api))
    vectors = backend("vectors", f"{upstream.url}/v1", "small", more="prices = [100, 0]")
    operated.file.write_text("".join(tables) + vectors)
    operated.key_file(f'[key.team]\nkey = "{hashed(TEAM)}"\n')
    with operated.open():
        yield operated


ADDRESSES = {
    "/v1/embeddings": ({"model": "vectors", **ASKED}, "/v1/embeddings", "small"),
    "/v1/messages/count_tokens": (
        {"model": "claude", "messages": []},
        "/v1/messages/count_tokens",
        "anthropic-m",
    ),
    "/v1beta/models/any:countTokens": (
        {"contents": [], "generateContentRequest": {"model": "models/any"}},
        "/v1beta/models/gemini-m:countTokens",
        None,
    ),
    "/v1beta/models/embedder:embedContent": (
        {"content": {}, "model": "models/other"},
        "/v1beta/models/embedder:embedContent",
        "models/embedder",
    ),
    "/v1beta/models/embedder:batchEmbedContents": (
        {"requests": [{"model": "models/other", "content": {}}]},
        "/v1beta/models/embedder:batchEmbedContents",
        None,
    ),
    "/api/embed": ({"model": "nomic", **ASKED}, "/api/embed", "nomic"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", ADDRESSES)
def test_each_goes_to_the_backend_that_has_it(
    path: str, operated: Operated, upstream: Upstream
) -> None:
    body, sent_to, model = ADDRESSES[path]
    operated.start()
    response = operated.post(path, TEAM, body)
    assert (response.status_code, response.json()) == (200, VECTORS)
    assert response.headers["x-rungwise-outcome"] == "forwarded"
    [(place, headers, sent)] = upstream.requests
    assert place == sent_to
    assert sent.get("model") == model
    shown = json.dumps([headers, sent])
    assert protocols.KEY in shown
    assert TEAM not in shown
    assert "models/other" not in shown
    assert "models/any" not in shown
    assert operated.post(path, None, body).status_code == 401
    assert operated.get(path, TEAM).status_code == 404


def test_it_is_tried_again_at_the_same_model_only(operated: Operated, upstream: Upstream) -> None:
    upstream.script = [(503, {"error": {"message": "busy"}}), (200, VECTORS)]
    operated.start()
    assert operated.post("/v1/embeddings", TEAM, {"model": "vectors", **ASKED}).json() == VECTORS
    assert [path for path, _, _ in upstream.requests] == ["/v1/embeddings"] * 2
    upstream.script = [(400, {"error": {"message": "no such model", "code": "model_not_found"}})]
    response = operated.post("/v1/embeddings", TEAM, {"model": "unknown", **ASKED})
    assert response.status_code == 400
    assert response.json() == upstream.script[0][1]
    assert len(upstream.requests) == 3


def test_budgets_hold(operated: Operated, upstream: Upstream) -> None:
    # a request costs 12 tokens, and its prompt is estimated at as many as it has thirds of bytes
    budget = 'chains = ["vectors"]\nbudget = {money = 0.0045, per = "day"}'
    operated.key_file(f'[key.team]\nkey = "{hashed(TEAM)}"\n{budget}')
    operated.options = {"journals": str(operated.folder / "journals")}
    operated.start()
    asked = {"model": "vectors", **ASKED}
    responses = [operated.post("/v1/embeddings", TEAM, asked) for _ in range(4)]
    assert [each.status_code for each in responses] == [200, 200, 200, 429]
    assert int(responses[-1].headers["retry-after"]) == pytest.approx(43_200, abs=2)
    assert [each.headers["x-rungwise-cost"] for each in responses[:3]] == ["0.001200"] * 3
    assert len(upstream.requests) == 3
    operated.days = 1
    assert operated.post("/v1/embeddings", TEAM, asked).status_code == 200
    kept = [json.loads(each.read_text()) for each in (operated.folder / "journals").iterdir()]
    assert {each["caller"] for each in kept} == {"team"}


def test_counting_costs_nothing(operated: Operated, upstream: Upstream) -> None:
    prices = operated.file.read_text().replace("\n\n", "\nprices = [10, 10]\n")
    operated.file.write_text(prices)
    budget = 'budget = {money = 0.001, per = "day"}'
    operated.key_file(f'[key.team]\nkey = "{hashed(TEAM)}"\n{budget}')
    operated.start()
    long = {"model": "any", "messages": [{"role": "user", "content": "heron " * 5_000}]}
    for _ in range(3):
        response = operated.post("/v1/messages/count_tokens", TEAM, long)
        assert response.status_code == 200
        assert float(response.headers["x-rungwise-cost"]) == 0
    assert len(upstream.requests) == 3


def test_permissions_hold(operated: Operated, upstream: Upstream) -> None:
    operated.key_file(f'[key.team]\nkey = "{hashed(TEAM)}"\nchains = ["vectors"]\n')
    operated.start()
    for path in ("/v1/messages/count_tokens", "/v1beta/models/any:countTokens"):
        response = operated.post(path, TEAM, {"model": "any", "messages": []})
        assert response.status_code == 403
        api = "anthropic" if "messages" in path else "gemini"
        assert "it may ask: vectors" in fault_of(api, response)
    assert upstream.requests == []


def test_a_model_without_a_price_is_refused_where_money_is_limited(
    operated: Operated, upstream: Upstream
) -> None:
    operated.file.write_text(
        operated.file.read_text().split('[[chain."default"]]')[0]
        + backend("default", f"{upstream.url}/v1", "small", more="prices = [100, 0]")
    )
    budget = 'budget = {money = 1, per = "day"}'
    operated.key_file(f'[key.team]\nkey = "{hashed(TEAM)}"\n{budget}')
    operated.start()
    response = operated.post("/v1/embeddings", TEAM, {"model": "huge", **ASKED})
    assert response.status_code == 400
    assert "'huge' is no model of the chain" in fault_of("openai", response)
    assert operated.post("/v1/embeddings", TEAM, {"model": "small", **ASKED}).status_code == 200


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"model": ["x"]}', b"\xff"])
def test_what_is_no_request_is_400(body: bytes, operated: Operated, upstream: Upstream) -> None:
    operated.start()
    headers = {"authorization": f"Bearer {TEAM}"}
    upstream.script = [(400, {"error": {"message": "what?"}})]
    url = f"{operated.url}/v1/embeddings"
    assert httpx.post(url, content=body, headers=headers).status_code == 400
