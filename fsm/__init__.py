"""Rungwise's core: each model call as an explicit, provably bounded state machine. It does no I/O."""

from fsm.call import Call, Observer, StreamEvent
from fsm.checker.certificate import Certificate
from fsm.checker.verify import verify
from fsm.errors import (
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
from fsm.events import Discard, Reasoning, Rung, Text
from fsm.journal import Journal, Step
from fsm.ladder import Ladder, counter
from fsm.policy import Budget, Hints, Limits, Policy, Timeouts, Waits
from fsm.replay import replay
from fsm.reply import Failure, Reply, ToolCall, Usage
from fsm.request import Link, Message, PlainLink, Prices, Request, Send, TurnContext
from fsm.result import Result
from fsm.table import CALL, Row, Table

__all__ = [
    "CALL",
    "BrokenMachine",
    "Budget",
    "Call",
    "CallError",
    "Cancelled",
    "Certificate",
    "ConfigurationError",
    "Discard",
    "EmptyResponse",
    "Exhausted",
    "Failed",
    "Failure",
    "Hints",
    "IllegalEvent",
    "Journal",
    "JournalMismatch",
    "Ladder",
    "Limits",
    "Link",
    "Message",
    "Observer",
    "OverBudget",
    "PlainLink",
    "Policy",
    "Prices",
    "Reasoning",
    "Refused",
    "Reply",
    "Request",
    "Result",
    "Row",
    "Rung",
    "RungwiseError",
    "Send",
    "Step",
    "StreamEvent",
    "Table",
    "TableError",
    "Text",
    "Timeouts",
    "ToolCall",
    "TurnContext",
    "Usage",
    "Waits",
    "counter",
    "replay",
    "verify",
]
