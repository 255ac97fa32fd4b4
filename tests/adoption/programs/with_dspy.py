"""DSPy has an HTTP client of its own: it asks `rungwise proxy`, with its own retries and its cache
off.
"""

import dspy
from chain import MODEL, PROXY

lm = dspy.LM(
    f"openai/{MODEL}",
    api_base=f"{PROXY}/v1",
    api_key="none",
    num_retries=0,
    cache=False,
)


def whole() -> str:
    return lm("What should a caller expect?")[0]


async def awhole() -> str:
    return (await lm.acall("What should a caller expect?"))[0]


if __name__ == "__main__":
    print(whole())
