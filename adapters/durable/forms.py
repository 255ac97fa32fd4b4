"""What a database holds of a call: plain data for JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from rungwise.fsm.call.conversation.parts import Message, ToolCall
from rungwise.fsm.call.conversation.plain import MARK, VERSION, read_stored, stored
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.call.conversation.verdict import Finding
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.failures.failure import NEVER_SENT, Failure
from rungwise.fsm.values.frozen_map import thawed
from rungwise.fsm.values.usage import Usage

Plain = dict[str, Any]

_OF_REPLY: Final = ("final_text", "model", "interrupted", "halted", "stop_reason", "stop_raw", "refusal")
_OF_FAILURE: Final = [each.name for each in attrs.fields(Failure) if each.name != "exception"]
_OF_RESULT: Final = (
    *("outcome", "text", "final_text", "reasoning", "cause"),
    *("cost", "seconds", "attempts", "backend", "overran"),
)


class RecordedError(Exception):
    """Stand for an exception of another process; its class has the name of that of the original."""


def plain_request(request: Request) -> Plain:
    """Return a request as plain data, headers included."""
    plain = {each.name: getattr(request, each.name) for each in attrs.fields(Request) if each.name != "messages"}
    plain["headers"] = dict(request.headers)
    return {"messages": [stored(message) for message in request.messages], **thawed(plain)}


def read_request(plain: Mapping[str, Any]) -> Request:
    """Return the request that `plain_request` wrote."""
    return Request(**plain)


def plain_reply(reply: Reply | Failure) -> Plain:
    """Return what came back as plain data; the body itself is left out."""
    if isinstance(reply, Failure):
        return {"failure": _plain_failure(reply)}
    plain = _changed(reply, _OF_REPLY)
    if reply.failure is not None:
        plain["failure"] = _plain_failure(reply.failure)
    return {**plain, "parts": stored(Message("assistant", reply.parts))["parts"], "usage": _changed(reply.usage)}


def read_reply(plain: Mapping[str, Any]) -> Reply | Failure:
    """Return what `plain_reply` wrote."""
    values = dict(plain)
    failure = values.pop("failure", None)
    failure = None if failure is None else _read_failure(failure)
    if "parts" not in values:
        assert failure is not None
        return failure
    values["parts"] = _read_parts(values["parts"])
    return Reply(**{**values, "usage": Usage(**values["usage"]), "failure": failure})


def plain_finding(finding: Finding | None) -> Plain | None:
    """Return what verdicts found wrong as plain data; None for nothing."""
    if finding is None or finding.is_right:
        return None
    return {**_changed(finding, ("reasons", "note", "of_calls")), "raised": _name_of(finding.raised)}


def read_finding(plain: Mapping[str, Any] | None) -> Finding | None:
    """Return what `plain_finding` wrote."""
    if plain is None:
        return None
    lists = {name: tuple(plain.get(name, ())) for name in ("reasons", "of_calls")}
    return Finding(note=plain["note"], raised=_error(plain["raised"]), **lists)


def plain_result(result: Result) -> Plain:
    """Return a result as plain data; its journal is in it."""
    return {
        **{name: getattr(result, name) for name in _OF_RESULT},
        "parts": list(result.parts),
        "usage": _changed(result.usage),
        "tool_calls": stored(Message("assistant", result.tool_calls))["parts"],
        "turn": stored(Message("assistant", result.turn))["parts"],
        "failures": [[name, _plain_failure(failure)] for name, failure in result.failures],
        "reply": None if result.reply is None else plain_reply(result.reply),
        "raised": _name_of(result.raised),
        "journal": result.journal.to_document(),
    }


def read_result(plain: Mapping[str, Any], shapes: Shapes = NEUTRAL, value: Any = None) -> Result:
    """Return the result that `plain_result` wrote."""
    reply = None if plain["reply"] is None else read_reply(plain["reply"])
    return Result(
        **{name: plain[name] for name in _OF_RESULT},
        parts=tuple(plain["parts"]),
        usage=Usage(**plain["usage"]),
        tool_calls=tuple(part for part in _read_parts(plain["tool_calls"]) if isinstance(part, ToolCall)),
        turn=_read_parts(plain["turn"]),
        failures=tuple((name, _read_failure(failure)) for name, failure in plain["failures"]),
        reply=reply if isinstance(reply, Reply) else None,
        raised=_error(plain["raised"]),
        journal=Journal.from_document(plain["journal"]),
        shapes=shapes,
        value=value,
    )


def _changed(instance: Any, names: Any = None) -> Plain:
    """Return the fields of an object that differ from their defaults."""
    fields = {each.name: each for each in attrs.fields(type(instance))}
    values = {name: getattr(instance, name) for name in (names or fields)}
    return {name: value for name, value in values.items() if value != fields[name].default}


def _read_parts(parts: Any) -> Any:
    return read_stored({MARK: VERSION, "role": "assistant", "parts": parts}, "the database").parts


def _plain_failure(failure: Failure) -> Plain:
    plain = _changed(failure, _OF_FAILURE)
    if failure.exception is not None:
        plain["exception"] = _name_of(failure.exception)
    return plain


def _read_failure(plain: Mapping[str, Any]) -> Failure:
    return Failure(**{**plain, "exception": _error(plain.get("exception"))})


def _name_of(error: BaseException | None) -> str | None:
    if error is None:
        return None
    names = [kind.__name__ for kind in type(error).__mro__]
    return next((name for name in names if name in NEVER_SENT), names[0])


def _error(name: str | None) -> Exception | None:
    if name is None:
        return None
    error: Exception = type(name, (RecordedError,), {})("it was raised in another process")
    return error
