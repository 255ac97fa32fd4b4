"""Rungwise with its defaults and a second backend; `interactive` as the only argument takes that
policy.
"""

import os
import sys

import rungwise

url = os.environ["OPENAI_BASE_URL"]
policy = rungwise.Policy.interactive() if sys.argv[1:] else rungwise.Policy()
chain = [rungwise.OpenAIChat(model, base_url=url) for model in ("gpt-5", "gpt-5-mini")]
with rungwise.Client(chain, policy=policy) as client:
    print(client.call("What should a caller expect?").text)
