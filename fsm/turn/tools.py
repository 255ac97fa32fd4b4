"""The caller's tools: what they are called by, what they take, and which of them end a turn or keep house."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import Any, Final

import orjson
from attrs import field, frozen

from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.text.contents import exact
from rungwise.fsm.turn.hints import HintedSchema
from rungwise.fsm.turn.schemas import AnyArguments, Arguments, GivenSchema, Misfit, Schema, quoted
from rungwise.fsm.turn.validity import LONGEST_NAME, NAME_FORM, is_name
from rungwise.fsm.values.checks import LARGEST, is_flag, is_number, is_text, must, or_none
from rungwise.fsm.values.frozen_map import FrozenMap, sendable_copy
from rungwise.fsm.values.label import label, short
from rungwise.fsm.values.suggest import did_you_mean

DEEPEST: Final = 10
"""Levels of arguments whose schema refers to itself: with each one, checking alternatives can take twice as long."""

_SECONDS_FORM: Final = "a number of seconds above 0, or None"
_IN_DEFINITION: Final = ("name", "description", "parameters", "strict")

Executor = Callable[[str, Arguments], Any]
"""Runs every tool that has no function of its own: it is given the name and the arguments, and may be async."""


def _is_seconds(value: object) -> bool:
    return value is None or (is_number(value, 0, LARGEST) and value > 0)


def _callable(instance: object, attribute: Any, value: object) -> None:
    if value is not None and not callable(value):
        raise ConfigurationError(f"Tool.function must be a function, not {type(value).__name__}")


def _parameters(value: Any) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, FrozenMap):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigurationError(f"Tool.parameters must be a JSON schema, not {type(value).__name__}")
    copy: Mapping[str, Any] = sendable_copy(value, "Tool.parameters")
    try:
        json.dumps(copy, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"Tool.parameters must be a JSON schema: {error}") from None
    return copy


@frozen(kw_only=True)
class Tool:
    """Declare a tool.

    Arguments:
        function: a sync or async callable that is given the arguments by name; None where an executor runs it, or
            where a terminating tool is only to be named.
        name: what the model calls it by; the name of the function where None.
        description: what it does, for the model; the function's docstring where None.
        parameters: the JSON schema of its arguments, which are passed on as they are; read from the type hints of the
            function where None, and the arguments are then converted to what those say.
        alone: whether no other tool may run meanwhile.
        terminating: whether the turn is handed off to the caller once it was called.
        housekeeping: whether it only keeps notes, so that an answer given beside it may be the last word.
        seconds: how long it may take; the policy's `tool_seconds` where None.
        strict: whether the provider is told to hold the model to the schema; nothing is said of it where None.

    Raises:
        ConfigurationError: one of these is not of its form, or the type hints have no JSON schema.
    """

    function: Callable[..., Any] | None = field(default=None, kw_only=False, validator=_callable)
    name: str | None = field(default=None, validator=must(NAME_FORM, or_none(is_name), names_class=True))
    description: str | None = field(default=None, validator=must("a text", or_none(is_text), names_class=True))
    parameters: Mapping[str, Any] | None = field(default=None, converter=_parameters, repr=False)
    alone: bool = field(default=False, validator=must("True or False", is_flag, names_class=True))
    terminating: bool = field(default=False, validator=must("True or False", is_flag, names_class=True))
    housekeeping: bool = field(default=False, validator=must("True or False", is_flag, names_class=True))
    seconds: float | None = field(default=None, validator=must(_SECONDS_FORM, _is_seconds, names_class=True))
    strict: bool | None = field(default=None, validator=must("True, False or None", or_none(is_flag), names_class=True))
    takes: Schema = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "takes", self._read_schema())

    def _read_schema(self) -> Schema:
        where = f"the tool {self.called!r}" if self.called else "the tool"
        if self.parameters is not None:
            return GivenSchema.of(self.parameters, f"Tool.parameters of {where}")
        return AnyArguments() if self.function is None else HintedSchema.of(self.function, where)

    @property
    def deepest(self) -> int | None:
        """Return how deep its arguments may be nested; None where its schema does not go round, so that it says."""
        return DEEPEST if "'$ref'" in str(self.takes.schema) else None

    @property
    def called(self) -> str | None:
        """Return its name, or that of its function; None where neither has one."""
        return self.name if self.name is not None or self.function is None else _name_of(self.function)

    @property
    def explained(self) -> str:
        """Return its description, or the docstring of its function; empty where neither has one."""
        if self.description is not None or self.function is None:
            return self.description or ""
        return _docstring_of(self.function)


@frozen
class ToolRun:
    """Hold one tool call that is to be run.

    Arguments:
        call: what the model asked for.
        tool: what runs it; where it has no function, the caller's executor does.
        arguments: the arguments, which fit the schema.
        seconds: how long it may take.
    """

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any] = field(repr=False)
    seconds: float


Given = Callable[..., Any] | Tool | Mapping[str, Any]
Tools = Mapping[str, Given] | Iterable[Given] | None
"""How tools may be given; a mapping is a definition of one that an executor runs."""


@frozen(eq=False)
class Toolbox:
    """Hold the tools of a turn by their names.

    Arguments:
        tools: the tools, each under its own name.
        executor: what runs those without a function.
    """

    tools: Mapping[str, Tool] = field(factory=FrozenMap)
    executor: Executor | None = None

    @classmethod
    def of(cls, tools: Tools | Toolbox, executor: Executor | None = None) -> Toolbox:
        """Return the tools that were given in any form.

        Arguments:
            tools: a mapping of names, or a list, of functions, `Tool`s or definitions; a definition is a mapping in the
                form of chat completions or with `name`, `description` and `parameters` at its top.
            executor: runs the tools that have no function: it is given the name and the arguments.

        Raises:
            ConfigurationError: a tool is not of its form or has no name, two have one name, or nobody would run one.
        """
        if executor is not None and not callable(executor):
            raise ConfigurationError(f"the executor must be a function, not {type(executor).__name__}")
        if isinstance(tools, Toolbox):
            given: Iterable[Tool] = tools.tools.values()
            executor = executor or tools.executor
        else:
            given = _given(tools)
        found: dict[str, Tool] = {}
        for tool in given:
            name = str(tool.name)
            if name in found:
                raise ConfigurationError(f"two tools have the name {name!r}; give one of them another")
            if tool.function is None and executor is None and not tool.terminating:
                raise ConfigurationError(
                    f"nobody would run the tool {name!r}: give it a function, an executor, or let it be terminating"
                )
            found[name] = tool
        return cls(FrozenMap(found), executor)

    def __bool__(self) -> bool:
        return bool(self.tools)

    def definitions(self, shapes: Shapes) -> tuple[Mapping[str, Any], ...]:
        """Return the definitions of the tools, for a request.

        Arguments:
            shapes: how the wire writes them.
        """
        made = []
        for name, tool in self.tools.items():
            definition = shapes.tool_of(name, tool.explained, tool.takes.schema)
            made.append(definition if tool.strict is None else shapes.strictly(definition, tool.strict))
        return tuple(made)

    def plan(self, call: ToolCall, seconds: float) -> ToolRun | str:
        """Return how a call is run, or what is wrong with it, in words for the model.

        Arguments:
            call: what the model asked for.
            seconds: how long it may take, where its tool does not say.
        """
        tool = self.tools.get(call.name)
        if tool is None:
            return self._unknown(call.name)
        try:
            arguments = tool.takes.read(_read(call.arguments, most=tool.deepest))
        except Misfit as fault:
            return str(fault)
        return ToolRun(call, tool, arguments, seconds if tool.seconds is None else tool.seconds)

    def is_terminating(self, name: str) -> bool:
        """Tell whether the turn is handed off once this tool was called."""
        return name in self.tools and self.tools[name].terminating

    def is_housekeeping(self, name: str) -> bool:
        """Tell whether this tool only keeps notes."""
        return name in self.tools and self.tools[name].housekeeping

    def _unknown(self, name: str) -> str:
        named = label(name, LONGEST_NAME)
        near = did_you_mean(named, self.tools)
        there = f"there are: {quoted(self.tools)}" if self.tools else "there are no tools"
        return f"there is no tool {named!r}; {near + ' ' if near else ''}{there}"


def _is_deeper(value: Any, most: int) -> bool:
    """Tell whether a value is nested deeper than so many levels."""
    level = [value]
    for _ in range(most):
        level = [
            part
            for each in level
            if isinstance(each, dict | list)
            for part in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)


def _read(text: str, most: int | None) -> Arguments:
    if not text.strip():
        return {}
    try:
        arguments = exact(orjson.loads(text), text.encode())
    except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, orjson.JSONDecodeError) else ""
        raise Misfit(f"the arguments are not JSON{where}; give one JSON object") from None
    if not isinstance(arguments, dict):
        raise Misfit(f"the arguments are no JSON object but {quoted([arguments])}; give one JSON object")
    if most is not None and _is_deeper(arguments, most):
        raise Misfit(f"the arguments are nested more than {most} levels deep; give them in a flatter form")
    return arguments


def _given(tools: Tools) -> Iterator[Tool]:
    """Make a `Tool` with a name of each that was given."""
    if tools is None:
        return
    if isinstance(tools, Mapping):
        for name, tool in tools.items():
            if not is_name(name):
                raise ConfigurationError(f"the name of a tool must be {NAME_FORM}, not {short(name)}")
            yield _named(_tool(tool, f"tools[{name!r}]"), name)
        return
    if isinstance(tools, str | bytes | Tool) or not isinstance(tools, Iterable):
        raise ConfigurationError(
            f"tools must be a list of tools, or a mapping of their names, not {type(tools).__name__}; put one tool "
            "into a list"
        )
    for index, tool in enumerate(tools):
        made = _tool(tool, f"tools[{index}]")
        if made.called is None or not is_name(made.called):
            told = "" if made.called is None else f", not {short(made.called)}"
            raise ConfigurationError(f"tools[{index}] needs a name: {NAME_FORM}{told}; see Tool.name")
        yield _named(made, made.called)


def _named(tool: Tool, name: str) -> Tool:
    if tool.name is None:
        tool = copy(tool)  # which reads no schema again
        object.__setattr__(tool, "name", name)
    if tool.name != name:
        raise ConfigurationError(f"the tool under the name {name!r} calls itself {tool.name!r}; give it one name")
    return tool


def _tool(value: object, where: str) -> Tool:
    if isinstance(value, Tool):
        return value
    if isinstance(value, Mapping):
        return _defined(value, where)
    if not callable(value):
        raise ConfigurationError(
            f"{where} must be a function, a Tool or the definition of one, not {type(value).__name__}; one definition "
            "stands in a list"
        )
    return Tool(value)


def _defined(definition: Mapping[str, Any], where: str) -> Tool:
    """Read a definition: what stands under `function`, or the whole."""
    kind = definition.get("type", "function")
    if kind != "function":
        raise ConfigurationError(
            f"{where} is of type {short(kind)}; what the provider runs itself belongs into the request's own tools"
        )
    said = definition.get("function", {key: item for key, item in definition.items() if key != "type"})
    if not isinstance(said, Mapping):
        raise ConfigurationError(f"{where}['function'] must be a mapping, not {type(said).__name__}")
    for name in said:
        if name not in _IN_DEFINITION:
            raise ConfigurationError(
                f"{where} has an unknown key {short(name)}; there are: {', '.join(_IN_DEFINITION)}"
            )
    return Tool(**said)


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
    own = vars(kind).get("__doc__")  # what it has inherited is about another class
    if own or kind is function:
        return inspect.cleandoc(own or "")
    return inspect.getdoc(kind.__call__) or ""
