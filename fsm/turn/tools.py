"""The caller's tools: what they are called by, what they take, and which of them end a turn or keep house."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen


@frozen(kw_only=True)
class Tool:
    """Declare a tool.

    Arguments:
        function: a sync or async callable that is given the arguments by name; None where an executor runs it, or
            where a terminating tool is only to be named.
        name: what the model calls it by; the name of the function where None.
        description: what it does, for the model; the function's docstring where None.
        parameters: the JSON schema of its arguments; read from the type hints of the function where None.
        alone: whether no other tool may run meanwhile.
        terminating: whether the turn is handed off to the caller once it was called.
        housekeeping: whether it only keeps notes, so that an answer given beside it may be the last word.
        seconds: how long it may take; the policy's `tool_seconds` where None.
    """

    function: Callable[..., Any] | None = field(default=None, kw_only=False)
    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    alone: bool = False
    terminating: bool = False
    housekeeping: bool = False
    seconds: float | None = None
