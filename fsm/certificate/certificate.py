"""The certificate: the result of a check, with the forms that it can be written in."""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.certificate.shown import markdown
from rungwise.fsm.certificate.verified import Verified


@frozen(repr=False)
class Certificate(Verified):
    """Hold the result of `verify`.

    Arguments:
        table: the name of the table.
        limits: the limit of each counter; the chain bounds the fallbacks and rotations of a call.
        budget: the budget of the whole call or turn.
        chain: the names of the backends, in order.
        max_tokens: the caller's output cap, in tokens, that the worst cases assume.
        input_tokens: the tokens of the prompt that they assume.
        assistant_turns: the assistant turns of the prompt that they assume; None for any number.
        walked: the limits that the walk used.
        configurations: how many configurations the walk saw.
        properties: what must hold, with the verdicts.
        rows: the argument for each row.
        overlaps: the pairs of rows of one event whose guards can hold at once; their order decides.
        worst: the worst cases; empty if a required property fails.
        kept: what is reserved for the last of several backends, whatever the others do: attempts, and seconds if the
            budget has seconds; None if nothing is reserved, or if a failure may end the call before that backend.
        call: for a turn, the certificate of each of its calls, on which its worst cases rest.
        tools: for a turn, the bounds of its tools: calls of one reply, seconds of a tool, tokens of the results.
    """

    call: Certificate | None = None

    def to_text(self) -> str:
        """Write the certificate as Markdown, as `rungwise verify` prints it."""
        return markdown.as_markdown(self)

    def to_markdown(self, *, calls: bool = True) -> str:
        """Write the certificate as Markdown.

        Arguments:
            calls: whether the certificate of a turn's calls follows.
        """
        return markdown.as_markdown(self, calls=calls)
