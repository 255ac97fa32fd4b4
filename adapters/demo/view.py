"""One scenario of the demo on the screen; every line comes from the run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define
from rich.text import Text

from rungwise.adapters.cli.describe import details_of
from rungwise.adapters.cli.output import counted, safe, shortened
from rungwise.adapters.cli.serve import summary_of, text_of
from rungwise.adapters.demo.screen import RUNG_STYLE, STYLES, Screen
from rungwise.adapters.demo.servers import DemoClock, Servers
from rungwise.adapters.provider.playback import ReceivedRequest
from rungwise.adapters.wires.plain.messages import read_message
from rungwise.fsm.call.conversation.reply import Discard, Reasoning
from rungwise.fsm.call.conversation.reply import Text as Visible
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.journal.record import Step
from rungwise.fsm.turn.actions import ToolEnded, ToolStarted
from rungwise.fsm.turn.journal import TurnStep
from rungwise.fsm.turn.result import TurnError, TurnResult
from rungwise.fsm.turn.table import CALLS
from rungwise.fsm.turn.tool_round import result_text

QUOTED: Final = 34
QUOTED_AGAIN: Final = 24
"""The characters of a message that are shown, the first time and later."""


@define
class ScenarioView:
    """Show one scenario."""

    screen: Screen
    clock: DemoClock
    servers: Servers
    _shown: str = ""
    _asked: str | None = None  # the backend of the request in flight
    _seen: int = 0
    _before: Sequence[Any] | None = None
    _is_labelled: bool = False  # the turn has just labelled the call

    def follow(self, event: object) -> None:
        """Show an event of the stream."""
        self._show_request()
        if isinstance(event, Visible):
            self._shown += event.text
            self.screen.stream(event.text, "default")
        elif isinstance(event, Reasoning):
            self.screen.stream(event.text, "dim italic", "(thinks) ")
        elif isinstance(event, Discard):
            self._shown = self._shown.removesuffix(event.text)
            self.screen.say(f"taken back: the {counted(len(event.text), 'character')} above", "red")
        elif isinstance(event, ToolStarted):
            arguments = event.call.arguments
            self.screen.say(f"{event.call.name} begins{f', with {arguments}' if arguments != '{}' else ''}")
        elif isinstance(event, ToolEnded) and event.outcome.fault is not None:
            self.screen.say(f"{event.call.name} fails; the model gets {shortened(event.outcome.fault, QUOTED)}", "red")
        elif isinstance(event, ToolEnded):
            result = shortened(result_text(event.outcome.value), QUOTED)
            self.screen.say(f"{event.call.name} returns {result}", "green")
        elif isinstance(event, TurnStep):
            self._show_turn_step(event)
        elif isinstance(event, Step):
            self._show_step(event)

    def end(self, result: Result | TurnResult, error: CallError | TurnError | None) -> bool:
        """Show the end; return whether the streamed text, minus what was taken back, is the text of the result."""
        self.screen.label(result.outcome, STYLES[result.outcome])
        if error is not None:
            self.screen.say(f"raises {type(error).__name__}: {error}")
        if isinstance(result, TurnResult):
            if result.cause is not None:
                self.screen.say(result.cause)
            if result.text:
                size = counted(len(result.text), "character")
                self.screen.say(f"the answer is the text above: {size}, after {counted(result.calls, 'call')}")
            return self._shown == result.text
        for call in result.tool_calls:
            self.screen.say(f"the model calls {call.name} with {call.arguments}")
        if result.text:
            self._show_answer(result)
        return self._shown == result.text

    def _show_step(self, step: Step) -> None:
        if step.event == "sent":
            if not self._is_labelled:
                self.screen.label(step.source, RUNG_STYLE)
            self._asked, self._is_labelled = step.backend, False
            return
        self.screen.say(self._row(step))
        if step.wait:
            why = "as the provider asked" if step.asked_wait == step.wait else "as the policy says"
            short = self.clock.pace.shortened(step.wait)
            self.screen.say(f"waits {step.wait:.1f} s, {why} (here {short:.2f} s)", "blue")
        self.clock.pause(self.clock.pace.step)

    def _row(self, step: Step) -> Text:
        """Return the row of a step, with its details."""
        line = Text.assemble((step.event, "magenta"))
        if step.guard:
            line.append(f" [{step.guard}]", "yellow")
        line.append(f" {self.screen.arrow} ", "dim").append(step.target, STYLES.get(step.target, RUNG_STYLE))
        if details := details_of(step):
            line.append(f" ({safe(details)})", "dim")
        return line

    def _show_turn_step(self, step: TurnStep) -> None:
        if step.event == "sent":
            self.screen.label(step.source, RUNG_STYLE)
            self._is_labelled = step.source in CALLS
            return
        if step.target == "use_tools":
            self._shown = ""  # text beside tool calls is not the answer
        self.screen.say(Text.assemble(("turn: ", "dim"), self._row(step)))
        self.clock.pause(self.clock.pace.step)

    def _show_request(self) -> None:
        """Show the request that arrived since the last step, or that none did."""
        backend, self._asked = self._asked, None
        if backend is None:
            return
        line = Text.assemble((f"{self.screen.arrow} ", "dim"), (backend, "cyan"), ": ")
        server = self.servers.by_name.get(backend)
        if server is None:
            line.append("no server listens there; nothing arrived")
        elif self.servers.arrived == self._seen:
            line.append("nothing arrived")
        else:
            request = server.requests[-1]
            line.append(safe(summary(request, self._before)))
            self._seen, self._before = self.servers.arrived, summary_of(request).messages
        self.screen.say(line)

    def _show_answer(self, result: Result) -> None:
        size = counted(len(result.text), "character")
        if result.parts == (result.text,):
            self.screen.say(f"the answer is the text above: {size}, from {result.backend}")
            return
        twice = sum(map(len, result.parts)) - len(result.text)
        repeated = f", minus {counted(twice, 'repeated character')}" if twice else ""
        self.screen.say(f"{counted(len(result.parts), 'part')}{repeated}, stitched into one answer of {size}:")
        self.screen.stream(result.text, "default")
        self.screen.end_live()


def summary(request: ReceivedRequest, before: Sequence[Any] | None) -> str:
    """Describe a request: its last messages or what it adds to the one before, its cap, and whether it streams."""
    asked = summary_of(request)
    messages = asked.messages
    if messages == before:
        what = f"same {_message(messages[-1], QUOTED_AGAIN)}"
    elif before is not None and messages[: len(before)] == before:
        what = f"same, then {_list(messages[len(before) :])}"
    else:
        what = f"{'..., ' if len(messages) > 2 else ''}{_list(messages[-2:])}"
    how = "stream" if asked.streams else "no stream"
    return f"{what}; {f'cap {asked.cap}' if asked.cap is not None else 'no cap'}, {how}"


def _list(messages: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(map(_message, messages))


def _message(message: Mapping[str, Any], most: int = QUOTED) -> str:
    role, text = text_of(message)
    calls = [call.name for each in read_message(message) for call in each.tool_calls]
    is_call = calls and not isinstance(text, str)
    return f"{role} calls {', '.join(calls)}" if is_call else f"{role} {shortened(text, most)}"
