"""Tell whether the calls of an event are all calls of the reply so far.

Theory
------

Calls come one after another, or several at once. Some servers send the list of all calls so far
with every event, as they send all the text so far. A call with an id is known by it. Without ids
nothing says what the list is but the list itself. It begins with the calls of the list before it,
whose arguments are the same or go on. Where they have not begun yet, that says nothing.

One call alone may be meant twice, and so may one whose arguments begin as those of another, such as
two paths. So a list of one says nothing. In a longer one, a call that is there as it was, or goes
on behind arguments that had broken off, is no coincidence. Such a list takes the place of all calls
so far, and so does each list behind it that begins with the one before. A longer list whose calls
were all whole before, and have grown, may hold others: that is doubt, unless the next list decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from rungwise.fsm.replies.text.contents import is_json, json_in

ListedCall = tuple[str, str, str]
"""The id of a call, its name and its arguments; "" for what it does not say."""
_DEEPEST: Final = 8
"""How deep arguments are compared."""


@define(eq=False)
class CallLists:
    """Look at the lists of calls of one reply, in their order."""

    is_unclear: bool = field(default=False, init=False)
    """Whether it is in doubt if a list was all calls so far."""
    last: Sequence[Any] = field(default=(), init=False)
    """The list before; none if a piece of a call has come since."""
    _are_all: bool = field(default=False, init=False)  # whether lists are known to be all calls

    def is_all(
        self,
        calls: Sequence[Any],
        read: Callable[[Any], ListedCall],
    ) -> bool:
        """Tell whether the calls of an event take the place of all calls so far.

        Arguments:
            calls: the calls, as they came.
            read: returns what one of them says.
        """
        if not calls:
            return False
        last = self.last
        self.last = calls
        if len(calls) < 2 or not 0 < len(last) <= len(calls):
            return False
        pairs = [(read(each), read(now)) for each, now in zip(last, calls, strict=False)]
        if any(read(call)[0] for call in calls) or not all(_goes_on(*pair) for pair in pairs):
            return False
        begun = [pair for pair in pairs if pair[0][2].lstrip().startswith("{")]
        self._are_all = self._are_all or any(_is_same(*pair) for pair in begun)
        self.is_unclear = not self._are_all and len(begun) > 0
        return self._are_all


def _goes_on(earlier: ListedCall, later: ListedCall) -> bool:
    """Tell whether a call may be an earlier one that has grown."""
    id, name, arguments = earlier
    if id or not name or later[1] != name:
        return False
    if later[2].startswith(arguments):
        return True
    before, _ = json_in(arguments)
    now, _ = json_in(later[2])
    return isinstance(before, dict) and isinstance(now, dict) and has_grown(before, now)


def _is_same(earlier: ListedCall, later: ListedCall) -> bool:
    """Tell whether a call that may have grown is an earlier one for sure."""
    return earlier[2] == later[2] or not is_json(earlier[2])


def has_grown(before: Any, now: Any, depth: int = _DEEPEST) -> bool:
    """Tell whether a value is an earlier one, or has more at the ends of its texts and lists.

    Arguments:
        before: the earlier one.
        now: the value.
        depth: how deep they are compared; below that they count as the same.
    """
    if not depth:
        return True
    if isinstance(before, str) and isinstance(now, str):
        return now.startswith(before)
    if isinstance(before, list) and isinstance(now, list):
        pairs = zip(before, now, strict=False)
        return len(before) <= len(now) and all(has_grown(*pair, depth - 1) for pair in pairs)
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        if not before.keys() <= now.keys():
            return False
        return all(has_grown(each, now[name], depth - 1) for name, each in before.items())
    return bool(before == now)
