"""The prompts of a batch: one JSON object a line, read as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
from attrs import frozen

from rungwise.adapters.options import request_of
from rungwise.fsm.call.conversation.options import REQUEST_OPTIONS
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import did_you_mean, short

LONGEST: Final = 32_000_000
"""The most bytes of one line."""

LONGEST_ID: Final = 100
"""Characters of the id of a line."""

_MEMBERS: Final = ("id", "prompt", "messages", "system", *sorted(REQUEST_OPTIONS))


@frozen
class PromptLine:
    """A line of the file.

    Arguments:
        number: counted from 1.
        id: its own, or its number.
        request: what it asks; None if it cannot be read.
        fault: what is wrong with it.
    """

    number: int
    id: str
    request: Request | None = None
    fault: str = ""


def read_lines(path: Path) -> Iterator[PromptLine]:
    """Yield the lines of a file that are not blank, one by one; what cannot be read is a fault of its line.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        number = 0
        while data := file.readline(LONGEST + 1):
            number += 1
            if len(data) > LONGEST and not data.endswith(b"\n"):
                while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                    pass
                yield PromptLine(number, str(number), fault=f"it is longer than {LONGEST // 1_000_000} MB")
            elif data.strip():
                yield _line(number, data)


def _line(number: int, data: bytes) -> PromptLine:
    id = str(number)
    try:
        plain = orjson.loads(data)
        if not isinstance(plain, Mapping):
            raise ConfigurationError(f"it must be a JSON object, not {short(plain)}")
        id = _id(plain.get("id", number))
        return PromptLine(number, id, _request(plain))
    except orjson.JSONDecodeError as error:
        return PromptLine(number, id, fault=f"it is not JSON: {error}")
    except ConfigurationError as error:
        return PromptLine(number, id, fault=str(error))


def _id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not 0 < len(str(value).strip()) <= LONGEST_ID:
        raise ConfigurationError(f"id must be a text of 1 to {LONGEST_ID} characters, or a number, not {short(value)}")
    return str(value)


def _request(plain: Mapping[str, Any]) -> Request:
    for name in plain:
        if name not in _MEMBERS:
            raise ConfigurationError(f"{short(name)} is unknown; {did_you_mean(name, _MEMBERS, 'see the docs')}")
    if ("prompt" in plain) is ("messages" in plain):
        raise ConfigurationError("it must have either a prompt or messages")
    messages = plain.get("messages")
    if messages is None:
        prompt = plain["prompt"]
        if not isinstance(prompt, str) or not prompt.strip():
            raise ConfigurationError("prompt must be a text that says something")
        messages = [{"role": "user", "content": prompt}]
    if not isinstance(messages, list):
        raise ConfigurationError(f"messages must be a list of messages, not {short(messages)}")
    if isinstance(system := plain.get("system"), str):
        messages = [{"role": "system", "content": system}, *messages]
    options = {name: value for name, value in plain.items() if name in REQUEST_OPTIONS}
    return request_of(messages, options, frozenset())
