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


Tools = Any


class Toolbox:
    """STUB"""

    def __init__(self, tools, executor=None):
        self.tools = tools
        self.executor = executor

    @classmethod
    def of(cls, tools, executor=None):
        if isinstance(tools, Toolbox):
            return tools
        t = {}
        for n, f in (tools or {}).items():
            t[n] = f if isinstance(f, Tool) else Tool(f, name=n)
        return cls(t, executor)

    def definitions(self, shapes):
        return tuple(
            shapes.tool_of(n, t.description or "", t.parameters or {"type": "object"}) for n, t in self.tools.items()
        )

    def plan(self, call, seconds):
        import orjson
        from rungwise.fsm.turn.actions import ToolRun

        t = self.tools.get(call.name)
        if t is None:
            return f"There is no tool {call.name!r}."
        return ToolRun(call, t, orjson.loads(call.arguments or "{}"), t.seconds or seconds)

    def is_terminating(self, name):
        return name in self.tools and self.tools[name].terminating

    def is_housekeeping(self, name):
        return name in self.tools and self.tools[name].housekeeping
