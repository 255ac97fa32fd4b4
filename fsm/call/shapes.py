"""What the core must know of the form in which messages, tools and parameters are written: each wire has its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rungwise.fsm.call.parts import Turn


class Shapes:
    """Read what a caller gave, and write a turn; what stands here is for links that name no form of their own."""

    __slots__ = ()

    def role_of(self, message: Mapping[str, Any] | Turn) -> str:
        """Return whose message this is: "assistant", "tool" if it holds a tool's result, or another role."""
        return message.role if isinstance(message, Turn) else self._role_of(message)

    def _role_of(self, message: Mapping[str, Any]) -> str:
        return str(message.get("role"))

    def asks_for_json(self, parameters: Mapping[str, Any]) -> bool | None:
        """Tell whether parameters of a request ask for JSON; None where they do not speak of it."""
        return None

    def needs_no_arguments(self, tool: str, tools: Iterable[Mapping[str, Any]]) -> bool:
        """Tell whether a tool is among these definitions and requires no arguments."""
        for definition in map(self._definition_of, tools):
            if definition.get("name") == tool:
                parameters = definition.get("parameters") or {}
                return isinstance(parameters, Mapping) and not parameters.get("required")
        return False

    def _definition_of(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return where a tool's `name` and `parameters` stand."""
        return tool

    def message_of(self, turn: Turn, *, with_reasoning: bool = False) -> dict[str, Any]:
        """Return a turn as a message, without anything of a provider's own.

        Arguments:
            turn: the turn.
            with_reasoning: whether the readable reasoning is a part of it.
        """
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in turn.tool_calls]
        message: dict[str, Any] = {"role": turn.role, "content": turn.text or None}
        message |= {"tool_calls": calls} if calls else {}
        return message | ({"reasoning": turn.reasoning} if with_reasoning and turn.reasoning else {})


NEUTRAL = Shapes()
