"""Read the function calls of Gemini's, which may come in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.json_text import as_json, input_in, mended
from rungwise.adapters.wires.plain.parts import list_of, text_in
from rungwise.adapters.wires.provider_data import copy_if_sendable
from rungwise.fsm.replies.assembly.lists import ListedCall
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.text.contents import json_in

_CALLS: Final = ("functionCall", "function_call")
_STEP: Final = re.compile(r"\.([^.\[\]]{1,200})|\['([^']{1,200})'\]|\[(\d{1,6})\]")
"""A step of a JSON path: `.name`, `['name']` or `[index]`."""
_LONGEST_PATH: Final = 50
_VALUES: Final = ("stringValue", "numberValue", "boolValue")
"""The members of a piece of arguments that may hold its value; null has none."""


@define(eq=False)
class GatheredCall:
    """Hold one call while it arrives."""

    id: str
    name: str
    extras: dict[str, Any]  # other members of its part, and the server's own id
    is_open: bool = False  # whether more of it is to come
    is_replaced: bool = False  # whether it came again, in a list of all calls
    letters: int = 0  # of the texts in its arguments
    _args: Any = None  # its arguments, without the texts that arrive in pieces
    _texts: dict[str, list[str]] = field(factory=dict)  # those, by their JSON path

    @classmethod
    def of(cls, part: Mapping[str, Any], function_call: Mapping[str, Any]) -> GatheredCall:
        """Start from the part that holds a call, and its `functionCall`."""
        extras = {name: value for name, value in part.items() if name not in _CALLS}
        if function_call.get("id"):
            extras["id"] = function_call["id"]
        call = cls(text_in(function_call, "id"), text_in(function_call, "name"), extras)
        call.take(function_call)
        return call

    def goes_on_with(self, function_call: Mapping[str, Any]) -> bool:
        """Tell whether a call is the next piece of this one."""
        if function_call.get("name") not in (None, "", self.name):
            return False
        return self.is_open and function_call.get("id") in (None, "", self.id)

    def take(self, function_call: Mapping[str, Any]) -> None:
        """Take a call, or the next piece of one."""
        self.is_open = function_call.get("willContinue") is True
        args = input_in(function_call, "args")
        if isinstance(args, str):
            opened, _ = json_in(args)
            if isinstance(opened, dict):
                args = opened
        if args is not None:
            self._args = args
        for piece in list_of(function_call.get("partialArgs")):
            if isinstance(piece, dict):
                self._take_piece(piece)

    def _take_piece(self, piece: Mapping[str, Any]) -> None:
        """Take a value, or a piece of a text, with its place in the arguments."""
        path = text_in(piece, "jsonPath")
        value = next((piece[name] for name in _VALUES if name in piece), None)
        if isinstance(value, str):
            self.letters += len(value)
            pieces = self._texts.setdefault(path, [])
            pieces.append(value)
            value = None
        elif path in self._texts:
            return
        if self._args is None:
            self._args = {}
        _put(self._args, path, value)

    def written(self, provider: str) -> ToolCall:
        """Return the call so far; the arguments of one that broke off lack their end."""
        args = {} if self._args is None else self._args
        for path, pieces in self._texts.items():
            _put(args, path, "".join(pieces))
        arguments = as_json(args)
        if self.is_open:
            arguments = arguments[:-1]
        id = str(mended(self.id))
        name = str(mended(self.name))
        return ToolCall(id, name, arguments, copy_if_sendable(self.extras) or {}, provider)


def calls_of_pieces(pieces: Iterable[tuple[str, Mapping[str, Any]]]) -> list[ToolCall]:
    """Return the calls that pieces add up to, in one reply or in several.

    Arguments:
        pieces: the parts that hold them, each behind the name of its provider.
    """
    calls: list[tuple[GatheredCall, str]] = []
    for provider, part in pieces:
        piece = call_in(part) or {}
        if calls and calls[-1][0].goes_on_with(piece):
            calls[-1][0].take(piece)
        else:
            calls.append((GatheredCall.of(part, piece), provider))
    return [call.written(provider) for call, provider in calls]


def call_in(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the call in a part, or None."""
    calls = [part[name] for name in _CALLS if isinstance(part.get(name), dict)]
    return calls[0] if calls else None


def listed(call: Mapping[str, Any]) -> ListedCall:
    """Return what a call says of itself; a piece of one says nothing."""
    if "partialArgs" in call or call.get("willContinue") is not None:
        return "", "", ""
    whole = GatheredCall.of({}, call).written("")
    return whole.id, whole.name, whole.arguments


def _put(root: Any, path: str, value: Any) -> None:
    """Put a value at a JSON path, as far as the path can be followed.

    What the path leads through is made where it is missing: a list if its next step is an index,
    else an object. A list only grows at its end. A path without a step leads nowhere.
    """
    steps = [name or quoted or int(index) for name, quoted, index in _STEP.findall(path)]
    steps = steps[:_LONGEST_PATH]
    following = [*steps[1:], None]
    for step, after in zip(steps, following, strict=False):
        is_last = after is None
        new = value
        if not is_last:
            new = [] if isinstance(after, int) else {}
        if isinstance(root, list) and isinstance(step, int) and step <= len(root):
            if step == len(root):
                root.append(new)
            elif is_last:
                root[step] = value
        elif isinstance(root, dict) and isinstance(step, str):
            if is_last or step not in root:
                root[step] = new
        else:
            return
        root = root[step]


def forget(came: Iterable[object]) -> None:
    """Note of the calls in what came that all of them come again."""
    for each in came:
        if isinstance(each, GatheredCall):
            each.is_replaced = True
