"""The policies that are measured, and what others scored."""

from typing import Final

from rungwise import Limits, Policy, Timeouts

BASELINE: Final = Policy(
    limits=Limits(retries=2, fallbacks=1),
    timeouts=Timeouts(connect=30.0, first_token=30.0, stall=30.0, total=30.0),
)
"""What the published scores were measured with: up to two retries, 30 s timeouts, one fallback."""

ROWS: Final[dict[str, Policy]] = {
    "the defaults": Policy(),
    "interactive": Policy.interactive(),
    "the benchmark's settings": BASELINE,
}

WELL_KNOWN: Final = (("gpt-5", "claude-sonnet-5"), ("grok-4", "gpt-4o"), ("gemini-2.5-pro", "o3"))
"""Names that the capability table knows, of a primary and a fallback: no promised time may depend
on them.
"""

PUBLISHED_ON: Final = "12 September 2026"
PUBLISHED: Final[dict[str, str]] = {
    "its own reference client": "16-0-0-0",
    "DeepSeek Harness": "12-3-1-0",
    "Portkey": "11-2-0-3",
    "Bifrost 2.1.1": "9-3-3-1",
    "LangChain": "9-3-4-0",
    "LiteLLM Router": "9-3-4-0",
    "LiteLLM proxy": "9-3-4-0",
    "openai-python": "6-0-10-0",
}
"""Pass, partial, safe, fail, as the scorecard of that day has them for methodology v0.1."""
