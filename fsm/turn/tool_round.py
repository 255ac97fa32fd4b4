"""A round of tools: which calls of a reply run, and the text of each result that the model gets.

A call may wait for the caller's approval; the turn goes on with `Resumed` once it is given.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

import attrs
import orjson
from attrs import define, evolve, field, frozen

from rungwise.fsm.call.budget.estimate import BYTES_A_TOKEN, estimate_tokens
from rungwise.fsm.call.budget.metering import bytes_of
from rungwise.fsm.call.conversation.plain import in_words
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.errors import ConfigurationError, ToolError
from rungwise.fsm.replies.parts import MediaPart, Message, ToolCall, ToolResult
from rungwise.fsm.replies.schemas.validator import bounded
from rungwise.fsm.replies.text.contents import exact, without_halves
from rungwise.fsm.turn.actions import ToolOutcome
from rungwise.fsm.turn.conversation import Conversation, ResultEntry
from rungwise.fsm.turn.policy import TurnHints, TurnPolicy
from rungwise.fsm.turn.tools import Toolbox, ToolRun
from rungwise.fsm.turn.validity import Messages
from rungwise.fsm.values.label import label, short

DONE: Final = "done"
"""The result of a tool that returned None."""

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_WRITTEN: Final = (Decimal, PurePath, UUID, IPv4Address, IPv6Address)
_LISTED: Final = (AbstractSet, deque, tuple)


class _NoForm(TypeError):
    """Name the type that has no form in JSON; never quote the value."""


def result_text(value: Any) -> str:
    """Return what a tool returned for the model: a text unchanged, None as "done", the rest as JSON
    or a ToolError.
    """
    if value is None:
        return DONE
    if isinstance(value, str):
        return without_halves(str(value.value if isinstance(value, Enum) else value))
    try:
        return orjson.dumps(value, default=_plain, option=_OPTIONS).decode()
    except TypeError:
        pass  # orjson also refuses lone surrogates and integers beyond 64 bits
    try:
        return without_halves(json.dumps(value, default=_plain, ensure_ascii=False))
    except _NoForm as fault:
        raise ToolError(f"the tool returned what has no form in JSON: {fault}") from None
    except RecursionError:
        raise ToolError("the tool returned what is nested too deeply for JSON") from None
    except (TypeError, ValueError):  # odd keys, a reference circle, an integer of too many digits
        kind = label(type(value).__name__)
        raise ToolError(
            f"the tool returned what has no form in JSON, within an object of type {kind}"
        ) from None


def _plain(value: Any) -> Any:
    kind = type(value)
    try:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, tuple) and hasattr(kind, "_asdict"):
            return value._asdict()  # type: ignore[attr-defined]
        if isinstance(value, AbstractSet):
            # sorted where its values can be, so that equal sets give equal texts
            with suppress(TypeError):
                return sorted(value)
        if isinstance(value, _LISTED):
            return list(value)
        if isinstance(value, _WRITTEN):
            return str(value)
        if isinstance(value, date | time):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, Enum):
            return value.value
        if attrs.has(kind):
            return {field.name: getattr(value, field.name) for field in attrs.fields(kind)}
        if is_dataclass(kind):
            return {field.name: getattr(value, field.name) for field in fields(value)}
        # if nobody imported it, the value is not one of its models
        pydantic = sys.modules.get("pydantic")
        if pydantic is not None and isinstance(value, pydantic.BaseModel):
            return value.model_dump(mode="json")
    except Exception:  # properties of the caller's classes may raise anything
        pass
    raise _NoForm(f"an object of type {label(kind.__name__)}")


def shortened(texts: Sequence[str], tokens: int) -> tuple[str, ...]:
    """Shorten texts to a number of tokens in all, beside the marks of the cuts: the longest first,
    to equal lengths.
    """
    sizes = [bytes_of(text) for text in texts]
    most = _level(sizes, tokens * BYTES_A_TOKEN)
    return tuple(
        [
            text if size <= most else _cut(text, size, most)
            for text, size in zip(texts, sizes, strict=True)
        ]
    )


def _level(sizes: Sequence[int], room: int) -> int:
    """Return how many bytes each text may have; short texts leave their room to the long ones."""
    for number, size in enumerate(sorted(sizes)):
        share = max(0, room) // (len(sizes) - number)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _mark(characters: int) -> str:
    return f"\n[... {characters} characters left out ...]\n"


def _cut(text: str, size: int, most: int) -> str:
    """Return the head and the tail of a text around a mark; the whole text if that is not
    longer.
    """
    room = max(0, most - len(_mark(len(text))))
    if len(_mark(len(text))) + room >= size:
        return text
    data = text.encode("utf-8", "surrogatepass")
    end = room - room // 3
    start = size - room // 3
    while end > 0 and data[end] & 0xC0 == 0x80:  # within a code point
        end -= 1
    while start < size and data[start] & 0xC0 == 0x80:
        start += 1
    head, tail = (part.decode("utf-8", "surrogatepass") for part in (data[:end], data[start:]))
    return f"{head}{_mark(len(text) - len(head) - len(tail))}{tail}"


@frozen
class ToolRound:
    """Hold one round of tools."""

    calls: tuple[ToolCall, ...]
    runs: tuple[tuple[int, ToolRun], ...]  # each with its place among all calls
    faults: dict[int, str]  # what is wrong with the others, by place, in words for the model
    handed: frozenset[int]  # the places of the terminating calls that need no run
    is_too_long: bool
    # the places of the calls that need the caller's approval
    awaiting: frozenset[int] = frozenset()

    @property
    def waiting(self) -> tuple[ToolCall, ...]:
        """Return the calls that wait for approval."""
        return tuple(self.calls[place] for place in sorted(self.awaiting))

    @property
    def already_run(self) -> tuple[ToolCall, ...]:
        """Return the calls that ran."""
        return tuple(self.calls[place] for place, _ in self.runs)

    @classmethod
    def of(
        cls,
        calls: tuple[ToolCall, ...],
        tools: Toolbox,
        policy: TurnPolicy,
        seconds: float | None,
        decided: Mapping[int, bool | str] | None = None,
    ) -> ToolRound:
        """Plan a round; for a turn that goes on, the caller has decided on each call that waited,
        and only they run.
        """
        runs = list[tuple[int, ToolRun]]()
        handed = set[int]()
        awaiting = set[int]()
        most = policy.calls_per_reply
        faults = {} if decided else dict.fromkeys(range(most, len(calls)), policy.hints.too_many)
        places = [*range(len(calls[:most]))] if decided is None else sorted(decided)
        with bounded():  # the work of checking all calls together
            plans = {place: tools.plan(calls[place], policy.tool_seconds) for place in places}
        for place, planned in plans.items():
            if decided is not None and isinstance(refusal := decided[place], str):
                faults[place] = refusal
            elif isinstance(planned, str):
                faults[place] = planned
            elif decided is None and planned.tool.waits_for_approval(planned.arguments):
                awaiting.add(place)
            elif planned.tool.function is None and tools.executor is None:
                handed.add(place)
            else:
                limit = planned.seconds if seconds is None else min(planned.seconds, seconds)
                runs.append((place, evolve(planned, seconds=limit)))
        is_too_long = decided is None and len(calls) > most
        return cls(calls, tuple(runs), faults, frozenset(handed), is_too_long, frozenset(awaiting))

    def entries(
        self, outcomes: Sequence[ToolOutcome | None], policy: TurnPolicy, *, may_lack: bool = False
    ) -> list[ResultEntry]:
        """Return the results of the calls whose outcome is known, in the order of the calls; they
        `may_lack` some.
        """
        count = len(self.runs)
        if not isinstance(outcomes, list | tuple) or len(outcomes) != count:
            raise ConfigurationError(
                f"outcomes must be a list with a ToolOutcome for each of the {count} runs"
            )
        for each in outcomes:
            if not isinstance(each, ToolOutcome) and not (each is None and may_lack):
                raise ConfigurationError(
                    f"outcomes must hold a ToolOutcome for each run, not {type(each).__name__}"
                )
        results = {
            place: ResultEntry(place, policy.hints.handed_off, False) for place in self.handed
        }
        results |= {place: ResultEntry(place, text, True) for place, text in self.faults.items()}
        room = policy.result_tokens
        for (place, _), outcome in zip(self.runs, outcomes, strict=True):
            if outcome is not None:
                results[place] = entry_of(place, outcome, room)
                room -= _tokens_of(results[place].media)
        entries = [results[place] for place in sorted(results)]
        texts = shortened([entry.text for entry in entries], room)
        told = [entry._replace(text=text) for entry, text in zip(entries, texts, strict=True)]
        # By this text a call that waits is known when the turn goes on, so it is never cut.
        waits = [ResultEntry(place, policy.hints.awaiting, True) for place in self.awaiting]
        return sorted([*told, *waits], key=lambda entry: entry.place)

    def handed_off(self, tools: Toolbox, conversation: Conversation) -> tuple[ToolCall, ...]:
        """Return the terminating calls that succeeded."""
        ends = [
            (place, call)
            for place, call in enumerate(self.calls)
            if tools.is_terminating(call.name)
        ]
        return tuple(call for place, call in ends if not conversation.results[place].is_fault)


def entry_of(place: int, outcome: ToolOutcome, room: int) -> ResultEntry:
    """Return the result of a tool for the model; pictures and files beyond so many tokens are named
    only.
    """
    if outcome.fault is not None:
        return ResultEntry(place, outcome.fault, True)
    value, media = media_in(outcome.value)
    shown = tuple(part for count, part in enumerate(media, 1) if _tokens_of(media[:count]) <= room)
    try:
        texts = [in_words(part) for part in media if part not in shown or value is None]
        if not media or value is not None:
            texts.insert(0, result_text(value))
        return ResultEntry(place, "\n".join(texts), False, shown)
    except ToolError as error:
        return ResultEntry(place, str(error), True)


def media_in(value: Any) -> tuple[Any, tuple[MediaPart, ...]]:
    """Part the pictures and files that a tool returned from what else it returned, which is None
    for nothing else.
    """
    if isinstance(value, MediaPart):
        return None, (value,)
    if not isinstance(value, list | tuple) or not any(
        isinstance(each, MediaPart) for each in value
    ):
        return value, ()
    others = [each for each in value if not isinstance(each, MediaPart)]
    media = tuple(each for each in value if isinstance(each, MediaPart))
    return (others[0] if len(others) == 1 else others or None), media


def _tokens_of(media: tuple[MediaPart, ...]) -> int:
    return estimate_tokens(media) if media else 0


@define(eq=False)
class Repeats:
    """Count how often the same call returned the same result."""

    _seen: Counter[tuple[str, Any, str]] = field(factory=Counter, init=False)

    def count(self, call: ToolCall, result: ToolResult) -> int:
        """Count a call and return how often it has had this result."""
        key = call.name, _canonical(call.arguments), result.text
        self._seen[key] += 1
        return self._seen[key]


def _canonical(arguments: str) -> bytes | str:
    try:
        return orjson.dumps(
            exact(orjson.loads(arguments), arguments.encode()), option=orjson.OPT_SORT_KEYS
        )
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return arguments


Approvals = Mapping[str, "bool | str"]
"""For the id of each call that waits: True, or why it is refused."""

NOT_AWAITING = (
    "approvals are for the messages of a turn that awaits approval: pass its "
    "result.messages, unchanged"
)


@frozen
class Resumed:
    """Hold the reply at which a turn goes on."""

    before: tuple[PlainMessage | Message, ...]  # the conversation before it
    calling: Message
    results: Mapping[int, ToolResult]  # that it has already, by the place of the call
    # for the place of each call that waited, True or the reason why it is refused
    decided: Mapping[int, bool | str]

    @classmethod
    def of(cls, messages: Messages, approvals: Any, hints: TurnHints, tools: Toolbox) -> Resumed:
        """Match approvals with the calls that wait at the end of a conversation, whose results are
        `hints.awaiting`.

        Raise a ConfigurationError if none waits there, the ids are not theirs, or an approved call
        fits no tool.
        """
        if not isinstance(approvals, Mapping):
            raise ConfigurationError(
                f"approvals must map the ids of calls to True or a reason, not {short(approvals)}"
            )
        calling, told = messages[-2:] if len(messages) > 1 else (None, None)
        if not isinstance(calling, Message) or not isinstance(told, Message):
            raise ConfigurationError(NOT_AWAITING)
        places = {call.id: place for place, call in enumerate(calling.tool_calls)}
        paused = [
            each.id for each in told.tool_results if each.is_fault and each.text == hints.awaiting
        ]
        waits = {id: places[id] for id in paused if id in places}
        if not waits:
            raise ConfigurationError(NOT_AWAITING)
        if approvals.keys() != waits.keys():
            odd = min(set(map(str, approvals)) ^ waits.keys())
            raise ConfigurationError(
                f"approvals must hold each call that waits, {', '.join(waits)}; see {short(odd)}"
            )
        for id, given in approvals.items():
            if given is not True and not (isinstance(given, str) and given.strip()):
                raise ConfigurationError(
                    f"approvals[{short(id)}] must be True, or the reason why it is refused"
                )
        for id, place in waits.items():
            call = calling.tool_calls[place]
            if approvals[id] is True and isinstance(tools.plan(call, 0.0), str):
                fault = (
                    f"approvals[{short(id)}]: none of the tools takes this call of "
                    f"{short(call.name)}"
                )
                raise ConfigurationError(
                    f"{fault}; pass the tools of the turn that awaits approval"
                )
        settled = {
            places[each.id]: each
            for each in told.tool_results
            if each.id not in waits and each.id in places
        }
        return cls(
            tuple(messages[:-2]),
            calling,
            settled,
            {place: approvals[id] for id, place in waits.items()},
        )

    @property
    def waiting(self) -> tuple[ToolCall, ...]:
        """Return the calls that wait."""
        return tuple(self.calling.tool_calls[place] for place in sorted(self.decided))

    @property
    def already_run(self) -> tuple[ToolCall, ...]:
        """Return the calls that have run."""
        return tuple(self.calling.tool_calls[place] for place in sorted(self.results))
