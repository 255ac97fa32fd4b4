"""The answer of a call on stdout: exactly the result's text, whoever reads it."""

from __future__ import annotations

import sys

from rungwise.adapters.cli.output import counted, is_terminal, put, safe


class Answer:
    """Take the text of a call as it comes, and write none of it: the result will be written in another form."""

    def add(self, text: str) -> None:
        """Take text that the call hands out."""

    def take_back(self, text: str) -> None:
        """Take back the end of what was handed out."""

    def settle(self) -> None:
        """Learn that nothing that came so far will be taken back."""

    def set_aside(self) -> None:
        """Learn that what came so far was said beside tool calls: the answer comes later."""

    def interlude(self) -> None:
        """Make room for a line on stderr."""

    def end(self, whole: str) -> None:
        """Write what is missing of the result's text."""


class PipedAnswer(Answer):
    """Write for a program: text goes out once it is certain, so nothing is ever taken back, and nothing is added."""

    def __init__(self) -> None:
        self._pending: list[str] = []
        self._written = 0

    def add(self, text: str) -> None:
        """Keep text until its attempt has ended well."""
        self._pending.append(text)

    def take_back(self, text: str) -> None:
        """Forget the end of what is kept."""
        self._pending = ["".join(self._pending).removesuffix(text)]

    def settle(self) -> None:
        """Write what was kept."""
        text = "".join(self._pending)
        self._pending.clear()
        self._write(text)

    def set_aside(self) -> None:
        """Forget what was said; the result holds it, should nothing come after it."""
        self._pending.clear()

    def end(self, whole: str) -> None:
        """Write what is missing of the result's text."""
        self._pending.clear()
        self._write(whole[self._written :])

    def _write(self, text: str) -> None:
        if text:
            put(text)
            self._written += len(text)


class TerminalAnswer(Answer):
    """Write for a person: text as it comes, and a marked new start where some of it was taken back."""

    def __init__(self) -> None:
        self._shown = ""
        self._aside = ""
        self._at_line_start = True

    def add(self, text: str) -> None:
        """Show text."""
        self._shown += text
        self._write(safe(text))

    def take_back(self, text: str) -> None:
        """Say which text no longer counts, and show again what stays."""
        self._shown = self._shown.removesuffix(text)
        self.interlude()
        after = "what stays of the answer:" if self._shown else "the answer begins anew:"
        self._write(f"[taken back: the last {counted(len(text), 'character')} above; {after}]\n")
        self._write(safe(self._shown))

    def set_aside(self) -> None:
        """Leave what was said where it stands, and begin a new line."""
        self._aside, self._shown = self._shown if self._shown.strip() else self._aside, ""
        self.interlude()

    def interlude(self) -> None:
        """Begin a new line if need be."""
        if not self._at_line_start:
            self._write("\n")

    def end(self, whole: str) -> None:
        """Show what is missing of the result's text, and end the line."""
        is_above = self._aside == whole != "" and not self._shown.strip()  # nothing came after it
        if not is_above and not whole.startswith(self._shown):
            self.take_back(self._shown)
        self.add("" if is_above else whole[len(self._shown) :])
        self.interlude()

    def _write(self, text: str) -> None:
        if text:
            put(text)
            self._at_line_start = text.endswith("\n")


def answer_to_stdout() -> Answer:
    """Return what fits whoever reads stdout."""
    return TerminalAnswer() if is_terminal(sys.stdout) else PipedAnswer()
