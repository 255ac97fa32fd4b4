"""The caller's tools: their names, their arguments, and which of them end a turn or only keep
notes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any, Final

import orjson
from attrs import field, frozen

from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.schemas.given import Arguments, Misfit, Schema, quoted, schema_of
from rungwise.fsm.replies.schemas.hints import HintedSchema
from rungwise.fsm.replies.text.contents import exact
from rungwise.fsm.turn.validity import LONGEST_NAME, NAME_FORM, is_name
from rungwise.fsm.values.checks import (
    LARGEST,
    OF_TOOLS,
    explains_names,
    is_flag,
    is_number,
    is_text,
    must,
    or_none,
)
from rungwise.fsm.values.frozen_map import FrozenMap, sendable_copy
from rungwise.fsm.values.label import did_you_mean, label, short

_SECONDS_FORM: Final = "a number of seconds above 0, or None"
_IS_FLAG: Final = must("True or False", is_flag, names_class=True)
_DEFINED: Final = ("name", "description", "parameters", "strict")

Executor = Callable[[str, Arguments], Any]
"""Runs the tools without a function: called with the name and the arguments; may be async."""


def _is_seconds(value: object) -> bool:
    return value is None or (is_number(value, 0, LARGEST) and value > 0)


def _is_approval(value: object) -> bool:
    return is_flag(value) or (callable(value) and not inspect.iscoroutinefunction(value))


def _callable(instance: object, attribute: Any, value: object) -> None:
    if value is not None and not callable(value):
        raise ConfigurationError(f"Tool.function must be a function, not {type(value).__name__}")


def _parameters(value: Any) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, FrozenMap):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigurationError(
            f"Tool.parameters must be a JSON schema, not {type(value).__name__}"
        )
    copy: Mapping[str, Any] = sendable_copy(value, "Tool.parameters")
    try:
        json.dumps(copy, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"Tool.parameters must be a JSON schema: {error}") from None
    return copy


@explains_names(OF_TOOLS)
@frozen(kw_only=True)
class Tool:
    """Declare a tool.

    Arguments:
        function: a sync or async callable, called with the arguments by name; None if an executor
            runs the tool, or if a terminating tool only hands off.
        name: its name for the model; None for the name of the function.
        description: what it does, for the model; None for the function's docstring.
        parameters: the JSON schema of its arguments, which the function then gets unchanged. None
            derives the schema from the function's type hints and converts the arguments to their
            types.
        alone: whether no other tool may run at the same time.
        terminating: whether calling it hands the turn off to the caller.
        housekeeping: whether it only keeps notes, so that the text beside its call may be the
            answer.
        seconds: its time limit; None for the policy's `tool_seconds`.
        strict: whether the provider should force the model to follow the schema; None leaves that
            to the provider.
        needs_approval: whether a call runs only once the caller approves; or a function that tells
            that from the arguments that the model gave, by name. If it raises, or returns anything
            but False, the call needs approval.
        repeatable: whether a durable turn may run it again if its process died while it ran;
            otherwise the model is told that nobody knows whether it ran.

    Raises:
        ConfigurationError: an argument is invalid, or the type hints have no JSON schema.
    """

    function: Callable[..., Any] | None = field(default=None, kw_only=False, validator=_callable)
    name: str | None = field(
        default=None, validator=must(NAME_FORM, or_none(is_name), names_class=True)
    )
    description: str | None = field(
        default=None, validator=must("a text", or_none(is_text), names_class=True)
    )
    parameters: Mapping[str, Any] | None = field(default=None, converter=_parameters, repr=False)
    alone: bool = field(default=False, validator=_IS_FLAG)
    terminating: bool = field(default=False, validator=_IS_FLAG)
    housekeeping: bool = field(default=False, validator=_IS_FLAG)
    seconds: float | None = field(
        default=None, validator=must(_SECONDS_FORM, _is_seconds, names_class=True)
    )
    strict: bool | None = field(
        default=None, validator=must("True, False or None", or_none(is_flag), names_class=True)
    )
    needs_approval: bool | Callable[..., bool] = field(
        default=False,
        validator=must(
            "True, False or a function that is not async", _is_approval, names_class=True
        ),
    )
    repeatable: bool = field(default=False, validator=_IS_FLAG)
    takes: Schema = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        where = f"the tool {self.called!r}" if self.called else "the tool"
        takes = Schema()
        if self.parameters is not None:
            takes = schema_of(self.parameters, f"Tool.parameters of {where}")
        elif self.function is not None:
            takes = HintedSchema.of(self.function, where)
        object.__setattr__(self, "takes", takes)

    def waits_for_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a call with these arguments needs the caller's approval."""
        if isinstance(self.needs_approval, bool):
            return self.needs_approval
        try:
            return self.needs_approval(**arguments) is not False
        except Exception:  # nobody can tell, so a person has to
            return True

    @property
    def called(self) -> str | None:
        """Return its name or the name of its function; None if neither has one."""
        if self.name is not None or self.function is None:
            return self.name
        return _name_of(self.function)

    @property
    def explained(self) -> str:
        """Return its description or the docstring of its function; empty if neither has one."""
        if self.description is not None or self.function is None:
            return self.description or ""
        return _docstring_of(self.function)


@frozen
class ToolRun:
    """Hold a tool call that is ready to run.

    Arguments:
        call: the tool call of the model.
        tool: its tool; the caller's executor runs it if it has no function.
        arguments: the arguments, which match the schema.
        seconds: its time limit.
    """

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any] = field(repr=False)
    seconds: float


ToolLike = Callable[..., Any] | Tool | Mapping[str, Any]
Tools = Mapping[str, ToolLike] | Iterable[ToolLike] | None
"""The forms in which you can pass tools; a mapping in a list is a definition for an executor."""


def _are_tools(tools: object) -> bool:
    return isinstance(tools, Mapping) and all(isinstance(each, Tool) for each in tools.values())


@frozen(eq=False)
class Toolbox:
    """Hold the tools of a turn by their names.

    Arguments:
        tools: the tools, by name.
        executor: runs the tools without a function.
    """

    tools: Mapping[str, Tool] = field(
        factory=FrozenMap,
        validator=must("a mapping, as Toolbox.of(tools) makes it", _are_tools, names_class=True),
    )
    executor: Executor | None = None

    @classmethod
    def of(cls, tools: Tools | Toolbox, executor: Executor | None = None) -> Toolbox:
        """Build a toolbox from tools in any form.

        Arguments:
            tools: a mapping by name, or a list, of functions, `Tool`s or definitions. A definition
                is a mapping in the form of chat completions, or with `name`, `description` and
                `parameters` at its top.
            executor: runs the tools without a function; called with the name and the arguments.

        Raises:
            ConfigurationError: a tool is invalid or has no name, two tools share a name, or nothing
                would run a tool.
        """
        if executor is not None and not callable(executor):
            raise ConfigurationError(
                f"the executor must be a function, not {type(executor).__name__}"
            )
        named: Iterable[Tool]
        if isinstance(tools, Toolbox):
            executor = executor or tools.executor
            named = tools.tools.values()
        else:
            named = _named_tools(tools)
        by_name: dict[str, Tool] = {}
        for tool in named:
            name = str(tool.name)
            if name in by_name:
                raise ConfigurationError(f"two tools have the name {name!r}; rename one of them")
            if tool.function is None and executor is None and not tool.terminating:
                raise ConfigurationError(
                    f"nothing would run the tool {name!r}: give it a function, pass an executor, "
                    f"or make it terminating"
                )
            by_name[name] = tool
        return cls(FrozenMap(by_name), executor)

    def __bool__(self) -> bool:
        return bool(self.tools)

    def definitions(self, shapes: Shapes) -> tuple[Mapping[str, Any], ...]:
        """Return the definitions of the tools, for a request.

        Arguments:
            shapes: the format of the protocol.
        """
        definitions = []
        for name, tool in self.tools.items():
            definition = shapes.tool_of(name, tool.explained, tool.takes.schema)
            if tool.strict is not None:
                definition = shapes.strictly(definition, tool.strict)
            definitions.append(definition)
        return tuple(definitions)

    def plan(self, call: ToolCall, seconds: float) -> ToolRun | str:
        """Plan the run of a call, or return what is wrong with it, in words for the model.

        Arguments:
            call: the tool call of the model.
            seconds: the time limit, if its tool has none.
        """
        tool = self.tools.get(call.name)
        if tool is None:
            name = label(call.name, LONGEST_NAME)
            fault = f"there is no tool {name!r}; "
            near = did_you_mean(name, self.tools)
            if near:
                fault += f"{near} "
            if not self.tools:
                return f"{fault}there are no tools"
            return f"{fault}there are: {quoted(self.tools)}"
        try:
            arguments = tool.takes.read(_read(call.arguments))
        except Misfit as fault:
            return str(fault)
        return ToolRun(call, tool, arguments, seconds if tool.seconds is None else tool.seconds)

    def is_terminating(self, name: str) -> bool:
        """Tell whether calling this tool hands the turn off."""
        return name in self.tools and self.tools[name].terminating

    def is_housekeeping(self, name: str) -> bool:
        """Tell whether this tool only keeps notes."""
        return name in self.tools and self.tools[name].housekeeping


def _read(text: str) -> Arguments:
    if not text.strip():
        return {}
    try:
        arguments = exact(orjson.loads(text), text.encode())
    except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
        where = ""
        if isinstance(error, orjson.JSONDecodeError):
            where = f" (line {error.lineno}, column {error.colno})"
        raise Misfit(f"the arguments are not JSON{where}; give one JSON object") from None
    if not isinstance(arguments, dict):
        raise Misfit(
            f"the arguments are no JSON object but {quoted([arguments])}; give one JSON object"
        )
    return arguments


def _named_tools(tools: Tools) -> Iterator[Tool]:
    if tools is None:
        return
    if isinstance(tools, Mapping):
        for name, tool in tools.items():
            if not is_name(name):
                raise ConfigurationError(
                    f"the name of a tool must be {NAME_FORM}, not {short(name)}"
                )
            yield _named(_tool(tool, f"tools[{name!r}]"), name)
        return
    if isinstance(tools, str | bytes | Tool) or not isinstance(tools, Iterable):
        raise ConfigurationError(
            f"tools must be a list of tools or a mapping by name, not {type(tools).__name__}; put "
            "a single tool into a list"
        )
    for index, tool in enumerate(tools):
        made = _tool(tool, f"tools[{index}]")
        if made.called is None:
            raise ConfigurationError(f"tools[{index}] needs a name: {NAME_FORM}; see Tool.name")
        if not is_name(made.called):
            raise ConfigurationError(
                f"tools[{index}] needs a name: {NAME_FORM}, not {short(made.called)}; see Tool.name"
            )
        yield _named(made, made.called)


def _named(tool: Tool, name: str) -> Tool:
    if tool.name is None:
        tool = copy(tool)  # a copy does not read the schema again
        object.__setattr__(tool, "name", name)
    if tool.name != name:
        raise ConfigurationError(
            f"the tool under {name!r} has the name {tool.name!r}; use one name for it"
        )
    return tool


def _tool(value: object, where: str) -> Tool:
    if isinstance(value, Tool):
        return value
    if isinstance(value, Mapping):
        return _defined(value, where)
    if not callable(value):
        raise ConfigurationError(
            f"{where} must be a function, a Tool or a definition, not {type(value).__name__}; put "
            "a single definition into a list"
        )
    return Tool(value)


def _defined(definition: Mapping[str, Any], where: str) -> Tool:
    """Read a definition: the part under `function`, or the whole mapping."""
    kind = definition.get("type", "function")
    if kind != "function":
        raise ConfigurationError(
            f"{where} is of type {short(kind)}; tools that the provider runs belong in the "
            f"request's own tools"
        )
    body = {key: item for key, item in definition.items() if key != "type"}
    body = definition.get("function", body)
    if not isinstance(body, Mapping):
        raise ConfigurationError(
            f"{where}['function'] must be a mapping, not {type(body).__name__}"
        )
    for name in body:
        if name not in _DEFINED:
            raise ConfigurationError(
                f"{where} has an unknown key {short(name)}; there are: {', '.join(_DEFINED)}"
            )
    return Tool(**body)


def _name_of(function: Any) -> str | None:
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def _docstring_of(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    kind = function if isinstance(function, type) else type(function)
    own = vars(kind).get("__doc__")  # an inherited docstring describes another class
    if own or kind is function:
        return inspect.cleandoc(own or "")
    return inspect.getdoc(kind.__call__) or ""
