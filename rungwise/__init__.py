"""Each language-model call as an explicit, provably bounded state machine.

Every public name is here and is imported when it is first used; the parts are `rungwise.fsm`, the core, and
`rungwise.adapters`, which speaks to providers. The kits for your own tests are `rungwise.fsm.testing` and
`rungwise.adapters.testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rungwise import adapters, fsm
    from rungwise.adapters.backend import Backend, Decoder, HttpRequest
    from rungwise.adapters.client import Client
    from rungwise.adapters.http.cancellation import Cancellation
    from rungwise.adapters.http.streams import AsyncStream, Stream
    from rungwise.adapters.provider.script import Script, ScriptedReply
    from rungwise.adapters.provider.server import EmbeddedProvider, ReceivedRequest
    from rungwise.adapters.wires.chat.backend import OpenAIChat
    from rungwise.fsm.call.call import Call
    from rungwise.fsm.call.delivery import StreamEvent
    from rungwise.fsm.call.events import Discard, Reasoning, Text
    from rungwise.fsm.call.ladder import Ladder, counter
    from rungwise.fsm.call.policy import Budget, Hints, Limits, Policy, Timeouts, Waits
    from rungwise.fsm.call.recording import Observer
    from rungwise.fsm.call.reply import Failure, Reply, ToolCall, Usage
    from rungwise.fsm.call.request import Link, Message, PlainLink, Prices, Request, Send, TurnContext
    from rungwise.fsm.call.result import Result
    from rungwise.fsm.certificate.certificate import Certificate
    from rungwise.fsm.certificate.verify import verify
    from rungwise.fsm.errors import (
        BrokenMachine,
        CallError,
        Cancelled,
        ConfigurationError,
        EmptyResponse,
        Exhausted,
        Failed,
        IllegalEvent,
        JournalMismatch,
        OverBudget,
        Refused,
        RungwiseError,
        TableError,
    )
    from rungwise.fsm.journal.record import Journal, Step
    from rungwise.fsm.machine.table import CALL, Row, Table
    from rungwise.fsm.replay.replay import replay

_NAMES = {
    "adapters.backend": ("Backend", "Decoder", "HttpRequest"),
    "adapters.client": ("Client",),
    "adapters.http.cancellation": ("Cancellation",),
    "adapters.http.streams": ("AsyncStream", "Stream"),
    "adapters.provider.script": ("Script", "ScriptedReply"),
    "adapters.provider.server": ("EmbeddedProvider", "ReceivedRequest"),
    "adapters.wires.chat.backend": ("OpenAIChat",),
    "fsm.call.call": ("Call",),
    "fsm.call.delivery": ("StreamEvent",),
    "fsm.call.events": ("Discard", "Reasoning", "Text"),
    "fsm.call.ladder": ("Ladder", "counter"),
    "fsm.call.policy": ("Budget", "Hints", "Limits", "Policy", "Timeouts", "Waits"),
    "fsm.call.recording": ("Observer",),
    "fsm.call.reply": ("Failure", "Reply", "ToolCall", "Usage"),
    "fsm.call.request": ("Link", "Message", "PlainLink", "Prices", "Request", "Send", "TurnContext"),
    "fsm.call.result": ("Result",),
    "fsm.certificate.certificate": ("Certificate",),
    "fsm.certificate.verify": ("verify",),
    "fsm.errors": (
        "BrokenMachine",
        "CallError",
        "Cancelled",
        "ConfigurationError",
        "EmptyResponse",
        "Exhausted",
        "Failed",
        "IllegalEvent",
        "JournalMismatch",
        "OverBudget",
        "Refused",
        "RungwiseError",
        "TableError",
    ),
    "fsm.journal.record": ("Journal", "Step"),
    "fsm.machine.table": ("CALL", "Row", "Table"),
    "fsm.replay.replay": ("replay",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
_PARTS = ("adapters", "fsm")

__all__ = [
    "CALL",
    "AsyncStream",
    "Backend",
    "BrokenMachine",
    "Budget",
    "Call",
    "CallError",
    "Cancellation",
    "Cancelled",
    "Certificate",
    "Client",
    "ConfigurationError",
    "Decoder",
    "Discard",
    "EmbeddedProvider",
    "EmptyResponse",
    "Exhausted",
    "Failed",
    "Failure",
    "Hints",
    "HttpRequest",
    "IllegalEvent",
    "Journal",
    "JournalMismatch",
    "Ladder",
    "Limits",
    "Link",
    "Message",
    "Observer",
    "OpenAIChat",
    "OverBudget",
    "PlainLink",
    "Policy",
    "Prices",
    "Reasoning",
    "ReceivedRequest",
    "Refused",
    "Reply",
    "Request",
    "Result",
    "Row",
    "RungwiseError",
    "Script",
    "ScriptedReply",
    "Send",
    "Step",
    "Stream",
    "StreamEvent",
    "Table",
    "TableError",
    "Text",
    "Timeouts",
    "ToolCall",
    "TurnContext",
    "Usage",
    "Waits",
    "adapters",
    "counter",
    "fsm",
    "replay",
    "verify",
]


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return import_module(f"rungwise.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'rungwise' has no attribute {name!r}")
    value = getattr(import_module(f"rungwise.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
