"""What a call may be given beside its messages, and the request that comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.conversation.options import REQUEST_OPTIONS, RequestOptions, refuse_unknown
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import PlainMessage, Request, TurnContext
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.secret import SecretMap

Messages = str | Iterable[PlainMessage | Message] | Request


class RunOptions(RequestOptions, total=False):
    """Name what calls and turns may be given alike."""

    within: SharedBudget | None
    deadline: float | datetime | None


class CallOptions(RunOptions, total=False):
    """Name what a call may be given beside its messages.

    Arguments:
        temperature, top_p, stop, seed, response_format: as chat completions has them; each protocol says them in its
            own words. None is the same as saying nothing.
        reasoning_effort, tool_choice, parallel_tool_calls: likewise.
        max_tokens, parameters, headers, input_tokens: as a `rungwise.core.Request` has them.
        tools: the definitions of tools, as the provider takes them.
        within: a `rungwise.SharedBudget` that the call is a part of.
        deadline: the point in time at which it must have ended: a `datetime` with a time zone, or seconds since 1970.
        turn: what the call cannot see of the turn around it.
        policy: how it recovers, in place of the client's policy.
    """

    tools: Iterable[Mapping[str, Any]]
    turn: TurnContext | None
    policy: Policy | None


OF_CALLS: Final = frozenset({"turn", "policy", "within", "deadline"})
"""The options of a call that are none of a request."""


def hide_headers(options: RequestOptions) -> None:
    """Hide the values of headers in place: a traceback shows the options of the method that was called."""
    if isinstance(headers := options.get("headers"), Mapping):
        options["headers"] = SecretMap(headers)


def request_of(messages: Messages, options: Mapping[str, Any], others: frozenset[str]) -> Request:
    """Return what is asked.

    Arguments:
        messages: a prompt, messages, or a request that is made already.
        options: what was given beside them.
        others: the names of the options that are none of a request.

    Raises:
        ConfigurationError: an option is unknown, or not of its form, or stands beside a request.
    """
    options = {name: value for name, value in options.items() if name not in others}
    if options:
        refuse_unknown(options, REQUEST_OPTIONS | others)
    if not isinstance(messages, Request):
        return Request(messages, **options)
    if options:
        raise ConfigurationError(f"a Request holds its own options; do not pass {', '.join(options)} beside it")
    return messages
