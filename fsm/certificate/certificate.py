"""The certificate: the result of a check, with the forms that it can be written in."""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.certificate.shown import text
from rungwise.fsm.certificate.verified import Verified


@frozen
class Certificate(Verified):
    """Hold the result of `verify`: every property with its verdict, and the worst cases.

    Arguments:
        table, limits, budget, chain: what was checked.
        max_tokens, input_tokens, assistant_turns: the request that the worst cases assume, in tokens.
        walked, configurations: the limits of the walk, and how many configurations it saw.
        properties, rows, overlaps: what holds, the argument for each row, and the guards that can hold at once.
        worst: the worst cases; empty if a required property fails.
        kept: what the last of several backends has at least.
        call, tools: for a turn, the certificate of its calls and the bounds of its tools.
    """

    call: Certificate | None = None

    def to_text(self) -> str:
        """Write the certificate for a terminal of 80 columns; for a turn, with that of its calls below."""
        return text.as_text(self)

    def to_markdown(self, *, calls: bool = True) -> str:
        """Write the certificate as Markdown.

        Arguments:
            calls: whether the certificate of a turn's calls follows.
        """
        return text.as_markdown(self, calls=calls)
