"""JSON as providers send and accept it.

What they send may be broken: halves of surrogate pairs, `NaN`, integers of a thousand digits, and
bodies that are small as bytes and too large as objects. What they accept is strict. orjson reads
and writes nearly all of it; what it refuses goes a slower way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import orjson

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.text.contents import exact, is_long, whole, without_halves

LIGHT: Final = 2**20
"""The size in bytes up to which JSON cannot become too many objects."""

_HEAVIEST: Final = 128 * 2**20
"""The most bytes of memory that the objects of a body may take."""
_DENSEST: Final = 16
"""The same for each byte of a large body."""
# Bytes of memory that CPython 3.11 takes at most for what one of these begins: an object with a
# member or two, an array, one more value with its place. Measured with orjson 3.13 and with json; a
# reply full of log probabilities comes to 14 for each of its bytes, `{},` without end to 110.
_WEIGHTS: Final[Mapping[bytes, int]] = {b"{": 240, b"[": 90, b",": 90}
# A string, or what is left of one, and whole strings with what is between them; possessive, so that
# no text makes the search go back.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
_WHOLE_STRINGS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_WINDOW: Final = 2**16
"""Bytes that are looked at in one go."""
_BOM: Final = b"\xef\xbb\xbf"
_BEGINNING: Final = re.compile(rb"[\xef\xbb\xbf\s]*(data|event|id|retry|error|):")
_FRAME: Final = re.compile(rb"^\s{0,8}(?:(?:data|error):|(?:event|id|retry|):[^\n]*)", re.MULTILINE)


def is_heavy(data: bytes) -> bool:
    """Tell whether JSON would become too many objects.

    That is more than 128 MiB, and more than 16 times its bytes.
    """
    if len(data) <= LIGHT:
        return False
    most = max(_HEAVIEST, _DENSEST * len(data))
    return _weight(data) > most and _weight_outside_strings(data, most) > most


def weight_of(data: bytes) -> int:
    """Return the most bytes of memory that the values of some JSON can take up.

    It must have no escapes, as what orjson writes has none.
    """
    return len(data) + _weight(data)


def _weight(data: bytes) -> int:
    return sum(data.count(mark) * weight for mark, weight in _WEIGHTS.items())


def _weight_outside_strings(data: bytes, most: int) -> int:
    """Weigh what is outside of strings, until that is more than `most`.

    It looks at a window at a time: a copy in small pieces would outweigh the objects.
    """
    weight = place = 0
    while place < len(data) and weight <= most:
        match = _WHOLE_STRINGS.match(data, place, place + _WINDOW)
        if match and match[0]:
            weight += _weight(_STRING.sub(b"", match[0]))
        else:
            match = _STRING.match(data, place)  # a string longer than a window
        assert match is not None
        place = match.end()
    return weight


def load(data: bytes) -> Any:
    """Return the JSON value in `data`; `NaN`, long integers and broken UTF-8 are accepted.

    Halves of surrogate pairs stay in strings, for `mended`: the other half may be in the next piece
    of a text.
    """
    if is_heavy(data):
        raise ValueError("too many values")
    try:
        return exact(orjson.loads(data), data)
    except orjson.JSONDecodeError:
        text = _decoded(data)
    try:
        return json.loads(text, parse_int=whole)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _decoded(data: bytes) -> str:
    """Return UTF-8 as text; halves of surrogate pairs may be written as characters of their own."""
    try:
        return data.decode("utf-8-sig", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8-sig", "replace")


def is_event_stream(body: bytes) -> bool:
    """Tell whether a body begins like an event stream, possibly with a comment or an error.

    No JSON begins so.
    """
    return _BEGINNING.match(body) is not None


def unframed(body: bytes) -> bytes:
    """Return the error in a body that a proxy framed as an event.

    Any other body, and one larger than an error can be, stays unchanged.
    """
    if len(body) > _WINDOW or not is_event_stream(body):
        return body
    lines = body.lstrip(_BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return _FRAME.sub(b"", lines).strip().removesuffix(b"[DONE]")


def framed(lines: bytes) -> bytes:
    """Return bare JSON lines as the events that they stand for; nothing if they are none."""
    events = []
    for line in lines.lstrip(_BOM).splitlines():
        if line.strip():
            if not line.lstrip().startswith(b"{"):
                return b""
            events.append(b"data: %s\n\n" % line)
    return b"".join(events) if len(events) > 1 else b""


def object_in(data: bytes) -> dict[str, Any]:
    """Return the JSON object in `data`, or an empty one for anything else."""
    try:
        value = load(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def object_of(arguments: str) -> dict[str, Any]:
    """Return the arguments of a tool as an object.

    Anything else, or what is not strict JSON, is wrapped in one.
    """
    if not arguments.strip():
        return {}
    data = arguments.encode("utf-8", "replace")
    try:
        value = load(data)
        if not _is_finite(value):
            value = arguments
    except (ValueError, RecursionError):
        value = arguments
    if not isinstance(value, dict):
        return {"input": value}
    return value


_NO_INPUT: Final[tuple[Any, ...]] = (None, "", "{}", {})
"""Arguments that may stand elsewhere."""


def input_in(call: Mapping[str, Any], name: str) -> Any:
    """Return the arguments of a call, or None.

    They stand under their name here or in other protocols, in the call or in its `function`
    [acon96/home-llm#349]; what is empty in one place may stand in another.
    """
    found = call.get(name)
    if found not in _NO_INPUT:  # as with nearly every piece
        return found
    for place in (call, call.get("function")):
        if not isinstance(place, Mapping):
            continue
        for each in (name, "arguments", "input", "args", "parameters"):
            value = place.get(each)
            if value not in _NO_INPUT:
                return value
            found = value if found is None else found
    return found


def arguments_of(input: Any) -> str:
    """Return the arguments of a call in a reply as JSON text; "" if there are none."""
    if isinstance(input, str):
        return input
    return "" if input is None else as_json(input)


def as_json(value: object) -> str:
    """Return `value` as JSON text, or `null` if it has no JSON form.

    A number that JSON lacks is written by its name (`NaN`): a strict reader notices that, which
    `null` would hide.
    """
    try:
        text = orjson.dumps(value, default=_plain)
        if b"null" not in text or _is_finite(value):
            return text.decode()
    except (TypeError, RecursionError):
        pass  # lone surrogates, most likely, or long integers
    try:
        return orjson.dumps(_written(value, names=True), default=_plain).decode()
    except (TypeError, ValueError, RecursionError):
        return "null"


def _is_finite(value: Any) -> bool:
    """Tell whether all numbers in a value have a form in JSON."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return True


def _written(value: Any, *, names: bool = False) -> Any:
    """Return JSON data that orjson can write.

    With `names`, numbers that JSON lacks are written all the same, by their names.
    """
    if isinstance(value, str):
        return without_halves(value)
    if isinstance(value, Mapping):
        return {mended(key): _written(part, names=names) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_written(part, names=names) for part in value]
    if is_long(value) or (names and isinstance(value, float) and not math.isfinite(value)):
        return orjson.Fragment(json.dumps(value))
    return value


def mended(value: Any) -> Any:
    """Return JSON data with the lone surrogates of its strings repaired.

    Two halves that belong together are joined, others replaced.
    """
    if isinstance(value, str):
        return without_halves(value)
    if isinstance(value, Mapping):
        return {mended(key): mended(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [mended(part) for part in value]
    return value


def dump(value: Any) -> bytes:
    """Return JSON for a request; halves of surrogate pairs, which no server takes, are replaced."""
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        pass  # lone surrogates, most likely, or long integers, rare enough to look for only now
    try:
        return orjson.dumps(_written(value), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        # The text of orjson and of Python names a type or a limit, never a value.
        raise ConfigurationError(f"the request has no form in JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, float):  # one of a class of its own, such as numpy's
        return float(value)
    raise TypeError


def digest_of(value: object) -> str:
    """Return the SHA-256 of JSON data, in hexadecimal."""
    return sha256(as_json(value).encode()).hexdigest()
