"""What the core must know of the form in which messages, tools and parameters are written: each wire has its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rungwise.fsm.call.conversation.parts import Message


class Shapes:
    """Read what a caller gave, and write a message; what stands here is for links that name no form of their own."""

    __slots__ = ()

    @property
    def tool_parameters(self) -> frozenset[str]:
        """Return the parameters of a request that mean nothing without tools."""
        return frozenset()

    def role_of(self, message: Mapping[str, Any] | Message) -> str:
        """Return whose message this is: "assistant", "tool" if it holds a tool's result, or another role."""
        return message.role if isinstance(message, Message) else self._role_of(message)

    def _role_of(self, message: Mapping[str, Any]) -> str:
        return str(message.get("role"))

    def calls_tools(self, message: Mapping[str, Any] | Message) -> bool:
        """Tell whether a message calls tools, so that their results are what must follow."""
        return bool(message.tool_calls if isinstance(message, Message) else self._calls_of(message))

    def _calls_of(self, message: Mapping[str, Any]) -> Any:
        """Return the tool calls of a plain message; anything that is true stands for some."""
        return message.get("tool_calls")

    def unanswered(self, messages: Iterable[Mapping[str, Any] | Message]) -> int:
        """Count the tool calls without a result, for which a stand-in may go out."""
        called: list[str] = []
        told: list[str] = []
        for message in messages:
            calls, results = self._ids_of(message)
            called += calls
            told += results
        return (Counter(called) - Counter(told)).total() if called else 0

    def _ids_of(self, message: Mapping[str, Any] | Message) -> tuple[Iterable[str], Iterable[str]]:
        """Return the ids of the tool calls in a message, and those of the results."""
        if not isinstance(message, Message):
            return (), ()
        return [call.id for call in message.tool_calls], [result.id for result in message.tool_results]

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

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the definition of a tool.

        Arguments:
            name: what the model calls it by.
            description: what it does, for the model.
            parameters: the JSON schema of its arguments.
        """
        return {"name": name, "description": description, "parameters": parameters}

    def knows_tool(self, tool: Mapping[str, Any]) -> bool:
        """Tell whether it is known what becomes of a tool in this form.

        One of which nobody knows whether the server takes it is sent to the server that it was given for, and to no
        other.
        """
        return True

    def strictly(self, definition: dict[str, Any], strict: bool) -> dict[str, Any]:
        """Return the definition of a tool that says whether the provider must hold the model to the schema.

        Arguments:
            definition: what `tool_of` returned, which is changed.
            strict: whether it must.
        """
        place = self._definition_of(definition)
        if isinstance(place, dict):
            place["strict"] = strict
        return definition

    def plain_of(self, message: Message, *, with_reasoning: bool = False) -> list[dict[str, Any]]:
        """Return a message as the plain messages that it is sent as, without anything of a provider's own.

        Arguments:
            message: the message; the results of several tool calls are a plain message each.
            with_reasoning: whether the readable reasoning is a part of it.
        """
        if message.role == "tool":
            return [{"role": "tool", "id": each.id, "content": each.text} for each in message.tool_results]
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]
        plain: dict[str, Any] = {"role": message.role, "content": message.text or None}
        plain |= {"tool_calls": calls} if calls else {}
        return [plain | ({"reasoning": message.reasoning} if with_reasoning and message.reasoning else {})]


NEUTRAL = Shapes()
