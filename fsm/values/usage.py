"""The tokens that one attempt took, or several."""

from __future__ import annotations

from attrs import frozen


@frozen
class Usage:
    """Count the tokens of one attempt, or of several added up.

    `input_tokens` includes the cached ones; `output_tokens` includes the reasoning. `estimated`
    marks counts that no provider reported: an aborted stream is counted from the text that had
    arrived. `lost` marks those of a stream that broke off before its end could report them; a
    budget counts all that was reserved for it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    lost: bool = False

    @property
    def total_tokens(self) -> int:
        """Add input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_creation_tokens=self.cache_creation_tokens + other.cache_creation_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            estimated=self.estimated or other.estimated,
            lost=self.lost or other.lost,
        )


NO_USAGE = Usage()
