"""Read tool calls, whole or in the pieces of a stream.

OpenAI announces a call with its id and its name, and sends its arguments in pieces with the same
`index`. Other servers omit the index, use 0 for every call, repeat the id or the name with each
piece, or send the call whole; `ToolCalls` tells which pieces belong together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Self

from attrs import Factory, define, evolve, frozen

from rungwise.adapters.wires.chat.own import NOTHING, extras_of
from rungwise.adapters.wires.draft import arguments_of
from rungwise.adapters.wires.json_text import HeldText, ObjectScanner, as_json, mended, weight_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of, text_in
from rungwise.adapters.wires.provider_data import copy_if_sendable
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.text.contents import is_json
from rungwise.fsm.replies.text.growth import whole_object

WEIGHT: Final = 200
"""The bytes that a call counts for besides its id, name and arguments.

So empty calls are bounded too."""

_MOST_PIECES: Final = 1_000
"""The most pieces of arguments that are held before they are joined."""
_DIGITS: Final = re.compile(r"\d{1,9}", re.ASCII)


def calls_in(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a message or a delta unchanged, legacy function calls included."""
    calls = [call for call in list_of(message.get("tool_calls")) if isinstance(call, dict)]
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        calls.append({"function": legacy})
    return calls


@frozen
class _Piece:
    """Hold a tool call, whole or a piece of one."""

    id: str
    name: str
    arguments: str
    is_free: bool  # whether the tool takes free text, not an object
    is_object: bool = False  # whether the arguments came as an object instead of text

    @classmethod
    def of(cls, call: Mapping[str, Any]) -> Self:
        """Read a piece; what it lacks is ""."""
        identifier = text_in(call, "id")
        if not identifier.strip():
            identifier = ""
        name, arguments = _name_and_arguments(call.get("function"), "arguments")
        if not name and arguments in ("", "{}"):
            # Some servers put an empty `custom` beside each function; some may do the reverse.
            custom = _name_and_arguments(call.get("custom"), "input")
            if any(custom):
                return cls(identifier, *custom, is_free=True)
        is_object = isinstance(mapping_of(call.get("function")).get("arguments"), Mapping)
        return cls(identifier, name, arguments, is_free=False, is_object=is_object)


def _name_and_arguments(value: object, place: str) -> tuple[str, str]:
    if not isinstance(value, dict):
        return "", ""
    return text_in(value, "name"), arguments_of(value.get(place))


@define(eq=False)
class _Slot:
    """Gather one call."""

    place: int  # its index, or where it began among the calls
    is_free: bool  # whether the tool takes free text
    id: str = ""
    name: str = ""
    extras: dict[str, Any] = Factory(dict)  # members that only the provider can read
    is_named_again: bool = False  # whether its name came again after whole arguments
    is_in_objects: bool = False  # whether its arguments come as objects instead of text
    _beginnings: list[int] = Factory(list)  # where pieces stand that begin as an object does
    _size: int = 0
    _new: list[str] = Factory(list)  # pieces of the arguments that are not joined yet
    _arguments: HeldText = Factory(HeldText)
    _scanner: ObjectScanner = Factory(ObjectScanner)

    def add(self, piece: str) -> None:
        """Take a piece of the arguments."""
        if piece.startswith("{") and len(self._beginnings) < _MOST_PIECES:
            self._beginnings.append(self._size)
        self._size += len(piece)
        self._new.append(piece)
        if len(self._new) >= _MOST_PIECES:
            self._settle()

    def _settle(self) -> None:
        """Append the pieces and scan them once: a check must not start over each time."""
        piece = "".join(self._new)
        self._new.clear()
        self._arguments.write(piece)
        self._scanner.feed(piece)

    @property
    def is_whole(self) -> bool:
        """Tell whether the arguments are one whole object so far."""
        self._settle()
        return self._scanner.is_whole

    def ends_before(self, piece: _Piece) -> bool:
        """Tell whether a piece under the index of this call, or without one, begins another."""
        if piece.id and self.id:
            return bool(piece.name and self.name) and piece.id != self.id
        if piece.name and self.name:
            if piece.name != self.name:
                return not self.may_grow(piece)
            # Alone, it may come at the end of a call as well as before the arguments of another.
            self.is_named_again = self.is_named_again or self.is_whole
        return self.is_named_again and bool(piece.arguments.strip())

    def may_grow(self, piece: _Piece) -> bool:
        """Tell whether a piece holds the rest of the name [ankit373/hydra#958].

        The call that it belongs to has an id, and no arguments yet; the piece has no id.
        """
        return bool(self.id) and not piece.id and not self._size

    @property
    def arguments(self) -> str:
        """Return the arguments so far.

        Some servers send all of them with each piece, or once more at the end
        [NousResearch/hermes-agent#35718, lidge-jun/opencodex#361], or as several objects
        [can1357/oh-my-pi#2082].
        """
        self._settle()
        text = str(mended(self._arguments.getvalue()))
        if len(self._beginnings) < 2 or is_json(text):
            return text
        if self.is_in_objects:
            return _merged(text)
        last = whole_object(text, self._beginnings)
        return last if is_json(last) else text


def index_of(value: Mapping[str, Any]) -> int | None:
    """Return the index of a choice or a call, which some servers write as text.

    None if it has none.
    """
    index = value.get("index")
    if isinstance(index, str) and _DIGITS.fullmatch(index):
        return int(index)
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if isinstance(index, int) else None


def _merged(text: str) -> str:
    """Return the members of several objects that stand one behind the other as one object."""
    decoder = json.JSONDecoder()
    members: dict[str, Any] = {}
    place = 0
    try:
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            members |= value
    except (ValueError, TypeError, RecursionError):
        return text
    return as_json(members)


class ToolCalls:
    """Put tool calls together from the pieces that the deltas bring.

    Pieces belong together by `index`. Without it, or with one for several calls, a new call shows
    by a name with another id, by another name, or by arguments after arguments that are already
    whole.
    """

    __slots__ = ("_by_id", "_extras_size", "_slots", "by_index", "letters")

    def __init__(self) -> None:
        self.letters = 0  # of ids, names and arguments, together
        self._extras_size = 0
        self._slots: list[_Slot] = []
        self.by_index: dict[int, _Slot] = {}
        self._by_id: dict[str, _Slot] = {}

    def __bool__(self) -> bool:
        return bool(self._slots)

    @property
    def size(self) -> int:
        """Return roughly how many bytes the calls take up."""
        return self.letters + self._extras_size + WEIGHT * len(self._slots)

    @classmethod
    def whole(cls, message: Mapping[str, Any]) -> Self:
        """Return the calls of a whole message."""
        calls = cls()
        for index, call in enumerate(calls_in(message)):
            calls.add({**call, "index": index})
        return calls

    def add(self, call: Mapping[str, Any]) -> None:
        """Take one piece, or one whole call."""
        piece = _Piece.of(call)
        index = index_of(call)
        extras = extras_of(call)
        if not (piece.id or piece.name or piece.arguments or (extras and index in self.by_index)):
            return
        slot = self._find(index, piece.id)
        if slot is not None and slot.ends_before(piece):
            if not piece.name:
                # more arguments without a name are another call of the same tool
                piece = evolve(piece, name=slot.name, is_free=slot.is_free)
            slot = None
        if slot is None:
            place = len(self._slots) if index is None else index
            slot = _Slot(place, piece.is_free)
            self._slots.append(slot)
        if index is not None:
            self.by_index[index] = slot
        if piece.id and not slot.id:
            slot.id = piece.id
            self._by_id.setdefault(piece.id, slot)
            self.letters += len(piece.id)
        if piece.name and piece.name != slot.name and (not slot.name or slot.may_grow(piece)):
            slot.name += piece.name
            slot.is_free = piece.is_free
            self.letters += len(piece.name)
        slot.is_in_objects = slot.is_in_objects or piece.is_object
        if piece.arguments:
            slot.add(piece.arguments)
            self.letters += len(piece.arguments)
        if extras:
            slot.extras |= extras
            self._extras_size += weight_of(as_json(extras).encode())

    def go_on(self, index: int, arguments: str) -> None:
        """Take a piece of the arguments of the call with this index."""
        slot = self.by_index.get(index)
        if slot is None or slot.is_named_again:  # it may begin another call
            self.add({"index": index, "function": {"arguments": arguments}})
        else:
            slot.add(arguments)
            self.letters += len(arguments)

    def _find(self, index: int | None, identifier: str) -> _Slot | None:
        """Return the call that a piece may belong to: by its index, by its id, or the last one."""
        if index is not None:
            return self.by_index.get(index)
        last = self._slots[-1] if self._slots else None
        if not identifier or (last and not last.id):
            return last
        return self._by_id.get(identifier)

    def gathered(self, provider: str) -> list[ToolCall]:
        """Return the calls so far, in order.

        The arguments of a free-text tool become an object: `{"input": text}`.
        """
        calls = []
        for slot in sorted(self._slots, key=lambda slot: slot.place):
            arguments = slot.arguments
            if slot.is_free:
                arguments = as_json({"input": arguments})
            id = str(mended(slot.id))
            name = str(mended(slot.name))
            extras = (slot.extras and copy_if_sendable(slot.extras)) or NOTHING
            calls.append(ToolCall(id, name, arguments, extras, provider))
        return calls
