"""What may go wrong with a call.

Each trouble is one real response, with its status, headers and body, and is read as the wires read
it; a test plays the same ones over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from attrs import field, frozen

from rungwise.fsm.analysis.certificate.enactment import AFTER_A_TOOL, PLAIN
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.causes import CAUSES
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.replies.failures.classify import classify_response
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply

SOON = 10.0
"""The shortest wait that a service requests here, in seconds."""

LONGEST_ASKED = 86_400.0
"""The longest wait that a service requests here, in seconds, even if a policy allows more."""


class ConnectError(Exception):
    """Stand for the exception of an HTTP client whose connection was refused, so that nothing was
    sent.
    """


@frozen
class Response:
    """Hold a response that is no reply, as a server sends it."""

    status: int
    body: str
    headers: Mapping[str, str] = field(factory=dict, hash=False)

    @property
    def failure(self) -> Failure:
        """Return what a wire reads in it."""
        if self.status == 200:
            return Failure("malformed", status=200)
        return classify_response(self.status, self.headers, self.body)


Comes = Callable[[int], Reply | Failure | Response]
"""Makes what comes back from the attempt of this number."""


@frozen
class Trouble:
    """Hold one thing that goes wrong.

    Arguments:
        name: what an operator sees.
        comes: makes what comes back.
        lasts: how long an attempt takes.
        messages: the prompt.
    """

    name: str
    comes: Comes = field(eq=False, repr=False)
    lasts: Literal["no time", "silence", "all its time"] = "no time"
    messages: tuple[Mapping[str, Any], ...] = field(default=PLAIN, eq=False, repr=False)


def marked(fact: str) -> str:
    """Return the finish reason of made-up replies on which a fact holds."""
    return f"on which {fact} holds"


def troubles_of(old: Policy, new: Policy) -> Iterator[Trouble]:
    """Yield what may go wrong; requested waits lie on either side of what each policy allows."""
    yield _responds("429", 429)
    waits = {SOON}
    for policy in (old, new):
        if policy.waits.longest_asked:
            waits.add(min(policy.waits.longest_asked, LONGEST_ASKED))
    waits.add(max(waits) + 1)
    for seconds in sorted(waits):
        name = f"429 with a Retry-After of {seconds:,.10g} s"
        yield _responds(name, 429, headers={"retry-after": repr(seconds)})
    for status in (500, 503, 529):
        yield _responds(str(status), status)
    refused = Failure("unreachable", exception=ConnectError())
    broken = Failure("connection")
    cut = partial(Reply, interrupted=True, failure=broken)
    yield Trouble("a refused connection", lambda number: refused)
    yield Trouble(
        "an attempt that runs into its timeout", lambda number: Failure("timeout"), "all its time"
    )
    yield Trouble("silence before any text", lambda number: Failure("silence"), "silence")
    yield Trouble("a stream that breaks off before any text", lambda number: cut(""))
    yield Trouble("a stream that breaks off after some text", lambda number: cut(_text(number)))
    yield Trouble("an empty reply", partial(reply_of, "came_empty"))
    yield Trouble(
        "an empty reply to a tool result", partial(reply_of, "came_empty"), messages=AFTER_A_TOOL
    )
    for name, event in NAMES.items():
        yield Trouble(name, partial(reply_of, event))
    yield _responds(
        "200 with a page instead of a reply", 200, "<html>", headers={"content-type": "text/html"}
    )
    yield _responds("401", 401, code="invalid_api_key")
    yield Trouble("400 that names a different parameter each time", _rejected)
    yield _responds(
        "a prompt that is too long, without a compactor", 400, code="context_length_exceeded"
    )
    yield from _where_facts_hold((old.table, new.table))


def _responds(
    name: str,
    status: int,
    body: str = "",
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Trouble:
    """Return the trouble of a response.

    Arguments:
        name: what an operator sees.
        status: of the response.
        body: of the response; by default an error in the form of chat completions.
        code: of that error.
        headers: of the response.
    """
    error = {"error": {"message": name, "type": "error", "param": None, "code": code}}
    response = Response(status, body or json.dumps(error), headers or {})
    return Trouble(name, lambda number: response)


def _rejected(number: int) -> Response:
    """Return a response that names another parameter for each attempt."""
    message = f"Unsupported parameter: 'parameter_{number}' is not supported with this model."
    error = {
        "message": message,
        "type": "invalid_request_error",
        "code": "unsupported_parameter",
        "param": f"parameter_{number}",
    }
    return Response(400, json.dumps({"error": error}))


def _where_facts_hold(tables: Iterable[Table]) -> Iterator[Trouble]:
    """Yield for each of the table's own facts the replies on which a guard depends on it."""
    seen: set[tuple[str, str]] = set()
    for table in tables:
        for fact in table.own_facts:
            for event in table.events:
                guards = [table.guard(row.guard) for row in table.ladder(event, table.hub)]
                is_read = any(fact.name in (*guard.holds, *guard.lacks) for guard in guards)
                if is_read and event in EVENTS and (fact.name, event) not in seen:
                    seen.add((fact.name, event))
                    cause = CAUSES[event].replace("`", "")
                    comes = partial(reply_of, event, stop_raw=marked(fact.name))
                    yield Trouble(f"{cause}, {marked(fact.name)}", comes)


def reply_of(event: str, number: int, stop_raw: str | None = None) -> Reply:
    """Return a reply that causes an event, with its own text for each attempt."""
    fields = dict(EVENTS[event])
    if "text" in fields:
        fields["text"] = _text(number)
    return Reply(**fields, stop_raw=stop_raw)


def _text(number: int) -> str:
    """Return a text of several words that differs for each attempt."""
    return " ".join(f"part {number} word {count}" for count in range(6)) + "."


EVENTS: Mapping[str, Mapping[str, Any]] = {
    "answered": {"text": "", "stop_reason": "stop"},
    "called_tools": {"tool_calls": (ToolCall("1", "look_up", "{}"),), "stop_reason": "tool_calls"},
    "came_empty": {"stop_reason": "stop"},
    "only_reasoned": {"reasoning": "thoughts", "stop_reason": "stop"},
    "truncated": {"text": "", "stop_reason": "length"},
    "paused": {"text": "", "stop_reason": "paused"},
    "tools_truncated": {"tool_calls": (ToolCall("1", "look_up", "{"),), "stop_reason": "length"},
    "reasoning_truncated": {"reasoning": "thoughts", "stop_reason": "length"},
    "ended_unclearly": {"text": "", "stop_reason": "unknown"},
    "malformed": {"stop_reason": "unknown"},
    "refused": {"stop_reason": "content_filter"},
}
"""The fields of a reply by the event that it causes; each attempt fills in its own text."""

NAMES: Mapping[str, str] = {
    "reasoning without text": "only_reasoned",
    "text cut at the output cap": "truncated",
    "reasoning that fills the output cap": "reasoning_truncated",
    "a cut tool call": "tools_truncated",
    "an unknown finish reason": "ended_unclearly",
    "a refusal": "refused",
    "a turn that the provider pauses": "paused",
}
