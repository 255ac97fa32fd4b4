"""How long a response asks us to wait: what the first usable one of its places says, as `_waits`
lists them.

Services say it in many places, from the most exact to the vaguest: `retry-after-ms`, `Retry-After`
(RFC 9110, 10.2.3: seconds or a date), fields of the body, `retryDelay` (google.rpc.RetryInfo),
headers that an aggregator quotes, words such as "try again in 20s", and last the reset of a bucket
that is empty: in the headers of a service, or in those of the IETF's draft "RateLimit header fields
for HTTP", which has had three forms. The first usable one counts. A wait is never rounded down: a
request that is a millisecond early is one more rejection.

There is no clock here: a point in time counts from the response's own `Date`. The drivers add one
where it is missing: the time of arrival by their own clock, less the seconds by which that clock
may be ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil

from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.moments import EPOCH_MILLISECONDS
from rungwise.fsm.values.patterns import Pattern

_ABSURD = 1e9  # seconds (31 years) above which a number is a point in time since 1970, not a wait

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_LONGEST_TEXT = 10_000  # characters of a message
_LONGEST_WAIT = 100  # characters of a wait, in any notation
_LONGEST_HEADER = 500  # characters of a header that is read

# by first letters
_UNITS = (("ms", 0.001), ("mil", 0.001), ("m", 60.0), ("s", 1.0), ("h", 3600.0), ("d", 86400.0))

_FINER = Pattern(r"\.\d{7}", re.ASCII)  # than microseconds
_NUMBER = Pattern(r"\d+(?:\.\d+)?", re.ASCII)
_PART = Pattern(
    r"(\d{1,20}(?:\.\d{1,20})?)\s{0,3}"
    r"(ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![a-z])(?:\s{0,"
    r"3},|\s{1,3}and\b)?\s{0,3}",
    re.ASCII | re.IGNORECASE,
)
_DURATION = Pattern(f"(?:{_PART.text}){{1,8}}", _PART.flags)
_BUCKETS = (
    (Pattern(r"(x-)?ratelimit-remaining(.*)"), r"\1ratelimit-reset\2"),  # the IETF's, drafts 0 to 6
    (Pattern(r"anthropic-ratelimit-(.+)-remaining"), r"anthropic-ratelimit-\1-reset"),
)
_QUOTED = Pattern(r'"[^"]*"')
"""The name of a bucket, which may hold any punctuation."""
_WORDING = Pattern(
    rf"\b(?:again|retry|wait|resets?|available)\b[^\d.]{{0,60}}(?<!-)({_DURATION.text})",
    _PART.flags,
)


def plain_headers(headers: object) -> dict[str, str]:
    """Return the headers under lower-case names, without values that are no text."""
    plain: dict[str, str] = {}
    if isinstance(headers, Mapping):
        for name, value in headers.items():
            if isinstance(name, str) and isinstance(value, str):
                plain[name.lower()] = value.strip()
    return plain


def asked_wait(headers: Mapping[str, str], body: object, message: str = "") -> float | None:
    """Return the seconds that a response asks us to wait, never rounded down; None if none are
    usable. Never raises.
    """
    names = {name: _once(value) for name, value in plain_headers(headers).items()}
    for wait in _waits(names, body, message):
        if wait is not None:
            return wait
    return None


def has_date(headers: Mapping[str, str]) -> bool:
    """Tell whether headers have a `Date` that can be read."""
    date = plain_headers(headers).get("date", "")
    return len(date) <= _LONGEST_HEADER and _is_moment(date)


@lru_cache(maxsize=16)
def _is_moment(text: str) -> bool:
    """Tell whether this is a date. All replies of one second have the same, so the result is
    cached.
    """
    return _now({"date": text}) is not None


def _once(value: str) -> str:
    """Return one value of a header that came several times with the same value."""
    if "," in value and len(value) <= _LONGEST_HEADER:
        pieces = [piece.strip() for piece in value.split(",")]
        for size in (1, 2):  # a date has a comma of its own
            if pieces == pieces[:size] * (len(pieces) // size):
                return ", ".join(pieces[:size])
    return value


def _usable(seconds: float | None) -> float | None:
    if seconds is None or not 0 < seconds < _ABSURD:
        return None
    return seconds


def _longest(waits: Iterable[float | None]) -> float | None:
    return max([wait for wait in waits if wait is not None], default=None)


def _number(value: object, scale: float = 1.0) -> float | None:
    if isinstance(value, str):
        is_readable = len(value) <= _LONGEST_WAIT and _NUMBER.fullmatch(value)
        value = float(value) if is_readable else None
    if not is_number(value):
        return None
    try:
        return float(value) * scale
    except OverflowError:
        return None


def _duration(text: str) -> float | None:
    if len(text) > _LONGEST_WAIT or not _DURATION.fullmatch(text):
        return None
    parts = [float(number) * _seconds_in(unit.lower()) for number, unit in _PART.findall(text)]
    return sum(parts)


def _seconds_in(unit: str) -> float:
    for start, seconds in _UNITS:
        if unit.startswith(start):
            return seconds
    raise AssertionError(unit)  # the pattern knows no other


def _moment(text: str, finer: timedelta = timedelta()) -> datetime | None:
    """Read a date in any notation; `finer` is added for digits beyond microseconds."""
    if len(text) > _LONGEST_WAIT:
        return None
    for parse in (datetime.fromisoformat, _http_date):
        try:
            moment = parse(text)
            if _FINER.search(text):
                moment += finer
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            return moment
        except (ArithmeticError, LookupError, TypeError, ValueError):
            continue
    return None


def _http_date(text: str) -> datetime:
    from email.utils import parsedate_to_datetime  # it loads sockets, and few replies need it

    return parsedate_to_datetime(text)


def _now(headers: Mapping[str, str]) -> datetime | None:
    return _moment(_once(headers.get("date", "")))


def _until(moment: datetime | None, headers: Mapping[str, str]) -> float | None:
    now = _now(headers)
    if moment is None or now is None:
        return None
    return (moment - now).total_seconds()


def _wait(value: object, headers: Mapping[str, str]) -> float | None:
    """Read a wait in any notation: seconds, a duration, a date, seconds or milliseconds since
    1970.
    """
    seconds = _number(value)
    if seconds is not None and seconds >= _ABSURD:
        seconds = _until(_since_1970(seconds), headers)
    elif seconds is None and isinstance(value, str):
        seconds = _duration(value)
        if seconds is None:
            seconds = _until(_moment(value, _MICROSECOND), headers)
    return _usable(seconds)


def _since_1970(number: float) -> datetime | None:
    microseconds = 1e3 if number >= EPOCH_MILLISECONDS else 1e6
    try:
        return _EPOCH + timedelta(microseconds=ceil(number * microseconds))
    except ArithmeticError:
        return None


def _objects(body: object) -> Iterator[Mapping[str, object]]:
    """Yield the objects of a body that describe the whole error: itself, `error` and
    `error.metadata`.
    """
    value = body
    if isinstance(body, list) and body:
        value = body[0]
    for inner in ("error", "metadata", ""):
        if not isinstance(value, Mapping):
            return
        yield value
        value = value.get(inner)


def _as_text(value: object) -> object:
    """Return a number as text, unless it has more digits than Python writes."""
    if isinstance(value, int) and abs(value) < 10**_LONGEST_WAIT:
        return str(value)
    return value


def _waits(
    headers: Mapping[str, str],
    body: object,
    message: str,
) -> Iterator[float | None]:
    """Yield what each place of a response says, in the order in which they count; None for nothing
    usable.
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        yield _usable(_number(headers.get(name), 0.001))
    yield _wait(headers.get("retry-after"), headers)
    places = list(_objects(body))
    for place in places:
        yield _wait(place.get("retry_after"), headers)
        yield _wait(place.get("retry_after_seconds"), headers)
        yield _usable(_number(place.get("retry_after_ms"), 0.001))
    delays = []
    for place in places:
        details = place.get("details")
        if isinstance(details, list):
            delays += [each.get("retryDelay") for each in details if isinstance(each, Mapping)]
    yield _longest(_wait(delay, headers) for delay in delays)
    # an aggregator quotes headers in the metadata of its error; they count from the outer `Date`
    for place in places:
        quoted = place.get("headers")
        if isinstance(quoted, Mapping):
            own = plain_headers({name: _as_text(value) for name, value in quoted.items()})
            yield asked_wait({"date": headers.get("date", ""), **own}, None)
    texts: list[object] = [message, body]
    for place in places:
        texts += [place.get(name) for name in ("message", "error", "detail")]
    yield _first_in_prose(texts)
    # the longest reset of the empty buckets, as a request needs all of them
    for remaining, reset in _BUCKETS:
        waits = []
        for name, value in headers.items():
            bucket = remaining.fullmatch(name)
            if bucket and _number(value) == 0:
                waits.append(_wait(headers.get(bucket.expand(reset)), headers))
        yield _longest(waits)
    yield _longest(_resets_in(headers.get("ratelimit", "")))


def _resets_in(header: str) -> Iterator[float | None]:
    """Yield the waits for the empty buckets of a `RateLimit` header.

    Draft 7 has one bucket, `limit=100, remaining=0, reset=9`. Those since have a list of them,
    `"minute";r=0;t=14, "day";r=900;t=5000`.
    """
    if len(header) > _LONGEST_HEADER:
        return
    plain = _QUOTED.sub("", header)
    if "remaining" in plain:
        plain = plain.replace(",", ";")
    for bucket in plain.split(","):
        members = {}
        for member in bucket.split(";"):
            name, _, value = member.partition("=")
            members[name.strip()] = value.strip()
        if _number(members.get("remaining", members.get("r"))) == 0:
            yield _usable(_number(members.get("reset", members.get("t"))))


def _first_in_prose(texts: Iterable[object]) -> float | None:
    """Return the wait of the first text that names one; None if it is unusable, or none does."""
    for text in texts:
        if isinstance(text, str):
            wording = _WORDING.search(text[:_LONGEST_TEXT])
            if wording is not None:
                return _usable(_duration(wording[1]))
    return None
