import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import ToolCall
from rungwise.adapters.provider.server import render
from rungwise.testing import EmbeddedProvider, ReceivedRequest, Script, ScriptedReply
from support.waiting import until

MESSAGES = [{"role": "user", "content": "Hi there"}]
WHOLE = {"model": "m", "messages": MESSAGES}
STREAM = {**WHOLE, "stream": True}
WITH_USAGE = {**STREAM, "stream_options": {"include_usage": True}}
TEXT = "Grüße von der Leiter 🪜, Stufe für Stufe."
CALLS = (ToolCall("a", "look", '{"q": "Straße 🪜"}'), ToolCall("b", "note", '{"text": "a cut'))


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=2, trust_env=False) as client:
        yield client


def serve(*replies: ScriptedReply) -> EmbeddedProvider:
    return EmbeddedProvider(Script(replies))


def place(provider: EmbeddedProvider) -> str:
    return f"{provider.base_url}/chat/completions"


def post(
    client: httpx.Client, provider: EmbeddedProvider, body: dict[str, Any] = WHOLE
) -> httpx.Response:
    return client.post(place(provider), json=body)


def chunks(body: str) -> list[dict[str, Any]]:
    events = [event.removeprefix("data: ") for event in body.split("\n\n") if event]
    return [json.loads(event) for event in events if event != "[DONE]"]


def assembled(body: str) -> dict[str, Any]:
    """Put a stream together as a client would."""
    message: dict[str, Any] = {"calls": {}}
    choices = [choice for chunk in chunks(body) for choice in chunk["choices"]]
    for choice in choices:
        message["finish"] = choice["finish_reason"]
        delta = choice["delta"]
        for part in delta.pop("tool_calls", ()):
            add_piece(message["calls"], part)
        for name, value in delta.items():
            text = value[0]["text"] if name == "reasoning_details" else value
            message[name] = message.get(name, "") + text
    return message


def add_piece(calls: dict[int, dict[str, str]], part: dict[str, Any]) -> None:
    call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
    call["id"] += part.get("id", "")
    for key, piece in part["function"].items():
        call[key] += piece


def test_a_whole_reply(client: httpx.Client) -> None:
    with serve(ScriptedReply(text=TEXT)) as provider:
        response = post(client, provider)
        assert provider.base_url.startswith("http://127.0.0.1:")
        assert provider.base_url.endswith("/v1")
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body["object"] == "chat.completion"
    assert body["model"] == "m"
    assert body["id"] == "chatcmpl-00000001"
    message = {"role": "assistant", "content": TEXT, "refusal": None}
    assert body["choices"] == [
        {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 10,
        "total_tokens": 12,
    }
    (request,) = provider.requests
    assert request.path == "/v1/chat/completions"
    assert request.body["messages"] == MESSAGES
    assert not request.aborted
    assert request.headers["content-type"] == "application/json"
    assert "Hi there" not in repr(request)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_a_streamed_reply(client: httpx.Client, field: Any) -> None:
    reply = ScriptedReply(
        text=TEXT,
        reasoning="Let me see.",
        reasoning_field=field,
        tool_calls=CALLS,
        model="x",
        chunk_size=5,
    )
    with serve(reply) as provider:
        response = post(client, provider, WITH_USAGE)
    assert response.headers["content-type"] == "text/event-stream"
    assert response.text.endswith("data: [DONE]\n\n")
    parts = chunks(response.text)
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert parts[-1]["choices"] == []
    assert parts[-1]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3}
    assert all(part["model"] == "x" and part["usage"] is None for part in parts[:-1])
    message = assembled(response.text)
    assert message["content"] == TEXT
    assert message[field] == "Let me see."
    assert message["finish"] == "tool_calls"
    assert [ToolCall(**message["calls"][index]) for index in range(2)] == list(CALLS)


def test_the_other_parts_of_a_message(client: httpx.Client) -> None:
    reply = ScriptedReply(
        reasoning="Hm.",
        reasoning_field="reasoning_details",
        refusal="I cannot do that.",
        usage={},
        finish="",
    )
    with serve(reply) as provider:
        whole = post(client, provider).json()
        stream = post(client, provider, WITH_USAGE).text
    message = whole["choices"][0]["message"]
    assert message["content"] is None
    assert message["refusal"] == "I cannot do that."
    assert message["reasoning_details"][0]["text"] == "Hm."
    assert whole["choices"][0]["finish_reason"] is None
    assert "usage" not in whole
    assert "usage" not in stream
    streamed = assembled(stream)
    assert streamed["reasoning_details"] == "Hm."
    assert streamed["refusal"] == message["refusal"]
    assert streamed["finish"] is None


def test_a_whole_message_in_the_last_chunk(client: httpx.Client) -> None:
    same = ScriptedReply(text="a", final_message=True)
    other = ScriptedReply(text="a", final_message="ab")
    with serve(same, other) as provider:
        for text in ("a", "ab"):
            *_, last = chunks(post(client, provider, STREAM).text)
            assert last["choices"][0]["message"]["content"] == text


def test_an_error_event_takes_the_place_of_the_finish(client: httpx.Client) -> None:
    half = ScriptedReply(text="Half", error_event={"code": "overloaded"}, done=False)
    with serve(half) as provider:
        stream = post(client, provider, WITH_USAGE)
        whole = post(client, provider)
    assert stream.status_code == whole.status_code == 200
    *_, text, error = chunks(stream.text)
    assert text["choices"][0]["delta"] == {"content": "Half"}
    assert error == whole.json()
    assert error["error"]["code"] == "overloaded"
    assert "[DONE]" not in stream.text


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (ScriptedReply(status=429), ("requests", "rate_limit_exceeded", "Rate limit reached.")),
        (ScriptedReply(status=502), ("server_error", None, "Bad Gateway.")),
        (ScriptedReply(status=999), ("server_error", None, "Unknown status.")),
        (
            ScriptedReply(status=429, error={"message": "Out of money"}),
            ("requests", None, "Out of money"),
        ),
        (ScriptedReply(error={"type": "odd", "code": 7}), ("odd", 7, "OK.")),
    ],
)
def test_an_error_status(
    client: httpx.Client, reply: ScriptedReply, expected: tuple[str, str | None, str]
) -> None:
    with serve(reply) as provider:
        response = post(client, provider, STREAM)
    error = response.json()["error"]
    assert response.status_code == reply.status
    assert (error["type"], error["code"], error["message"]) == expected


def test_a_body_and_headers_of_the_scripts_own(client: httpx.Client) -> None:
    headers = {"Retry-After": "30", "Date": "then"}
    html = ScriptedReply(body="<html>Bad gateway</html>", status=502, headers=headers)
    half = ScriptedReply(body='{"choices": [', headers={"content-type": "text/odd"})
    events = ScriptedReply(body="data: {}\n\n")
    replies = (html, half, events, ScriptedReply(body=""))
    with serve(*replies) as provider:
        responses = [post(client, provider, STREAM) for _ in replies]
    types = [response.headers["content-type"] for response in responses]
    assert types == ["text/html", "text/odd", "text/event-stream", "text/plain"]
    for reply, response in zip(replies, responses, strict=True):
        assert response.text == reply.body
    assert responses[0].headers["retry-after"] == "30"
    assert responses[0].headers["date"] == "then"


@pytest.mark.parametrize("body", [STREAM, WHOLE])
def test_a_cut_comes_after_exactly_so_many_bytes(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    reply = ScriptedReply(text=TEXT, cut_after=250)
    received: list[bytes] = []
    with serve(reply) as provider:
        with (
            client.stream("POST", place(provider), json=body) as response,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            received.extend(response.iter_raw())
        assert provider.wait_disconnected()
        assert provider.aborted == 0
    assert b"".join(received) == render(reply, body).body[:250]


def test_silence_after_a_part_of_the_body(client: httpx.Client) -> None:
    with serve(ScriptedReply(text=TEXT, hang=True, cut_after=100)) as provider:
        with client.stream("POST", place(provider), json=STREAM) as response:
            # which closes the connection when nobody holds it any more
            pieces = response.iter_raw()
            assert len(next(pieces)) == 100
            assert provider.open_connections == 1
        until(lambda: provider.aborted == 1)
        assert provider.wait_disconnected()


def test_write_sizes_cut_inside_a_character(client: httpx.Client) -> None:
    with (
        serve(ScriptedReply(text=TEXT, write_sizes=(1, 7, 2))) as provider,
        client.stream("POST", place(provider), json=STREAM) as response,
    ):
        pieces = list(response.iter_raw())
    assert [len(piece) for piece in pieces[:6]] == [1, 7, 2, 1, 7, 2]
    with pytest.raises(UnicodeDecodeError):
        [piece.decode() for piece in pieces]
    assert assembled(b"".join(pieces).decode())["content"] == TEXT


def test_close_releases_a_request_that_hangs(client: httpx.Client) -> None:
    provider = serve(ScriptedReply(hang=True))
    errors: list[Exception] = []

    def ask() -> None:
        try:
            post(client, provider)
        except httpx.TransportError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: len(provider.requests) == 3)
    start = time.monotonic()
    provider.close()
    assert time.monotonic() - start < 0.8
    for thread in threads:
        thread.join(1)
    assert len(errors) == 3
    assert provider.open_connections == 0
    assert provider.aborted == 0
    provider.close()


@pytest.mark.parametrize("reply", [ScriptedReply(hang=True), ScriptedReply(delay=60)])
def test_a_client_that_leaves_before_the_reply_is_noticed(
    client: httpx.Client, reply: ScriptedReply
) -> None:
    with serve(reply) as provider:
        timeout = httpx.Timeout(2, read=0.05)
        with pytest.raises(httpx.ReadTimeout):
            client.post(place(provider), json=STREAM, timeout=timeout)
        until(lambda: provider.aborted == 1)
        assert provider.wait_disconnected()
        assert provider.requests[0].aborted


def test_a_client_that_leaves_a_stream_is_noticed(client: httpx.Client) -> None:
    with serve(ScriptedReply(text=TEXT, chunk_delay=60)) as provider:
        with client.stream("POST", place(provider), json=STREAM) as response:
            next(response.iter_raw())
        until(lambda: provider.aborted == 1)
        assert provider.wait_disconnected()


def test_delays(client: httpx.Client) -> None:
    with serve(
        ScriptedReply(
            text="abcd",
            chunk_size=1,
            delay=0.05,
            chunk_delay=0.01,
            lasts=0.1,
        )
    ) as provider:
        start = time.monotonic()
        post(client, provider, STREAM)
        assert 0.05 + 6 * 0.01 + 0.1 <= time.monotonic() - start < 1


def test_a_connection_is_used_again_after_a_whole_reply(client: httpx.Client) -> None:
    replies = (ScriptedReply(text="a"), ScriptedReply(status=500), ScriptedReply(text="b"))
    with serve(*replies) as provider:
        ports = set()
        for body in (STREAM, WHOLE, STREAM, WHOLE):
            response = post(client, provider, body)
            ports.add(response.extensions["network_stream"].get_extra_info("client_addr"))
        client.get(f"{provider.base_url}/nothing")
        assert len(ports) == 1
        assert provider.open_connections == 1
        client.close()
        assert provider.wait_disconnected()
        assert provider.aborted == 0


def test_other_addresses(client: httpx.Client) -> None:
    replies = [ScriptedReply(text="a", model=model) for model in "xyx"]
    with serve(*replies) as provider:
        base = provider.base_url
        models = client.get(f"{base}/models").json()
        assert [model["id"] for model in models["data"]] == ["x", "y"]
        other = base.replace("/v1", "/openai/deployments/d/chat/completions?api-version=1")
        assert client.post(other, json=STREAM).status_code == 200
        for method, path in [
            ("GET", "/nothing"),
            ("POST", "/models"),
            ("GET", "/chat/completions"),
            ("PUT", "/models"),
        ]:
            response = client.request(method, base + path, json={})
            assert response.status_code == 404
            assert response.json()["error"]["message"] == f"Invalid URL ({method} /v1{path})"
        assert len(provider.requests) == 1


@pytest.mark.parametrize("content", [b"{", b"", b"[]", b"\xff"])
def test_a_request_that_is_no_json_object(client: httpx.Client, content: bytes) -> None:
    with serve(ScriptedReply(text="a")) as provider:
        response = client.post(f"{provider.base_url}/chat/completions", content=content)
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert provider.requests == []
        assert post(client, provider).json()["choices"][0]["message"]["content"] == "a"


def test_a_request_without_length_is_refused(client: httpx.Client) -> None:
    with serve(ScriptedReply()) as provider:
        response = client.post(f"{provider.base_url}/chat/completions", content=iter([b"{}"]))
    assert response.status_code == 411


def answer_to(request: bytes) -> bytes:
    """Return what a server writes until it closes the connection on which this came."""
    with serve(ScriptedReply(text="a")) as provider:
        host, port = provider.base_url.removeprefix("http://").removesuffix("/v1").split(":")
        with socket.create_connection((host, int(port)), timeout=1) as connection:
            connection.sendall(b"POST /v1/chat/completions " + request)
            return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.parametrize("length", ["1000000001", "9" * 13, "9" * 30, "9" * 5000])
def test_a_request_of_a_length_beyond_any_is_refused(length: str) -> None:
    received = answer_to(f"HTTP/1.1\r\ncontent-length: {length}\r\n\r\n".encode())
    assert received.startswith(b"HTTP/1.1 413 ")


def test_an_old_client_gets_a_stream_with_a_length() -> None:
    received = answer_to(b'HTTP/1.0\r\ncontent-length: 16\r\n\r\n{"stream": true}')
    assert b"content-length" in received
    assert received.endswith(b"\n\ndata: [DONE]\n\n")


def test_a_function_as_script(client: httpx.Client) -> None:
    def echo(request: ReceivedRequest) -> ScriptedReply:
        if "bad" in request.body:
            raise LookupError("no reply")
        if "none" in request.body:
            return None  # type: ignore[return-value]
        return ScriptedReply(text=request.body["messages"][0]["content"])

    with EmbeddedProvider(echo) as provider:
        assert post(client, provider).json()["choices"][0]["message"]["content"] == "Hi there"
        response = post(client, provider, {"bad": 1})
        assert response.status_code == 500
        assert response.json()["error"]["message"] == "The script raised LookupError: no reply"
        response = post(client, provider, {"none": 1})
        assert response.status_code == 500
        assert "it must return a ScriptedReply, not NoneType" in response.json()["error"]["message"]
        assert client.get(f"{provider.base_url}/models").json()["data"][0]["id"] == "embedded"


def test_requests_at_the_same_time_take_one_reply_each(client: httpx.Client) -> None:
    replies = [ScriptedReply(text=str(number), delay=0.02) for number in range(16)]
    texts: list[str] = []
    with serve(*replies) as provider:

        def ask() -> None:
            texts.append(post(client, provider).json()["choices"][0]["message"]["content"])

        threads = [threading.Thread(target=ask) for _ in replies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times = [request.at for request in provider.requests]
        assert times == sorted(times)
    assert sorted(texts, key=int) == [str(number) for number in range(16)]


@settings(max_examples=40)
@given(st.text(), st.text(), st.integers(1, 20), st.lists(st.integers(1, 50), max_size=3))
def test_a_stream_holds_the_script_however_it_is_cut(
    text: str,
    arguments: str,
    size: int,
    writes: list[int],
) -> None:
    call = ToolCall("1", "look", arguments)
    reply = ScriptedReply(
        text=text,
        tool_calls=[call],
        chunk_size=size,
        write_sizes=writes,
    )
    plain = ScriptedReply(text=text, tool_calls=[call], chunk_size=size)
    body = render(reply, STREAM).body
    assert body == render(plain, STREAM).body
    message = assembled(body.decode())
    assert message["content"] == text
    assert message["calls"][0]["arguments"] == arguments
