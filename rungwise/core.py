"""The core without the client: to do the I/O yourself, for your own tables, and for annotations.

* `Call` takes a `Request` and returns what to `Send`; pass it the `Reply` or `Failure` that came
  back. A `Link` (`PlainLink`) describes a backend to it; `AttemptClocks` are the limits of one
  attempt. A `Turn` returns an `Action`: `MakeCall`, `RunTools` (each a `ToolRun`, answered with a
  `ToolOutcome`) or `Compact`. A driver that breaks the order gets an `IllegalEvent`;
  `BrokenMachine` is a defect of the table.
* A `Backend` writes a `Send` as an `HttpRequest` and has a `Decoder` for streams. `LEARNED` holds
  the `Lessons` that servers taught about their models.
* A `Table` consists of `Row`s, which follow from `rungwise.Rung`s, `Event`s, `rungwise.Fact`s,
  `Guard`s, `Effect`s, and the `Entry` of a rung in a ladder. `rungwise.CALL`, `TURN` and `HEALTH`
  are the tables that Rungwise ships.
* For annotations: what `rungwise.verify` and `rungwise.odds` return (`Certificate`, `Odds`,
  `TurnOdds`), the `Rates` of the latter, the `Handle` of a durable call, a `Question` of a
  decision, a message as a mapping (`PlainMessage`), a `Part` of a `rungwise.Message`,
  `StreamEvent` and `TurnEvent`, and `Observer`, a function that is called with each step.
* `Caller` says who asks `rungwise.asgi`, and what they may.

The core does no I/O, so nothing ties it to HTTP. This is a whole driver:

    call = rungwise.core.Call(rungwise.core.Request(messages), policy)
    send = call.begin(now)
    while send is not None:
        send = call.receive(ask_somehow(send), now)
    print(call.result.text)
"""

from typing import TYPE_CHECKING

from rungwise.lazy import lazy_names

if TYPE_CHECKING:  # the list of public names; each is imported when it is first used
    from rungwise.adapters.check import BackendCheck as BackendCheck
    from rungwise.adapters.check import Check as Check
    from rungwise.adapters.client_options import CallOptions as CallOptions
    from rungwise.adapters.durable.handle import Handle as Handle
    from rungwise.adapters.gateway.serving.callers import Caller as Caller
    from rungwise.adapters.http.streams import AsyncStream as AsyncStream
    from rungwise.adapters.http.streams import Stream as Stream
    from rungwise.adapters.turn.turn_options import AsyncTurnStream as AsyncTurnStream
    from rungwise.adapters.turn.turn_options import TurnOptions as TurnOptions
    from rungwise.adapters.turn.turn_options import TurnStream as TurnStream
    from rungwise.adapters.wires.backend import Backend as Backend
    from rungwise.adapters.wires.backend import Decoder as Decoder
    from rungwise.adapters.wires.backend import HttpRequest as HttpRequest
    from rungwise.adapters.wires.learned import LEARNED as LEARNED
    from rungwise.fsm.analysis.certificate.certificate import Certificate as Certificate
    from rungwise.fsm.analysis.odds.calls import Odds as Odds
    from rungwise.fsm.analysis.odds.odds import TurnOdds as TurnOdds
    from rungwise.fsm.analysis.odds.rates import Rates as Rates
    from rungwise.fsm.analysis.review.diff import PolicyDiff as PolicyDiff
    from rungwise.fsm.call.call import Call as Call
    from rungwise.fsm.call.chain.lessons import Lessons as Lessons
    from rungwise.fsm.call.chain.link import Link as Link
    from rungwise.fsm.call.chain.link import PlainLink as PlainLink
    from rungwise.fsm.call.clocks.silence import AttemptClocks as AttemptClocks
    from rungwise.fsm.call.conversation.request import PlainMessage as PlainMessage
    from rungwise.fsm.call.conversation.request import Request as Request
    from rungwise.fsm.call.conversation.request import Send as Send
    from rungwise.fsm.call.conversation.request import TurnContext as TurnContext
    from rungwise.fsm.call.run.delivery import StreamEvent as StreamEvent
    from rungwise.fsm.call.run.recording import Observer as Observer
    from rungwise.fsm.call.run.sending import Needs as Needs
    from rungwise.fsm.engine.machine.declare import Effect as Effect
    from rungwise.fsm.engine.machine.declare import Entry as Entry
    from rungwise.fsm.engine.machine.declare import Event as Event
    from rungwise.fsm.engine.machine.declare import Guard as Guard
    from rungwise.fsm.engine.machine.table import Row as Row
    from rungwise.fsm.engine.machine.table import Table as Table
    from rungwise.fsm.errors import BrokenMachine as BrokenMachine
    from rungwise.fsm.errors import IllegalEvent as IllegalEvent
    from rungwise.fsm.errors import TableError as TableError
    from rungwise.fsm.health.health import BackendHealth as BackendHealth
    from rungwise.fsm.health.table import HEALTH as HEALTH
    from rungwise.fsm.replies.decisions.questions import Question as Question
    from rungwise.fsm.replies.failures.failure import Failure as Failure
    from rungwise.fsm.replies.parts import CitationPart as CitationPart
    from rungwise.fsm.replies.parts import CommentaryPart as CommentaryPart
    from rungwise.fsm.replies.parts import OpaquePart as OpaquePart
    from rungwise.fsm.replies.parts import Part as Part
    from rungwise.fsm.replies.parts import ReasoningPart as ReasoningPart
    from rungwise.fsm.replies.reply import Commentary as Commentary
    from rungwise.fsm.replies.reply import Reply as Reply
    from rungwise.fsm.turn.actions import Action as Action
    from rungwise.fsm.turn.actions import Compact as Compact
    from rungwise.fsm.turn.actions import MakeCall as MakeCall
    from rungwise.fsm.turn.actions import RunTools as RunTools
    from rungwise.fsm.turn.actions import ToolOutcome as ToolOutcome
    from rungwise.fsm.turn.actions import TurnEvent as TurnEvent
    from rungwise.fsm.turn.table import TURN as TURN
    from rungwise.fsm.turn.tools import ToolRun as ToolRun
    from rungwise.fsm.turn.turn import Turn as Turn
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, others=("rungwise", "rungwise.testing", "rungwise.ui")
    )
