"""The embedded provider: a real HTTP server on loopback that speaks chat completions and misbehaves by script.

`render` is pure and writes the bytes of a reply; `EmbeddedProvider` sends them over a real socket, in the pieces, at
the pace and with the accidents that the script asks for.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

import attrs
import orjson
from attrs import field, frozen

from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.fsm.errors import ConfigurationError

CREATED = 1_750_000_000  # fixed, so that `cut_after` cuts at the same place in every run
DEFAULT_MODEL = "embedded"
CHARACTERS_PER_TOKEN = 4
POLL_SECONDS = 0.02
LARGEST_BODY = 10**9
"""Bytes of a request that are read: the memory for all of them is taken at once."""

ERRORS: Mapping[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    402: ("insufficient_quota", "insufficient_quota", "The account has no credit left."),
    403: ("invalid_request_error", "permission_denied", "You are not allowed to use this resource."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    413: ("invalid_request_error", "payload_too_large", "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", "server_is_overloaded", "The server is overloaded."),
    529: ("overloaded_error", None, "The server is overloaded."),
}
PHRASES: Mapping[int, str] = {status.value: status.phrase for status in HTTPStatus}


@frozen
class ReceivedRequest:
    """Hold one chat completion request that arrived.

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
    """Hold the body of one response as the pieces in which it is written."""

    content_type: str
    pieces: tuple[bytes, ...] = field(repr=False)

    @property
    def body(self) -> bytes:
        """Return the whole body; an index into it is what `cut_after` counts."""
        return b"".join(self.pieces)


def render(reply: ScriptedReply, request: Mapping[str, Any], number: int = 1) -> Rendered:
    """Write the body of a reply, before any cut.

    Arguments:
        reply: what the script says.
        request: the body of the request; its `model`, `messages`, `stream` and `stream_options` matter.
        number: the number of the request, counted from 1, which goes into the reply's id.
    """
    envelope: dict[str, Any] = {
        "id": f"chatcmpl-{number:08d}",
        "object": "chat.completion",
        "created": CREATED,
        "model": reply.model or str(request.get("model") or DEFAULT_MODEL),
    }
    pieces: Iterable[bytes]
    if reply.body is not None:
        kind, pieces = _guess_type(reply.body), [reply.body.encode()]
    elif reply.status != 200 or reply.error is not None:
        kind, pieces = "application/json", [_error(reply.error, reply.status)]
    elif request.get("stream") is True:
        kind, pieces = "text/event-stream", _events(reply, request, {**envelope, "object": "chat.completion.chunk"})
    elif reply.error_event is not None:
        kind, pieces = "application/json", [_error(reply.error_event, 500)]
    else:
        kind, pieces = "application/json", [orjson.dumps(_completion(reply, request, envelope))]
    if reply.write_sizes:
        pieces = _resized(b"".join(pieces), reply.write_sizes)
    return Rendered(kind, tuple(pieces))


def _guess_type(body: str) -> str:
    start = body.lstrip()[:6]
    if start.startswith(("{", "[")):
        return "application/json"
    if start.startswith(("data:", "event:", ":")):
        return "text/event-stream"
    return "text/html" if start.startswith("<") else "text/plain"


def _error(given: Mapping[str, Any] | None, status: int) -> bytes:
    phrase = PHRASES.get(status, "Unknown status")
    other = ("server_error" if status >= 500 else "invalid_request_error", None, f"{phrase}.")
    kind, code, message = ERRORS.get(status, other)
    default = {"message": message, "type": kind, "param": None, "code": code}
    if given is not None:
        # The default code belongs to the default message; beside another one it might contradict.
        default = {**default, "code": None, **given}
    return orjson.dumps({"error": default})


def _completion(reply: ScriptedReply, request: Mapping[str, Any], envelope: dict[str, Any]) -> dict[str, Any]:
    silent = reply.tool_calls or reply.refusal
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or (None if silent else "")}
    if reply.reasoning:
        message |= _reasoning(reply, reply.reasoning)
    if reply.refusal:
        message["refusal"] = reply.refusal
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]
    usage = _usage(reply, request)
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return {**envelope, "choices": [choice], **({"usage": usage} if usage else {})}


def _events(reply: ScriptedReply, request: Mapping[str, Any], envelope: dict[str, Any]) -> Iterator[bytes]:
    options = request.get("stream_options")
    usage = _usage(reply, request) if isinstance(options, Mapping) and options.get("include_usage") is True else None
    if usage:
        envelope = {**envelope, "usage": None}
    for delta in _deltas(reply):
        yield _event(orjson.dumps({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
    if reply.error_event is not None:
        yield _event(_error(reply.error_event, 500))
    else:
        choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
        whole = reply.final_message not in (None, False)
        if whole:
            content = reply.text if reply.final_message is True else reply.final_message
            choice["message"] = {"role": "assistant", "content": content}
        if whole or reply.finish_reason is not None:
            yield _event(orjson.dumps({**envelope, "choices": [choice]}))
        if usage:
            yield _event(orjson.dumps({**envelope, "choices": [], "usage": usage}))
    if reply.done:
        yield _event(b"[DONE]")


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _deltas(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    size = reply.chunk_size
    yield {"role": "assistant", "content": ""}
    for piece in _split(reply.reasoning, size):
        yield _reasoning(reply, piece)
    for piece in _split(reply.text, size):
        yield {"content": piece}
    for piece in _split(reply.refusal, size):
        yield {"refusal": piece}
    for index, call in enumerate(reply.tool_calls):
        opening = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [{"index": index, **opening}]}
        for piece in _split(call.arguments, size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _split(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _reasoning(reply: ScriptedReply, text: str) -> dict[str, Any]:
    if reply.reasoning_field == "reasoning_details":
        return {"reasoning_details": [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]}
    return {reply.reasoning_field: text}


def _usage(reply: ScriptedReply, request: Mapping[str, Any]) -> dict[str, Any]:
    if reply.usage is not None:
        return dict(reply.usage)
    messages = request.get("messages")
    messages = messages if isinstance(messages, list) else []
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    calls = sum(len(call.name) + len(call.arguments) for call in reply.tool_calls)
    prompt = _tokens(sum(map(_characters, contents)))
    completion = _tokens(len(reply.text) + len(reply.reasoning) + len(reply.refusal) + calls)
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    if reply.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": _tokens(len(reply.reasoning))}
    return {**usage, "total_tokens": prompt + completion}


def _characters(content: object) -> int:
    if isinstance(content, list):
        return sum(_characters(part.get("text")) for part in content if isinstance(part, Mapping))
    return len(content) if isinstance(content, str) else 0


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _resized(body: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(body):
            return
        yield body[start : start + size]
        start += size


class EmbeddedProvider:
    """Serve a script over HTTP from construction until `close`, for use in a `with` block.

    Every address that ends in `/chat/completions` answers from the script, every one that ends in `/models` lists the
    script's models.

    Arguments:
        script: a `Script`, or a function from the request to its reply.
        host: the IPv4 address to listen on.
        port: the port, 0 for any that is free.

    Raises:
        ConfigurationError: the script is none, or the address is not of the form of one.
        OSError: the address cannot be listened on.
    """

    def __init__(self, script: Script | Responder, *, host: str = "127.0.0.1", port: int = 0) -> None:
        if not isinstance(script, Script) and not callable(script):
            raise ConfigurationError(f"script must be a Script or a function, not {type(script).__name__}")
        self._script = script
        self._requests: list[ReceivedRequest] = []
        self._lock = threading.Lock()
        try:
            self._server = _Server((host, port), partial(_Handler, self))
        except (TypeError, ValueError, OverflowError):  # a host name that is none, a port above 65535
            raise ConfigurationError("host must be an IPv4 address, and port a whole number from 0 to 65535") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def base_url(self) -> str:
        """Return the base URL, `http://127.0.0.1:PORT/v1`."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    @property
    def models(self) -> list[str]:
        """Return the models that the script names."""
        replies = self._script.replies if isinstance(self._script, Script) else ()
        return list(dict.fromkeys(reply.model for reply in replies if reply.model)) or [DEFAULT_MODEL]

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Return the chat completion requests in the order of arrival, without those whose JSON is invalid."""
        with self._lock:
            return list(self._requests)

    @property
    def aborted(self) -> int:
        """Count the requests whose client went away before it had the whole reply."""
        return sum(request.aborted for request in self.requests)

    @property
    def open_connections(self) -> int:
        """Count the connections that are open now, idle ones included."""
        return len(self._server.connections)

    def wait_disconnected(self, seconds: float = 1.0) -> bool:
        """Wait until no connection is open, for at most so many seconds, and tell whether that is so."""
        with self._server.changed:
            return self._server.changed.wait_for(lambda: not self._server.connections, seconds)

    def close(self) -> None:
        """Stop listening and drop every connection at once, those that hang included."""
        self._server.stop()
        self._thread.join()
        self.wait_disconnected()

    def _receive(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, ScriptedReply]:
        """Record a request and return its number, counted from 1, with the reply that the script gives to it."""
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
            return number, ScriptedReply(status=500, error={"message": message, "type": "script_error"})

    def _mark_aborted(self, number: int) -> None:
        """Record that the client of this request went away."""
        with self._lock:
            self._requests[number - 1] = attrs.evolve(self._requests[number - 1], aborted=True)


class _Server(socketserver.ThreadingTCPServer):
    """Keep account of the open connections; a plain TCP server, since `HTTPServer` looks its own name up in DNS."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Callable[[Any, Any, Any], BaseHTTPRequestHandler]) -> None:
        self.connections: set[socket.socket] = set()
        self.changed = threading.Condition()
        self.closing = threading.Event()
        super().__init__(address, handler)

    def stop(self) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()
        with self.changed:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.changed:
            self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self.changed:
            self.connections.discard(request)
            self.changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away is what this server is for; anything else is a bug and is shown.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _ClientGone(Exception):
    pass


class _Closing(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, provider: EmbeddedProvider, request: Any, client_address: Any, server: _Server) -> None:
        self.provider = provider
        self.closing = server.closing
        super().__init__(request, client_address, server)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.read_body()
        if self.path.partition("?")[0].endswith("/models"):
            known = {"object": "model", "created": CREATED, "owned_by": "rungwise"}
            models = [{"id": model, **known} for model in self.provider.models]
            return self.play(ScriptedReply(body=orjson.dumps({"object": "list", "data": models}).decode()), {})
        return self.not_found()

    def do_POST(self) -> None:
        content = self.read_body()
        if not self.path.partition("?")[0].endswith("/chat/completions"):
            return self.not_found()
        if isinstance(content, ScriptedReply):
            return self.play(content, {})
        try:
            body = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            return self.play(_problem(400, f"The body is not valid JSON: {error}"), {})
        if not isinstance(body, dict):
            return self.play(_problem(400, "The body must be a JSON object."), {})
        headers = {name.lower(): value for name, value in self.headers.items()}
        number, reply = self.provider._receive(self.path, headers, body)
        return self.play(reply, body, number)

    def not_found(self) -> None:
        self.play(_problem(404, f"Invalid URL ({self.command} {self.path})"), {})

    def do_PUT(self) -> None:
        self.read_body()
        self.not_found()

    do_PATCH = do_DELETE = do_OPTIONS = do_PUT  # noqa: N815  (the names that http.server looks up)

    def read_body(self) -> bytes | ScriptedReply:
        """Return the body of the request, or what is answered where it is not read."""
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers or not length.isdecimal():
            self.close_connection = True
            return _problem(411, "Send the body with a Content-Length.")
        if len(length) > len(str(LARGEST_BODY)) or int(length) > LARGEST_BODY:
            self.close_connection = True
            return _problem(413, f"The body has more than {LARGEST_BODY} bytes.")
        return self.rfile.read(int(length))

    def play(self, reply: ScriptedReply, request: Mapping[str, Any], number: int = 0) -> None:
        try:
            self.respond(reply, render(reply, request, number), number)
        except (_ClientGone, OSError):
            self.close_connection = True
            if number and not self.closing.is_set():
                self.provider._mark_aborted(number)
        except _Closing:
            self.close_connection = True

    def respond(self, reply: ScriptedReply, rendered: Rendered, number: int) -> None:
        self.wait(math.inf if reply.hang and reply.cut_after is None else reply.delay)
        chunked = self.send_head(reply, rendered, number)
        frames = [_chunk(piece) if chunked else piece for piece in _cut(rendered.pieces, reply.cut_after)]
        if chunked and reply.cut_after is None:
            # In one write with the last piece: a client may rightly leave as soon as it has seen `[DONE]`.
            frames[-1:] = [b"".join([*frames[-1:], b"0\r\n\r\n"])]
        for index, frame in enumerate(frames):
            self.wait(reply.chunk_delay if index else 0)
            self.wfile.write(frame)
        if reply.cut_after is not None:
            self.close_connection = True
            if reply.hang:
                self.wait(math.inf)

    def send_head(self, reply: ScriptedReply, rendered: Rendered, number: int) -> bool:
        """Send status and headers, and tell whether the body is to be sent in chunks."""
        given = {name.lower(): value for name, value in reply.headers.items()}
        own = {"content-type": rendered.content_type, "x-request-id": f"req_{number:08d}"}
        headers = {"date": self.date_time_string(), **own, **given}
        chunked = rendered.content_type == "text/event-stream" and self.request_version >= "HTTP/1.1"
        if chunked:
            headers["transfer-encoding"] = "chunked"
        else:
            headers["content-length"] = str(len(rendered.body))
        self.send_response_only(reply.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        return chunked

    def wait(self, seconds: float) -> None:
        """Wait, unless the client goes away or the provider closes."""
        deadline = time.monotonic() + seconds
        while True:
            if self.client_gone():
                raise _ClientGone
            left = deadline - time.monotonic()
            if left <= 0:
                return
            if self.closing.wait(min(left, POLL_SECONDS)):
                raise _Closing

    def client_gone(self) -> bool:
        self.connection.settimeout(0)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        finally:
            self.connection.settimeout(None)


def _problem(status: int, message: str) -> ScriptedReply:
    return ScriptedReply(status=status, error={"message": message, "type": "invalid_request_error"})


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _cut(pieces: Iterable[bytes], count: int | None) -> Iterator[bytes]:
    left = math.inf if count is None else count
    for piece in pieces:
        if left < len(piece):
            if left > 0:
                yield piece[: int(left)]
            return
        yield piece
        left -= len(piece)
