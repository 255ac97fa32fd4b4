"""What an attacker, a web page or a backend that repeats its key gets from the proxy: nothing."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.config import LOOP_FACTORIES
from uvicorn.importer import import_from_string

import rungwise
from rungwise import Budget, Client, Policy, Prices
from rungwise.adapters.cli.workers.http_server import listen, server_of
from rungwise.adapters.gateway import connections
from rungwise.adapters.gateway.gateway import Gateway
from rungwise.adapters.gateway.paths import stays_within
from rungwise.adapters.gateway.proxy import Proxy
from rungwise.adapters.gateway.pump import Pump
from rungwise.adapters.gateway.withholding import HIDDEN, Withholding
from rungwise.fsm.replies.reply import Reasoning, Text
from rungwise.fsm.values.secret import Secret
from rungwise.testing import ScriptedReply
from support import protocols, sdks
from support.gateways import written
from support.proxied import Exchange, served
from support.runs import Stage
from support.waiting import patience, until
from support.workers import working

pytestmark = pytest.mark.sampled(3)

OWN = {"authorization": f"Bearer {sdks.KEY}"}


# paths


class Upstream(BaseHTTPRequestHandler):
    """Note the paths that arrive, and repeat the key in the body and in a header."""

    protocol_version = "HTTP/1.1"
    paths: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.paths.append(self.path)
        key = self.headers["authorization"]
        body = json.dumps({"you sent": key}).encode()
        self.send_response(200)
        self.send_header("x-you-sent", key)
        self.send_header("set-cookie", "session=1")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def forwarding() -> Iterator[str]:
    """Serve a proxy that forwards to a base URL below the root of a host."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}/tenant/v1"
        client = Client(rungwise.OpenAIChat("m", base_url=base, api_key=protocols.KEY))
        with client, served(Proxy(Gateway(client), key=Secret(sdks.KEY), forwards=True)) as url:
            yield url
        server.shutdown()
        thread.join()


def ask_raw(url: str, path: str) -> int:
    """Send a path as it is, which clients would put in order, and return the status."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=patience()) as sock:
        head = f"GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {sdks.KEY}\r\n"
        sock.sendall(f"{head}connection: close\r\n\r\n".encode("latin-1"))
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    return int(answer.split()[1])


WAYS_OUT = (
    "/v1/../admin",
    "/v1/..%2f..%2fadmin",
    "/v1/%2e%2e/%2e%2e/admin",
    "/v1/%2e%2e%2f%2e%2e%2fadmin",
    "/v1/%252e%252e/%252e%252e/admin",
    "/v1/..%252f..%252fadmin",
    "/v1/%25252e%25252e/x",
    "/v1/..\\..\\admin",
    "/v1/..%5c..%5cadmin",
    "/v1/..%255cadmin",
    "/v1/..;/..;/admin",
    "/v1/..;x=1/admin",
    "/v1/..%3b/admin",
    "/v1/files/..%3f/x",
    "/v1/x%3f/../admin",
    "/v1/x%23/admin",
    "/v1/%ef%bc%8e%ef%bc%8e/admin",
    "/v1/..%ef%bc%8fadmin",
    "/v1/%c0%ae%c0%ae/admin",
    "/v1/%u002e%u002e/admin",
    "/v1/..%20/admin",
    "/v1/.../admin",
    "/v1/./x",
    "/v1/%00/x",
    "/v1/x%0d%0ahost:%20elsewhere",
    "/v1/%",
    "/v1/%2",
    "/v1@127.0.0.1/x",
    "/v1.elsewhere/x",
    "/v1",
    "/%761/models/..%2f..",
    "/v1/%25u002e%25u002e/x",
    "/v1/chat/completions",
    "/v1/chat/completions/",
    "/v1/chat//completions",
    "/v1/chat/completions;x",
    "/v1/chat/completions%20",
    "/v1/chat%2fcompletions",
)


@pytest.mark.parametrize("path", WAYS_OUT)
def test_no_path_leaves_the_base_url(path: str, forwarding: str) -> None:
    Upstream.paths.clear()
    assert ask_raw(forwarding, path) == 404
    assert Upstream.paths == []


@pytest.mark.parametrize(
    "path",
    [
        "/files/file-1",
        "/files/a%2Fb",
        "/models/meta%2Fllama-4%3Afree",
        "/files/100%25",
        "/files/a..b",
        "/files/.well-known",
        "/files/a;v=1",
        "/files/%C3%A9",
        "/files?after=../../x&limit=2",
    ],
)
def test_other_paths_arrive_as_they_were_written(path: str, forwarding: str) -> None:
    Upstream.paths.clear()
    assert ask_raw(forwarding, f"/v1{path}") == 200
    assert Upstream.paths == [f"/tenant/v1{path}"]


PIECES = ["..", ".", "/", "\\", "%", "2e", "2f", "5c", "25", "3f", "3b", ";", "?", "x", " "]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_what_is_passed_on_stays_within_in_any_reading(path: str) -> None:
    if not stays_within(f"/{path}"):
        return
    from urllib.parse import unquote

    read = f"/base/{path}"
    for _ in range(3):
        for text in (read, read.replace("\\", "/"), read.partition(";")[0]):
            depth = 0
            for segment in text.replace("\\", "/").split("/")[1:]:
                depth += {"..": -1, ".": 0, "": 0}.get(segment, 1)
                assert depth >= 1 or segment == ""
        read = unquote(read)


# keys


def test_a_key_that_a_backend_repeats_goes_no_further(forwarding: str) -> None:
    answer = httpx.get(f"{forwarding}/v1/files", headers=OWN)
    assert answer.json() == {"you sent": f"Bearer {HIDDEN}"}
    assert answer.headers["x-you-sent"] == f"Bearer {HIDDEN}"
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("fields", [{}, {"a_field_of_tomorrow": 1}], ids=["chain", "forwarded"])
def test_nor_does_one_in_an_answer(
    fields: dict[str, Any], streams: bool, stages: list[Stage]
) -> None:
    stage = stages[0]
    stage.play([ScriptedReply(f"Your key is {protocols.KEY}, keep it.", chunk_size=3)])
    client = Client(protocols.backend("openai", stage.provider.base_url))
    with client, served(Proxy(Gateway(client), key=Secret(sdks.KEY))) as url:
        body = {**written("openai", **fields), "stream": streams}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=OWN)
    assert answer.status_code == 200
    said = answer.text
    if streams:
        events = [json.loads(line[6:]) for line in said.splitlines() if line.startswith("data: {")]
        said = "".join(
            each["choices"][0]["delta"].get("content") or "" for each in events if each["choices"]
        )
    assert protocols.KEY not in answer.text
    if not streams or not fields:  # what is forwarded as a stream is cut by its provider
        assert f"Your key is {HIDDEN}, keep it." in said


def pieces_of(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@given(st.lists(st.sampled_from(["sk-secret-1", "sk-secret", "sk-", "secret-1x", "a", "\n"])))
def test_a_key_is_found_however_it_is_cut(words: list[str]) -> None:
    text = "".join(words)
    whole = text.replace("sk-secret-1", "***")
    for size in (1, 3, 7, len(text) + 1):
        withholding = Withholding(["sk-secret-1"])
        out = "".join(withholding.feed(piece) for piece in pieces_of(text, size))
        assert out + withholding.end() == whole


ADDRESSES = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent",
    "interactions": "/v1beta/interactions",
}


@pytest.mark.parametrize("size", [1, 3, 7, 50])
@pytest.mark.parametrize("language", ADDRESSES)
def test_a_key_that_comes_in_several_pieces_leaves_in_none(language: str, size: int) -> None:
    backend = protocols.backend(language, "http://localhost:1/v1")
    body = json.dumps({**written(language), "stream": True}).encode()
    with Client(backend) as client:
        pump = Pump(Gateway(client).read(ADDRESSES[language], "alt=sse", {}, body))
        out = b""
        for kind in (Reasoning, Text):
            for piece in pieces_of(f"It is {protocols.KEY}, I think. sk-9", size):
                out += pump.take(kind(piece))
        out += pump.fail(RuntimeError("a bug"))
    said: dict[type, str] = {Reasoning: "", Text: ""}
    for piece in backend.decoder({}).feed(out):
        said[type(piece)] += piece.text
    assert said[Text] == f"It is {HIDDEN}, I think. sk-9"
    assert said[Reasoning] in ("", said[Text])


KEY_WITH_SIGNS = "sk-a/b+c-d0123456789"
SPELLINGS = (
    "sk-a/b+c-d0123456789",
    r"sk-a\/b+c-d0123456789",
    r"sk-a/b\u002Bc-d0123456789",
    "sk-a%2Fb%2Bc-d0123456789",
    r"sk\u002da\u002fb\u002bc\u002dd0123456789",
    r"sk\u002Da\u002Fb\u002Bc\u002Dd0123456789",
)
"""As JSON and URLs write it: servers differ in what they escape."""


@pytest.mark.parametrize("written", SPELLINGS)
def test_a_key_is_found_however_it_is_spelt(written: str) -> None:
    withholding = Withholding([KEY_WITH_SIGNS])
    assert withholding.feed(f'"{written}"') + withholding.end() == '"***"'


def test_no_page_of_another_site_gets_in() -> None:
    with Client(rungwise.OpenAIChat("m", api_key="sk-1234567890")) as client:
        proxy = Proxy(Gateway(client), forwards=True)
        for site, status in (("cross-site", 403), ("same-site", 403), ("none", 200)):
            given = {"sec-fetch-site": site}
            assert status_of(proxy, "localhost", "/v1/models", **given) == status


# budgets


DEAR = (
    {"n": 4, "max_tokens": 10, "max_completion_tokens": 100_000},
    {"n": 2, "max_tokens": 10, "max_output_tokens": 100_000},
    {"logprobs": True, "max_tokens": 10, "generationConfig": {"maxOutputTokens": 100_000}},
    {"n": 2, "max_tokens": 10, "options": {"num_predict": 100_000}},
    {"n": 2, "max_tokens": 10, "extra_body": {"max_tokens": 100_000}},
    {"best_of": 1_000, "max_tokens": 10},
    {"n": 1_000, "max_tokens": 10},
    {"n": 2, "best_of": 1_000, "max_tokens": 10},
    {"n": 2},
    {"n": 2, "max_tokens": 1e5},
    {"n": 2, "max_tokens": "100000"},
    {"n": 2, "max_tokens": -1},
    {"n": 2.0, "max_tokens": 190},
    {"n": True, "max_tokens": 190, "logprobs": True},
    {"n": 2, "num_predict": 10},
    {"n": 2, "metadata": {"max_tokens": 10}},
    {"n": 2, "max_tokens": 10, "MAX_TOKENS": 100_000},
    {"logprobs": True, "max_tokens": 10, "N": 50},
    {"n": 2, "max_tokens": 10, "extra_body": {"google": {"max_tokens": 100_000}}},
    {"n_cmpl": 1_000, "max_tokens": 10},
)


@pytest.mark.parametrize("fields", DEAR, ids=str)
def test_what_is_forwarded_cannot_cost_more_than_the_budget(
    fields: dict[str, Any], stages: list[Stage]
) -> None:
    stage = stages[0]
    stage.play([ScriptedReply("In the reeds.")])
    backend = protocols.backend("openai", stage.provider.base_url)
    policy = Policy(budget=Budget(output_tokens=200))
    with Client(backend, policy=policy) as client, served(Proxy(Gateway(client))) as url:
        answer = httpx.post(f"{url}/v1/chat/completions", json=written("openai", **fields))
    assert answer.status_code == 400, answer.text
    assert stage.requests == []


def test_of_two_members_of_one_name_the_one_that_counts_is_sent(stages: list[Stage]) -> None:
    stage = stages[0]
    stage.play([ScriptedReply("In the reeds.")])
    backend = protocols.backend("openai", stage.provider.base_url)
    body = json.dumps(written("openai", n=2, max_tokens=50))
    body = body[:-1] + ', "max_completion_tokens": 100000, "max_completion_tokens": 60}'
    policy = Policy(budget=Budget(output_tokens=200))
    with Client(backend, policy=policy) as client, served(Proxy(Gateway(client))) as url:
        head = {"content-type": "application/json"}
        answer = httpx.post(f"{url}/v1/chat/completions", content=body, headers=head)
    assert answer.status_code == 200, answer.text
    [request] = stage.requests
    assert request.body["max_completion_tokens"] == 60
    assert request.body["model"] == "m"


@pytest.mark.parametrize(
    "fields",
    [
        {"models": ["dear"]},
        {"fallbacks": [{"model": "dear"}]},
        {"tools": [{"type": "image_generation", "model": "dear"}]},
        {"tools": [{"type": "image_generation", "config": {"model": "dear"}}]},
        {"extra_body": {"models": ["dear"]}},
        {"MODEL": "dear"},
        {"context_window_fallbacks": [{"m": ["dear"]}, "dear"]},
    ],
    ids=str,
)
def test_nothing_is_asked_whose_price_the_chain_does_not_know(
    fields: dict[str, Any], stages: list[Stage]
) -> None:
    stage = stages[0]
    stage.play([ScriptedReply("In the reeds.")])
    backend = protocols.backend("openai", stage.provider.base_url, prices=Prices(1.0, 2.0))
    policy = Policy(budget=Budget(money=1))
    with Client(backend, policy=policy) as client, served(Proxy(Gateway(client))) as url:
        answer = httpx.post(f"{url}/v1/chat/completions", json=written("openai", **fields))
    assert answer.status_code == 400
    assert "no model of the chain" in answer.text
    assert stage.requests == []


@pytest.mark.parametrize("model", ["dear", "model-1", "default"])
def test_a_forwarded_request_asks_the_model_of_the_chain(model: str, stages: list[Stage]) -> None:
    stage = stages[0]
    stage.play([ScriptedReply("In the reeds.")])
    backend = protocols.backend("openai", stage.provider.base_url, model="model-1")
    body = {**written("openai", n=2, max_tokens=10), "model": model}
    with Client(backend) as client, served(Proxy(Gateway(client))) as url:
        assert httpx.post(f"{url}/v1/chat/completions", json=body).status_code == 200
    assert stage.requests[0].body["model"] == "model-1"


# names


LOOPBACK = ("localhost", "localhost:8000", "LocalHost.", "app.localhost", "127.0.0.1:1", "[::1]:8")
OTHERS = (
    "evil.example",
    "evil.example:8000",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "notlocalhost",
    "0.0.0.0",
    "10.0.0.1",
    "[::]",
    "",
    "localhost@evil.example",
    "localhost, evil.example",
)
PATHS = ("/v1/models", "/metrics", "/healthz", "/v1/files")


def status_of(proxy: Proxy, host: str, path: str, **headers: str) -> int:
    import asyncio

    exchange = Exchange(proxy, "GET", path, {"host": host, **headers})
    exchange.leave()
    return int(asyncio.run(exchange.run()).sent[0]["status"])


@pytest.mark.parametrize("path", PATHS)
def test_without_a_key_only_loopback_names_are_answered(path: str) -> None:
    with Client(rungwise.OpenAIChat("m", api_key="sk-1234567890")) as client:
        proxy = Proxy(Gateway(client))
        assert {status_of(proxy, host, path) for host in OTHERS} == {421}
        assert 421 not in {status_of(proxy, host, path) for host in LOOPBACK}


def test_with_a_key_other_names_are_answered_unless_some_are_named() -> None:
    with Client(rungwise.OpenAIChat("m", api_key="sk-1234567890")) as client:
        key = Secret(sdks.KEY)
        assert status_of(Proxy(Gateway(client), key=key), "any.example", "/v1/models", **OWN) == 200
        named = Proxy(Gateway(client), key=key, hosts=["llm.example"])
        assert status_of(named, "llm.example:443", "/v1/models", **OWN) == 200
        assert status_of(named, "any.example", "/v1/models", **OWN) == 421
        assert status_of(named, "localhost", "/v1/models", **OWN) == 200


# heads


@pytest.fixture(params=["auto", pytest.param("asyncio", marks=pytest.mark.full)])
def address(
    stages: list[Stage], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, int]]:
    """Serve a proxy of ten connections as the command does, on uvloop and on asyncio's loop."""
    loops = dict(LOOP_FACTORIES)
    assert import_from_string(loops["auto"])() is uvloop.new_event_loop
    monkeypatch.setitem(LOOP_FACTORIES, "auto", loops[request.param])
    stages[0].play([ScriptedReply("In the reeds.")])
    client = Client(protocols.backend("openai", stages[0].provider.base_url))
    with client, listen("127.0.0.1", 0) as listening:
        server = server_of(Proxy(Gateway(client), key=Secret(sdks.KEY), most=10), 0.0, 10)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        until(lambda: server.started)
        yield listening.getsockname()[:2]
        server.should_exit = True
        thread.join()


def test_half_heads_do_not_shut_out_who_has_the_key(address: tuple[str, int]) -> None:
    open_sockets = []
    try:
        for _ in range(600):
            sock = socket.create_connection(address, timeout=patience())
            sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
            open_sockets.append(sock)
        url = f"http://{address[0]}:{address[1]}/v1/chat/completions"
        answer = httpx.post(url, json=written("openai"), headers=OWN, timeout=patience())
        assert answer.status_code == 200
    finally:
        for sock in open_sockets:
            sock.close()


POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
NO_REQUESTS = {
    "both lengths": CHUNKED + b"content-length: 4\r\n\r\n0\r\n\r\n",
    "both lengths, in the other order": b"content-length: 4\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "two lengths": b"content-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
    "a length with a sign": b"content-length: +4\r\n\r\nabcd",
    "a length in two parts": b"content-length: 4 4\r\n\r\nabcd",
    "another coding": b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding beside chunks": b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "a coding behind a tab": b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a space before a colon": b"content-length : 4\r\n\r\nabcd",
    "a space in a name": b"x y: 4\r\n\r\n",
    "no name": b": 4\r\n\r\n",
    "a zero in a value": b"x: a\0b\r\n\r\n",
    "a carriage return in a value": b"x: a\rb\r\n\r\n",
    "two hosts": b"host: 127.0.0.1\r\n\r\n",
    "a huge head": b"x: " + b"a" * 300_000 + b"\r\n\r\n",
}


def answer_to(address: tuple[str, int], sent: bytes) -> bytes:
    """Send bytes, and return what comes until the connection ends."""
    with socket.create_connection(address, timeout=patience()) as sock:
        answer = b""
        try:
            sock.sendall(sent)
            while piece := sock.recv(65536):
                answer += piece
        except ConnectionError:  # it was cut off while it sent
            pass
    return answer


@pytest.mark.parametrize("rest", NO_REQUESTS.values(), ids=[*NO_REQUESTS])
def test_what_two_readers_may_read_in_two_ways_is_refused(
    rest: bytes, address: tuple[str, int]
) -> None:
    answer = answer_to(address, POST + rest)
    assert answer.startswith(b"HTTP/1.1 400 ") or not answer
    assert answer.count(b"HTTP/1.1") <= 1


@pytest.mark.parametrize("size", [b"-1", b"0x4", b" 4", b"g", b"", b"f" * 30])
def test_a_chunk_of_no_size_ends_the_connection(size: bytes, address: tuple[str, int]) -> None:
    head = POST + CHUNKED + b"authorization: Bearer " + sdks.KEY.encode() + b"\r\n\r\n"
    second = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    answer = answer_to(address, head + size + b"\r\nabcd\r\n0\r\n\r\n" + second)
    assert b" 200 " not in answer


@pytest.mark.parametrize("sent", [b"", b"GET", b"GET /healthz HTTP/1.1\r\nhost: a\r\nx: "])
@pytest.mark.parametrize("is_second", [False, True])
def test_a_head_has_its_time(
    sent: bytes, is_second: bool, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with socket.create_connection(address, timeout=patience()) as sock:
        if is_second:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += sock.recv(65536)
        sock.sendall(sent)
        try:
            rest = sock.recv(65536)
        except ConnectionResetError:
            rest = b""
    assert rest == b""


# workers


@pytest.mark.full
def test_two_workers_hold_against_all_of_this(tmp_path: Path) -> None:
    """Each case has connections of its own, which the two share."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        backend = f"http://127.0.0.1:{server.server_port}/tenant/v1"
        file = tmp_path / "chains.toml"
        file.write_text(
            "[budget]\noutput_tokens = 200\n[[chain.default]]\napi = 'openai'\nmodel = 'm'\n"
            f"base_url = '{backend}'\nkey_env = 'BACKEND_KEY'\n"
        )
        options = ("--forward", "--client-key-env", "PROXY_KEY", "--max-connections", "10")
        Upstream.paths.clear()
        with working(file, *options) as (_, url):
            host, _, port = url.removeprefix("http://").partition(":")
            assert {ask_raw(url, path) for path in WAYS_OUT} == {404}
            for fields in DEAR:
                body = written("openai", **fields)
                answer = httpx.post(
                    f"{url}/v1/chat/completions", json=body, headers=OWN, timeout=patience()
                )
                assert answer.status_code == 400, fields
            for rest in NO_REQUESTS.values():
                assert b" 200 " not in answer_to((host, int(port)), POST + rest)
            for _ in range(8):
                assert httpx.get(f"{url}/v1/files", timeout=patience()).status_code == 401
            assert Upstream.paths == []
            answer = httpx.get(f"{url}/v1/files", headers=OWN, timeout=patience())
            assert answer.json() == {"you sent": f"Bearer {HIDDEN}"}
            with ExitStack() as half_heads:
                for _ in range(600):
                    sock = socket.create_connection((host, int(port)), timeout=patience())
                    half_heads.enter_context(sock)
                    sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
                for _ in range(8):
                    listed = httpx.get(f"{url}/v1/models", headers=OWN, timeout=patience())
                    assert listed.status_code == 200
        server.shutdown()
        thread.join()
