"""The screen of the demo, and one scenario on it; every line comes from the run itself.

Nothing of a scenario is written in advance but its title: rungs, guards and waits are the steps of
the journal as they happen, requests are those that arrived at the servers, and at the end the text
that was streamed is compared with the result.
"""

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

WIDTH: Final = 79  # columns of a line, at most
NARROWEST: Final = 40
LABEL: Final = 15  # columns of the labels at the left
BAR: Final = 2  # columns of the bar before streamed text

GOOD: Final = "bold green"
MIXED: Final = "bold yellow"
BAD: Final = "bold red"
STYLES: Final[Mapping[str, str]] = {
    "done": GOOD,
    "finished": GOOD,
    "salvaged": MIXED,
    "partial": MIXED,
    "handed_off": MIXED,
    "awaiting_approval": MIXED,
    "limit_reached": MIXED,
    "refused": BAD,
    "exhausted": BAD,
    "failed": BAD,
    "over_budget": BAD,
    "cancelled": BAD,
}
"""How the outcomes of calls and turns are shown."""
RUNG_STYLE: Final = "bold cyan"


class Screen:
    """Write the demo to stdout."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, markup=False, emoji=False)
        self.width = WIDTH
        if self.console.is_terminal:
            self.width = max(NARROWEST, min(WIDTH, self.console.width - 1))
        self.arrow = "→"
        self.bar = "│"
        if not self.console.encoding.lower().startswith("utf"):
            self.arrow = "->"
            self.bar = "|"
        self._labelled = False  # the cursor stands behind a label
        self._live = ""  # the style of the text that streams; empty if none does
        self._column = 0
        self._gap = ""  # the white space before the next word
        self._word = ""  # what has come of it

    def print(self, text: str | Text = "", style: str = "", *, end: str = "\n") -> None:
        """Write text as it is."""
        if isinstance(text, str):
            text = Text(text, style)
        self.console.print(text, end=end, soft_wrap=True)

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
        """Wrap text to lines between an indent and the right margin."""
        self.end_live()
        if isinstance(text, str):
            text = Text(safe(text), style)
        lines = text.wrap(self.console, self.width - indent)
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
        if len(word) > self._room and self._column >= LABEL + BAR:
            self._new_line()
        while len(word) > self._room:  # longer than a whole line
            room = self._room
            self._put(word[:room])
            word = word[room:]
            self._new_line()
        self._put(word)

    @property
    def _room(self) -> int:
        """Return how many characters of a word the line still holds."""
        return self.width - self._column - len(self._gap)

    def _put(self, word: str) -> None:
        self.print(Text(self._gap + word, self._live), end="")
        self._column += len(self._gap) + len(word)
        self._gap = ""

    def table(self, headings: tuple[str, ...], rows: list[tuple[str | Text, ...]]) -> None:
        """Write a table without lines."""
        table = Table(
            box=None, padding=(0, 2, 0, 0), width=self.width, header_style="bold", pad_edge=False
        )
        *words, number = headings
        for place, heading in enumerate(words):
            table.add_column(heading, no_wrap=place != 1)
        table.add_column(number, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self.console.print(table)


QUOTED: Final = 34
QUOTED_AGAIN: Final = 24
"""The characters of a message that are shown, the first time and later."""


@define
class ScenarioView:
    """Show one scenario.

    Arguments:
        screen: where it is shown.
        clock: pauses for the reader.
        servers: whose requests are shown.
    """

    screen: Screen
    clock: DemoClock
    servers: Servers
    _shown: str = ""  # the text that was streamed, minus what was taken back
    _asked: str | None = None  # the backend of the request in flight
    _seen: int = 0  # how many requests were shown
    _before: Sequence[Any] | None = None  # the messages of the last one
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
            begins = f"{event.call.name} begins"
            if event.call.arguments != "{}":
                begins = f"{begins}, with {event.call.arguments}"
            self.screen.say(begins)
        elif isinstance(event, ToolEnded):
            self._show_tool_end(event)
        elif isinstance(event, TurnStep):
            self._show_turn_step(event)
        elif isinstance(event, Step):
            self._show_step(event)

    def _show_tool_end(self, event: ToolEnded) -> None:
        name = event.call.name
        fault = event.outcome.fault
        if fault is not None:
            self.screen.say(f"{name} fails; the model gets {shortened(fault, QUOTED)}", "red")
            return
        result = shortened(result_text(event.outcome.value), QUOTED)
        self.screen.say(f"{name} returns {result}", "green")

    def end(self, result: Result | TurnResult, error: CallError | TurnError | None) -> bool:
        """Show the end, and return whether the text that was streamed is that of the result."""
        self.screen.label(result.outcome, STYLES[result.outcome])
        if error is not None:
            self.screen.say(f"raises {type(error).__name__}: {error}")
        if isinstance(result, TurnResult):
            if result.cause is not None:
                self.screen.say(result.cause)
            if result.text:
                size = counted(len(result.text), "character")
                calls = counted(result.calls, "call")
                self.screen.say(f"the answer is the text above: {size}, after {calls}")
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
            here = f"here {short:.2f} s"
            self.screen.say(f"waits {step.wait:.1f} s, {why} ({here})", "blue")
        self.clock.pause(self.clock.pace.step)

    def _row(self, step: Step) -> Text:
        """Write a step as the row of the table that was taken."""
        line = Text.assemble((step.event, "magenta"))
        if step.guard:
            line.append(f" [{step.guard}]", "yellow")
        line.append(f" {self.screen.arrow} ", "dim")
        line.append(step.target, STYLES.get(step.target, RUNG_STYLE))
        details = details_of(step)
        if details:
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
            self._seen = self.servers.arrived
            self._before = summary_of(request).messages
        self.screen.say(line)

    def _show_answer(self, result: Result) -> None:
        size = counted(len(result.text), "character")
        if result.parts == (result.text,):
            self.screen.say(f"the answer is the text above: {size}, from {result.backend}")
            return
        parts = counted(len(result.parts), "part")
        repeated = sum(map(len, result.parts)) - len(result.text)
        if repeated:
            parts = f"{parts}, minus {counted(repeated, 'repeated character')}"
        self.screen.say(f"{parts}, stitched into one answer of {size}:")
        self.screen.stream(result.text, "default")
        self.screen.end_live()


def summary(request: ReceivedRequest, before: Sequence[Any] | None) -> str:
    """Describe a request: its messages, its cap, and whether it streams.

    Arguments:
        request: the request.
        before: the messages of the one before; what both have in common is not repeated.
    """
    asked = summary_of(request)
    messages = asked.messages
    if messages == before:
        what = f"same {_message(messages[-1], QUOTED_AGAIN)}"
    elif before is not None and messages[: len(before)] == before:
        what = f"same, then {_listed(messages[len(before) :])}"
    elif len(messages) > 2:
        what = f"..., {_listed(messages[-2:])}"
    else:
        what = _listed(messages)
    cap = "no cap" if asked.cap is None else f"cap {asked.cap}"
    how = "stream" if asked.streams else "no stream"
    return f"{what}; {cap}, {how}"


def _listed(messages: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(map(_message, messages))


def _message(message: Mapping[str, Any], most: int = QUOTED) -> str:
    role, text = text_of(message)
    calls = [call.name for each in read_message(message) for call in each.tool_calls]
    if calls and not isinstance(text, str):
        return f"{role} calls {', '.join(calls)}"
    return f"{role} {shortened(text, most)}"
