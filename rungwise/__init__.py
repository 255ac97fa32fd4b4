"""Make one language-model call succeed, or fail honestly, within a budget proved before it starts.

Each call is an explicit state machine. Its states are the rungs of a recovery ladder and the
outcomes, and one table runs it, is drawn for review, and is checked exhaustively. The
[guides](https://github.com/rungwise/rungwise/blob/main/docs/pages/index.md) go from trouble to
remedy, [diagrams/](https://github.com/rungwise/rungwise/blob/main/diagrams/README.md) shows the
table, and the reference gives each name with its arguments, units and errors. Its pages on [how
calls](https://github.com/rungwise/rungwise/blob/main/docs/pages/reference/calls-behave.md) and [how
clients](https://github.com/rungwise/rungwise/blob/main/docs/pages/reference/clients-behave.md)
behave give the rules in full.

    chain = [rungwise.Anthropic("claude-sonnet-5"), rungwise.Ollama("llama3.2")]
    client = rungwise.Client(chain)
    result = client.call("Why is the sky blue?")
    print(result.text, result.outcome, result.usage)

* **To call models**: a `Client` runs calls (`Client.call`, `Client.stream`; `Client.acall`,
  `Client.astream` in an event loop) and turns with tools (`Client.turn`, `Client.stream_turn`,
  `Client.aturn`, `Client.astream_turn`). The options that all backends share are those of
  `rungwise.adapters.wires.http_backend.HttpBackend`.
* **To outlive the process**: a `Durable` keeps calls in SQLite or Postgres; any live process
  resumes them.
* **Beneath the SDK that you have**: `Transport` and `asgi` turn its requests into calls of a
  client.
* **To review a policy**: `verify` proves its worst case, `odds` computes what is likely,
  `draw_policy` draws it, `diff_policies` compares two, and `replay` runs a journal again. `CALL` is
  the table that Rungwise ships.
* **To handle errors**: every error is a `RungwiseError`. A `CallError` or `TurnError` carries the
  result, so nothing that arrived is lost. A `ConfigurationError` names what to change in your code.

Four modules hold the other public names: `rungwise.core` for doing the I/O yourself, for tables of
your own, and for annotations; `rungwise.testing` for tests and fuzzing; `rungwise.ui` for showing
streams to users; `rungwise.otel` for traces and metrics. `rungwise.pytest_plugin` has fixtures.
"""

from typing import TYPE_CHECKING

from rungwise.lazy import lazy_names, show_public_names

if TYPE_CHECKING:  # the list of public names; each is imported when it is first used
    from rungwise import adapters as adapters
    from rungwise import core as core
    from rungwise import fsm as fsm
    from rungwise import otel as otel
    from rungwise import testing as testing
    from rungwise import ui as ui
    from rungwise.adapters.client import Client as Client
    from rungwise.adapters.durable.durable import Durable as Durable
    from rungwise.adapters.gateway.asgi import asgi as asgi
    from rungwise.adapters.gateway.transport import Transport as Transport
    from rungwise.adapters.http.cancellation import Cancellation as Cancellation
    from rungwise.adapters.tools.mcp_tools import mcp_toolbox as mcp_toolbox
    from rungwise.adapters.wires.anthropic.backend import Anthropic as Anthropic
    from rungwise.adapters.wires.bedrock.backend import Bedrock as Bedrock
    from rungwise.adapters.wires.capabilities.capability import Capabilities as Capabilities
    from rungwise.adapters.wires.chat.backend import OpenAIChat as OpenAIChat
    from rungwise.adapters.wires.decisions.backend import Decisions as Decisions
    from rungwise.adapters.wires.gemini.backend import Gemini as Gemini
    from rungwise.adapters.wires.interactions.backend import (
        GeminiInteractions as GeminiInteractions,
    )
    from rungwise.adapters.wires.ollama.backend import Ollama as Ollama
    from rungwise.adapters.wires.openai import OpenAI as OpenAI
    from rungwise.adapters.wires.responses.backend import OpenAIResponses as OpenAIResponses
    from rungwise.fsm.analysis.certificate.shown.pictures import draw_policy as draw_policy
    from rungwise.fsm.analysis.certificate.verify import verify as verify
    from rungwise.fsm.analysis.odds.odds import odds as odds
    from rungwise.fsm.analysis.replay.replay import replay as replay
    from rungwise.fsm.analysis.review.diff import diff_policies as diff_policies
    from rungwise.fsm.call.budget.shared import SharedBudget as SharedBudget
    from rungwise.fsm.call.chain.prices import Prices as Prices
    from rungwise.fsm.call.hints import Hints as Hints
    from rungwise.fsm.call.limits import Limits as Limits
    from rungwise.fsm.call.policy import Budget as Budget
    from rungwise.fsm.call.policy import Policy as Policy
    from rungwise.fsm.call.policy import Reserve as Reserve
    from rungwise.fsm.call.policy import Timeouts as Timeouts
    from rungwise.fsm.call.policy import Waits as Waits
    from rungwise.fsm.call.run.call_journal import Journal as Journal
    from rungwise.fsm.call.run.result import CallError as CallError
    from rungwise.fsm.call.run.result import Cancelled as Cancelled
    from rungwise.fsm.call.run.result import EmptyResponse as EmptyResponse
    from rungwise.fsm.call.run.result import Exhausted as Exhausted
    from rungwise.fsm.call.run.result import Failed as Failed
    from rungwise.fsm.call.run.result import OverBudget as OverBudget
    from rungwise.fsm.call.run.result import Refused as Refused
    from rungwise.fsm.call.run.result import Result as Result
    from rungwise.fsm.call.run.result import VerdictError as VerdictError
    from rungwise.fsm.call.run.result import WrongAnswer as WrongAnswer
    from rungwise.fsm.call.table import CALL as CALL
    from rungwise.fsm.engine.journal.record import Step as Step
    from rungwise.fsm.engine.machine.declare import Fact as Fact
    from rungwise.fsm.engine.machine.declare import Rung as Rung
    from rungwise.fsm.errors import ConfigurationError as ConfigurationError
    from rungwise.fsm.errors import JournalMismatch as JournalMismatch
    from rungwise.fsm.errors import RungwiseError as RungwiseError
    from rungwise.fsm.errors import ToolError as ToolError
    from rungwise.fsm.health.health import Health as Health
    from rungwise.fsm.health.quota import Quota as Quota
    from rungwise.fsm.replies.decisions.answers import Answer as Answer
    from rungwise.fsm.replies.decisions.answers import Decision as Decision
    from rungwise.fsm.replies.decisions.questions import Choice as Choice
    from rungwise.fsm.replies.decisions.questions import Score as Score
    from rungwise.fsm.replies.decisions.questions import YesNo as YesNo
    from rungwise.fsm.replies.parts import MediaPart as MediaPart
    from rungwise.fsm.replies.parts import Message as Message
    from rungwise.fsm.replies.parts import TextPart as TextPart
    from rungwise.fsm.replies.parts import ToolCall as ToolCall
    from rungwise.fsm.replies.parts import ToolResult as ToolResult
    from rungwise.fsm.replies.reply import Discard as Discard
    from rungwise.fsm.replies.reply import PartialValue as PartialValue
    from rungwise.fsm.replies.reply import Reasoning as Reasoning
    from rungwise.fsm.replies.reply import Text as Text
    from rungwise.fsm.turn.actions import ToolEnded as ToolEnded
    from rungwise.fsm.turn.actions import ToolStarted as ToolStarted
    from rungwise.fsm.turn.compaction import OldestFirst as OldestFirst
    from rungwise.fsm.turn.policy import TurnHints as TurnHints
    from rungwise.fsm.turn.policy import TurnPolicy as TurnPolicy
    from rungwise.fsm.turn.result import TurnCancelled as TurnCancelled
    from rungwise.fsm.turn.result import TurnError as TurnError
    from rungwise.fsm.turn.result import TurnFailed as TurnFailed
    from rungwise.fsm.turn.result import TurnOverBudget as TurnOverBudget
    from rungwise.fsm.turn.result import TurnResult as TurnResult
    from rungwise.fsm.turn.result import TurnWrongAnswer as TurnWrongAnswer
    from rungwise.fsm.turn.tools import Tool as Tool
    from rungwise.fsm.turn.tools import Toolbox as Toolbox
    from rungwise.fsm.turn.turn_journal import TurnJournal as TurnJournal
    from rungwise.fsm.turn.turn_journal import TurnStep as TurnStep
    from rungwise.fsm.values.usage import Usage as Usage
else:
    show_public_names()
    others = ("rungwise.core", "rungwise.testing", "rungwise.ui", "rungwise.otel")
    __getattr__, __dir__, __all__ = lazy_names(__name__, others=others)
