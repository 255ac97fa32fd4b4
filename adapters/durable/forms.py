"""What a database holds of a call: plain data for JSON, and back.

Each `plain_...` has its `read_...`. A value that has its default is left out, so that a field that
is added later reads as its default from what an older version wrote.
"""

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
from rungwise.fsm.replies.reply import Commentary, Discard, Reasoning, Reply, Text
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
    "continuation",
    "pieces",
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
    "cost_reported",
    "unpriced",
    "needs_value",
)
_EVENTS: Final[Mapping[str, type[Text | Reasoning | Discard]]] = {
    each.__name__: each for each in (Text, Reasoning, Commentary, Discard)
}
_OF_TURN: Final = (
    "outcome",
    "text",
    "cost",
    "seconds",
    "calls",
    "attempts",
    "cause",
    "cost_reported",
    "unpriced",
)
_CALLS_OF_TURN: Final = ("handed_off", "awaiting", "already_run")


class RecordedError(Exception):
    """Stand for an exception of another process; its class has the name of that of the original."""


def plain_request(request: Request) -> Plain:
    """Return a request as plain data, headers included."""
    messages = [stored(message) for message in request.messages]
    options: Plain = {}
    for each in attrs.fields(Request):
        if each.name != "messages":
            options[each.name] = getattr(request, each.name)
    options["headers"] = dict(request.headers)
    return {"messages": messages, **thawed(options)}


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
    return {
        **plain,
        "parts": _parts(reply.parts),
        "usage": _changed(reply.usage),
    }


def read_reply(plain: Mapping[str, Any]) -> Reply | Failure:
    """Return what `plain_reply` wrote."""
    values = dict(plain)
    failure = _read_failure(values.pop("failure", None))
    if "parts" not in values:
        assert isinstance(failure, Failure)
        return failure
    parts = _read_parts(values.pop("parts"))
    usage = Usage.from_plain(values.pop("usage"))
    return Reply(parts=parts, usage=usage, failure=failure, **values)


def plain_finding(finding: Finding | None) -> Plain | None:
    """Return what verdicts found wrong as plain data; None for nothing."""
    if finding is None or finding.is_right:
        return None
    plain = _changed(finding, ("reasons", "note", "of_calls"))
    plain["raised"] = name_of_error(finding.raised)
    return plain


def read_finding(plain: Mapping[str, Any] | None) -> Finding | None:
    """Return what `plain_finding` wrote."""
    if plain is None:
        return None
    return Finding(
        reasons=tuple(plain.get("reasons", ())),
        of_calls=tuple(plain.get("of_calls", ())),
        note=plain["note"],
        raised=recorded_error(plain["raised"]),
    )


def plain_result(result: Result) -> Plain:
    """Return a result as plain data; its journal is in it."""
    plain: Plain = {name: getattr(result, name) for name in _OF_RESULT}
    plain["parts"] = list(result.parts)
    plain["reasons"] = list(result.reasons)
    plain["usage"] = _changed(result.usage)
    plain["tool_calls"] = _parts(result.tool_calls)
    plain["turn"] = _parts(result.turn)
    plain["failures"] = [[name, _plain_failure(failure)] for name, failure in result.failures]
    plain["reply"] = None if result.reply is None else plain_reply(result.reply)
    plain["raised"] = name_of_error(result.raised)
    plain["journal"] = result.journal.to_document()
    return plain


def read_result(plain: Mapping[str, Any], shapes: Shapes = NEUTRAL, value: Any = None) -> Result:
    """Return the result that `plain_result` wrote.

    Arguments:
        plain: what it wrote.
        shapes: the form of the messages of the backend that answered.
        value: of the answer.
    """
    values: Plain = {name: plain[name] for name in _OF_RESULT if name in plain}
    values["parts"] = tuple(plain["parts"])
    for name in ("unpriced", "reasons"):
        values[name] = tuple(plain.get(name, ()))
    values["usage"] = Usage.from_plain(plain["usage"])
    values["tool_calls"] = _read_parts(plain["tool_calls"])
    values["turn"] = _read_parts(plain["turn"])
    failures = [(name, _read_failure(failure)) for name, failure in plain["failures"]]
    values["failures"] = tuple(failures)
    values["reply"] = None
    if plain["reply"] is not None:
        reply = read_reply(plain["reply"])
        values["reply"] = reply if isinstance(reply, Reply) else None
    values["raised"] = recorded_error(plain["raised"])
    values["journal"] = Journal.from_document(plain["journal"])
    return Result(**values, shapes=shapes, value=value)


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
    if not media:
        return ToolOutcome(text)
    content = [] if text is None else [text]
    return ToolOutcome([*content, *media])


def plain_turn_result(result: TurnResult) -> Plain:
    """Return the result of a turn as plain data; the journals of its calls are in it."""
    plain: Plain = {name: getattr(result, name) for name in _OF_TURN}
    plain |= {name: _parts(getattr(result, name)) for name in _CALLS_OF_TURN}
    plain["messages"] = list(result.messages)
    plain["usage"] = _changed(result.usage)
    plain["last"] = None if result.last is None else plain_result(result.last)
    plain["raised"] = name_of_error(result.error)
    plain["journal"] = result.journal.to_document()
    return plain


def read_turn_result(
    plain: Mapping[str, Any], shapes: Shapes = NEUTRAL, value: Any = None
) -> TurnResult:
    """Return the result that `plain_turn_result` wrote; takes what `read_result` does."""
    values: Plain = {name: plain[name] for name in _OF_TURN if name in plain}
    values |= {name: _read_parts(plain[name]) for name in _CALLS_OF_TURN}
    values["unpriced"] = tuple(plain.get("unpriced", ()))
    values["messages"] = Request(plain["messages"]).messages
    values["usage"] = Usage.from_plain(plain["usage"])
    values["last"] = None
    if plain["last"] is not None:
        values["last"] = read_result(plain["last"], shapes, value)
    values["error"] = recorded_error(plain["raised"])
    values["journal"] = TurnJournal.from_document(plain["journal"])
    return TurnResult(**values, shapes=shapes, value=value)


def _changed(instance: Any, names: Sequence[str] = ()) -> Plain:
    """Return the fields that differ from their defaults, of these names or of all."""
    fields = attrs.fields_dict(type(instance))
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
    values = dict(value)
    values["usage"] = Usage.from_plain(value.get("usage", {}))
    values["facts"] = tuple(value.get("facts", ()))
    return Step(**values)


def _parts(parts: Sequence[Part]) -> Any:
    return stored(Message("assistant", tuple(parts)))["parts"]


def _read_parts(parts: Any) -> Any:
    return read_stored(
        {
            MARK: VERSION,
            "role": "assistant",
            "parts": parts,
        },
        "the database",
    ).parts


def _plain_failure(failure: Failure) -> Plain:
    plain = _changed(failure, _OF_FAILURE)
    if failure.exception is not None:
        plain["exception"] = name_of_error(failure.exception)
    return plain


def _read_failure(plain: Mapping[str, Any] | None) -> Any:
    """Return the failure that `_plain_failure` wrote; None for None."""
    if plain is None:
        return None
    values = dict(plain)
    values["exception"] = recorded_error(plain.get("exception"))
    return Failure(**values)


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
