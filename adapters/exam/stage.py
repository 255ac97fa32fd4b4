"""One case on its stage: the primary misbehaves, every other backend is well, and all is noted."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import orjson
from attrs import define, field, frozen

from rungwise.adapters.exam.cases import ExamCase, healthy
from rungwise.adapters.exam.wanted import Wanted, wanted_by
from rungwise.adapters.gateway.languages.language import estimated
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import ReceivedRequest


@frozen(kw_only=True)
class SeenRequest:
    """Hold one request of a case.

    Arguments:
        at: seconds since the case began.
        wanted: what it wants.
        is_primary: whether it asked the backend that misbehaves.
        headers: its headers.
        reply: what it got.
    """

    at: float
    wanted: Wanted
    is_primary: bool
    headers: Mapping[str, str] = field(repr=False)
    reply: ScriptedReply = field(repr=False)

    @property
    def is_whole(self) -> bool:
        """Tell whether its reply was the whole answer, or all that was left of it."""
        return self.reply == healthy(self.wanted)

    @property
    def tokens(self) -> int:
        """Return what a provider bills for it, at four characters a token."""
        is_billed = self.reply.status == 200 and self.reply.body is None
        if not is_billed or (self.reply.hang and self.reply.cut_after is None):
            return 0
        usage = estimated(self.reply.answer, list(self.wanted.body.values()))
        return usage.input_tokens + usage.output_tokens

    @property
    def sent(self) -> bytes:
        """Return the body as it can be compared with others."""
        return orjson.dumps(self.wanted.body, option=orjson.OPT_SORT_KEYS)


@define(eq=False)
class Stage:
    """Answer the requests of one case.

    Theory: nobody declares the backends of a stranger's program. Whoever is asked first while all
    is well, by protocol and model, is its primary; a request to anybody else shows that there is a
    second backend, which is well. So a program needs no settings for its examiner, and one that has
    a single backend is simply never rescued by another. To go by the first request of each case
    would be wrong for whoever remembers: a gateway that avoids its primary after a fault.

    Arguments:
        case: what goes wrong; None for nothing.
        backend: the protocol and model of the primary; None for whoever is asked first.
    """

    case: ExamCase | None
    backend: tuple[str, str] | None = None
    began: float = field(factory=time.monotonic)
    asked: list[SeenRequest] = field(factory=list)
    _lock: threading.Lock = field(factory=threading.Lock)

    def respond(self, request: ReceivedRequest) -> ScriptedReply:
        """Note a request, and return what it gets."""
        with self._lock:
            wanted = wanted_by(request, len(self.asked) + 1)
            if self.backend is None:
                self.backend = wanted.backend
            is_primary = wanted.backend == self.backend
            reply = healthy(wanted)
            if self.case is not None and is_primary:
                reply = self.case.reply(len(self.primary), wanted)
            self.asked.append(
                SeenRequest(
                    at=request.at - self.began,
                    wanted=wanted,
                    is_primary=is_primary,
                    headers=request.headers,
                    reply=reply,
                )
            )
            return reply

    @property
    def primary(self) -> list[SeenRequest]:
        """Return the requests that the primary got."""
        return [each for each in self.asked if each.is_primary]
