"""Read tool calls, whole or in the pieces of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import orjson
from attrs import Factory, define

from adapters.jsontext import as_json
from fsm.reply import ToolCall


def calls_in(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a message or a delta as they came, a legacy function call among them."""
    calls = message.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    legacy = message.get("function_call")
    return [*found, {"function": legacy}] if isinstance(legacy, dict) else found


def _parts(call: Mapping[str, Any]) -> tuple[str, str, str, bool]:
    """Return id, name and arguments of a tool call or a piece of one, and whether it is a call with free text."""
    identifier = call.get("id")
    custom = isinstance(call.get("custom"), dict)
    function = call["custom"] if custom else call.get("function")
    if not isinstance(function, dict):
        function = {}
    name = function.get("name")
    arguments = function.get("input" if custom else "arguments")
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else as_json(arguments)
    return (
        identifier if isinstance(identifier, str) else "",
        name if isinstance(name, str) else "",
        arguments,
        custom,
    )


@define
class _Slot:
    """One tool call on its way."""

    place: int
    custom: bool
    id: str = ""
    name: str = ""
    pieces: list[str] = Factory(list)

    @property
    def is_whole(self) -> bool:
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(orjson.loads("".join(self.pieces)), dict)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            return False


class ToolCalls:
    """Put tool calls together from the pieces that the deltas bring.

    Pieces belong together by `index`. Where a server leaves it out, or gives several calls the same one, a new call
    shows by a name with another id, or with arguments that follow arguments which are whole already.
    """

    __slots__ = ("_by_index", "_slots")

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}

    def __bool__(self) -> bool:
        return bool(self._slots)

    @classmethod
    def whole(cls, message: Mapping[str, Any]) -> Self:
        """Return the calls of a whole message."""
        calls = cls()
        for index, call in enumerate(calls_in(message)):
            calls.add({**call, "index": index})
        return calls

    def add(self, call: Mapping[str, Any]) -> None:
        """Take one piece, or one whole call."""
        identifier, name, arguments, custom = _parts(call)
        if not (identifier or name or arguments):
            return
        index = call.get("index")
        slot = self._find(index, identifier)
        if slot and name and slot.name:
            told = slot.id != identifier if identifier and slot.id else bool(arguments) and slot.is_whole
            slot = None if told else slot
        if slot is None:
            place = index if isinstance(index, int) else len(self._slots)
            slot = _Slot(place, custom)
            self._slots.append(slot)
        if isinstance(index, int):
            self._by_index[index] = slot
        slot.id = slot.id or identifier
        slot.name = slot.name or name
        if arguments:
            slot.pieces.append(arguments)

    def _find(self, index: object, identifier: str) -> _Slot | None:
        if isinstance(index, int):
            return self._by_index.get(index)
        last = self._slots[-1] if self._slots else None
        if not identifier or (last and not last.id):
            return last
        return next((slot for slot in self._slots if slot.id == identifier), None)

    def gathered(self) -> tuple[ToolCall, ...]:
        """Return the calls as far as they have come, in the order of their indices.

        A tool that takes free text gets what all tools get, an object: `{"input": text}`.
        """
        calls = []
        for slot in sorted(self._slots, key=lambda slot: slot.place):
            arguments = "".join(slot.pieces)
            calls.append(ToolCall(slot.id, slot.name, as_json({"input": arguments}) if slot.custom else arguments))
        return tuple(calls)
