"""The screen of the demo, and one scenario on it; every line comes from the run itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define
from rich.console import Console
from rich.containers import Lines
from rich.table import Table
from rich.text import Text

from rungwise.adapters.cli.describe import details_of
from rungwise.adapters.cli.output import counted, safe, shortened
from rungwise.adapters.cli.serve import summary_of, text_of
from rungwise.adapters.demo.servers import DemoClock, Servers
from rungwise.adapters.provider.server import ReceivedRequest
from rungwise.adapters.wires.plain.messages import read_message
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.reply import Discard, Reasoning
from rungwise.fsm.replies.reply import Text as Visible
from rungwise.fsm.turn.actions import ToolEnded, ToolStarted
from rungwise.fsm.turn.result import TurnError, TurnResult
from rungwise.fsm.turn.table import CALLS
from rungwise.fsm.turn.tool_round import result_text
from rungwise.fsm.turn.turn_journal import TurnStep

WIDTH: Final = 79
LABEL: Final = 15
BAR: Final = 2

STYLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("done", "finished"), "bold green"),
    **dict.fromkeys(
        ("salvaged", "partial", "handed_off", "awaiting_approval", "limit_reached"), "bold yellow"
    ),
    **dict.fromkeys(("refused", "exhausted", "failed", "over_budget", "cancelled"), "bold red"),
}
RUNG_STYLE: Final = "bold cyan"


class _ScreenConsole(Console):
    """Leave it to the command line what becomes of a closed stdout."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Screen:
    """Write the demo to stdout."""

    def __init__(self) -> None:
        self.console = _ScreenConsole(highlight=False, markup=False, emoji=False)
        self.width = (
            max(40, min(WIDTH, self.console.width - 1)) if self.console.is_terminal else WIDTH
        )
        speaks_unicode = self.console.encoding.lower().startswith("utf")
        self.arrow, self.bar = ("→", "│") if speaks_unicode else ("->", "|")
        self._labelled = False
        self._column = 0
        self._live = self._gap = self._word = ""

    def print(self, text: str | Text = "", style: str = "", *, end: str = "\n") -> None:
        """Write text as it is."""
        self.console.print(
            Text(text, style) if isinstance(text, str) else text, end=end, soft_wrap=True
        )

    def paragraph(self, text: str | Text, style: str = "", indent: int = 0) -> None:
        """Write text between the margins."""
        for line in self._lines(text, style, indent):
            self.print(Text(" " * indent) + line)

    def label(self, text: str, style: str) -> None:
        """Write the label of the lines that follow."""
        self.end_live()
        if self._labelled:
            self.print()
        self.print(Text.assemble(" ", (text.ljust(LABEL - 1), style)), end="")
        self._labelled = True

    def say(self, text: str | Text, style: str = "") -> None:
        """Write text to the right of the labels."""
        for line in self._lines(text, style, LABEL):
            self.print(line if self._labelled else Text(" " * LABEL) + line)
            self._labelled = False

    def _lines(self, text: str | Text, style: str, indent: int) -> Lines:
        self.end_live()
        lines = (Text(safe(text), style) if isinstance(text, str) else text).wrap(
            self.console, self.width - indent
        )
        for line in lines:
            line.rstrip()
        return lines

    def stream(self, text: str, style: str, opening: str = "") -> None:
        """Write a piece of a text behind a bar; a word appears when it is whole."""
        if self._live != style:
            self.end_live()
            self._live = style
            self._new_line()
            text = opening + text
        for character in safe(text):
            if character.isspace():
                self._end_word()
                self._gap += character
            else:
                self._word += character

    def end_live(self) -> None:
        """End the text that streams, if any does."""
        if self._live:
            self._end_word()
            self.print()
            self._live = ""
            self._column = 0
            self._gap = ""

    def _new_line(self) -> None:
        if self._column or self._labelled:
            self.print()
        self._labelled = False
        self.print(Text.assemble(" " * LABEL, (self.bar, "dim")), end="")
        self._column = LABEL + BAR - 1
        self._gap = " "

    def _end_word(self) -> None:
        """Write a word, with the white space before it that a line would otherwise end with."""
        word = self._word
        self._word = ""
        if not word:
            return
        for _ in range(self._gap.count("\n")):
            self._new_line()
        if self._column + len(self._gap) + len(word) > self.width and self._column >= LABEL + BAR:
            self._new_line()
        while self._column + len(self._gap) + len(word) > self.width:
            room = self.width - self._column - len(self._gap)
            self._put(word[:room])
            word = word[room:]
            self._new_line()
        self._put(word)

    def _put(self, word: str) -> None:
        self.print(Text(self._gap + word, self._live), end="")
        self._column += len(self._gap) + len(word)
        self._gap = ""

    def table(self, headings: tuple[str, ...], rows: list[tuple[str | Text, ...]]) -> None:
        """Write a table without lines."""
        table = Table(
            box=None, padding=(0, 2, 0, 0), width=self.width, header_style="bold", pad_edge=False
        )
        for number, heading in enumerate(headings):
            is_number = number == len(headings) - 1
            table.add_column(heading, justify="right" if is_number else "left", no_wrap=number != 1)
        for row in rows:
            table.add_row(*row)
        self.console.print(table)


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
            self.screen.say(
                f"{event.call.name} begins{f', with {arguments}' if arguments != '{}' else ''}"
            )
        elif isinstance(event, ToolEnded) and event.outcome.fault is not None:
            self.screen.say(
                f"{event.call.name} fails; the model gets {shortened(event.outcome.fault, QUOTED)}",
                "red",
            )
        elif isinstance(event, ToolEnded):
            result = shortened(result_text(event.outcome.value), QUOTED)
            self.screen.say(f"{event.call.name} returns {result}", "green")
        elif isinstance(event, TurnStep):
            self._show_turn_step(event)
        elif isinstance(event, Step):
            self._show_step(event)

    def end(self, result: Result | TurnResult, error: CallError | TurnError | None) -> bool:
        """Show the end; return whether the streamed text, minus what was taken back, is the text of
        the result.
        """
        self.screen.label(result.outcome, STYLES[result.outcome])
        if error is not None:
            self.screen.say(f"raises {type(error).__name__}: {error}")
        if isinstance(result, TurnResult):
            if result.cause is not None:
                self.screen.say(result.cause)
            if result.text:
                size = counted(len(result.text), "character")
                self.screen.say(
                    f"the answer is the text above: {size}, after {counted(result.calls, 'call')}"
                )
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
            self._asked = step.backend
            self._is_labelled = False
            return
        self.screen.say(self._row(step))
        if step.wait:
            why = "as the provider asked" if step.asked_wait == step.wait else "as the policy says"
            short = self.clock.pace.shortened(step.wait)
            self.screen.say(f"waits {step.wait:.1f} s, {why} (here {short:.2f} s)", "blue")
        self.clock.pause(self.clock.pace.step)

    def _row(self, step: Step) -> Text:
        line = Text.assemble((step.event, "magenta"))
        if step.guard:
            line.append(f" [{step.guard}]", "yellow")
        line.append(f" {self.screen.arrow} ", "dim").append(
            step.target, STYLES.get(step.target, RUNG_STYLE)
        )
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
        backend = self._asked
        self._asked = None
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
        self.screen.say(
            f"{counted(len(result.parts), 'part')}{repeated}, stitched into one answer of {size}:"
        )
        self.screen.stream(result.text, "default")
        self.screen.end_live()


def summary(request: ReceivedRequest, before: Sequence[Any] | None) -> str:
    """Describe a request: its last messages or what it adds to the one before, its cap, and whether
    it streams.
    """
    asked = summary_of(request)
    messages = asked.messages
    if messages == before:
        what = f"same {_message(messages[-1], QUOTED_AGAIN)}"
    elif before is not None and messages[: len(before)] == before:
        what = f"same, then {', '.join(map(_message, messages[len(before) :]))}"
    else:
        what = f"{'..., ' if len(messages) > 2 else ''}{', '.join(map(_message, messages[-2:]))}"
    how = "stream" if asked.streams else "no stream"
    return f"{what}; {f'cap {asked.cap}' if asked.cap is not None else 'no cap'}, {how}"


def _message(message: Mapping[str, Any], most: int = QUOTED) -> str:
    role, text = text_of(message)
    calls = [call.name for each in read_message(message) for call in each.tool_calls]
    is_call = calls and not isinstance(text, str)
    return f"{role} calls {', '.join(calls)}" if is_call else f"{role} {shortened(text, most)}"
