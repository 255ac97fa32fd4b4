"""The chain of the programs beside this file, and where `rungwise proxy` serves it to those that
take no transport.
"""

import rungwise

client = rungwise.Client(
    [rungwise.OpenAIChat("gpt-5"), rungwise.Anthropic("claude-sonnet-5")],
    policy=rungwise.Policy.interactive(),
)

PROXY = "http://127.0.0.1:8000"
MODEL = "default"
