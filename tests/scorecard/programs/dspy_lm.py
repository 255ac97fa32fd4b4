"""DSPy's language model with its defaults."""

import os

import dspy

lm = dspy.LM("openai/gpt-4o-mini", api_base=os.environ["OPENAI_BASE_URL"])
print(lm("What should a caller expect?")[0])
