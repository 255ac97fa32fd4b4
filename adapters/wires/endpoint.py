"""A backend's URL, key and headers, checked before anything is sent.

Here is what converts and checks the fields of a backend. No error shows a value that may be secret.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from attrs import frozen

from rungwise.adapters.wires.registry import WIRES
from rungwise.fsm.call.chain.link import MOST_KEYS
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, FRAMING, MOST_TOKENS
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import LONGEST_SECONDS, is_number, is_whole, must, or_none
from rungwise.fsm.values.frozen_map import sendable_copy
from rungwise.fsm.values.secret import Secret, SecretMap

KEY_HEADERS: Final = ("authorization", "api-key", "x-api-key", "x-goog-api-key")
"""The headers that carry keys, in any protocol."""
SECRET_QUERY: Final = re.compile(r"key|token|secret|password|signature|^sig$", re.IGNORECASE)
"""The names of members of a query that hold a secret."""
LOCAL_HOST: Final = re.compile(r"^[^.:]+$|\.(localhost|local|lan|internal|home\.arpa|test)$")
"""Host names that are not public: without a dot, or in a reserved domain [RFC 6761, RFC 8375]."""
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""
PLACEHOLDER: Final = re.compile(
    r"(sk-)?[.…x*-]*"
    r"|[<\[{$%].*"
    r"|(sk-)?(your|insert|enter|put|replace|add|paste)[-_ ].*"
    r"|(sk-)?change[-_ ]?me"
    r"|(my[-_ ])?(key|token)"
    r"|([a-z]+[-_ ])*api[-_ ]?key"
    r"|placeholder|dummy|empty|none|null|undefined|todo"
    r"|not[-_ ]needed",
    re.IGNORECASE,
)
"""What stands in examples and templates where a key belongs."""
_KEY: Final = re.compile(
    r"(sk|pk|rk)-[\w-]{16,}|(gsk|hf|nvapi|xai)[_-][A-Za-z0-9]{20,}|AIza[\w-]{30,}", re.ASCII
)
"""How the keys of providers look. No model and no URL begins in this way."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@frozen
class Endpoint:
    """Hold the parts of a base URL that matter."""

    problem: str | None = None  # why the URL cannot be used, or None; then the rest is empty
    place: str = ""  # the host, with the port if it is not the scheme's default
    origin: str = ""  # the scheme and the place, which a key belongs to
    root: str = ""  # the URL in its normal form, without query and trailing slash
    query: str = ""  # the query, with its question mark
    # whether the host is loopback, private, or has a name that no public host has
    is_local: bool = False


def read_url(url: str, path: str) -> Endpoint:
    """Read a base URL, with or without the path that requests add.

    Arguments:
        url: the base URL.
        path: the path that requests add, such as "/chat/completions".

    Raises:
        ConfigurationError: the URL holds a secret. Any other fault is the endpoint's `problem`.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return Endpoint("base_url is not a URL")
    names = [name for name, _ in parse_qsl(parts.query)]
    if "@" in parts.netloc or any(map(SECRET_QUERY.search, names)):
        raise ConfigurationError(
            "base_url holds a secret: put it into api_key or headers, which are never shown"
        )
    host = parts.hostname
    if parts.scheme not in DEFAULT_PORTS or not host or not is_header_text(url) or " " in url:
        return Endpoint(
            "base_url must begin with http:// or https://, then a host, and have no blanks"
        )
    if port == 0:
        return Endpoint("base_url has the port 0, on which nothing can listen")
    if not _is_sendable(url):
        return Endpoint("base_url has a host, or a length, that no request can have")
    place = f"[{host}]" if ":" in host else host
    if port not in (None, DEFAULT_PORTS[parts.scheme]):
        place = f"{place}:{port}"
    origin = f"{parts.scheme}://{place}"
    root = f"{origin}{parts.path.rstrip('/').removesuffix(path)}".rstrip("/")
    query = f"?{parts.query}" if parts.query else ""
    return Endpoint(
        place=place,
        origin=origin,
        root=root,
        query=query,
        is_local=_is_local(host),
    )


def _is_sendable(url: str) -> bool:
    """Try the HTTP client's own parser, and the codec for host names."""
    # the command line reads its options before it imports what it sends with
    from httpx import URL, InvalidURL

    try:
        parsed = URL(url)
        return bool(parsed.host) and bool(parsed.raw_host.decode("ascii").encode("idna"))
    except (InvalidURL, UnicodeError):
        return False


def is_this_machine(host: str) -> bool:
    """Tell whether a host is this machine, in any spelling."""
    name = host.lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        try:
            # 127.1, 2130706433 and 0x7f000001 are addresses to it
            address = ip_address(socket.inet_aton(name))
        except (OSError, ValueError):
            return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def _is_local(host: str) -> bool:
    if is_this_machine(host):
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:
        return LOCAL_HOST.search(host) is not None


def shown_url(url: object) -> str:
    """Return the `repr` of a URL without anything that could be a secret."""
    without_user = re.sub(r"//[^/]*@", "//", str(url))
    return repr(re.sub(r"[?#].*", "", without_user))


def is_header_text(value: str) -> bool:
    """Tell whether a header can hold this text."""
    return value.isascii() and value.isprintable()


def _is_header_value(value: str) -> bool:
    return is_header_text(value) and value == value.strip()


def as_secret(key: Any) -> Any:
    """Make a secret of a string, or of each in a list.

    The validator refuses anything else, and names the field.
    """
    if isinstance(key, (list, tuple)):
        return tuple(map(as_secret, key))
    return Secret(key) if isinstance(key, str) else key


def is_token(key: Secret) -> bool:
    """Tell whether a key is a token of Entra's or Google's, which is always a bearer token."""
    text = key.reveal()
    return text.startswith("ya29.") or (text.startswith("ey") and text.count(".") == 2)


def key_problem(key: Secret | None, variables: Iterable[str] = ()) -> str | None:
    """Say that a key is missing or a placeholder, or return None."""
    if not key:
        ways = ["give the key", *[f"set {name}" for name in variables]]
        return (
            f"api_key is missing: {', '.join(ways)}, or api_key_required=False for a "
            f"server without keys"
        )
    text = key.reveal()
    if PLACEHOLDER.fullmatch(text):
        return "api_key is a placeholder: give the real key"
    if text[0] == text[-1] and text[0] in "\"'":
        return "api_key stands in quotation marks: leave them out"
    if text.lower().startswith("bearer "):
        return "api_key begins with 'Bearer', which is added to it: give the key alone"
    return None


def check_key(
    instance: object,
    attribute: Any,
    value: Any,
    where: str = "",
) -> None:
    """Refuse a key that no header can hold; the error does not show it.

    Arguments:
        instance: the backend.
        attribute: its field.
        value: the key, or several.
        where: what the error names; "" is the field. Only `api_key` takes functions and lists.
    """
    where = where or attribute.name
    if value is None or (callable(value) and where.startswith("api_key")):
        return
    if isinstance(value, tuple) and where == "api_key":
        _check_keys(value)
        return
    if not isinstance(value, Secret):
        what = "a string or None"
        if where.startswith("api_key"):
            what = "a string, a function that returns one, a list of these, or None"
        raise ConfigurationError(f"{where} must be {what}, not {type(value).__name__}")
    if value and not _is_header_value(value.reveal()):
        raise ConfigurationError(
            f"{where} has blanks around it, or a character that no header can hold"
        )


def _check_keys(keys: tuple[Any, ...]) -> None:
    if not 1 <= len(keys) <= MOST_KEYS:
        raise ConfigurationError(f"api_key must hold 1 to {MOST_KEYS} keys, not {len(keys)}")
    for place, key in enumerate(keys):
        if key is None or isinstance(key, tuple):
            raise ConfigurationError(
                f"api_key[{place}] must be a string, or a function that returns one"
            )
        check_key(None, None, key, where=f"api_key[{place}]")
        if key in keys[:place]:
            raise ConfigurationError(
                f"api_key[{place}] is the same key as api_key[{keys.index(key)}]"
            )


class KeyFunctionError(Exception):
    """Say that a function that was asked for a key raised; what it said may hold one."""


@contextmanager
def asking_for_key() -> Iterator[None]:
    """Let what a function of the caller's raises count as a failure of its backend."""
    try:
        yield
    except Exception as error:
        raise KeyFunctionError(f"the function of api_key raised {type(error).__name__}") from error


def check_returned(key: object) -> None:
    """Refuse what a function has returned that is no key."""
    if isinstance(key, Coroutine):
        key.close()
        raise ConfigurationError("api_key is an async function, which only async calls can ask")
    if not isinstance(key, str) or not key.strip():
        raise ConfigurationError(
            f"the function of api_key must return a key, not {type(key).__name__}"
        )


def check_headers(headers: object, where: str) -> None:
    """Refuse headers that cannot be sent; the error names the header and never shows its value."""
    if not isinstance(headers, Mapping):
        raise ConfigurationError(f"{where} must be a mapping of strings")
    faults = [_header_fault(name, value) for name, value in headers.items()]
    fault = next(filter(None, faults), None)
    if fault is not None:
        raise ConfigurationError(f"{where}{fault}")


def _header_fault(name: object, value: object) -> str | None:
    """Return what is wrong with a header. Do not raise here: this frame holds the value."""
    if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
        return " has a name that no header can have"
    if not isinstance(value, str) or not is_header_text(value):
        return f"[{name!r}] must be a string of printable ASCII"
    if not _is_header_value(value):
        return f"[{name!r}] has blanks around it, which no header can have"
    if name.lower() in FRAMING:
        return f" must not hold {name!r}, which the transport sets"
    return None


def merged(*layers: Mapping[str, str]) -> SecretMap:
    """Return headers with lower-case names; later layers win."""
    headers: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.items():
            headers[name.lower()] = value
    return SecretMap(headers)


def variables_of(origin: str) -> tuple[str, ...]:
    """Return the environment variables that may hold the key for an origin.

    There are none unless it is a provider's, with TLS.
    """
    for wire in WIRES.values():
        for place in wire.keys:
            if place.origins.fullmatch(origin):
                return place.variables
    return ()


def key_of_environment(origin: str) -> Secret | None:
    """Return a provider's key from the environment, for the provider's own host over TLS only."""
    for variable in variables_of(origin):
        key: Secret | None = as_secret(os.environ.get(variable))
        check_key(None, None, key, where=variable)
        if key:
            return key
    return None


def as_parameters(value: Mapping[str, Any] | None) -> Any:
    """Copy parameters; None is no parameters."""
    return sendable_copy({} if value is None else value, "parameters")


def as_headers(value: Mapping[str, str] | None) -> Mapping[str, str]:
    """Hide the values of headers; anything but a mapping is left to the validator."""
    if value is None or isinstance(value, Mapping):
        return SecretMap(value or {})
    return value


def check_text(instance: object, attribute: Any, value: Any) -> None:
    """Refuse anything but a string with something in it, and a key, which the field would show."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{attribute.name} must be a string with something in it")
    if _KEY.match(value.strip()):
        raise ConfigurationError(
            f"{attribute.name} holds a key: give it as the key, which is never shown"
        )


def check_header_field(instance: object, attribute: Any, value: Any) -> None:
    """Refuse headers that cannot be sent."""
    check_headers(value, "headers")


def check_parameters(instance: Any, attribute: Any, value: Any) -> None:
    """Refuse reserved parameters, and an output cap that is not a number of tokens."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ConfigurationError("parameters must be a mapping whose keys are strings")
    instance.refuse_reserved(value, "parameters")
    for name in CAP_PARAMETERS:
        cap = value.get(name)
        if cap is not None and not is_whole(cap, 1, MOST_TOKENS):
            raise ConfigurationError(
                f"parameters[{name!r}] must be a whole number of tokens above 0"
            )


def optional(kind: type) -> Any:
    """Return the check that a field is of a type, or None."""
    return must(f"of type {kind.__name__}, or None", or_none(lambda value: isinstance(value, kind)))


SECONDS: Final = must(
    f"a number of seconds above 0, at most {LONGEST_SECONDS:,.0f}, or None",
    or_none(lambda value: is_number(value, 0, LONGEST_SECONDS) and value > 0),
)
