"""Pydantic AI with a fallback, and the SDK's own retries off, as its documentation advises."""

import openai
from pydantic_ai import Agent
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(openai_client=openai.AsyncOpenAI(max_retries=0))
models = [OpenAIChatModel(name, provider=provider) for name in ("gpt-5", "gpt-5-mini")]
print(Agent(FallbackModel(*models)).run_sync("What should a caller expect?").output)
