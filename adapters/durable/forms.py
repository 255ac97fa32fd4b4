"""What a database holds of a call: plain data for JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from rungwise.fsm.call.conversation.observation import Finding
from rungwise.fsm.call.conversation.plain import MARK, VERSION, read_stored, stored
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.errors import ToolError
from rungwise.fsm.replies.failures.failure import NEVER_SENT, Failure
from rungwise.fsm.replies.parts import Message, Part
from rungwise.fsm.replies.reply import Discard, Reasoning, Reply, Text
from rungwise.fsm.turn.actions import ToolOutcome
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.tool_round import media_in, result_text
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.frozen_map import thawed
from rungwise.fsm.values.usage import Usage

Plain = dict[str, Any]

_OF_REPLY: Final = (
    "final_text",
    "model",
    "interrupted",
    "halted",
    "stop_reason",
    "stop_raw",
    "refusal",
)
_OF_FAILURE: Final = [each.name for each in attrs.fields(Failure) if each.name != "exception"]
_OF_RESULT: Final = (
    "outcome",
    "text",
    "final_text",
    "reasoning",
    "cause",
    "cost",
    "seconds",
    "attempts",
    "backend",
    "overran",
)
_EVENTS: Final[Mapping[str, type[Text | Reasoning | Discard]]] = {
    each.__name__: each for each in (Text, Reasoning, Discard)
}
_OF_TURN: Final = ("outcome", "text", "cost", "seconds", "calls", "attempts", "cause")
_CALLS_OF_TURN: Final = ("handed_off", "awaiting", "already_run")


class RecordedError(Exception):
    """Stand for an exception of another process; its class has the name of that of the original."""


def plain_request(request: Request) -> Plain:
    """Return a request as plain data, headers included."""
    plain = {
        each.name: getattr(request, each.name)
        for each in attrs.fields(Request)
        if each.name != "messages"
    }
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
    return {**plain, "parts": _parts(reply.parts), "usage": _changed(reply.usage)}


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
    return {
        **_changed(finding, ("reasons", "note", "of_calls")),
        "raised": name_of_error(finding.raised),
    }


def read_finding(plain: Mapping[str, Any] | None) -> Finding | None:
    """Return what `plain_finding` wrote."""
    if plain is None:
        return None
    lists = {name: tuple(plain.get(name, ())) for name in ("reasons", "of_calls")}
    return Finding(note=plain["note"], raised=recorded_error(plain["raised"]), **lists)


def plain_result(result: Result) -> Plain:
    """Return a result as plain data; its journal is in it."""
    return {
        **{name: getattr(result, name) for name in _OF_RESULT},
        "parts": list(result.parts),
        "usage": _changed(result.usage),
        "tool_calls": _parts(result.tool_calls),
        "turn": _parts(result.turn),
        "failures": [[name, _plain_failure(failure)] for name, failure in result.failures],
        "reply": None if result.reply is None else plain_reply(result.reply),
        "raised": name_of_error(result.raised),
        "journal": result.journal.to_document(),
    }


def read_result(plain: Mapping[str, Any], shapes: Shapes = NEUTRAL, value: Any = None) -> Result:
    """Return the result that `plain_result` wrote."""
    reply = None if plain["reply"] is None else read_reply(plain["reply"])
    return Result(
        **{name: plain[name] for name in _OF_RESULT},
        parts=tuple(plain["parts"]),
        usage=Usage(**plain["usage"]),
        tool_calls=_read_parts(plain["tool_calls"]),
        turn=_read_parts(plain["turn"]),
        failures=tuple((name, _read_failure(failure)) for name, failure in plain["failures"]),
        reply=reply if isinstance(reply, Reply) else None,
        raised=recorded_error(plain["raised"]),
        journal=Journal.from_document(plain["journal"]),
        shapes=shapes,
        value=value,
    )


def plain_outcome(outcome: ToolOutcome) -> Plain:
    """Return the outcome of a tool as the model gets it, as plain data."""
    if outcome.fault is not None:
        return {"fault": outcome.fault}
    value, media = media_in(outcome.value)
    try:
        text = None if media and value is None else result_text(value)
    except ToolError as error:
        return {"fault": str(error)}
    return {"text": text, "media": _parts(media)}


def read_outcome(plain: Mapping[str, Any]) -> ToolOutcome:
    """Return what `plain_outcome` wrote."""
    if "fault" in plain:
        return ToolOutcome(fault=plain["fault"])
    text = plain["text"]
    media = _read_parts(plain["media"])
    return ToolOutcome([*([] if text is None else [text]), *media] if media else text)


def plain_turn_result(result: TurnResult) -> Plain:
    """Return the result of a turn as plain data; the journals of its calls are in it."""
    return {
        **{name: getattr(result, name) for name in _OF_TURN},
        **{name: _parts(getattr(result, name)) for name in _CALLS_OF_TURN},
        "messages": list(result.messages),
        "usage": _changed(result.usage),
        "last": None if result.last is None else plain_result(result.last),
        "raised": name_of_error(result.error),
        "journal": result.journal.to_document(),
    }


def read_turn_result(
    plain: Mapping[str, Any], shapes: Shapes = NEUTRAL, value: Any = None
) -> TurnResult:
    """Return the result that `plain_turn_result` wrote."""
    return TurnResult(
        **{name: plain[name] for name in _OF_TURN},
        **{name: _read_parts(plain[name]) for name in _CALLS_OF_TURN},
        messages=Request(plain["messages"]).messages,
        usage=Usage(**plain["usage"]),
        last=None if plain["last"] is None else read_result(plain["last"], shapes, value),
        error=recorded_error(plain["raised"]),
        journal=TurnJournal.from_document(plain["journal"]),
        shapes=shapes,
        value=value,
    )


def _changed(instance: Any, names: Any = None) -> Plain:
    fields = {each.name: each for each in attrs.fields(type(instance))}
    values = {name: getattr(instance, name) for name in (names or fields)}
    return {name: value for name, value in values.items() if value != fields[name].default}


def plain_event(event: StreamEvent) -> Plain:
    """Return an event of a stream as plain data."""
    if isinstance(event, Step):
        return {"Step": event.to_mapping()}
    return {type(event).__name__: getattr(event, "text", "")}


def read_event(plain: Mapping[str, Any]) -> StreamEvent:
    """Return what `plain_event` wrote."""
    [(name, value)] = plain.items()
    if name != "Step":
        return _EVENTS[name](value)
    usage = Usage(**value.get("usage", {}))
    return Step(**{**value, "usage": usage, "facts": tuple(value.get("facts", ()))})


def _parts(parts: Sequence[Part]) -> Any:
    return stored(Message("assistant", tuple(parts)))["parts"]


def _read_parts(parts: Any) -> Any:
    return read_stored({MARK: VERSION, "role": "assistant", "parts": parts}, "the database").parts


def _plain_failure(failure: Failure) -> Plain:
    plain = _changed(failure, _OF_FAILURE)
    if failure.exception is not None:
        plain["exception"] = name_of_error(failure.exception)
    return plain


def _read_failure(plain: Mapping[str, Any]) -> Failure:
    return Failure(**{**plain, "exception": recorded_error(plain.get("exception"))})


def name_of_error(error: BaseException | None) -> str | None:
    """Return the name by which an exception is stored."""
    if error is None:
        return None
    names = [kind.__name__ for kind in type(error).__mro__]
    return next((name for name in names if name in NEVER_SENT), names[0])


def recorded_error(name: str | None) -> Exception | None:
    """Return an exception that stands for one of this name; None for none."""
    if name is None:
        return None
    error: Exception = type(name, (RecordedError,), {})("it was raised in another process")
    return error
