"""Who is measured. Each module makes its client once, as its own documentation has it for
production, and gives a call.

`call(url, **options)` returns a function that makes one call, `acall` one that returns an
awaitable, and `stream` one that reads a stream to its end; each returns the text that it got.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contestant:
    """One of those that are measured: its module here, the environment that it runs in, and its
    settings.
    """

    who: str
    module: str
    environment: str
    options: dict[str, Any] = field(default_factory=dict)


BARE = Contestant("httpx, bare", "bare", "httpx")
WHOLE = Contestant("Rungwise", "own", "rungwise", {"stream_calls": False})
STREAMED = Contestant("Rungwise, streamed as by default", "own", "rungwise")
OPENAI = Contestant("openai", "openai_client", "openai")
LITELLM = Contestant("LiteLLM's router", "litellm_router", "litellm")
PYDANTIC_AI = Contestant("pydantic-ai's FallbackModel", "pydantic_ai_models", "pydantic-ai")
LANGCHAIN = Contestant("langchain's with_fallbacks", "langchain_chat", "langchain")
TENACITY = Contestant("tenacity + httpx", "tenacity_httpx", "httpx")
PEERS = (OPENAI, LITELLM, PYDANTIC_AI, LANGCHAIN, TENACITY)
