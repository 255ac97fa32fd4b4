"""Write the bytes of a case to a file: what was sent to the provider, and what came back.

Keys are left out: no header with one is written, and none of an address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from rungwise.adapters.exam.examining import Exam, Examined
from rungwise.adapters.exam.stage import SeenRequest
from rungwise.adapters.provider.server import render

SECRET: Final = re.compile(r"auth|key|token|secret|cookie|signature|credential", re.I)
KEY_IN_ADDRESS: Final = re.compile(r"([?&]key=)[^&]*")
REMOVED: Final = "(removed)"
MOST_BYTES: Final = 1_000_000
"""Bytes of one reply that are written."""


def write_journal(exam: Exam, folder: Path) -> None:
    """Write a file for each case into a folder, which is made where it is missing.

    Raises:
        OSError: one cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, outcome in enumerate(exam.outcomes, 1):
        file = folder / f"{number:02d}-{outcome.case.name}.txt"
        file.write_bytes(b"\n".join(_lines(outcome)))


def _lines(outcome: Examined) -> list[bytes]:
    ended = outcome.seen.ended
    heads = [f"{outcome.case.title}: {outcome.mark.grade}", *outcome.mark.why]
    heads.append(f"exit code {ended.code}, {ended.seconds:.3f} s")
    lines = [head.encode() for head in heads]
    for asked in outcome.seen.asked:
        lines += _exchange(asked)
    lines += [b"--- stdout", ended.output.encode(), b"--- stderr", ended.errors.encode()]
    return lines


def _exchange(asked: SeenRequest) -> list[bytes]:
    wanted = asked.wanted
    path = KEY_IN_ADDRESS.sub(rf"\1{REMOVED}", wanted.path)
    lines = [f">>> at {asked.at:.3f} s: POST {path}".encode()]
    lines += _headers(asked.headers)
    lines += [b"", orjson.dumps(wanted.body), b""]
    reply = asked.reply
    lines.append(f"<<< {reply.status}".encode())
    lines += _headers(reply.headers)
    if reply.hang and reply.cut_after is None:
        return [*lines, b"(no byte)", b""]
    body = render(reply, wanted.body, wanted.number, wanted.path).body[: reply.cut_after]
    ending = b""
    if reply.cut_after is not None:
        ending = b"(then silence)" if reply.hang else b"(then the connection closes)"
    return [*lines, b"", body[:MOST_BYTES], ending, b""]


def _headers(headers: Mapping[str, str]) -> list[bytes]:
    lines = []
    for name, value in headers.items():
        shown = REMOVED if SECRET.search(name) else value
        lines.append(f"{name}: {shown}".encode())
    return lines
