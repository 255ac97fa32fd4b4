"""A server of Responses that goes on with a reply when the connection breaks, keeps it, and charges
by token: what is written, and the prompt of each request that has one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from attrs import define, field

Rest = Callable[[list[dict[str, Any]], int], list[dict[str, Any]]]
PROMPT = 7
"""The input tokens of each request."""


@define
class Kept:
    """Hold a reply: its tokens, and how often it is polled before it is there."""

    id: str
    tokens: list[str]
    polls: int = 0
    api: str = "responses"
    is_cancelled: bool = False

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    def body(self, status: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": self.text, "annotations": []}]
        message = {"type": "message", "id": "m", "role": "assistant", "content": content}
        if self.api == "interactions":
            return self.interaction(status)
        usage = {"input_tokens": PROMPT, "output_tokens": len(self.tokens)}
        is_over = status == "completed"
        return {
            "id": self.id,
            "object": "response",
            "background": True,
            "status": status,
            "output": [message] if is_over else [],
            "usage": usage if is_over else None,
        }

    def interaction(self, status: str) -> dict[str, Any]:
        step = {"type": "model_output", "content": [{"type": "text", "text": self.text}]}
        if status != "completed":
            return {"id": self.id, "status": status}
        usage = {"total_input_tokens": PROMPT, "total_output_tokens": len(self.tokens)}
        return {"id": self.id, "status": status, "steps": [step], "usage": usage}

    def interaction_events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = [
            {"event_type": "interaction.created", "interaction": self.body("in_progress")},
            {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        ]
        for token in self.tokens:
            delta = {"type": "text", "text": token}
            events.append({"event_type": "step.delta", "index": 0, "delta": delta})
        events.append({"event_type": "step.stop", "index": 0})
        whole = self.body("completed")
        events.append({"event_type": "interaction.completed", "interaction": whole})
        return [{**event, "event_id": f"e-{number}"} for number, event in enumerate(events)]

    def events(self) -> list[dict[str, Any]]:
        if self.api == "interactions":
            return self.interaction_events()
        message = {"type": "message", "id": "m", "role": "assistant", "content": []}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": self.body("queued")},
            {"type": "response.in_progress", "response": self.body("in_progress")},
            {"type": "response.output_item.added", "output_index": 0, "item": message},
        ]
        for token in self.tokens:
            place = {"item_id": "m", "output_index": 0, "content_index": 0}
            events.append({"type": "response.output_text.delta", "delta": token, **place})
        events.append({"type": "response.completed", "response": self.body("completed")})
        return [{**event, "sequence_number": number} for number, event in enumerate(events)]


@define(eq=False)
class KeptServer:
    """Serve replies.

    Arguments:
        tokens: those of every reply.
        cuts: for each stream in turn, after how many bytes of events it breaks off; then none does.
        refusals: for each GET in turn, the status of an error; None for none.
        api: `responses` or `interactions`.
        polls: how often a whole reply is polled before it is there.
        stays_open: whether a stream that would break off stays open and silent instead.
        hangs: whether a request to cancel is never answered.
        rests: for each stream that goes on in turn, what makes its events of all events and of the
            place of the first one.
        is_bare: whether the last event of a stream leaves out what the others have said.
    """

    tokens: list[str]
    cuts: list[int | None] = field(factory=list)
    refusals: list[int | None] = field(factory=list)
    polls: int = 0
    api: str = "responses"
    stays_open: bool = False
    hangs: bool = False
    rests: list[Rest] = field(factory=list)
    is_bare: bool = False
    asked: list[tuple[str, str, dict[str, Any]]] = field(factory=list)
    charged: int = 0
    kept: dict[str, Kept] = field(factory=dict)
    _over: Event = field(factory=Event)
    _server: Any = None

    def __enter__(self) -> KeptServer:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length", 0))
                owner.answer(self, "POST", json.loads(self.rfile.read(size) or b"{}"))

            def do_GET(self) -> None:
                owner.answer(self, "GET", {})

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def requests(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.asked]

    @property
    def cancels(self) -> list[str]:
        """The requests to cancel, by the id of the reply."""
        paths = [path for method, path, _ in self.asked if method == "POST"]
        return [path.split("/")[-2] for path in paths if path.endswith("/cancel")]

    def answer(self, handler: Any, method: str, body: dict[str, Any]) -> None:
        self.asked.append((method, handler.path, body))
        place = urlsplit(handler.path)
        query = parse_qs(place.query)
        if method == "POST" and place.path.endswith("/cancel"):
            kept = self.kept[place.path.split("/")[-2]]
            kept.is_cancelled = True
            if self.hangs:
                self._over.wait()
            _send(handler, 200, kept.body("cancelled"))
            return
        if method == "POST":
            kept = Kept(f"resp_{len(self.kept)}", self.tokens, self.polls, self.api)
            self.kept[kept.id] = kept
            self.charged += PROMPT + len(kept.tokens)
            if body.get("stream"):
                self._stream(handler, self._events(kept))
            else:
                _send(handler, 200, kept.body("queued"))
            return
        status = self.refusals.pop(0) if self.refusals else None
        if status is not None:
            _send(handler, status, {"error": {"message": "no"}})
            return
        kept = self.kept[place.path.split("/")[-1]]
        if "stream" in query:
            [after] = [*query.get("last_event_id", []), *query.get("starting_after", [])] or [-1]
            after = int(str(after).removeprefix("e-"))
            rest = self.rests.pop(0) if self.rests else _exact
            self._stream(handler, rest(self._events(kept), after + 1))
            return
        kept.polls -= 1
        _send(handler, 200, kept.body("completed" if kept.polls < 0 else "in_progress"))

    def _events(self, kept: Kept) -> list[dict[str, Any]]:
        *events, last = kept.events()
        if self.is_bare:
            for whole in last.values():
                if isinstance(whole, dict):
                    whole.pop("output", None)
                    whole.pop("steps", None)
        return [*events, last]

    def _stream(self, handler: Any, events: Iterable[dict[str, Any]]) -> None:
        data = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events)
        cut = self.cuts.pop(0) if self.cuts else None
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("content-length", str(len(data) + (cut is not None)))
        handler.end_headers()
        handler.wfile.write(data[:cut])
        if cut is not None and self.stays_open:
            self._over.wait()
        if cut is not None:
            handler.close_connection = True


def _exact(events: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
    return events[first:]


def _send(handler: Any, status: int, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)
