"""The form in which a protocol writes messages, tools and parameters, as far as the core must know
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rungwise.fsm.call.conversation.plain import chat_messages
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.reply import Reply


class Shapes:
    """Read and write one protocol's form; these defaults are for links without a form of their
    own.
    """

    __slots__ = ()

    @property
    def tool_parameters(self) -> frozenset[str]:
        """The parameters that mean nothing without tools."""
        return frozenset()

    def role_of(self, message: Mapping[str, Any] | Message) -> str:
        """Return the role of a message: "assistant", "tool" if it holds a tool's result, or
        another.
        """
        return message.role if isinstance(message, Message) else self._role_of(message)

    def _role_of(self, message: Mapping[str, Any]) -> str:
        return str(message.get("role"))

    def joined(self, reply: Reply, pieces: tuple[Any, ...]) -> Reply:
        """Return a reply whose tool calls go on with pieces of the replies before it."""
        return reply

    def calls_tools(self, message: Mapping[str, Any] | Message) -> bool:
        """Tell whether a message calls tools, so that their results must follow."""
        return bool(message.tool_calls if isinstance(message, Message) else self._calls_of(message))

    def _calls_of(self, message: Mapping[str, Any]) -> Any:
        """Return the tool calls of a plain message; any truthy value stands for some."""
        return message.get("tool_calls")

    def unanswered(self, messages: Iterable[Mapping[str, Any] | Message]) -> int:
        """Count the tool calls without a result, for which a wire may send a stand-in."""
        called: list[str] = []
        answered: list[str] = []
        for message in messages:
            calls, results = self._ids_of(message)
            called += calls
            answered += results
        return (Counter(called) - Counter(answered)).total() if called else 0

    def _ids_of(self, message: Mapping[str, Any] | Message) -> tuple[Iterable[str], Iterable[str]]:
        """Return the ids of the tool calls and of the results in a message."""
        if not isinstance(message, Message):
            return (), ()
        calls = [call.id for call in message.tool_calls]
        results = [result.id for result in message.tool_results]
        return calls, results

    def asks_for_json(self, parameters: Mapping[str, Any]) -> bool | None:
        """Tell whether parameters ask for JSON; None if they say nothing about it."""
        return None

    def needs_no_arguments(self, tool: str, tools: Iterable[Mapping[str, Any]]) -> bool:
        """Tell whether a tool is defined here and requires no arguments."""
        for definition in map(self._definition_of, tools):
            if definition.get("name") == tool:
                parameters = definition.get("parameters") or {}
                return isinstance(parameters, Mapping) and not parameters.get("required")
        return False

    def offered(
        self, tools: Iterable[Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any] | None] | None:
        """Return the schema of each tool by its name, None for an unknown one; None if not all
        names are known.
        """
        schemas: dict[str, Mapping[str, Any] | None] = {}
        for definition in map(self._definition_of, tools):
            name = definition.get("name")
            parameters = definition.get("parameters")
            if not isinstance(name, str):
                return None
            schemas[name] = parameters if isinstance(parameters, Mapping) else None
        return schemas

    def _definition_of(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the mapping that holds a tool's `name` and `parameters`."""
        return tool

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the definition of a tool; `parameters` is the JSON schema of its arguments."""
        return {"name": name, "description": description, "parameters": parameters}

    def knows_tool(self, tool: Mapping[str, Any]) -> bool:
        """Tell whether a tool can be sent to any server of this protocol; others go only to the
        server they are for.
        """
        return True

    def strictly(self, definition: dict[str, Any], strict: bool) -> dict[str, Any]:
        """Set in a definition from `tool_of` whether the provider must hold the model to the
        schema.
        """
        place = self._definition_of(definition)
        if isinstance(place, dict):
            place["strict"] = strict
        return definition

    def plain_of(self, message: Message, *, with_reasoning: bool = False) -> list[dict[str, Any]]:
        """Return a message as plain messages of chat completions, without any provider's own
        members.
        """
        plain = chat_messages(message)
        if with_reasoning and message.reasoning:
            plain[0]["reasoning_content"] = message.reasoning
        return plain


NEUTRAL = Shapes()
