"""What a stream hands to its consumer, besides the steps of the journal and the final `Result`."""

from __future__ import annotations

from attrs import frozen


@frozen
class Text:
    """Add `text` to what the consumer shows."""

    text: str


@frozen
class Reasoning:
    """Show a piece of the model's reasoning; it is never part of the result's text."""

    text: str


@frozen
class Discard:
    """Take back `text`, which is exactly the end of what was handed out so far."""

    text: str
