"""Have AgentChaos grade Rungwise: `python under_agentchaos.py BASE_URL FAULT...` prints as JSON
whether it passed each fault. AgentChaos changes what `httpx.AsyncClient` returns, so Rungwise
borrows one.
"""

import asyncio
import json
import sys

import agentchaos
import httpx

import rungwise


async def grade(url: str, faults: list[str]) -> None:
    chain = [rungwise.OpenAIChat(model, base_url=url, api_key="any") for model in ("m", "second")]
    async with httpx.AsyncClient(timeout=60) as http:
        client = rungwise.Client(chain, policy=rungwise.Policy.interactive(), async_http=http)

        async def agent(query: str) -> str:
            return (await client.acall(query)).text

        report = await agentchaos.eval(agent, "What should a caller expect?", faults)
    print(json.dumps({each.fault: each.result or each.error for each in report.results}))
    print(json.dumps({each.fault: each.passed for each in report.results}))


asyncio.run(grade(sys.argv[1], sys.argv[2:]))
