"""The embedded provider: a real HTTP server on loopback that misbehaves by script.

It speaks every protocol: the path of a request chooses the one in which its reply is written.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from io import BytesIO
from itertools import cycle
from typing import Any, Final

import attrs
import orjson
from attrs import field, frozen

from rungwise.adapters.gateway.languages import CHAT, LANGUAGES, language_of
from rungwise.adapters.gateway.languages.language import DEFAULT_MODEL
from rungwise.adapters.provider.connections import LoopbackHandler, LoopbackServer, Served
from rungwise.adapters.provider.manners.encoder import Encoder, Said
from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.fsm.errors import ConfigurationError


@frozen
class ReceivedRequest:
    """A request for a reply, as it arrived.

    Arguments:
        path: the path with its query.
        headers: the headers, their names in lower case.
        body: the decoded JSON.
        at: when it had arrived whole, in seconds of `time.monotonic()`.
        aborted: whether the client went away before it had the whole reply.
    """

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)
    at: float
    aborted: bool = False


Responder = Callable[[ReceivedRequest], ScriptedReply]
"""A script as a function, called in the thread of the connection."""


@frozen
class Rendered:
    """The body of a response, in the pieces in which it is sent."""

    content_type: str
    pieces: tuple[bytes, ...] = field(repr=False)
    is_stream: bool = False
    headers: Mapping[str, str] = field(factory=dict)  # those that its manners add

    @property
    def body(self) -> bytes:
        """Return the whole body; an index into it is what `cut_after` counts."""
        return b"".join(self.pieces)


def render(
    reply: ScriptedReply,
    request: Mapping[str, Any],
    number: int = 1,
    path: str = "/chat/completions",
) -> Rendered:
    """Write the body of a reply, before any cut, in the protocol of the path.

    Arguments:
        reply: what is written.
        request: the JSON of the request.
        number: of the request, of which ids are made.
        path: of the request, with its query.

    Raises:
        ConfigurationError: the protocol does not have a manner of the reply.
    """
    language = language_of(path) or CHAT
    request_read = language.read_request(path.partition("?")[0], request, number)
    if reply.body is not None:
        said = Said(_guess_type(reply.body), [reply.body.encode()], {})
    elif reply.status != 200 or reply.error is not None:
        said = Said("application/json", [language.error(reply.error, reply.status)], {})
    else:
        said = Encoder.of(reply.answer, request_read, language, reply.manner).say()
    pieces: Iterable[bytes] = said.frames
    if reply.write_sizes:
        pieces = _in_sizes(b"".join(pieces), reply.write_sizes)
    is_stream = said.media in ("text/event-stream", language.stream_type)
    return Rendered(said.media, tuple(pieces), is_stream, said.headers)


def _in_sizes(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """Yield data in pieces of these sizes, over and over."""
    rest = BytesIO(data)
    for size in cycle(sizes):
        piece = rest.read(size)
        if not piece:
            return
        yield piece


def _guess_type(body: str) -> str:
    start = body.lstrip()[:6]
    if start.startswith(("{", "[")):
        return "application/json"
    if start.startswith(("data:", "event:", ":")):
        return "text/event-stream"
    if start.startswith("<"):
        return "text/html"
    return "text/plain"


LARGEST_BODY: Final = 10**9
"""The most bytes of a request that are read: their memory is allocated at once."""


class ReplyHandler(LoopbackHandler):
    """Handle the requests of one connection."""

    owner: EmbeddedProvider

    def do_GET(self) -> None:
        """Answer with what a protocol lists, such as the models of the script."""
        self._read_body()
        for language in LANGUAGES:
            listing = language.listing(self.path.partition("?")[0], self.owner.models)
            if listing is not None:
                return self._play(ScriptedReply(body=orjson.dumps(listing).decode()), {})
        return self._not_found()

    def do_POST(self) -> None:
        """Answer a request from the script, in the protocol of its path."""
        content = self._read_body()
        if language_of(self.path) is None:
            return self._not_found()
        if isinstance(content, ScriptedReply):
            return self._play(content, {})
        try:
            body = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            return self._play(_problem(400, f"The body is not valid JSON: {error}"), {})
        if not isinstance(body, dict):
            return self._play(_problem(400, "The body must be a JSON object."), {})
        number, reply = self.owner._receive(self.path, self.lowered_headers, body)
        return self._play(reply, body, number)

    def _not_found(self) -> None:
        self._play(_problem(404, f"Invalid URL ({self.command} {self.path})"), {})

    def do_PUT(self) -> None:
        """Refuse methods other than POST and GET."""
        self._read_body()
        self._not_found()

    do_PATCH = do_DELETE = do_OPTIONS = do_PUT

    def _read_body(self) -> bytes | ScriptedReply:
        """Return the body of the request, or the reply if it cannot be read."""
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers or not length.isdecimal():
            self.close_connection = True
            return _problem(411, "Send the body with a Content-Length.")
        if len(length) > len(str(LARGEST_BODY)) or int(length) > LARGEST_BODY:
            self.close_connection = True
            return _problem(413, f"The body has more than {LARGEST_BODY} bytes.")
        return self.rfile.read(int(length))

    def _play(
        self,
        reply: ScriptedReply,
        request: Mapping[str, Any],
        number: int = 0,
    ) -> None:
        try:
            rendered = render(reply, request, number, self.path)
        except ConfigurationError as error:
            reply = _problem(500, str(error))
            rendered = render(reply, request, number, self.path)
        try:
            self._respond(reply, rendered, number)
        except OSError:
            self.close_connection = True
            if number and not self.closing.is_set():
                self.owner._mark_aborted(number)

    def _respond(
        self,
        reply: ScriptedReply,
        rendered: Rendered,
        number: int,
    ) -> None:
        """Write a response, at the pace and with the failure of its script."""
        if reply.hang and reply.cut_after is None:
            self._wait(math.inf)
        else:
            self._wait(reply.delay)
        is_chunked = rendered.is_stream and self.request_version >= "HTTP/1.1"
        headers = {"date": self.date_time_string(), "content-type": rendered.content_type}
        headers["x-request-id"] = f"req_{number:08d}"
        headers.update(rendered.headers)
        headers.update({name.lower(): value for name, value in reply.headers.items()})
        if is_chunked:
            headers["transfer-encoding"] = "chunked"
        else:
            headers["content-length"] = str(len(rendered.body))
        self.send_response_only(reply.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        frames = list(_cut(rendered.pieces, reply.cut_after))
        if is_chunked:
            frames = _chunks(frames, has_end=reply.cut_after is None)
        for frame, pause in zip(frames, reply.pauses(len(frames)), strict=True):
            self._wait(pause)
            self.wfile.write(frame)
        if reply.cut_after is not None:
            self.close_connection = True
            if reply.hang:
                self._wait(math.inf)

    def _wait(self, seconds: float) -> None:
        """Wait, on the clock of a test if there is one; endless waits are real."""
        if self.owner._sleep is not None and seconds < math.inf:
            self.owner._sleep(seconds)
        else:
            self.wait(seconds)


def _problem(status: int, message: str) -> ScriptedReply:
    return ScriptedReply(status=status, error={"message": message, "type": "invalid_request_error"})


def _chunks(pieces: list[bytes], *, has_end: bool) -> list[bytes]:
    """Return the chunks of a chunked body, a write each.

    The last chunk and the end are one write: a client may leave as soon as it has seen `[DONE]`.
    """
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    if has_end:
        last = chunks.pop() if chunks else b""
        chunks.append(last + b"0\r\n\r\n")
    return chunks


def _cut(pieces: Iterable[bytes], count: int | None) -> Iterator[bytes]:
    """Yield pieces up to so many bytes; None yields all."""
    rest = math.inf if count is None else count
    for piece in pieces:
        if rest < len(piece):
            if rest > 0:
                yield piece[: int(rest)]
            return
        yield piece
        rest -= len(piece)


class EmbeddedProvider(Served):
    """Serve a script over HTTP from construction until `close`, for use in a `with` block.

    The path selects the protocol: `/chat/completions`, `/responses`, `/messages`, `/interactions`,
    `:generateContent`, `/api/chat` and `/converse`, and their streams, answer from the script. An
    address that ends in `/models`, and Ollama's `/api/tags`, lists the script's models.

    Arguments:
        script: a `Script`, or a function from the request to its reply.
        host: the IPv4 address to listen on.
        port: the port, 0 for any that is free.
        sleep: waits instead of real time, such as the `advance` of a clock that a test shares with
            its client; what hangs forever does so in any case.

    Raises:
        ConfigurationError: the script is neither, or the address is not of the form of one.
        OSError: the address cannot be listened on.
    """

    def __init__(
        self,
        script: Script | Responder,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        if not isinstance(script, Script) and not callable(script):
            raise ConfigurationError(
                f"script must be a Script or a function, not {type(script).__name__}"
            )
        self._script = script
        self._sleep = sleep
        self._lock = threading.Lock()
        self._requests: list[ReceivedRequest] = []
        try:
            self._server = LoopbackServer((host, port), partial(ReplyHandler, self))
        except (TypeError, ValueError, OverflowError):  # not an address, or a port above 65535
            raise ConfigurationError(
                "host must be an IPv4 address, and port a whole number from 0 to 65535"
            ) from None

    # here for the API's documentation
    base_url = Served.base_url
    open_connections = Served.open_connections
    wait_disconnected = Served.wait_disconnected
    close = Served.close

    @property
    def models(self) -> list[str]:
        """Return the models that the script names."""
        models: list[str] = []
        if isinstance(self._script, Script):
            models = [reply.model for reply in self._script.replies if reply.model]
        return list(dict.fromkeys(models)) or [DEFAULT_MODEL]

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Return the requests for a reply, in the order of arrival.

        Those whose JSON is invalid are left out.
        """
        with self._lock:
            return list(self._requests)

    @property
    def aborted(self) -> int:
        """Count the requests whose client went away before it had the whole reply."""
        return sum(request.aborted for request in self.requests)

    def _receive(
        self,
        path: str,
        headers: Mapping[str, str],
        body: Mapping[str, Any],
    ) -> tuple[int, ScriptedReply]:
        """Record a request, and return its number, counted from 1, and its reply."""
        with self._lock:
            request = ReceivedRequest(path, headers, body, time.monotonic())
            self._requests.append(request)
            number = len(self._requests)
        if isinstance(self._script, Script):
            return number, self._script.reply(number - 1)
        try:
            reply = self._script(request)
            if not isinstance(reply, ScriptedReply):
                raise TypeError(f"it must return a ScriptedReply, not {type(reply).__name__}")
            return number, reply
        except Exception as error:
            message = f"The script raised {type(error).__name__}: {error}"
            problem = {"message": message, "type": "script_error"}
            return number, ScriptedReply(status=500, error=problem)

    def _mark_aborted(self, number: int) -> None:
        """Record that the client of this request went away."""
        with self._lock:
            request = self._requests[number - 1]
            self._requests[number - 1] = attrs.evolve(request, aborted=True)
