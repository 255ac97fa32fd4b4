"""The heads of HTTP/1.1: that of a request as it is written, and the headers of a response as they are looked up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

import httpx

_TOKEN: Final = r"[-!#$%&'*+.^_`|~0-9A-Za-z]++"
_SEEN: Final = r"[^\x00\s\x80-\U0010ffff]++"
_VALUE: Final = rf"(?:{_SEEN}(?:[ \t]++{_SEEN})*+)?+"
_HEAD: Final = re.compile(rf"{_TOKEN} [!-~]++ HTTP/1\.1\r\n(?:{_TOKEN}: {_VALUE}\r\n)++")
_NAMES: Final = re.compile(_TOKEN)


class Headers(dict[str, str]):
    """Hold the headers of a response by their names in lower case, and find them by names in any."""

    def __missing__(self, name: str) -> str:
        found: str | None = dict.get(self, name.lower())
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Return a header."""
        return dict.get(self, name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and dict.__contains__(self, name.lower())


def read_headers(given: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a response, all of them in UTF-8 or else in Latin-1; what comes again is joined."""
    pairs = [*given]
    try:
        texts = [(name.decode().lower(), value.decode()) for name, value in pairs]
    except UnicodeDecodeError:
        texts = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs]
    headers = Headers(texts)
    if len(headers) < len(texts):
        said: dict[str, list[str]] = {}
        for name, value in texts:
            said.setdefault(name, []).append(value)
        headers = Headers({name: ", ".join(values) for name, values in said.items()})
    return headers


def write_head(method: str, target: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the head of a request.

    Arguments:
        method: its method.
        target: the path and the query.
        headers: what it says, the length of its body included.

    Raises:
        httpx.LocalProtocolError: something in it has no place in a head, such as the end of a line.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = f"{method} {target.decode('latin-1')} HTTP/1.1\r\n{lines}"
    # A line that somebody put into another one is well-formed by itself: only their number tells.
    # So is one whose name ends where a colon stands within the name that was given.
    if not _HEAD.fullmatch(head) or head.count("\n") != len(headers) + 1 or not _NAMES.fullmatch("".join(headers)):
        _refuse(headers)
    if "transfer-encoding" in headers:
        raise httpx.LocalProtocolError("The transfer-encoding of a request is the transport's to choose")
    return f"{head}\r\n".encode("ascii")


def _refuse(headers: Mapping[str, str]) -> NoReturn:
    """Name what is at fault, and show no value."""
    for name, value in headers.items():
        if not re.fullmatch(_TOKEN, name):
            raise httpx.LocalProtocolError("Illegal header name")
        if not re.fullmatch(_VALUE, value):
            raise httpx.LocalProtocolError(f"Illegal header value of {name!r}")
    raise httpx.LocalProtocolError("Illegal method or target")
