"""Read tool calls, whole or in the pieces of a stream.

OpenAI announces a call with its id and its name, and sends its arguments in pieces with the same
`index`. Other servers omit the index, use 0 for every call, repeat the id or the name with each
piece, or send the call whole; `take_call` tells which pieces belong together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from attrs import define, evolve, field, frozen

from rungwise.adapters.wires.chat.own import NOTHING, extras_of
from rungwise.adapters.wires.json_text import arguments_of, as_json, input_in, mended, weight_of
from rungwise.adapters.wires.plain.parts import blocks_in, mapping_of, text_in
from rungwise.adapters.wires.provider_data import copy_if_sendable
from rungwise.fsm.replies.assembly.assembly import Assembly
from rungwise.fsm.replies.assembly.items import Item, Items
from rungwise.fsm.replies.assembly.lists import ListedCall
from rungwise.fsm.replies.parts import ToolCall

_CALL: Final = "call"
"""The kind of an item that is a call."""
_DIGITS: Final = re.compile(r"\d{1,9}", re.ASCII)
_OF_CHOICE: Final = frozenset({"index", "delta", "finish_reason", "logprobs"})
_OF_DELTA: Final = frozenset({"role", "content", "tool_calls"})
_OF_CALL: Final = frozenset({"index", "id", "type", "function"})
_OF_FUNCTION: Final = frozenset({"name", "arguments"})
"""All that a chunk with more arguments of a call may hold: no member of a provider's own."""


def calls_in(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a message or a delta unchanged, legacy function calls included."""
    calls = blocks_in(message.get("tool_calls"))
    legacy = message.get("function_call")
    if isinstance(legacy, dict) and not calls:  # some servers write one call both ways
        calls.append({"index": 0, "function": legacy})
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
        identifier = text_in(call, "id", "tool_call_id")
        if not identifier.strip():
            identifier = ""
        name = text_in(call.get("function"), "name") or text_in(call, "name")
        input = input_in(call, "arguments")
        arguments = arguments_of(input)
        if not name and arguments in ("", "{}"):
            # Some servers put an empty `custom` beside each function; some may do the reverse.
            custom = mapping_of(call.get("custom"))
            text = arguments_of(input_in(custom, "input"))
            if text or custom.get("name"):
                return cls(identifier, text_in(custom, "name"), text, is_free=True)
        is_object = isinstance(input, Mapping)
        return cls(identifier, name, arguments, is_free=False, is_object=is_object)


@define(eq=False)
class ChatCall(Item):
    """Gather one call."""

    is_free: bool = field(default=False, init=False)  # whether the tool takes free text
    extras: dict[str, Any] = field(factory=dict, init=False)  # what only the provider can read
    # whether its name came again after whole arguments
    is_named_again: bool = field(default=False, init=False)

    def ends_before(self, piece: _Piece) -> bool:
        """Tell whether a piece under the names of this call, or without any, begins another."""
        if piece.id and self.id and piece.id != self.id and piece.name and self.name:
            return True
        if piece.name and self._is_begun_again(piece):
            return True
        if piece.name and self.name and not (piece.id and self.id):
            if piece.name != self.name:
                return not self.may_grow(piece)
            # Alone, it may come at the end of a call as well as before the arguments of another.
            self.is_named_again = self.is_named_again or self.arguments.is_whole
        if self.is_named_again and not piece.id:
            return bool(piece.arguments.strip())
        return not piece.is_object and self.arguments.is_another(piece.arguments)

    def _is_begun_again(self, piece: _Piece) -> bool:
        """Tell whether a piece is the first one of this call all over again: with its id and the
        beginning of its name, behind its arguments.
        """
        is_beginning = piece.name != self.name and self.name.startswith(piece.name)
        return bool(piece.id) and piece.id == self.id and is_beginning and self.arguments.size > 0

    def may_grow(self, piece: _Piece) -> bool:
        """Tell whether a piece holds the rest of the name [ankit373/hydra#958].

        The call that it belongs to has an id, and no arguments yet; the piece has no other id.
        """
        return bool(self.id) and piece.id in ("", self.id) and not self.arguments.size

    def call(self, provider: str) -> ToolCall:
        """Return the call so far.

        The arguments of a free-text tool become an object: `{"input": text}`.
        """
        arguments = self.arguments.text
        if self.is_free:
            arguments = as_json({"input": self.arguments.written})
        id = str(mended(self.id))
        name = str(mended(self.name))
        extras = (self.extras and copy_if_sendable(self.extras)) or NOTHING
        return ToolCall(id, name, arguments, extras, provider)


def index_of(value: Mapping[str, Any]) -> int | None:
    """Return the index of a choice or a call, which some servers write as text.

    It may stand in its function. None if it has none.
    """
    index = value.get("index")
    if index is None and "function" in value:
        index = mapping_of(value["function"]).get("index")
    if isinstance(index, str) and _DIGITS.fullmatch(index):
        return int(index)
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if isinstance(index, int) else None


def take_call(assembly: Assembly[ChatCall], call: Mapping[str, Any]) -> None:
    """Take one piece of a call, or one whole call.

    Pieces belong together by `index`. Without it, or with one for several calls, a new call shows
    by a name with another id, by another name, or by arguments after arguments that are already
    whole.
    """
    piece = _Piece.of(call)
    index = index_of(call)
    extras = extras_of(call)
    items = assembly.items
    is_new = index is not None and items.at(index) is None
    if not (piece.id or piece.name or piece.arguments or (extras and not is_new)):
        return
    item = None
    if not (is_new and piece.name):
        item = items.find(_CALL, id=piece.id, index=index)
    if item is not None and item.ends_before(piece):
        if not piece.name:
            # more arguments without a name are another call of the same tool
            piece = evolve(piece, name=item.name, is_free=item.is_free)
        item = None
    if item is None:
        item = items.begin(_CALL, index=index)
        item.is_free = piece.is_free
    _add(assembly, item, piece, extras)


def take_list(assembly: Assembly[ChatCall], calls: Sequence[Mapping[str, Any]]) -> None:
    """Take the calls of a delta.

    Where several have neither id, name nor index, they are told by their place in the list.
    """
    items = assembly.items.all
    pieces = [_Piece.of(call) for call in calls]
    is_bare = len(calls) > 1 and len(calls) == len(items)
    for call, piece in zip(calls, pieces, strict=True):
        is_bare = is_bare and not (piece.id or piece.name) and index_of(call) is None
    if is_bare:
        for item, piece in zip(items, pieces, strict=True):
            _add(assembly, item, piece, NOTHING)
        return
    for call in calls:
        take_call(assembly, call)


def listed(call: Mapping[str, Any]) -> ListedCall:
    """Return what a call says of itself."""
    piece = _Piece.of(call)
    return piece.id, piece.name, piece.arguments


def take_calls(assembly: Assembly[ChatCall], message: Mapping[str, Any]) -> None:
    """Take the calls of a whole message, each of which is one of its own."""
    for call in calls_in(message):
        piece = _Piece.of(call)
        if piece.id or piece.name or piece.arguments:
            item = assembly.items.begin(_CALL)
            item.is_free = piece.is_free
            _add(assembly, item, piece, extras_of(call))


def piece_of_call(
    items: Items[ChatCall],
    choice: Mapping[str, Any],
    calls: Any,
) -> tuple[int, str] | None:
    """Return what a chunk adds to the arguments of an open call, behind the call's index.

    None if it may hold anything else: the first that is known of the call, or a member of the
    provider's own.

    Arguments:
        items: the calls so far.
        choice: the choice of the chunk.
        calls: the calls in it; anything may stand there.
    """
    (call,) = calls
    function = call["function"]
    index = call["index"]
    if type(index) is not int or items.at(index) is None:
        return None
    if call.get("id") or function.get("name"):
        return None
    if not (call.keys() <= _OF_CALL and function.keys() <= _OF_FUNCTION):
        return None
    if not (choice.keys() <= _OF_CHOICE and choice["delta"].keys() <= _OF_DELTA):
        return None
    text = function["arguments"]
    return (index, text) if text and type(text) is str else None


def forget_calls(assembly: Assembly[ChatCall]) -> None:
    """Forget the calls so far: a whole message replaces them."""
    for item in assembly.items.all:
        assembly.unshown -= len(item.id) + len(item.name) + item.arguments.size
    assembly.items.clear()


def _add(
    assembly: Assembly[ChatCall],
    item: ChatCall,
    piece: _Piece,
    extras: Mapping[str, Any],
) -> None:
    """Add a piece to its call.

    Arguments:
        assembly: the reply.
        item: the call.
        piece: the piece.
        extras: its members that only the provider can read.
    """
    if piece.id and not item.id:
        assembly.items.name(item, piece.id)
        assembly.unshown += len(piece.id)
    if piece.name and piece.name != item.name and (not item.name or item.may_grow(piece)):
        item.name += piece.name
        item.is_free = piece.is_free
        assembly.unshown += len(piece.name)
    item.arguments.has_objects |= piece.is_object
    if piece.arguments:
        assembly.arguments(item, piece.arguments)
    if extras:
        item.extras |= extras
        assembly.held += weight_of(as_json(extras).encode())
