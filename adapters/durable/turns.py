"""What a durable turn is beside its request: its tools and functions, each stored by its import path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from rungwise.adapters.durable.forms import Plain
from rungwise.adapters.durable.paths import at_path, found, path_of, plain_path
from rungwise.adapters.durable.turn_tape import RecordedTurn
from rungwise.adapters.turn.options import Planned
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Tool, Toolbox
from rungwise.fsm.values.frozen_map import thawed

if TYPE_CHECKING:
    from rungwise.adapters.client import Client

FUNCTIONS: Final = ("executor", "compactor")
"""The options of a turn that are functions."""


def asked_of_turn(options: Mapping[str, Any]) -> Plain:
    """Return the options that only a turn has, as plain data.

    Raises:
        ConfigurationError: one is malformed, or a function cannot be imported by another process.
    """
    tools, approvals = options.get("tools"), options.get("approvals")
    functions = {name: options[name] for name in FUNCTIONS if options.get(name) is not None}
    if tools is not None:
        tools = [_plain_tool(tool) for tool in Toolbox.of(tools, options.get("executor")).tools.values()]
    return {
        "tools": tools,
        "approvals": None if approvals is None else dict(approvals),
        **{name: path_of(function, f"the {name} of a durable turn") for name, function in functions.items()},
    }


def new_turn(
    client: Client,
    asked: Plain,
    request: Request,
    policy: TurnPolicy,
    **settings: Any,
) -> Planned:
    """Return a turn that has not begun.

    Arguments:
        asked: as `asked_of_turn` wrote it.
        settings: other arguments of the turn.

    Raises:
        ConfigurationError: something does not fit, or a function cannot be found.
    """
    options: Any = {name: found(asked[name], f"the {name}") for name in FUNCTIONS if name in asked}
    if asked["tools"] is not None:
        options["tools"] = [_read_tool(tool) for tool in asked["tools"]]
    options |= {"policy": policy, "approvals": asked["approvals"], "verdict": settings.pop("verdict")}
    settings = {**client._options, **settings}
    return Planned.of(request, options, client.chain, client.policy, client._compactor, RecordedTurn, **settings)


def _plain_tool(tool: Tool) -> Plain:
    values = {each.name: getattr(tool, each.name) for each in attrs.fields(Tool) if each.init}
    for name in ("function", "needs_approval"):
        if callable(values[name]):
            values[name] = plain_path(values[name], f"the {name} of the tool {tool.name!r} of a durable turn")
    return {name: thawed(value) for name, value in values.items()}


def _read_tool(plain: Plain) -> Tool:
    return Tool(**{name: at_path(value, f"the {name} of a tool") for name, value in plain.items()})
