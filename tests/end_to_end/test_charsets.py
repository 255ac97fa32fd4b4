"""Text in another charset than UTF-8, if the header names it; and headers that name a wrong one."""

import json
from typing import Any

import pytest

from rungwise import Client, Policy
from support.raw_server import Peer, RawServer, chunk
from support.ways import ALL, ONCE, Asked, ask, backend, client_for

EVERY_WAY = pytest.mark.parametrize(
    "way", [ALL[0], *[pytest.param(way, marks=pytest.mark.full) for way in ALL[1:]]]
)
TEXTS = {
    "iso-8859-1": "Réeds in Malmö, naïve.",
    "ISO-8859-15": "It costs 5 €, in Malmö.",
    "windows-1252": "“Reeds” in Malmö cost 5 €.",
    "windows-1251": "Цапли гнездятся в тростнике.",
    "koi8-r": "Цапли гнездятся в тростнике.",
    "Shift_JIS": "サギは葦に巣を作る。",
    "euc-kr": "왜가리는 갈대에 둥지를 튼다.",
    "gb18030": "鹭在芦苇中筑巢。",
    "big5": "鷺在蘆葦中築巢。",
    "utf-16": "Réeds in Malmö, 鷺.",
    "utf-16-le": "Réeds in Malmö, 鷺.",
    "utf-32": "Réeds in Malmö, 鷺.",
}


NAMED = ["iso-8859-1", '"windows-1252"', "big5", "utf-8", "nonsense", "idna"]


def body_of(text: str, *, streams: bool) -> str:
    """Return a completion that holds a text, unescaped."""

    def written(choice: dict[str, Any]) -> str:
        value = {"id": "1", "model": "m", "choices": [{"index": 0, **choice}]}
        return json.dumps(value, ensure_ascii=False)

    if not streams:
        return written({"message": {"role": "assistant", "content": text}, "finish_reason": "stop"})
    pieces = [{"delta": {"content": letter}, "finish_reason": None} for letter in text]
    events = map(written, [*pieces, {"delta": {}, "finish_reason": "stop"}])
    return "".join(f"data: {each}\n\n" for each in [*events, "[DONE]"])


def asked(
    way: str,
    body: bytes,
    named: str,
    *,
    streams: bool,
    status: bytes = b"200 OK",
    pieces_of: int = 7,
) -> Asked:
    """Make a call to a server that answers with a body, a few bytes at a time."""
    kind = b"text/event-stream" if streams else b"application/json"
    head = b"HTTP/1.1 %b\r\ncontent-type: %b; charset=%b\r\ntransfer-encoding: chunked\r\n\r\n" % (
        status,
        kind,
        named.encode(),
    )
    pieces = [body[start : start + pieces_of] for start in range(0, len(body), pieces_of)]

    def play(peer: Peer) -> None:
        peer.request()
        peer.send(head + b"".join(map(chunk, pieces)) + b"0\r\n\r\n")

    with RawServer(play) as server:
        client: Client = client_for(way, backend(server.base_url), policy=Policy(limits=ONCE))
        return ask(way, client, streams=streams)


@EVERY_WAY
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("charset", TEXTS)
def test_the_charset_that_the_header_names_is_read(way: str, streams: bool, charset: str) -> None:
    text = TEXTS[charset]
    got = asked(way, body_of(text, streams=streams).encode(charset), charset, streams=streams)
    assert (got.outcome, got.text) == ("done", text)


@EVERY_WAY
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    "named", ["iso-8859-1", '"windows-1252"', "big5", "utf-8", "nonsense", "idna"]
)
@pytest.mark.parametrize("pieces_of", [1, 7, 100_000])
def test_text_in_utf_8_is_read_whatever_the_header_names(
    way: str, streams: bool, named: str, pieces_of: int
) -> None:
    text = "“Réeds” in Malmö cost 5 €. 鷺 🪶"
    body = body_of(text, streams=streams).encode()
    got = asked(way, body, named, streams=streams, pieces_of=pieces_of)
    assert (got.outcome, got.text) == ("done", text)


@EVERY_WAY
def test_an_error_is_read_in_its_charset(way: str) -> None:
    body = json.dumps({"error": {"message": "Clé refusée"}}, ensure_ascii=False)
    got = asked(way, body.encode("latin-1"), "latin-1", streams=False, status=b"401 No")
    [failure] = got.failures
    assert failure.message == "Clé refusée"
