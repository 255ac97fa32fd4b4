"""Make one language-model call succeed, or fail honestly, within a budget that is proved before the call starts.

Each call is an explicit state machine: its states are the rungs of a recovery ladder and the outcomes, and one table
runs it, is drawn for review, and is checked exhaustively. Every public name is here, and is imported when it is first
used. What to do about which trouble is told by the
[README](https://github.com/rungwise/rungwise/blob/main/README.md), the table by
[diagrams/](https://github.com/rungwise/rungwise/blob/main/diagrams/README.md); these pages tell what each name takes,
in which unit, what it returns, and what it raises. How all of it behaves together is told at length by
`rungwise.adapters` (messages, chains, cancelling, sharing) and `rungwise.fsm` (budgets, silence, ladders, turns).

    chain = [rungwise.Anthropic("claude-sonnet-5"), rungwise.Ollama("llama3.2")]
    client = rungwise.Client(chain)
    result = client.call("Why is the sky blue?")
    print(result.text, result.outcome, result.usage)

### To call models

* `Client` runs calls (`Client.call`, `Client.stream`; `Client.acall`, `Client.astream` in an event loop) and turns
  (`Client.turn`, `Client.stream_turn`, `Client.aturn`, `Client.astream_turn`). `CallOptions` and `TurnOptions` name
  what they may be given: a `SharedBudget`, a `TurnContext`, a `Policy`, ... A `Cancellation` ends a call of
  another thread.
* The chain is made of `OpenAIChat`, `OpenAIResponses`, `Anthropic`, `Gemini`, `Ollama` and `Bedrock`. All of them
  take what `rungwise.adapters.wires.http_backend.HttpBackend` lists; `Capabilities` and `Prices` describe a model.
  `Client.check` gives a `Check`, with a `BackendCheck` for each; `LEARNED` is what servers taught, as `Lessons`.
* Messages are mappings (`PlainMessage`), or a `Message` made of `Part`s: `TextPart`, `MediaPart`, `ReasoningPart`,
  `ToolCall`, `ToolResult`, `OpaquePart`. A `Tool`, or a `Toolbox` of them, says more of a function; `OldestFirst` is a
  compactor.
* A call returns a `Result`, a turn a `TurnResult`, with its `Usage` and its `Journal` or `TurnJournal`. A `Stream`
  (`AsyncStream`, `TurnStream`, `AsyncTurnStream`) hands out each `StreamEvent` (`Text`, `Reasoning`, `Discard`, `Step`)
  or `TurnEvent` (besides `TurnStep`, `ToolStarted`, `ToolEnded`), last the result. An `Observer` is given the steps.
* What goes wrong is a `RungwiseError`: a `CallError` (`Refused`, `Exhausted`, `EmptyResponse`, `Failed`, `OverBudget`,
  `Cancelled`) or `TurnError` (`TurnFailed`, `TurnOverBudget`, `TurnCancelled`) carries the result; a
  `ConfigurationError` (`TableError`) says what you wrote wrong. A `ToolError` is what a tool raises for the model.

### To review a policy

* A `Policy` has `Limits`, a `Budget`, `Waits`, `Timeouts`, a `Reserve` and `Hints`; a `TurnPolicy` has `TurnHints`.
* `verify` proves one and returns a `Certificate`; `draw_policy` draws its machine; `diff_policies` gives a `PolicyDiff`
  of two; `replay` runs a journal again, or raises `JournalMismatch`.
* `CALL` and `TURN` are the tables that are shipped: each a `Table` of `Row`s, made of `Rung`s, `Event`s, `Fact`s,
  `Guard`s, `Effect`s, and the `Entry` of a rung in a ladder.

### To test and to fuzz

* `rungwise.pytest_plugin` has fixtures for tests that neither wait nor need a provider.
* `rungwise.fsm.testing` draws replies, scripts and policies, and asserts that a call was honest;
  `rungwise.adapters.testing` plays hostile bytes to a client over a real socket.
* An `EmbeddedProvider` plays a `Script` of `ScriptedReply`s over HTTP, and keeps each `ReceivedRequest`.

### To do the I/O yourself

* `Call` takes a `Request` and says what to `Send`; it is told a `Reply` or a `Failure`. A `Link` (`PlainLink`) is what
  it knows of a backend, `Clocks` are the limits of an attempt. A `Turn` gives an `Action`: `MakeCall`, `RunTools` (each
  a `ToolRun`, answered by a `ToolOutcome`) or `Compact`. `IllegalEvent` and `BrokenMachine` are what a driver or a
  table can do wrong.
* A `Backend` writes a `Send` as an `HttpRequest`, and has a `Decoder` for what is streamed.

The core does no I/O, so nothing ties it to HTTP; this is a whole driver:

    call = rungwise.Call(rungwise.Request(messages), policy)
    send = call.begin(now)
    while send is not None:
        send = call.receive(ask_somehow(send), now)
    print(call.result.text)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rungwise import adapters, fsm
    from rungwise.adapters.check import BackendCheck, Check
    from rungwise.adapters.client import Client
    from rungwise.adapters.http.cancellation import Cancellation
    from rungwise.adapters.http.streams import AsyncStream, Stream
    from rungwise.adapters.options import CallOptions
    from rungwise.adapters.provider.playback import ReceivedRequest
    from rungwise.adapters.provider.script import Script, ScriptedReply
    from rungwise.adapters.provider.server import EmbeddedProvider
    from rungwise.adapters.turn.options import TurnOptions
    from rungwise.adapters.turn.streams import AsyncTurnStream, TurnStream
    from rungwise.adapters.wires.anthropic.backend import Anthropic
    from rungwise.adapters.wires.backend import Backend, Decoder, HttpRequest
    from rungwise.adapters.wires.bedrock.backend import Bedrock
    from rungwise.adapters.wires.capabilities.capability import Capabilities
    from rungwise.adapters.wires.chat.backend import OpenAIChat
    from rungwise.adapters.wires.gemini.backend import Gemini
    from rungwise.adapters.wires.learned import LEARNED
    from rungwise.adapters.wires.ollama.backend import Ollama
    from rungwise.adapters.wires.responses.backend import OpenAIResponses
    from rungwise.fsm.call.budget.shared import SharedBudget
    from rungwise.fsm.call.call import Call
    from rungwise.fsm.call.clocks.clocks import Clocks
    from rungwise.fsm.call.conversation.events import Discard, Reasoning, Text
    from rungwise.fsm.call.conversation.lessons import Lessons
    from rungwise.fsm.call.conversation.link import Link, PlainLink, Prices
    from rungwise.fsm.call.conversation.parts import (
        MediaPart,
        Message,
        OpaquePart,
        Part,
        ReasoningPart,
        TextPart,
        ToolCall,
        ToolResult,
    )
    from rungwise.fsm.call.conversation.reply import Reply
    from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send, TurnContext
    from rungwise.fsm.call.limits import Limits
    from rungwise.fsm.call.policy import Budget, Hints, Policy, Reserve, Timeouts, Waits
    from rungwise.fsm.call.run.delivery import StreamEvent
    from rungwise.fsm.call.run.journal import Journal
    from rungwise.fsm.call.run.recording import Observer
    from rungwise.fsm.call.run.result import Result
    from rungwise.fsm.call.table import CALL
    from rungwise.fsm.certificate.certificate import Certificate
    from rungwise.fsm.certificate.shown.pictures import draw_policy
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
        ToolError,
        TurnCancelled,
        TurnError,
        TurnFailed,
        TurnOverBudget,
    )
    from rungwise.fsm.failures.failure import Failure
    from rungwise.fsm.journal.record import Step
    from rungwise.fsm.machine.declare import Effect, Entry, Event, Fact, Guard, Rung
    from rungwise.fsm.machine.table import Row, Table
    from rungwise.fsm.replay.replay import replay
    from rungwise.fsm.review.diff import PolicyDiff, diff_policies
    from rungwise.fsm.turn.actions import (
        Action,
        Compact,
        MakeCall,
        RunTools,
        ToolEnded,
        ToolOutcome,
        ToolStarted,
        TurnEvent,
    )
    from rungwise.fsm.turn.compaction import OldestFirst
    from rungwise.fsm.turn.journal import TurnJournal, TurnStep
    from rungwise.fsm.turn.policy import TurnHints, TurnPolicy
    from rungwise.fsm.turn.result import TurnResult
    from rungwise.fsm.turn.table import TURN
    from rungwise.fsm.turn.tools import Tool, Toolbox, ToolRun
    from rungwise.fsm.turn.turn import Turn
    from rungwise.fsm.values.usage import Usage

_NAMES = {
    "adapters.wires.backend": ("Backend", "Decoder", "HttpRequest"),
    "adapters.wires.capabilities.capability": ("Capabilities",),
    "adapters.check": ("BackendCheck", "Check"),
    "adapters.client": ("Client",),
    "adapters.http.cancellation": ("Cancellation",),
    "adapters.http.streams": ("AsyncStream", "Stream"),
    "adapters.options": ("CallOptions",),
    "adapters.wires.learned": ("LEARNED",),
    "adapters.provider.playback": ("ReceivedRequest",),
    "adapters.provider.script": ("Script", "ScriptedReply"),
    "adapters.provider.server": ("EmbeddedProvider",),
    "adapters.wires.anthropic.backend": ("Anthropic",),
    "adapters.wires.bedrock.backend": ("Bedrock",),
    "adapters.wires.chat.backend": ("OpenAIChat",),
    "adapters.wires.gemini.backend": ("Gemini",),
    "adapters.wires.ollama.backend": ("Ollama",),
    "adapters.wires.responses.backend": ("OpenAIResponses",),
    "fsm.call.call": ("Call",),
    "fsm.call.clocks.clocks": ("Clocks",),
    "fsm.call.run.delivery": ("StreamEvent",),
    "fsm.call.conversation.events": ("Discard", "Reasoning", "Text"),
    "fsm.call.run.journal": ("Journal",),
    "fsm.call.conversation.lessons": ("Lessons",),
    "fsm.call.limits": ("Limits",),
    "fsm.call.policy": ("Budget", "Hints", "Policy", "Reserve", "Timeouts", "Waits"),
    "fsm.call.conversation.parts": (
        "MediaPart",
        "Message",
        "OpaquePart",
        "Part",
        "ReasoningPart",
        "TextPart",
        "ToolCall",
        "ToolResult",
    ),
    "fsm.call.conversation.reply": ("Reply",),
    "fsm.call.run.recording": ("Observer",),
    "fsm.call.conversation.link": ("Link", "PlainLink", "Prices"),
    "fsm.call.conversation.request": ("PlainMessage", "Request", "Send", "TurnContext"),
    "fsm.call.run.result": ("Result",),
    "fsm.call.budget.shared": ("SharedBudget",),
    "fsm.certificate.certificate": ("Certificate",),
    "fsm.review.diff": ("PolicyDiff", "diff_policies"),
    "fsm.certificate.shown.pictures": ("draw_policy",),
    "fsm.certificate.verify": ("verify",),
    "fsm.errors": (
        "TurnCancelled",
        "TurnError",
        "TurnFailed",
        "TurnOverBudget",
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
        "ToolError",
    ),
    "fsm.failures.failure": ("Failure",),
    "fsm.journal.record": ("Step",),
    "fsm.call.table": ("CALL",),
    "fsm.machine.declare": ("Effect", "Entry", "Event", "Fact", "Guard", "Rung"),
    "fsm.machine.table": ("Row", "Table"),
    "fsm.replay.replay": ("replay",),
    "fsm.turn.actions": (
        "Action",
        "Compact",
        "MakeCall",
        "RunTools",
        "ToolEnded",
        "ToolOutcome",
        "ToolStarted",
        "TurnEvent",
    ),
    "fsm.turn.journal": ("TurnJournal", "TurnStep"),
    "fsm.turn.policy": ("TurnHints", "TurnPolicy"),
    "fsm.turn.result": ("TurnResult",),
    "fsm.turn.table": ("TURN",),
    "fsm.turn.tools": ("Tool", "ToolRun", "Toolbox"),
    "fsm.turn.turn": ("Turn",),
    "adapters.turn.options": ("TurnOptions",),
    "adapters.turn.streams": ("AsyncTurnStream", "TurnStream"),
    "fsm.turn.compaction": ("OldestFirst",),
    "fsm.values.usage": ("Usage",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
_PARTS = ("adapters", "fsm")

__all__ = [
    "CALL",
    "LEARNED",
    "TURN",
    "Action",
    "Anthropic",
    "AsyncStream",
    "AsyncTurnStream",
    "Backend",
    "BackendCheck",
    "Bedrock",
    "BrokenMachine",
    "Budget",
    "Call",
    "CallError",
    "CallOptions",
    "Cancellation",
    "Cancelled",
    "Capabilities",
    "Certificate",
    "Check",
    "Client",
    "Clocks",
    "Compact",
    "ConfigurationError",
    "Decoder",
    "Discard",
    "Effect",
    "EmbeddedProvider",
    "EmptyResponse",
    "Entry",
    "Event",
    "Exhausted",
    "Fact",
    "Failed",
    "Failure",
    "Gemini",
    "Guard",
    "Hints",
    "HttpRequest",
    "IllegalEvent",
    "Journal",
    "JournalMismatch",
    "Lessons",
    "Limits",
    "Link",
    "MakeCall",
    "MediaPart",
    "Message",
    "Observer",
    "OldestFirst",
    "Ollama",
    "OpaquePart",
    "OpenAIChat",
    "OpenAIResponses",
    "OverBudget",
    "Part",
    "PlainLink",
    "PlainMessage",
    "Policy",
    "PolicyDiff",
    "Prices",
    "Reasoning",
    "ReasoningPart",
    "ReceivedRequest",
    "Refused",
    "Reply",
    "Request",
    "Reserve",
    "Result",
    "Row",
    "RunTools",
    "Rung",
    "RungwiseError",
    "Script",
    "ScriptedReply",
    "Send",
    "SharedBudget",
    "Step",
    "Stream",
    "StreamEvent",
    "Table",
    "TableError",
    "Text",
    "TextPart",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolEnded",
    "ToolError",
    "ToolOutcome",
    "ToolResult",
    "ToolRun",
    "ToolStarted",
    "Toolbox",
    "Turn",
    "TurnCancelled",
    "TurnContext",
    "TurnError",
    "TurnEvent",
    "TurnFailed",
    "TurnHints",
    "TurnJournal",
    "TurnOptions",
    "TurnOverBudget",
    "TurnPolicy",
    "TurnResult",
    "TurnStep",
    "TurnStream",
    "Usage",
    "Waits",
    "adapters",
    "diff_policies",
    "draw_policy",
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
    return sorted(__all__)
