"""A budget of money per key and day holds: while the clock jumps and the chains are read again, and
in many processes that are killed.
"""

import asyncio
import json
import os
import random
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx
import pytest

from rungwise.adapters.cli.backends import clients_in
from rungwise.adapters.gateway.gateway import Gateway
from rungwise.adapters.gateway.proxy import Proxy
from rungwise.adapters.gateway.serving.keys import Keys, keys_in
from rungwise.adapters.gateway.serving.reload import Reloading, with_default
from rungwise.adapters.stores import redis_store
from rungwise.fsm.values.files import toml_of_file
from rungwise.testing import Clocks, ReceivedRequest, ScriptedReply
from support import protocols
from support.gateways import written
from support.operated import DAY, NOON, backend, hashed
from support.processes import SPAWN
from support.proxied import Exchange, served
from support.runs import Stages
from support.waiting import patience

TEAM = "sk-team-4b1d07c6e2f39a58"
OTHER = "sk-other-90c7f5d2b1e64a3d"
OPS = "sk-ops-5d8e2c17b0a94f63"
CAP = 20


def tokens_of(request: ReceivedRequest) -> int:
    return min(CAP, request.body.get("max_completion_tokens") or request.body["max_tokens"])


def within_its_cap(request: ReceivedRequest) -> ScriptedReply:
    """Answer as a provider does that keeps to caps."""
    usage = {"prompt_tokens": 10, "completion_tokens": tokens_of(request)}
    return ScriptedReply("In", usage=usage)


def money_of(request: ReceivedRequest) -> float:
    return (10 * 1 + tokens_of(request) * 10) / 1_000_000


COST = (10 * 1 + CAP * 10) / 1_000_000
"""What a request costs whose cap is not lowered."""


def files(folder: Path, url: str, requests: int) -> Path:
    """Write a chain, and two keys that may spend so many requests a day each."""
    money = f'budget = {{money = {requests * COST}, per = "day"}}\n'
    text = backend("default", url, more="prices = [1, 10]")
    for name, key in (("team", TEAM), ("other", OTHER)):
        text += f'[key.{name}]\nkey = "{hashed(key)}"\n{money}'
    path = folder / "chains.toml"
    path.write_text(f"[limits]\nretries = 0\n{text}")
    return path


def test_it_holds_while_the_clock_jumps_and_the_chains_are_read_again(
    tmp_path: Path, stages: Stages, monkeypatch: Any
) -> None:
    monkeypatch.setenv("BACKEND_KEY", protocols.KEY)
    draw = random.Random(3)
    days = 0.0
    spent: Counter[tuple[str, float]] = Counter()
    answers: Counter[int | None] = Counter()

    def answer(request: ReceivedRequest) -> ScriptedReply:
        name, begun = request.body["messages"][0]["content"].split()
        spent[name, float(begun)] += round(money_of(request) * 1e9)
        return within_its_cap(request)

    stages[0].play([answer])
    path = files(tmp_path, stages[0].provider.base_url, requests=4)

    def read() -> Any:
        clocks = Clocks(wall_clock=lambda: NOON + days * DAY)
        return clients_in(str(path), testing=clocks), keys_in(toml_of_file(path), "chains.toml")

    async def ask(app: Proxy, key: str) -> None:
        body = written("openai", f"{key} {days}", max_tokens=draw.choice((5, CAP)))
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        exchange = Exchange(app, headers=headers)
        exchange.give(json.dumps(body).encode())
        await exchange.run()
        answers[exchange.status] += 1

    async def main() -> None:
        nonlocal days
        clients, listed = read()
        app = Proxy(Gateway(with_default(clients)), keys=Keys())
        reloading = Reloading(app, read)
        reloading.begin(clients, listed)
        for _ in range(12):
            days = draw.choice((0.0, 0.0, 1.0, -1.0))
            async with asyncio.TaskGroup() as group:
                for _ in range(4):
                    group.create_task(ask(app, draw.choice((TEAM, OTHER))))
                group.create_task(reloading.again())
        await app.gateway.chains["default"].aclose()

    asyncio.run(main())
    assert len(spent) == 6
    assert max(spent.values()) <= round(4 * COST * 1e9)
    # some day of a key came near to its ceiling
    assert max(spent.values()) > round(3 * COST * 1e9)
    assert answers.keys() == {200, 429}


def proxy_until_killed(path: str, store: str, jumps: int, url: Any) -> None:
    """Serve a proxy whose clock jumps between some days, and read its chains again all the time."""
    draw = random.Random(jumps)
    redis_store.TIMEOUT = 20.0  # on a busy machine it may answer late

    def read() -> Any:
        # every call draws its day
        clocks = Clocks(wall_clock=lambda: NOON + draw.choice((0, 0, 1)) * DAY)
        clients = clients_in(path, testing=clocks, store=store)
        return clients, keys_in(toml_of_file(path), path)

    clients, listed = read()
    app = Proxy(Gateway(with_default(clients)), keys=Keys())
    Reloading(app, read).begin(clients, listed)
    with served(app) as address:
        url.put((os.getpid(), address))
        while True:
            time.sleep(3600)


@pytest.mark.full
def test_it_holds_under_processes_that_are_killed(
    tmp_path: Path, stages: Stages, monkeypatch: Any, redis_url: str
) -> None:
    monkeypatch.setenv("BACKEND_KEY", protocols.KEY)
    stages[0].play([within_its_cap])
    path = files(tmp_path, stages[0].provider.base_url, requests=40)
    path.write_text(f'{path.read_text()}[key.ops]\nkey = "{OPS}"\nadmin = true\n')
    urls = SPAWN.Queue()
    arguments = (str(path), redis_url)

    def start(number: int) -> Any:
        process = SPAWN.Process(target=proxy_until_killed, args=(*arguments, number, urls))
        process.start()
        return process

    def ask(address: str, number: int) -> int | None:
        key = OTHER if number % 4 == 0 else TEAM
        headers = {"authorization": f"Bearer {key}"}
        body = written("openai", key, max_tokens=CAP)
        try:
            url = f"{address}/v1/chat/completions"
            r = httpx.post(url, json=body, headers=headers, timeout=patience())
            print("ANS", r.status_code, dict(r.headers).get("retry-after"), r.text[:300])
            return r.status_code
        except httpx.HTTPError:
            return None  # its process was killed

    processes = [start(number) for number in range(8)]
    addresses = [urls.get() for _ in processes]
    answers: Counter[int | None] = Counter()
    try:
        with ThreadPoolExecutor(16) as pool:
            for round_number in range(3):
                asked = []
                for number in range(64):
                    _, address = addresses[number % len(addresses)]
                    asked.append(pool.submit(ask, address, number))
                for _, address in addresses[:: 3 + round_number]:
                    admin = {"authorization": f"Bearer {OPS}"}
                    pool.submit(
                        httpx.post, f"{address}/-/reload", headers=admin, timeout=patience()
                    )
                pid, _ = addresses.pop(0)
                wait(asked, return_when=FIRST_COMPLETED)
                os.kill(pid, 9)
                processes.append(start(8 + round_number))
                answers.update(each.result() for each in asked)
                addresses.append(urls.get())
    finally:
        for process in processes:
            process.kill()
            process.join()
    spent: Counter[str] = Counter()
    for request in stages[0].requests:
        spent[request.body["messages"][0]["content"]] += round(money_of(request) * 1e9)
    most = round(2 * 40 * COST * 1e9)  # of two days
    assert answers[200] > 60
    assert answers[429] > 20
    assert spent.keys() == {TEAM, OTHER}
    assert 0.7 * most <= spent[TEAM] <= most
    assert spent[OTHER] <= most
