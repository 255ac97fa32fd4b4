"""A round of tools: which calls of a reply run, and the text of each result that the model gets.

A call may wait for the caller's approval; the turn goes on with `resumed.Resumed` once it is given.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from collections.abc import Mapping, Sequence, Set
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
from rungwise.fsm.errors import ConfigurationError, ToolError
from rungwise.fsm.replies.parts import MediaPart, ToolCall, ToolResult
from rungwise.fsm.replies.schemas.validator import bounded
from rungwise.fsm.replies.text.contents import exact, without_halves
from rungwise.fsm.turn.actions import ToolOutcome
from rungwise.fsm.turn.conversation import Conversation, ResultEntry
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Toolbox, ToolRun
from rungwise.fsm.values.label import label

DONE: Final = "done"
"""The result of a tool that returned None."""

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_WRITTEN: Final = (Decimal, PurePath, UUID, IPv4Address, IPv6Address)
_LISTED: Final = (Set, deque, tuple)


class _NoForm(TypeError):
    """Name the type that has no form in JSON; never quote the value."""


def result_text(value: Any) -> str:
    """Return what a tool returned for the model: a text unchanged, None as "done", the rest as JSON
    or a ToolError.
    """
    if value is None:
        return DONE
    if isinstance(value, str):
        text = value.value if isinstance(value, Enum) else value
        return without_halves(str(text))
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
        if isinstance(value, Set):
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
    shorter = []
    for text, size in zip(texts, sizes, strict=True):
        shorter.append(text if size <= most else _cut(text, size, most))
    return tuple(shorter)


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
    head = data[:end].decode("utf-8", "surrogatepass")
    tail = data[start:].decode("utf-8", "surrogatepass")
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
        """Plan a round: which calls run, and what is wrong with the others.

        Arguments:
            calls: the tool calls of the reply.
            tools: the tools of the turn.
            policy: how many calls of one reply run.
            seconds: what is left of the turn's time; None for no limit.
            decided: for a turn that goes on, what the caller has decided on each call that waited,
                by its place; only they run then.
        """
        runs = list[tuple[int, ToolRun]]()
        handed = set[int]()
        awaiting = set[int]()
        faults: dict[int, str] = {}
        most = policy.calls_per_reply
        # None is a new round; otherwise only what was decided runs.
        if not decided:
            faults = dict.fromkeys(range(most, len(calls)), policy.hints.too_many)
        places = sorted(decided or ())
        if decided is None:
            places = list(range(len(calls[:most])))
        with bounded():  # the work of checking all calls together
            plans = {place: tools.plan(calls[place], policy.tool_seconds) for place in places}
        for place, planned in plans.items():
            decision = True if decided is None else decided[place]
            if isinstance(decision, str):
                faults[place] = decision
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
        return cls(
            calls=calls,
            runs=tuple(runs),
            faults=faults,
            handed=frozenset(handed),
            is_too_long=is_too_long,
            awaiting=frozenset(awaiting),
        )

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
        results = {}
        for place in self.handed:
            results[place] = ResultEntry(place, policy.hints.handed_off, False)
        for place, text in self.faults.items():
            results[place] = ResultEntry(place, text, True)
        room = policy.result_tokens
        for (place, _), outcome in zip(self.runs, outcomes, strict=True):
            if outcome is not None:
                results[place] = entry_of(place, outcome, room)
                room -= _tokens_of(results[place].media)
        whole = [results[place] for place in sorted(results)]
        texts = shortened([entry.text for entry in whole], room)
        entries = [entry._replace(text=text) for entry, text in zip(whole, texts, strict=True)]
        # By this text a call that waits is known when the turn goes on, so it is never cut.
        entries += [ResultEntry(place, policy.hints.awaiting, True) for place in self.awaiting]
        return sorted(entries, key=lambda entry: entry.place)

    def handed_off(self, tools: Toolbox, conversation: Conversation) -> tuple[ToolCall, ...]:
        """Return the terminating calls that succeeded."""
        ended = []
        for place, call in enumerate(self.calls):
            if tools.is_terminating(call.name) and not conversation.results[place].is_fault:
                ended.append(call)
        return tuple(ended)


def entry_of(place: int, outcome: ToolOutcome, room: int) -> ResultEntry:
    """Return the result of a tool for the model; pictures and files beyond so many tokens are named
    only.
    """
    if outcome.fault is not None:
        return ResultEntry(place, outcome.fault, True)
    value, media = media_in(outcome.value)
    shown = []
    for count, part in enumerate(media, 1):
        if _tokens_of(media[:count]) <= room:
            shown.append(part)
    try:
        texts = [in_words(part) for part in media if part not in shown or value is None]
        if not media or value is not None:
            texts.insert(0, result_text(value))
        return ResultEntry(place, "\n".join(texts), False, tuple(shown))
    except ToolError as error:
        return ResultEntry(place, str(error), True)


def media_in(value: Any) -> tuple[Any, tuple[MediaPart, ...]]:
    """Part the pictures and files that a tool returned from what else it returned, which is None
    for nothing else.
    """
    if isinstance(value, MediaPart):
        return None, (value,)
    if not isinstance(value, list | tuple):
        return value, ()
    media = [each for each in value if isinstance(each, MediaPart)]
    if not media:
        return value, ()
    others = [each for each in value if not isinstance(each, MediaPart)]
    if len(others) == 1:
        return others[0], tuple(media)
    return others or None, tuple(media)


def _tokens_of(media: tuple[MediaPart, ...]) -> int:
    return estimate_tokens(media) if media else 0


@define(eq=False)
class Repeats:
    """Count how often the same call returned the same result."""

    _seen: Counter[tuple[str, Any, str]] = field(factory=Counter, init=False)

    def count(self, call: ToolCall, result: ToolResult) -> int:
        """Count a call and return how often it has had this result."""
        key = (call.name, _canonical(call.arguments), result.text)
        self._seen[key] += 1
        return self._seen[key]


def _canonical(arguments: str) -> bytes | str:
    try:
        read = exact(orjson.loads(arguments), arguments.encode())
        return orjson.dumps(read, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return arguments
