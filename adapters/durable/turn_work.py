"""What a database is given of a turn beyond what it holds of a call: tools, approvals and
functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from rungwise.adapters.durable.forms import Plain
from rungwise.adapters.durable.import_paths import PATH, Modules
from rungwise.adapters.durable.turn_tape import RecordedTurn
from rungwise.adapters.turn.turn_options import Planned
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Tool, Toolbox
from rungwise.fsm.values.frozen_map import thawed

if TYPE_CHECKING:
    from rungwise.adapters.client import Client

FUNCTIONS: Final = ("executor", "compactor")
"""The options of a turn that are functions."""


def asked_of_turn(options: Mapping[str, Any], modules: Modules) -> Plain:
    """Return the options that only a turn has, as plain data, or raise a ConfigurationError if one
    cannot be stored.
    """
    tools = options.get("tools")
    approvals = options.get("approvals")
    plain: Plain = {"tools": None, "approvals": None}
    if tools is not None:
        toolbox = Toolbox.of(tools, options.get("executor"))
        plain["tools"] = [_plain_tool(tool, modules) for tool in toolbox.tools.values()]
    if approvals is not None:
        plain["approvals"] = dict(approvals)
    for name in FUNCTIONS:
        if options.get(name) is not None:
            plain[name] = modules.path_of(options[name], f"the {name} of a durable turn")
    return plain


def new_turn(
    client: Client,
    asked: Plain,
    request: Request,
    policy: TurnPolicy,
    modules: Modules,
    **settings: Any,
) -> Planned:
    """Return a turn that has not begun.

    Arguments:
        client, policy: run it.
        asked: what `asked_of_turn` wrote.
        request: what it is asked.
        modules: hold the functions that it may name.
        settings: its `verdict`, what it `returns`, and its `deadline`.

    Raises:
        ConfigurationError: a function cannot be imported.
    """
    options: Any = {}
    for name in FUNCTIONS:
        if name in asked:
            options[name] = modules.found(asked[name], f"the {name}")
    if asked["tools"] is not None:
        options["tools"] = [_read_tool(plain, modules) for plain in asked["tools"]]
    options["policy"] = policy
    options["approvals"] = asked["approvals"]
    options["verdict"] = settings.pop("verdict")
    runtime = client.runtime
    return Planned.of(
        request,
        options,
        runtime.chain,
        runtime.policy,
        runtime.compactor,
        RecordedTurn,
        **{**runtime.call_options, **settings},
    )


def _plain_tool(tool: Tool, modules: Modules) -> Plain:
    """Return a tool as plain data, its functions by their import paths."""
    plain: Plain = {}
    for each in attrs.fields(Tool):
        if not each.init:
            continue
        value = getattr(tool, each.name)
        if callable(value) and each.name in ("function", "needs_approval"):
            what = f"the {each.name} of the tool {tool.name!r} of a durable turn"
            value = {PATH: modules.path_of(value, what)}
        plain[each.name] = thawed(value)
    return plain


def _read_tool(plain: Plain, modules: Modules) -> Tool:
    """Return the tool that `_plain_tool` wrote."""
    values = {}
    for name, value in plain.items():
        values[name] = modules.at_path(value, f"the {name} of a tool")
    return Tool(**values)
