"""What arrived at a provider, and the script's replies to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from attrs import define, field, frozen

from rungwise.adapters.gateway.languages.language import DEFAULT_MODEL
from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.fsm.errors import ConfigurationError


@frozen
class ReceivedRequest:
    """Hold one request for a reply that arrived.

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


@define(eq=False)
class Playback:
    """Answer requests from a script, and record them; safe to share between threads."""

    script: Script | Responder = field()
    _requests: list[ReceivedRequest] = field(factory=list, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @script.validator
    def _check_script(self, attribute: object, value: object) -> None:
        if not isinstance(value, Script) and not callable(value):
            raise ConfigurationError(f"script must be a Script or a function, not {type(value).__name__}")

    @property
    def models(self) -> list[str]:
        """Return the models that the script names."""
        replies = self.script.replies if isinstance(self.script, Script) else ()
        return list(dict.fromkeys(reply.model for reply in replies if reply.model)) or [DEFAULT_MODEL]

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Return the requests in the order of arrival."""
        with self._lock:
            return list(self._requests)

    def receive(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, ScriptedReply]:
        """Record a request and return its number, counted from 1, with the reply that the script gives to it."""
        with self._lock:
            request = ReceivedRequest(path, headers, body, time.monotonic())
            self._requests.append(request)
            number = len(self._requests)
        if isinstance(self.script, Script):
            return number, self.script.reply(number - 1)
        try:
            reply = self.script(request)
            if not isinstance(reply, ScriptedReply):
                raise TypeError(f"it must return a ScriptedReply, not {type(reply).__name__}")
            return number, reply
        except Exception as error:
            message = f"The script raised {type(error).__name__}: {error}"
            return number, ScriptedReply(status=500, error={"message": message, "type": "script_error"})

    def mark_aborted(self, number: int) -> None:
        """Record that the client of this request went away."""
        with self._lock:
            self._requests[number - 1] = attrs.evolve(self._requests[number - 1], aborted=True)
