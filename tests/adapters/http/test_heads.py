"""The heads of requests and responses: nothing is smuggled into one, and headers are found in any
case.
"""

import re

import h11
import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rungwise.adapters.http.connection import read_headers, write_head

HEADERS = {
    "host": "example.org",
    "authorization": "Bearer a b\tc",
    "x-empty": "",
    "content-length": "2",
}


def test_a_request_is_written_as_it_is() -> None:
    assert write_head("POST", b"/v1/x?y=z", HEADERS) == (
        b"POST /v1/x?y=z HTTP/1.1\r\nhost: example.org\r\nauthorization: Bearer a "
        b"b\tc\r\nx-empty: \r\n"
        b"content-length: 2\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"x": "a\r\nevil: b"}, "Illegal header value of 'x'"),
        ({"x": "a\nevil: b"}, "Illegal header value of 'x'"),
        ({"x": "a\rb"}, "Illegal header value of 'x'"),
        ({"x": "a\x00b"}, "Illegal header value of 'x'"),
        ({"x": "secret "}, "Illegal header value of 'x'"),
        ({"x": " secret"}, "Illegal header value of 'x'"),
        ({"x": "a\x85b"}, "Illegal header value of 'x'"),
        (
            {"transfer-encoding": "chunked"},
            "The transfer-encoding of a request is the transport's to choose",
        ),
        ({"x: y\r\nz": "a"}, "Illegal header name"),
        ({"x y": "a"}, "Illegal header name"),
        ({"": "a"}, "Illegal header name"),
    ],
)
def test_what_has_no_place_in_a_head_is_refused_and_not_shown(
    headers: dict[str, str], told: str
) -> None:
    with pytest.raises(httpx.LocalProtocolError, match=f"^{re.escape(told)}$"):
        write_head("POST", b"/", {**HEADERS, **headers})


@pytest.mark.parametrize(
    ("method", "target"), [("PO ST", b"/"), ("GET\r\nx: y", b"/"), ("GET", b"/ x"), ("GET", b"")]
)
def test_a_method_and_a_target_are_looked_at_too(method: str, target: bytes) -> None:
    with pytest.raises(httpx.LocalProtocolError):
        write_head(method, target, HEADERS)


@given(
    st.dictionaries(
        st.text(max_size=6), st.text(st.characters(max_codepoint=0xFF), max_size=12), max_size=4
    )
)
@example({"x": "a\r\ny: b"})
@example({"x: y": "b"})
@example({"x": "é"})
def test_whatever_is_written_is_read_again_as_that_and_nothing_else(
    headers: dict[str, str],
) -> None:
    said = {
        **{name.lower(): value for name, value in headers.items()},
        "host": "h",
        "content-length": "0",
    }
    try:
        head = write_head("POST", b"/", said)
    except httpx.LocalProtocolError:
        return
    server = h11.Connection(h11.SERVER)
    server.receive_data(head)
    read = server.next_event()
    assert isinstance(read, h11.Request)
    assert {name.decode(): value.decode() for name, value in read.headers} == said
    assert server.trailing_data == (b"", False)


def test_headers_are_found_in_any_case_and_joined_where_they_come_again() -> None:
    headers = read_headers([(b"X-One", b"1"), (b"Set-Cookie", b"a"), (b"set-cookie", b"b")])
    assert headers["X-ONE"] == "1"
    assert headers.get("x-One") == "1"
    assert "SET-cookie" in headers
    assert dict(headers) == {"x-one": "1", "set-cookie": "a, b"}
    assert headers.get("none") is None
    assert headers.get("none", "x") == "x"
    assert "none" not in headers
    assert 5 not in headers
    with pytest.raises(KeyError, match="None"):
        headers["None"]


@pytest.mark.parametrize(
    ("raw", "text"), [("é".encode(), "é"), ("é".encode("latin-1"), "é"), (b"e", "e")]
)
def test_headers_are_in_utf_8_or_else_in_latin_1_as_httpx_reads_them(raw: bytes, text: str) -> None:
    given = [(b"x", raw), (b"y", b"1"), (b"x", b"2")]
    assert dict(read_headers(given)) == dict(httpx.Headers(given)) == {"x": f"{text}, 2", "y": "1"}
