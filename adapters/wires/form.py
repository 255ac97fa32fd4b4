"""The form in which a protocol writes conversations and tools.

Each protocol has one (`shapes.py` in its folder). Reading needs no form, as every message shows its
own (`plain/messages.py`); writing does. `portability.written` decides which messages go out as they
are (`is_own`) and which are written anew (`sent_to`), and makes them obey the `Rules`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from attrs import evolve, frozen

from rungwise.adapters.wires.plain.messages import ids_in, read_messages, role_of_item
from rungwise.adapters.wires.plain.tools import FREE_TEXT, ToolDefinition, parted, read_tools
from rungwise.fsm.call.conversation.plain import in_words
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.replies.parts import MediaPart, Message, ToolCall, ToolResult

Body = dict[str, Any]

_RESULTS: Final = ("_output", "_response")
"""The ends of the types of items that hold what came of a call, or whether one is approved."""
_ANY_ID: Final = re.compile(r".{1,1000}", re.DOTALL)


@frozen(kw_only=True)
class Rules:
    """Hold the rules of a protocol for conversations."""

    call_id: re.Pattern[str] = _ANY_ID  # matches the whole id of a tool call
    id_length: int = 24  # how many letters and digits a made-up id has
    takes_own_ids: bool = False  # whether the server accepts every id that it made itself
    alternates: bool = False  # whether consecutive turns of one role must be joined
    begins_with_user: bool = False  # whether the first turn must be the user's
    keeps_reasoning: bool = False  # whether readable reasoning of other providers is sent


class Form(Shapes, ABC):
    """Read and write one protocol's own form."""

    __slots__ = ()

    SAYS: ClassVar[frozenset[str]] = frozenset({"detail", "name", "strict"})
    """Optional members that it has: a picture's detail, a file's name, a tool's strictness."""
    MARKS: ClassVar[frozenset[str]] = frozenset()
    """The cache marks that it writes, or that its backend reports by itself; see `losses`."""

    refused_keywords: ClassVar[frozenset[str]] = frozenset(
        {
            "allOf",
            "not",
            "oneOf",
            "if",
            "then",
            "else",
            "dependentRequired",
            "dependentSchemas",
            "default",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "unevaluatedProperties",
            "unevaluatedItems",
            "contains",
            "minContains",
            "maxContains",
            "uniqueItems",
        }
    )
    """The keywords of JSON Schema that its servers refuse where they hold a model to a schema.

    [OpenAI, strict mode]
    """
    needs_closed: ClassVar[bool] = False
    """Whether such a schema must list all names of every object, and must not be recursive."""
    has_schema_beside_tools: ClassVar[bool] = True
    """Whether a model can be held to a schema while it has tools."""
    rules: ClassVar[Rules] = Rules()
    """The rules that a conversation must obey."""
    tool_parameters = frozenset({"tool_choice", "parallel_tool_calls"})

    def asks_for_json(self, parameters: Mapping[str, Any]) -> bool | None:
        """Tell whether parameters ask for JSON; None if they do not say."""
        own = self._own_format(parameters)
        if own is not None:
            return own is not False
        format = parameters.get("response_format")
        if not isinstance(format, Mapping):
            return None
        return str(format.get("type", "")).startswith("json")

    def wanted_json(self, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the JSON format that parameters ask for, as a `response_format`."""
        if not self.asks_for_json(parameters):
            return None
        common = parameters.get("response_format")
        if Form.asks_for_json(self, {"response_format": common}):
            return common
        schema = self._own_format(parameters)
        if isinstance(schema, Mapping):
            return {"type": "json_schema", "schema": schema}
        return {"type": "json_object"}

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        """Return what this form's own parameters ask for: a schema, True for any JSON, or False.

        None if they do not say.
        """
        return None

    def _role_of(self, message: Mapping[str, Any]) -> str:
        role = message.get("role")
        if role is None:  # an item
            is_result = str(message.get("type")).endswith(_RESULTS)
            return role_of_item(message) or ("tool" if is_result else "assistant")
        if role == "model":
            return "assistant"
        return str(role)

    def _calls_of(self, message: Mapping[str, Any]) -> list[ToolCall]:
        return [call for read in read_messages((message,)) for call in read.tool_calls]

    def _ids_of(self, message: PlainMessage | Message) -> tuple[Iterable[str], Iterable[str]]:
        return ids_in(message)

    @abstractmethod
    def is_own(self, message: PlainMessage) -> bool:
        """Tell whether a plain message can be sent unchanged."""

    def is_common(self, message: PlainMessage) -> bool:
        """Tell whether all servers of the protocol take a message in this form.

        Some have members or types of parts of their own.
        """
        return True

    def with_results(
        self, message: PlainMessage, results: Sequence[ToolResult]
    ) -> PlainMessage | None:
        """Add results to a user message or a message of results.

        None if results are messages of their own in this form.
        """
        return None

    def results_of(
        self, calling: PlainMessage | Message, results: Sequence[ToolResult]
    ) -> PlainMessage | Message:
        """Return a message of results for the calls of another message."""
        return Message("tool", results)

    @abstractmethod
    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message in this form, with this provider's own parts and no other provider's."""

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a plain message without what may be another provider's own.

        That is its signatures and its reasoning.
        """
        return message

    def needs_no_arguments(self, tool: str, tools: Iterable[Mapping[str, Any]]) -> bool:
        """Tell whether a tool is among these definitions and requires no arguments."""
        for definition in read_tools(tools):
            if isinstance(definition, ToolDefinition) and definition.name == tool:
                return not definition.parameters.get("required")
        return False

    def offered(
        self, tools: Iterable[Mapping[str, Any]]
    ) -> Mapping[str, Mapping[str, Any] | None] | None:
        """Return the schema of each tool by its name; None if not all names are known.

        A schema is None if the tool takes free text, or if the provider declares it.
        """
        schemas: dict[str, Mapping[str, Any] | None] = {}
        for tool in read_tools(tools):
            if isinstance(tool, ToolDefinition):
                schemas[tool.name] = None if tool.parameters is FREE_TEXT else tool.parameters
            elif isinstance(tool.get("name"), str):
                # one that the provider declares and the caller runs
                schemas[tool["name"]] = None
            else:
                return None
        return schemas

    @abstractmethod
    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        """Tell whether the definition of a tool can be sent unchanged."""

    def written_tool(self, tool: ToolDefinition) -> Body:
        """Return the definition of a tool in this form."""
        definition = self.tool_of(tool.name, tool.description, tool.parameters)
        if tool.strict is None:
            return definition
        return self.strictly(definition, tool.strict)

    def strictly(self, definition: Body, strict: bool) -> Body:
        """Return the definition of a tool with `strict` set, if this form has it."""
        if "strict" not in self.SAYS:
            return definition
        return super().strictly(definition, strict)

    def written_tools(self, tools: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the definitions of tools in this form.

        Tools that another provider runs are left out.
        """
        if all(map(self.is_own_tool, tools)):
            return tools
        written: list[Mapping[str, Any]] = []
        for tool in tools:
            if self.is_own_tool(tool):
                written.append(tool)
            else:
                written += self._translated(tool)
        return written

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        """Return the definitions in a tool of another form; none if a provider runs it."""
        written: list[Body] = []
        for definition in read_tools((tool,)):
            if isinstance(definition, ToolDefinition):
                written.append(self.written_tool(definition))
        return written

    def set_tools(self, body: Body, tools: Sequence[Mapping[str, Any]]) -> None:
        """Put tools into a body.

        If none are left, their parameters go too: servers refuse an empty list.
        """
        body["tools"] = self.written_tools(tools)
        if not body["tools"]:
            for name in {"tools", *self.tool_parameters} & body.keys():
                del body[name]

    def shows(self, part: MediaPart) -> bool:
        """Tell whether a picture, a recording or a document is sent itself, and not only named."""
        written = self.sent_to("", Message("user", (part,)))
        return in_words(part) not in _texts_in(written)

    def lost_tools(self, tools: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the tools that have no form here."""
        lost: list[Mapping[str, Any]] = []
        for tool in tools:
            if not self.is_own_tool(tool):
                lost += [each for each in parted(tool) if not self._translated(each)]
        return lost


MEMBERS: Final = frozenset({"role", "content"})
ROLES: Final = ("system", "user", "assistant")
"""The members and the roles of a turn in Messages and Converse."""


class BlockForm(Form):
    """What Messages and Converse share.

    A turn is a list of blocks, and tool results are blocks of the user's.
    """

    __slots__ = ()

    SAYS = frozenset({"name", "strict"})

    refused_keywords = Form.refused_keywords | {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "pattern",
        "prefixItems",
    }  # [platform.claude.com, structured outputs: JSON Schema limitations]
    needs_closed = True

    rules = Rules(
        call_id=re.compile(r"[a-zA-Z0-9_-]{1,64}"), alternates=True, begins_with_user=True
    )

    def _role_of(self, message: Mapping[str, Any]) -> str:
        content = message.get("content")
        if isinstance(content, list | tuple):
            for block in content:
                if isinstance(block, Mapping) and self._is_result(block):
                    return "tool"
        return super()._role_of(message)

    def is_own(self, message: PlainMessage) -> bool:
        """Tell whether a plain message can be sent unchanged."""
        if message.keys() != MEMBERS or message["role"] not in ROLES:
            return False
        content = message["content"]
        if not isinstance(content, list | tuple) or not content:
            return False
        return all(map(self._is_own_block, content))

    def written_tool(self, tool: ToolDefinition) -> Body:
        """Return the definition of a tool in this form."""
        return super().written_tool(evolve(tool, parameters={"type": "object", **tool.parameters}))

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a plain message without what another provider may have signed or encrypted."""
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, list | tuple):
            return message
        portable = [
            block for block in content if isinstance(block, Mapping) and self._is_portable(block)
        ]
        if len(portable) == len(content):
            return message
        return {**message, "content": portable}

    @abstractmethod
    def _is_own_block(self, block: Any) -> bool:
        """Tell whether a block has this form."""

    @abstractmethod
    def _is_result(self, block: Mapping[str, Any]) -> bool:
        """Tell whether a block is the result of a tool."""

    @abstractmethod
    def _is_portable(self, block: Mapping[str, Any]) -> bool:
        """Tell whether a block of an assistant is nothing that only its provider can read."""


def among(
    blocks: Sequence[Any], more: Sequence[Any], is_result: Callable[[Any], bool]
) -> list[Any]:
    """Insert results after the last result among some blocks, or in front if there is none."""
    end = 0
    for place, block in enumerate(blocks, 1):
        if is_result(block):
            end = place
    return [*blocks[:end], *more, *blocks[end:]]


def _texts_in(value: Any) -> Iterator[str]:
    """Yield each text in JSON data, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts_in([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts_in(each)
